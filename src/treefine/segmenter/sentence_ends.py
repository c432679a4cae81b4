"""Let the encoder of a parser decide, together with the segmenter's network, where the sentences of a text end.

The encoder reads windows of tokens. They start at fixed positions, counted from the start of the text, so the result
does not depend on how the text is split into chunks. See docs/design.md, 'Sentence ends'.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import NamedTuple, Protocol

import numpy as np

from treefine.config import SentenceEndSettings
from treefine.cores import on_all_cores
from treefine.segmenter.cut import TITLES, Scored, joined_stretches, part, whole_tokens
from treefine.treebank.raw_text import PARAGRAPH, GapToken

WINDOW_TOKENS = 128  # tokens in a window
CONTEXT_TOKENS = 32  # tokens that are read on either side of a window
WINDOWS_AT_ONCE = 8  # windows whose sentences come out together
WINDOWS_IN_BATCH = 4  # grouped the same way every time, because rounding depends on the batch; each core has a batch
FEWEST_TOKENS = WINDOW_TOKENS + 2 * CONTEXT_TOKENS  # the encoder was trained on windows of this length
_MOST_CHARACTERS = 2_000  # of all copies of a short text
NO_END = -20.0  # the score of a token after which no sentence ends
_TITLES = {f"{each}." for each in TITLES}
_FINAL = ".!?…:;。！？．：；｡؟۔؛।॥։።‼⁇⁈⁉‽"
_CLOSING = "\"')]}”’»›」』）］｝″′*_"
_ENDS_FINALLY = re.compile(rf"[{re.escape(_FINAL)}][{re.escape(_CLOSING)}]*\Z")
_IS_CLOSING = re.compile(rf"[{re.escape(_CLOSING)}]+\Z")
_EMOTICON = re.compile(r"(?:[:;=8xX]['^]?[-o]?[)(\]\[dDpP/\\|*3]+|</?3+|\^[_.]*\^)\Z")
_FIRST_PICTURE = "\u2190"  # symbols before it, such as ° and ™, are not emoji
_MODIFIERS = "\ufe0e\ufe0f\u200d\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"  # of an emoji


class SentenceScorer(Protocol):
    """A model that scores where sentences end, such as a ParserModel."""

    def sentence_end_scores(self, windows: Sequence[Sequence[GapToken]], treebank: str = "") -> list[np.ndarray]:
        """Return one score per token of each window; above zero, the sentence ends after the token.

        `treebank` is the code of the treebank that the text is like; empty if it is unknown.
        """
        ...  # pragma: no cover


class Place(NamedTuple):
    """A token, and where it is in the whole text."""

    token: GapToken
    start: int
    last: int  # its last character
    needs_margin: bool  # it is within a line and does not end in final punctuation
    is_title: bool = False  # it is an abbreviation such as Prof. within a line


def combined(
    encoder: np.ndarray, char: np.ndarray, needs_margin: np.ndarray, settings: SentenceEndSettings
) -> np.ndarray:
    """Return the log-odds that a sentence ends after each token, from the scores of both networks."""
    score: np.ndarray = encoder + settings.char_weight * char - settings.margin * needs_margin
    return score / settings.temperature


@dataclass(frozen=True)
class SentenceEnds:
    """A model that scores sentence ends, and how its scores are combined with those of the segmenter's network."""

    scorer: SentenceScorer
    settings: SentenceEndSettings
    keeps_titles: bool = False  # whether no sentence ends after a title such as Prof.
    has_margin: bool = True  # whether the margin counts; not if most sentences end without punctuation, as in Thai
    treebank: str = ""  # code of the treebank that the text is like; empty: unknown

    def of_stream(self, stretches: Iterable[Scored], *, most_spaces: int) -> Iterator[Scored]:
        """Yield a text that comes in stretches, with the combined score at the last character of each token."""
        at_once = WINDOW_TOKENS * WINDOWS_AT_ONCE
        parts, start = list[Scored](), 0  # the text that waits for its scores, and its offset in the whole text
        places, n_done = list[Place](), 0  # its tokens, after `n_done` tokens that are only context
        for stretch, new_places in chain(placed_tokens(stretches, most_spaces), [(None, list[Place]())]):
            parts += [stretch] if stretch is not None else []
            places += new_places
            while len(places) - n_done >= at_once + CONTEXT_TOKENS or (parts and stretch is None):  # the end
                text, stop = joined_stretches(parts), min(n_done + at_once, len(places))
                is_last = stretch is None and stop == len(places)
                next_start = start + len(text.text) if is_last else places[stop].start
                scores = self._scores(_windows(places, n_done, stop))
                yield self._replace_scores(part(text, 0, next_start - start), start, places[n_done:stop], scores)
                parts, start = [] if is_last else [part(text, next_start - start, len(text.text))], next_start
                places, n_done = places[max(0, stop - CONTEXT_TOKENS) :], min(stop, CONTEXT_TOKENS)

    def of_texts(self, texts: Sequence[Scored], *, most_spaces: int) -> list[Scored]:
        """Return each whole text as `of_stream` does; the windows of several texts share batches.

        Scores differ slightly between batches.
        """
        places = [[each for _, some in placed_tokens([text], most_spaces) for each in some] for text in texts]
        windows = [window for each in places for window in _windows(each, 0, len(each))]
        scores = iter(self._scores(windows))
        return [
            self._replace_scores(text, 0, of_text, [next(scores) for _ in range(0, len(of_text), WINDOW_TOKENS)])
            for text, of_text in zip(texts, places, strict=True)
        ]

    def _replace_scores(
        self, text: Scored, start: int, places: Sequence[Place], encoder: Sequence[np.ndarray]
    ) -> Scored:
        if not places:
            return text
        last = np.array([each.last for each in places]) - start
        needs_margin = np.array([each.needs_margin and self.has_margin for each in places])
        sentence = text.sentence.astype(np.float32)  # a copy
        sentence[last] = combined(np.concatenate(encoder), sentence[last], needs_margin, self.settings)
        if self.keeps_titles:
            sentence[last[[each.is_title for each in places]]] = NO_END
        return text._replace(sentence=sentence)

    def _scores(self, windows: Sequence[_Window]) -> list[np.ndarray]:
        """Return the encoder's score of each token of the windows, without their context."""
        tokens, scored = (
            [each.tokens for each in windows],
            partial(self.scorer.sentence_end_scores, treebank=self.treebank),
        )
        groups = [tokens[first : first + WINDOWS_IN_BATCH] for first in range(0, len(tokens), WINDOWS_IN_BATCH)]
        rows = chain.from_iterable(on_all_cores(scored, groups))
        return [row[each.first : each.stop] for row, each in zip(rows, windows, strict=True)]


