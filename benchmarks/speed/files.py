"""Measure parsing from file to file on one machine, with the model and without it."""

from __future__ import annotations

import argparse
import lzma
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import numpy as np
import torch

from benchmarks.options import (
    CPU_OR_CUDA,
    MODEL,
    PYTHON,
    ROUNDS,
    ROWS_FILE,
    THREADS,
    TREEBANKS_FOLDER,
    command,
    count,
    option,
)
from benchmarks.peers.answers import WORDS
from benchmarks.peers.process import Peer
from benchmarks.peers.treefine_parser import same_trees
from benchmarks.rows import TREEBANKS, model_fields, save_row, torch_fields
from benchmarks.speed.parsers import STOP_ABOVE, SYSTEMS, given_files
from benchmarks.timing import in_turn
from treefine import Parser
from treefine.config import TagSettings
from treefine.fast.engine import Slot
from treefine.fast.file_workers import (
    FileParser,
    FilePart,
    FileReport,
    WorkerPool,
    WorkerSettings,
    default_workers,
    write_part,
)
from treefine.fast.packed import Packed, PackedTrees, filled, pack
from treefine.model.subwords import Subwords
from treefine.model.vocabulary import Vocabulary
from treefine.treebank.conllu import cut_treebank, read_treebank
from treefine.treebank.sentence import Sentence

WAYS = {"to convergence": 1.0, f"stop above {STOP_ABOVE}": STOP_ABOVE}  # values of stop_above
PEER = "supar BERT 12 × 384, untrained, best heads"
REPLAYS = 30


@command(
    MODEL,
    CPU_OR_CUDA,
    count("--sentences", 2077, "number of sentences of en_ewt test"),
    count("--copies", 1, "number of copies of these sentences"),
    count("--dev-sentences", 2002, "number of dev sentences to compare trees on"),
    count("--workers", None, "processes that read and write (default: depends on the number of cores)"),
    THREADS,
    ROUNDS,
    PYTHON,
    option("--folder", type=Path, help="folder for temporary models"),
    TREEBANKS_FOLDER,
    count("--batch-pieces", None, "pieces per batch of the general path"),
    ROWS_FILE,
)
def measure_files(options: argparse.Namespace) -> None:
    """Measure sentences per second from file to file, the passes per sentence, and how long the GPU is busy.

    python -m benchmarks files --device cuda --copies 40
    python -m benchmarks files --device cuda --copies 40 --python supar=python3    # also supar

    One process and its workers parse copies of en_ewt test, refined to convergence and with early stopping. Trees are
    first compared with those of the reference implementation on dev; no time is reported if they differ. The test set
    is not scored.
    """
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        given, once = given_files(options, Path(scratch))
        source, target = Path(given["source"]), Path(scratch, "target.conllu")
        parsers = {
            name: Parser.from_pretrained(options.model, device=options.device, stop_above=stop_above)
            for name, stop_above in WAYS.items()
        }
        dev = list(read_treebank(given["dev"]))[: options.dev_sentences]
        for name, parser in parsers.items():
            result[name] = {"trees": same_trees(parser, dev)}
            with _noted() as slots:  # a warm-up: kernels are compiled and captured
                parser.parse_file(source, target, workers=options.workers)
            result[name] |= _on_device(slots, given["n_sentences"])
        works = {
            name: partial(parser.parse_file, source, target, workers=options.workers)
            for name, parser in parsers.items()
        }
        for name, each in in_turn(works, options.rounds).items():
            seconds = statistics.median(each)
            speeds = {f"{unit}_per_second": round(given[f"n_{unit}"] / seconds) for unit in ("sentences", "words")}
            result[name] |= {"seconds": round(seconds, 3), **speeds}
            if "device_seconds" in result[name]:
                result[name]["device_share"] = round(result[name]["device_seconds"] / seconds, 3)
        config = {
            **model_fields(options.model),
            **torch_fields(options.device),
            "settings": {name: [each.precision, each.stop_above] for name, each in parsers.items()},
            "file": "en_ewt test",
            "sentences": given["n_sentences"],
            "words": given["n_words"],
            "workers": default_workers() if options.workers is None else options.workers,
            "rounds": options.rounds,
        }
        save_row("files", config, result, path=options.rows)
        if options.python:
            save_row("files", config, result | {PEER: _peer(options, once)}, path=options.rows)


@contextmanager
def _noted() -> Any:
    """Collect the buffers that are sent, each with its number of sentences."""
    slots: list[tuple[Slot, int]] = []
    start = Slot.start

    def noted(slot: Slot) -> None:
        slots.append((slot, len(slot.buffer.numbers)))
        start(slot)

    with mock.patch.object(Slot, "start", noted):
        yield slots


