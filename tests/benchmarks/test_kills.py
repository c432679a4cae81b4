"""Commands that are killed and resumed, and the memory of commands; small programs stand in for treefine."""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.reliability import first_output, long_sentences, streaming
from benchmarks.reliability.kills import Tally, Way, killed_often
from benchmarks.reliability.kills import kills as kills_table
from benchmarks.rows import save_row
from treefine import Graph, TreefineError, read_treebank

PROGRAM = """
import pathlib, sys, time
part = pathlib.Path("out/x.part")
if sys.argv[1] == "untidy":
    pathlib.Path(f"out/{time.time_ns()}.tmp").touch()
done = part.stat().st_size if part.exists() and sys.argv[1] != "forgetful" else 0
with part.open("a") as file:
    for number in range(done, 20):
        file.write(str(number % 10))
        file.flush()
        time.sleep(0.01)
part.replace("out/x")
"""
OPTIONS = argparse.Namespace(moments=6, workers=2, seed=1)


@dataclass(frozen=True)
class StandIn(Way):
    """A program that writes digits to a file."""

    def line(self, *, is_resumed):
        return [sys.executable, "-IS", "-c", PROGRAM, self.name]


@pytest.fixture
def killed(tmp_path):
    return lambda name: killed_often([StandIn("parse", name, ())], tmp_path, OPTIONS).result


def test_a_program_that_resumes_has_the_same_output_after_kills(killed):
    result = killed("tidy")

    assert result["kills"] >= OPTIONS.moments
    assert sum(result["kills_by_moment"].values()) == result["kills"]
    assert result["identical"] == result["runs"] > 0
    assert (result["different"], result["left_over_files"], result["examples"]) == (0, 0, [])


def test_different_outputs_and_left_over_files_are_counted(killed):
    assert killed("forgetful")["examples"][0] == "forgetful: x"

    untidy = killed("untidy")
    assert untidy["different"] == untidy["runs"]  # no file of the undisturbed run has a random name
    assert untidy["left_over_files"] > 0


def test_a_run_that_fails_without_being_killed_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(StandIn, "line", lambda self, is_resumed: [sys.executable, "-c", "raise SystemExit('no')"])

    with pytest.raises(TreefineError, match=r"^treefine parse failed without being killed\. no$"):
        killed_often([StandIn("parse", "x", ())], tmp_path, OPTIONS)


def test_the_table_shows_the_newest_counts_of_each_command(tmp_path):
    rows = tmp_path / "rows.jsonl"
    assert kills_table(rows).startswith("Not measured yet: commands killed at random moments.")
    serve = {"kills": 3, "requests": 240, "answers_by_status": {"200": 239}, "other_trees": 1}
    save_row("kills", {}, {"parse": Tally(runs=1).result, "serve": serve}, path=rows)
    save_row("kills", {}, {"parse": Tally(runs=2).result}, path=rows)

    text = kills_table(rows)

    assert "| `treefine parse` | 0 | 2 | 2 | 0 | 0 |" in text
    assert "| `treefine serve` | 3 | 240 | 238 | 2 |  |" in text


@pytest.fixture
def inputs(tmp_path):
    return argparse.Namespace(
        text=tmp_path / "none", treebanks=tmp_path, megabytes_text=0.03, megabytes_treebank=0.3, model="en"
    )


def test_a_large_input_repeats_the_sentences_with_new_words(inputs, tmp_path):
    treebank = streaming.written("treebank", 1.0, tmp_path, inputs).read_text()
    text = streaming.written("text", 1.0, tmp_path, inputs).read_text()

    names = [line for line in treebank.splitlines() if line.startswith("# sent_id")]
    assert 295_000 < len(treebank.encode()) <= 300_000
    assert treebank.endswith("\n\n")
    assert len(names) == len(set(names)) > 60
    assert 25_000 < len(text.encode()) <= 30_000


def test_memory_that_grows_during_a_run_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(streaming, "INTERVAL", 0.01)
    program = "import time; time.sleep(0.2); kept = bytearray(b'x') * 50_000_000; time.sleep(0.2)"

    seconds, sizes = streaming.watched([sys.executable, "-IS", "-c", program], tmp_path)

    assert seconds >= 0.4
    assert max(sizes) - sizes[1] > 40
    with pytest.raises(TreefineError, match=r"failed with exit code 3\. It printed nothing\.$"):
        streaming.watched([sys.executable, "-IS", "-c", "raise SystemExit(3)"], tmp_path)


