"""The loop of Eq. 1, compared with the same loop for one sentence; batch invariance."""

import math
import random

import numpy as np
import pytest
import torch
from hypothesis import event
from hypothesis import given as given_by_hypothesis
from hypothesis import strategies as st

from tests.support.tiny import sample, short, tiny_model
from tests.support.tiny_learner import blank
from tests.support.wrapped_models import Noisy
from treefine import Parser, fast
from treefine.config import RelationSettings, TagSettings
from treefine.model.batch import Batch, Graphs, PieceInputs
from treefine.model.scorer import Scores
from treefine.parsing import plan as plans
from treefine.parsing import refine as stable
from treefine.parsing.decode import Decoder
from treefine.parsing.refine import expected_stability, refine

TAGGER = TagSettings("predicted", ("upos", "xpos"))


def run(model, sentences, arcs, *, max_steps, tags=None, predict_tags=False):
    """Return the steps of each sentence in one batch as (t, graph, converged)."""
    decoder = Decoder(model.vocabulary.label_id("root"))
    found = [[] for _ in sentences]
    sizes = []

    def score(batch, graphs, tags, t):
        sizes.append(len(batch))
        return model(batch, graphs, tags)

    with torch.no_grad():
        for step in refine(
            score,
            model.batch_of(sentences),
            Graphs.of(arcs, model.vocabulary),
            max_steps=max_steps,
            decode=lambda scores, batch, t: decoder.graphs(scores, batch.is_word),
            tags=tags,
            predict_tags=predict_tags,
        ):
            for row, number in enumerate(step.sentences):
                length = step.batch.lengths[row]
                heads, labels = step.graphs.heads[row, 1 : length + 1], step.graphs.labels[row, 1 : length + 1]
                found[number].append((step.t, heads.tolist(), labels.tolist(), bool(step.converged[row])))
    return found, sizes


def slow_loop(model, sentence, arcs, max_steps):
    """Run Eq. 1 for one sentence, as in the paper."""
    decoder = Decoder(model.vocabulary.label_id("root"))
    batch = model.batch_of([sentence])
    graph = Graphs.of([arcs], model.vocabulary)
    steps = []
    for t in range(1, max_steps + 1):
        with torch.no_grad():
            scores = model(batch, graph, model.given_tags([sentence]))
            refined = decoder.graphs(scores, batch.is_word)
        is_same = refined.heads.tolist() == graph.heads.tolist() and refined.labels.tolist() == graph.labels.tolist()
        steps.append((t, refined.heads[0, 1:].tolist(), refined.labels[0, 1:].tolist(), is_same))
        if is_same:
            break
        graph = refined
    return steps


@pytest.mark.parametrize("start", ["empty", "gold"])
@pytest.mark.parametrize("graph", ["labelled", "unlabelled"])
def test_a_batch_takes_the_steps_that_each_sentence_takes_alone(start, graph):
    model = tiny_model(relations=RelationSettings(graph=graph), scale=1.5)
    sentences = short(30)
    arcs = blank(sentences) if start == "empty" else [sentence.arcs for sentence in sentences]

    found, sizes = run(model, sentences, arcs, max_steps=6, tags=model.given_tags(sentences))

    assert found == [slow_loop(model, s, a, 6) for s, a in zip(sentences, arcs, strict=True)]
    assert len({len(steps) for steps in found}) > 1  # they converge at different steps, and leave the batch
    assert sizes == [sum(len(steps) >= t for steps in found) for t in range(1, len(sizes) + 1)]


