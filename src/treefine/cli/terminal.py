"""Print messages on the terminal, and show a progress bar."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, TextIO

import typer

from treefine.errors import visible

if TYPE_CHECKING:
    from rich.progress import Progress


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


@contextmanager
def progress(
    title: str, total: int | None = None, *, may_show: bool = True, stream: TextIO | None = None, delay: float = 2.0
) -> Iterator[Callable[..., None]]:
    """Show a progress bar after `delay` seconds, on a terminal only; yield the function that advances it.

    It takes an amount of work and `sentences=`. Without a total, the bar shows activity and the number of sentences.
    """
    stream = stream or sys.stderr  # None if standard error is closed
    may_show = may_show and is_shown(Detail.NORMAL) and stream is not None and stream.isatty()
    start, done, n_sentences = time.monotonic(), 0, 0
    bar: Progress | None = None

    def shown_bar() -> Progress:
        from rich.console import Console  # takes half of the start-up time and is rarely needed
        from rich.progress import Progress, TextColumn

        columns = [*Progress.get_default_columns(), TextColumn("{task.fields[speed]}")]
        shown = Progress(*columns, console=Console(file=stream), transient=True, speed_estimate_period=600)
        shown.add_task(title, total=total, speed="")
        shown.start()
        return shown

    def advance(amount: int = 0, /, *, sentences: int = 0) -> None:
        nonlocal bar, done, n_sentences
        done, n_sentences, seconds = done + amount, n_sentences + sentences, time.monotonic() - start
        if may_show and seconds > delay:
            bar = bar or shown_bar()
            speed = f"{n_sentences:,} sentences, {n_sentences / seconds:,.0f}/s" if n_sentences else ""
            bar.update(bar.task_ids[0], completed=done, speed=speed)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.stop()
