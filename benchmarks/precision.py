"""What a model loses on a dev set, and how much faster it parses, with numbers of fewer bits than float32.

python -m benchmarks precision --model en
python -m benchmarks precision --model en --device cuda --limit 200

Each precision that the device has parses the same sentences in turn, with tags predicted and with tags given.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.model_rows import TAGGED, WORDS, weights_checksum, without_tags
from benchmarks.rows import ROWS, TREEBANKS, save_row
from treefine import Parser, evaluate, read_treebank
from treefine.config import Precision
from treefine.model.bundled import find_model
from treefine.parsing.options import precisions_of
from treefine.treebank.sentence import Sentence

EXACT: Precision = "float32"


def measure_precision(arguments: Sequence[str]) -> None:
    """The command."""
    options = _options(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    folder = find_model(options.model)
    gold = list(read_treebank(options.treebanks / options.treebank / "dev.conllu.xz"))[: options.limit]
    parser = Parser.from_pretrained(folder, device=options.device, precision=EXACT)
    parsers = {each: parser.using(precision=each) for each in precisions_of(parser.model, parser.device)}
    given = {WORDS: [without_tags(each) for each in gold]}
    if parser.model.settings.tags.source != "none":
        given[TAGGED] = gold
    result: dict[str, Any] = {}
    for kind, sentences in given.items():
        readers = {each: one.using(tags="given") if kind == TAGGED else one for each, one in parsers.items()}
        result[kind] = compared(readers, sentences, gold, rounds=options.rounds)
    config = {
        "model": folder.name,
        "weights": weights_checksum(folder),
        "treebank": options.treebank,
        "split": "dev",
        "sentences": len(gold),
        "words": sum(map(len, gold)),
        "T": parser.max_steps,
        "device": torch.cuda.get_device_name() if parser.device.type == "cuda" else parser.device.type,
        "threads": torch.get_num_threads(),
        "rounds": options.rounds,
        "torch": torch.__version__,
    }
    save_row("precision", config, result, path=options.rows)


def compared(
    parsers: dict[Precision, Parser], given: Sequence[Sentence], gold: Sequence[Sentence], *, rounds: int
) -> dict[str, dict[str, float]]:
    """Accuracy of each, in how many sentences it differs from float32, and sentences a second, the median of rounds."""
    trees: dict[Precision, list[Sentence]] = {}
    times: dict[Precision, list[float]] = {name: [] for name in parsers}
    for parser in parsers.values():
        parser.parse(given[:50])  # a warm-up
    for _ in range(rounds):
        for name, parser in parsers.items():
            start = time.perf_counter()
            trees[name] = list(parser.stream(given))
            times[name].append(time.perf_counter() - start)
    scores = {name: evaluate(gold, found) for name, found in trees.items()}
    result: dict[str, dict[str, float]] = {}
    for name, found in trees.items():
        differing = sum(a.arcs != b.arcs for a, b in zip(found, trees[EXACT], strict=True))
        result[name] = {
            "UAS": round(scores[name]["UAS"].f1, 6),
            "LAS": round(scores[name]["LAS"].f1, 6),
            "LAS_lost": round(scores[EXACT]["LAS"].f1 - scores[name]["LAS"].f1, 6),
            "sentences_that_differ": round(differing / len(given), 6),
            "sentences_per_second": round(len(given) / statistics.median(times[name]), 1),
            "times_as_fast": round(statistics.median(a / b for a, b in zip(times[EXACT], times[name], strict=True)), 2),
        }
    return result


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks precision", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="en", help="a bundled model's name, or a model folder; en")
    parser.add_argument(
        "--treebank", default="en_ewt", help="a folder of the treebanks, whose dev set is parsed; en_ewt"
    )
    parser.add_argument("--treebanks", type=Path, default=TREEBANKS)
    parser.add_argument("--limit", type=int, help="the first so many sentences alone")
    parser.add_argument("--rounds", type=int, default=3, help="how often each parses; 3")
    parser.add_argument("--threads", type=int, help="of a CPU; as many as torch takes")
    parser.add_argument("--device", default=None, help="cpu or cuda")
    parser.add_argument("--rows", type=Path, default=ROWS)
    return parser.parse_args(arguments)