def test_tags_predicted_in_the_first_step_are_read_in_the_later_ones():
    model, sentences, read = tiny_model(tags=TAGGER), sample(4), []
    original = model.forward

    def forward(batch, graphs=None, tags=None, **rest):
        scores = original(batch, graphs, tags, **rest)
        read.append((batch.lengths, tags, torch.stack([each.argmax(-1) + 1 for each in scores.tags], dim=-1)))
        return scores

    model.forward = forward
    run(model, sentences, blank(sentences), max_steps=3, predict_tags=True)

    (_, first, predicted), (lengths, second, _), (remaining, third, repeated) = read
    assert first is None
    for row, sentence in enumerate(sentences):
        words = slice(1, len(sentence) + 1)
        assert torch.equal(second[row, words], predicted[row, words])
        assert not second[row, 0].any()
        assert not second[row, len(sentence) + 1 :].any()
    for row, length in enumerate(remaining):  # these still change; their tags are not predicted again
        words, before = slice(length + 1), lengths.index(length)
        assert torch.equal(third[row, words], second[before, words])
        assert (repeated[row, words] != predicted[before, words]).any()  # though they would differ


# Batch invariance: a sentence has the same tree, and stops at the same step, whatever else is in its batch


MODELS = {
    "given tags": lambda: tiny_model(),
    "predicted tags": lambda: tiny_model(tags=TAGGER),
    "windows": lambda: tiny_model(n_positions=16),
}


def trees(model, sentences, batch_pieces, **options):
    parser = Parser(model, device="cpu", batch_pieces=batch_pieces, **options)
    return [parsed.tree for parsed in parser.parse(sentences)]


@pytest.mark.parametrize("kind", MODELS)
def test_batches_and_order_change_no_tree(kind):
    model = MODELS[kind]()
    sentences = short(14)
    alone = [next(Parser(model, device="cpu").stream_trees([sentence])) for sentence in sentences]

    for batch_pieces in (30, 200, 10_000):
        order = list(range(len(sentences)))
        random.Random(batch_pieces).shuffle(order)
        parsed = Parser(model, device="cpu", batch_pieces=batch_pieces).stream_trees([sentences[n] for n in order])
        assert list(parsed) == [alone[number] for number in order]


CHAIN = [[0.0, 0, 0], [9, 0, 0], [0, 9, 0]]  # word 2 → word 1 → ROOT
TIE = [[0.0, 0, 0], [9, 0, 9], [0, 9, 0]]
CYCLE = [[0.0, 0, 0], [0, 0, 9], [0, 9, 0]]  # two equally good trees
CLEAR = torch.tensor([[0.0, 0], [5, 0], [5, 0]])  # two labels, or tags, per word
DRAW = torch.tensor([[0.0, 0], [5, 0], [5, 5]])


def scored_alone(arcs, labels, tags, initial, *, needs_trees, stop_above=1.0):
    """Return the sentences that are scored alone, given their scores in a batch."""

    def score(batch, graphs, _):
        rows = [number - 2 for number in batch.lengths]
        asked.append(rows)
        n_words = batch.n_words
        padded = torch.full((len(rows), n_words, n_words), -torch.inf)
        vectors, tagged = torch.zeros((len(rows), n_words, 2)), torch.zeros((len(rows), n_words, 2))
        for place, row in enumerate(rows):
            padded[place, 3:, 0] = 9  # each sentence has more words than the one before, attached to the first word
            padded[place, 3 : row + 3, 1] = 18
            padded[place, :3, :3] = torch.tensor(arcs[row])
            vectors[place], tagged[place] = torch.tensor([5.0, 0]), torch.tensor([5.0, 0])
            vectors[place, :3], tagged[place, :3] = labels[row], tags[row]
        padded[:, range(n_words), range(n_words)] = -torch.inf
        weight = torch.eye(2)[:, :, None].expand(2, 2, 2) / 2
        return Scores(padded, vectors, torch.ones_like(vectors), weight, (tagged,))

    asked = []
    lengths = [row + 2 for row in range(len(arcs))]
    shape = (len(arcs), max(lengths) + 1)
    pieces = [[(7,)] * length for length in lengths]
    words = PieceInputs.of(pieces, cls_id=1, sep_id=2, pad_id=0, n_positions=128)
    heads = torch.full(shape, -1)
    found = torch.full_like(heads, -1)
    for row, given_heads in enumerate(initial):
        if given_heads:
            heads[row, 1 : lengths[row] + 1] = torch.tensor([*given_heads, *[1] * row])
            found[row, 1 : lengths[row] + 1] = 0
    batch, asked_for = Batch.of(words, lengths), {"needs_trees": needs_trees, "stop_above": stop_above}
    scores = stable.stable_scores(score, Decoder(), batch, Graphs(heads, found), None, **asked_for)
    assert set(scores.rescored_rows) == {row for rows in asked[1:] for row in rows}
    return sorted(scores.rescored_rows)


