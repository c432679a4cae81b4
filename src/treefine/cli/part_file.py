"""A file that grows beside its target, takes its place once it is whole, and can be gone on with if it never was.

The parts of `out.conllu` are in `out.conllu.part`, never packed; those of `out.conllu.gz` are packed at the end.
"""

from __future__ import annotations

import codecs
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from filelock import lock_descriptor

from treefine.errors import AlignmentError, TreefineError
from treefine.treebank.files import COMPRESSED, not_written, open_output


@dataclass(frozen=True)
class Records:
    """How the sentences of a file are told apart."""

    one_a_line: bool  # else a blank line follows each
    words_of: Callable[[bytes], list[str]]  # the words of a sentence as the file has it


class Kept(NamedTuple):
    """The last whole sentence of a part: its number, from 1, where it starts, and its bytes."""

    number: int
    start: int
    record: bytes


class Part:
    """A part that is open. The caller leaves out the first `skip` sentences, which it has."""

    def __init__(self, file: BinaryIO, path: Path, records: Records, kept: Kept | None) -> None:
        self._file, self._path, self._records, self._kept = file, path, records, kept
        self.skip = 0 if kept is None else kept.number - 1  # the last one is written again: it shows what it is of

    def write(self, text: str) -> None:
        """Add one sentence. If the part goes on with an old one, the first is the last whole one of that."""
        data = text.encode()
        if self._kept is not None:
            number, start, record = self._kept
            if self._records.words_of(data) != self._records.words_of(record):
                raise self._other(f"Sentence {number:,} is not that of the input.")
            self._file.truncate(start)
            self._kept = None
        self._file.write(data)

    def finish(self, target: Path) -> None:
        """Put the part in its target's place."""
        if self._kept is not None:
            raise self._other(f"It holds {self._kept.number:,} sentences, and the input fewer.")
        self._file.flush()
        if target.suffix.lower() in COMPRESSED:
            self._file.seek(0)
            with open_output(target) as stream:
                shutil.copyfileobj(self._file, stream)
            self._path.unlink()
            return
        if target.exists():
            shutil.copymode(target, self._path)
        if sys.platform == "win32":  # an open file cannot be renamed there; elsewhere it is ours until it has its name
            self._file.close()
        self._path.replace(target)

    def _other(self, message: str) -> AlignmentError:
        hint = "Is it of another input or model? Run again without --resume to start anew."
        return AlignmentError(message, hint=hint, path=str(self._path))


def part_of(target: str | os.PathLike[str]) -> Path:
    """Where the part of a target lies."""
    path = Path(target).resolve()  # through a link, to the file it names
    return path.with_name(f"{path.name}.part")


@contextmanager
def open_part(target: str | os.PathLike[str], records: Records, *, is_resumed: bool) -> Iterator[Part]:
    """A part to write sentences to; at the end it takes the target's place, after an error it stays.

    If it is resumed, what an older part holds is kept up to its last whole sentence; else an older part is replaced.
    """
    path, name = part_of(target), os.fspath(target)
    try:
        file = _locked(path, name)
    except OSError as error:
        raise not_written(error.strerror or str(error), name) from error
    try:
        if not is_resumed:
            file.truncate(0)
        part = Part(file, path, records, _kept(file, records) if is_resumed else None)
        yield part
        part.finish(Path(target).resolve())
    except BaseException as error:
        way_on = _way_on(file, path)
        if isinstance(error, OSError):
            raise not_written(error.strerror or str(error), name, way_on) from error
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(way_on) from error
        if isinstance(error, TreefineError) and not isinstance(error, AlignmentError):  # after one, it would not help
            error.hint = " ".join(filter(None, [error.hint, way_on]))
        raise
    finally:
        with suppress(OSError):
            file.close()


def _way_on(file: BinaryIO, path: Path) -> str:
    """What to do after an error; a part without a sentence is removed."""
    with suppress(OSError):  # the disk may be full
        file.flush()
    if os.fstat(file.fileno()).st_size:
        return f"What is done is in {path.name}: run again with --resume to go on."
    path.unlink(missing_ok=True)
    return ""


def _locked(path: Path, name: str) -> BinaryIO:
    """The part, opened for this process alone."""
    while True:
        file = path.open("a+b")
        with suppress(OSError):  # raised by a file system without locks
            if not lock_descriptor(file.fileno(), blocking=False):
                file.close()
                hint = "Wait for its end, or stop it; then go on with --resume."
                raise TreefineError("Another run is writing this file.", hint=hint, path=name)
        with suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                return file
        file.close()  # its last writer has just put it in its target's place


def _kept(file: BinaryIO, records: Records) -> Kept | None:
    """The last whole sentence of a part, if there is one; the part is read line by line."""
    file.seek(0)
    number = position = start = 0
    found = (0, 0)
    is_within = False
    for line in file:
        is_blank = not line.removeprefix(codecs.BOM_UTF8).strip(b"\r\n")
        if not is_blank and not is_within:
            is_within, start = True, position
        position += len(line)
        if is_within and line.endswith(b"\n") and (is_blank or records.one_a_line):
            number += 1
            found = (start if number > 1 else 0, position)  # before the first, a file may have blank lines
            is_within = False
    if not number:
        file.truncate(0)
        return None
    file.seek(found[0])
    return Kept(number, found[0], file.read(found[1] - found[0]))


def _words_of_rows(record: bytes) -> list[str]:
    rows = (line.split("\t") for line in record.decode(errors="replace").split("\n"))
    return [row[1] for row in rows if row[0].isdecimal() and len(row) > 1]


def _words_of_object(record: bytes) -> list[str]:
    try:
        return [word["form"] for word in json.loads(record)["words"]]
    except (ValueError, LookupError, TypeError):
        return []


TREEBANK = Records(one_a_line=False, words_of=_words_of_rows)
JSON_LINES = Records(one_a_line=True, words_of=_words_of_object)
