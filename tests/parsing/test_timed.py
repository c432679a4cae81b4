"""The trees and times of each step, compared with the parser's own steps."""

import pytest

from tests.support.tiny import sample, tiny_model, tiny_parser
from treefine import Parser
from treefine.config import RelationSettings
from treefine.parsing.initial import given
from treefine.parsing.results import timed_steps


def slow_trees(parser, sentences):
    """Return the tree of each step of each sentence, one sentence at a time."""
    return [[step.tree.arcs for step in parser.steps(sentence)] for sentence in sentences]


@pytest.mark.parametrize("max_steps", [1, 3])
def test_trees_equal_those_of_the_parsers_steps_and_a_stopped_sentence_keeps_its_last(max_steps):
    parser, sentences = tiny_parser(max_steps=max_steps), sample(12)

    timed = timed_steps(parser, sentences)

    steps = slow_trees(parser, sentences)
    assert timed.trees == [[found[min(t, len(found)) - 1] for found in steps] for t in range(1, max_steps + 1)]
    assert timed.trees[-1] == [sentence.graph.arcs for sentence in parser.stream_trees(sentences)]
    assert timed.first == 1


def test_the_initial_parses_are_t_0_and_are_computed_once():
    inner = Parser(tiny_model(relations=RelationSettings(graph="none")), device="cpu")
    parser, sentences = tiny_parser(initial=inner, max_steps=3), sample(12)

    timed = timed_steps(parser, sentences)

    assert timed.first == 0
    assert timed.trees[0] == [sentence.graph.arcs for sentence in inner.stream_trees(sentences)]
    assert timed.trees[-1] == [sentence.graph.arcs for sentence in parser.stream_trees(sentences)]
    assert len(timed.trees) == 4
    assert timed.initial_seconds > 0


def test_converged_sentences_are_counted_by_each_step_and_not_refined_again():
    parser, sentences = tiny_parser(initial=given, max_steps=4), sample(12)

    timed = timed_steps(parser, sentences)

    steps = [list(parser.steps(sentence)) for sentence in sentences]
    stopped_by = [sum(any(step.converged and step.t <= t for step in each) for each in steps) for t in range(1, 5)]
    assert timed.converged == stopped_by
    assert timed.sentences == tuple(sum(len(each) >= t for each in steps) for t in range(1, 5))
    assert 0 < stopped_by[-1] < len(sentences)  # otherwise the test would show nothing
