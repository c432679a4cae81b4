"""One epoch of training: updates, masking, tags, and the loss of a step."""

import math
from collections import Counter
from dataclasses import replace
from unittest.mock import Mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny import ALL_TAGS, sample, tiny_model, tiny_syntr
from tests.support.tiny_learner import accuracy_of, are_equal, blank, learn, learner_of, weights_of, without_dropout
from treefine.config import RelationSettings, TagSettings
from treefine.errors import TreefineError
from treefine.model.batch import Graphs
from treefine.model.vocabulary import tags_in
from treefine.parsing.parser import Parser
from treefine.parsing.refine import BatchStep
from treefine.training.learner import GoldBatch, masked, step_loss
from treefine.training.recipe import OptimiserSettings, RefineSettings, TagTraining, TrainingSettings
from treefine.treebank.graph import Graph

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


def watch_first_steps(learner, monkeypatch):
    """Return a list that collects the tags that each first step reads, and the tags that it learns."""
    seen, read, scoring = [], [], learner.scoring_model
    forward = scoring.forward

    def watched(step, gold, settings):
        if step.t == 1:
            seen.append((read[-1], gold.tags))
        return step_loss(step, gold, settings)

    monkeypatch.setattr(scoring, "forward", lambda *args, **rest: (read.append(args[2]), forward(*args, **rest))[1])
    monkeypatch.setattr("treefine.training.learner.step_loss", watched)
    return seen


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


def test_there_is_one_update_per_step(monkeypatch):
    settings = TrainingSettings(epochs=10, batch_pieces=60)
    learner = learner_of(tiny_model(), SHORT, refine=RefineSettings(max_steps=3), training=settings)
    taken = watch_steps(learner, monkeypatch)
    gradients, progress = watch(learner, monkeypatch)

    n_batches = len(learn(learner, epochs=1, first=2))

    assert 1 < n_batches < len(taken)
    assert len(gradients) == learner.optimiser.n_updates == len(taken)
    assert sorted(set(progress)) == pytest.approx([0.1 + 0.1 * each / n_batches for each in range(n_batches)])
    assert all(weight.grad is None for weight in learner.model.parameters())


@pytest.mark.parametrize("stop", [True, False])
def test_the_gradient_is_that_of_each_steps_mean_loss(settled, stop, monkeypatch):
    start = [SHORT[0].arcs, *blank(SHORT[1:6])]
    gold = GoldBatch(Graphs.of(GOLD[:6], settled.vocabulary), None)
    n_words = sum(map(len, SHORT[:6]))
    refine = RefineSettings(max_steps=3, stop=stop)
    learner = learner_of(settled, SHORT[:6], parses=start, optimiser=FIXED, refine=refine, training=ONE_BATCH)
    each, _ = watch(learner, monkeypatch)

    losses = learn(learner, epochs=1)

    steps = list(learner.steps(learner.model.batch_of(SHORT[:6]), start, learner.shown_tags(range(6)), gold.graphs))
    words = [sum(step.batch.lengths) for step in steps]
    assert words == ([n_words, n_words - len(SHORT[0])] if stop else [n_words] * 3)
    step_losses = [step_loss(step, gold, TagTraining()) for step in steps]
    assert len(each) == len(steps)
    for found, loss, count in zip(each, step_losses, words, strict=True):
        parts = torch.autograd.grad(loss / count, learner.optimiser.parameters, retain_graph=True, allow_unused=True)
        for name, right in zip(learner.optimiser.names, parts, strict=True):
            assert (name in found) == (right is not None)
            if right is not None:
                torch.testing.assert_close(found[name], right, rtol=1e-3, atol=1e-6)
    shown = sum(loss.item() for loss in step_losses) / sum(words)
    assert losses == pytest.approx([shown], rel=1e-4)


