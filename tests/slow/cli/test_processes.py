"""Commands as processes: on a terminal, with full or closed outputs, and with readers that stop."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from treefine.drawing.text import draw_text

TEXT = "Dogs bark."


def on_terminal(*arguments):
    """Return the exit code of a command and its output on a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "treefine", *arguments]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}
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
    drawn = draw_text(nlp(TEXT)[0].pictures()[0], color=True, width=80)  # which cuts off long features
    assert "…" in drawn
    assert drawn in printed


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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this machine")
@pytest.mark.parametrize(
    ("rest", "code", "message"),
    [
        ("'a b' > /dev/full", 1, "treefine: <stdout>: The output could not be written: No space left on device.\n"),
        ("'a b' >&-", 1, "treefine: Standard output is closed. Name a file to write.\n"),
        ("in.txt | head -n 1", 0, ""),
    ],
)
def test_a_full_or_closed_output_is_one_line_and_a_reader_may_stop(
    text_model, tmp_path, monkeypatch, rest, code, message
):
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("' " * 800)
    command = f"{sys.executable} -m treefine parse --model {text_model} --device cpu {rest}"

    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (code, message)
