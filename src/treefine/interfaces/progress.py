"""A progress bar on standard error for what takes longer than two seconds, and none where nobody looks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def progress(
    title: str, total: int | None, *, stream: TextIO | None = None, delay: float = 2.0
) -> Iterator[Callable[[int], None]]:
    """Give a function that is told how much more was done. The bar shows after `delay` seconds, on a terminal only."""
    stream = stream or sys.stderr
    started, done = time.monotonic(), 0
    bar: Progress | None = None

    def advance(amount: int) -> None:
        nonlocal bar, done
        done += amount
        if bar is None and stream.isatty() and time.monotonic() - started >= delay:
            bar = _bar(stream)
            bar.start()
            bar.add_task(title, total=total)
        if bar is not None:
            bar.update(bar.task_ids[0], completed=done)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.stop()


def _bar(stream: TextIO) -> Progress:
    from rich.console import Console  # half of the start-up time, and mostly not needed
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(file=stream), transient=True)
