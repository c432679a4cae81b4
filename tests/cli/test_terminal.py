"""Output on a terminal."""

import inspect
import io
import os
import pty
import subprocess
import sys
import time

import pytest

from treefine.cli.drawings import Pen, pen_for_stdout
from treefine.cli.terminal import progress

TEXT = "Dogs bark."


class Screen(io.TextIOWrapper):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("encoding", "environment", "expected"),
    [
        ("utf-8", {}, Pen("utf-8", color=True, width=77)),
        ("utf-8", {"NO_COLOR": "1"}, Pen("utf-8", width=77)),
        ("utf-8", {"NO_COLOR": ""}, Pen("utf-8", color=True, width=77)),
        ("utf-8", {"TERM": "dumb"}, Pen("utf-8", width=77)),
        ("latin-1", {}, Pen("latin-1", color=True, ascii_only=True, width=77)),
    ],
)
def test_colour_ascii_and_width_depend_on_the_terminal(monkeypatch, encoding, environment, expected):
    monkeypatch.setattr(sys, "stdout", Screen(io.BytesIO(), encoding=encoding))
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"COLUMNS": "77", **environment}.items():
        monkeypatch.setenv(name, value)

    assert pen_for_stdout() == expected


def on_terminal(*arguments):
    """Return the exit code of a command and its output on a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "treefine", *arguments]
    environment = os.environ | {"TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    with subprocess.Popen(command, stdout=theirs, stdin=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        printed = b""
        while True:
            try:
                chunk = os.read(ours, 4096)
            except OSError:  # raised when the other end is closed
                break
            printed += chunk
            if not chunk:
                break
    os.close(ours)
    return process.returncode, printed.decode().replace("\r\n", "\n")


def test_a_terminal_shows_the_tree_in_colour(text_model, nlp):
    code, printed = on_terminal("parse", TEXT, "--model", text_model, "--device", "cpu")

    assert code == 0
    assert nlp(TEXT)[0].to_text(color=True) in printed


def test_without_input_on_a_terminal_the_error_lists_the_kinds_of_input(text_model):
    assert on_terminal("parse", "--model", text_model) == (
        1,
        "treefine: There is no input. Give a text in quotes or a file name; or use - to type a text, and end it with "
        "Ctrl-D.\n",
    )


def test_control_characters_are_escaped_on_a_terminal(text_model):
    code, printed = on_terminal("parse", "a\x1b[31mb \x9b5n", "--model", text_model, "--format", "conllu")

    assert code == 0
    assert "\\x1b" in printed
    assert "\x1b" not in printed
    assert "\x9b" not in printed


# The progress bar


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
def test_a_bar_appears_on_a_terminal_after_the_delay(total, has_share):
    out = shown(Terminal(), delay=0.01, total=total)

    assert "Reading" in out
    assert ("70%" in out) == ("%" in out) == has_share  # without a total the bar only shows activity


@pytest.mark.parametrize(
    ("stream", "delay", "is_shown"),
    [(Terminal(), 60, True), (io.StringIO(), 0.01, True), (Terminal(), 0.01, False)],
    ids=["before the delay", "not on a terminal", "not wanted"],
)
def test_no_bar_appears(stream, delay, is_shown):
    assert shown(stream, delay, is_shown=is_shown) == ""


def test_a_bar_shows_bytes_and_sentences_per_second():
    stream = Terminal()

    with progress("Parsing", 4_000_000, stream=stream, delay=0.01, in_bytes=True) as advance:
        advance(3_000_000)
        advance(sentences=50)
        time.sleep(0.3)
        advance(sentences=50)

    assert "3.0/4.0 MB" in stream.getvalue()
    assert "sentences/s" in stream.getvalue()