def test_each_step_uses_the_weights_that_the_previous_step_updated(monkeypatch):
    rates = OptimiserSettings(learning_rate=0.5, encoder_learning_rate=0.5, warmup=0.0)
    refine = RefineSettings(max_steps=2)
    learner, used = learner_of(tiny_model(), SHORT, refine=refine, optimiser=rates, training=ONE_BATCH), []
    gradients, _ = watch(learner, monkeypatch)
    model, forward = learner.scoring_model, learner.scoring_model.forward
    monkeypatch.setattr(
        model,
        "forward",
        lambda *args, **rest: used.append((weights_of(model), len(gradients))) or forward(*args, **rest),
    )

    learn(learner, epochs=1)

    (first, before), (second, after) = used
    assert (before, after, len(gradients)) == (0, 1, 2)
    assert not are_equal(first, second)


def staged():
    """Return a model in which layer 1 drafts a graph, and layers 2 and 3 each read that of the step before."""
    relations = RelationSettings(first_layer=1)
    return without_dropout(tiny_model(n_layers=3, stages=(1, 2, 3), relations=relations, scale=1.0))


def test_steps_that_share_layers_are_followed_by_one_update_with_the_gradients_of_all_steps(monkeypatch):
    model, sentences = staged(), SHORT[:6]
    gold = GoldBatch(Graphs.of(GOLD[:6], model.vocabulary), None)
    refine = RefineSettings(max_steps=4, stop=False)
    learner = learner_of(model, sentences, optimiser=FIXED, refine=refine, training=ONE_BATCH)
    gradients, _ = watch(learner, monkeypatch)

    learn(learner, epochs=1)

    steps = list(learner.steps(model.batch_of(sentences), blank(sentences), learner.shown_tags(range(6)), gold.graphs))
    of_steps = [
        torch.autograd.grad(
            step_loss(step, gold, TagTraining()) / sum(map(len, sentences)),
            learner.optimiser.parameters,
            retain_graph=True,
            allow_unused=True,
        )
        for step in steps
    ]
    (found,) = gradients
    taught_by = {}
    for name, parts in zip(learner.optimiser.names, zip(*of_steps, strict=True), strict=True):
        taught_by[name] = [step.t for step, part in zip(steps, parts, strict=True) if part is not None]
        if taught_by[name]:
            total = sum(part for part in parts if part is not None)
            torch.testing.assert_close(found[name], total, rtol=1e-3, atol=1e-6)
    assert taught_by["encoder.layers.0.inner.weight"] == [1, 2, 3, 4]
    assert taught_by["encoder.layers.1.inner.weight"] == [2, 3, 4]
    assert taught_by["encoder.layers.2.inner.weight"] == [3, 4]
    assert (taught_by["draft_scorers.0.arc_weight"], taught_by["draft_scorers.1.arc_weight"]) == ([1], [2])
    assert taught_by["scorer.arc_weight"] == [3, 4]


def test_training_lowers_the_loss_of_a_model_with_stages():
    settings = replace(ONE_BATCH, epochs=30)
    learner = learner_of(staged(), SHORT[:6], refine=RefineSettings(max_steps=3), training=settings)

    losses = learn(learner, epochs=settings.epochs)

    assert losses[-1] < 0.5 * losses[0]


def test_weights_depend_on_the_seed_only():
    def trained(seed):
        model = tiny_model(tags=TagSettings("predicted", ("upos",)))
        torch.rand(seed)  # other random numbers have no effect
        learner = learner_of(model, SHORT, training=TrainingSettings(epochs=10, batch_pieces=60, seed=seed))
        return learn(learner, epochs=1), weights_of(model)

    (losses, weights), (same_losses, same), (_, others) = trained(1), trained(1), trained(2)

    assert losses == same_losses
    assert are_equal(weights, same)
    assert not are_equal(weights, others)


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


@pytest.mark.parametrize(
    ("reason", "kind", "message"),
    [
        ("CUDA out of memory", TreefineError, r"There is not enough memory for a batch\..*training\.batch_pieces"),
        ("a slip", RuntimeError, "a slip"),
    ],
)
def test_a_batch_too_large_for_memory_is_one_clear_error_and_other_errors_pass(reason, kind, message, monkeypatch):
    learner = learner_of(tiny_model(), SHORT)
    monkeypatch.setattr(learner.scoring_model, "forward", Mock(side_effect=RuntimeError(reason)))

    with pytest.raises(kind, match=message):
        learn(learner, epochs=1)


