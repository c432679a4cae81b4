"""The errors that treefine raises, each with its place in a file, and the wording of messages.

TreefineError
├── TreebankError     a file, or one sentence in it, cannot be read or is not valid
│   └── EmptyError    a file or a text contains no sentence
├── AlignmentError    two files do not have the same words
├── ConfigError       settings are not valid
└── ModelError        a model folder cannot be used
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from html import escape
from importlib import import_module
from numbers import Integral
from typing import Any

# Marks that change the direction of all following text, in terminals and on pages, and two that XML forbids.
_UNSAFE = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufffe\uffff")
_UNSAFE_KINDS = ("Cc", "Cs", "Zl", "Zp")  # control characters, half surrogate pairs, line and paragraph ends
NO_MEMORY = "There is not enough memory to parse this sentence."
NO_MEMORY_HINT = "Use another device or a smaller model."


class TreefineError(Exception):
    """The base class: a message with the place of the error and a hint how to fix it, printed as one line.

    >>> print(TreefineError("HEAD is 9.", hint="Correct it.", path="a.conllu", line=4, sent_id="s1", word="2"))
    a.conllu:4: (s1, word 2) HEAD is 9. Correct it.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        path: str = "",
        line: int | None = None,
        sent_id: str = "",
        sentence: int | None = None,
        word: str = "",
    ) -> None:
        self.message = message
        self.hint = hint
        self.path = path
        self.line = line
        self.sent_id = sent_id
        self.sentence = sentence  # its number in the file, from 1
        self.word = word
        super().__init__(message)

    def __str__(self) -> str:
        path = self.path.replace("\n", "\\n")  # a file name can contain one, and an error is one line
        place = f"{path}:{self.line}" if path and self.line is not None else path
        name = self.sent_id or (f"sentence {self.sentence}" if self.sentence else "")
        inner = ", ".join(filter(None, [name, f"word {self.word}" if self.word else ""]))
        return " ".join(filter(None, [place and f"{place}:", inner and f"({inner})", self.message, self.hint]))


class TreebankError(TreefineError):
    """A treebank file, or one sentence of it, cannot be read or is not valid."""


class EmptyError(TreebankError):
    """A file or a text contains no sentence."""


class AlignmentError(TreefineError):
    """Two treebanks that must have the same words do not."""


class ConfigError(TreefineError):
    """Settings are not valid."""


class ModelError(TreefineError):
    """A model folder cannot be used."""


class LongSentenceWarning(UserWarning):
    """A sentence is too long to be parsed as a whole, so it is parsed in parts."""


class UnknownLabelWarning(UserWarning):
    """A constraint has a label that the model does not know."""


class LanguageWarning(UserWarning):
    """A text is not in the language of the model."""


def import_optional(name: str, message: str, command: str, error: type[TreefineError] = TreefineError) -> Any:
    """Import a package that may be missing; if it is, raise an error with this message and how to install it."""
    try:
        return import_module(name)
    except ImportError as missing:
        raise error(message, hint=f"Install it: pip install {command}") from missing


def described(value: object) -> str:
    """Describe a value of the wrong type for a message: what it is and, if it is short, how it looks.

    >>> described(5), described(None), described(b"x"), described({"heads": 1})
    ('the int 5', 'None', "the bytes b'x'", "the dict {'heads': 1}")
    """
    if value is None:
        return "None"
    try:
        look = repr(value)
    except Exception:
        look = ""
    name = type(value).__name__
    if not look or len(look) > 40 or look.startswith("<") or "\n" in look:
        return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
    return f"the {name} {look}"


def is_whole_number(value: object) -> bool:
    """Return whether a value is a whole number, of Python or NumPy; True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def shortened(cell: str) -> str:
    """Shorten a value from a file, to show it in a message."""
    return cell if len(cell) <= 20 else cell[:20] + "…"


def count(number: int, thing: str) -> str:
    """Return the number and the noun, in the plural if needed.

    >>> count(2000, "sentence"), count(1, "word"), count(3, "DEPS")
    ('2,000 sentences', '1 word', '3 DEPS')
    """
    return f"{number:,} {thing}{'s' if number != 1 and thing.islower() else ''}"


def losses_line(lost: Mapping[str, int], title: str) -> str:
    """Return a line that lists the items a format cannot store, with their counts."""
    items = ", ".join(count(number, kind) for kind, number in lost.items())
    return f"dropped, because {title} cannot store them: {items}"


def visible(text: str, *, ascii_only: bool = False) -> str:
    r"""Return the text with control characters and direction marks replaced by escapes.

    >>> print(visible("a\x1b[2Jb"), visible("Öl"), visible("Öl", ascii_only=True))
    a\x1b[2Jb Öl \xd6l
    """
    if text.isprintable() and (text.isascii() or not ascii_only):
        return text

    def is_shown(character: str) -> bool:
        is_safe = character not in _UNSAFE and unicodedata.category(character) not in _UNSAFE_KINDS
        return is_safe and (character.isascii() or not ascii_only)

    return "".join([each if is_shown(each) else each.encode("unicode_escape").decode() for each in text])


def safe_html(text: str) -> str:
    r"""Return the text escaped for HTML and SVG, with control characters as visible escapes.

    >>> print(safe_html("<b>\x1b"))
    &lt;b&gt;\x1b
    """
    return escape(visible(text))


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
        line = ""
        for character in word:
            if line and (len(line) >= most_characters or width(line + character) > limit):
                lines.append(line)
                line = ""
            line += character
    return [*lines, line] if line else lines


def is_right_to_left(text: str) -> bool:
    """Return whether more letters of the text are written right to left than left to right.

    >>> is_right_to_left("שלום"), is_right_to_left("peace"), is_right_to_left("1, 2")
    (True, False, False)
    """
    directions = [unicodedata.bidirectional(each) for each in text]
    return directions.count("R") + directions.count("AL") > directions.count("L")
