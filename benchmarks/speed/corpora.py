"""Compare Ray with the local engine on the same files, and estimate the time for a trillion words."""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks.markdown import Lines, table
from benchmarks.options import MODEL, ROUNDS, ROWS_FILE, TREEBANKS_FOLDER, command, count
from benchmarks.rows import (
    ROWS,
    Row,
    machine_of,
    missing,
    model_fields,
    newest,
    origin,
    read_rows,
    save_row,
)
from benchmarks.timing import Times
from treefine import Sentence, TreefineError, read_treebank, write_treebank
from treefine.treebank.raw_text import text_of

COMMAND = "python -m benchmarks corpora"
WORDS = 10**12
MACHINES = (100, 1000)
ENGINES = ("local", "ray")
KINDS = {"treebanks": ".conllu", "running text": ".txt"}


@command(
    MODEL,
    count("--files", 20, "number of files"),
    count("--sentences", 300, "number of sentences per file"),
    count("--actors", 2, "number of Ray actors"),
    ROUNDS,
    TREEBANKS_FOLDER,
    ROWS_FILE,
)
def measure_corpora(options: argparse.Namespace) -> None:
    """Compare Ray with the local engine; write one row.

    python -m benchmarks corpora
    python -m benchmarks corpora --files 4 --sentences 25 --rows scratch/rows.jsonl    # a trial run

    The sentences of en_ewt dev, as treebanks and as running text, are parsed by `treefine parse` with and without
    `--engine ray`. The start-up time is measured with a file of one sentence and reported separately. No time is
    reported if the outputs differ in a byte.
    """
    sentences = list(read_treebank(options.treebanks / "en_ewt" / "dev.conllu.xz"))
    groups = [
        [sentences[(number * options.sentences + place) % len(sentences)] for place in range(options.sentences)]
        for number in range(options.files)
    ]
    n_words = sum(len(each) for group in groups for each in group)
    result = {}
    with tempfile.TemporaryDirectory() as scratch:
        for kind, ending in KINDS.items():
            folder = Path(scratch, kind.replace(" ", "-"))
            folder.mkdir()
            names = [_write(group, folder / f"{number:04}{ending}") for number, group in enumerate(groups)]
            one = _write(sentences[:1], folder / f"one{ending}")
            result[kind] = _measured(names, one, folder, options, n_words)
    config = {
        "device": "cpu",
        **model_fields(options.model),
        "actors": options.actors,
        "file": "en_ewt dev",
        "files": options.files,
        "sentences": options.files * options.sentences,
        "words": n_words,
        "rounds": options.rounds,
        "ray": version("ray"),
        "torch": version("torch"),
    }
    save_row("corpora", config, result, path=options.rows)


def _write(sentences: Sequence[Sentence], path: Path) -> str:
    if path.suffix == ".txt":
        path.write_text(text_of(sentences))
    else:
        write_treebank(sentences, path)
    return str(path)


def _measured(
    names: Sequence[str], one: str, folder: Path, options: argparse.Namespace, n_words: int
) -> dict[str, dict[str, float]]:
    starts: Times = {engine: [] for engine in ENGINES}
    times: Times = {engine: [] for engine in ENGINES}
    for _ in range(options.rounds):
        for engine in ENGINES:
            starts[engine].append(_seconds([one], folder / f"{engine}-start", engine, options))
            times[engine].append(_seconds(names, folder / engine, engine, options))
        _compare(folder / "local", folder / "ray")
    found: dict[str, dict[str, float]] = {}
    speeds: dict[str, float] = {}
    for engine in ENGINES:
        start, seconds = statistics.median(starts[engine]), statistics.median(times[engine])
        speeds[engine] = n_words / max(seconds - start, 1e-9)
        found[engine] = {
            "start_seconds": round(start, 2),
            "seconds": round(seconds, 2),
            "words_per_second": round(speeds[engine]),
        }
    found["ray"]["times_local"] = round(speeds["ray"] / speeds["local"], 3)
    return found


