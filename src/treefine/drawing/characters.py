"""Characters that are safe to show, and the room they take."""

from __future__ import annotations

import unicodedata
from html import escape

# These turn the direction of all that follows, on a terminal and on a page.
DIRECTION_MARKS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
NOT_IN_XML = frozenset("\ufffe\uffff")
ACTING = frozenset({"Cc", "Cs", "Zl", "Zp"})  # control characters, half surrogate pairs, line and paragraph ends


def visible(text: str, *, ascii_only: bool = False) -> str:
    r"""Return the text, with an escape in place of each character that would act rather than show.

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
    r"""Return the text as it may stand in HTML or SVG: nothing in it acts.

    >>> print(safe_html("<b>\x1b"))
    &lt;b&gt;\x1b
    """
    return escape(visible(text))


def _acts(character: str) -> bool:
    return unicodedata.category(character) in ACTING or character in DIRECTION_MARKS or character in NOT_IN_XML


def cells(text: str) -> int:
    """Return the number of terminal columns the text takes.

    >>> cells("cat"), cells("猫"), cells("e\u0301")
    (3, 2, 1)
    """
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def _cells_of(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me") or "\u1160" <= character <= "\u11ff":  # ends of Hangul syllables
        return 0
    if unicodedata.category(character) == "Cf" and unicodedata.bidirectional(character) == "BN":  # joiners and the like
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shorten(text: str, limit: int, *, ending: str = "…") -> str:
    """Return the text if it takes at most `limit` columns, else its beginning and the ending.

    >>> shorten("pneumonia", 6)
    'pneum…'
    """
    most_characters = 4 * limit  # marks take no column, yet nobody reads a letter with a thousand of them
    if len(text) <= most_characters and cells(text) <= limit:
        return text
    kept = text[:most_characters]
    while kept and cells(kept) > limit - len(ending):
        kept = kept[:-1]
    return kept + ending


def is_right_to_left(text: str) -> bool:
    """Return whether more letters are written from the right than from the left.

    >>> is_right_to_left("שלום"), is_right_to_left("peace"), is_right_to_left("1, 2")
    (True, False, False)
    """
    directions = [unicodedata.bidirectional(each) for each in text]
    return directions.count("R") + directions.count("AL") > directions.count("L")
