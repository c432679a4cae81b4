"""Compare ways to use the cores of a CPU, on an idle machine and with one other busy process per core."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.markdown import Lines, table
from benchmarks.options import MODEL, ROUNDS, ROWS_FILE, TREEBANKS_FOLDER, command, count
from benchmarks.rows import ROOT, ROWS, missing, model_fields, origin, read_rows, save_row
from treefine import Sentence, TreefineError, read_treebank, write_treebank
from treefine.cores import usable_cores

COMMAND = "python -m benchmarks contention"
SAMPLE = ROOT / "tests" / "data" / "en_ewt-sample.conllu"  # used if the treebanks are missing
CONDITIONS = ("idle", "busy")
_THREADS = re.compile(r"(OMP|GOMP|KMP|MKL)_\w+|RAYON_NUM_THREADS")
_BUSY = "print(flush=True)\nwhile True: pass"


class Way(NamedTuple):
    """A way to run `treefine parse`."""

    variables: Mapping[str, str] = {}
    options: tuple[str, ...] = ()
    is_divided: bool = False  # each file has a separate process
    one_batch: bool = False  # one batch at a time, on all threads


DEFAULT, OURS = "one batch on all cores, as PyTorch does it", "one batch per core, treefine's default"
_NO_SPIN_COUNT = {"KMP_BLOCKTIME": "200"}  # GNU OpenMP ignores it, and treefine then sets no spin count
WAYS = {
    DEFAULT: Way(_NO_SPIN_COUNT, one_batch=True),
    "one batch on all cores, `GOMP_SPINCOUNT=2000`": Way(one_batch=True),
    OURS: Way(),
    "`--threads 1`": Way(options=("--threads", "1")),
    "one process per core, `--threads 1`": Way(options=("--threads", "1"), is_divided=True),
}
_ONE_BATCH = (
    "import sys; from treefine import cores; from treefine.cli.app import app; "
    "cores._MOST_AT_ONCE = 1; app(sys.argv[1:], prog_name='treefine')"
)
Times = dict[str, dict[str, list[float]]]  # seconds of each round, by way and condition


@command(
    MODEL,
    count("--sentences", 800, "number of sentences"),
    ROUNDS,
    TREEBANKS_FOLDER,
    ROWS_FILE,
)
def measure_contention(options: argparse.Namespace) -> None:
    """Compare waiting policies and numbers of threads on idle and on shared cores; write one row.

    python -m benchmarks contention
    python -m benchmarks contention --sentences 8 --rounds 1 --rows scratch/rows.jsonl    # a trial run

    `treefine parse` reads sentences of en_ewt dev from one file per core. In the second half of each round, another
    process per core is busy, with the same priority. The time for one sentence per file is subtracted as start-up
    time. No time is reported if the outputs differ in a byte. Run it on an idle machine.
    """
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"The machine is not idle (load average {load:.1f}); the times will mean little.", file=sys.stderr)
    path = options.treebanks / "en_ewt" / "dev.conllu.xz"
    known = list(read_treebank(path if path.exists() else SAMPLE))
    sentences = [known[number % len(known)] for number in range(options.sentences)]
    n_cores = usable_cores()
    with tempfile.TemporaryDirectory() as scratch:
        groups = [sentences[number::n_cores] for number in range(n_cores)]
        full = _written([group for group in groups if group], Path(scratch, "full"))
        short = _written([known[:1]] * len(full), Path(scratch, "short"))
        totals, starts = _rounds(full, short, Path(scratch, "out"), n_cores, options)
    config = {
        "device": "cpu",
        **model_fields(options.model),
        "file": "en_ewt dev" if path.exists() else SAMPLE.name,
        "sentences": len(sentences),
        "words": sum(map(len, sentences)),
        "processes": len(full),
        "busy_processes": n_cores,
        "rounds": options.rounds,
        "load_before": round(load, 2),
        "torch": version("torch"),
    }
    save_row("contention", config, _compared(totals, starts), path=options.rows)


def _written(groups: Sequence[Sequence[Sentence]], folder: Path) -> list[Path]:
    folder.mkdir()
    for number, group in enumerate(groups):
        write_treebank(group, folder / f"{number:03}.conllu")
    return sorted(folder.iterdir())


def _rounds(
    full: Sequence[Path], short: Sequence[Path], target: Path, n_cores: int, options: argparse.Namespace
) -> tuple[Times, Times]:
    """Return the seconds of each way for all sentences and for the short files."""
    totals: Times = {way: {each: [] for each in CONDITIONS} for way in WAYS}
    starts: Times = {way: {each: [] for each in CONDITIONS} for way in WAYS}
    expected: list[bytes] | None = None
    for _ in range(options.rounds):
        for condition in CONDITIONS:
            with busy(n_cores if condition == "busy" else 0):
                for name, way in WAYS.items():
                    starts[name][condition].append(_seconds(way, short, target, options.model))
                    totals[name][condition].append(_seconds(way, full, target, options.model))
                    output = [path.read_bytes() for path in sorted(target.glob("[!.]*"))]
                    expected = expected or output
                    if output != expected:
                        raise TreefineError(f"The trees differ from those of other ways: {name}, {condition}.")
    return totals, starts


@contextmanager
def busy(n_processes: int) -> Iterator[None]:
    """Keep this many processes busy."""
    processes = [
        subprocess.Popen([sys.executable, "-I", "-c", _BUSY], stdout=subprocess.PIPE) for _ in range(n_processes)
    ]
    try:
        for each in processes:
            assert each.stdout is not None
            each.stdout.readline()  # it has started
        yield
    finally:
        for each in processes:
            each.kill()
            with each:
                pass


def _seconds(way: Way, files: Sequence[Path], target: Path, model: str) -> float:
    """Return the seconds of parsing the files into a new folder, in one process or in one per file."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    inherited = {name: value for name, value in os.environ.items() if not _THREADS.fullmatch(name)}
    start = ["-c", _ONE_BATCH] if way.one_batch else ["-m", "treefine"]
    parse = [sys.executable, *start, "parse", "--model", model, "--device", "cpu", *way.options]
    started = time.perf_counter()
    processes = [
        subprocess.Popen(
            [*parse, *map(str, each), "-o", f"{target}/"],
            env=inherited | dict(way.variables),
            stderr=subprocess.DEVNULL,
        )
        for each in ([[path] for path in files] if way.is_divided else [files])
    ]
    codes = [process.wait() for process in processes]
    seconds = time.perf_counter() - started
    if any(codes):
        raise TreefineError(f"treefine parse failed with exit code {max(codes, key=abs)}.")
    return seconds


