"""Scoring beside the official scripts, resampling, and how long the command takes to start."""

from __future__ import annotations

import io
import lzma
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.corrupted import change_labels, corrupt, move_heads, render, unpack
from benchmarks.oracles import official, ours, udtools
from benchmarks.rows import TREEBANKS, save_row, seconds
from treefine import read_treebank
from treefine.evaluation.scores import load_pair
from treefine.evaluation.significance import compare

DEV = TREEBANKS / "en_ewt" / "dev.conllu.xz"


def measure_scoring(rounds: int = 5) -> None:
    """All 13 measures of en_ewt dev, tokens and sentences changed, by three implementations that must agree."""
    gold = lzma.open(DEV).read().decode()
    system = corrupt(list(read_treebank(DEV)), seed=4)
    scorers = {"treefine": ours, "official": official, "udtools": udtools}
    counts = [score(gold, system) for score in scorers.values()]
    if not counts[0] == counts[1] == counts[2]:
        sys.exit("the scorers do not agree: no time is printed")
    times: dict[str, list[float]] = {name: [] for name in scorers}
    for _ in range(rounds):
        for name, score in scorers.items():
            times[name].append(seconds(lambda score=score: score(gold, system)))
    result = {f"{name}_seconds": round(statistics.median(t), 3) for name, t in times.items()}
    for peer in ("official", "udtools"):
        ratios = (a / b for a, b in zip(times[peer], times["treefine"], strict=True))
        result[f"{peer}/treefine"] = round(statistics.median(ratios), 2)
    save_row("scoring", {"file": "en_ewt dev", "rounds": rounds, "seed": 4}, result)


def measure_resampling(samples: int = 10_000, sentences: int = 2_000, rounds: int = 5) -> None:
    """Both paired tests on two systems, as `treefine compare` runs them."""
    gold = list(read_treebank(DEV))[:sentences]
    files = [io.BytesIO("".join(sentence.to_text() for sentence in gold).encode())]
    for seed in (1, 2):
        changed = unpack(gold)
        for change in (move_heads, change_labels):
            change(random.Random(seed), changed)
        files.append(io.BytesIO(render(changed).encode()))
    first = load_pair(files[0], files[1])
    files[0].seek(0)
    pairs = {"first": first, "second": load_pair(files[0], files[2])}
    times = [seconds(lambda: compare(pairs, samples=samples)) for _ in range(rounds)]
    result = {"seconds": round(statistics.median(times), 3), "slowest": round(max(times), 3)}
    config = {"file": "en_ewt dev", "samples": samples, "sentences": len(gold), "rounds": rounds}
    save_row("resampling", config, result)


def measure_startup(rounds: int = 11) -> None:
    """CPU seconds from nothing to the end of the command, on a file of two words."""
    row = "{}\tx\t_\t_\t_\t_\t{}\tdep\t_\t_\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tiny.conllu")
        path.write_text(row.format(1, 0) + row.format(2, 1) + "\n")
        commands = {
            "python alone": ["-c", "pass"],
            "import treefine": ["-c", "import treefine"],
            "treefine evaluate": ["-m", "treefine", "evaluate", str(path), str(path)],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name, command in commands.items():
                times[name].append(_cpu_seconds([sys.executable, *command]))
    result = {name: round(statistics.median(t), 3) for name, t in times.items()}
    save_row("startup", {"rounds": rounds}, result)


def _cpu_seconds(command: list[str]) -> float:
    before = os.times()
    subprocess.run(command, check=True, capture_output=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system