class _Window(NamedTuple):
    tokens: list[GapToken]
    first: int  # the tokens before it are context
    stop: int  # the tokens from here on are context


def _windows(places: Sequence[Place], first: int, stop: int) -> list[_Window]:
    """Return the windows of the tokens from `first` to `stop`; the tokens around them are context."""
    windows = []
    for left in range(first, stop, WINDOW_TOKENS):
        begin, end = max(0, left - CONTEXT_TOKENS), min(left + WINDOW_TOKENS, stop)
        tokens = [each.token for each in places[begin : end + CONTEXT_TOKENS]]
        window = _Window(tokens, left - begin, end - begin)
        is_whole_text = first == 0 and len(tokens) == len(places)
        windows.append(_repeated(window) if is_whole_text else window)
    return windows


def _repeated(window: _Window) -> _Window:
    """Return a short text several times, as paragraphs, because the encoder was trained on long windows.

    The scores are those of the copy in the middle.
    """
    n_copies = min(
        FEWEST_TOKENS // len(window.tokens), _MOST_CHARACTERS // sum(len(each.form) for each in window.tokens)
    )
    n_copies = n_copies // 2 * 2 + 1
    if n_copies < 3:
        return window
    copy = [*window.tokens]
    copy[0] = copy[0]._replace(before=PARAGRAPH)
    copy[-1] = copy[-1]._replace(after=PARAGRAPH)
    start = n_copies // 2 * len(copy)
    return _Window(n_copies * copy, start + window.first, start + window.stop)


def placed_tokens(stretches: Iterable[Scored], most_spaces: int) -> Iterator[tuple[Scored, list[Place]]]:
    """Yield the text in stretches of whole tokens, and the tokens of each stretch."""
    start, before, is_final = 0, "", False
    for stretch, spans in whole_tokens(stretches, most_spaces):
        text, places = stretch.text, list[Place]()
        stops = [*(left for left, _ in spans[1:]), len(text)]
        before = before or text[: spans[0][0] if spans else 0]  # only the first stretch starts with a gap
        for (left, right), stop in zip(spans, stops, strict=False):  # text of only white space has no span
            token = GapToken(text[left:right], before, text[right:stop])
            is_final = ends_finally(token.form) or (is_final and _IS_CLOSING.match(token.form) is not None)
            is_in_line = not ("\n" in token.after or "\r" in token.after)
            is_title = is_in_line and token.form in _TITLES
            places.append(Place(token, start + left, start + right - 1, is_in_line and not is_final, is_title))
            before = token.after
        yield stretch, places
        start += len(text)


def ends_finally(form: str) -> bool:
    """Return whether a token ends in final punctuation, closing quotes and brackets aside, or is an emoticon or emoji.

    >>> [ends_finally(each) for each in (".", "etc.", "?!", '."', "。", ":)", "<3", "\N{GRINNING FACE}")]
    [True, True, True, True, True, True, True, True]
    >>> [ends_finally(each) for each in ("Kong", ")", "sales@example.com", "20\N{DEGREE SIGN}", ",", "-")]
    [False, False, False, False, False, False]
    """
    if form.isalnum():
        return False  # a short cut for most tokens
    if _ENDS_FINALLY.search(form) or _EMOTICON.match(form):
        return True
    last = form.rstrip(_MODIFIERS)[-1:]
    return last >= _FIRST_PICTURE and unicodedata.category(last) == "So"
