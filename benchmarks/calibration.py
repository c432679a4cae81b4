"""Whether a model's confidence holds: in arcs, labels, words and whole sentences, on gold words without tags. One row.

python -m benchmarks calibration --model en --split dev
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks.model_rows import (
    ARC,
    BOTH,
    LABEL,
    SENTENCE,
    WAYS,
    add_model_options,
    refuse_second_test,
    treebank_path,
    weights_checksum,
    without_tags,
)
from benchmarks.predictions import checksum
from benchmarks.reliability import (
    Numbers,
    Truths,
    brier_score,
    calibration_error,
    chance_error,
    reliability_bins,
)
from benchmarks.rows import save_row
from treefine import Parser, Sentence, read_treebank
from treefine.model.bundled import find_model
from treefine.parsing.parse import Parse

REVIEW = 0.8  # below which `treefine parse --review` lists a sentence in our example


def measure_calibration(arguments: Sequence[str]) -> None:
    """The command."""
    options = _options(arguments)
    folder = find_model(options.model)
    weights = weights_checksum(folder)
    if options.split == "test":
        refuse_second_test("calibration", weights, options.treebank, path=options.rows)
    gold = list(read_treebank(treebank_path(options)))
    parser = Parser.from_pretrained(folder, device=options.device)
    parses = list(parser.stream_parses(map(without_tags, gold)))
    config = {
        "model": folder.name,
        "weights": weights,
        "treebank": options.treebank,
        "split": options.split,
        "gold": checksum(gold),
        "sentences": len(gold),
        "words": sum(map(len, gold)),
        "tags": parser.tags,
        "confidence": asdict(parser.model.settings.confidence),
        "device": parser.device.type,
    }
    save_row("calibration", config, measured(parses, gold), path=options.rows)


def measured(parses: Sequence[Parse], gold: Sequence[Sentence]) -> dict[str, Any]:
    """What is told of each kind of confidence, and of the sentences that are listed for review."""
    claims = claims_of(parses, gold)
    confidences, is_right = claims[SENTENCE]
    return {kind: reliability(*each) for kind, each in claims.items()} | {"review": review(confidences, is_right)}


def claims_of(parses: Sequence[Parse], gold: Sequence[Sentence]) -> dict[str, tuple[Numbers, Truths]]:
    """Each confidence with whether it was right to be so; labels count with their subtypes, where the head is right."""
    found: dict[str, list[tuple[float, bool]]] = {ARC: [], LABEL: [], BOTH: [], SENTENCE: []}
    for parse, sentence in zip(parses, gold, strict=True):
        right = sentence.graph
        words = zip(parse.words, right.heads[1:], right.labels[1:], strict=True)
        for word, head, label in words:
            found[ARC].append((word.arc_confidence, word.head == head))
            found[BOTH].append((word.confidence, (word.head, word.label) == (head, label)))
            if word.head == head:
                found[LABEL].append((word.label_confidence, word.label == label))
        found[SENTENCE].append((parse.confidence, parse.tree == right))
    return {kind: _split(pairs) for kind, pairs in found.items()}


def _split(pairs: Iterable[tuple[float, bool]]) -> tuple[Numbers, Truths]:
    listed = list(pairs)
    return np.array([each for each, _ in listed], dtype=np.float64), np.array([each for _, each in listed], dtype=bool)


def reliability(confidences: Numbers, is_right: Truths) -> dict[str, Any]:
    """All that is told of one kind of confidence."""
    errors, chances = {}, {}
    for name, (n_bins, kind) in WAYS.items():
        errors[name] = round(calibration_error(confidences, is_right, n_bins=n_bins, kind=kind), 6)
        chances[name] = round(chance_error(confidences, n_bins=n_bins, kind=kind), 6)
    return {
        "count": len(confidences),
        "confidence": round(float(confidences.mean()), 6) if len(confidences) else 0.0,
        "right": round(float(is_right.mean()), 6) if len(confidences) else 0.0,
        "error": errors,
        "error_by_chance": chances,
        "brier": round(brier_score(confidences, is_right), 6),
        "bins": [list(each) for each in reliability_bins(confidences, is_right)],
    }


def review(confidences: Numbers, is_right: Truths, *, limit: float = REVIEW) -> dict[str, float]:
    """Which share of the sentences is below the limit, of the wrong ones, and of those listed which share is wrong."""
    is_listed = confidences < limit

    def share(part: int, whole: int) -> float:
        return round(part / whole, 6) if whole else 0.0

    n_found = int((is_listed & ~is_right).sum())
    return {
        "limit": limit,
        "listed": share(int(is_listed.sum()), len(is_right)),
        "wrong_found": share(n_found, int((~is_right).sum())),
        "listed_wrong": share(n_found, int(is_listed.sum())),
    }


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks calibration",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_model_options(parser)
    return parser.parse_args(arguments)
