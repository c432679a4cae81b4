"""Measure parsing from file to file on one machine, with the model and without it."""

from __future__ import annotations

import argparse
import lzma
import statistics
import tempfile
from collections.abc import Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from benchmarks.options import CPU_OR_CUDA, MODEL, ROUNDS, ROWS_FILE, TREEBANKS_FOLDER, command, count
from benchmarks.rows import english_path, model_fields, save_row, torch_fields
from benchmarks.timing import in_turn
from treefine import Parser, Sentence, TreefineError, evaluate
from treefine.fast.file_workers import default_workers
from treefine.parsing.batches import parse_inputs, run
from treefine.parsing.results import trees
from treefine.treebank.conllu import read_treebank

STOP_ABOVE = 0.935  # chosen on dev
MOST_LAS = 0.1  # the LAS of a fast path may differ by this from the reference implementation's, in points …
MOST_TREES = {"float32": 0.0, "float16": 2.0, "bfloat16": 2.0, "int8": 5.0}  # … and this many percent of its trees
WAYS = {"to convergence": 1.0, f"stop above {STOP_ABOVE}": STOP_ABOVE}  # values of stop_above


@command(
    MODEL,
    CPU_OR_CUDA,
    count("--copies", 1, "number of copies of en_ewt test"),
    count("--dev-sentences", 2002, "number of dev sentences to compare trees on"),
    count("--workers", None, "processes that read and write (default: depends on the number of cores)"),
    ROUNDS,
    TREEBANKS_FOLDER,
    ROWS_FILE,
)
def measure_files(options: argparse.Namespace) -> None:
    """Measure sentences per second from file to file.

    python -m benchmarks files --device cuda --copies 40

    One process and its workers parse copies of en_ewt test, refined to convergence and with early stopping. Trees are
    first compared with those of the reference implementation on dev; no time is reported if they differ. The test set
    is not scored.
    """
    once = lzma.open(english_path(options.treebanks, "test")).read()
    n_words, n_sentences = _sizes(once, options.copies)
    dev = list(read_treebank(english_path(options.treebanks, "dev")))[: options.dev_sentences]
    result: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        source, target = Path(scratch, "source.conllu"), Path(scratch, "target.conllu")
        source.write_bytes(once * options.copies)
        parsers = {
            name: Parser.from_pretrained(options.model, device=options.device, stop_above=stop_above)
            for name, stop_above in WAYS.items()
        }
        works = {}
        for name, parser in parsers.items():
            result[name] = {"trees": same_trees(parser, dev)}
            works[name] = partial(parser.parse_file, source, target, workers=options.workers)
            works[name]()  # a warm-up: kernels are compiled and captured
        for name, times in in_turn(works, options.rounds).items():
            seconds = statistics.median(times)
            speeds = {
                "sentences_per_second": round(n_sentences / seconds),
                "words_per_second": round(n_words / seconds),
            }
            result[name] |= {"seconds": round(seconds, 3), **speeds}
    config = {
        **model_fields(options.model),
        **torch_fields(options.device),
        "settings": {name: [each.precision, each.stop_above] for name, each in parsers.items()},
        "file": "en_ewt test",
        "sentences": n_sentences,
        "words": n_words,
        "workers": default_workers() if options.workers is None else options.workers,
        "rounds": options.rounds,
    }
    save_row("files", config, result, path=options.rows)


def same_trees(parser: Parser, gold: Sequence[Sentence]) -> dict[str, float]:
    """Compare the trees with those of the reference implementation in float32; raise an error if they differ too much.

    Both use the same options.
    """
    plain = parser.using(precision="float32").plan()
    expected = [sentence.with_graph(parsed.graph) for sentence, parsed in run(plain, parse_inputs(plain, gold), trees)]
    found = list(parser.stream_trees(gold))
    las = [100 * evaluate(gold, each)["LAS"].f1 for each in (expected, found)]
    others = sum(a.graph != b.graph for a, b in zip(expected, found, strict=True))
    result = {
        "sentences": len(gold),
        "LAS, plain": round(las[0], 3),
        "LAS": round(las[1], 3),
        "other trees, percent": round(100 * others / len(gold), 2),
    }
    if abs(las[0] - las[1]) > MOST_LAS or result["other trees, percent"] > MOST_TREES[parser.precision]:
        raise TreefineError(
            f"The trees of the fast path differ from the reference implementation's: {result}. No time is printed."
        )
    return result


def _sizes(once: bytes, copies: int) -> tuple[int, int]:
    """Return the numbers of words and sentences in this many copies of a treebank."""
    return sum(map(len, read_treebank(BytesIO(once)))) * copies, once.count(b"\n\n") * copies
