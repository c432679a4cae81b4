"""What a person sees on a terminal."""

import io
import os
import pty
import subprocess
import sys

import pytest

from treefine.cli.write import Pen, pen_for_stdout

TEXT = "Dogs bark."


class Screen(io.TextIOWrapper):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("encoding", "environment", "expected"),
    [
        ("utf-8", {}, Pen("utf-8", color=True)),
        ("utf-8", {"NO_COLOR": "1"}, Pen("utf-8")),
        ("utf-8", {"NO_COLOR": ""}, Pen("utf-8", color=True)),
        ("utf-8", {"TERM": "dumb"}, Pen("utf-8")),
        ("latin-1", {}, Pen("latin-1", color=True, ascii_only=True)),
    ],
)
def test_what_the_terminal_can_show_is_drawn(monkeypatch, encoding, environment, expected):
    monkeypatch.setattr(sys, "stdout", Screen(io.BytesIO(), encoding=encoding))
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert pen_for_stdout() == expected


def on_terminal(*arguments):
    """What a command prints on a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "treefine", *arguments]
    environment = os.environ | {"TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    with subprocess.Popen(command, stdout=theirs, stdin=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        printed = b""
        while True:
            try:
                chunk = os.read(ours, 4096)
            except OSError:  # how a terminal says that all have left it
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


def test_a_terminal_without_input_is_told_what_to_give(text_model):
    assert on_terminal("parse", "--model", text_model) == (
        1,
        "treefine: There is nothing to parse. Give a text in quotes, the name of a file, or - to type a text and end "
        "it with Ctrl-D.\n",
    )


def test_no_control_character_acts_on_a_terminal_in_any_format(text_model):
    code, printed = on_terminal("parse", "a\x1b[31mb \x9b5n", "--model", text_model, "--format", "conllu")

    assert code == 0
    assert "\\x1b" in printed
    assert "\x1b" not in printed
    assert "\x9b" not in printed
