"""Make text safe to show, and measure its width."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from html import escape

# These change the direction of all following text, in terminals and on pages.
DIRECTION_MARKS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
NOT_IN_XML = frozenset("\ufffe\uffff")
ACTING = frozenset({"Cc", "Cs", "Zl", "Zp"})  # control characters, half surrogate pairs, line and paragraph ends


def visible(text: str, *, ascii_only: bool = False) -> str:
    r"""Return the text with control characters and direction marks replaced by escapes.

    >>> print(visible("a\x1b[2Jb"), visible("Öl"), visible("Öl", ascii_only=True))
    a\x1b[2Jb Öl \xd6l
    """
    if text.isprintable() and (text.isascii() or not ascii_only):
        return text
    return "".join(
        each.encode("unicode_escape").decode() if _acts(each) or (ascii_only and not each.isascii()) else each
        for each in text
    )


def safe_html(text: str) -> str:
    r"""Return the text escaped for HTML and SVG, with control characters as visible escapes.

    >>> print(safe_html("<b>\x1b"))
    &lt;b&gt;\x1b
    """
    return escape(visible(text))


def _acts(character: str) -> bool:
    return unicodedata.category(character) in ACTING or character in DIRECTION_MARKS or character in NOT_IN_XML


def cells(text: str) -> int:
    """Return the width of the text in terminal columns.

    >>> cells("cat"), cells("猫"), cells("e\u0301")
    (3, 2, 1)
    """
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def _cells_of(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me") or "\u1160" <= character <= "\u11ff":  # ends of Hangul syllables
        return 0
    if unicodedata.category(character) == "Cf" and unicodedata.bidirectional(character) == "BN":  # joiners and similar
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shorten(text: str, limit: int, *, ending: str = "…") -> str:
    """Return the text if it fits in `limit` columns; otherwise return its start followed by `ending`.

    >>> shorten("pneumonia", 6)
    'pneum…'
    """
    most_characters = 4 * limit  # combining marks have no width: bound the number of characters too
    if len(text) <= most_characters and cells(text) <= limit:
        return text
    kept = text[:most_characters]
    while kept and cells(kept) > limit - len(ending):
        kept = kept[:-1]
    return kept + ending


def wrapped(text: str, limit: float, *, width: Callable[[str], float] = cells) -> list[str]:
    """Return the text as lines of at most this width, cut at spaces where possible.

    >>> wrapped("The old man the boats", 8)
    ['The old', 'man the', 'boats']
    """
    lines, line, most_characters = list[str](), "", 4 * int(limit)  # combining marks have no width
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if len(longer) <= most_characters and width(longer) <= limit:
            line = longer
            continue
        if line:
            lines.append(line)
        line = word
        while len(line) > most_characters or width(line) > limit:
            end = min(len(line), most_characters)
            while end > 1 and width(line[:end]) > limit:
                end -= 1
            if end == len(line):
                break  # one character that is wider than the limit
            lines.append(line[:end])
            line = line[end:]
    return [*lines, line] if line else lines


def is_right_to_left(text: str) -> bool:
    """Return whether more letters of the text are written right to left than left to right.

    >>> is_right_to_left("שלום"), is_right_to_left("peace"), is_right_to_left("1, 2")
    (True, False, False)
    """
    directions = [unicodedata.bidirectional(each) for each in text]
    return directions.count("R") + directions.count("AL") > directions.count("L")
