"""How long a person waits for the report of `treefine analyse`: 2,000 sentences, two systems, one core."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.corrupted import change_labels, move_heads, render, unpack
from benchmarks.rows import TREEBANKS, save_row
from treefine import read_treebank

DEV = TREEBANKS / "en_ewt" / "dev.conllu.xz"
OUTPUTS = ("report.html", "report.json", "report.csv")


def measure_analyse_speed(sentences: int = 2_000, rounds: int = 5) -> None:
    """The command from its start to the files it writes, in a process of its own."""
    gold = list(read_treebank(DEV))[:sentences]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("gold.conllu", "first.conllu", "second.conllu")]
        for seed, path in enumerate(files):
            changed = unpack(gold)
            for change in (move_heads, change_labels) if seed else ():
                change(random.Random(seed), changed)
            path.write_text(render(changed), encoding="utf-8")
        outputs = [part for name in OUTPUTS for part in ("-o", str(Path(folder, name)))]
        command = [sys.executable, "-m", "treefine", "analyse", *map(str, files), *outputs]
        times = [_seconds(command) for _ in range(rounds)]
        sizes = {f"{name}_bytes": Path(folder, name).stat().st_size for name in OUTPUTS}
    wall, processor = ([each[kind] for each in times] for kind in (0, 1))
    result = {
        "seconds": round(statistics.median(wall), 2),
        "slowest": round(max(wall), 2),
        "processor_seconds": round(statistics.median(processor), 2),
        **sizes,
    }
    words = sum(map(len, gold))
    config = {"file": "en_ewt dev", "sentences": len(gold), "words": words, "systems": 2, "rounds": rounds}
    save_row("analyse_speed", config, result)


def _seconds(command: list[str]) -> tuple[float, float]:
    """How long the command runs, and the processor's own seconds."""
    started, before = time.perf_counter(), os.times()
    subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    after = os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - started, processor
