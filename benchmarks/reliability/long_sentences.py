"""Measure the time and memory of parsing one long sentence."""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib.metadata import version
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from benchmarks.markdown import Lines, table
from benchmarks.options import CPU_OR_CUDA, MODEL, ROWS_FILE, TREEBANKS_FOLDER, command, option
from benchmarks.reliability.streaming import SAMPLE, watched
from benchmarks.rows import ROWS, machine_of, missing, model_fields, origin, read_rows, save_row
from treefine import Sentence, TreefineError, read_treebank

COMMAND = "python -m benchmarks long_sentences"
LENGTHS = (1_000, 2_000, 5_000, 10_000, 20_000)  # words
INPUTS = ("treebank", "text")


@command(
    MODEL,
    CPU_OR_CUDA,
    option("--lengths", type=int, nargs="+", default=list(LENGTHS), help="words per sentence"),
    option("--inputs", nargs="+", choices=INPUTS, default=list(INPUTS), help="kinds of input (default: all)"),
    TREEBANKS_FOLDER,
    ROWS_FILE,
)
def measure_long_sentences(options: argparse.Namespace) -> None:
    """Measure the time and memory of `treefine parse` on one long sentence; write one row.

    python -m benchmarks long_sentences --lengths 100 200 --rows scratch/rows.jsonl   # a trial run

    A treebank has one sentence of this many words, taken from the dev set of en_ewt. A text has the same words without
    punctuation and line ends, so that the segmenter finds few sentence boundaries, or none.
    """
    path = options.treebanks / "en_ewt" / "dev.conllu.xz"
    forms = [form for each in read_treebank(path if path.exists() else SAMPLE) for form in each.forms]
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for kind in options.inputs:
            for n_words in options.lengths:
                found = measured(kind, forms, n_words, Path(scratch), options)
                print(f"{kind}, {n_words} words: {found}", flush=True)
                result.setdefault(kind, {})[str(n_words)] = found
    treebank = "en_ewt dev" if path.exists() else SAMPLE.name
    config = {"device": options.device, **model_fields(options.model), "treebank": treebank, "torch": version("torch")}
    if options.device == "cuda":
        import torch

        config["device"] = torch.cuda.get_device_name()
    save_row("long_sentences", config, result, path=options.rows)


def measured(kind: str, forms: list[str], n_words: int, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Parse a sentence of this many words; return the time, the peak memory, and the longest sentence parsed."""
    source, target = folder / ("in.conllu" if kind == "treebank" else "in.txt"), folder / "out.conllu"
    if kind == "treebank":
        source.write_text(Sentence.of_words(list(islice(cycle(forms), n_words))).to_conllu())
    else:
        source.write_text(" ".join(islice(cycle([each.lower() for each in forms if each.isalpha()]), n_words)) + "\n")
    line = ["parse", str(source), "-o", str(target), "--model", options.model, "--device", options.device]
    seconds, sizes = watched([sys.executable, "-m", "treefine", *line], folder)
    parsed = list(read_treebank(target))
    target.unlink()
    if not all(each.graph.is_tree for each in parsed) or (kind == "treebank" and sum(map(len, parsed)) != n_words):
        raise TreefineError(f"The output for {n_words} words is not a tree over all words.")
    return {"seconds": round(seconds, 1), "peak_mib": round(max(sizes), 1), "longest": max(map(len, parsed))}


def long_sentences(path: Path = ROWS) -> str:
    """Return the time and memory for sentences of several lengths."""
    rows = read_rows("long_sentences", path=path)
    if not rows:
        return missing("long sentences", COMMAND)
    newest = {
        (kind, int(n_words), machine_of(row)): (found, row)
        for row in rows
        for kind, by_length in row["result"].items()
        for n_words, found in by_length.items()
    }
    lines: Lines = [("input", "machine", "words", "longest sentence", "time", "peak memory")]
    origins = {}
    for (kind, n_words, machine), (found, row) in newest.items():
        size = f"{found['peak_mib']:,.0f} MiB"
        lines.append((kind, machine, f"{n_words:,}", f"{found['longest']:,}", f"{found['seconds']:,.0f} s", size))
        origins[origin(row, COMMAND)] = True
    return "\n\n".join([table(*lines), *origins])
