"""Ways to use the cores of a CPU, on idle and on shared cores."""

import os
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.rows import read_rows
from benchmarks.speed import contention
from benchmarks.speed.contention import DEFAULT, OURS, WAYS, Way
from treefine import TreefineError
from treefine.cores import limit_spinning

SLOWDOWN = {DEFAULT: 10.0, OURS: 2.5}  # on shared cores


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs the benchmark with 2 cores and parsers that take a fixed time."""
    n_busy = []

    @contextmanager
    def busy(n_processes):
        n_busy.append(n_processes)
        yield

    def call(text=lambda way: "tree"):
        def seconds(way, files, target, model):
            target.mkdir(exist_ok=True)
            for path in files:
                (target / path.name).write_text(text(way))
            name = next(name for name, each in WAYS.items() if each is way)
            slowdown = SLOWDOWN.get(name, 2.0) if n_busy[-1] else 1.0
            return slowdown * (1.0 if files[0].parent.name == "short" else 5.0)

        monkeypatch.setattr(contention, "_seconds", seconds)
        rows = str(tmp_path / "rows.jsonl")
        contention.measure_contention(
            ["--sentences", "5", "--rounds", "2", "--rows", rows, "--treebanks", str(tmp_path)]
        )
        return n_busy, read_rows("contention", path=Path(rows))

    monkeypatch.setattr(contention, "busy", busy)
    monkeypatch.setattr(contention, "usable_cores", lambda: 2)
    monkeypatch.setattr(contention, "model_fields", lambda name: {"model": name, "weights": "w"})
    return call


def test_one_row_compares_all_ways_in_both_conditions(run):
    n_busy, (row,) = run()

    assert n_busy == [0, 2, 0, 2]
    assert row["config"]["file"] == "en_ewt-sample.conllu"  # because the treebanks are missing
    assert row["config"]["processes"] == 2
    assert row["result"].keys() == WAYS.keys()
    assert row["result"][OURS] == {
        "idle": {"seconds": 5.0, "start_seconds": 1.0, "times_as_fast": 1.0},
        "busy": {"seconds": 12.5, "start_seconds": 2.5, "times_as_fast": 0.4},
    }


def test_the_table_shows_the_share_of_the_fair_share(run, tmp_path):
    assert contention.contention(tmp_path / "rows.jsonl").startswith("Not measured yet: speed on shared cores.")

    run()

    text = contention.contention(tmp_path / "rows.jsonl")
    assert "`treefine parse` reaches 80% of its fair share; one batch at a time on all cores would reach 20%." in text
    assert f"| {OURS} | 5.0 s | 1.00 | 12.5 s | 80% |" in text


def test_no_row_is_written_if_trees_differ(run, tmp_path):
    with pytest.raises(TreefineError, match=r"^The trees differ from those of other ways: `--threads 1`, idle\.$"):
        run(lambda way: "other" if way.options else "tree")

    assert not (tmp_path / "rows.jsonl").exists()


def test_openmp_keeps_its_default_only_in_the_way_that_is_named_so():
    default, ours = dict(WAYS[DEFAULT].variables), dict(WAYS[OURS].variables)
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, "torch", raising=False)
        limit_spinning(default)
        limit_spinning(ours)

    assert "GOMP_SPINCOUNT" not in default
    assert "GOMP_SPINCOUNT" in ours


def test_busy_processes_run_at_normal_priority_until_the_end(monkeypatch):
    started = []
    start = contention.subprocess.Popen
    monkeypatch.setattr(contention.subprocess, "Popen", lambda *a, **b: started.append(start(*a, **b)) or started[-1])

    with contention.busy(2):
        assert [each.poll() for each in started] == [None, None]
        assert {os.getpriority(os.PRIO_PROCESS, each.pid) for each in started} == {os.getpriority(os.PRIO_PROCESS, 0)}

    assert all(each.returncode for each in started)


@pytest.mark.parametrize(("is_divided", "n_processes"), [(False, 1), (True, 2)])
def test_files_are_parsed_in_one_process_or_in_one_per_file(monkeypatch, tmp_path, is_divided, n_processes):
    calls = []

    class Process:
        def __init__(self, command, env, stderr):
            calls.append((command, env))

        def wait(self):
            return 0

    monkeypatch.setattr(contention.subprocess, "Popen", Process)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")

    contention._seconds(Way({"A": "b"}, ("--threads", "1"), is_divided), [Path("x"), Path("y")], tmp_path / "o", "en")

    assert len(calls) == n_processes
    command, env = calls[0]
    assert command[command.index("--threads") + 1] == "1"
    assert env["A"] == "b"
    assert not {"OMP_NUM_THREADS", "GOMP_SPINCOUNT"} & env.keys()
