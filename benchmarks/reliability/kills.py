"""Kill commands at random moments, resume them, and compare their output with that of an undisturbed run."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple

from benchmarks.options import MODEL, ROWS_FILE, command, count, option
from benchmarks.rows import ROOT, model_fields, save_row
from treefine import Sentence, TreefineError, read_treebank, write_treebank
from treefine.treebank.raw_text import text_of

COMMAND = "python -m benchmarks kills"
COMMANDS = ("parse", "refine", "train", "serve")
SAMPLE = ROOT / "tests" / "data" / "en_ewt-sample.conllu"
INTERVAL = 0.002  # seconds between two looks at the output folder
MOST_KILLS = 4  # of one run
MOST_SECONDS = 300.0  # a run that takes longer hangs
CLIENTS = 4  # of each server
SMALL = ("--batch-pieces", "60", "--device", "cpu")  # sentences are written in many small chunks
MODEL_FOLDER, RECIPE = "encoder", "recipe.toml"
TRAINING = """
[treebank]
train = ["{folder}/train.conllu"]
dev = "{folder}/dev.conllu"
{encoder}
[scorer]
arc_width = 12
label_width = 8
{sections}
[optimiser]
learning_rate = 1e-2
encoder_learning_rate = 1e-3
ema = 0.8
[training]
epochs = {epochs}
batch_pieces = 500
checkpoint_minutes = 0
"""
BILSTM = """[encoder]
family = "bilstm"
word_width = 8
char_width = 8
tag_width = 8
n_layers = 1
width = 8
[relations]
graph = "none"
[refine]
max_steps = 1
"""
SECTIONS = """[refine]
max_steps = 2
[initial]
parser = "inner.toml"
folds = 2
[segmenter]
epochs = 2
[segmenter.network]
run_hidden = 8
char_hidden = 8
"""
When = Literal["before work", "during work", "at a change of files"]
WHENS: tuple[When, ...] = ("before work", "during work", "at a change of files")
SHARES = (0.15, 0.5, 0.35)


@dataclass(frozen=True)
class Way:
    """A command whose outputs lie in the folder `out`, and the option that resumes it."""

    command: str
    name: str
    arguments: tuple[str, ...]
    resume: str = "--resume"

    def line(self, *, is_resumed: bool) -> list[str]:
        """Return the command line."""
        more = [self.resume] if is_resumed else []
        return [sys.executable, "-m", "treefine", self.command, *self.arguments, *more]


class Reference(NamedTuple):
    """The output of an undisturbed run, and what it took."""

    files: dict[str, str]  # checksum by name
    seconds: float
    work_seconds: float  # since the first change in the output folder
    changes: int  # how often the set of files in it changed


@dataclass
class Tally:
    """Counts for one command."""

    runs: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    different: list[str] = field(default_factory=list)  # of each differing run: which files differ, or the error
    left_over: list[str] = field(default_factory=list)  # files that the undisturbed run does not have

    @property
    def result(self) -> dict[str, Any]:
        """The fields of the row."""
        return {
            "runs": self.runs,
            "kills": self.kills.total(),
            "kills_by_moment": {when: self.kills[when] for when in WHENS},
            "identical": self.runs - len(self.different),
            "different": len(self.different),
            "left_over_files": len(self.left_over),
            "examples": [*self.different[:3], *self.left_over[:3]],
        }


@command(
    MODEL,
    count("--moments", 200, "number of kills of each command"),
    count("--workers", os.cpu_count() or 1, "number of runs at the same time; each uses one core"),
    count("--seed", 1, "random seed of the moments"),
    option("--only", nargs="+", choices=COMMANDS, default=COMMANDS, help="commands to kill (default: all)"),
    ROWS_FILE,
)
def measure_kills(options: argparse.Namespace) -> None:
    """Kill parse, refine, train and serve at random moments and resume them; write one row.

    python -m benchmarks kills --workers 16
    python -m benchmarks kills --moments 4 --rows scratch/rows.jsonl    # a trial run

    SIGKILL ends a run one to four times: before it has written anything, while it works, or when a file appears or
    disappears in its output folder. The last run continues to its end. Its files must be those of an undisturbed run,
    byte for byte, with nothing left over. A killed server restarts, and its clients repeat the requests that failed;
    each must get one answer, with the trees of the offline parser.
    """
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, ways in ways_in(Path(scratch), options.model, options.only).items():
            started = time.perf_counter()
            tally = killed_often(ways, Path(scratch), options)
            result[name] = tally.result | {"seconds": round(time.perf_counter() - started)}
    if "serve" in options.only:
        started = time.perf_counter()
        result["serve"] = servers_killed(options)
        result["serve"]["seconds"] = round(time.perf_counter() - started)
    config = {
        "device": "cpu",
        **model_fields(options.model),
        "moments": options.moments,
        "workers": options.workers,
        "seed": options.seed,
        "torch": version("torch"),
    }
    save_row("kills", config, result, path=options.rows)


def ways_in(folder: Path, model: str, commands: Sequence[str] = COMMANDS) -> dict[str, list[Way]]:
    """Write the inputs into a folder; return the ways to run each command on them."""
    sentences = list(read_treebank(SAMPLE))
    many = [sentence for _ in range(2) for sentence in sentences]
    source, texts = folder / "given.conllu", [folder / f"{name}.txt" for name in "abcd"]
    write_treebank(many, source)
    for number, path in enumerate(texts):
        path.write_text(text_of(many[number :: len(texts)]), encoding="utf-8")
    common = ("--model", model, *SMALL)
    found: dict[str, list[Way]] = {
        "parse": [
            Way("parse", "treebank", (str(source), "-o", "out/trees.conllu", *common)),
            Way("parse", "text to compressed JSON", (str(texts[0]), "-o", "out/trees.jsonl.xz", *common)),
            Way("parse", "texts to a folder", (*map(str, texts), "--format", "html", "-o", "out/", *common)),
        ],
        "refine": [
            Way("refine", "treebank", (str(source), "-o", "out/trees.conllu", *common)),
            Way("refine", "compressed treebank", (str(source), "-o", "out/trees.conllu.gz", "--confidence", *common)),
        ],
    }
    if "train" in commands:
        write_training(folder, sentences, model)
        found["train"] = [
            Way("train", "RNGTr over folds", (str(folder / RECIPE), "--output", "out", "--device", "cpu"))
        ]
    return {name: ways for name, ways in found.items() if name in commands}


def write_training(folder: Path, sentences: Sequence[Sentence], model: str) -> None:
    """Write a small treebank, a tiny encoder with random weights, and a recipe with a segmenter and folds."""
    import torch

    from treefine.config import (
        DecodeSettings,
        ModelSettings,
        RelationSettings,
        ScorerSettings,
        TagSettings,
        TransformerSettings,
    )
    from treefine.model.parser_model import ParserModel
    from treefine.model.vocabulary import Vocabulary
    from treefine.parsing.parser import Parser

    short = [each for each in sentences if 2 < len(each) < 40]
    write_treebank(short[8:], folder / "train.conllu")
    write_treebank(short[:8], folder / "dev.conllu")
    subwords = Parser.from_pretrained(model, device="cpu").model.subwords
    assert subwords is not None
    torch.manual_seed(1)
    settings = ModelSettings(
        TransformerSettings("bert", len(subwords), 128, 1, 16, 2, 24, 16),
        RelationSettings("none"),
        TagSettings(),
        ScorerSettings(arc_width=12, label_width=8),
        DecodeSettings(),
    )
    vocabulary = replace(Vocabulary.of_treebank(short), words=(), chars=())
    Parser(ParserModel(settings, vocabulary, subwords), device="cpu").save(folder / MODEL_FOLDER)
    inner = TRAINING.format(folder=folder, encoder=BILSTM, sections="", epochs=2)
    (folder / "inner.toml").write_text(inner, encoding="utf-8")
    base = f'[encoder]\nfine_tune_from = "{folder / MODEL_FOLDER}"\n'
    outer = TRAINING.format(folder=folder, encoder=base, sections=SECTIONS, epochs=4)
    (folder / RECIPE).write_text(outer, encoding="utf-8")


def killed_often(ways: Sequence[Way], scratch: Path, options: argparse.Namespace) -> Tally:
    """Run the ways in turn, killing each run a few times, until there were as many kills as wanted."""
    references = []
    for way in ways:
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            references.append(undisturbed(way, Path(folder)))
    tally, lock = Tally(), threading.Lock()

    def run(number: int) -> None:
        with lock:
            left = options.moments - tally.kills.total()
        if left <= 0:
            return
        rng = random.Random(f"{options.seed} {ways[0].command} {number}")
        way, reference = ways[number % len(ways)], references[number % len(ways)]
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            kills, fault = killed_run(way, Path(folder), reference, rng)
            files = {} if fault else checksums(Path(folder, "out"))
        left_over = sorted(files.keys() - reference.files.keys())
        differing = sorted(name for name, each in reference.files.items() if files.get(name) != each)
        with lock:
            tally.runs += 1
            tally.kills.update(kills)
            tally.left_over += [f"{way.name}: {name}" for name in left_over]
            if fault or differing:
                tally.different.append(f"{way.name}: {fault or ', '.join(differing)}")

    with ThreadPoolExecutor(options.workers) as pool:
        number = 0
        while tally.kills.total() < options.moments:  # a run that ends first is not killed
            list(pool.map(run, range(number, number + 2 * options.workers)))
            number += 2 * options.workers
    return tally


def undisturbed(way: Way, folder: Path) -> Reference:
    """Run a command to its end."""
    changes: list[float] = []
    started = time.perf_counter()
    with started_run(way, folder, is_resumed=False) as process:
        seen = names_in(folder)
        while process.poll() is None:
            if (now := names_in(folder)) != seen:
                changes.append(time.perf_counter())
                seen = now
            time.sleep(INTERVAL)
    ended = time.perf_counter()
    if process.returncode:
        raise TreefineError(f"treefine {way.command} failed without being killed.", hint=said(folder))
    first = changes[0] if changes else ended
    return Reference(checksums(folder / "out"), ended - started, ended - first, len(changes))


def killed_run(way: Way, folder: Path, reference: Reference, rng: random.Random) -> tuple[list[When], str]:
    """Run a command with some kills, then to its end; return when it was killed, and the error of the last run."""
    kills: list[When] = []
    for _ in range(rng.randint(1, MOST_KILLS)):
        when: When = rng.choices(WHENS, SHARES)[0]
        with started_run(way, folder, is_resumed=bool(kills)) as process:
            wait_for(when, process, folder, reference, rng)
            was_killed = process.poll() is None
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        if was_killed and code == -signal.SIGKILL:
            kills.append(when)
        else:
            return kills, f"exit code {code}: {said(folder)}" if code else ""
    with started_run(way, folder, is_resumed=True) as process:
        try:
            code = process.wait(MOST_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return kills, f"no end after {MOST_SECONDS:.0f} s"
    return kills, f"exit code {code}: {said(folder)}" if code else ""


def started_run(way: Way, folder: Path, *, is_resumed: bool) -> subprocess.Popen[bytes]:
    """Start a command in its own process group, with one thread and without a GPU."""
    (folder / "out").mkdir(exist_ok=True)
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    env = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    with (folder / "said").open("wb") as output:
        return subprocess.Popen(
            way.line(is_resumed=is_resumed),
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def wait_for(
    when: When, process: subprocess.Popen[bytes], folder: Path, reference: Reference, rng: random.Random
) -> None:
    """Wait until the moment of a kill, or until the process ends."""
    started = time.perf_counter()
    if when == "before work":
        until = started + rng.uniform(0, reference.seconds - reference.work_seconds)
        while process.poll() is None and time.perf_counter() < until:
            time.sleep(INTERVAL)
        return
    left = 1 if when == "during work" else rng.randint(1, max(1, reference.changes))
    seen = state_of(folder) if when == "during work" else names_in(folder)
    while process.poll() is None and left:
        now = state_of(folder) if when == "during work" else names_in(folder)
        left -= now != seen
        seen = now
        if left:
            time.sleep(INTERVAL)
    if when == "during work":
        until = time.perf_counter() + rng.uniform(0, reference.work_seconds)
        while process.poll() is None and time.perf_counter() < until:
            time.sleep(INTERVAL)


def names_in(folder: Path) -> frozenset[str]:
    """Return the paths of all files and folders in the output folder."""
    return frozenset(path for path, _, _ in _entries(folder / "out"))


def state_of(folder: Path) -> frozenset[tuple[str, int, int]]:
    """Return the paths, sizes and modification times of all files and folders in the output folder."""
    return frozenset(_entries(folder / "out"))


def _entries(folder: Path) -> Iterator[tuple[str, int, int]]:
    try:
        with os.scandir(folder) as found:
            entries = list(found)
    except OSError:  # it has just been removed
        return
    for entry in entries:
        with suppress(OSError):
            about = entry.stat(follow_symlinks=False)
            yield entry.path, about.st_size, about.st_mtime_ns
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(Path(entry.path))


def checksums(folder: Path) -> dict[str, str]:
    """Return the checksums of all files in a folder, without the times in them; an empty folder counts as a file.

    Logs for TensorBoard are left out, because their names and contents depend on the time.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if "tfevents" in name:
            continue
        if path.is_file():
            found[name] = hashlib.sha256(_without_times(path)).hexdigest()
        elif not any(path.iterdir()):
            found[f"{name}/"] = ""
    return found


