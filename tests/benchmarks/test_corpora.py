"""Ray compared with the local engine, and the estimate for a trillion words."""

import json
from pathlib import Path

import pytest

from benchmarks.rows import read_rows
from benchmarks.speed import corpora
from tests.support.data import DATA
from treefine import TreefineError

CPU = {"processor": "AMD", "cores": 2}


def row(benchmark, config, result):
    return json.dumps(
        {"benchmark": benchmark, "when": "2026-11-16", "commit": "c", "machine": CPU}
        | {"config": config, "result": result}
    )


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs the command on four sentences, with engines that write the given output."""
    monkeypatch.setattr(corpora, "read_treebank", lambda _: list(READ(DATA / "en_ewt-sample.conllu"))[:4])
    monkeypatch.setattr(corpora, "model_fields", lambda name: {"model": name, "weights": "w"})

    def call(text_by_ray):
        def seconds(names, target, engine, options):
            target.mkdir(exist_ok=True)
            for name in names:
                (target / Path(name).name).write_text(text_by_ray if engine == "ray" else "tree")
            return (1.0 if len(names) == 1 else 3.0) * (2 if engine == "ray" else 1)

        monkeypatch.setattr(corpora, "_seconds", seconds)
        corpora.measure_corpora(["--files", "3", "--sentences", "2", "--rows", str(tmp_path / "rows.jsonl")])
        return read_rows("corpora", path=tmp_path / "rows.jsonl")

    return call


READ = corpora.read_treebank


def test_the_row_separates_start_up_from_parsing(run):
    (found,) = run("tree")

    words = found["config"]["words"]
    assert found["result"]["treebanks"] == {
        "local": {"start_seconds": 1.0, "seconds": 3.0, "words_per_second": round(words / 2)},
        "ray": {"start_seconds": 2.0, "seconds": 6.0, "words_per_second": round(words / 4), "times_local": 0.5},
    }
    assert found["result"].keys() == {"treebanks", "running text"}


def test_no_time_is_reported_if_outputs_differ(run, tmp_path):
    with pytest.raises(
        TreefineError, match=r"^3 outputs of Ray differ from the local engine's, the first is 0000\.conllu\.$"
    ):
        run("other")

    assert not (tmp_path / "rows.jsonl").exists()


def test_the_table_shows_only_speeds_with_a_row(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(row("files", {"device": "H200"}, {"to convergence": {"words_per_second": 1_000_000}}))

    lines = corpora.arithmetic(path).splitlines()

    assert (
        lines[2]
        == "| H200, AMD, 2 cores | treebanks, to convergence | 1,000,000 | 278 hours | 2.8 hours | 0.28 hours |"
    )
    assert lines[3] == ""
    assert corpora.side_by_side(path).startswith("Not measured yet")


def test_a_run_with_ray_is_shown_in_both_tables(run, tmp_path, monkeypatch):
    run("tree")
    path = tmp_path / "rows.jsonl"

    assert "| treebanks | ray | 2.0 s | 6.0 s |" in corpora.side_by_side(path)
    assert "| running text, Ray with 2 actors |" in corpora.arithmetic(path)
