import io

from treefine.interfaces.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream, delay):
    with progress("Reading", 100, stream=stream, delay=delay) as advance:
        advance(30)
        advance(40)
    return stream.getvalue()


def test_a_bar_shows_on_a_terminal_once_the_delay_is_over():
    out = shown(Terminal(), delay=0)

    assert "Reading" in out
    assert "70%" in out


def test_no_bar_shows_before_the_delay_is_over():
    assert shown(Terminal(), delay=60) == ""


def test_no_bar_shows_where_nobody_looks():
    assert shown(io.StringIO(), delay=0) == ""
