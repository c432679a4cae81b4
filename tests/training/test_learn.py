import math
from collections import Counter
from dataclasses import replace

import pytest
import torch

from tests.support.tiny import ALL_TAGS, sample, tiny_biaffine, tiny_model
from tests.support.tiny_learner import are_equal, blank, learn, learner_of, weights_of, without_dropout
from treefine.config import RelationSettings, TagSettings
from treefine.errors import TreefineError
from treefine.model.batch import Graphs
from treefine.parsing.initial import empty
from treefine.parsing.parser import Parser
from treefine.training.epochs import DevScorer
from treefine.training.learner import GoldBatch, step_loss
from treefine.training.recipe import InitialSettings, OptimiserSettings, RefineSettings, TrainingSettings
from treefine.treebank.graph import Graph
from treefine.treebank.sentence import Sentence

SHORT = [each for each in sample() if len(each) < 12][:12]
GOLD = [each.arcs for each in SHORT]
ONE_BATCH = TrainingSettings(epochs=10, batch_pieces=10_000)
FIXED = OptimiserSettings(
    learning_rate=0.0, encoder_learning_rate=0.0, clip_gradient_norm=0.0
)  # the weights never change


def watch(learner, monkeypatch):
    """Return two lists that collect the gradients and the progress of each update."""
    gradients, progress = [], []
    update, names = learner.optimiser.update, learner.optimiser.names

    def watched(done):
        found = zip(names, learner.optimiser.parameters, strict=True)
        gradients.append({name: each.grad.clone() for name, each in found if each.grad is not None})
        progress.append(done)
        update(done)

    monkeypatch.setattr(learner.optimiser, "update", watched)
    return gradients, progress


def watch_steps(learner, monkeypatch):
    """Return a list that collects the sentences of each step."""
    taken, steps = [], learner.steps

    def watched(*arguments, **options):
        for step in steps(*arguments, **options):
            taken.append(step.sentences)
            yield step

    monkeypatch.setattr(learner, "steps", watched)
    return taken


@pytest.fixture(scope="module")
def settled():
    """Return a model whose second step repeats its first, because it has memorised its sentences."""
    model = without_dropout(tiny_model(scale=1.0))
    learn(learner_of(model, SHORT[:6]), epochs=60)
    return model


def test_converged_sentences_leave_the_loop_only_if_stop_is_on(settled, monkeypatch):
    start = [SHORT[0].arcs, *blank(SHORT[1:6])]  # the first is already correct
    learner = learner_of(settled, SHORT[:6], parses=start, optimiser=FIXED, training=ONE_BATCH)
    taken = watch_steps(learner, monkeypatch)

    learn(learner, epochs=1)
    assert [len(each) for each in taken] == [6, 5]

    taken.clear()
    learner.recipe = replace(learner.recipe, refine=RefineSettings(max_steps=3, stop=False))
    learn(learner, epochs=1)
    assert taken == [tuple(range(6))] * 3


@pytest.mark.parametrize("update", ["each", "sum"])
def test_there_is_one_update_per_step_or_per_batch(update, monkeypatch):
    settings = TrainingSettings(epochs=10, batch_pieces=60)
    learner = learner_of(tiny_model(), SHORT, refine=RefineSettings(max_steps=3, update=update), training=settings)
    taken = watch_steps(learner, monkeypatch)
    gradients, progress = watch(learner, monkeypatch)

    n_batches = len(learn(learner, epochs=1, first=2))

    assert 1 < n_batches < len(taken)
    assert len(gradients) == learner.optimiser.n_updates == (n_batches if update == "sum" else len(taken))
    assert sorted(set(progress)) == pytest.approx([0.1 + 0.1 * each / n_batches for each in range(n_batches)])
    assert all(weight.grad is None for weight in learner.model.parameters())


