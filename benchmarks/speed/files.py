"""Measure parsing from file to file on one machine, with the model and without it."""

from __future__ import annotations

import argparse
import lzma
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.options import CPU_OR_CUDA, MODEL, ROUNDS, ROWS_FILE, TREEBANKS_FOLDER, command, count, option
from benchmarks.peers.treefine_parser import same_trees
from benchmarks.rows import english_path, model_fields, save_row, torch_fields
from benchmarks.speed.parsers import STOP_ABOVE
from benchmarks.timing import in_turn
from treefine import Parser
from treefine.fast.file_workers import FileParser, FilePart, FileReport, WorkerPool, WorkerSettings, default_workers
from treefine.fast.packed import Packed, PackedTrees
from treefine.treebank.conllu import cut_treebank, read_treebank
from treefine.treebank.sentence import Sentence

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


def _sizes(once: bytes, copies: int) -> tuple[int, int]:
    """Return the numbers of words and sentences in this many copies of a treebank."""
    return sum(map(len, read_treebank(BytesIO(once)))) * copies, once.count(b"\n\n") * copies


@command(
    MODEL,
    option("--workers", type=int, nargs="+", default=[0, 1, 2], help="numbers of worker processes (default: 0 1 2)"),
    count("--copies", 5, "number of copies of en_ewt test"),
    TREEBANKS_FOLDER,
    ROWS_FILE,
)
def measure_around(options: argparse.Namespace) -> None:
    """Measure the speed of the work outside the model by the number of workers; write one row.

    python -m benchmarks around --workers 0 1 2 --copies 5

    Copies of en_ewt test are read, tokenised, filled in and written with the bundled model's vocabulary. Instead of the
    model, an engine attaches each word to the previous one without delay.
    """
    once = lzma.open(english_path(options.treebanks, "test")).read()
    model = Parser.from_pretrained(options.model, device="cpu").model
    settings = WorkerSettings.of(Parser(model, device="cpu"))
    assert settings is not None
    n_words, n_sentences = _sizes(once, options.copies)
    rates = {}
    for n_workers in options.workers:
        took, of_ours = _seconds_around(settings, once, options.copies, n_workers, len(model.settings.tags.columns))
        rates[str(n_workers)] = {
            "sentences_per_second": round(n_sentences / took),
            "words_per_second": round(n_words / took),
            "microseconds_per_word_here": round(1e6 * of_ours / n_words, 2),  # CPU time of this process
        }
    config = {"treebank": "en_ewt test", "copies": options.copies, "words": n_words, "sentences": n_sentences}
    save_row("around", config, {"workers": rates}, path=options.rows)


def _seconds_around(
    settings: WorkerSettings, once: bytes, copies: int, n_workers: int, n_columns: int
) -> tuple[float, float]:
    """Return the seconds from the bytes of a file in memory to the bytes to write, and the CPU time of this process."""

    def engine(blocks: Iterable[Packed]) -> Iterator[PackedTrees]:
        return (_chain_trees(packed, n_columns) for packed in blocks)

    def parse(sentences: Iterable[Sentence]) -> Iterator[Sentence]:
        raise AssertionError("the input has no decisions")

    def run(data: bytes) -> int:
        parts = (FilePart(each, "test.conllu", "conllu") for each in cut_treebank(BytesIO(data), "test.conllu"))
        return sum(len(text.encode()) for text in files.texts(parts, FileReport()))

    with FileParser(WorkerPool(settings, n_workers, start_after=0), engine, parse) as files:
        run(once * max(1, n_workers // 4))  # a warm-up: all workers have started
        data = once * copies
        start, ours = time.perf_counter(), time.process_time()
        n_bytes = run(data)
        took, ours = time.perf_counter() - start, time.process_time() - ours
    if n_bytes < 0.9 * len(data):
        raise AssertionError("some text was not written")
    return took, ours


def _chain_trees(packed: Packed, n_columns: int) -> PackedTrees:
    """Attach each word to the previous one, with the first label and the first tags."""
    n_words = len(packed.counts)
    starts = np.cumsum(packed.lengths) - packed.lengths
    heads = np.arange(n_words, dtype=np.int32) - np.repeat(starts, packed.lengths).astype(np.int32)
    return PackedTrees(heads, np.zeros(n_words, np.int32), np.ones((n_words, n_columns), np.int32))
