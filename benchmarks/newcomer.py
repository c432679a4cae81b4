"""What a newcomer waits for: `make parse` in a clean clone, then `treefine parse "…"` from its start to its tree."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.rows import ROOT, save_row

TEXT = "She wants to know where we met, when, and why it matters."


def measure_newcomer(rounds: int = 7) -> None:
    """Clone what is committed, set it up with the packages that pip has in its cache, and parse."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "treefine")
        _run("git", "clone", "--quiet", str(ROOT), str(clone), cwd=Path(folder))
        made = _run("make", "parse", f"TEXT={TEXT}", cwd=clone)
        command = [".venv/bin/treefine", "parse", TEXT, "--format", "tree"]
        again = [_run(*command, cwd=clone) for _ in range(rounds)]
    result = {"make parse": round(made, 1), "treefine parse": round(statistics.median(again), 2)}
    save_row("newcomer", {"rounds": rounds, "text": TEXT}, result)


def _run(*command: str, cwd: Path) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started