@pytest.mark.parametrize("stop", [True, False])
def test_the_gradient_is_that_of_each_steps_mean_loss_or_of_their_sum(settled, stop, monkeypatch):
    """Compares with autograd over the losses of all steps."""
    start = [SHORT[0].arcs, *blank(SHORT[1:6])]
    gold = GoldBatch(Graphs.of(GOLD[:6], settled.vocabulary), None)
    n_words = sum(map(len, SHORT[:6]))

    def gradients_of(update):
        refine = RefineSettings(max_steps=3, stop=stop, update=update)
        learner = learner_of(settled, SHORT[:6], parses=start, optimiser=FIXED, refine=refine, training=ONE_BATCH)
        gradients, _ = watch(learner, monkeypatch)
        return gradients, learn(learner, epochs=1), learner

    (summed,), losses, learner = gradients_of("sum")
    each, each_losses, _ = gradients_of("each")

    steps = list(learner.steps(learner.model.batch_of(SHORT[:6]), start, learner.tags_of(SHORT[:6]), stops=stop))
    words = [sum(step.batch.lengths) for step in steps]
    assert words == ([n_words, n_words - len(SHORT[0])] if stop else [n_words] * 3)
    step_losses = [step_loss(step, gold) for step in steps]
    expected = torch.autograd.grad(sum(step_losses) / n_words, learner.optimiser.parameters, retain_graph=True)
    assert summed.keys() == set(learner.optimiser.names)
    for name, right in zip(learner.optimiser.names, expected, strict=True):
        torch.testing.assert_close(summed[name], right, rtol=1e-3, atol=1e-6)
    assert len(each) == len(steps)
    for found, loss, count in zip(each, step_losses, words, strict=True):
        parts = torch.autograd.grad(loss / count, learner.optimiser.parameters, retain_graph=True, allow_unused=True)
        for name, right in zip(learner.optimiser.names, parts, strict=True):
            assert (name in found) == (right is not None)
            if right is not None:
                torch.testing.assert_close(found[name], right, rtol=1e-3, atol=1e-6)
    shown = sum(loss.item() for loss in step_losses) / sum(words)
    assert losses == each_losses == pytest.approx([shown], rel=1e-4)


