"""The same sentence gets the same tree whatever else is in its batch and however the input is ordered."""

import random
from dataclasses import replace

import pytest
import torch
from hypothesis import event
from hypothesis import given as given_by_hypothesis
from hypothesis import strategies as st

from tests.support.tiny import sample, tiny_biaffine, tiny_model
from treefine.config import DecodeSettings, TagSettings
from treefine.model.batch import Batch, Graphs, WordInputs
from treefine.model.scorer import Scores
from treefine.parsing import invariance as stable
from treefine.parsing import plan as plans
from treefine.parsing.decode import Decoder
from treefine.parsing.initial import given
from treefine.parsing.parser import Parser

MODELS = {
    "given tags": lambda: tiny_model(),
    "predicted tags": lambda: tiny_model(tags=TagSettings("predicted", ("upos", "xpos"))),
    "windows": lambda: tiny_model(n_positions=16),
    "biaffine": lambda: tiny_biaffine(),
}


@pytest.mark.parametrize("kind", MODELS)
def test_batch_and_order_change_no_tree(kind):
    model = MODELS[kind]()
    sentences = sample(40)
    alone = [Parser(model, device="cpu").parse(sentence) for sentence in sentences]

    for batch_pieces in (30, 200, 10_000):
        order = list(range(len(sentences)))
        random.Random(batch_pieces).shuffle(order)
        parsed = Parser(model, device="cpu", batch_pieces=batch_pieces).parse([sentences[n] for n in order])
        assert parsed == [alone[number] for number in order]


def test_scores_of_any_size_are_compared_by_their_size():
    model = tiny_model(tags=TagSettings("none"))
    model.scorer.arc_head[0].bias.data += 10_000  # which moves all scores of a word alike, and rounds them coarsely
    sentences = sample(60)

    parsed = Parser(model, device="cpu", batch_pieces=4000).parse(sentences)

    assert parsed == Parser(model, device="cpu", batch_pieces=1).parse(sentences)


CHAIN = [[0.0, 0, 0], [9, 0, 0], [0, 9, 0]]  # word 2 on 1 on ROOT
TIE = [[0.0, 0, 0], [9, 0, 9], [0, 9, 0]]
CYCLE = [[0.0, 0, 0], [0, 0, 9], [0, 9, 0]]  # of which two trees can be made that are equal
CLEAR_CYCLE = [[0.0, 0, 0], [5, 0, 9], [0, 9, 0]]  # of which one can that leads by 5
CLEAR = torch.tensor([[0.0, 0], [5, 0], [5, 0]])  # two labels, or tags, for each word
DRAW = torch.tensor([[0.0, 0], [5, 0], [5, 5]])


def scored_alone(arcs, labels, tags, initial, *, needs_trees, stop_above=1.0):
    """Which of the sentences are scored alone, given the scores they have in a batch."""

    def score(batch, graphs, _):
        rows = [number - 2 for number in batch.lengths]
        asked.append(rows)
        n_words = batch.n_words
        padded = torch.full((len(rows), n_words, n_words), -torch.inf)
        vectors, tagged = torch.zeros((len(rows), n_words, 2)), torch.zeros((len(rows), n_words, 2))
        for place, row in enumerate(rows):
            padded[place, 3:, 0] = 9  # each sentence is longer than the one before by words that hang on the first
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
    words = WordInputs(torch.zeros(shape).long(), torch.ones((*shape, 1)).long(), tuple(n + 1 for n in lengths))
    heads = torch.full(shape, -1)
    found = torch.full_like(heads, -1)
    for row, given_heads in enumerate(initial):
        if given_heads:
            heads[row, 1 : lengths[row] + 1] = torch.tensor([*given_heads, *[1] * row])
            found[row, 1 : lengths[row] + 1] = 0
    batch, asked_for = Batch.of(words, lengths), {"needs_trees": needs_trees, "stop_above": stop_above}
    scores = stable.stable_scores(score, Decoder(), batch, Graphs(heads, found), None, **asked_for)
    assert set(scores.alone) == {row for rows in asked[1:] for row in rows}
    return sorted(scores.alone)


def test_close_heads_labels_and_tags_are_scored_alone_and_clear_ones_are_not():
    arcs, labels, tags = [CHAIN, TIE, CHAIN, CHAIN], [CLEAR, CLEAR, DRAW, CLEAR], [CLEAR, CLEAR, CLEAR, DRAW]

    assert scored_alone(arcs, labels, tags, [None] * 4, needs_trees=False) == [1, 2, 3]


