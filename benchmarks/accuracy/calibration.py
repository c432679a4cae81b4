"""Measure how well confidence is calibrated: calibration error, error by chance, Brier score, and a review."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.model_rows import (
    gold_fields,
    refuse_second_test,
    treebank_path,
    without_tags,
)
from benchmarks.options import OF_ONE_MODEL, command
from benchmarks.rows import model_fields, save_row
from treefine import Parser, Sentence, read_treebank
from treefine.config import COLUMNS
from treefine.parsing.parse import Parse
from treefine.treebank.sentence import BLANK

Numbers = NDArray[np.float64]
Truths = NDArray[np.bool_]
N_BINS, N_SIMULATIONS = 10, 500
ARC, LABEL, BOTH, SENTENCE = "arc", "label", "both", "sentence"  # kinds of confidence, beside the columns of tags


def bins_of(confidences: Numbers) -> NDArray[np.int64]:
    """Return the bin of each confidence: bin k of n holds k/n to below (k+1)/n; the last bin also holds 1."""
    return np.minimum((confidences * N_BINS).astype(np.int64), N_BINS - 1)


def calibration_error(confidences: Numbers, is_right: Truths) -> float:
    """Return the expected calibration error: the difference of confidence and accuracy in a bin, weighted by its size.

    >>> round(calibration_error(np.array([0.7, 0.7, 0.7, 0.7]), np.array([True, True, False, False])), 6)
    0.2
    """
    gaps = np.bincount(bins_of(confidences), weights=confidences - is_right, minlength=N_BINS)
    return float(np.abs(gaps).sum() / max(1, len(confidences)))


def chance_error(confidences: Numbers) -> float:
    """Return the mean error of a perfectly calibrated parser on words with the same confidences.

    Each word is drawn independently. Real errors in a sentence are correlated, so chance gives more than this.
    """
    rng = np.random.default_rng(1)
    draws = (rng.random(len(confidences)) < confidences for _ in range(N_SIMULATIONS))
    return float(np.mean([calibration_error(confidences, draw) for draw in draws]))


def brier_score(confidences: Numbers, is_right: Truths) -> float:
    """Return the mean squared difference of confidence and correctness (1 if right, 0 if wrong)."""
    return float(np.mean((confidences - is_right) ** 2)) if len(confidences) else 0.0


REVIEW = 0.8  # the limit of `treefine parse --review` in our example


@command(*OF_ONE_MODEL)
def measure_calibration(options: argparse.Namespace) -> None:
    """Measure how well a model's confidence is calibrated, on gold words without tags; write one row.

    The model runs in its default precision on the device, as users run it.

    python -m benchmarks calibration --model en --treebanks ../shared/treebanks/permissive --split dev
    """
    model = model_fields(options.model)
    if options.split == "test":
        refuse_second_test("calibration", model["weights"], options.treebank, path=options.rows)
    gold = list(read_treebank(treebank_path(options)))
    parser = Parser.from_pretrained(options.model, device=options.device)
    parses = list(parser.stream(map(without_tags, gold)))
    config = {
        "tags": parser.tags,
        "confidence": asdict(parser.model.settings.confidence),
        "device": parser.device.type,
        "precision": parser.precision,
    }
    save_row("calibration", model | gold_fields(options, gold) | config, measured(parses, gold), path=options.rows)


def measured(parses: Sequence[Parse], gold: Sequence[Sentence]) -> dict[str, Any]:
    """Return the measures of each kind of confidence, and of the sentences that a review lists."""
    claims = claims_of(parses, gold)
    confidences, is_right = claims[SENTENCE]
    return {kind: reliability(*each) for kind, each in claims.items()} | {"review": review(confidences, is_right)}


def claims_of(parses: Sequence[Parse], gold: Sequence[Sentence]) -> dict[str, tuple[Numbers, Truths]]:
    """Return each confidence and whether the parser was right; labels, with subtypes, count if the head is right.

    A word without a gold lemma has no right lemma, so its lemma does not count.
    """
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
        for column in COLUMNS:
            for sure, own, gold_value in zip(
                parse.confidences_in(column), getattr(parse, column), getattr(sentence, column), strict=True
            ):
                if sure is not None and (column != "lemma" or gold_value != BLANK):
                    found.setdefault(column, []).append((sure, own == gold_value))
    return {kind: _split(pairs) for kind, pairs in found.items()}


def _split(pairs: Iterable[tuple[float, bool]]) -> tuple[Numbers, Truths]:
    listed = list(pairs)
    return np.array([each for each, _ in listed], dtype=np.float64), np.array([each for _, each in listed], dtype=bool)


def reliability(confidences: Numbers, is_right: Truths) -> dict[str, Any]:
    """Return all measures of one kind of confidence."""
    return {
        "count": len(confidences),
        "confidence": round(float(confidences.mean()), 6) if len(confidences) else 0.0,
        "right": round(float(is_right.mean()), 6) if len(confidences) else 0.0,
        "error": {"10 bins": round(calibration_error(confidences, is_right), 6)},
        "error_by_chance": {"10 bins": round(chance_error(confidences), 6)},
        "brier": round(brier_score(confidences, is_right), 6),
    }


def review(confidences: Numbers, is_right: Truths, *, limit: float = REVIEW) -> dict[str, float]:
    """Return the share of sentences below the limit, of wrong ones among all wrong ones, and of wrong ones listed."""
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
