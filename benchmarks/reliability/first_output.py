"""Measure how soon commands write their first sentence, and how long they write nothing."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks.markdown import Lines, table
from benchmarks.options import CPU_OR_CUDA, MODEL, ROWS_FILE, TREEBANKS_FOLDER, command, option
from benchmarks.reliability.streaming import CASES, TEXT, written
from benchmarks.rows import ROOT, ROWS, missing, model_fields, origin, read_rows, save_row
from treefine import TreefineError

COMMAND = "python -m benchmarks first_output"
INTERVAL = 0.02  # seconds between two looks at the output
RESUMABLE = [name for name, case in CASES.items() if case.has_model and not case.output.endswith(".parquet")]


@command(
    MODEL,
    CPU_OR_CUDA,
    option("--megabytes-text", type=float, default=0.2, help="size of the text (default: 0.2)"),
    option("--megabytes-treebank", type=float, default=1, help="size of the treebank (default: 1)"),
    option("--text", type=Path, default=TEXT, help="text with one sentence per line, compressed with xz"),
    TREEBANKS_FOLDER,
    ROWS_FILE,
)
def measure_first_output(options: argparse.Namespace) -> None:
    """Measure when the first sentence is in the part file, and the longest time without a new one; write one row.

    Run it on an idle machine. The row records the load before the run.
    """
    load, result = os.getloadavg()[0], {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name in RESUMABLE:
            case = CASES[name]
            source = written(case.given, 1.0, folder, options)
            target = folder / case.output
            device = ["--model", options.model, "--device", options.device]
            line = [sys.executable, "-m", "treefine", *case.arguments, str(source), "-o", str(target), "-v", *device]
            result[name] = {"bytes": source.stat().st_size, **times_of(line, Path(f"{target}.part"), folder)}
            print(f"{name}: {result[name]}", flush=True)
            target.unlink()
    config = {
        "device": options.device,
        **model_fields(options.model),
        "megabytes_text": options.megabytes_text,
        "megabytes_treebank": options.megabytes_treebank,
        "load_average": round(load, 2),
        "torch": version("torch"),
    }
    if options.device == "cuda":
        import torch

        config["device"] = torch.cuda.get_device_name()
    save_row("first_output", config, result, path=options.rows)


def times_of(line: Sequence[str], part: Path, folder: Path) -> dict[str, float]:
    """Run a command with -v; return the seconds from loading to its first output, without output, and in all."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    start = time.perf_counter()
    loaded, size, times = 0.0, 0, list[float]()
    with (folder / "said").open("w+b") as said:
        with subprocess.Popen(
            line, cwd=folder, env=os.environ | {"PYTHONPATH": path}, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        ) as process:
            while process.poll() is None:
                now = time.perf_counter() - start
                if not loaded and b"loaded in" in (folder / "said").read_bytes():
                    loaded = now
                if part.exists() and part.stat().st_size > size:
                    size = part.stat().st_size
                    times.append(now)
                time.sleep(INTERVAL)
        end = time.perf_counter() - start
    if process.returncode or not times:
        lines = (folder / "said").read_text(errors="replace").strip().splitlines()
        raise TreefineError(f"{' '.join(line[2:4])} failed or wrote nothing.", hint=lines[-1] if lines else "")
    gaps = [after - before for before, after in zip(times, [*times[1:], end], strict=True)]
    return {"first": round(times[0] - loaded, 2), "longest": round(max(gaps), 2), "seconds": round(end, 1)}


def first_output(path: Path = ROWS) -> str:
    """Return how soon each command writes its first sentence, and how long it writes nothing."""
    rows = read_rows("first_output", path=path)
    if not rows:
        return missing("how soon commands write", COMMAND)
    row = rows[-1]
    lines: Lines = [("command", "input", "first sentence after loading", "longest time between two writes", "in all")]
    for name, found in row["result"].items():
        seconds = (f"{found[key]:.1f} s" for key in ("first", "longest", "seconds"))
        lines.append((name, f"{found['bytes'] / 1e6:.1f} MB", *seconds))
    return f"{table(*lines)}\n\n{origin(row, COMMAND)}"