def _on_device(slots: Sequence[tuple[Slot, int]], n_sentences: int) -> dict[str, float]:
    """Return the passes per sentence, and the seconds of the device for all passes and for the encoder only."""
    if not slots:
        return {}
    whole = bare = 0.0
    for lane in {slot.lane for slot, _ in slots}:
        ours = [slot for slot, _ in slots if slot.lane is lane]
        packed = ours[0].buffer.inputs().packed
        encoder = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(encoder):
            lane.step.encoder.of_buffer(packed, lane.room)
        assert ours[0].graph is not None
        whole += len(ours) * _seconds(ours[0].graph)
        bare += len(ours) * _seconds(encoder)
    return {
        "passes_a_sentence": round(sum(count for _, count in slots) / n_sentences, 3),
        "buffers": len(slots),
        "device_seconds": round(whole, 3),
        "encoder_seconds": round(bare, 3),
    }


def _seconds(graph: torch.cuda.CUDAGraph) -> float:
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(REPLAYS):
        graph.replay()
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / REPLAYS


def _peer(options: argparse.Namespace, once: dict[str, Any]) -> dict[str, float]:
    """Measure supar with an encoder of the same size, from words to the best head of each."""
    system = next(each for each in SYSTEMS if each.name == PEER)
    python = dict(each.split("=", 1) for each in options.python)[system.package]
    peer = Peer(system.name, python, f"benchmarks.peers.{system.module}", threads=options.threads)
    try:
        peer.ask("build", once | dict(system.build))
        seconds = min(peer.ask("parse", {"way": WORDS})["seconds"] for _ in range(1 + options.rounds))
    finally:
        peer.close()
    return {"seconds": round(seconds, 3), "sentences_per_second": round(once["n_sentences"] / seconds)}


Result = TypeVar("Result")
ROUNDS_OF_PARTS = 5


@command(
    MODEL,
    option("--workers", type=int, nargs="+", default=[0, 1, 2], help="numbers of worker processes (default: 0 1 2)"),
    count("--copies", 5, "number of copies of the test file"),
    ROWS_FILE,
)
def measure_around(options: argparse.Namespace) -> None:
    """Measure the speed of the work outside the model by the number of workers; write one row.

    python -m benchmarks around --workers 0 1 2 --copies 5
    python -m benchmarks around --workers 0 1 2 4 8 12 14 --copies 50

    Copies of en_ewt test are read, tokenised, filled in and written with the bundled model's vocabulary. Instead of the
    model, an engine attaches each word to the previous one without delay. The clock starts after the workers have
    processed a first short file. The parts are measured in one process.
    """
    with lzma.open(TREEBANKS / "en_ewt" / "test.conllu.xz") as file:
        once = file.read()
    model = Parser.from_pretrained(options.model, device="cpu").model
    settings = WorkerSettings.of(Parser(model, device="cpu"))
    assert settings is not None
    n_columns = len(model.settings.tags.columns)
    n_sentences = once.count(b"\n\n") * options.copies
    n_words = sum(map(len, read_treebank(BytesIO(once)))) * options.copies
    rates = {}
    for n_workers in options.workers:
        took, of_ours = _seconds_around(settings, once, options.copies, n_workers, n_columns)
        rates[str(n_workers)] = {
            "sentences_per_second": round(n_sentences / took),
            "words_per_second": round(n_words / took),
            "microseconds_per_word_here": round(
                1e6 * of_ours / n_words, 2
            ),  # CPU time of the process that runs the model
        }
    assert model.subwords is not None
    shares = _shares(once, model.subwords, model.vocabulary, model.settings.tags)
    config = {"treebank": "en_ewt test", "copies": options.copies, "words": n_words, "sentences": n_sentences}
    save_row("around", config, {"workers": rates, "microseconds_per_word": shares}, path=options.rows)


def _seconds_around(
    settings: WorkerSettings, once: bytes, copies: int, n_workers: int, n_columns: int
) -> tuple[float, float]:
    """Return the seconds for a file with this many workers, from its bytes in memory to the bytes to write.

    The second number is the CPU time of this process, all threads together.
    """

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


def _shares(data: bytes, subwords: Subwords, vocabulary: Vocabulary, tags: TagSettings) -> dict[str, float]:
    """Return the microseconds per word of each part in one process; the best round counts."""
    best: dict[str, float] = {}

    def timed(name: str, work: Callable[..., Result], *given: Any, **options: Any) -> Result:
        start = time.perf_counter()
        result = work(*given, **options)
        best[name] = min(best.get(name, np.inf), time.perf_counter() - start)
        return result

    for _ in range(ROUNDS_OF_PARTS):
        sentences: list[Sentence] = timed("read", list, read_treebank(BytesIO(data)))
        packed = timed("tokenise", pack, sentences, subwords, vocabulary, tags, read=())
        trees = _chain_trees(packed, len(tags.columns))
        whole: list[Sentence] = timed("fill in", list, filled(sentences, trees, vocabulary, tags))
        timed("write", write_part, whole, is_start=True)
    return {name: round(1e6 * took / len(packed.counts), 2) for name, took in best.items()}
