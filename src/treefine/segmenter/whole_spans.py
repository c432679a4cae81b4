"""Keep e-mail addresses, URLs, emoji and the like whole. They are too rare in treebanks for a network to learn.

A treebank may split them in its own way, so training chooses the rules that agree with the treebank.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np

from treefine.treebank.raw_text import RawText, Span

# Thai, Lao, Tibetan, Burmese, Khmer, kana and Han, which put no spaces between words, and their punctuation.
_UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u3000-\u301f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef"
_PART = re.compile(f"[^{_UNSPACED}]+")
_EMOJI = "[\u2190-\u2bff\u3030\u303d\U0001f000-\U0001faff]"
TITLES = (
    "Mr",
    "Mrs",
    "Ms",
    "Dr",
    "Prof",
    "Sen",
    "Rep",
    "Gov",
    "Gen",
    "Capt",
    "Lt",
    "Col",
    "Sgt",
    "Rev",
    "approx",
    "vs",
)
_PATTERNS = {
    "emoji": rf"{_EMOJI}(?:[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff]|\u200d{_EMOJI})+|[\U0001f1e6-\U0001f1ff]{{2}}",
    "e-mail": r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "url": rf"(?<![^\W{_UNSPACED}])(?:https?://|www\.)[^\s<>\"]*[^\s<>\".,;:!?()\[\]{{}}'’”…*]/?",
    "mention": r"(?<![\w@])@[^\W\d]\w+",
    "heart": r"(?<!\S)</?3+(?!\S)",
    "phone": r"(?<![\w-])(?:\d{3}-)?\d{3}-\d{4}(?![\w-])",
    "w/o": r"(?<![\w/])[wW]/[oO](?:ut)?(?![\w/])",
    "O'Brien": r"(?<!\w)[ODL]['’][A-Z]\w+",
    "title": rf"(?<!\w)(?:{'|'.join(TITLES)})\.(?=[ \u00a0]\w)",
    "heading": r"(?<!\S)#{2,6}(?!\S)",
}
WHOLE_SPANS = {name: re.compile(pattern) for name, pattern in _PATTERNS.items()}
FEWEST_AGREE = 0.98  # of the spans that a rule finds in a treebank: the share that must be within one token


def is_inside(text: str, rules: Iterable[str]) -> np.ndarray:
    """Return the mask of characters after which no token can end, because a span that stays whole continues.

    >>> is_inside("I <3 it", ["heart"]).nonzero()[0].tolist()
    [2]
    """
    mask = np.zeros(len(text), dtype=bool)
    for name in rules:
        for start, stop in _spans(name, text):
            mask[start : stop - 1] = True
    return mask


def _spans(name: str, text: str) -> Iterator[Span]:
    """Yield the spans that a rule keeps whole. A letter of a script without spaces is not part of a span."""
    for found in WHOLE_SPANS[name].finditer(text):
        for part in _PART.finditer(text, found.start(), found.end()):
            yield part.span()


def agreeing_rules(text: RawText) -> tuple[str, ...]:
    """Return the names of the rules that agree with the tokens of a treebank; also those that find nothing in it."""
    ends = np.zeros(len(text.text), dtype=bool)
    ends[[stop - 1 for _, stop in text.spans]] = True
    return tuple(name for name in WHOLE_SPANS if _agreement(name, text.text, ends) >= FEWEST_AGREE)


def _agreement(name: str, text: str, ends: np.ndarray) -> float:
    whole = [not ends[start : stop - 1].any() for start, stop in _spans(name, text)]
    return sum(whole) / len(whole) if whole else 1.0
