"""Fit how the scores of the encoder and of the segmenter decide about sentence ends, on the raw text of dev."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from treefine.config import SentenceEndSettings
from treefine.parsing.parser import Parser
from treefine.segmenter.cut import Scored, has_blank_line
from treefine.segmenter.segmenter import Segmenter
from treefine.segmenter.sentence_ends import SentenceEnds, SentenceScorer, combined, placed_tokens
from treefine.training.calibrate import fitted_temperature
from treefine.treebank.raw_text import RawText, raw_text
from treefine.treebank.sentence import Sentence

CHAR_WEIGHTS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0)
MARGINS = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0)
_NEARLY = 0.0025  # difference in F1 that a larger margin may cost
_ENCODER_ALONE = SentenceEndSettings(char_weight=0.0, margin=0.0)


def fitted_ends(parser: Parser, dev: Sequence[Sentence]) -> SentenceEndSettings:
    """Fit the settings of a parser that finds sentences to the text of dev; keep those of any other parser."""
    if parser.segmenter is None or not parser.model.finds_sentences:
        return parser.model.settings.sentence_ends
    return fitted(end_scores(parser.segmenter, parser.running, raw_text(dev)))


class EndScores(NamedTuple):
    """The scores of the tokens of a text, one entry per token, and where its sentences end."""

    encoder: np.ndarray
    char: np.ndarray
    needs_margin: np.ndarray  # the token is within a line and does not end in final punctuation
    is_end: np.ndarray  # whether the sentence ends here in the treebank
    is_forced: np.ndarray  # whether a blank line or the end of the text follows


def end_scores(segmenter: Segmenter, scorer: SentenceScorer, text: RawText) -> EndScores:
    r"""Return the scores of the tokens that a segmenter finds in a text without \r\n."""
    ends = {stop - 1 for (_, stop), is_end in zip(text.spans, text.ends_sentence, strict=True) if is_end}
    scored = list(segmenter.scored([text.text]))
    of_encoder = SentenceEnds(scorer, _ENCODER_ALONE).of_stream(scored, most_spaces=segmenter.most_spaces)
    encoder, char = _sentence_scores(list(of_encoder)), _sentence_scores(scored)
    places = [each for _, some in placed_tokens(scored, segmenter.most_spaces) for each in some]
    last = np.array([each.last for each in places], dtype=np.int64)
    is_forced = np.array([has_blank_line(each.token.after) for each in places], dtype=bool)
    is_forced[-1:] = True
    needs_margin = np.array([each.needs_margin for each in places], dtype=bool)
    is_end = np.array([each.last in ends for each in places], dtype=bool)
    return EndScores(encoder[last], char[last], needs_margin, is_end, is_forced)


def _sentence_scores(stretches: Sequence[Scored]) -> np.ndarray:
    return np.concatenate([each.sentence for each in stretches])


def fitted(scores: EndScores) -> SentenceEndSettings:
    """Return the settings with a high F1 of sentences, and the temperature that makes the ends most likely.

    Of the settings that are about as good as the best, the one with the largest margin is chosen: a dev set has few
    sentences that end without punctuation, and text of other kinds has fewer. Line ends are decided by the
    scores alone, without the rules of `segmenter/line_ends`.
    """
    trials = [SentenceEndSettings(weight, margin) for weight, margin in product(CHAR_WEIGHTS, MARGINS)]
    f1 = {each: _sentence_f1(scores, each) for each in trials}
    good = [each for each in trials if f1[each] >= max(f1.values()) - _NEARLY]
    best = max(good, key=lambda each: (each.margin, f1[each], -each.char_weight))
    return replace(best, temperature=_temperature(scores, best))


def _sentence_f1(scores: EndScores, settings: SentenceEndSettings) -> float:
    found = (_log_odds(scores, settings) > 0) | scores.is_forced
    return sentence_f1(found, scores.is_end | scores.is_forced)


def _log_odds(scores: EndScores, settings: SentenceEndSettings) -> np.ndarray:
    return combined(scores.encoder, scores.char, scores.needs_margin, settings)


def sentence_f1(found: np.ndarray, gold: np.ndarray) -> float:
    """Return the F1 of sentences, from whether a sentence ends after each token.

    >>> sentence_f1(np.array([True, False, True, True]), np.array([True, False, False, True]))
    0.4
    """
    ends, gold_ends = np.flatnonzero(found), np.flatnonzero(gold)
    spans = set(zip(np.append(-1, ends)[:-1].tolist(), ends.tolist(), strict=True))
    right = spans & set(zip(np.append(-1, gold_ends)[:-1].tolist(), gold_ends.tolist(), strict=True))
    return 2 * len(right) / max(1, len(ends) + len(gold_ends))


def _temperature(scores: EndScores, settings: SentenceEndSettings) -> float:
    log_odds = _log_odds(scores, settings)[~scores.is_forced]
    choices = np.stack([np.zeros_like(log_odds), log_odds], axis=1)  # the sentence continues, or ends
    return fitted_temperature([(choices, scores.is_end[~scores.is_forced].astype(np.int64))])


def end_probabilities(scores: EndScores, settings: SentenceEndSettings) -> tuple[np.ndarray, np.ndarray]:
    """Return the probability of a sentence end after each token, and whether one is there; not if it is forced."""
    log_odds = _log_odds(scores, settings)[~scores.is_forced].astype(np.float64)
    return 1 / (1 + np.exp(-log_odds)), scores.is_end[~scores.is_forced]
