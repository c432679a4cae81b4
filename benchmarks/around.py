"""What is done around the model from file to file, with none in it: words a second, by the number of workers.

python -m benchmarks around --workers 0 1 2 --copies 5
python -m benchmarks around --workers 0 1 2 4 8 12 14 --copies 50

The words of en_ewt test, so many times over, are read, tokenised, filled in and written by the bundled model's
vocabulary. In place of the model an engine answers at once: each word hangs on the one before it. No score is looked
at. The time starts once the workers have answered a first short file. Shares are those of one process alone.
"""

from __future__ import annotations

import argparse
import lzma
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks.rows import ROWS, TREEBANKS, save_row
from treefine import Parser
from treefine.fast.file_workers import FileParser, FilePart, FileReport, WorkerPool, WorkerSettings, write_part
from treefine.fast.packed import Packed, PackedTrees, filled, pack
from treefine.model.subwords import Subwords
from treefine.model.vocabulary import Vocabulary
from treefine.treebank.conllu import cut_treebank, read_treebank
from treefine.treebank.sentence import Sentence

Result = TypeVar("Result")
ROUNDS = 5


def measure_around(arguments: Sequence[str]) -> None:
    """The command: each number of workers in turn, and a row."""
    options = _options(arguments)
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
        took, of_ours = _seconds(settings, once, options.copies, n_workers, n_columns)
        rates[str(n_workers)] = {
            "sentences_per_second": round(n_sentences / took),
            "words_per_second": round(n_words / took),
            "microseconds_per_word_here": round(1e6 * of_ours / n_words, 2),  # of the process that runs the model
        }
    assert model.subwords is not None
    shares = _shares(once, model.subwords, model.vocabulary, n_columns)
    config = {"treebank": "en_ewt test", "copies": options.copies, "words": n_words, "sentences": n_sentences}
    save_row("around", config, {"workers": rates, "microseconds_per_word": shares}, path=options.rows)


def _seconds(settings: WorkerSettings, once: bytes, copies: int, n_workers: int, n_columns: int) -> tuple[float, float]:
    """How long a file takes with so many workers, from its bytes in memory to those that would be written.

    The second number is the processor's time in this process, all threads together.
    """

    def engine(blocks: Iterable[Packed]) -> Iterator[PackedTrees]:
        return (_chain_trees(packed, n_columns) for packed in blocks)

    def parse(sentences: Iterable[Sentence]) -> Iterator[Sentence]:
        raise AssertionError("nobody decided anything here")

    def run(data: bytes) -> int:
        parts = (FilePart(each, "test.conllu", "conllu") for each in cut_treebank(BytesIO(data), "test.conllu"))
        return sum(len(text.encode()) for text in files.texts(parts, FileReport()))

    with FileParser(WorkerPool(settings, n_workers, start_after=0), engine, parse) as files:
        run(once * max(1, n_workers // 4))  # so that all have started, and know the words
        data = once * copies
        start, ours = time.perf_counter(), time.process_time()
        n_bytes = run(data)
        took, ours = time.perf_counter() - start, time.process_time() - ours
    if n_bytes < 0.9 * len(data):
        raise AssertionError("some of the text was not written")
    return took, ours


def _chain_trees(packed: Packed, n_columns: int) -> PackedTrees:
    """Each word below the one before it; the first label and the first tags."""
    n_words = len(packed.counts)
    starts = np.cumsum(packed.lengths) - packed.lengths
    heads = np.arange(n_words, dtype=np.int32) - np.repeat(starts, packed.lengths).astype(np.int32)
    return PackedTrees(heads, np.zeros(n_words, np.int32), np.ones((n_words, n_columns), np.int32))


def _shares(data: bytes, subwords: Subwords, vocabulary: Vocabulary, n_columns: int) -> dict[str, float]:
    """Microseconds a word of each part in one process, the best of some rounds."""
    columns: Any = ("upos", "xpos")[:n_columns]
    best: dict[str, float] = {}

    def timed(name: str, work: Callable[..., Result], *given: Any, **options: Any) -> Result:
        start = time.perf_counter()
        result = work(*given, **options)
        best[name] = min(best.get(name, np.inf), time.perf_counter() - start)
        return result

    for _ in range(ROUNDS):
        sentences: list[Sentence] = timed("read", list, read_treebank(BytesIO(data)))
        packed = timed("tokenise", pack, sentences, subwords, vocabulary, columns, reads_tags=False)
        trees = _chain_trees(packed, n_columns)
        whole: list[Sentence] = timed("fill in", list, filled(sentences, trees, vocabulary, columns))
        timed("write", write_part, whole, is_start=True)
    return {name: round(1e6 * took / len(packed.counts), 2) for name, took in best.items()}


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks around", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="en", help="whose vocabulary (default: %(default)s)")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2], help="numbers of processes")
    parser.add_argument("--copies", type=int, default=5, help="of the test file (default: %(default)s)")
    parser.add_argument("--rows", type=Path, default=ROWS, help="where the row goes (default: benchmarks/rows.jsonl)")
    return parser.parse_args(arguments)
