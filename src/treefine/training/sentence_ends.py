"""Sentence ends: teach the encoder of a parser to find them in running text, and fit how its scores decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.config import SentenceEndSettings
from treefine.model.parser_model import ParserModel
from treefine.parsing.parser import Parser
from treefine.segmenter.cut import has_blank_line
from treefine.segmenter.segmenter import Segmenter
from treefine.segmenter.sentence_ends import SentenceEnds, SentenceScorer, combined, placed_tokens
from treefine.training.calibrate import fitted_temperature
from treefine.training.data import by_treebank
from treefine.training.recipe import SegmenterTraining
from treefine.training.segmenter import TreebankTexts, without_some
from treefine.treebank.raw_text import GapToken, RawText, raw_text
from treefine.treebank.sentence import Sentence

WINDOW = 192  # tokens
_BATCH_WINDOWS = 32
_IGNORED = -1.0  # the target of ROOT and padding
CHAR_WEIGHTS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0)
MARGINS = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0)
_NEARLY = 0.0025  # difference in F1 that a larger margin may cost
_ENCODER_ALONE = SentenceEndSettings(char_weight=0.0, margin=0.0)


@dataclass(frozen=True)
class TextWindow:
    """A stretch of running text, and whether a sentence ends after each of its tokens."""

    tokens: tuple[GapToken, ...]
    ends: tuple[bool, ...]
    treebank: str = ""  # code of its treebank; empty if it is masked


def windows_of(text: RawText, *, start: int = 0, treebank: str = "") -> list[TextWindow]:
    """Cut a text into windows of the same number of tokens; the first one has only `start` tokens, if any."""
    gaps = [text.text[end:begin] for (_, end), (begin, _) in zip(text.spans, text.spans[1:], strict=False)]
    if text.spans:
        gaps = [text.text[: text.spans[0][0]], *gaps, text.text[text.spans[-1][1] :]]
    forms = [text.text[first:end] for first, end in text.spans]
    tokens = list(map(GapToken, forms, gaps, gaps[1:]))
    bounds = sorted({0, *range(start, len(tokens), WINDOW), len(tokens)})
    return [
        TextWindow(tuple(tokens[first:end]), text.ends_sentence[first:end], treebank)
        for first, end in zip(bounds, bounds[1:], strict=False)
    ]


class RunningText:
    """The text of one or more treebanks, drawn again for each epoch.

    With several treebanks, `balance` and `unnamed` are those of the recipe's section on the treebank.
    """

    def __init__(
        self,
        train: Sequence[Sentence],
        settings: SegmenterTraining,
        *,
        balance: float = 1.0,
        unnamed: float = 0.1,
    ) -> None:
        self.texts, self.settings, self.unnamed = TreebankTexts(train, balance), settings, unnamed

    def batches(self, rng: np.random.Generator) -> list[list[TextWindow]]:
        """Return the windows of an epoch in random batches."""
        windows: list[TextWindow] = []
        for _ in range(self.settings.texts_per_epoch):
            for code, text in self.texts.draw(self.settings, rng):
                windows += windows_of(text, start=int(rng.integers(WINDOW)), treebank=code)
        order = rng.permutation(len(windows)).tolist()
        codes = without_some([window.treebank for window in windows], self.unnamed, rng)
        windows = [replace(windows[place], treebank=codes[place]) for place in order]
        return [windows[first : first + _BATCH_WINDOWS] for first in range(0, len(windows), _BATCH_WINDOWS)]


def end_loss(logits: Float[Tensor, "batch word"], windows: Sequence[TextWindow]) -> Float[Tensor, ""]:
    """Return the mean loss over the tokens of some windows. Column 0 of the logits is ROOT."""
    right = np.full(logits.shape, _IGNORED, np.float32)
    for row, window in zip(right, windows, strict=True):
        row[1 : len(window.ends) + 1] = window.ends
    targets = torch.from_numpy(right).to(logits.device)
    is_token = targets != _IGNORED
    return F.binary_cross_entropy_with_logits(logits[is_token], targets[is_token])


def encoder_f1(model: ParserModel, sentences: Sequence[Sentence]) -> float:
    """Return the F1 of the sentences that the encoder alone finds in the text of a treebank with gold tokens.

    With several treebanks, return the mean of their F1.
    """
    treebanks = by_treebank(sentences)
    return sum(_encoder_f1(model, some, code) for code, some in treebanks.items()) / max(1, len(treebanks))


def _encoder_f1(model: ParserModel, sentences: Sequence[Sentence], treebank: str) -> float:
    windows = windows_of(raw_text(sentences))
    ends: list[bool] = []
    for first in range(0, len(windows), _BATCH_WINDOWS):
        some = windows[first : first + _BATCH_WINDOWS]
        for scores in model.sentence_end_scores([window.tokens for window in some], treebank):
            ends += (scores > 0).tolist()
    gold = [end for window in windows for end in window.ends]
    ends[-1] = gold[-1] = True  # the text ends here
    return sentence_f1(np.array(ends), np.array(gold))


def fitted_ends(parser: Parser, dev: Sequence[Sentence]) -> SentenceEndSettings:
    """Fit the settings of a parser that finds sentences to the text of dev; keep those of any other parser."""
    segmenter = parser.segmenter
    if segmenter is None or not parser.model.finds_sentences:
        return parser.model.settings.sentence_ends
    scores = [
        end_scores(segmenter.for_treebank(code), parser.running, raw_text(some))
        for code, some in by_treebank(dev).items()
    ]
    return fitted(EndScores(*map(np.concatenate, zip(*scores, strict=True))))


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
    ends_of = SentenceEnds(scorer, _ENCODER_ALONE, treebank=segmenter.treebank)
    of_encoder = ends_of.of_stream(scored, most_spaces=segmenter.rules.most_spaces)
    encoder, char = (np.concatenate([stretch.sentence for stretch in some]) for some in (list(of_encoder), scored))
    tokens = [token for _, some in placed_tokens(scored, segmenter.rules.most_spaces) for token in some]
    last = np.array([token.last for token in tokens], dtype=np.int64)
    is_forced = np.array([has_blank_line(token.token.after) for token in tokens], dtype=bool)
    is_forced[-1:] = True
    has_margin = segmenter.rules.marks_ends
    needs_margin = np.array([token.needs_margin and has_margin for token in tokens], dtype=bool)
    is_end = np.array([token.last in ends for token in tokens], dtype=bool)
    return EndScores(encoder[last], char[last], needs_margin, is_end, is_forced)


def fitted(scores: EndScores) -> SentenceEndSettings:
    """Return the settings with a high F1 of sentences, and the temperature that makes the ends most likely.

    Of the settings that are about as good as the best, the one with the largest margin is chosen: a dev set has few
    sentences that end without punctuation, and text of other kinds has fewer. Line ends are decided by the
    scores alone, without the rules of `segmenter/line_ends`.
    """
    trials = [SentenceEndSettings(weight, margin) for weight, margin in product(CHAR_WEIGHTS, MARGINS)]
    gold = scores.is_end | scores.is_forced
    f1 = {trial: sentence_f1((_log_odds(scores, trial) > 0) | scores.is_forced, gold) for trial in trials}
    good = [trial for trial in trials if f1[trial] >= max(f1.values()) - _NEARLY]
    best = max(good, key=lambda trial: (trial.margin, f1[trial], -trial.char_weight))
    log_odds = _log_odds(scores, best)[~scores.is_forced]
    choices = np.stack([np.zeros_like(log_odds), log_odds], axis=1)  # the sentence continues, or ends
    is_end = scores.is_end[~scores.is_forced].astype(np.int64)
    return replace(best, temperature=fitted_temperature([(choices, is_end)]))


def _log_odds(scores: EndScores, settings: SentenceEndSettings) -> np.ndarray:
    return combined(scores.encoder, scores.char, scores.needs_margin, settings)


def sentence_f1(ends: np.ndarray, gold: np.ndarray) -> float:
    """Return the F1 of sentences, from whether a sentence ends after each token.

    >>> sentence_f1(np.array([True, False, True, True]), np.array([True, False, False, True]))
    0.4
    """
    ours, theirs = (
        set(pairwise([-1, *np.flatnonzero(some).tolist()])) for some in (ends, gold)
    )  # the token before each sentence, and its last token
    return 2 * len(ours & theirs) / max(1, len(ours) + len(theirs))
