"""A progress bar shows what is done, to those who watch a terminal."""

import inspect
import io
import time

import pytest

from treefine.cli.terminal import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_delay_is_two_seconds():
    assert inspect.signature(progress).parameters["delay"].default == 2


def shown(stream, delay, total=100, **options):
    with progress("Reading", total, stream=stream, delay=delay, **options) as advance:
        advance(30)
        time.sleep(0.3)
        advance(40)
    return stream.getvalue()


@pytest.mark.parametrize(("total", "has_share"), [(100, True), (None, False)])
def test_a_bar_shows_on_a_terminal_once_the_delay_is_over(total, has_share):
    out = shown(Terminal(), delay=0.01, total=total)

    assert "Reading" in out
    assert ("70%" in out) == ("%" in out) == has_share  # without a total it shows that work goes on


@pytest.mark.parametrize(
    ("stream", "delay", "is_shown"),
    [(Terminal(), 60, True), (io.StringIO(), 0.01, True), (Terminal(), 0.01, False)],
    ids=["before the delay is over", "where nobody looks", "where it is not wanted"],
)
def test_no_bar_shows(stream, delay, is_shown):
    assert shown(stream, delay, is_shown=is_shown) == ""


def test_bytes_and_sentences_a_second_show_where_they_are_told():
    stream = Terminal()

    with progress("Parsing", 4_000_000, stream=stream, delay=0.01, in_bytes=True) as advance:
        advance(3_000_000)
        advance(sentences=50)
        time.sleep(0.3)
        advance(sentences=50)

    assert "3.0/4.0 MB" in stream.getvalue()
    assert "sentences/s" in stream.getvalue()
