"""One training at a time in a folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from treefine.errors import TreefineError

LOCK = ".lock"  # a file that stays; whether a living process holds it is what counts


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other trainings out of the folder for as long as this lasts, or this process lives."""
    if sys.platform == "win32":  # it has no such locks
        yield
        return
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("w")
    except OSError as error:
        raise TreefineError(f"{error.strerror or error}.", path=str(folder)) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            hint = "Wait for its end, or stop it; then go on with --resume."
            raise TreefineError("Another training is at work in this folder.", hint=hint, path=str(folder)) from None
        except OSError:
            pass  # a file system without locks
        yield
