"""Output on a terminal."""

import io
import re
import sys
import time
from pathlib import Path

import pytest

from tests.cli.test_train_cli import Terminal
from tests.support.commands import invoke
from treefine.cli.terminal import progress
from treefine.jobs.outputs import Pen, pen_for_stdout

TEXT = "Dogs bark."


class Screen(io.TextIOWrapper):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("encoding", "environment", "expected"),
    [
        ("utf-8", {}, Pen("utf-8", color=True, width=77)),
        ("utf-8", {"NO_COLOR": "1"}, Pen("utf-8", width=77)),
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


def test_verbose_prints_the_model_and_the_formats_and_quiet_nothing(text_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text(TEXT)
    arguments = ("parse", "in.txt", "--model", text_model, "--device", "cpu", "--threads", 1, "-o", "out.jsonl")

    lines = invoke("-v", *arguments).stderr.splitlines()

    assert lines[:2] == [
        f"treefine: model {text_model} on cpu, float32, 1 thread; T = 4, stop above 1, predicted tags",
        "treefine: in.txt (format by its first lines) -> out.jsonl (json)",
    ]
    assert all(map(re.fullmatch, (r"treefine: loaded in [\d.]+ s", r"treefine: finished in [\d.]+ s"), lines[2:]))
    assert len(lines) == 4
    assert invoke(*arguments, "--force", "--review", 1, "-q").stderr == ""


# The progress bar


@pytest.mark.parametrize(
    ("stream", "delay", "may_show"),
    [(Terminal(), 60, True), (io.StringIO(), 0.01, True), (Terminal(), 0.01, False)],
    ids=["before the delay", "not on a terminal", "not wanted"],
)
def test_no_bar_appears(stream, delay, may_show):
    with progress("Reading", 100, stream=stream, delay=delay, may_show=may_show) as advance:
        time.sleep(0.02)
        advance(30)

    assert stream.getvalue() == ""


def test_a_bar_shows_the_progress_and_sentences_per_second():
    stream = Terminal()

    with progress("Parsing", 4_000_000, stream=stream, delay=0.01) as advance:
        time.sleep(0.02)
        advance(3_000_000)
        advance(sentences=50)
        advance(sentences=50)

    assert "75%" in stream.getvalue()
    assert "100 sentences, " in stream.getvalue()
    assert "/s" in stream.getvalue()
