from collections import Counter
from dataclasses import replace

import pytest
import torch

from tests.support.tiny import sample, tiny_model
from tests.support.tiny_learner import accuracy_of, are_equal, blank, learn, learner_of, weights_of, without_dropout
from treefine.config import TagSettings
from treefine.errors import TreefineError
from treefine.model.batch import Graphs
from treefine.parsing.decode import Decoder
from treefine.parsing.parser import Parser
from treefine.training.learner import GoldBatch, step_loss
from treefine.training.recipe import InitialSettings, OptimiserSettings, RefineSettings, TrainingSettings
from treefine.training.steps import refined

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

    steps = list(learner.steps(learner.model.batch_of(SHORT[:6]), start, learner.shown_tags(range(6)), gold.graphs))
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
    graphs = Decoder.of(model).graphs(model(batch, Graphs.of(blank(SHORT), model.vocabulary), tags), batch.is_word)
    first = next(other.steps(other.model.batch_of(SHORT), blank(SHORT), tags, gold.graphs))
    (step_loss(first, gold) / sum(first.batch.lengths)).backward()
    other.optimiser.update(0.0)
    again = replace(first, scores=model(batch, graphs, tags))
    (step_loss(again, gold) / sum(first.batch.lengths)).backward()

    assert len(gradients) == 2
    for name, weight in model.named_parameters():
        torch.testing.assert_close(gradients[1][name], weight.grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", ["rngtr", "tagger"])
def test_weights_depend_on_the_seed_only(kind):
    def trained(seed):
        model = {
            "rngtr": lambda: tiny_model(),
            "tagger": lambda: tiny_model(tags=TagSettings("predicted", ("upos",))),
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
    accuracy_of(learner, SHORT, GOLD)
    losses = learn(learner, epochs=1, first=2)

    resumed = learner_of(tiny_model(seed=5), SHORT, parses=GOLD, **settings)
    resumed.model.load_state_dict(weights)
    resumed.optimiser.load_state(state)
    again = learn(resumed, epochs=1, first=2)

    assert again == losses
    assert are_equal(weights_of(resumed.model), weights_of(learner.model))
    assert are_equal(resumed.measured_weights(), learner.measured_weights())
    assert not are_equal(weights_of(learner.model), learner.measured_weights())


def test_an_epoch_sees_each_sentence_once_in_new_batches(monkeypatch):
    learner = learner_of(tiny_model(), SHORT, training=TrainingSettings(epochs=10, batch_pieces=60))
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
        assert len(batches) > 2
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


def test_sampled_heads_follow_their_probabilities_in_training_only():
    sentences = SHORT[:8]
    learner = learner_of(tiny_model(scale=1.0), sentences, refine=RefineSettings(max_steps=2, sampled=1.0))
    without_dropout(learner.model)
    batch, arcs = learner.model.batch_of(sentences), blank(sentences)
    gold = Graphs.of(arcs, learner.model.vocabulary)

    torch.manual_seed(1)
    drawn = [next(learner.steps(batch, arcs, None, gold)) for _ in range(200)]
    best = drawn[0].scores.best_heads
    parsed = next(refined(learner.model.eval(), batch, arcs, None, max_steps=2)).graphs.heads

    is_word = drawn[0].graphs.heads >= 0
    found = torch.stack([step.graphs.heads for step in drawn])
    share = (found == best).float().mean(0)[is_word]
    expected = drawn[0].scores.arcs.softmax(-1).amax(-1)[is_word].detach()
    assert (share - expected).abs().mean() < 0.05
    assert torch.equal(parsed[is_word], best[is_word])
