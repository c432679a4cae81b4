"""Output on a terminal."""

import inspect
import io
import lzma
import os
import pty
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.commands import invoke
from treefine.cli.outputs import Pen, pen_for_stdout
from treefine.cli.terminal import Review, progress
from treefine.drawing.text import draw_text
from treefine.treebank.conllu import read_treebank, write_treebank
from treefine.treebank.sentence import Sentence

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


def test_verbose_prints_the_model_and_the_formats_and_quiet_nothing(text_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text(TEXT)
    arguments = ("parse", "in.txt", "--model", text_model, "--device", "cpu", "--threads", 1, "-o", "out.jsonl")

    lines = invoke("-v", *arguments).stderr.splitlines()

    assert lines[:2] == [
        f"treefine: model {text_model} on cpu, float32, 1 thread; T = 4, stop above 1, predicted tags",
        "treefine: in.txt (text) -> out.jsonl (json)",
    ]
    assert all(map(re.fullmatch, (r"treefine: loaded in [\d.]+ s", r"treefine: finished in [\d.]+ s"), lines[2:]))
    assert len(lines) == 4
    assert invoke(*arguments, "--review", 1, "-q").stderr == ""


def test_a_run_that_writes_a_file_continues_if_the_reader_of_the_list_has_stopped(nlp, monkeypatch):
    def stopped(text):
        raise BrokenPipeError

    monkeypatch.setattr("treefine.cli.terminal.drop_output", lambda: None)
    (parse,) = nlp.stream([["Dogs", "bark"]])
    review = Review(1.0, stopped, is_extra=True)

    review.see(parse)
    review.see(parse)

    assert review.counted == "2 of 2 sentences have a confidence below 1"
    with pytest.raises(BrokenPipeError):
        Review(1.0, stopped).see(parse)


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
    assert "100 sentences, " in stream.getvalue()
    assert "/s" in stream.getvalue()


def test_the_time_left_follows_from_the_mean_speed(monkeypatch):
    stream, now = Terminal(), [100.0]
    monkeypatch.setattr("treefine.cli.terminal.time", SimpleNamespace(monotonic=lambda: now[0]))

    with progress("Parsing", 100, stream=stream, delay=0.01) as advance:
        now[0] += 10  # seconds
        for _ in range(20):  # all at once, as the sentences of a chunk
            advance(1)
        now[0] += 3
        time.sleep(0.3)

    assert "0:00:37 left" in stream.getvalue()


def test_without_a_total_a_bar_shows_the_number_of_sentences():
    stream = Terminal()

    with progress("Parsing", None, stream=stream, delay=0.01, in_bytes=True) as advance:
        advance(3_000_000, sentences=1_200)
        time.sleep(0.3)
        advance(sentences=34)

    assert "1,234 sentences, " in stream.getvalue()
    assert "MB" not in stream.getvalue()


# What the bar of parse and refine counts

LINES = [f"Dogs {'really ' * (number % 7)}bark {number} times ." for number in range(12)]


@pytest.mark.parametrize(
    "arguments",
    [["in.txt", "in.txt.xz", "in.conllu"], ["in.conllu", "--confidence", "--resume"]],
    ids=["several inputs", "resumed"],
)
def test_the_bar_counts_the_bytes_of_finished_sentences(text_model, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("\n".join(LINES))
    Path("in.txt.xz").write_bytes(lzma.compress("\n".join(LINES).encode()))
    sentences = [Sentence.of_words(line.split()) for line in LINES]
    write_treebank(sentences, "in.conllu")
    if "--resume" in arguments:
        write_treebank(sentences[:4], "out.conllu.part")
    counts, totals = [], []

    @contextmanager
    def recorded(title, total, **_):
        totals.append(total)
        yield lambda amount=0, sentences=0: counts.append((amount, sentences))

    monkeypatch.setattr("treefine.cli.stream.progress", recorded)

    invoke("parse", *arguments, "--model", text_model, "--device", "cpu", "--steps", 1, "-o", "out.conllu")

    amounts, finished = zip(*counts, strict=True)
    assert totals == [sum(amounts)]
    assert 0 <= min(amounts) <= max(amounts) < totals[0] / 4
    assert sum(finished) == len(list(read_treebank("out.conllu"))) - 3 * ("--resume" in arguments)