def _without_times(path: Path) -> bytes:
    data = path.read_bytes()
    if path.name != "metrics.jsonl":
        return data
    lines = [json.loads(line) for line in data.decode().splitlines()]
    kept = [{key: each for key, each in line.items() if "second" not in key} for line in lines]
    return json.dumps(kept).encode()


def said(folder: Path) -> str:
    """Return the last line that a run printed."""
    lines = (folder / "said").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "It printed nothing."


def servers_killed(options: argparse.Namespace) -> dict[str, Any]:
    """Kill servers under load at random moments; return the sums of the counts."""
    from benchmarks.server.clients import ServeProcess
    from benchmarks.server.loads import LOADS, OfflineParser
    from benchmarks.server.outages import stopped
    from benchmarks.speed.parsers import spread, without_trees

    sentences = spread(without_trees(SAMPLE.read_text(encoding="utf-8")), 60)
    with OfflineParser(options.model, sentences, threads=1) as offline:
        asked = offline.asked(LOADS[1])
    workers = min(options.workers, options.moments)

    def run(number: int) -> dict[str, Any]:
        rng = random.Random(f"{options.seed} serve {number}")
        pauses = [rng.uniform(0, 3) for _ in range(number, options.moments, workers)]
        with ServeProcess(["--model", options.model, "--device", "cpu"], threads=1) as server:
            return asyncio.run(stopped(server, asked, clients=CLIENTS, pauses=pauses, is_killed=True))

    with ThreadPoolExecutor(workers) as pool:
        found = list(pool.map(run, range(workers)))
    answers = sum((Counter(each["answers_by_status"]) for each in found), Counter[str]())
    refusals = sum((Counter(each["refusals"]) for each in found), Counter[str]())
    summed = {name: sum(each[name] for each in found) for name in ("requests", "unanswered", "other_trees")}
    return {
        "kills": sum(each["stops"] for each in found),
        **summed,
        "answers_by_status": dict(answers),
        "refusals": dict(refusals),
        "surplus_bytes": sum(each["surplus_bytes"] for each in found),
    }
