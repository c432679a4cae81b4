"""A progress bar on standard error for what takes longer than two seconds, and none where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def progress(
    title: str, total: int | None = None, *, stream: TextIO | None = None, delay: float = 2.0
) -> Iterator[Callable[[int], None]]:
    """Give a function that is told how much more was done. The bar shows after `delay` seconds, on a terminal only.

    Without a total, or where nothing is told, it shows that work goes on.
    """
    stream = stream or sys.stderr  # None where standard error is closed
    done = 0
    bar: Progress | None = None

    def show() -> None:
        nonlocal bar
        shown = _bar(stream)
        shown.add_task(title, total=total, completed=done)
        shown.start()
        bar = shown  # last: from here on, `advance` uses it

    def advance(amount: int) -> None:
        nonlocal done
        done += amount
        if bar is not None:
            bar.update(bar.task_ids[0], completed=done)

    timer = Timer(delay, show)
    timer.daemon = True
    if stream is not None and stream.isatty():
        timer.start()
    try:
        yield advance
    finally:
        timer.cancel()
        if timer.is_alive():
            timer.join()  # it may be about to show the bar
        if bar is not None:
            bar.stop()


def _bar(stream: TextIO) -> Progress:
    from rich.console import Console  # half of the start-up time, and mostly not needed
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(file=stream), transient=True)
