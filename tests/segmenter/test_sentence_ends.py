"""Sentence ends from an encoder: windows, margins, streams, batches, and the confidence of a cut."""

import math
import zlib
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny_segmenter import texts, tiny_segmenter, tiny_segmenter_of_two, with_small_windows
from treefine.config import SentenceEndSettings
from treefine.segmenter import sentence_ends
from treefine.segmenter.cut import Scored
from treefine.segmenter.network import ENDS, WITHIN
from treefine.segmenter.sentence_ends import DOUBT, SentenceEnds, places_of

SETTINGS = SentenceEndSettings(char_weight=0.5, margin=2.0, temperature=4.0)


class HashScorer:
    """Scores each token by a hash of all that its window contains."""

    def __init__(self):
        self.batches = []

    def sentence_end_scores(self, windows, treebank=""):
        self.batches.append([list(window) for window in windows])
        return [np.array([self.score(window, place) for place in range(len(window))], "f4") for window in windows]

    @staticmethod
    def score(window, place):
        return zlib.crc32(repr((list(window), place)).encode("utf-8", "surrogatepass")) % 1000 / 50 - 10


class WordScorer:
    """Scores tokens by their form, 0 by default, and remembers the treebanks that it is asked about."""

    def __init__(self, **scores):
        self.scores, self.seen = scores, set()

    def sentence_end_scores(self, windows, treebank=""):
        self.seen.add(treebank)
        return [np.array([self.scores.get(token.form, 0.0) for token in window], "f4") for window in windows]


def hashing_segmenter(seed=0):
    return tiny_segmenter(seed).with_encoder(HashScorer(), SETTINGS)


def scored(text, score=0.0):
    """Return a text whose tokens end at white space and before punctuation, all with the same score."""
    marks = [ENDS if after in ".,:" else WITHIN for _, after in pairwise(text + " ")]
    return Scored(text, np.array(marks, np.int8), np.full(len(text), score, np.float32))


def new_scores(text, scorer, settings=SETTINGS, *, score=0.0):
    """Return the new score of each token by its last character."""
    (found,) = SentenceEnds(scorer, settings).of_texts([scored(text, score)], most_spaces=0)
    return found.sentence


def segmented(text, scorer, **values):
    """Segment a text with a tiny network that has no say."""
    chosen = SentenceEndSettings(**({"char_weight": 0.0, "margin": 0.0} | values))
    segmenter = tiny_segmenter(most_spaces=0)
    segmenter.network.scorer.weight.data.zero_()
    segmenter.network.scorer.bias.data[:] = segmenter.network.scorer.bias.new_tensor([1.0, 0.0, 0.0, -1.0])
    return segmenter.with_encoder(scorer, chosen).segment(text)


both_kinds = pytest.mark.parametrize("segmenter_of", [tiny_segmenter, hashing_segmenter])


@both_kinds
@with_small_windows
@given(text=texts, places=st.lists(st.integers(0, 30), max_size=5), seed=st.integers(0, 3))
def test_sentences_and_cuts_do_not_depend_on_the_chunks(segmenter_of, text, places, seed):
    marks = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    segmenter = segmenter_of(seed)

    assert list(segmenter.stream(text[a:b] for a, b in pairwise(marks))) == segmenter.segment(text)


@both_kinds
@with_small_windows
@given(several=st.lists(texts, max_size=6), seed=st.integers(0, 3))
def test_texts_segmented_together_equal_texts_segmented_alone(segmenter_of, several, seed):
    segmenter = segmenter_of(seed)

    for together, text in zip(segmenter.segment_all(several), several, strict=True):
        alone = segmenter.segment(text)
        assert [(each.sentence, each.spans) for each in together] == [(each.sentence, each.spans) for each in alone]
        assert [each.boundary_confidence for each in together] == pytest.approx(
            [each.boundary_confidence for each in alone], rel=1e-4
        )


def test_only_a_token_in_doubt_gets_a_new_score():
    text = scored("a. b. c. d. e\n\nf. g", 1.0)
    places = {text.text[each.last - 1] + ".": each.last for each in places_of(text, 0)}
    text.sentence[[places["a."], places["b."]]] = DOUBT, -DOUBT

    (found,) = SentenceEnds(WordScorer(), replace(SETTINGS, char_weight=0.0)).of_texts([text], most_spaces=0)

    changed = np.flatnonzero(found.sentence != text.sentence)
    assert [text.text[place] for place in changed] == ["a", "b", "c", ".", "d", ".", "f", "."]


def test_a_token_that_would_need_a_margin_is_read_even_if_the_network_is_sure():
    found = new_scores("a b. c", WordScorer(), score=5.0)

    assert found.tolist() == [0.125, 5, 0.125, 5, 5, 5]


