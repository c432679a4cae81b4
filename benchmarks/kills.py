"""Kill commands at random moments, resume them, and compare their output with that of an undisturbed run."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.options import MODEL, ROWS_FILE, command, count, option
from benchmarks.rows import ROOT, model_fields, save_row
from benchmarks.server.clients import ServeProcess, ask_all
from benchmarks.server.load import requests_of, trees_in
from treefine import Parser, TreefineError, read_treebank, write_treebank
from treefine.treebank.raw_text import text_of

COMMANDS = ("parse", "refine", "train", "serve")
SAMPLE = ROOT / "tests" / "data" / "en_ewt-sample.conllu"
INTERVAL, MOST_SECONDS = 0.002, 300.0  # between two looks at the output folder; of a run, which otherwise hangs
MOST_KILLS, MOST_CHANGES = 4, 8  # of one run, and of its files before a kill


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

    SIGKILL ends a run one to four times, after a random time or change of its output folder; the last run continues to
    its end. Its files must be those of an undisturbed run, byte for byte. A killed server restarts, and its clients
    repeat the requests that failed; each must get the trees of a parser in this process.
    """
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        lines = command_lines(Path(scratch), options.model)
        for name in filter(lines.__contains__, options.only):
            result[name] = killed_often(name, lines[name], Path(scratch), options)
    if "serve" in options.only:
        result["serve"] = server_killed(options)
    config = {"device": "cpu", **model_fields(options.model), "seed": options.seed, "workers": options.workers}
    save_row("kills", config, result, path=options.rows)


def command_lines(folder: Path, model: str) -> dict[str, list[list[str]]]:
    """Write the inputs into a folder; return the ways to run each command on them."""
    sentences = list(read_treebank(SAMPLE))
    source, texts = str(folder / "input.conllu"), [folder / f"{name}.txt" for name in "abcd"]
    write_treebank(sentences * 2, source)
    for number, path in enumerate(texts):
        path.write_text(text_of(sentences[number :: len(texts)]), encoding="utf-8")
    recipe = import_module("tests.support.trainings").write_recipe(folder, "recipe")
    common = ["--model", model, "--batch-pieces", "60", "--device", "cpu"]  # written in many small chunks
    return {
        "parse": [
            [source, "-o", "out/trees.conllu", *common],
            [str(texts[0]), "-o", "out/trees.jsonl.xz", *common],
            [*map(str, texts), "--format", "html", "-o", "out/", *common],
        ],
        "refine": [[source, "-o", "out/trees.conllu.gz", "--confidence", *common]],
        "train": [[str(recipe), "--output", "out", "--device", "cpu"]],
    }


def killed_often(name: str, lines: Sequence[Sequence[str]], scratch: Path, options: argparse.Namespace) -> Any:
    """Run the commands in turn, killing each run a few times, until there were as many kills as wanted.

    Return the numbers of runs and kills, what differed in each differing run, and the files that were left over.
    """
    ways = [([name, *line], *undisturbed([name, *line], scratch)) for line in lines]
    different, left_over = list[str](), list[str]()

    def run(number: int) -> int:
        (arguments, expected, seconds), rng = ways[number % len(ways)], random.Random(f"{options.seed} {name} {number}")
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            kills, fault = killed_run(arguments, seconds, Path(folder), rng)
            files = {} if fault else checksums(Path(folder, "out"))
        differing = sorted(each for each, checksum in expected.items() if files.get(each) != checksum)
        left_over.extend(sorted(files.keys() - expected.keys()))
        if fault or differing:
            different.append(fault or ", ".join(differing))
        return kills

    runs = kills = 0
    with ThreadPoolExecutor(options.workers) as pool:
        while kills < options.moments:  # a run that ends first is not killed
            kills += sum(pool.map(run, range(runs, runs + options.workers)))
            runs += options.workers
    return {"runs": runs, "kills": kills, "different": different, "left_over": left_over}


def undisturbed(arguments: Sequence[str], scratch: Path) -> tuple[dict[str, str], float]:
    """Run a command to its end; return the checksums of its files in the folder `out`, and its seconds."""
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder, started = Path(name), time.perf_counter()
        process = started_run(arguments, folder)
        if process.wait():
            raise TreefineError(f"treefine {arguments[0]} failed without being killed.", hint=_last_line(folder))
        return checksums(folder / "out"), time.perf_counter() - started


def killed_run(arguments: Sequence[str], seconds: float, folder: Path, rng: random.Random) -> tuple[int, str]:
    """Run a command with some kills, then to its end; return the number of kills, and the error of the last run."""
    n_kills = rng.randint(1, MOST_KILLS)
    for number in range(n_kills + 1):
        process = started_run([*arguments, *(["--resume"] if number else [])], folder)
        end, left = time.perf_counter() + rng.uniform(0, seconds), float("inf")
        if number == n_kills:
            end = time.perf_counter() + MOST_SECONDS
        elif rng.random() < 0.5:  # at a change of files
            end, left = float("inf"), rng.randint(1, MOST_CHANGES)
        files = names = set[str]()
        while process.poll() is None and left and time.perf_counter() < end:
            names, files = files, {f"{place}/{name}" for place, _, some in os.walk(folder / "out") for name in some}
            left -= names != files  # files appeared in the output folder or disappeared
            time.sleep(INTERVAL)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if (code := process.wait()) != -signal.SIGKILL:
            return number, f"exit code {code}: {_last_line(folder)}" if code else ""
    return n_kills, f"no end after {MOST_SECONDS:.0f} s"


def started_run(arguments: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start a command in its own process group, with one thread and without a GPU."""
    (folder / "out").mkdir(exist_ok=True)
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    env = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    with (folder / "log").open("wb") as log:
        line = [sys.executable, "-m", "treefine", *arguments]
        return subprocess.Popen(
            line, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def checksums(folder: Path) -> dict[str, str]:
    """Return the checksums of all files in a folder, without the times in them and without logs for TensorBoard."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and "tfevents" not in path.name:
            content = path.read_bytes()
            if path.name == "metrics.jsonl":
                content = re.sub(rb'"\w*second\w*": [\d.e+-]+', b"", content)
            found[path.relative_to(folder).as_posix()] = hashlib.sha256(content).hexdigest()
    return found


def _last_line(folder: Path) -> str:
    lines = (folder / "log").read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "It printed nothing."


def server_killed(options: argparse.Namespace) -> dict[str, Any]:
    """Kill a server under load at random moments; return the counts of requests and of wrong answers."""
    parser, rng = Parser.from_pretrained(options.model, device="cpu"), random.Random(options.seed)
    requests, expected = requests_of(parser, list(read_treebank(SAMPLE)), 1, "conllu")
    is_over = False

    def numbered() -> Any:
        while not is_over:  # until the last restart, then each request once more
            yield from enumerate(requests)
        yield from enumerate(requests)

    with ServeProcess(["--model", options.model, "--device", "cpu"], threads=1) as server:

        async def ask() -> Any:
            nonlocal is_over
            asking = asyncio.create_task(ask_all(server.port, numbered(), clients=4, retries=True))
            for _ in range(options.moments):
                await asyncio.sleep(rng.uniform(0, 3))
                await asyncio.to_thread(server.stop, signal.SIGKILL)
                await asyncio.to_thread(server.start)
            is_over = True
            return await asking

        answers = asyncio.run(ask())
    wrong = [each for each in answers if each.status != 200 or trees_in(each.body.decode()) != expected[each.number]]
    refusals = sum((each.refusals for each in answers), Counter[str]())
    return {"kills": options.moments, "requests": len(answers), "wrong": len(wrong), "refusals": dict(refusals)}
