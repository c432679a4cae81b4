"""What a command is to read: texts, files or standard input, and what these hold."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, cast

from treefine.errors import TreefineError
from treefine.treebank.files import nearest_file, open_input
from treefine.treebank.formats import FORMATS, format_by_name, suffix_of

Kind = Literal["text", "lines", "words", "conllu", "conllx", "conll09", "conll09-predicted"]

_FILE_LIKE = re.compile(r"[^./\\\s]\.[A-Za-z][A-Za-z0-9]{0,9}\Z")


class Section(NamedTuple):
    """Whole sentences of a plain file, by the bytes they take."""

    start: int
    stop: int
    n_before: int = 0  # sentences before it, where they have to be counted through


@dataclass(frozen=True, slots=True)
class Input:
    """One thing to parse."""

    name: str  # the path of a file; - is standard input; empty for a text
    text: str | None = None  # where that stands on the command line itself
    kind: Kind | None = None  # None where the first lines have to tell it
    section: Section | None = None  # of the file; None for all of it

    @property
    def is_file(self) -> bool:
        """Whether it has a name of its own."""
        return self.text is None and self.name != "-"

    @property
    def is_treebank(self) -> bool:
        """Whether it is a stream of bytes that is known to be a treebank."""
        return self.text is None and self.kind in FORMATS


def find_inputs(
    arguments: Sequence[str], *, kind: Kind | None = None, is_text: bool = False, may_be_text: bool = True
) -> list[Input]:
    """The inputs that the arguments of a command name; all faults that show before work are told at once.

    An argument is a file if there is one of that name, else a text, unless it looks like the name of a file. Without
    arguments it is standard input.
    """
    if not arguments and sys.stdin is not None and sys.stdin.isatty():
        hint = "Give a text in quotes, the name of a file, or - to type a text and end it with Ctrl-D."
        raise TreefineError("There is nothing to parse.", hint=hint if may_be_text else "Name a file.")
    may_be_text = may_be_text and kind in (None, "text", "lines", "words")
    found, faults = [], []
    for argument in arguments or ["-"]:
        try:
            if is_text:
                found.append(_text(argument, kind))
            else:
                found.append(_input(argument, kind, may_be_text=may_be_text))
        except TreefineError as error:
            faults.append(error)
    if faults:
        raise faults[0] if len(faults) == 1 else TreefineError("\n".join(map(str, faults)))
    return found


def _input(argument: str, kind: Kind | None, *, may_be_text: bool) -> Input:
    if argument == "-":
        return Input("-", kind=kind)
    if os.path.isdir(argument):  # noqa: PTH112 - Path's own raises where the name is too long
        raise TreefineError("This is a directory.", hint="Name a file in it.", path=argument)
    if os.path.exists(argument):  # noqa: PTH110
        if not os.access(argument, os.R_OK):
            raise TreefineError("Permission denied.", path=argument)
        return Input(argument, kind=kind or kind_by_name(argument))
    if may_be_text and (any(map(str.isspace, argument)) or not _FILE_LIKE.search(argument[-20:])):
        return _text(argument, kind)
    hints = (nearest_file(argument), "If it is a text, add --text." * may_be_text)
    raise TreefineError("There is no such file.", hint=" ".join(filter(None, hints)), path=argument)


def _text(argument: str, kind: Kind | None) -> Input:
    for letter in argument:
        if "\ud800" <= letter <= "\udfff":  # so Python gives us a byte that is no UTF-8
            what = f"Byte 0x{ord(letter) - 0xDC00:02x}" if "\udc80" <= letter <= "\udcff" else ascii(letter)
            raise TreefineError(f"{what} in the text is not UTF-8.", hint="Set the terminal to UTF-8, or give a file.")
    return Input("", argument, kind or "text")


@contextmanager
def open_source(source: Input, *, on_bytes: Callable[[int], None] | None = None) -> Iterator[BinaryIO]:
    """The bytes of a file or of standard input, or of the section of a file, which is held in memory."""
    if source.section is None:
        with open_input(source.name, on_bytes=on_bytes) as stream:
            yield stream
        return
    start, stop, _ = source.section
    with open_input(source.name) as stream:
        stream.seek(start)
        data = stream.read(stop - start)
    yield io.BytesIO(data)


def kind_by_name(path: str) -> Kind | None:
    """What a file holds, if its ending tells it.

    >>> kind_by_name("notes.TXT.gz"), kind_by_name("wsj.conllx"), kind_by_name("corpus.data")
    ('text', 'conllx', None)
    """
    if suffix_of(path) == ".txt":
        return "text"
    form = format_by_name(path)
    return None if form is None else cast(Kind, form.name)


def bytes_in(inputs: Sequence[Input]) -> int | None:
    """The size of the inputs together, for a progress bar; None where one is a stream, or all are texts."""
    total = 0
    for each in inputs:
        if each.text is not None:
            continue
        if not (each.is_file and Path(each.name).is_file()):
            return None
        total += Path(each.name).stat().st_size
    return total or None
