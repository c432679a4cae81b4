"""Read, check and write treebanks as a stream: a valid file comes back byte for byte, in constant memory."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from typing import BinaryIO, Literal, NamedTuple

from treefine.errors import EmptyError, TreebankError
from treefine.treebank.faults import cell_faults, line_faults, text_faults, tree_faults
from treefine.treebank.files import Source, name_of, open_input, open_output
from treefine.treebank.formats import Format, format_of
from treefine.treebank.sentence import PLAIN, Layout, Sentence

CHUNK = 1 << 16  # bytes read at a time
STRETCH = 1 << 18  # bytes of a file that are handed on together, whole sentences
LONGEST = 1 << 24  # bytes without a blank line after which a file is no treebank: some 200,000 words
WIDEST = 1 << 16  # blank lines in a row after which it is none either
_FILE_START = re.compile(rb"(?:\xef\xbb\xbf)?(?:\r?\n)*")  # a byte order mark, blank lines
_BETWEEN_SENTENCES = re.compile(rb"(\n(?:\r?\n)+)")
_NUMBERS = tuple(map(str, range(1, 1001)))
_VALUES = {number: int(number) for number in ("0", *_NUMBERS)}


def read_treebank(
    source: Source,
    *,
    format: str | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    on_skip: Callable[[TreebankError], None] | None = None,
    on_bytes: Callable[[int], None] | None = None,
) -> Iterator[Sentence]:
    """The sentences of a treebank, one after another.

    `source` is a path or `-` for standard input (.gz, .xz and .bz2 are unpacked), or an open binary file. The format is
    told by the file's name unless given: conllu, conllx, conll09 or conll09-predicted (see `formats`). A sentence that
    cannot be read raises TreebankError; with on_error="skip" it is reported (to `on_skip`, or on standard error) and
    left out with all its faults told, and its neighbours keep their numbers.
    """
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error is {on_error!r}; choose 'raise' or 'skip'")
    for read in read_blocks(source, format=format, on_bytes=on_bytes):
        if isinstance(read, Sentence):
            yield read
        elif on_error == "raise":
            raise read.faults[0]
        else:
            for fault in read.faults:
                (on_skip or _report_skip)(fault)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Lines between blank lines that are no sentence, and why."""

    line: int
    number: int
    sent_id: str
    has_words: bool  # if not, they are comments alone, and no sentence was meant
    faults: tuple[TreebankError, ...]


def read_blocks(
    source: Source, *, format: str | None = None, on_bytes: Callable[[int], None] | None = None
) -> Iterator[Sentence | Unreadable]:
    """All that stands between blank lines, in order: sentences, and what is none."""
    path = name_of(source)
    form = format_of(path, format)
    is_empty = True
    with open_input(source, on_bytes=on_bytes) as stream:
        for read in _sentences(_blocks(stream, path), form, path):
            yield read
            is_empty = False
    if is_empty:
        raise _no_sentence(path)


class Stretch(NamedTuple):
    """Whole sentences of a file, as its bytes."""

    data: bytes
    line: int  # where they start; 1 for the file's first ones


def cut_treebank(stream: BinaryIO, path: str, *, size: int = STRETCH) -> Iterator[Stretch]:
    """The bytes of a file, cut at blank lines into stretches of about `size`, which can be read side by side."""
    line, rest = 1, b""
    for chunk in _chunks(stream, path, size):
        rest += chunk
        end = _last_gap(rest)
        if line == 1 and end <= len(_start_of(rest)):
            end = 0  # blank lines before the first sentence are that one's
        if end:
            yield Stretch(rest[:end], line)
            line += rest.count(b"\n", 0, end)
            rest = rest[end:]
        _check_length(rest, path, line)
    if line == 1 and len(rest) == len(_start_of(rest)):
        raise _no_sentence(path)
    if rest:
        yield Stretch(rest, line)


def read_stretch(stretch: Stretch, form: Format, path: str, *, number: int = 1) -> Iterator[Sentence | Unreadable]:
    """What `read_blocks` gives of this part of a file; its first sentence has the number."""
    with BytesIO(stretch.data) as stream:
        yield from _sentences(_blocks(stream, path, stretch.line), form, path, number)


def write_treebank(sentences: Iterable[Sentence], target: str | os.PathLike[str]) -> int:
    """Write the sentences in their own formats to a path (packed if it ends in .gz, .xz, .bz2) or `-`; return how many.

    The file appears once it is whole; after an error the old one is still there.
    """
    count = 0
    with open_output(target) as stream:
        for text in texts_in_file(sentences):
            stream.write(text.encode())
            count += 1
    return count


