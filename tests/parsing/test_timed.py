"""The trees and times of each step, compared with the parser's own steps."""

import pytest

from tests.support.tiny import sample, tiny_model, tiny_parser
from treefine import Parser
from treefine.config import RelationSettings
from treefine.parsing.initial import given
from treefine.parsing.results import timed_steps

INNER = Parser(tiny_model(relations=RelationSettings(graph="none")), device="cpu")


@pytest.mark.parametrize(
    "options", [{"max_steps": 1}, {"max_steps": 3}, {"initial": INNER, "max_steps": 3}, {"initial": given, "trust": 0}]
)
def test_trees_equal_those_of_the_parsers_steps_and_a_stopped_sentence_keeps_its_last(options):
    parser, sentences = tiny_parser(**options), sample(12)

    timed = timed_steps(parser, sentences)

    steps, numbers = [parser.steps(each) for each in sentences], range(1, parser.max_steps + 1)
    initial = {INNER: INNER.parse(sentences), given: sentences}.get(options.get("initial"), [])
    assert timed.first == (0 if initial else 1)
    start = [[each.arcs for each in sentences]] if initial is sentences else [[each.tree.arcs for each in initial]]
    trees = [[found[min(t, len(found)) - 1].tree.arcs for found in steps] for t in numbers]
    assert timed.trees == (start if initial else []) + trees
    stopped_by = [sum(any(step.converged and step.t <= t for step in each) for each in steps) for t in numbers]
    assert timed.converged == stopped_by[timed.first :]
    assert timed.sentences == tuple(sum(len(each) >= t for each in steps) for t in numbers)