def test_only_sentences_with_close_heads_labels_or_tags_are_scored_alone():
    arcs, labels, tags = [CHAIN, TIE, CHAIN, CHAIN], [CLEAR, CLEAR, DRAW, CLEAR], [CLEAR, CLEAR, CLEAR, DRAW]

    assert scored_alone(arcs, labels, tags, [None] * 4, needs_trees=False) == [1, 2, 3]


def test_a_graph_that_is_not_a_tree_is_scored_alone_if_a_tree_is_needed():
    two = {"arcs": [CHAIN, CYCLE], "labels": [CLEAR] * 2, "tags": [CLEAR] * 2}

    assert scored_alone(**two, initial=[None, None], needs_trees=False) == []
    assert scored_alone(**two, initial=[None, None], needs_trees=True) == [1]
    assert scored_alone(**two, initial=[[0, 1], [2, 1]], needs_trees=False) == [
        1
    ]  # it has converged, so this step is its last
    assert scored_alone(**two, initial=[None, None], needs_trees=False, stop_above=0.5) == [1]  # it is sure enough


@given_by_hypothesis(st.integers(0, 10_000), st.integers(2, 6), st.booleans())
def test_a_tree_that_leads_clearly_is_the_best_one_in_every_batch(seed, n_words, is_projective):
    generator = torch.Generator().manual_seed(seed)
    shape = (n_words + 1, n_words + 1)
    arcs = torch.randint(0, 3, shape, generator=generator) + 0.004 * torch.rand(shape, generator=generator)
    arcs[range(n_words + 1), range(n_words + 1)] = -torch.inf
    scores = Scores(arcs[None], *torch.ones(2, 1, n_words + 1, 1), torch.tensor([[[1.0]], [[2.0]]]))
    decoder = Decoder(is_projective=is_projective)

    is_clear = stable.leads_clearly(scores, decoder)

    event(f"clear: {is_clear}")
    if is_clear:
        best = decoder.best_heads(arcs)
        against = torch.ones(shape)  # in the worst batch, the arcs of the tree score too low and all others too high
        against[range(1, n_words + 1), best[1:]] = -1
        largest = arcs.masked_fill(arcs.isinf(), 0).amax(-1, keepdim=True).clamp(min=1)
        in_a_batch = arcs.double() + 0.499 * stable.TOLERANCE * largest * against
        assert (decoder.best_heads(in_a_batch) == best).all()


def test_close_decisions_are_made_on_scores_that_do_not_depend_on_the_batch(monkeypatch):
    sentences = short()
    model = tiny_model(scale=0.3)  # nearly all scores are close
    noisy = Noisy(model, 0.4 * stable.TOLERANCE)

    alone = trees(noisy, sentences, 1)

    assert trees(noisy, sentences, 300) == alone
    assert trees(noisy, sentences, 3000) == alone
    monkeypatch.setattr(plans, "stable_scores", lambda score, _, *rest, **__: score(*rest))
    assert trees(noisy, sentences, 300) != alone


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("scale", [1.0, 3.0, 10.0, 30.0])
def test_scores_of_one_sentence_differ_between_batches_by_far_less_than_the_tolerance(scale, precision):
    model = fast.parsing_model(tiny_model(scale=scale), torch.device("cpu"), precision)
    sentences = sample(24)
    with torch.no_grad():
        together = model(model.batch_of(sentences, padded_to=4), None, model.given_tags(sentences)).arcs

        for row, sentence in enumerate(sentences):
            alone = model(model.batch_of([sentence], padded_to=4), None, model.given_tags([sentence])).arcs[0]
            n_words = len(sentence) + 1
            is_arc = ~torch.eye(n_words, dtype=torch.bool)
            difference = (together[row, :n_words, :n_words] - alone)[is_arc].abs().max()
            assert 2 * difference < 0.5 * stable.TOLERANCE * max(1, alone[is_arc].abs().max())