def texts_in_file(sentences: Iterable[Sentence], *, is_start: bool = True) -> Iterator[str]:
    """What a file of these sentences holds, one sentence at a time.

    Without `is_start` the file has others before them, up to the blank line.
    """
    last: Layout | None = None
    for sentence in sentences:
        text = sentence.to_text()
        # It may come from another file, or another place: what only a first or last sentence has must go.
        if last is not None or not is_start:
            text = text.removeprefix(sentence.layout.start)
        if last is not None:
            text = gap_after(last) + text
        last = sentence.layout
        yield text


def gap_after(layout: Layout) -> str:
    """What has to stand between a sentence and the next one that its file did not have after it; mostly nothing."""
    newline = "\r\n" if "\r\n" in (layout.end or layout.newlines) else "\n"
    return newline * (2 - min(layout.end.count("\n"), 2))


def _report_skip(error: TreebankError) -> None:
    sys.stderr.write(f"skipped: {error}\n")


class _Block(NamedTuple):
    """The bytes of one sentence and of the white space around it."""

    line: int
    start: bytes
    body: bytes
    end: bytes


def _blocks(stream: BinaryIO, path: str, line: int = 1) -> Iterator[_Block]:
    """Cut the stream at blank lines. The bytes of all blocks, put together again, are the file."""
    start, rest = b"", b""
    for chunk in _chunks(stream, path, CHUNK):
        if line == 1 and not rest:
            before = _start_of(chunk)
            start, chunk = start + before, chunk[len(before) :]
            line += before.count(b"\n")
            if b"\0" in chunk.partition(b"\n")[0]:
                hint = (
                    "If it is compressed, its name must end in .gz, .xz or .bz2; if it is UTF-16, convert it to UTF-8."
                )
                raise TreebankError("This is not a text file: it holds zero bytes.", hint=hint, path=path)
        *parts, rest = _BETWEEN_SENTENCES.split(rest + chunk)
        _check_length(rest, path, line)
        for body, end in zip(parts[::2], parts[1::2], strict=True):
            if body.endswith(b"\r"):
                body, end = body[:-1], b"\r" + end
            yield _Block(line, start, body, end)
            line += body.count(b"\n") + end.count(b"\n")
            start = b""
    if rest:
        body = rest.removesuffix(b"\n").removesuffix(b"\r")
        yield _Block(line, start, body, rest[len(body) :])


def _sentences(blocks: Iterable[_Block], form: Format, path: str, number: int = 1) -> Iterator[Sentence | Unreadable]:
    for block in blocks:
        read = _sentence(block, form, path, number)
        yield read
        number += isinstance(read, Sentence) or read.has_words


def _start_of(data: bytes) -> bytes:
    match = _FILE_START.match(data)
    return match[0] if match else b""


def _last_gap(data: bytes) -> int:
    """Where the last blank lines end; 0 if there are none."""
    return max(data.rfind(gap) + len(gap) if gap in data else 0 for gap in (b"\n\n", b"\n\r\n"))


def _check_length(rest: bytes, path: str, line: int) -> None:
    if len(rest) > LONGEST:
        message = f"There is no blank line in the {LONGEST >> 20} MiB that start here."
        raise TreebankError(message, hint="Is this a treebank?", path=path, line=line)


def _no_sentence(path: str) -> EmptyError:
    return EmptyError("The file holds no sentence.", hint="Is it the right one?", path=path)


def _chunks(stream: BinaryIO, path: str, size: int) -> Iterator[bytes]:
    """The bytes of the stream, `size` and a little more at a time: up to a line that is not blank, so no gap is cut."""
    while chunk := stream.read(size):
        pieces = [chunk]
        while line := stream.readline(CHUNK):
            pieces.append(line)
            if line.strip(b"\r\n\xef\xbb\xbf"):
                break
            if len(pieces) > WIDEST:
                message = f"There are more than {WIDEST:,} blank lines in a row."
                raise TreebankError(message, hint="Is this a treebank?", path=path)
        yield b"".join(pieces)


def _sentence(block: _Block, form: Format, path: str, number: int) -> Sentence | Unreadable:
    """The sentence, or all the faults that keep the block from being one."""
    fault = partial(TreebankError, path=path, sentence=number)
    faults: list[TreebankError] = []
    try:
        text = block.body.decode()
    except UnicodeDecodeError:
        faults += _encoding_faults(block, fault)
        text = block.body.decode(errors="replace")
    if "\0" in text:
        line = block.line + text.count("\n", 0, text.index("\0"))
        faults.append(fault("There is a zero byte.", line=line, hint="Remove it."))
    layout = PLAIN
    if block.start or block.end != b"\n\n" or "\r" in text:
        text, layout = _layout(text, block)
    lines = text.split("\n")
    start = 0
    while start < len(lines) and lines[start][:1] == "#":
        start += 1
    comments = tuple(lines[:start])
    rows = [line.split("\t") for line in lines[start:]]
    columns = tuple(zip(*rows))  # noqa: B905 - rows of unequal length are a fault, found below
    words: range | tuple[int, ...] = range(len(rows))
    if faults or len(set(map(len, rows))) != 1 or not _is_plain(columns, form):
        sent_id = Sentence(comments, (), ()).sent_id
        faults += line_faults(lines, block.line, form, partial(fault, sent_id=sent_id))
        if faults:
            return Unreadable(block.line, number, sent_id, bool(rows), tuple(faults))
        if not all(map(str.isdecimal, columns[0])):
            words = tuple([line for line, identifier in enumerate(columns[0]) if identifier.isdecimal()])
    return Sentence(comments, columns, words, form, layout, path, block.line, number)


