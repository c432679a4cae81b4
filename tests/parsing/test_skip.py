"""Sentences that are left out change nothing for the others: they stay in their batches."""

import pytest

from tests.support.tiny import sample, tiny_parser
from treefine.parsing.batches import run
from treefine.segmenter.cut import Segmented


@pytest.fixture(scope="module")
def parser():
    return tiny_parser(max_steps=1, batch_pieces=60)


@pytest.mark.parametrize("skip", [0, 1, 15, 17])
def test_the_rest_is_as_it_would_be_with_those_before_it(parser, skip):
    found = [Segmented(sentence, ((0, 0),) * len(sentence)) for sentence in sample(16)]

    assert list(parser.stream_segmented(found, skip=skip)) == list(parser.stream_segmented(found))[skip:]
    assert list(parser.stream(sample(16), skip=skip)) == list(parser.stream(sample(16)))[skip:]


def batches(parser, skip):
    """Which sentences are scored together, and which come out."""
    scored = []

    def work(plan, items):
        scored.append(tuple(item.sentence.number for item in items))
        return [None] * len(items)

    found = [sentence.number for sentence, _ in run(parser.plan(), sample(60), work, skip=skip)]
    return scored, found


@pytest.mark.parametrize("skip", range(0, 64, 7))
def test_what_is_scored_is_in_the_same_batches_and_most_of_the_rest_is_not_scored(parser, skip):
    """Floating-point sums depend on the company, and a confidence must be the same to its last digit."""
    whole, all_found = batches(parser, 0)

    scored, found = batches(parser, skip)

    assert found == all_found[skip:]
    assert scored == whole[len(whole) - len(scored) :]
    assert len(whole) > 16
    assert skip - (60 - sum(map(len, scored))) <= 40  # those of the chunk that the first one stands in
