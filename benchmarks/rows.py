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
    """The commit that is checked out, with a + if the package differs from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "src") else "")


def save_row(benchmark: str, config: dict[str, Any], result: dict[str, Any]) -> None:
    """Append the row, and print its result."""
    row = {
        "benchmark": benchmark,
        "when": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(),
        "config": config,
        "result": result,
    }
    with ROWS.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(f"{benchmark}:")
    for name, value in result.items():
        print(f"  {name}: {value}")


def last_row(benchmark: str) -> dict[str, Any]:
    """The newest row of a benchmark."""
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()]
    found: dict[str, Any] = [row for row in rows if row["benchmark"] == benchmark][-1]
    return found


def seconds(work: Any) -> float:
    """How long one call takes; what the last one left behind is cleared away first."""
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
