"""Measure the memory of commands on a large input, compared with a tenth of it."""

from __future__ import annotations

import argparse
import lzma
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from itertools import count as count_up
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.markdown import Lines, table
from benchmarks.options import CPU_OR_CUDA, MODEL, ROWS_FILE, TREEBANKS_FOLDER, command, option
from benchmarks.peers.process import family, memory
from benchmarks.rows import ROOT, ROWS, TREEBANKS, machine_of, missing, model_fields, origin, read_rows, save_row
from treefine import TreefineError, read_treebank
from treefine.treebank.raw_text import text_of

COMMAND = "python -m benchmarks streaming"
SAMPLE = ROOT / "tests" / "data" / "en_ewt-sample.conllu"  # used if the treebanks are missing
TEXT = TREEBANKS.parents[1] / "text" / "en.txt.xz"
INTERVAL = 0.2  # seconds between two measurements
PARAGRAPH = 5  # sentences
MOST = 1.05  # memory is constant if the whole input needs at most this many times the peak of a tenth
SHARE = 0.1  # of the input and of the time
_SENT_ID = re.compile(rb"(?m)^# sent_id = ")
_FIRST_WORD = re.compile(rb"(?m)^(1\t[^\t\n]+)")


class Case(NamedTuple):
    """A command, its input and output, and whether it runs a model."""

    arguments: tuple[str, ...]
    given: str  # "text" or "treebank"
    output: str  # file name; "" for standard output
    has_model: bool = True


CASES = {
    "parse text": Case(("parse",), "text", "out.conllu"),
    "parse text to JSON": Case(("parse",), "text", "out.jsonl"),
    "parse text to Parquet": Case(("parse",), "text", "out.parquet"),
    "parse treebank": Case(("parse",), "treebank", "out.conllu"),
    "refine treebank": Case(("refine",), "treebank", "out.conllu"),
    "convert to CoNLL-X": Case(("convert",), "treebank", "out.conllx", has_model=False),
    "convert to Parquet": Case(("convert",), "treebank", "out.parquet", has_model=False),
    "evaluate": Case(("evaluate",), "treebank", "", has_model=False),
}


@command(
    MODEL,
    CPU_OR_CUDA,
    option("--megabytes-text", type=float, default=10, help="size of the text (default: 10)"),
    option("--megabytes-treebank", type=float, default=1000, help="size of the treebank (default: 1000)"),
    option("--only", nargs="+", choices=CASES, default=list(CASES), metavar="COMMAND", help="commands to measure"),
    option("--workers", type=int, help="--workers of parse and refine (default: that of the commands)"),
    option("--text", type=Path, default=TEXT, help="text with one sentence per line, compressed with xz"),
    TREEBANKS_FOLDER,
    ROWS_FILE,
)
def measure_streaming(options: argparse.Namespace) -> None:
    """Measure the memory of commands on a large text and a large treebank, and on a tenth of each; write one row.

    python -m benchmarks streaming --device cuda
    python -m benchmarks streaming --megabytes-text 0.1 --megabytes-treebank 1 --rows scratch/rows.jsonl   # a trial run

    Peak memory is the sum of the peaks of the process and its children, read every 0.2 s. Memory is constant if the
    peak on the whole input is at most 1.05 times the peak on a tenth of it. The first word of each sentence is new in
    each copy of the sentences, so a table of all words would grow.
    """
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name, case in CASES.items():
            if name not in options.only:
                continue
            if case.output.endswith(".parquet") and find_spec("pyarrow") is None:
                print(f"{name}: skipped, because pyarrow is missing", flush=True)
                continue
            found: dict[str, Any] = {}
            for size, share in (("tenth", SHARE), ("whole", 1.0)):
                source = written(case.given, share, folder, options)
                found[size] = measured(case, source, folder, options)
            found["times"] = round(found["whole"]["peak_mib"] / found["tenth"]["peak_mib"], 3)
            found["is_constant"] = found["times"] <= MOST
            print(f"{name}: {found}", flush=True)
            result[name] = found
    path = options.treebanks / "en_ewt" / "train.conllu.xz"
    config = {
        "device": options.device,
        **model_fields(options.model),
        "text": "en.txt" if options.text.exists() else SAMPLE.name,
        "treebank": "en_ewt train" if path.exists() else SAMPLE.name,
        "megabytes_text": options.megabytes_text,
        "megabytes_treebank": options.megabytes_treebank,
        "workers": options.workers,
        "torch": version("torch"),
    }
    if options.device == "cuda":
        import torch

        config["device"] = torch.cuda.get_device_name()
    save_row("streaming", config, result, path=options.rows)