def test_what_is_no_tree_is_scored_alone_where_its_tree_is_needed():
    two = {"arcs": [CHAIN, CYCLE], "labels": [CLEAR] * 2, "tags": [CLEAR] * 2}

    assert scored_alone(**two, initial=[None, None], needs_trees=False) == []
    assert scored_alone(**two, initial=[None, None], needs_trees=True) == [1]
    assert scored_alone(**two, initial=[[0, 1], [2, 1]], needs_trees=False) == [1]  # it has converged: this is its end
    assert scored_alone(**two, initial=[None, None], needs_trees=False, stop_above=0.5) == [1]  # it is sure enough


def test_what_is_no_tree_but_has_one_that_leads_clearly_is_not_scored_alone():
    two = {"arcs": [CYCLE, CLEAR_CYCLE], "labels": [CLEAR] * 2, "tags": [CLEAR] * 2}

    assert scored_alone(**two, initial=[None, None], needs_trees=True) == [0]


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
        against = torch.ones(shape)  # in the worst batch, all that the tree has is too low, and all else too high
        against[range(1, n_words + 1), best[1:]] = -1
        largest = arcs.masked_fill(arcs.isinf(), 0).amax(-1, keepdim=True).clamp(min=1)
        in_a_batch = arcs.double() + 0.499 * stable.TOLERANCE * largest * against
        assert (decoder.best_heads(in_a_batch) == best).all()


def test_a_tree_with_a_label_that_is_close_does_not_lead_clearly():
    arcs = torch.tensor([CLEAR_CYCLE])
    arcs[:, range(3), range(3)] = -torch.inf
    words = torch.ones(1, 3, 2)
    on_root = torch.tensor([[[1.0, 1], [1, 0], [1, 0]]])  # as head: two labels are equal for what hangs on ROOT alone
    weight = torch.tensor([[[2.0, 0], [0, 0]], [[1, 1], [0, 0]]])

    assert not stable.leads_clearly(Scores(arcs, words, on_root, weight), Decoder())
    assert stable.leads_clearly(Scores(arcs, words, on_root.roll(2, 1), weight), Decoder())


def test_no_tree_leads_clearly_by_probabilities_or_in_a_long_sentence():
    arcs = torch.tensor([CLEAR_CYCLE])
    arcs[:, range(3), range(3)] = -torch.inf
    scores = Scores(arcs, torch.ones(1, 3, 1), torch.ones(1, 3, 1), torch.tensor([[[1.0]], [[2.0]]]))
    n_words = stable.LONGEST_SEARCH + 1
    chain = torch.eye(n_words + 1).roll(-1, 1)[None] * 9
    chain[:, range(n_words + 1), range(n_words + 1)] = -torch.inf
    long = Scores(chain.mT, torch.ones(1, n_words + 1, 1), torch.ones(1, n_words + 1, 1), scores.label_weight)

    assert stable.leads_clearly(scores, Decoder())
    assert not stable.leads_clearly(scores, Decoder(tree_over="probabilities"))
    assert not stable.leads_clearly(long, Decoder())
    assert stable.leads_clearly(long.only(0, n_words), Decoder())


@pytest.mark.parametrize("first_graph", ["argmax", "tree"])
def test_trees_are_needed_in_the_last_step_and_where_the_first_graph_is_one(first_graph, monkeypatch):
    asked = []
    real = plans.stable_scores

    def recorded(*arguments, needs_trees, **rest):
        asked.append(needs_trees)
        return real(*arguments, needs_trees=needs_trees, **rest)

    monkeypatch.setattr(plans, "stable_scores", recorded)
    parser = Parser(tiny_model(decode=DecodeSettings(first_graph=first_graph)), max_steps=3, device="cpu")
    several = [sample(5)[1]] * 3  # of one length, so that they are one batch

    parser.parse(several)
    list(parser.stream_steps(several))
    parser.using(initial=given, max_steps=3).parse(several)

    assert asked == [first_graph == "tree", False, True, True, True, True, False, False, True]


