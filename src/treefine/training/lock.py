"""One process at a time: in the folder of a training, or with a file that is being written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from treefine.errors import TreefineError

LOCK = ".lock"  # a file that stays; whether a living process holds it is what counts


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other trainings out of the folder for as long as this lasts, or this process lives."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("w")
    except OSError as error:
        raise TreefineError(f"{error.strerror or error}.", path=str(folder)) from error
    with file:
        if not take_lock(file):
            hint = "Wait for its end, or stop it; then go on with --resume."
            raise TreefineError("Another training is at work in this folder.", hint=hint, path=str(folder))
        yield


def take_lock(file: IO[Any]) -> bool:
    """Take an open file for this process until it is closed; False where another process has it."""
    if sys.platform == "win32":  # it has no such locks
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return True