def _encoding_faults(block: _Block, fault: Callable[..., TreebankError]) -> Iterator[TreebankError]:
    for number, line in enumerate(block.body.split(b"\n"), start=block.line):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            message = f"Byte 0x{line[error.start]:02x} is not UTF-8."
            yield fault(message, line=number, hint="Convert the file to UTF-8.")


def _is_plain(columns: tuple[tuple[str, ...], ...], form: Format) -> bool:
    """Whether the columns are plainly in order, as nearly all are; if not, `line_faults` takes the closer look."""
    words = len(columns[0])
    if not (len(columns) == form.width or (form.has_more_columns and len(columns) > form.width)):
        return False
    if columns[0] != _NUMBERS[:words]:
        return False
    try:
        return max(map(_VALUES.__getitem__, columns[form.head])) <= words
    except KeyError:
        return False


def _layout(text: str, block: _Block) -> tuple[str, Layout]:
    """The text with one kind of line end, and the layout that gives the old ones back."""
    start, end = block.start.decode(), block.end.decode()
    inner, windows = text.count("\n"), text.count("\r\n")
    if not windows:
        return text, Layout(start, "\n", end)
    if windows == inner:
        return text.replace("\r\n", "\n"), Layout(start, "\r\n", end)
    newlines = tuple(["\r\n" if line.endswith("\r") else "\n" for line in text.split("\n")[:-1]])
    return text.replace("\r\n", "\n"), Layout(start, newlines, end)


def read_words(
    source: Source, *, name: str | None = None, on_bytes: Callable[[int], None] | None = None
) -> Iterator[Sentence]:
    """The lines as sentences of CoNLL-U, each with its number as sent_id and its words as text; blank ones are none.

    Words are cut at spaces and tabs alone, so a no-break space may stand inside one. `name` is what messages call the
    source, if not by its own name.
    """
    path = name_of(source) if name is None else name
    number = 0
    with open_input(source, on_bytes=on_bytes) as stream:
        for line_number, line in enumerate(utf8_lines(stream, path), start=1):
            words = line.strip("\r\n").replace("\t", " ").split(" ")
            words = [word for word in words if word]
            if not words:
                continue
            number += 1
            try:
                sentence = Sentence.of_words(words)
            except TreebankError as error:
                raise TreebankError(error.message, path=path, line=line_number, sentence=number) from error
            comments = (f"# sent_id = {number}", f"# text = {' '.join(words)}")
            yield replace(sentence, comments=comments, path=path, line=line_number, number=number)
    if not number:
        raise EmptyError("The file holds no sentence.", hint="Is it the right one?", path=path)


def utf8_lines(stream: BinaryIO, path: str) -> Iterator[str]:
    """The lines of a stream with their ends, without a byte order mark; a byte that is no UTF-8 is told with its line.

    Only a line feed ends a line, whatever else Unicode takes for one.
    """
    for number, line in enumerate(stream, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            message = f"Byte 0x{error.object[error.start]:02x} is not UTF-8."
            raise TreebankError(message, hint="Convert the file to UTF-8.", path=path, line=number) from error


def validate(
    source: Source, *, format: str | None = None, on_bytes: Callable[[int], None] | None = None
) -> Iterator[TreebankError]:
    """Every fault of a file in its order: columns, IDs, heads, cycles, roots, repeated sent_id, text against forms."""
    first_lines: dict[str, int] = {}  # where each sent_id was first seen
    try:
        for read in read_blocks(source, format=format, on_bytes=on_bytes):
            is_sentence = isinstance(read, Sentence) or read.has_words
            first = first_lines.setdefault(read.sent_id, read.line) if read.sent_id and is_sentence else read.line
            if first != read.line:
                message = f"The sent_id is already that of the sentence at line {first}."
                yield TreebankError(
                    message, path=name_of(source), line=read.line, sent_id=read.sent_id, sentence=read.number
                )
            yield from sentence_faults(read) if isinstance(read, Sentence) else read.faults
    except TreebankError as error:  # the file itself cannot be read any further
        yield error


def sentence_faults(sentence: Sentence) -> Iterator[TreebankError]:
    """Every fault of a sentence that could be read."""
    yield from cell_faults(sentence)
    yield from tree_faults(sentence, needs_one_root=sentence.format.is_ud)
    yield from text_faults(sentence)
