"""The trees and times of each step, compared with the parser's own steps."""

from threading import get_ident

import pytest
import torch

from tests.support.tiny import sample, short, tiny_biaffine, tiny_model, tiny_parser
from treefine import Parser
from treefine.config import TagSettings
from treefine.cores import torch_threads
from treefine.parsing.initial import given
from treefine.parsing.results import timed_steps
from treefine.treebank.graph import Arcs


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
    assert (timed.first, timed.initial) == (1, None)


def test_the_initial_parses_are_t_0_and_are_computed_once():
    inner = Parser(tiny_biaffine(), device="cpu")
    parser, sentences = tiny_parser(initial=inner, max_steps=3), sample(12)

    timed = timed_steps(parser, sentences)

    assert timed.first == 0
    assert timed.trees[0] == [sentence.graph.arcs for sentence in inner.stream_trees(sentences)]
    assert timed.trees[-1] == [sentence.graph.arcs for sentence in parser.stream_trees(sentences)]
    assert len(timed.trees) == 4
    assert timed.initial_seconds > 0


def test_marks_in_the_gold_file_are_ignored():
    inner = Parser(tiny_biaffine(), device="cpu")
    parser, sentences = tiny_parser(initial=inner, max_steps=2), sample(6)
    marked = [each.with_misc(["Keep=Arc"] * len(each)) for each in sentences]

    assert timed_steps(parser, marked).trees == timed_steps(parser, sentences).trees


@pytest.mark.parametrize(("source", "expected"), [("predicted", True), ("given", False), ("none", False)])
def test_the_result_says_whether_the_first_step_predicts_tags(source, expected):
    parser = Parser(tiny_model(tags=TagSettings(source=source)), device="cpu", initial=given, max_steps=2)

    assert timed_steps(parser, sample(2)).predicts_tags == expected
    assert not timed_steps(parser.using(tags="none"), sample(2)).predicts_tags


def test_initial_parses_may_lack_heads_and_have_cycles():
    sentences = sample(3)
    arcs = [
        Arcs((None, *[1] * (len(each) - 1)), ("_", *["dep"] * (len(each) - 1))) if len(each) > 1 else each.arcs
        for each in sentences
    ]
    parser = tiny_parser(initial=lambda _: iter(arcs), max_steps=2)

    timed = timed_steps(parser, sentences)

    assert timed.trees[0] == arcs


def test_converged_sentences_are_counted_by_each_step_and_not_refined_again():
    parser, sentences = tiny_parser(initial=given, max_steps=4), sample(12)

    timed = timed_steps(parser, sentences)

    steps = [list(parser.steps(sentence)) for sentence in sentences]
    stopped_by = [sum(any(step.converged and step.t <= t for step in each) for each in steps) for t in range(1, 5)]
    assert timed.converged == stopped_by
    assert timed.sentences == tuple(sum(len(each) >= t for each in steps) for t in range(1, 5))
    assert 0 < stopped_by[-1] < len(sentences)  # otherwise the test would show nothing


def test_without_initial_parses_convergence_is_counted_from_t_2_on():
    timed = timed_steps(tiny_parser(max_steps=3), sample(5))

    assert len(timed.converged) == 2


def test_each_step_that_ran_took_time_and_all_sentences_are_reported():
    reported = []

    timed = timed_steps(tiny_parser(max_steps=2), sample(5), on_sentences=reported.append)

    assert sum(reported) == 5
    assert len(timed.seconds) == 2
    assert all(seconds > 0 for seconds in timed.seconds)


def test_a_model_in_many_batches_gives_the_same_trees():
    sentences = sample(12)
    parsers = [Parser(tiny_model(), device="cpu", batch_pieces=pieces, max_steps=2) for pieces in (60, 1000)]

    small, large = (timed_steps(parser, sentences) for parser in parsers)

    assert small.trees == large.trees
    assert small.sentences == large.sentences


def test_batches_are_timed_one_after_another_on_all_threads():
    parser, seen = Parser(tiny_model(), device="cpu", batch_pieces=60, max_steps=2), []

    with torch_threads(2):
        timed_steps(parser, short(4), on_sentences=lambda _: seen.append((get_ident(), torch.get_num_threads())))

    assert len(seen) > 1
    assert set(seen) == {(get_ident(), 2)}
