"""Text that is cut into words already: one sentence a line, a space between two words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from treefine.errors import TreebankError
from treefine.treebank.files import Source, name_of, open_input
from treefine.treebank.formats import suffix_of
from treefine.treebank.sentence import Sentence

NAME = "words"  # of this format, beside those of the treebanks


def is_pretokenised(path: str, format: str | None) -> bool:
    """Whether a file is such text: because its format was given so, or else because its name ends in .txt."""
    if format is not None:
        return format == NAME
    return suffix_of(path) == ".txt"


def read_words(source: Source, *, on_bytes: Callable[[int], None] | None = None) -> Iterator[Sentence]:
    """The lines as sentences of CoNLL-U, each with its number as sent_id and its words as text; blank ones are none.

    Words are cut at spaces and tabs alone, so a no-break space may stand inside one.
    """
    path = name_of(source)
    number = 0
    with open_input(source, on_bytes=on_bytes) as stream:
        for line_number, line in enumerate(stream, start=1):
            try:
                text = line.decode("utf-8-sig" if line_number == 1 else "utf-8").strip("\r\n")
            except UnicodeDecodeError as error:
                message = f"Byte 0x{line[error.start]:02x} is not UTF-8."
                raise TreebankError(message, hint="Convert the file to UTF-8.", path=path, line=line_number) from error
            words = text.replace("\t", " ").split(" ")
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
        raise TreebankError("The file holds no sentence.", path=path)
