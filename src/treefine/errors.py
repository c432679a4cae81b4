"""The errors that treefine raises, each with its place in a file.

TreefineError
├── TreebankError     a file, or one sentence in it, cannot be read or is not valid
│   └── EmptyError    a file or a text contains no sentence
├── AlignmentError    two files do not have the same words
├── ConfigError       settings are not valid
└── ModelError        a model folder cannot be used
"""

from __future__ import annotations

from numbers import Integral

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

    def __init__(self, place: TreefineError) -> None:
        self.place = place  # the message as an error, with the place of the sentence
        super().__init__(str(place))


class UnknownLabelWarning(UserWarning):
    """A constraint has a label that the model does not know."""


class LanguageWarning(UserWarning):
    """A text is not in the language of the model."""


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
