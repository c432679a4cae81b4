import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st
from torch.nn import functional as F  # noqa: N812 - the customary name

from tests.model.test_relations import naive_relations
from tests.support.generated_inputs import (
    LABELS,
    SOME_WAYS_TO_READ,
    WAYS_TO_READ,
    arcs_over,
    inputs_of,
    name_of,
    sentences_in_pieces,
)
from tests.support.tensor_sizes import Sizes
from tests.support.tiny import tiny_shape
from treefine.config import RelationSettings
from treefine.model.attention import RelationTables, attend
from treefine.model.batch import Graphs
from treefine.model.encoder import TransformerEncoder
from treefine.model.relations import NONE, n_relations, relate
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


def naive_attend(query, key, value, tables, settings, *, inputs=INPUTS, graphs=GRAPHS, kept=None):
    """Compute Eqs. 4 and 5 literally, for one query and one key at a time.

    `kept` is what dropout multiplies each weight by, [row, attn, query, key].
    """
    kept = torch.ones(*query.shape[:3], query.shape[2]) if kept is None else kept

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
    for row, n_pieces in enumerate(inputs.row_lengths):
        heads, labels = (each[inputs.sentences[row]].tolist() for each in (graphs.heads, graphs.labels))
        relations = naive_relations(inputs.words[row].tolist(), heads, labels, settings)
        has_graph = any(head >= 0 for head in heads)
        for attn in range(N_ATTENTION_HEADS):
            for i in range(query.shape[2]):
                scores, terms = [], []
                for j in range(n_pieces):
                    score = query[row, attn, i] @ key[row, attn, j] / math.sqrt(WIDTH)
                    term = value[row, attn, j]
                    if has_graph:
                        share = query[row, attn, i] @ key_of(relations[i][j])
                        score = score + (share / math.sqrt(WIDTH) if settings.scaled else share)
                        term = term + value_of(relations[i][j])
                    scores.append(score)
                    terms.append(term)
                weights = torch.stack(scores).softmax(0) * kept[row, attn, i, :n_pieces]
                results.append(weights @ torch.stack(terms))
    return torch.stack(results).unflatten(0, query.shape[:3])


def some_tensors(settings, inputs=INPUTS):
    """Return query, key and value of each piece, and the tables of a layer, all with gradients."""
    generator = torch.Generator().manual_seed(1)
    n_rows, n_pieces = inputs.pieces.shape
    shape = (n_rows, N_ATTENTION_HEADS, n_pieces, WIDTH)
    vectors = [torch.randn(shape, generator=generator, requires_grad=True) for _ in range(3)]
    tables = RelationTables(n_relations(len(LABELS), settings), WIDTH, settings)
    for weight in tables.parameters():
        weight.data = torch.randn(weight.shape, generator=generator)
    return vectors, tables


def padding_bias(inputs=INPUTS):
    return torch.zeros(inputs.is_piece.shape).masked_fill(~inputs.is_piece, -math.inf)[:, None, None]


@every_way_to_read
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_attention_and_gradients_equal_the_double_loop_of_equations_4_and_5(settings, dropout):
    vectors, tables = some_tensors(settings)
    wanted = [*vectors, *tables.parameters()]
    relations = relate(INPUTS, GRAPHS, len(LABELS), settings)
    factors = torch.randn(vectors[0].shape, generator=torch.Generator().manual_seed(2))

    torch.manual_seed(3)
    attended = attend(*vectors, bias=padding_bias(), relations=relations, tables=tables, dropout=dropout)
    gradients = torch.autograd.grad((attended * factors).sum(), wanted)

    torch.manual_seed(3)
    kept = F.dropout(torch.ones(*vectors[0].shape[:3], vectors[0].shape[2]), dropout)
    expected = naive_attend(*vectors, tables, settings, kept=kept)
    expected_gradients = torch.autograd.grad((expected * factors).sum(), wanted)
    torch.testing.assert_close(attended, expected, atol=1e-5, rtol=1e-5)
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
    attended = attend(*vectors, bias=padding_bias(inputs), relations=relations, tables=tables)

    expected = naive_attend(*vectors, tables, settings, inputs=inputs, graphs=graphs)
    torch.testing.assert_close(attended, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("settings", SOME_WAYS_TO_READ, ids=name_of)
def test_a_row_without_a_graph_attends_as_in_the_plain_encoder(settings):
    vectors, tables = some_tensors(settings)
    relations = relate(INPUTS, GRAPHS, len(LABELS), settings)

    with_graphs = attend(*vectors, bias=padding_bias(), relations=relations, tables=tables)
    plain = attend(*vectors, bias=padding_bias(), relations=None, tables=tables)

    torch.testing.assert_close(with_graphs[1], plain[1], atol=1e-6, rtol=1e-6)
    assert (with_graphs[0] - plain[0]).abs().max() > 0.1


@pytest.mark.parametrize("settings", SOME_WAYS_TO_READ, ids=name_of)
def test_a_zero_none_gets_no_gradient_and_every_other_relation_in_use_does(settings):
    vectors, tables = some_tensors(settings)
    relations = relate(INPUTS, GRAPHS, len(LABELS), settings)

    attend(*vectors, bias=padding_bias(), relations=relations, tables=tables).square().sum().backward()

    for table in (tables.keys, tables.values):
        assert bool(table.grad[NONE].any()) == (settings.none == "learned")
        assert table.grad[1:].any()


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
        encoder(inputs, None, chain(N_PIECES - 3)).sum().backward()

    assert encoder.layers[0].attention.relations.keys.grad is not None
    assert N_PIECES * WIDE <= sizes.largest < TOO_LARGE
