"""Text that is cut into words already: one sentence a line, a space between two words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import BinaryIO

from treefine.errors import EmptyError, TreebankError
from treefine.treebank.files import Source, name_of, open_input
from treefine.treebank.sentence import Sentence


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
