"""Attention as a CPU does it when it parses: over rows that are laid end to end."""

import pytest
import torch
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from tests.model.test_attention import GRAPHS, INPUTS, N_ATTENTION_HEADS, naive_attend, padding_bias, some_tensors
from tests.support.generated_inputs import LABELS, WAYS_TO_READ, arcs_over, inputs_of, name_of, sentences_in_pieces
from treefine.config import RelationSettings
from treefine.fast.flat_encoder import FlatBias, FlatRelations, FlatRows
from treefine.model.attention import attend, attend_flat
from treefine.model.batch import Graphs
from treefine.model.relations import relate
from treefine.model.vocabulary import Vocabulary
from treefine.treebank.graph import Arcs


def laid_flat(vectors, bias, inputs):
    """Rows of vectors end to end, and the bias of their blocks."""
    rows = FlatRows.of(inputs, slice(None))
    blocks = [bias[block.rows][..., -block.length :, : block.length] for block in rows.blocks]
    return [each.transpose(1, 2).flatten(0, 1)[rows.index] for each in vectors], FlatBias(rows, blocks)


def on_cpu(vectors, tables, relations, bias, inputs=INPUTS):
    """What is found for each piece, with zeros for padding."""
    flat, blocks = laid_flat(vectors, bias, inputs)
    found = attend_flat(
        *flat,
        bias=blocks,
        relations=None if relations is None else FlatRelations.of(relations, blocks),
        tables=tables,
    )
    padded = torch.zeros_like(vectors[0]).transpose(1, 2).contiguous()
    padded.flatten(0, 1)[blocks.rows.index] = found
    return padded.transpose(1, 2)


def of_pieces(padded, inputs=INPUTS):
    return padded.transpose(1, 2)[inputs.is_piece]


@torch.no_grad()
@pytest.mark.parametrize("settings", WAYS_TO_READ, ids=name_of)
def test_it_is_the_double_loop_of_equations_4_and_5(settings):
    vectors, tables = some_tensors(settings)

    found = on_cpu(vectors, tables, relate(INPUTS, GRAPHS, len(LABELS), settings), padding_bias())

    expected = naive_attend(*vectors, tables, settings)
    assert torch.allclose(of_pieces(found), of_pieces(expected), atol=1e-5)


@profile(max_examples=30, deadline=None)
@given(st.data(), st.booleans())
def test_it_gives_what_training_has(data, has_graphs):
    sentences = data.draw(sentences_in_pieces(min_words=1))
    arcs = [Arcs(*data.draw(arcs_over(len(sentence)))) for sentence in sentences]
    inputs, settings = inputs_of(sentences), RelationSettings()
    graphs = Graphs.of(arcs, Vocabulary(labels=LABELS))
    relations = relate(inputs, graphs, len(LABELS), settings) if has_graphs else None
    vectors, tables = some_tensors(settings, inputs)
    n_pieces = inputs.pieces.shape[1]
    by_place = torch.randn((1, N_ATTENTION_HEADS, 1, n_pieces), generator=torch.Generator().manual_seed(4))
    bias = (padding_bias(inputs) + by_place).expand(-1, -1, n_pieces, -1)  # as MPNet has one for each pair

    expected = attend(*vectors, bias=bias, relations=relations, tables=tables)
    with torch.no_grad():
        found = on_cpu(vectors, tables, relations, bias, inputs)

    assert torch.allclose(of_pieces(found, inputs), of_pieces(expected, inputs), atol=1e-5)
