"""Write an output to a part file, which replaces the target when it is complete and which a later run can resume.

The part file of `out.conllu` is `out.conllu.part`. The part file of `out.conllu.gz` is compressed only at the end.
"""

from __future__ import annotations

import codecs
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from treefine.errors import AlignmentError, TreefineError
from treefine.treebank.files import COMPRESSED, linked_file, not_written, open_locked, open_output

_WORD = re.compile(rb'^\d+\t([^\t]*)|"form": ("(?:[^"\\]|\\.)*")', re.MULTILINE)  # in a treebank or in JSON


class Part:
    """An open part file that already contains the first `skip` sentences."""

    def __init__(self, file: BinaryIO, path: Path, *, is_json: bool) -> None:
        self._file, self._path = file, path
        self._number, self._start, self._last = _last_sentence(file, is_json=is_json)
        self.skip = max(self._number - 1, 0)  # the last one is written again, to compare its words

    def write(self, text: str) -> None:
        """Write a sentence; after a resume, the first one must have the words of the last one, which it replaces."""
        data = text.encode()
        if self._last:
            if _WORD.findall(data) != _WORD.findall(self._last):
                raise self._error(f"Sentence {self._number:,} differs from the input.")
            self._file.truncate(self._start)
            self._last = b""
        self._file.write(data)
        self._file.flush()  # a killed process leaves its finished sentences

    def finish(self, target: Path) -> None:
        """Replace the target with the part file."""
        if self._last:
            raise self._error(f"The file has {self._number:,} sentences, but the input has fewer.")
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
        if not is_resumed:
            file.truncate(0)
        part = Part(file, path, is_json=is_json)
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


def _last_sentence(file: BinaryIO, *, is_json: bool) -> tuple[int, int, bytes]:
    """Return the number, offset and bytes of the last complete sentence. Without one, empty the file."""
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
    if not number:
        file.truncate(0)
    file.seek(first)
    return number, first, file.read(stop - first)
