"""One JSON row a run in rows.jsonl: what was measured, on which commit and machine."""

from __future__ import annotations

import gc
import json
import os
import platform
import subprocess
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ROWS = Path(__file__).with_name("rows.jsonl")
TREEBANKS = ROOT.parent / "shared" / "treebanks" / "ud-2.3"


def machine() -> dict[str, Any]:
    """Processor, cores and Python, as far as they can be told."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def commit() -> str:
    """The commit that is checked out, with a + if the package differs from it; $COMMIT on a machine without git."""
    if "COMMIT" in os.environ:
        return os.environ["COMMIT"]

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "src") else "")


def save_row(benchmark: str, config: dict[str, Any], result: dict[str, Any], *, path: Path = ROWS) -> None:
    """Append the row, and print its result."""
    row = {
        "benchmark": benchmark,
        "when": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(),
        "config": config,
        "result": result,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(f"{benchmark}:")
    for name, value in result.items():
        print(f"  {name}: {value}")


def last_row(benchmark: str) -> dict[str, Any]:
    """The newest row of a benchmark."""
    return read_rows(benchmark)[-1]


def read_rows(benchmark: str, *, path: Path = ROWS) -> list[dict[str, Any]]:
    """All rows of a benchmark, the oldest first; none where there is no file."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [row for row in map(json.loads, lines) if row["benchmark"] == benchmark]


def seconds(work: Any) -> float:
    """How long one call takes; what the last one left behind is cleared away first."""
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