# Early stopping: a sentence that is sure enough takes no further step


@st.composite
def scored_words(draw):
    """Draw scores of heads and labels of a batch, the mask of dependents, and the mask of unchanged words."""
    n_sentences, n_words, n_labels = draw(st.integers(1, 3)), draw(st.integers(1, 5)), draw(st.integers(1, 4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))
    arcs = draw(st.sampled_from([0.1, 1.0, 10.0])) * torch.randn(n_sentences, n_words, n_words + 1, generator=generator)
    arcs[..., 1] = draw(st.sampled_from([0.0, -math.inf]))
    labels = 3 * torch.randn(n_sentences, n_words, n_labels, generator=generator)
    is_dependent, is_same = (torch.rand(2, n_sentences, n_words, generator=generator) < 0.7).unbind(0)
    return arcs, labels, is_dependent, is_same


@given_by_hypothesis(scored_words())
def test_expected_stability_is_the_mean_probability_with_unchanged_words_as_1(scored):
    arcs, labels, is_dependent, is_same = scored

    found = expected_stability(*scored)

    for row, sure in enumerate(found.tolist()):
        words = [word for word in range(arcs.shape[1]) if is_dependent[row, word]]
        each = [
            1.0
            if is_same[row, word]
            else float(arcs[row, word].softmax(-1).max() * labels[row, word].softmax(-1).max())
            for word in words
        ]
        assert sure == pytest.approx(np.mean(each) if each else 0, abs=1e-6)


def sure_of(step, before):
    """Return the expected stability of one step of one sentence, computed from the step."""
    probabilities = step.arc_probabilities[1:].max(1) * step.label_probabilities[1:].max(1)
    if before is not None:
        old = zip(before.heads[1:], before.labels[1:], strict=True)
        new = zip(step.graph.heads[1:], step.graph.labels[1:], strict=True)
        probabilities[[a == b for a, b in zip(old, new, strict=True)]] = 1
    return probabilities.mean()


def slow_parse(parser, sentence, stop_above):
    """Return the tree of the first step that is sure enough or has converged."""
    before = None
    for step in parser.steps(sentence):
        if step.converged or sure_of(step, before) > stop_above:
            return step.tree
        before = step.graph
    return step.tree


@pytest.mark.parametrize("tags", [None, TAGGER], ids=["given tags", "predicted tags"])
def test_a_sentence_has_the_tree_of_the_first_step_that_is_sure_enough(tags):
    parser, sentences = Parser(tiny_model(tags=tags, scale=1.5), max_steps=4, device="cpu"), short(16)
    stop_above = float(np.median([sure_of(parser.steps(each)[0], None) for each in sentences]))

    parsed = list(parser.using(stop_above=stop_above).stream_trees(sentences))

    assert [each.graph for each in parsed] == [slow_parse(parser, each, stop_above) for each in sentences]
    assert parsed != list(parser.stream_trees(sentences))
    assert parsed != list(parser.using(max_steps=1).stream_trees(sentences))


def test_early_stopping_does_not_depend_on_the_batch(monkeypatch):
    sentences = short(20)
    noisy = Noisy(tiny_model(scale=1.5), 0.4 * stable.TOLERANCE)
    parser = Parser(noisy, device="cpu", batch_pieces=300)
    limits = [
        sure_of(parser.steps(each)[0], None) for each in sentences[::4]
    ]  # the expected stability of some of them on their own

    for limit in limits:
        assert trees(noisy, sentences, 300, stop_above=limit) == trees(noisy, sentences, 1, stop_above=limit)
    monkeypatch.setattr(stable, "unsteadiness", lambda arcs, *_: -torch.ones(len(arcs)))
    assert any(
        trees(noisy, sentences, 300, stop_above=limit) != trees(noisy, sentences, 1, stop_above=limit)
        for limit in limits
    )
