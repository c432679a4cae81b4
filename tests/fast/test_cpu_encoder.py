"""Rows of pieces laid end to end; the encoder over them is tested in tests/contracts/test_encoders.py."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.model.test_attention import (
    GRAPHS,
    INPUTS,
    N_ATTENTION_HEADS,
    attended,
    naive_attend,
    padding_bias,
    some_tensors,
)
from tests.support.generated_inputs import LABELS, WAYS_TO_READ, arcs_over, inputs_of, name_of, sentences_in_pieces
from treefine.config import RelationSettings
from treefine.fast.cpu_encoder import FlatAttention, FlatRows
from treefine.model.attention import relate
from treefine.model.batch import Graphs
from treefine.model.vocabulary import Vocabulary
from treefine.treebank.graph import Arcs


@given(sentences_in_pieces(), st.sampled_from([12, 128]), st.booleans())
def test_rows_are_contiguous_and_blocks_contain_rows_of_equal_length(sentences, n_positions, last_alone):
    inputs = inputs_of(sentences, n_positions)  # some sentences are split into windows
    chosen = slice(len(inputs.row_lengths) - 1, None) if last_alone else slice(None)

    rows = FlatRows.of(inputs, chosen)

    laid = []
    for block in rows.blocks:
        assert block.start == len(laid)
        for row in block.rows:
            assert rows.starts[row] == len(laid)
            laid += [(row, place) for place in range(inputs.row_lengths[row])]
            assert inputs.row_lengths[row] == block.length
    assert list(zip(rows.rows.tolist(), rows.places.tolist(), strict=True)) == laid
    assert sorted({row for row, _ in laid}) == list(range(len(inputs.row_lengths)))[chosen]
    assert rows.take(inputs.pieces).tolist() == [inputs.pieces[place] for place in laid]
    assert [block.length for block in rows.blocks] == sorted({block.length for block in rows.blocks})


def laid_flat(vectors, bias, inputs):
    """Lay rows of vectors end to end, and return them with the bias of their blocks."""
    rows = FlatRows.of(inputs, slice(None))
    biases = [bias[block.rows][..., -block.length :, : block.length] for block in rows.blocks]
    return [each.transpose(1, 2).flatten(0, 1)[rows.index] for each in vectors], rows, biases


def on_cpu(vectors, tables, relations, bias, inputs=INPUTS):
    """Return the result for each piece, with zeros for padding."""
    flat, rows, biases = laid_flat(vectors, bias, inputs)
    found = FlatAttention(rows, biases, relations)(*flat, tables.rows())
    padded = torch.zeros_like(vectors[0]).transpose(1, 2).contiguous()
    padded.flatten(0, 1)[rows.index] = found
    return padded.transpose(1, 2)


def of_pieces(padded, inputs=INPUTS):
    return padded.transpose(1, 2)[inputs.is_piece]


@torch.no_grad()
@pytest.mark.parametrize("settings", WAYS_TO_READ, ids=name_of)
def test_flat_attention_equals_the_double_loop_of_equations_4_and_5(settings):
    vectors, tables = some_tensors(settings)

    found = on_cpu(vectors, tables, relate(INPUTS, GRAPHS, len(LABELS), settings), padding_bias())

    expected = naive_attend(*vectors, tables, settings)
    assert torch.allclose(of_pieces(found), of_pieces(expected), atol=1e-5)


@given(st.data(), st.booleans())
def test_flat_attention_equals_padded_attention(data, has_graphs):
    sentences = data.draw(sentences_in_pieces(min_words=1))
    arcs = [Arcs(*data.draw(arcs_over(len(sentence)))) for sentence in sentences]
    inputs, settings = inputs_of(sentences), RelationSettings()
    graphs = Graphs.of(arcs, Vocabulary(labels=LABELS))
    relations = relate(inputs, graphs, len(LABELS), settings) if has_graphs else None
    vectors, tables = some_tensors(settings, inputs)
    n_pieces = inputs.pieces.shape[1]
    by_place = torch.randn((1, N_ATTENTION_HEADS, 1, n_pieces), generator=torch.Generator().manual_seed(4))
    bias = (padding_bias(inputs) + by_place).expand(-1, -1, n_pieces, -1)  # like the bias by distance of MPNet

    expected = attended(vectors, tables, relations, bias)
    with torch.no_grad():
        found = on_cpu(vectors, tables, relations, bias, inputs)

    assert torch.allclose(of_pieces(found, inputs), of_pieces(expected, inputs), atol=1e-5)
