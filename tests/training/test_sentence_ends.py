"""Fit the settings of sentence ends to scores of dev."""

import numpy as np
import pytest

from tests.segmenter.test_sentence_ends import WordScorer
from tests.support.tiny_segmenter import tiny_segmenter
from treefine.config import SentenceEndSettings
from treefine.segmenter.sentence_ends import combined
from treefine.training.dev import EndScores, end_scores, fitted, sentence_f1
from treefine.treebank.raw_text import RawText


def random_scores(settings, n_tokens=4000):
    """Return random scores, with the ends that these settings find."""
    rng = np.random.default_rng(1)
    encoder, char = rng.normal(-1, 4, (2, n_tokens)).astype(np.float32)
    needs_margin, is_forced = rng.random((2, n_tokens)) < [[0.5], [0.02]]
    is_end = combined(encoder, char, needs_margin, settings) > 0
    return EndScores(encoder, char, needs_margin, is_end | is_forced, is_forced)


@pytest.mark.parametrize(("char_weight", "margin"), [(0.0, 0.0), (0.25, 4.0), (0.5, 2.0), (1.0, 6.0)])
def test_known_settings_are_recovered(char_weight, margin):
    found = fitted(random_scores(SentenceEndSettings(char_weight, margin)))

    assert (found.char_weight, found.margin) == (char_weight, margin)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_a_known_temperature_is_recovered(temperature):
    rng = np.random.default_rng(1)
    encoder, is_forced = rng.normal(-1, 4, 20_000), rng.random(20_000) < 0.02
    is_end = rng.random(20_000) < 1 / (1 + np.exp(-encoder / temperature))
    scores = EndScores(encoder, np.zeros(20_000), np.zeros(20_000, bool), is_end | is_forced, is_forced)

    assert fitted(scores).temperature == pytest.approx(temperature, rel=0.05)


def test_of_equal_settings_the_largest_margin_and_the_smallest_weight_are_chosen():
    scores = EndScores(
        np.array([9.0, -9.0, 9.0]), np.zeros(3), np.array([False, True, False]), *np.array([[1, 0, 1], [0, 0, 1]], bool)
    )

    found = fitted(scores)

    assert (found.char_weight, found.margin) == (0.0, 6.0)


def test_a_sentence_is_right_if_both_its_ends_are():
    gold = np.array([0, 1, 0, 1], bool)

    assert sentence_f1(gold, gold) == 1
    assert sentence_f1(np.array([1, 1, 0, 1], bool), gold) == pytest.approx(2 / 5)
    assert sentence_f1(np.array([0, 0, 0, 1], bool), gold) == 0
    assert sentence_f1(np.zeros(0, bool), np.zeros(0, bool)) == 0


def test_scores_of_a_text_have_one_entry_per_token():
    segmenter = tiny_segmenter(most_spaces=0)
    segmenter.network.scorer.weight.data.zero_()
    segmenter.network.scorer.bias.data[:] = segmenter.network.scorer.bias.new_tensor([1.0, 0.0, 0.0, -1.0])
    text = RawText("a b\n\na.", ((0, 1), (2, 3), (5, 7)), (("a",), ("b",), ("a.",)), (False, True, True))

    found = end_scores(segmenter, WordScorer(a=-3.0, b=2.0), text)

    assert found.encoder.tolist() == [-3, 2, 0]
    assert found.char.tolist() == [-1, -1, -1]
    assert found.needs_margin.tolist() == [True, False, False]
    assert found.is_end.tolist() == [False, True, True]
    assert found.is_forced.tolist() == [False, True, True]
