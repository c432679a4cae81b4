"""Write an output to a part file, which replaces the target when it is complete and which a later run can resume.

The part file of `out.conllu` is `out.conllu.part`. The part file of `out.conllu.gz` is compressed only at the end.
"""

from __future__ import annotations

import codecs
import json
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from filelock import lock_descriptor

from treefine.cli.terminal import Detail, say
from treefine.errors import AlignmentError, TreefineError
from treefine.treebank.files import COMPRESSED, linked_file, not_written, open_output
from treefine.wording import count


class _LastSentence(NamedTuple):
    """The last complete sentence of a part file: its number from 1, its offset and its bytes."""

    number: int
    start: int
    record: bytes


class Part:
    """An open part file that already contains the first `skip` sentences."""

    def __init__(self, file: BinaryIO, path: Path, kept: _LastSentence | None) -> None:
        self._file, self._path, self._kept = file, path, kept
        self.skip = 0 if kept is None else kept.number - 1  # the last one is written again, to compare its words

    def write(self, text: str) -> None:
        """Write a sentence.

        After a resume, the first sentence must have the same words as the last complete one, which it replaces.
        """
        data = text.encode()
        if self._kept is not None:
            number, start, record = self._kept
            if _words_of(data) != _words_of(record):
                raise self._other(f"Sentence {number:,} differs from the input.")
            self._file.truncate(start)
            self._kept = None
        self._file.write(data)
        self._file.flush()  # a killed process leaves its finished sentences

    def finish(self, target: Path) -> None:
        """Replace the target with the part file."""
        if self._kept is not None:
            raise self._other(f"The file has {self._kept.number:,} sentences, but the input has fewer.")
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

    def _other(self, message: str) -> AlignmentError:
        hint = "It may belong to a different input or model. To start over, replace --resume by --force."
        return AlignmentError(message, hint=hint, path=str(self._path))


def part_of(target: str | os.PathLike[str]) -> Path:
    """Return the path of the part file of a target."""
    path = linked_file(target)
    return path.with_name(f"{path.name}.part")


@contextmanager
def open_part(
    target: str | os.PathLike[str], *, is_json: bool, is_resumed: bool, can_be_continued: bool = True
) -> Iterator[Part]:
    """Open a part file for sentences; at the end it replaces the target, and after an error it stays.

    In JSON a sentence is one line; in other formats it ends with a blank line. With `is_resumed`, an existing part file
    keeps its complete sentences; without it, the file is overwritten. `can_be_continued` is False if a later run cannot
    resume the file; it changes only the hint after an error.
    """
    path, name = part_of(target), os.fspath(target)
    try:
        file = _locked(path, name)
    except OSError as error:
        raise not_written(error.strerror or str(error), name) from error
    try:
        kept = _last_sentence(file, is_json=is_json) if is_resumed else None
        if kept is None:
            file.truncate(0)
        else:
            say(f"treefine: {count(kept.number, 'sentence')} kept in {path.name}", detail=Detail.VERBOSE)
        part = Part(file, path, kept)
        yield part
        part.finish(linked_file(target))
    except BaseException as error:
        next_step = _next_step(file, path, can_be_continued=can_be_continued)
        if isinstance(error, OSError):
            raise not_written(error.strerror or str(error), name, next_step) from error
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(next_step) from error
        would_fail_again = isinstance(error, AlignmentError)
        if isinstance(error, TreefineError) and not would_fail_again:
            error.hint = " ".join(filter(None, [error.hint, next_step]))
        raise
    finally:
        with suppress(OSError):
            file.close()


def check_leftover(target: str | os.PathLike[str], *, is_json: bool, can_be_continued: bool = True) -> None:
    """Raise an error if an interrupted run has left a part file with sentences, which a new run would discard."""
    path, name = part_of(target), os.fspath(target)
    if not path.is_file():
        return
    try:
        with _locked(path, name) as file:
            last = _last_sentence(file, is_json=is_json)
    except OSError as error:
        raise not_written(error.strerror or str(error), name) from error
    if last is not None:
        found = f"{last.number:,} sentence{'s' * (last.number > 1)}"
        message = f"{path.name} has {found} of an interrupted run."
        hint = "Add --resume to continue it, or --force to start over."
        raise TreefineError(message, hint=hint if can_be_continued else "Add --force to start over.", path=name)


def _next_step(file: BinaryIO, path: Path, *, can_be_continued: bool) -> str:
    """Return a hint on how to continue after an error; remove an empty part file."""
    with suppress(OSError):  # the disk may be full
        file.flush()
    if os.fstat(file.fileno()).st_size:
        how = "To continue, run again with --resume." if can_be_continued else "To start over, run again with --force."
        return f"The finished sentences are in {path.name}. {how}"
    path.unlink(missing_ok=True)
    return ""


def _locked(path: Path, name: str) -> BinaryIO:
    """Open the part file and lock it for this process."""
    while True:
        file = open(path, "a+b", opener=_opened)
        with suppress(OSError):  # a file system without locks raises it
            if not lock_descriptor(file.fileno(), blocking=False):
                file.close()
                hint = "Wait until it ends, or stop it and continue with --resume."
                raise TreefineError("Another run is writing this file.", hint=hint, path=name)
        with suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                return file
        file.close()  # another process just renamed it to the target


def _opened(name: str, flags: int) -> int:
    """Open or create a part file; refuse a link, anything that is no file, and a file of another user.

    Otherwise another user could choose the file that this run overwrites, or change it meanwhile.
    """
    path = Path(name)
    if path.is_symlink():
        raise PermissionError(f"{path.name} is a link")
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # do not wait for the reader of a named pipe
    descriptor = os.open(name, flags, 0o666)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or found.st_uid != getattr(os, "geteuid", lambda: 0)():
        os.close(descriptor)
        raise PermissionError(f"{path.name} is not a file of this user alone")
    return descriptor


def _last_sentence(file: BinaryIO, *, is_json: bool) -> _LastSentence | None:
    """Find the last complete sentence of a part file."""
    file.seek(0)
    number = position = start = 0
    found = (0, 0)
    is_within = False
    for line in file:
        is_blank = not line.removeprefix(codecs.BOM_UTF8).strip(b"\r\n")
        if not is_blank and not is_within:
            is_within, start = True, position
        position += len(line)
        if is_within and line.endswith(b"\n") and (is_blank or is_json):
            number += 1
            found = (start if number > 1 else 0, position)  # a file may start with blank lines
            is_within = False
    if not number:
        return None
    file.seek(found[0])
    return _LastSentence(number, found[0], file.read(found[1] - found[0]))


def _words_of(record: bytes) -> list[str]:
    """Return the words of a sentence, which is a JSON object or tab-separated rows."""
    if record.startswith(b"{"):
        try:
            return [word["form"] for word in json.loads(record)["words"]]
        except (ValueError, LookupError, TypeError):
            return []
    rows = (line.split("\t") for line in record.decode(errors="replace").split("\n"))
    return [row[1] for row in rows if row[0].isdecimal() and len(row) > 1]
