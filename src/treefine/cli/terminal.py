"""Print messages on the terminal, and show a progress bar."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from enum import IntEnum
from threading import Timer
from typing import TYPE_CHECKING, Protocol, TextIO

import typer

from treefine.errors import visible

if TYPE_CHECKING:
    from rich.progress import Progress, Task


class Detail(IntEnum):
    """The amount of messages on standard error."""

    QUIET = 0  # errors only
    NORMAL = 1
    VERBOSE = 2


_detail = Detail.NORMAL  # of the running command


def choose_detail(detail: Detail) -> None:
    """Let the running command print more or less than usual on standard error."""
    global _detail
    _detail = detail
    if detail == Detail.QUIET:
        warnings.simplefilter("ignore")


def is_shown(detail: Detail) -> bool:
    """Return whether the user of the running command wants this much detail."""
    return _detail >= detail


def say(text: str, *, detail: Detail = Detail.NORMAL) -> None:
    """Print a message on standard error, above a progress bar, if the user wants that much detail."""
    if is_shown(detail) and sys.stderr is not None:
        sys.stderr.write("\n".join(map(visible, text.split("\n"))) + "\n")
        sys.stderr.flush()


def print_json(value: object) -> None:
    """Print a result on standard output."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=1))


def warn(text: str) -> None:
    """Print a warning, unless the user wants only errors."""
    say(f"treefine: warning: {text}")


class Advance(Protocol):
    """Advances a progress bar by an amount of work and a number of sentences."""

    def __call__(self, amount: int = 0, /, *, sentences: int = 0) -> None: ...  # noqa: D102


@contextmanager
def progress(
    title: str,
    total: int | None = None,
    *,
    in_bytes: bool = False,
    may_show: bool = True,
    stream: TextIO | None = None,
    delay: float = 2.0,
) -> Iterator[Advance]:
    """Show a progress bar after `delay` seconds, on a terminal only; yield the function that advances it.

    Amounts are shown if they are bytes. Without a total, the bar shows activity and the number of sentences.
    """
    stream = stream or sys.stderr  # None if standard error is closed
    start = last = time.monotonic()  # `last`: when `done` grew
    done = n_sentences = 0
    bar: Progress | None = None

    def show() -> None:
        nonlocal bar
        from rich.console import Console  # takes half of the start-up time and is rarely needed
        from rich.progress import BarColumn, DownloadColumn, Progress, ProgressColumn, TaskProgressColumn, TextColumn
        from rich.text import Text

        class TimeLeftColumn(ProgressColumn):
            """Shows the time left at the mean speed so far; rich's own jumps if sentences come in groups."""

            def render(self, task: Task) -> Text:
                if total is None or not done:
                    return Text()
                left = (last - start) * total / done - (time.monotonic() - start)
                return Text(f"{timedelta(seconds=max(0, round(left)))} left", style="progress.remaining")

        columns: list[ProgressColumn] = [TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()]
        columns += [DownloadColumn()] if in_bytes and total is not None else []
        columns += [TextColumn("{task.fields[speed]}"), TimeLeftColumn()]
        shown = Progress(*columns, console=Console(file=stream), transient=True)
        shown.add_task(title, total=total, completed=done, speed=speed())
        shown.start()
        bar = shown  # last, because `advance` uses it from now on

    def speed() -> str:
        rate = n_sentences / (time.monotonic() - start)
        return f"{n_sentences:,} sentences, {rate:,.0f}/s" if n_sentences else ""

    def advance(amount: int = 0, /, *, sentences: int = 0) -> None:
        nonlocal done, last, n_sentences
        if amount:
            done, last = done + amount, time.monotonic()
        n_sentences += sentences
        if bar is not None:
            bar.update(bar.task_ids[0], completed=done, speed=speed())

    timer = Timer(delay, show)
    timer.daemon = True
    if may_show and is_shown(Detail.NORMAL) and stream is not None and stream.isatty():
        timer.start()
    try:
        yield advance
    finally:
        timer.cancel()
        if timer.is_alive():
            timer.join()  # it may be about to show the bar
        if bar is not None:
            bar.stop()
