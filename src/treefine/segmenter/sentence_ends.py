"""Let the encoder of a parser decide, together with the segmenter's network, where the sentences of a text end.

The encoder reads only windows around the tokens of which the network is not sure. See docs/design.md, 'Sentence ends'.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Float

from treefine.config import SentenceEndSettings
from treefine.cores import on_all_cores
from treefine.segmenter.cut import TITLES, Scored, has_blank_line, token_spans
from treefine.treebank.raw_text import PARAGRAPH, GapToken

DOUBT = 3.0  # log-odds of the segmenter's network below which the encoder is asked
WINDOW_TOKENS = 128  # tokens of a window from its first to its last token in doubt, at most
CONTEXT_TOKENS = 32  # tokens that are read on either side of them
FEWEST_TOKENS = 192  # a short text is repeated up to this number of tokens
_MOST_CHARACTERS = 2_000  # of all copies of a short text
WINDOWS_IN_BATCH = 8
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
    """A token of a text, and its last character."""

    token: GapToken
    last: int
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

    def of_texts(self, texts: Sequence[Scored], *, most_spaces: int) -> list[Scored]:
        """Return the texts with a new score at the last character of each token that is in doubt."""
        places = [places_of(text, most_spaces) for text in texts]
        doubtful = [self._in_doubt(text, some) for text, some in zip(texts, places, strict=True)]
        return [
            self._replaced(text, some, doubts, encoder)
            for text, some, doubts, encoder in zip(
                texts, places, doubtful, self.encoder_scores(places, doubtful), strict=True
            )
        ]

    def encoder_scores(
        self, texts: Sequence[Sequence[Place]], chosen: Sequence[Sequence[int]]
    ) -> list[Float[np.ndarray, " token"]]:
        """Return the encoder's scores of the chosen tokens of each text; windows of several texts share batches."""
        windows = [
            (number, *_tokens_of(places, first, stop, some))
            for number, (places, of_text) in enumerate(zip(texts, chosen, strict=True))
            for first, stop, some in _windows(of_text, len(places))
        ]
        order = sorted(range(len(windows)), key=lambda window: len(windows[window][1]))
        tokens = [windows[each][1] for each in order]
        groups = [tokens[first : first + WINDOWS_IN_BATCH] for first in range(0, len(tokens), WINDOWS_IN_BATCH)]
        rows = on_all_cores(partial(self.scorer.sentence_end_scores, treebank=self.treebank), groups)
        scores = dict(zip(order, chain.from_iterable(rows), strict=True))
        found = [[np.zeros(0, np.float32)] for _ in texts]
        for window, (number, _, some) in enumerate(windows):
            found[number].append(scores[window][some])
        return list(map(np.concatenate, found))

    def _in_doubt(self, text: Scored, places: Sequence[Place]) -> list[int]:
        """Return the numbers of the tokens that the segmenter's network does not decide. The last token ends."""
        return [
            number
            for number, place in enumerate(places[:-1])
            if -DOUBT < (score := float(text.sentence[place.last]))
            and (score < DOUBT or (place.needs_margin and self.has_margin))
            and not (place.is_title and self.keeps_titles)
            and not has_blank_line(place.token.after)
        ]

    def _replaced(self, text: Scored, places: Sequence[Place], doubtful: Sequence[int], encoder: np.ndarray) -> Scored:
        sentence = text.sentence.copy()
        needs_margin = np.array([places[each].needs_margin and self.has_margin for each in doubtful], dtype=bool)
        last = np.array([places[each].last for each in doubtful], dtype=np.int64)
        sentence[last] = combined(encoder, sentence[last], needs_margin, self.settings)
        titles = [each.last for each in places if each.is_title and self.keeps_titles]
        sentence[np.array(titles, dtype=np.int64)] = NO_END
        return text._replace(sentence=sentence)


def _tokens_of(
    places: Sequence[Place], first: int, stop: int, chosen: Sequence[int]
) -> tuple[list[GapToken], list[int]]:
    """Return the tokens of a window, and which of them are chosen.

    A short text is read several times, as paragraphs, because the encoders of the bundled models learned from long
    windows only; the copy in the middle counts.
    """
    tokens = [each.token for each in places[first:stop]]
    n_copies = min(FEWEST_TOKENS // len(tokens), _MOST_CHARACTERS // sum(len(each.form) for each in tokens))
    middle = n_copies // 2 if len(tokens) == len(places) else 0
    if middle:
        tokens[0], tokens[-1] = tokens[0]._replace(before=PARAGRAPH), tokens[-1]._replace(after=PARAGRAPH)
    start = middle * len(tokens) - first
    return (2 * middle + 1) * tokens, [start + each for each in chosen]


def _windows(doubtful: Sequence[int], n_tokens: int) -> Iterator[tuple[int, int, list[int]]]:
    """Yield the first token and the end of each window, and the tokens in it that are in doubt.

    Tokens that are close share a window, but none has more than WINDOW_TOKENS tokens besides its context.
    """
    some = list[int]()
    for token in [*doubtful, None]:
        if some and (token is None or token - some[-1] > CONTEXT_TOKENS or token - some[0] >= WINDOW_TOKENS):
            yield max(0, some[0] - CONTEXT_TOKENS), min(some[-1] + 1 + CONTEXT_TOKENS, n_tokens), some
            some = []
        some += [token] if token is not None else []


def places_of(text: Scored, most_spaces: int) -> list[Place]:
    """Return the tokens of a text."""
    places, is_final = list[Place](), False
    spans = token_spans(text.text, text.token, most_spaces)
    edges = [0, *chain.from_iterable(spans), len(text.text)]
    gaps = [text.text[start:stop] for start, stop in zip(edges[::2], edges[1::2], strict=True)]
    for (left, right), before, after in zip(spans, gaps, gaps[1:], strict=False):
        token = GapToken(text.text[left:right], before, after)
        is_final = ends_finally(token.form) or (is_final and _IS_CLOSING.match(token.form) is not None)
        is_in_line = not ("\n" in after or "\r" in after)
        is_title = is_in_line and token.form in _TITLES
        places.append(Place(token, right - 1, is_in_line and not is_final, is_title))
    return places


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