def _compared(totals: Times, starts: Times) -> dict[str, dict[str, Any]]:
    """Return median times, and the median over the rounds of each speed compared with PyTorch's way when idle."""
    after = {
        name: {
            condition: [max(total - start, 1e-3) for total, start in zip(times, starts[name][condition], strict=True)]
            for condition, times in conditions.items()
        }
        for name, conditions in totals.items()
    }
    found: dict[str, dict[str, Any]] = {}
    for name in totals:
        found[name] = {}
        for condition in CONDITIONS:
            pairs = zip(after[DEFAULT]["idle"], after[name][condition], strict=True)
            found[name][condition] = {
                "seconds": round(statistics.median(totals[name][condition]), 2),
                "start_seconds": round(statistics.median(starts[name][condition]), 2),
                "times_as_fast": round(statistics.median(reference / own for reference, own in pairs), 3),
            }
    return found


def contention(path: Path = ROWS) -> str:
    """Return the speed of each way on idle and on shared cores."""
    rows = read_rows("contention", path=path)
    if not rows:
        return missing("speed on shared cores", COMMAND)
    row = rows[-1]
    config, result = row["config"], row["result"]
    ours, default = result[OURS], result[DEFAULT]
    gist = (
        f"With one other busy process per core, `treefine parse` reaches {_fair(ours)} of its fair share; one batch "
        f"at a time on all cores would reach {_fair(default)}. On an idle machine, it has "
        f"{100 * ours['idle']['times_as_fast']:.0f}% of the speed of one batch at a time."
    )
    lines: Lines = [("cores", "idle", "times as fast", "busy", "of its fair share")]
    for name, found in result.items():
        idle, busy = found["idle"], found["busy"]
        times = f"{idle['times_as_fast']:.2f}"
        lines.append((name, f"{idle['seconds']:.1f} s", times, f"{busy['seconds']:.1f} s", _fair(found)))
    also = (
        f"{config['sentences']:,} sentences, {config['words']:,} words of {config['file']}; median of "
        f"{config['rounds']} rounds. Seconds include the start of the command; the other columns do not. The fair "
        "share is half the speed of the first line on the idle machine, because others use the other half."
    )
    return f"{gist}\n\n{table(*lines)}\n\n{also}\n\n{origin(row, COMMAND)}"


def _fair(found: Mapping[str, Any]) -> str:
    """Return the speed on busy cores as a percentage of the fair share, half of the speed on idle ones."""
    return f"{200 * found['busy']['times_as_fast']:.0f}%"