@pytest.mark.parametrize(
    ("doubtful", "windows"),
    [
        ([], []),
        ([0], [(0, 2, [0])]),
        ([3, 4], [(2, 6, [3, 4])]),
        ([3, 4, 5], [(2, 6, [3, 4]), (4, 7, [5])]),  # a window has at most two tokens between its ends
        ([3, 6, 9], [(2, 5, [3]), (5, 8, [6]), (8, 10, [9])]),
    ],
)
@pytest.mark.usefixtures("small_windows")
def test_tokens_in_doubt_share_a_window_if_they_are_close(doubtful, windows):
    assert list(sentence_ends._windows(doubtful, 10)) == windows


def test_each_token_is_scored_in_its_window():
    texts = [scored("a b c d. " * 50, 1.0), scored("b a", 1.0)]
    places = [places_of(text, 0) for text in texts]
    chosen = [[0, 3, 100], [1]]

    found = SentenceEnds(HashScorer(), SETTINGS).encoder_scores(places, chosen)

    for some, numbers, scores in zip(places, chosen, found, strict=True):
        expected = []
        for start, stop, within in sentence_ends._windows(numbers, len(some)):
            tokens, chosen_tokens = sentence_ends._tokens_of(some, start, stop, within)
            expected += [HashScorer.score(tokens, number) for number in chosen_tokens]
        assert scores.tolist() == pytest.approx(expected, abs=1e-5)


def test_a_short_text_is_repeated_as_paragraphs_and_a_part_of_a_long_one_is_not():
    short, long = (places_of(scored(text, 1.0), 0) for text in ("b a", "a b c d. " * 50))

    tokens, chosen = sentence_ends._tokens_of(short, 0, 2, [1])
    part, chosen_of_part = sentence_ends._tokens_of(long, 10, 20, [12])

    assert [each.form for each in tokens] == ["b", "a"] * (len(tokens) // 2)
    assert len(tokens) > 100
    assert abs(chosen[0] - len(tokens) / 2) <= 1
    assert tokens[chosen[0]].form == "a"
    assert (part, chosen_of_part) == ([each.token for each in long[10:20]], [2])


@pytest.mark.parametrize("keeps_titles", [True, False])
def test_a_sentence_ends_after_a_title_only_if_the_treebank_splits_titles(keeps_titles):
    ends = SentenceEnds(WordScorer(**{"Prof.": 3.0}), SentenceEndSettings(0.0, 0.0, 1.0), keeps_titles=keeps_titles)
    text = scored("Prof. X", 0.0)
    text.token[:4] = WITHIN

    (found,) = ends.of_texts([text], most_spaces=0)

    assert (found.sentence[4] > 0) == (not keeps_titles)


@pytest.mark.parametrize(
    ("text", "without_margin"),
    [
        ("Hong Kong Island. Go", "."),
        ("Stop. \" ' go", ". \" '"),  # closing quotes after final punctuation
        ("a ( b ) c", ""),  # but not others
        ("one\ntwo three", "one"),  # the end of a line
        ("Nice 👍🏽 :) ok", "👍🏽 :)"),
        ("see 2001: A", ":"),
        ("終。 次", "終。"),
    ],
)
def test_a_token_within_a_line_needs_final_punctuation_or_a_margin(text, without_margin):
    found = new_scores(text, WordScorer(), SentenceEndSettings(char_weight=0.0, margin=2.0))

    places = places_of(scored(text), 0)[:-1]
    assert [each.token.form for each in places if not found[each.last]] == without_margin.split()
    assert all(found[each.last] == -2 for each in places if each.needs_margin)


@pytest.mark.parametrize("score", [3.0, -3.0])
def test_a_blank_line_is_a_certain_boundary(score):
    found = segmented("a\n\nb", WordScorer(a=score, b=1.0))

    assert [each.boundary_confidence for each in found] == [1.0, 1.0]


@pytest.mark.parametrize("code", ["", "es_one", "th_two", "xx_other"])
def test_the_encoder_learns_which_treebank_it_reads(code):
    scorer, whole = WordScorer(), tiny_segmenter_of_two()

    whole.with_encoder(scorer, SETTINGS).for_treebank(code).segment("ab. ba.")
    whole.for_treebank(code).with_encoder(scorer, SETTINGS).segment_all(["ab. ba."])

    assert scorer.seen == {code if code in whole.treebanks else ""}


def test_the_confidence_of_a_cut_is_the_product_over_its_tokens_and_both_ends():
    scorer = WordScorer(a=-3.0, b=2.0, c=-1.0, d=4.0, e=-2.0, f=1.0)

    found = segmented("a b c d e f", scorer, temperature=2.0)

    assert [each.sentence.forms for each in found] == [("a", "b"), ("c", "d"), ("e", "f")]
    p = {form: 1 / (1 + math.exp(-abs(score) / 2)) for form, score in scorer.scores.items()}
    cuts = [p["a"] * p["b"], p["b"] * p["c"] * p["d"], p["d"] * p["e"]]  # the text ends after f for certain
    assert [each.boundary_confidence for each in found] == pytest.approx(cuts, rel=1e-5)