def test_the_table_compares_the_peaks(inputs, tmp_path, monkeypatch):
    peaks = iter([100.0, 104.0])
    monkeypatch.setattr(streaming, "watched", lambda line, folder: (20.0, [50.0, next(peaks)]))
    monkeypatch.setattr(streaming, "model_fields", lambda name: {"model": name, "weights": "w"})
    rows = str(tmp_path / "rows.jsonl")
    assert streaming.streaming(Path(rows)).startswith("Not measured yet: memory on large inputs.")

    streaming.measure_streaming(
        ["--only", "evaluate", "--megabytes-treebank", "0.1", "--treebanks", str(tmp_path), "--rows", rows]
    )

    shown = streaming.streaming(Path(rows))
    assert shown.splitlines()[2].startswith("| evaluate | ")
    assert shown.splitlines()[2].endswith(" cores | 0 MB | 20 s | 104 MiB | 100 MiB | 1.04 |")


def test_the_table_of_long_sentences_has_a_line_for_each_length(tmp_path, monkeypatch):
    def watched(line, folder):
        (sentence,) = read_treebank(line[line.index("parse") + 1])
        tree = Graph.of_words(range(len(sentence)), ["root"] + ["dep"] * (len(sentence) - 1))
        Path(line[line.index("-o") + 1]).write_text(sentence.with_graph(tree).to_conllu())
        return 3.0, [50.0, 40.0]

    monkeypatch.setattr(long_sentences, "watched", watched)
    monkeypatch.setattr(long_sentences, "model_fields", lambda name: {"model": name, "weights": "w"})
    rows = str(tmp_path / "rows.jsonl")
    assert long_sentences.long_sentences(Path(rows)).startswith("Not measured yet: long sentences.")

    arguments = ["--lengths", "30", "--inputs", "treebank", "--treebanks", str(tmp_path), "--rows", rows]
    long_sentences.measure_long_sentences(arguments)

    shown = long_sentences.long_sentences(Path(rows))
    assert shown.splitlines()[2].startswith("| treebank | ")
    assert shown.splitlines()[2].endswith(" cores | 30 | 30 | 3 s | 50 MiB |")


def test_the_time_to_the_first_output_and_between_outputs_is_measured(tmp_path, monkeypatch):
    part = tmp_path / "out.conllu.part"
    program = (
        "import pathlib, sys, time; part = pathlib.Path(sys.argv[1]); print('loaded in 0 s', flush=True); "
        "time.sleep(0.1); part.write_text('a'); time.sleep(0.3); part.write_text('ab')"
    )

    found = first_output.times_of([sys.executable, "-IS", "-c", program, str(part)], part, tmp_path)

    assert found["first"] >= 0.1 - 2 * first_output.INTERVAL
    assert found["longest"] >= 0.3 - 2 * first_output.INTERVAL
    with pytest.raises(TreefineError, match="failed or wrote nothing"):
        first_output.times_of([sys.executable, "-IS", "-c", "pass"], tmp_path / "none", tmp_path)


def test_the_table_shows_the_first_output(inputs, tmp_path, monkeypatch):
    monkeypatch.setattr(first_output, "RESUMABLE", ["refine treebank"])
    monkeypatch.setattr(first_output, "model_fields", lambda name: {"model": name, "weights": "w"})
    rows, target = str(tmp_path / "rows.jsonl"), []

    def times(line, part, folder):
        part.with_suffix("").touch()
        target.append(part.name)
        return {"first": 1.25, "longest": 2.5, "seconds": 10.0}

    monkeypatch.setattr(first_output, "times_of", times)
    assert first_output.first_output(Path(rows)).startswith("Not measured yet: how soon commands write.")

    first_output.measure_first_output(["--megabytes-treebank", "0.1", "--treebanks", str(tmp_path), "--rows", rows])

    assert target == ["out.conllu.part"]
    assert "| refine treebank | 0.1 MB | 1.2 s | 2.5 s | 10.0 s |" in first_output.first_output(Path(rows))
