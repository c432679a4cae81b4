"""Write an output to a part file, which replaces the target when it is complete and which a later run can resume.

The part file of `out.conllu` is `out.conllu.part`. The part file of `out.conllu.gz` is compressed only at the end.
"""

from __future__ import annotations

import codecs
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from treefine.errors import AlignmentError, TreefineError
from treefine.treebank.files import COMPRESSED, linked_file, not_written, open_locked, open_output


class _LastSentence(NamedTuple):
    """The last complete sentence of a part file: its number from 1, its offset and its bytes."""

    number: int
    start: int
    record: bytes


class Part:
    """An open part file that already contains the first `skip` sentences."""

    def __init__(self, file: BinaryIO, path: Path, last: _LastSentence | None) -> None:
        self._file, self._path, self._last = file, path, last
        self.skip = 0 if last is None else last.number - 1  # the last one is written again, to compare its words

    def write(self, text: str) -> None:
        """Write a sentence; after a resume, the first one must have the words of the last one, which it replaces."""
        data = text.encode()
        if self._last is not None:
            number, start, record = self._last
            if _words_of(data) != _words_of(record):
                raise self._error(f"Sentence {number:,} differs from the input.")
            self._file.truncate(start)
            self._last = None
        self._file.write(data)
        self._file.flush()  # a killed process leaves its finished sentences

    def finish(self, target: Path) -> None:
        """Replace the target with the part file."""
        if self._last is not None:
            raise self._error(f"The file has {self._last.number:,} sentences, but the input has fewer.")
        self._file.flush()
        if target.suffix.lower() in COMPRESSED:
            self._file.seek(0)
            with open_output(target) as stream:
                shutil.copyfileobj(self._file, stream)
            self._path.unlink()
            return
        if target.exists():
            shutil.copymode(target, self._path)
        if sys.platform == "win32":  # Windows cannot rename an open file; other systems keep the lock until the end
            self._file.close()
        self._path.replace(target)

    def _error(self, message: str) -> AlignmentError:
        hint = "It may belong to a different input or model. To start over, replace --resume by --force."
        return AlignmentError(message, hint=hint, path=str(self._path))


def part_of(target: str | os.PathLike[str]) -> Path:
    """Return the path of the part file of a target."""
    path = linked_file(target)
    return path.with_name(f"{path.name}.part")


@contextmanager
def open_part(target: str | os.PathLike[str], *, is_json: bool, is_resumed: bool) -> Iterator[Part]:
    """Open a part file for sentences; at the end it replaces the target, and after an error it stays.

    In JSON a sentence is one line; in other formats it ends with a blank line. With `is_resumed`, an existing part file
    keeps its complete sentences; without it, the file is overwritten.
    """
    path, name = part_of(target), os.fspath(target)
    try:
        file = open_locked(path)
    except OSError as error:
        raise not_written(error.strerror or str(error), name) from error
    if file is None:
        hint = "Wait until it ends, or stop it and continue with --resume."
        raise TreefineError("Another run is writing this file.", hint=hint, path=name)
    try:
        last = _last_sentence(file, is_json=is_json) if is_resumed else None
        if last is None:
            file.truncate(0)
        part = Part(file, path, last)
        yield part
        part.finish(linked_file(target))
    except BaseException as error:
        next_step = _next_step(file, path)
        if isinstance(error, OSError):
            raise not_written(error.strerror or str(error), name, next_step) from error
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(next_step) from error
        if isinstance(error, TreefineError) and not isinstance(error, AlignmentError):  # which would come again
            error.hint = " ".join(filter(None, [error.hint, next_step]))
        raise
    finally:
        with suppress(OSError):
            file.close()


def check_leftover(target: str) -> None:
    """Raise an error if an interrupted run has left a part file, which a new run would discard."""
    path = part_of(target)
    if path.is_file() and path.stat().st_size:
        message = f"{path.name} has the sentences of an interrupted run."
        raise TreefineError(message, hint="Add --resume to continue it, or --force to start over.", path=target)


def _next_step(file: BinaryIO, path: Path) -> str:
    """Return a hint on how to continue after an error; remove an empty part file."""
    with suppress(OSError):  # the disk may be full
        file.flush()
    if os.fstat(file.fileno()).st_size:
        return f"The finished sentences are in {path.name}. To continue, run again with --resume."
    path.unlink(missing_ok=True)
    return ""


def _last_sentence(file: BinaryIO, *, is_json: bool) -> _LastSentence | None:
    """Find the last complete sentence of a part file."""
    file.seek(0)
    number = position = first = stop = 0
    start: int | None = None  # of the sentence at hand
    for line in file:
        is_blank = not line.removeprefix(codecs.BOM_UTF8).strip(b"\r\n")
        if start is None and not is_blank:
            start = position if number else 0  # a file may start with blank lines
        position += len(line)
        if start is not None and line.endswith(b"\n") and (is_blank or is_json):
            number, first, stop, start = number + 1, start, position, None
    file.seek(first)
    return _LastSentence(number, first, file.read(stop - first)) if number else None


def _words_of(record: bytes) -> list[str]:
    """Return the words of a sentence, which is a JSON object or tab-separated rows."""
    if record.startswith(b"{"):
        try:
            return [word["form"] for word in json.loads(record)["words"]]
        except (ValueError, LookupError, TypeError):
            return []
    rows = (line.split("\t") for line in record.decode(errors="replace").split("\n"))
    return [row[1] for row in rows if row[0].isdecimal() and len(row) > 1]