def test_each_step_uses_the_weights_that_the_previous_step_updated(monkeypatch):
    """Compares with a manual update, after which the graph of the first step is scored."""
    model = without_dropout(tiny_model(scale=1.0))
    settings = OptimiserSettings(
        learning_rate=0.5, encoder_learning_rate=0.5, eps=1.0, warmup=0.0, clip_gradient_norm=0.0
    )
    start = weights_of(model)
    learner = learner_of(model, SHORT, refine=RefineSettings(max_steps=2), optimiser=settings, training=ONE_BATCH)
    gradients, _ = watch(learner, monkeypatch)
    learn(learner, epochs=1)

    model.load_state_dict(start)
    other = learner_of(model, SHORT, refine=RefineSettings(max_steps=2), optimiser=settings, training=ONE_BATCH)
    gold = GoldBatch(Graphs.of(GOLD, model.vocabulary), None)
    batch, tags = model.batch_of(SHORT), model.given_tags(SHORT)
    graphs = other.decoder.graphs(model(batch, Graphs.of(blank(SHORT), model.vocabulary), tags), batch.is_word)
    first = next(other.steps(other.model.batch_of(SHORT), blank(SHORT), other.tags_of(SHORT)))
    (step_loss(first, gold) / sum(first.batch.lengths)).backward()
    other.optimiser.update(0.0)
    again = replace(first, scores=model(batch, graphs, tags))
    (step_loss(again, gold) / sum(first.batch.lengths)).backward()

    assert len(gradients) == 2
    for name, weight in model.named_parameters():
        torch.testing.assert_close(gradients[1][name], weight.grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", ["rngtr", "syntr", "tagger", "biaffine"])
def test_weights_depend_on_the_seed_only(kind):
    def trained(seed):
        model = {
            "rngtr": lambda: tiny_model(),
            "syntr": lambda: tiny_model(relations=RelationSettings(graph="none")),
            "tagger": lambda: tiny_model(tags=TagSettings("predicted", ("upos",))),
            "biaffine": lambda: tiny_biaffine(),
        }[kind]()
        torch.rand(seed)  # other random numbers have no effect
        learner = learner_of(model, SHORT, training=TrainingSettings(epochs=10, batch_pieces=60, seed=seed))
        return learn(learner, epochs=1), weights_of(model)

    (losses, weights), (same_losses, same), (_, others) = trained(1), trained(1), trained(2)

    assert losses == same_losses
    assert are_equal(weights, same)
    assert not are_equal(weights, others)


def test_the_draws_of_an_epoch_depend_only_on_its_number():
    """As after a checkpoint: the second epoch starts from the weights and the optimiser of the first."""
    settings = {
        "initial": InitialSettings("files", train="a", dev="b", empty_share=0.3, noised_share=0.3),
        "optimiser": OptimiserSettings(learning_rate=0.01, encoder_learning_rate=0.01, ema=0.9),
        "training": TrainingSettings(epochs=10, batch_pieces=60),
    }
    learner = learner_of(tiny_model(), SHORT, parses=GOLD, **settings)
    learn(learner, epochs=1)
    weights = weights_of(learner.model)
    state = {name: each.clone() for name, each in learner.optimiser.state().items()}
    DevScorer(SHORT, learner.model.vocabulary.labels, rule="conll18").accuracy(learner, GOLD)
    losses = learn(learner, epochs=1, first=2)

    resumed = learner_of(tiny_model(seed=5), SHORT, parses=GOLD, **settings)
    resumed.model.load_state_dict(weights)
    resumed.optimiser.load_state(state)
    again = learn(resumed, epochs=1, first=2)

    assert again == losses
    assert are_equal(weights_of(resumed.model), weights_of(learner.model))
    assert are_equal(resumed.measured_weights(), learner.measured_weights())
    assert not are_equal(weights_of(learner.model), learner.measured_weights())


def test_the_size_of_a_sentence_counts_only_the_pieces_that_the_encoder_reads():
    """Check that the encoder reads only the first pieces of a very long word, such as a link."""
    words = Sentence.of_words(["see", "ab" * 40])
    sentence, model = words.with_graph(Graph.of_words([0, 1], ["root", "obj"])), tiny_model(n_positions=40)

    learner = learner_of(model, [sentence])

    assert learner.inputs.sizes == [model.batch_of([sentence]).inputs.pieces.shape[1]]


def test_an_epoch_sees_each_sentence_once_in_new_batches(monkeypatch):
    learner = learner_of(tiny_biaffine(), SHORT, training=TrainingSettings(epochs=10, batch_pieces=30))
    seen, learn_from = [], learner.learn_from
    monkeypatch.setattr(
        learner,
        "learn_from",
        lambda numbers, *rest: seen.append([SHORT[each] for each in numbers]) or learn_from(numbers, *rest),
    )

    shares = [share for share, _ in learner.epoch(1)]
    first, seen[:] = list(seen), []
    list(learner.epoch(2))

    assert shares == pytest.approx([(each + 1) / len(first) for each in range(len(first))])
    for batches in (first, seen):
        assert sorted(each.sent_id for batch in batches for each in batch) == sorted(each.sent_id for each in SHORT)
        assert all(len(batch) * (max(map(len, batch)) + 1) <= 30 for batch in batches)
    assert first != seen


TOO_LARGE = r"There is not enough memory for a batch\..*training\.batch_pieces"


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (RuntimeError("CUDA out of memory"), TreefineError, TOO_LARGE),
        (RuntimeError("can't allocate memory"), TreefineError, TOO_LARGE),
        (MemoryError("no room"), TreefineError, TOO_LARGE),
        (RuntimeError("a slip"), RuntimeError, "a slip"),
    ],
)
def test_a_batch_too_large_for_memory_is_one_clear_error_and_other_errors_pass(error, raised, message, monkeypatch):
    learner = learner_of(tiny_model(), SHORT)

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(learner.scoring_model, "forward", fail)

    with pytest.raises(raised, match=message):
        learn(learner, epochs=1)


def test_predicted_tags_are_learned():
    model, sentences = tiny_model(tags=TagSettings("predicted", ("upos", "xpos")), scale=1.0), SHORT[:6]

    learn(learner_of(without_dropout(model), sentences, refine=RefineSettings(max_steps=2)), epochs=60)

    untagged = [each.with_tags(upos=["_"] * len(each), xpos=["_"] * len(each)) for each in sentences]
    parsed = Parser(model, device="cpu", max_steps=2).parse(untagged)
    assert [(each.upos, each.xpos) for each in parsed] == [(each.upos, each.xpos) for each in sentences]
    assert [each.tree for each in parsed] == [each.graph for each in sentences]