def _seconds(names: Sequence[str], target: Path, engine: str, options: argparse.Namespace) -> float:
    shutil.rmtree(target, ignore_errors=True)
    more = ["--engine", "ray", "--actors", str(min(options.actors, len(names)))] if engine == "ray" else []
    command = [sys.executable, "-m", "treefine", "parse", *names, "-o", f"{target}/", "--model", options.model]
    environment = {name: value for name, value in os.environ.items() if name not in ("RAY_ADDRESS", "OMP_NUM_THREADS")}
    started = time.perf_counter()
    subprocess.run([*command, "--device", "cpu", *more], check=True, env=environment, stderr=subprocess.DEVNULL)
    return time.perf_counter() - started


def _compare(folder: Path, other: Path) -> None:
    ours, theirs = ({path.name: path.read_bytes() for path in each.glob("[!.]*")} for each in (folder, other))
    differing = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    if differing:
        raise TreefineError(
            f"{len(differing)} outputs of Ray differ from the local engine's, the first is {differing[0]}."
        )


def side_by_side(path: Path = ROWS) -> str:
    """Return the speed of Ray, compared with the local engine."""
    rows = read_rows("corpora", path=path)
    if not rows:
        return missing("Ray compared with the local engine", COMMAND)
    row = rows[-1]
    lines: Lines = [("input", "engine", "start-up", "total time", "words/s after start-up", "compared with local")]
    for kind, engines in row["result"].items():
        for engine, found in engines.items():
            times = f"{found['times_local']:.2f} times as fast" if "times_local" in found else ""
            seconds = (f"{found['start_seconds']:.1f} s", f"{found['seconds']:.1f} s")
            lines.append((kind, engine, *seconds, f"{found['words_per_second']:,}", times))
    config = row["config"]
    also = (
        f"{config['words']:,} words of {config['file']} in {config['files']} files; local: one process with a thread "
        f"per core; ray {config['ray']}: {config['actors']} actors that share the cores; median of {config['rounds']} "
        "rounds. All outputs are equal, byte for byte."
    )
    return f"{table(*lines)}\n\n{also}\n\n{origin(row, COMMAND)}"


def arithmetic(path: Path = ROWS) -> str:
    """Return the time for a trillion words on one and on many machines, at each measured speed."""
    on_many = (f"{number:,} machines" for number in MACHINES)
    lines: Lines = [("machine", "input", "words/s", "1 machine", *on_many)]
    for row, what, speed in _speeds(path):
        hours = WORDS / speed / 3600
        times = (_time(hours / number) for number in MACHINES)
        lines.append((machine_of(row), what, f"{speed:,}", f"{_figures(hours)} hours", *times))
    return f"{table(*lines)}\n\nThe time on one machine is 10¹² words divided by words/s; N machines take 1/N of it."


def _speeds(path: Path) -> list[tuple[Row, str, int]]:
    """Return rows, what was measured in them, and words per second."""
    found = []
    cpu, gpu = newest("speed", "cpu", path=path), newest("files", "cuda", path=path)
    for row, way, name in (
        (cpu, "to convergence", "treefine: file to file"),
        (cpu, "stop above 0.935", "treefine, stop above 0.935: file to file"),
        (gpu, "to convergence", "to convergence"),
        (gpu, "stop above 0.935", "stop above 0.935"),
    ):
        if row is not None and name in row["result"]:
            found.append((row, f"treebanks, {way}", row["result"][name]["words_per_second"]))
    for row in read_rows("corpora", path=path)[-1:]:
        for kind, engines in row["result"].items():
            found.append(
                (row, f"{kind}, Ray with {row['config']['actors']} actors", engines["ray"]["words_per_second"])
            )
    return found


def _time(hours: float) -> str:
    return f"{_figures(hours)} hours" if hours < 48 else f"{_figures(hours / 24)} days"


def _figures(number: float) -> str:
    """Return a number with the digits that matter.

    >>> _figures(191570.88), _figures(4.793), _figures(0.4793)
    ('192,000', '4.8', '0.48')
    """
    if number >= 100:
        return f"{round(number, 2 - len(str(int(number))) + 1):,.0f}"
    return f"{number:.2g}"


CORPORA: dict[str, Callable[[], str]] = {
    "corpora_side_by_side": side_by_side,
    "corpora_arithmetic": arithmetic,
}