def written(kind: str, share: float, folder: Path, options: argparse.Namespace) -> Path:
    """Return a text or treebank of about this share of the wanted size; write it unless it exists."""
    megabytes = options.megabytes_text if kind == "text" else options.megabytes_treebank
    path = folder / f"{kind}-{share}{'.txt' if kind == 'text' else '.conllu'}"
    if path.exists():
        return path
    pieces = texts(options.text) if kind == "text" else treebanks(options.treebanks)
    left = int(megabytes * share * 10**6)
    with path.open("wb") as file:
        for piece in pieces:
            end = len(piece) if len(piece) <= left else piece.rfind(b"\n\n", 0, left) + 2
            file.write(piece[: max(end, 0)])
            left -= end
            if end < len(piece):
                break
    return path


def texts(path: Path) -> Iterator[bytes]:
    """Yield copies of a text without end, with the sentences in another order in each."""
    if path.exists():
        sentences = lzma.open(path, "rt", encoding="utf-8").read().splitlines()
    else:
        sentences = [text_of([sentence]).strip() for sentence in read_treebank(SAMPLE)]
    for number in count_up():
        random.Random(number).shuffle(sentences)
        changed = [re.sub(r"^\w+", rf"\g<0>{number}", each) for each in sentences]
        starts = range(0, len(changed), PARAGRAPH)
        yield "".join(f"{' '.join(changed[start : start + PARAGRAPH])}\n\n" for start in starts).encode()


def treebanks(folder: Path) -> Iterator[bytes]:
    """Yield copies of a treebank without end, with new sent_ids and first words in each."""
    path = folder / "en_ewt" / "train.conllu.xz"
    content = lzma.open(path).read() if path.exists() else SAMPLE.read_bytes()
    for number in count_up():
        named = _SENT_ID.sub(b"# sent_id = %d-" % number, content)
        yield _FIRST_WORD.sub(rb"\g<1>%d" % number, named)


def measured(case: Case, source: Path, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run a command; return its time and memory."""
    names = [str(source), str(source)] if case.arguments == ("evaluate",) else [str(source)]
    target = folder / case.output
    output = [] if not case.output else [str(target)] if case.arguments == ("convert",) else ["-o", str(target)]
    more = ["--model", options.model, "--device", options.device] if case.has_model else []
    if case.has_model and options.workers is not None:
        more += ["--workers", str(options.workers)]
    seconds, sizes = watched([sys.executable, "-m", "treefine", *case.arguments, *names, *output, *more], folder)
    found = {
        "bytes": source.stat().st_size,
        "seconds": round(seconds, 1),
        "peak_at_tenth_mib": round(max(sizes[: max(1, round(SHARE * len(sizes)))]), 1),
        "peak_mib": round(max(sizes), 1),
    }
    if case.output:
        target.unlink()
    return found


def watched(line: Sequence[str], folder: Path) -> tuple[float, list[float]]:
    """Run a command to its end; return the seconds, and the peak memory so far at regular times, in MiB."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    sizes = [0.0]
    peaks: dict[int, float] = {}  # of each process, because a short peak falls between two samples
    started = time.perf_counter()
    with (folder / "said").open("w+b") as said:
        with subprocess.Popen(
            line, cwd=folder, env=os.environ | {"PYTHONPATH": path}, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        ) as process:
            while process.poll() is None:
                for pid in family(process.pid):
                    peaks[pid] = max(peaks.get(pid, 0.0), memory(pid, "VmHWM"))
                sizes.append(sum(peaks.values()))
                time.sleep(INTERVAL)
        seconds = time.perf_counter() - started
        said.seek(0)
        lines = said.read().decode(errors="replace").strip().splitlines()
    if process.returncode:
        message = f"{' '.join(line[2:4])} failed with exit code {process.returncode}."
        raise TreefineError(message, hint=lines[-1] if lines else "It printed nothing.")
    return seconds, sizes


def streaming(path: Path = ROWS) -> str:
    """Return the memory of each command on large inputs and on a tenth of them."""
    rows = read_rows("streaming", path=path)
    if not rows:
        return missing("memory on large inputs", COMMAND)
    newest = {name: (found, row) for row in rows for name, found in row["result"].items()}
    lines: Lines = [("command", "machine", "input", "time", "peak memory", "peak on a tenth", "whole / tenth")]
    origins = {}
    for name in filter(newest.__contains__, CASES):
        found, row = newest[name]
        whole, tenth = found["whole"], found["tenth"]
        size, seconds = f"{whole['bytes'] / 1e6:,.0f} MB", f"{whole['seconds']:,.0f} s"
        peaks = (f"{each['peak_mib']:,.0f} MiB" for each in (whole, tenth))
        lines.append((name, machine_of(row), size, seconds, *peaks, f"{found['times']:.2f}"))
        origins[origin(row, COMMAND)] = True
    return "\n\n".join([table(*lines), *origins])