@pytest.mark.parametrize("relations", [RelationSettings(), RelationSettings("none")], ids=["rngtr", "syntr"])
def test_trees_and_predicted_tags_are_learned(relations):
    tags, sentences = TagSettings("predicted", ("upos", "xpos")), SHORT[:6]
    model = tiny_model(tags=tags, relations=relations, scale=1.0)

    learn(learner_of(without_dropout(model), sentences), epochs=60)

    untagged = [each.with_tags(upos=["_"] * len(each), xpos=["_"] * len(each)) for each in sentences]
    parsed = Parser(model, device="cpu").parse(untagged)
    assert [(each.upos, each.xpos) for each in parsed] == [(each.upos, each.xpos) for each in sentences]
    assert [each.tree for each in parsed] == [each.graph for each in sentences]


def test_given_tags_shows_tags_in_all_columns_or_one_and_the_rest_is_learned(monkeypatch):
    model = tiny_model(tags=TagSettings("predicted", ("upos", "xpos")))
    training = TrainingSettings(epochs=10, batch_pieces=60, given_tags=0.5)
    learner = learner_of(model, SHORT, training=training)
    seen = watch_first_steps(learner, monkeypatch)
    learn(learner, epochs=8)

    kinds = Counter()
    for shown, learned in seen:
        assert (((learned > 0) & (shown > 0)) == 0).all()  # given tags are not learned,
        is_column_given = (shown > 0).any(1)
        assert torch.equal((learned > 0).any(1), ~is_column_given)  # and each column is either given or learned
        kinds.update(map(tuple, is_column_given.tolist()))
    total = kinds.total()
    assert 0.35 < kinds[False, False] / total < 0.65
    assert 0.12 < kinds[True, True] / total < 0.38
    assert kinds[True, False] > 0.04 * total < kinds[False, True] * 2


WINDOWED = tiny_model(n_positions=40)  # some sentences need several windows
MASK = WINDOWED.subwords.mask_id
SENTENCES = sample()


@given(st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=5), st.floats(0, 0.99), st.integers(0, 2**32))
def test_only_pieces_of_words_are_masked(sentences, share, seed):
    batch = WINDOWED.batch_of(sentences)
    torch.manual_seed(seed)

    found = masked(batch, share, MASK)

    before, after = batch.inputs, found.inputs
    assert torch.equal(before.pieces, WINDOWED.batch_of(sentences).inputs.pieces)  # the input batch
    is_changed = after.pieces != before.pieces
    assert (after.pieces[is_changed] == MASK).all()
    assert (before.words[is_changed] > 0).all()  # not ROOT, CLS, SEP or padding
    names = ("words", "is_first", "is_piece", "places", "rows", "sentences", "starts", "first_pieces")
    assert all(torch.equal(getattr(before, name), getattr(after, name)) for name in names)
    assert (found.lengths, after.row_sizes) == (batch.lengths, before.row_sizes)


def test_a_masked_piece_is_the_mask_token_or_else_the_unknown_token():
    without_mask = tiny_model()
    without_mask.subwords.mask_id = None

    assert learner_of(tiny_model(), SHORT).mask_piece == MASK
    assert learner_of(without_mask, SHORT).mask_piece == without_mask.subwords.unk_id != MASK


def test_pieces_are_masked_in_training_but_not_in_scoring():
    train, dev = SENTENCES[:20], SENTENCES[20:30]

    def learner(share):
        training = TrainingSettings(epochs=10, batch_pieces=200, masking=share)
        return learner_of(tiny_model(), train, training=training)

    plain, masking = learner(0.0), learner(0.9)
    assert accuracy_of(masking, dev, blank(dev)) == accuracy_of(plain, dev, blank(dev))

    learn(plain, epochs=1)
    learn(masking, epochs=1)
    assert not are_equal(weights_of(masking.model), weights_of(plain.model))


KINDS = {
    "rngtr": lambda: tiny_model(),
    "tagger": lambda: tiny_model(tags=TagSettings("predicted", ("upos", "xpos"))),
    "all tags": lambda: tiny_model(tags=ALL_TAGS),
    "syntr": lambda: tiny_syntr(),
}


