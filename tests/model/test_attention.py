"""Relations of a graph and attention that reads them, each compared with a double loop over the pieces."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st
from torch.nn import functional as F  # noqa: N812 - the customary name

from tests.support.generated_inputs import (
    LABELS,
    WAYS_TO_READ,
    arcs_over,
    decisions_on,
    inputs_of,
    name_of,
    sentences_in_pieces,
)
from tests.support.tensor_sizes import Sizes
from tests.support.tiny import tiny_shape
from treefine.config import RelationSettings
from treefine.model.attention import NONE, PaddedAttention, RelationTables, n_kinds_of, relate
from treefine.model.batch import ARC, HEAD, LABEL, NOTHING, Graphs
from treefine.model.encoder import TransformerEncoder
from treefine.model.vocabulary import NO_HEAD, UNSEEN, Vocabulary
from treefine.treebank.graph import Arcs

# Three sentences: one with words of several pieces and a two-cycle (words 2 and 3), one without a graph, a short one.
SENTENCES = [[[5, 6], [7], [8, 9, 10], [11]], [[12, 13], [14]], [[15], [16]]]
HEADS = [[NO_HEAD, 0, 3, 2, 1], [NO_HEAD] * 5, [NO_HEAD, 2, 0, NO_HEAD, NO_HEAD]]
LABEL_IDS = [[UNSEEN, 2, 1, 0, UNSEEN], [UNSEEN] * 5, [UNSEEN, 1, 2, UNSEEN, UNSEEN]]
INPUTS = inputs_of(SENTENCES)
GRAPHS = Graphs(torch.tensor(HEADS), torch.tensor(LABEL_IDS))

N_ATTENTION_HEADS, WIDTH = 2, 4

every_way_to_read = pytest.mark.parametrize("settings", WAYS_TO_READ, ids=name_of)


def naive_relations(words, heads, labels, settings, decided=None):
    """Compute the matrix of Fig. 2 for one row, cell by cell: [query][key]. Word 0 is ROOT; -1 is a special piece."""
    is_labelled, n_labels = settings.graph == "labelled", len(LABELS)
    n_kinds = (n_labels if is_labelled else 1) + 1
    if settings.decided:
        n_kinds = 3 * n_labels + 2 if is_labelled else 3
    has_graph = any(head != NO_HEAD for head in heads) or bool(settings.decided and decided and any(decided))
    first = {word: words.index(word) for word in words if word >= 0}

    def arc(above, below):
        """Return the kind of arc between two pieces, or None."""
        head, dependent = words[above], words[below]
        if min(head, dependent) < 0 or not has_graph:
            return None
        what = decided[dependent] if settings.decided and decided else NOTHING
        label = labels[dependent]
        if head == dependent:
            if above == below == first[head] and is_labelled and what == LABEL and heads[head] < 0 and label >= 0:
                return 2 * n_labels + label
            return n_kinds - 1 if above == first[head] and below != first[head] else None
        if heads[dependent] != head or above != first[head] or below != first[dependent]:
            return None
        if not is_labelled:
            return int(what in (ARC, HEAD))
        if what == HEAD or (what == ARC and label == UNSEEN):
            return 3 * n_labels
        return None if label == UNSEEN else label + n_labels * {NOTHING: 0, ARC: 1, LABEL: 2}[what]

    def relation(query, key):
        down, up = arc(query, key), arc(key, query)
        if query != key and up is not None and down is not None and settings.two_cycles == "erased":
            return NONE
        if up is not None:
            return up + 1 + n_kinds
        return NONE if down is None else down + 1

    return [[relation(query, key) for key in range(len(words))] for query in range(len(words))]


def dense(relations, inputs):
    """Return the relation of each query to each key, as attention reads it: one matrix per row."""
    numbers = torch.arange(len(inputs.pieces))
    is_above = relations.above[:, None] == numbers  # [query, key]
    up = torch.where(is_above, relations.up[:, None], NONE)
    down = torch.where(is_above.T, relations.down, NONE)
    assert not ((up != NONE) & (down != NONE)).any()
    assert not (up + down)[inputs.rows[:, None] != inputs.rows].any()  # no arc joins two rows
    return [(up + down)[row][:, row].tolist() for row in numbers.split(inputs.row_sizes)]


# Relations


def test_a_head_sees_the_label_a_dependent_the_label_reversed_and_other_pieces_their_first_piece():
    graphs = Graphs.of([Arcs((2, 0), ("nsubj", "root"))], Vocabulary(LABELS))

    inputs = inputs_of([[[7], [8, 9]]])
    (matrix,) = dense(relate(inputs, graphs, len(LABELS), RelationSettings()), inputs)

    nsubj, root, piece = 1 + LABELS.index("nsubj"), 1 + LABELS.index("root"), 1 + len(LABELS)
    up = len(LABELS) + 1
    assert matrix == [
        [0, 0, 0, 0, 0, 0],  # CLS
        [0, 0, 0, root, 0, 0],  # ROOT
        [0, 0, 0, nsubj + up, 0, 0],  # word 1
        [0, root + up, nsubj, 0, piece, 0],  # word 2
        [0, 0, 0, piece + up, 0, 0],  # its second piece
        [0, 0, 0, 0, 0, 0],  # SEP
    ]


@pytest.mark.parametrize("graph", ["labelled", "unlabelled"])
@pytest.mark.parametrize("two_cycles", ["kept", "erased"])
@given(data=st.data())
def test_the_relations_equal_a_double_loop_over_the_pieces(graph, two_cycles, data):
    settings = RelationSettings(graph=graph, two_cycles=two_cycles, decided=data.draw(st.booleans()))
    sentences = data.draw(sentences_in_pieces())
    arcs = [Arcs(*data.draw(arcs_over(len(sentence)))) for sentence in sentences]
    n_positions = data.draw(st.sampled_from([4, 7, 8, 11, 15, 64]))  # small values split a sentence into windows
    inputs, graphs = inputs_of(sentences, n_positions), Graphs.of(arcs, Vocabulary(LABELS))
    if data.draw(st.booleans()):
        graphs = data.draw(decisions_on(graphs))

    relations = relate(inputs, graphs, len(LABELS), settings)

    for row, matrix in enumerate(dense(relations, inputs)):
        pieces = inputs.rows == row
        sentence = int(inputs.sentences[pieces][0])
        words, heads = inputs.words[pieces].tolist(), graphs.heads[sentence].tolist()
        decided = None if graphs.decided is None else graphs.decided[sentence].tolist()
        assert matrix == naive_relations(words, heads, graphs.labels[sentence].tolist(), settings, decided)
        has_graph = settings.decided and any(decided or ())
        has_graph = has_graph or any(head is not None for head in arcs[sentence].heads)
        if settings.decided or not any(decided or ()):
            assert set(relations.has_graph[pieces].tolist()) == {has_graph}
    assert max(int(each.max()) for each in (relations.up, relations.down)) <= 2 * n_kinds_of(len(LABELS), settings)


# Attention


def naive_attend(query, key, value, tables, settings, *, inputs=INPUTS, graphs=GRAPHS, kept=None):
    """Compute Eqs. 4 and 5 literally, for one query and one key at a time.

    `kept` is what dropout multiplies each weight by, [row, attn, query, key], with padding.
    """

    def key_of(relation):
        if relation == NONE and settings.none == "zero":
            return torch.zeros(WIDTH)
        row = tables.keys[relation]
        if not settings.key_norm:
            return row
        spread = ((row - row.mean()) ** 2).mean()
        return (row - row.mean()) / torch.sqrt(spread + tables.norm.eps) * tables.norm.weight + tables.norm.bias

    def value_of(relation):
        return torch.zeros(WIDTH) if relation == NONE and settings.none == "zero" else tables.values[relation]

    results = []
    for row, pieces in enumerate(torch.arange(len(query)).split(inputs.row_sizes)):
        heads, labels = (each[inputs.sentences[pieces[0]]].tolist() for each in (graphs.heads, graphs.labels))
        relations = naive_relations(inputs.words[pieces].tolist(), heads, labels, settings)
        has_graph = any(head >= 0 for head in heads)
        for i, of_query in enumerate(pieces.tolist()):
            for attn in range(N_ATTENTION_HEADS):
                scores, terms = [], []
                for j, of_key in enumerate(pieces.tolist()):
                    score = query[of_query, attn] @ key[of_key, attn] / math.sqrt(WIDTH)
                    term = value[of_key, attn]
                    if has_graph:
                        share = query[of_query, attn] @ key_of(relations[i][j])
                        score = score + (share / math.sqrt(WIDTH) if settings.scaled else share)
                        term = term + value_of(relations[i][j])
                    scores.append(score)
                    terms.append(term)
                weights = torch.stack(scores).softmax(0)
                if kept is not None:
                    weights = weights * kept[row, attn, i, : len(pieces)]
                results.append(weights @ torch.stack(terms))
    return torch.stack(results).view(query.shape)


def some_tensors(settings, inputs=INPUTS):
    """Return query, key and value of each piece, and the tables of a layer, all with gradients."""
    generator = torch.Generator().manual_seed(1)
    shape = (len(inputs.pieces), N_ATTENTION_HEADS, WIDTH)
    vectors = [torch.randn(shape, generator=generator, requires_grad=True) for _ in range(3)]
    tables = RelationTables(len(LABELS), WIDTH, settings)
    for weight in tables.parameters():
        weight.data = torch.randn(weight.shape, generator=generator)
    return vectors, tables


def padding_bias(inputs=INPUTS):
    is_place = torch.arange(max(inputs.row_sizes)) < torch.tensor(inputs.row_sizes)[:, None]
    return torch.zeros(is_place.shape).masked_fill(~is_place, -math.inf)[:, None, None]


def attended(vectors, tables, relations, bias, dropout=0.0, inputs=INPUTS):
    attend = PaddedAttention(inputs.starts, inputs.rows, inputs.places, bias, relations)
    return attend(*vectors, tables.rows(), dropout)


@every_way_to_read
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_attention_and_gradients_equal_the_double_loop_of_equations_4_and_5(settings, dropout):
    vectors, tables = some_tensors(settings)
    wanted = [*vectors, *tables.parameters()]
    relations = relate(INPUTS, GRAPHS, len(LABELS), settings)
    factors = torch.randn(vectors[0].shape, generator=torch.Generator().manual_seed(2))

    torch.manual_seed(3)
    found = attended(vectors, tables, relations, padding_bias(), dropout)
    gradients = torch.autograd.grad((found * factors).sum(), wanted)

    torch.manual_seed(3)
    n_rows, n_places = len(INPUTS.starts), max(INPUTS.row_sizes)
    kept = F.dropout(torch.ones(n_rows, N_ATTENTION_HEADS, n_places, n_places), dropout)
    expected = naive_attend(*vectors, tables, settings, kept=kept)
    expected_gradients = torch.autograd.grad((expected * factors).sum(), wanted)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient, atol=1e-5, rtol=1e-5)


@profile(max_examples=max(5, profile().max_examples // 4))
@given(data=st.data())
def test_attention_equals_the_double_loop_for_any_sentences_and_graphs(data):
    settings = data.draw(st.sampled_from(WAYS_TO_READ))
    sentences = data.draw(sentences_in_pieces(max_sentences=2, max_words=3))
    arcs = [Arcs(*data.draw(arcs_over(len(sentence)))) for sentence in sentences]
    inputs, graphs = inputs_of(sentences), Graphs.of(arcs, Vocabulary(LABELS))
    vectors, tables = some_tensors(settings, inputs)

    relations = relate(inputs, graphs, len(LABELS), settings)
    found = attended(vectors, tables, relations, padding_bias(inputs), inputs=inputs)

    expected = naive_attend(*vectors, tables, settings, inputs=inputs, graphs=graphs)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


# Memory: 1 row of 40 pieces, one attention head of width 64, so that pieces × pieces × width stands out

N_PIECES, WIDE = 40, 64
TOO_LARGE = N_PIECES * N_PIECES * WIDE // 8
LONG = [[[5 + word % 20] for word in range(N_PIECES - 3)]]


def chain(n_words):
    """Return a graph in which each word is the head of the next."""
    heads = torch.arange(-1, n_words)[None]
    return Graphs(heads, (heads % 3).where(heads >= 0, UNSEEN))


@pytest.mark.parametrize("family", ["bert", "mpnet"])
def test_an_encoder_with_a_graph_allocates_no_tensor_of_pieces_by_pieces_by_width(family):
    shape = replace(
        tiny_shape(30, family=family), width=WIDE, embedding_width=WIDE, inner_width=WIDE, n_attention_heads=1
    )
    encoder = TransformerEncoder(shape, RelationSettings(), n_labels=len(LABELS)).train()
    inputs = inputs_of(LONG)

    with Sizes() as sizes:
        encoder(inputs, None, chain(N_PIECES - 3)).last.sum().backward()

    assert encoder.layers[0].attention.relations.keys.grad is not None
    assert N_PIECES * WIDE <= sizes.largest < TOO_LARGE
