"""The graphs that the page steps through."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny import sample, tiny_parser
from treefine import Graph
from treefine.parsing.confidence import Confidence
from treefine.parsing.initial import given as own
from treefine.parsing.parse import Parse
from treefine.segmenter.cut import Segmented
from treefine.serving.app import graphs_of
from treefine.treebank.graph import Arcs
from treefine.treebank.raw_text import spans_in
from treefine.treebank.sentence import Sentence, own_text

WORDS = ("Dogs", "bark", "loudly")
FIRST = Graph.of_words([2, 0, 1], ["nsubj", "root", "advmod"])
LAST = Graph.of_words([2, 0, 2], ["nsubj", "root", "advmod"])


def parse_of(initial, steps=(FIRST, LAST), tree=LAST, sure=((0.5, 1.0), (0.75, 1.0))):
    sentence = Sentence.of_words(list(WORDS)).with_graph(tree)
    reported = tuple(tuple(Confidence(arc, label) for _ in WORDS) for arc, label in sure)
    final = tuple(Confidence(0.9, 1.0) for _ in WORDS)
    return Parse(
        sentence, ((0, 4), (5, 9), (10, 16)), final, 0.7, steps, initial, (None,) * 3, True, step_confidences=reported
    )


EMPTY = Arcs((None,) * 3, ("_",) * 3)


def titles(graphs):
    return [graph["title"] for graph in graphs]


def test_the_first_of_the_graphs_from_an_empty_graph_has_no_arcs():
    graphs = graphs_of(parse_of(EMPTY))

    assert titles(graphs) == ["initial graph: empty", "step 1: the first arcs", "step 2: 1 arc changed"]
    assert graphs[0]["heads"] == [None, None, None]
    assert "data-head" not in graphs[0]["svg"]
    assert [graph["changed"] for graph in graphs] == [[], [], [3]]
    assert (graphs[2]["heads"], graphs[2]["labels"]) == ([2, 0, 2], ["nsubj", "root", "advmod"])


def test_a_partial_initial_graph_is_shown_and_its_arcs_may_change():
    graphs = graphs_of(parse_of(Arcs((None, 1, 2), ("_", "obj", "_"))))

    assert titles(graphs)[:2] == ["initial graph: 2 of 3 words have a head", "step 1: 2 arcs changed"]
    assert graphs[0]["heads"] == [None, 1, 2]
    assert set(re.findall(r'data-word="(\d)" data-head', graphs[0]["svg"])) == {"2", "3"}
    assert graphs[1]["changed"] == [2, 3]


def test_a_complete_initial_graph_comes_first_and_a_tree_that_differs_from_the_last_step_comes_last():
    cycle = Graph.of_words([2, 1, 2], ["nsubj", "dep", "advmod"])

    graphs = graphs_of(parse_of(FIRST.arcs, steps=(cycle,), sure=((0.5, 1.0),)))

    assert titles(graphs) == ["initial graph", "step 1: 2 arcs changed", "best tree: 1 arc changed"]
    assert [graph["confidence"] for graph in graphs] == [None, [0.5] * 3, [0.9] * 3]
    assert [graph["t"] for graph in graphs] == [0, 1, 2]


@given(heads=st.lists(st.none() | st.integers(0, 3), min_size=3, max_size=3))
def test_all_drawings_have_the_same_size_and_word_positions(heads):
    graphs = graphs_of(parse_of(Arcs(tuple(heads), ("a long label", "b", "c"))))

    places = {tuple(re.findall(r'class="form"[^>]* x="([\d.]+)" y="([\d.]+)"', graph["svg"])) for graph in graphs}
    assert len(places) == 1
    assert len({re.search(r'width="[\d.]+" height="[\d.]+"', graph["svg"]).group() for graph in graphs}) == 1
    assert graphs[0]["heads"] == heads


@pytest.mark.parametrize("initial", ["empty", own], ids=["empty", "given"])
def test_the_graphs_have_the_arcs_and_confidences_of_each_step(initial):
    parser = tiny_parser(initial=initial)
    found = [Segmented(each, spans_in(own_text(each), each)) for each in sample(5)]

    for parse in parser.stream_segmented(found, each_step=True):
        first, *rest = graphs_of(parse)
        assert first["heads"] == list(parse.initial.heads)
        assert len(parse.step_confidences) == len(parse.steps) <= len(rest)
        for graph, step, sure in zip(rest, parse.steps, parse.step_confidences, strict=False):
            assert graph["heads"] == list(step.arcs.heads)
            assert graph["labels"] == list(step.arcs.labels)
            if graph is not rest[-1]:
                assert graph["confidence"] == pytest.approx([each.both for each in sure], abs=1e-4)
        assert rest[-1]["heads"] == list(parse.heads)
        assert len(rest) == len(parse.steps) + (parse.steps[-1] != parse.tree)


def test_without_step_confidences_only_the_tree_has_confidences():
    graphs = graphs_of(replace(parse_of(EMPTY), step_confidences=()))

    assert [graph["confidence"] is None for graph in graphs] == [True, True, False]
