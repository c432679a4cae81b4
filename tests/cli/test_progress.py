import inspect
import io
import time

from treefine.cli.terminal import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_delay_is_two_seconds():
    assert inspect.signature(progress).parameters["delay"].default == 2


def shown(stream, delay, total=100):
    with progress("Reading", total, stream=stream, delay=delay) as advance:
        advance(30)
        time.sleep(0.3)
        advance(40)
    return stream.getvalue()


def test_a_bar_shows_on_a_terminal_once_the_delay_is_over():
    out = shown(Terminal(), delay=0.01)

    assert "Reading" in out
    assert "70%" in out


def test_a_bar_shows_that_work_goes_on_where_its_end_is_not_known():
    out = shown(Terminal(), delay=0.01, total=None)

    assert "Reading" in out
    assert "%" not in out


def test_no_bar_shows_before_the_delay_is_over():
    assert shown(Terminal(), delay=60) == ""


def test_no_bar_shows_where_nobody_looks():
    assert shown(io.StringIO(), delay=0.01) == ""


def test_bytes_and_sentences_a_second_show_where_they_are_told():
    stream = Terminal()

    with progress("Parsing", 4_000_000, stream=stream, delay=0.01, in_bytes=True) as advance:
        advance(3_000_000)
        advance(sentences=50)
        time.sleep(0.3)
        advance(sentences=50)

    assert "3.0/4.0 MB" in stream.getvalue()
    assert "sentences/s" in stream.getvalue()


def test_no_bar_shows_where_it_is_not_wanted():
    stream = Terminal()

    with progress("Parsing", 100, stream=stream, delay=0.01, is_shown=False):
        time.sleep(0.1)

    assert stream.getvalue() == ""