@pytest.mark.parametrize("kind", ["rngtr", "mpnet", "syntr", "biaffine"])
def test_in_bfloat16_losses_are_finite_and_close_to_those_in_float32(kind):
    model = without_dropout(
        {
            "rngtr": lambda: tiny_model(scale=1.0),
            "mpnet": lambda: tiny_model(family="mpnet", scale=1.0),
            "syntr": lambda: tiny_model(relations=RelationSettings(graph="none"), scale=1.0),
            "biaffine": lambda: tiny_biaffine(scale=1.0),
        }[kind]()
    )
    parses = GOLD if model.settings.reads_graph else None
    start = weights_of(model)

    def losses(precision):
        model.load_state_dict(start)
        settings = TrainingSettings(epochs=10, batch_pieces=60, precision=precision)
        refine = RefineSettings(max_steps=2 if model.settings.reads_graph else 1, stop=False)
        return learn(learner_of(model, SHORT, parses=parses, refine=refine, training=settings), epochs=2)

    rough, exact = losses("bfloat16"), losses("float32")

    assert all(map(math.isfinite, rough))
    assert rough != exact == losses("auto")
    assert rough == pytest.approx(exact, rel=0.1)
    assert all(weight.dtype == torch.float32 and weight.isfinite().all() for weight in model.parameters())


def test_one_batch_can_mix_parses_and_empty_graphs():
    """Check that the loss falls with a gold graph to copy and with an empty graph."""
    model = tiny_model(scale=1.0)
    initial = InitialSettings("files", train="a", dev="b", empty_share=0.5)
    learner = learner_of(without_dropout(model), SHORT, parses=GOLD, initial=initial, training=ONE_BATCH)

    losses = learn(learner, epochs=10)

    assert losses[-1] < 0.8 * losses[0]


def test_each_process_draws_its_own_dropout():
    learner, seeds = learner_of(tiny_model(), SHORT), []
    for rank in range(2):
        learner.processes.rank = rank
        next(learner.epoch(1))
        seeds.append(torch.initial_seed())

    assert seeds[0] != seeds[1]


def test_tf32_is_used_only_in_training(monkeypatch):
    learner = learner_of(model := tiny_model(), SHORT)
    forward = learner.scoring_model.forward
    while_learning, between, while_measuring = set(), set(), set()

    def look(*arguments, **options):
        (while_learning if model.training else while_measuring).add(torch.backends.cuda.matmul.allow_tf32)
        return forward(*arguments, **options)

    monkeypatch.setattr(learner.scoring_model, "forward", look)
    for _ in learner.epoch(1):
        between.add(torch.backends.cuda.matmul.allow_tf32)
    DevScorer(SHORT, model.vocabulary.labels, rule="conll18").accuracy(learner, blank(SHORT))

    assert (while_learning, between, while_measuring) == ({True}, {False}, {False})


def test_dev_batches_too_large_for_memory_are_halved(monkeypatch):
    learner = learner_of(model := tiny_model(), SHORT)
    scorer = DevScorer(SHORT, model.vocabulary.labels, rule="conll18")
    right, forward = scorer.accuracy(learner, blank(SHORT)), learner.scoring_model.forward

    def fail(batch, *rest, **options):
        if len(batch) > 2:
            raise RuntimeError("CUDA out of memory")
        return forward(batch, *rest, **options)

    monkeypatch.setattr(learner.scoring_model, "forward", fail)

    assert scorer.accuracy(learner, blank(SHORT)) == right


def test_sentences_of_one_length_are_batched_differently_in_each_epoch(monkeypatch):
    same = [SHORT[0]] * 12
    learner = learner_of(tiny_model(), same, training=TrainingSettings(epochs=10, batch_pieces=4 * 20))
    found, learn_from = [], learner.learn_from
    monkeypatch.setattr(
        learner, "learn_from", lambda numbers, *rest: (found.append(frozenset(numbers)), learn_from(numbers, *rest))[1]
    )

    def members(number):
        found.clear()
        learn(learner, epochs=1, first=number)
        return set(found)

    first, second = members(1), members(2)

    assert len(first) > 2
    assert sorted(each for batch in first for each in batch) == list(range(12))
    assert first != second


