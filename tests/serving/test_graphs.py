"""The graphs that the page steps through."""

import re

import pytest

from tests.support.tiny import sample, tiny_parser
from treefine import Graph
from treefine.parsing.confidence import Confidence
from treefine.parsing.initial import input_trees
from treefine.parsing.parse import Parse
from treefine.segmenter.cut import Segmented
from treefine.serving.app import graphs_of
from treefine.treebank.graph import Arcs
from treefine.treebank.raw_text import spans_in
from treefine.treebank.sentence import Sentence, own_text

FIRST, LAST, CYCLE = (
    Graph.of_words(heads, ["nsubj", label, "advmod"])
    for heads, label in [([2, 0, 1], "root"), ([2, 0, 2], "root"), ([2, 1, 2], "dep")]
)
EMPTY, PARTIAL = Arcs((None,) * 3, ("_",) * 3), Arcs((None, 1, 2), ("_", "obj", "_"))
CASES = {  # the initial graph, the steps, and the title and the changed words of each picture
    "empty": (
        EMPTY,
        (FIRST, LAST),
        {"initial graph: empty": [], "step 1: the first arcs": [], "step 2: 1 arc changed": [3]},
    ),
    "partial": (
        PARTIAL,
        (FIRST, LAST),
        {
            "initial graph: 2 of 3 words have a head": [],
            "step 1: 2 arcs changed": [2, 3],
            "step 2: 1 arc changed": [3],
        },
    ),
    "a tree that differs from the last step": (
        FIRST.arcs,
        (CYCLE,),
        {"initial graph": [], "step 1: 2 arcs changed": [2, 3], "best tree: 1 arc changed": [2]},
    ),
}


@pytest.mark.parametrize(("initial", "steps", "changes"), CASES.values(), ids=CASES)
def test_the_graphs_are_the_initial_one_each_step_and_the_tree_if_it_differs(initial, steps, changes):
    sentence = Sentence.of_words(["Dogs", "bark", "loudly"]).with_graph(LAST)
    sure, spans = (Confidence(0.9, 1.0),) * 3, ((0, 4), (5, 9), (10, 16))
    step_confidences = (sure,) * len(steps)
    parse = Parse(sentence, spans, sure, 0.7, steps, initial, (None,) * 3, True, step_confidences=step_confidences)

    graphs = graphs_of(parse)

    assert {graph["title"]: graph["changed"] for graph in graphs} == changes
    assert graphs[0]["heads"] == list(initial.heads)
    assert (graphs[2]["heads"], graphs[2]["labels"]) == ([2, 0, 2], ["nsubj", "root", "advmod"])
    with_arcs = {str(word) for word, head in enumerate(initial.heads, start=1) if head is not None}
    assert set(re.findall(r'data-word="(\d)" data-head', graphs[0]["svg"])) == with_arcs
    places = {tuple(re.findall(r'class="form"[^>]* x="([\d.]+)" y="([\d.]+)"', graph["svg"])) for graph in graphs}
    assert len(places) == 1


@pytest.mark.parametrize("initial", ["empty", input_trees], ids=["empty", "given"])
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
