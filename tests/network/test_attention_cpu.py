"""Attention that reads a graph, as a CPU does it when it parses."""

import pytest
import torch
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from tests.network.generated_inputs import LABELS, WAYS_TO_READ, arcs_over, inputs_of, name_of, sentences_in_pieces
from tests.network.test_attention import GRAPHS, INPUTS, N_ATTENTION_HEADS, naive_attend, padding_bias, some_tensors
from treefine.config import RelationSettings
from treefine.network.attention import attend
from treefine.network.attention_cpu import attend_on_cpu
from treefine.network.batch import Graphs
from treefine.network.relations import relate
from treefine.network.vocabulary import Vocabulary
from treefine.treebank.graph import Arcs


def on_cpu(vectors, tables, relations, bias):
    rows = {"keys": tables.key_rows(), "values": tables.value_rows()}
    return attend_on_cpu(*vectors, bias=bias, relations=relations, **rows)


@torch.no_grad()
@pytest.mark.parametrize("settings", WAYS_TO_READ, ids=name_of)
def test_it_is_the_double_loop_of_equations_4_and_5(settings):
    vectors, tables = some_tensors(settings)

    found = on_cpu(vectors, tables, relate(INPUTS, GRAPHS, len(LABELS), settings), padding_bias())

    expected = naive_attend(*vectors, tables, settings)
    assert torch.allclose(found, expected, atol=1e-5)


@profile(max_examples=30, deadline=None)
@given(st.data())
def test_it_gives_what_training_has(data):
    sentences = data.draw(sentences_in_pieces(min_words=1))
    arcs = [Arcs(*data.draw(arcs_over(len(sentence)))) for sentence in sentences]
    inputs, settings = inputs_of(sentences), RelationSettings()
    graphs = Graphs.of(arcs, Vocabulary(labels=LABELS))
    relations = relate(inputs, graphs, len(LABELS), settings)
    vectors, tables = some_tensors(settings, inputs)
    shape = (len(vectors[0]), N_ATTENTION_HEADS, inputs.pieces.shape[1], inputs.pieces.shape[1])
    bias = padding_bias(inputs) + torch.randn(shape, generator=torch.Generator().manual_seed(4))  # as MPNet has one

    expected = attend(*vectors, bias=bias, relations=relations, tables=tables)
    with torch.no_grad():
        found = on_cpu(vectors, tables, relations, bias)

    assert torch.allclose(found, expected, atol=1e-5)


def test_parsing_takes_this_way_and_training_does_not(monkeypatch):
    settings = RelationSettings()
    vectors, tables = some_tensors(settings)
    relations = relate(INPUTS, GRAPHS, len(LABELS), settings)
    calls = []

    def counted(*arguments, **named):
        calls.append(len(arguments))
        return attend_on_cpu(*arguments, **named)

    monkeypatch.setattr("treefine.network.attention.attend_on_cpu", counted)
    attend(*vectors, bias=padding_bias(), relations=relations, tables=tables)
    assert not calls
    with torch.no_grad():
        attend(*vectors, bias=padding_bias(), relations=relations, tables=tables)

    assert len(calls) == 1
