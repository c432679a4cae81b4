"""What a command reads: texts, files or standard input, as a stream of sentences."""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple, cast

from treefine.errors import EmptyError, TreebankError, TreefineError
from treefine.treebank.conllu import read_treebank, read_words
from treefine.treebank.files import Rejoined, name_of, nearest_file, open_input, utf8_lines
from treefine.treebank.formats import FORMATS, format_by_name, suffix_of
from treefine.treebank.raw_text import own_text, spans_in

if TYPE_CHECKING:
    from treefine.parsing.parser import Parser
    from treefine.segmenter.cut import Segmented


InputKind = Literal["text", "lines", "words", "conllu", "conllx", "conll09", "conll09-predicted"]

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
    kind: InputKind | None = None  # None where the first lines have to tell it
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
    arguments: Sequence[str], *, kind: InputKind | None = None, is_text: bool = False, may_be_text: bool = True
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


def _input(argument: str, kind: InputKind | None, *, may_be_text: bool) -> Input:
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


def _text(argument: str, kind: InputKind | None) -> Input:
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


def kind_by_name(path: str) -> InputKind | None:
    """What a file holds, if its ending tells it.

    >>> kind_by_name("notes.TXT.gz"), kind_by_name("wsj.conllx"), kind_by_name("corpus.data")
    ('text', 'conllx', None)
    """
    if suffix_of(path) == ".txt":
        return "text"
    form = format_by_name(path)
    return None if form is None else cast(InputKind, form.name)


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


TEXT_CHUNK = 1 << 16  # bytes of a text that are read at a time
_FIRST_WORD = re.compile(
    rb"(?:1|1-[0-9]+|0\.1)\t"
)  # of a treebank; a multiword token or an empty node may be before it


class Numbering:
    """The sent_ids of sentences that have none of their own, counted on from one input to the next."""

    def __init__(self, count: int = 0) -> None:
        self.count = count

    def __call__(self, found: Iterator[Segmented]) -> Iterator[Segmented]:
        """The sentences with the next numbers."""
        for each in found:
            self.count += 1
            comments = tuple(
                f"# sent_id = {self.count}" if comment.startswith("# sent_id = ") else comment
                for comment in each.sentence.comments
            )
            yield replace(each, sentence=replace(each.sentence, comments=comments))


def read_input(
    source: Input, parser: Parser, on_bytes: Callable[[int], None], numbered: Numbering
) -> Iterator[Segmented]:
    """The sentences of an input; text is cut by the parser's segmenter, and numbered through."""
    if source.text is not None:
        with io.BytesIO(source.text.encode()) as stream:
            yield from _read(stream, "", source.kind or "text", parser, numbered)
        return
    name = name_of(source.name)
    with open_source(source, on_bytes=on_bytes) as stream:
        kind, head = (source.kind, b"") if source.kind is not None else _look(stream)
        yield from _read(cast(BinaryIO, io.BufferedReader(Rejoined(head, stream, name))), name, kind, parser, numbered)


def _read(stream: BinaryIO, path: str, kind: InputKind, parser: Parser, numbered: Numbering) -> Iterator[Segmented]:
    if kind == "text":
        return numbered(_segmented(parser.segment, _decoded(stream, path), path))
    if kind == "lines":
        return numbered(_segmented(parser.segment_lines, utf8_lines(stream, path), path))
    from treefine.segmenter.cut import Segmented  # which loads torch

    sentences = read_words(stream, name=path) if kind == "words" else read_treebank(stream, format=kind)
    found = (Segmented(sentence, spans_in(own_text(sentence), sentence)) for sentence in sentences)
    return numbered(found) if kind == "words" else found


def _segmented(
    segment: Callable[[Iterable[str]], Iterator[Segmented]], chunks: Iterable[str], path: str
) -> Iterator[Segmented]:
    """The sentences of a text, each with the line of the file that it starts in."""
    newlines: deque[int] = deque()  # their places in the text, as far as it is read and no sentence has passed them

    def noted() -> Iterator[str]:
        length = 0
        for chunk in chunks:
            newlines.extend(length + each.start() for each in re.finditer("\n", chunk))
            length += len(chunk)
            yield chunk

    line, is_empty = 1, True
    for found in segment(noted()):
        is_empty = False
        while newlines and newlines[0] < found.spans[0][0]:
            newlines.popleft()
            line += 1
        yield replace(found, sentence=replace(found.sentence, path=path, line=line))
    if is_empty:
        raise EmptyError("There is no word in the text.", path=path)


def _decoded(stream: BinaryIO, path: str) -> Iterator[str]:
    """The text in chunks, every character as it is; only a byte order mark is left out."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    line, is_end = 1, False
    while not is_end:
        chunk = stream.read(TEXT_CHUNK)
        is_end = not chunk
        try:
            text = decoder.decode(chunk, final=is_end)
        except UnicodeDecodeError as error:
            line += error.object.count(b"\n", 0, error.start)
            message = f"Byte 0x{error.object[error.start]:02x} is not UTF-8."
            raise TreebankError(message, hint="Convert the file to UTF-8.", path=path, line=line) from error
        line += text.count("\n")
        yield text


def _look(stream: BinaryIO) -> tuple[InputKind, bytes]:
    """What the first line that is no comment tells of the stream, and the bytes that were read for it."""
    head = b""
    while len(head) < TEXT_CHUNK:
        line = stream.readline(TEXT_CHUNK)
        head += line
        if not line:
            break
        words = line.removeprefix(codecs.BOM_UTF8)
        if not words.startswith(b"#") and words.strip():
            n_columns = words.count(b"\t") + 1
            if _FIRST_WORD.match(words) and (n_columns == 10 or n_columns >= 14):
                return ("conllu" if n_columns == 10 else "conll09"), head
            break
    return "text", head
