"""Inputs as a stream of sentences that are cut into words."""

from __future__ import annotations

import codecs
import io
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import BinaryIO, cast

from treefine.errors import EmptyError, TreebankError
from treefine.interfaces.inputs import Input, Kind, open_source
from treefine.parsing.cuts import Segmented
from treefine.parsing.parser import Parser
from treefine.treebank.conllu import read_treebank
from treefine.treebank.files import Rejoined, name_of
from treefine.treebank.pretokenised import read_words, utf8_lines
from treefine.treebank.spans import own_text, spans_in

CHUNK = 1 << 16  # bytes of a text that are read at a time
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


def _read(stream: BinaryIO, path: str, kind: Kind, parser: Parser, numbered: Numbering) -> Iterator[Segmented]:
    if kind == "text":
        return numbered(_segmented(parser.segment, _decoded(stream, path), path))
    if kind == "lines":
        return numbered(_segmented(parser.segment_lines, utf8_lines(stream, path), path))
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
        chunk = stream.read(CHUNK)
        is_end = not chunk
        try:
            text = decoder.decode(chunk, final=is_end)
        except UnicodeDecodeError as error:
            line += error.object.count(b"\n", 0, error.start)
            message = f"Byte 0x{error.object[error.start]:02x} is not UTF-8."
            raise TreebankError(message, hint="Convert the file to UTF-8.", path=path, line=line) from error
        line += text.count("\n")
        yield text


def _look(stream: BinaryIO) -> tuple[Kind, bytes]:
    """What the first line that is no comment tells of the stream, and the bytes that were read for it."""
    head = b""
    while len(head) < CHUNK:
        line = stream.readline(CHUNK)
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