def test_given_tags_shows_tags_in_all_columns_or_one_and_the_rest_is_learned(monkeypatch):
    model = tiny_model(tags=TagSettings("predicted", ("upos", "xpos")))
    training = TrainingSettings(epochs=10, batch_pieces=60, given_tags=0.5)
    learner = learner_of(model, SHORT, training=training)
    seen = []

    def watched(step, gold, **options):
        seen.append((step.t, step.sentences, gold.tags, read[-1]))
        return step_loss(step, gold, **options)

    read, scoring = [], learner.scoring_model
    forward = scoring.forward
    monkeypatch.setattr(scoring, "forward", lambda *args, **rest: (read.append(args[2]), forward(*args, **rest))[1])
    monkeypatch.setattr("treefine.training.learner.step_loss", watched)
    learn(learner, epochs=8)

    kinds = Counter()
    for t, _, learned, given in seen:
        if t == 1:
            assert (((learned > 0) & (given > 0)) == 0).all()  # given tags are not learned,
            is_column_given = (given > 0).any(1)
            assert torch.equal((learned > 0).any(1), ~is_column_given)  # and each column is either given or learned
            kinds.update(map(tuple, is_column_given.tolist()))
    total = kinds.total()
    assert 0.35 < kinds[False, False] / total < 0.65
    assert 0.12 < kinds[True, True] / total < 0.38
    assert kinds[True, False] > 0.04 * total < kinds[False, True] * 2


@pytest.mark.parametrize("refined", [True, False])
def test_the_settings_of_tags_in_the_recipe_reach_the_loss(monkeypatch, refined):
    model = tiny_model(tags=replace(ALL_TAGS, refined=refined))
    learner, seen = learner_of(model, SHORT), []
    learner.recipe = replace(learner.recipe, tags=replace(learner.recipe.tags, weight=0.25))

    def watched(step, gold, **options):
        seen.append(options)
        return step_loss(step, gold, **options)

    monkeypatch.setattr("treefine.training.learner.step_loss", watched)
    learn(learner, epochs=1)

    assert seen
    assert all(each == {"refines_tags": refined, "tag_weight": 0.25} for each in seen)


def test_given_tags_leave_case_as_it_is():
    model = tiny_model(tags=ALL_TAGS)
    learner = learner_of(model, 5 * SHORT, training=TrainingSettings(given_tags=0.5))
    gold = model.tag_inputs(5 * SHORT, read=ALL_TAGS.columns)

    model.train()
    found = learner.tags_of(5 * SHORT)

    assert torch.equal(found[..., 4], gold[..., 4])
    is_given = [tuple(map(bool, row)) for row in (found[..., :4] > 0).any(1).tolist()]
    assert {sum(row) for row in is_given} == {0, 1, 2, 3, 4}
    kept = found[..., :4] > 0
    assert torch.equal(found[..., :4][kept], gold[..., :4][kept])


def test_dev_is_scored_with_predicted_tags_even_if_training_gives_some():
    model = tiny_model(tags=TagSettings("predicted"))
    learner = learner_of(model, SHORT, training=TrainingSettings(given_tags=0.9))

    model.eval()
    assert learner.tags_of(SHORT) is None


def test_sampled_heads_follow_their_probabilities_in_training_only():
    sentences = SHORT[:8]
    learner = learner_of(tiny_model(scale=1.0), sentences, refine=RefineSettings(max_steps=2, sampled=1.0))
    without_dropout(learner.model)
    arcs = list(empty(sentences))

    torch.manual_seed(1)
    learner.model.train()
    drawn = [next(learner.steps(learner.model.batch_of(sentences), arcs, None)) for _ in range(200)]
    best = next(learner.steps(learner.model.batch_of(sentences), arcs, None)).scores.best_heads
    learner.model.eval()
    parsed = next(learner.steps(learner.model.batch_of(sentences), arcs, None)).graphs.heads

    is_word = drawn[0].graphs.heads >= 0
    found = torch.stack([step.graphs.heads for step in drawn])
    share = (found == best).float().mean(0)[is_word]
    expected = drawn[0].scores.arcs.softmax(-1).amax(-1)[is_word].detach()
    assert (share - expected).abs().mean() < 0.05
    assert torch.equal(parsed[is_word], best[is_word])


def test_no_head_is_sampled_by_default():
    sentences = SHORT[:8]
    learner = learner_of(tiny_model(scale=1.0), sentences)
    without_dropout(learner.model)
    learner.model.train()

    step = next(learner.steps(learner.model.batch_of(sentences), list(empty(sentences)), None))

    is_word = step.graphs.heads >= 0
    assert torch.equal(step.graphs.heads[is_word], step.scores.best_heads[is_word])
