"""Rows of pieces laid end to end; the encoder over them is tested in tests/contracts/test_encoders.py."""

from itertools import pairwise

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
from treefine.fast.cpu_encoder import FlatAttention, blocks_of
from treefine.model.attention import relate
from treefine.model.batch import Graphs
from treefine.model.vocabulary import Vocabulary
from treefine.treebank.graph import Arcs


@given(st.lists(st.integers(1, 4), max_size=12))
def test_blocks_are_consecutive_rows_of_equal_size(sizes):
    blocks = blocks_of(sizes)

    assert [size for block in blocks for size in [block.size] * block.n_rows] == sizes
    assert [block.start for block in blocks] == [
        sum(each.n_rows * each.size for each in blocks[:n]) for n in range(len(blocks))
    ]
    assert all(one.size != other.size for one, other in pairwise(blocks))


def on_cpu(vectors, tables, relations, bias, inputs=INPUTS):
    blocks, row, biases = blocks_of(inputs.row_sizes), 0, []
    for block in blocks:
        of_block = bias.expand(-1, -1, -1, bias.shape[-1])[row : row + block.n_rows]
        biases.append(of_block[:, :, : block.size, : block.size])
        row += block.n_rows
    return FlatAttention(blocks, biases, inputs.places, relations)(*vectors, tables.rows())


@torch.no_grad()
@pytest.mark.parametrize("settings", WAYS_TO_READ, ids=name_of)
def test_flat_attention_equals_the_double_loop_of_equations_4_and_5(settings):
    vectors, tables = some_tensors(settings)

    found = on_cpu(vectors, tables, relate(INPUTS, GRAPHS, len(LABELS), settings), padding_bias())

    expected = naive_attend(*vectors, tables, settings)
    assert torch.allclose(found, expected, atol=1e-5)


@given(st.data(), st.booleans())
def test_flat_attention_equals_padded_attention(data, has_graphs):
    sentences = data.draw(sentences_in_pieces(min_words=1))
    arcs = [Arcs(*data.draw(arcs_over(len(sentence)))) for sentence in sentences]
    inputs, settings = inputs_of(sentences), RelationSettings()
    graphs = Graphs.of(arcs, Vocabulary(labels=LABELS))
    relations = relate(inputs, graphs, len(LABELS), settings) if has_graphs else None
    vectors, tables = some_tensors(settings, inputs)
    n_pieces = max(inputs.row_sizes)
    by_place = torch.randn((1, N_ATTENTION_HEADS, 1, n_pieces), generator=torch.Generator().manual_seed(4))
    bias = (padding_bias(inputs) + by_place).expand(-1, -1, n_pieces, -1)  # like the bias by distance of MPNet

    expected = attended(vectors, tables, relations, bias, inputs=inputs)
    with torch.no_grad():
        found = on_cpu(vectors, tables, relations, bias, inputs)

    assert torch.allclose(found, expected, atol=1e-5)