class Noisy(torch.nn.Module):
    """A model whose scores depend on the size of its batch, as those of a real one do, but a hundred times more."""

    def __init__(self, model, size):
        super().__init__()
        self.inner, self.size = model, size
        self.settings, self.vocabulary, self.subwords = model.settings, model.vocabulary, model.subwords
        self.batch_of, self.given_tags = model.batch_of, model.given_tags
        self.pieces_of, self.n_pieces, self.encoder = model.pieces_of, model.n_pieces, None

    def forward(self, batch, graphs, tags, **rest):
        scores = self.inner(batch, graphs, tags, **rest)
        generator = torch.Generator().manual_seed(len(batch))
        scores.arcs.add_(self.size * (2 * torch.rand(scores.arcs.shape, generator=generator) - 1))
        return scores


def trees(model, sentences, batch_pieces):
    return [parsed.graph for parsed in Parser(model, device="cpu", batch_pieces=batch_pieces).parse(sentences)]


def test_close_decisions_are_made_on_scores_that_do_not_depend_on_the_batch(monkeypatch):
    sentences = sample(60)
    model = tiny_model(scale=0.3)  # nearly all scores are close
    noisy = Noisy(model, 0.4 * stable.TOLERANCE)

    alone = trees(noisy, sentences, 1)

    assert trees(noisy, sentences, 300) == alone
    assert trees(noisy, sentences, 3000) == alone
    monkeypatch.setattr(plans, "stable_scores", careless)
    assert trees(noisy, sentences, 300) != alone


def careless(score, decoder, batch, graphs, tags, **_):
    return score(batch, graphs, tags)


@pytest.mark.parametrize("scale", [1.0, 3.0, 10.0, 30.0])
def test_scores_of_one_sentence_differ_between_batches_by_far_less_than_the_tolerance(scale):
    model = tiny_model(scale=scale)
    sentences = sample(40)
    with torch.no_grad():
        together = model(model.batch_of(sentences), None, model.given_tags(sentences)).arcs

        for row, sentence in enumerate(sentences):
            alone = model(model.batch_of([sentence]), None, model.given_tags([sentence])).arcs[0]
            n_words = len(sentence) + 1
            is_arc = ~torch.eye(n_words, dtype=torch.bool)
            difference = (together[row, :n_words, :n_words] - alone)[is_arc].abs().max()
            assert 2 * difference < 0.5 * stable.TOLERANCE * max(1, alone[is_arc].abs().max())


def test_sentences_with_clear_scores_and_trees_are_scored_once_a_step():
    sentences = sample(60)
    sure = Sure(tiny_model(n_positions=512), {sentence.forms: sentence.graph for sentence in sentences})

    parsed = Parser(sure, device="cpu", batch_pieces=500).parse(sentences)

    assert [each.heads for each in parsed] == [each.heads for each in sentences]
    assert sum(sure.sizes) == 2 * 60  # once to find the tree, and once to see that it stays


class Sure(Noisy):
    """A model that is sure of the right heads."""

    def __init__(self, model, graphs):
        super().__init__(model, 0.0)
        self.graphs, self.sizes, self.batch_of = graphs, [], self.remembered
        self.gold = {}

    def remembered(self, sentences, pieces, **options):
        batch = self.inner.batch_of(sentences, pieces, **options)
        for sentence, pieces in zip(sentences, batch.inputs.pieces.tolist(), strict=True):
            self.gold[tuple(piece for piece in pieces if piece)] = self.graphs[sentence.forms].heads
        return batch

    def forward(self, batch, graphs, tags, **rest):
        self.sizes.append(len(batch))
        scores = super().forward(batch, graphs, tags, **rest)
        scores.arcs[:] = 0
        for row, pieces in enumerate(batch.inputs.pieces.tolist()):
            heads = self.gold[tuple(piece for piece in pieces if piece)]
            scores.arcs[row, range(len(heads)), heads] = 10
        weight = torch.zeros_like(scores.label_weight)
        weight[:, -1, -1] = torch.arange(len(weight))
        return replace(scores, label_weight=weight)


@pytest.mark.parametrize(("kind", "batch_pieces", "most"), [("given tags", 4000, 1000), ("given tags", 30, 30)])
def test_a_transformer_scores_no_more_at_once_on_a_cpu_than_its_cache_holds(kind, batch_pieces, most):
    sentences = [*sample(60)] * 3
    parser = Parser(MODELS[kind](), device="cpu", batch_pieces=batch_pieces)

    assert parser.plan().shape.most_pieces == most
    assert parser.parse(sentences) == parser.parse(sentences[:60]) * 3


def test_a_bilstm_scores_as_much_at_once_on_a_cpu_as_it_is_told_to():
    assert Parser(tiny_biaffine(), device="cpu", batch_pieces=4000).plan().shape.most_pieces == 4000