def short_sentences():
    """Draw sentences of 1 to 8 words, with an unknown label, unknown tags, and an unknown subtype."""
    sentences = sorted((each for each in sample() if len(each) <= 8), key=len)[::4]
    changed = sentences[-1]
    labels = ["zzz", "nsubj:zzz", *changed.labels[2:]]
    changed = changed.with_graph(Graph.of_words(changed.heads, labels))
    tags = ["ZZZ", "_", *changed.upos[2:]]
    return [*sentences[:-1], changed.with_tags(upos=tags, xpos=tags)]


def gold_of(model, sentences):
    graphs = Graphs.of([each.arcs for each in sentences], model.vocabulary)
    return GoldBatch(graphs, None if model.tagger is None else model.given_tags(sentences))


def step_of(model, sentences, chosen):
    """Return a step in which only the chosen sentences are unfinished; they read their gold graphs."""
    batch = model.batch_of(sentences).select(chosen)
    graphs = gold_of(model, sentences).graphs.select(torch.tensor(chosen), batch.n_words)
    scores, _ = model(batch, graphs, None)
    none = torch.zeros(len(chosen), dtype=torch.bool)
    return BatchStep(2, tuple(chosen), batch, scores, graphs, None, none, none, layers=2)


def surprise(scores, right):
    """Return the negative log-probability of the correct name; scores are floats by name."""
    return math.log(sum(math.exp(each) for each in scores.values())) - scores[right]


def slow_loss(model, step, sentences, *, refined=False, weight=1.0):
    """Return the loss, computed word by word from the scores and the names in the treebank."""
    total, vocabulary = 0.0, model.vocabulary
    for row, number in enumerate(step.sentences):
        sentence, own = sentences[number], step.scores.only(row)
        for dep, (head, label) in enumerate(zip(sentence.heads, sentence.labels, strict=True), start=1):
            allowed = [each for each in range(len(sentence) + 1) if each != dep]
            total += surprise({each: float(step.scores.arcs[row, dep, each]) for each in allowed}, head)
            dep_vector, head_vector = own.label_dep[dep], own.label_head[head]
            label_scores = {
                name: float(dep_vector @ weight @ head_vector)
                for name, weight in zip(vocabulary.labels, step.scores.label_weight, strict=True)
            }
            label = label if label in vocabulary.labels else label.partition(":")[0]
            if label in vocabulary.labels:
                total += surprise(label_scores, label)
            has_tags = step.t == 1 or refined  # other steps read the tags of the first
            columns = model.settings.tags.columns if has_tags else ()
            for column, scores in zip(columns, step.scores.tags, strict=False):
                names = getattr(vocabulary, column)
                tag = tags_in(sentence, column)[dep - 1]
                if tag in names:
                    total += weight * surprise(dict(zip(names, scores[row, dep].tolist(), strict=True)), tag)
    return total


@pytest.mark.parametrize("t", [1, 2])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((kind, {}) for kind in KINDS),
        ("all tags", {"refined": True, "weight": 2}),
        ("tagger", {"weight": 0.3}),
    ],
)
@torch.no_grad()
def test_the_loss_equals_a_loop_over_the_words_of_unfinished_sentences(kind, options, t):
    model, sentences = KINDS[kind](), short_sentences()
    longest = max(range(len(sentences)), key=lambda number: len(sentences[number]))

    for chosen in (list(range(len(sentences))), [3, 0, 2], [longest]):
        step = replace(step_of(model, sentences, chosen), t=t)

        loss = step_loss(step, gold_of(model, sentences), TagTraining(**options))

        assert float(loss) == pytest.approx(slow_loss(model, step, sentences, **options), rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_finite_though_forbidden_heads_score_minus_infinity(kind):
    model = KINDS[kind]()
    one_word = next(each for each in sample() if len(each) == 1)
    sentences = [one_word, *short_sentences()[-3:]]
    step = step_of(model, sentences, list(range(len(sentences))))
    assert step.scores.arcs.isinf().any()

    loss = step_loss(step, gold_of(model, sentences), TagTraining())
    loss.backward()

    assert loss.isfinite()
    grads = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
    assert "scorer.arc_weight" in grads
    assert all(each.isfinite().all() for each in grads.values())
