"""Measure where a model cuts raw text: F1 on a treebank, false boundaries in running text, and calibration."""

from __future__ import annotations

import argparse
import lzma
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.calibration import calibration_error
from benchmarks.accuracy.model_rows import gold_fields, refuse_second_test, treebank_path
from benchmarks.options import OF_ONE_MODEL, command, count, option
from benchmarks.rows import TREEBANKS, model_fields, save_row
from treefine import Parser, read_treebank
from treefine.evaluation.scores import Score
from treefine.segmenter.cut import Segmented
from treefine.segmenter.sentence_ends import ends_finally
from treefine.training.segmenter import cut_scores
from treefine.training.sentence_ends import end_probabilities, end_scores
from treefine.treebank.raw_text import RawText, Span, raw_text

TEXT = TREEBANKS.parent.parent / "text" / "en.txt.xz"
FINAL = (".", "!", "?")
_CLOSING = "\"')]}”’»"


@command(
    *OF_ONE_MODEL,
    option("--text", type=Path, default=TEXT, help="xz file with one sentence per line, of another domain"),
    count("--sentences", 2000, "number of sentences of that file"),
)
def measure_cuts(options: argparse.Namespace) -> None:
    """Measure the sentences and words that a model finds in raw text; write one row.

    The sentences of --text that end in . ! or ? are joined into one line.

    python -m benchmarks cuts --model en --split dev
    """
    model = model_fields(options.model)
    if options.split == "test":
        refuse_second_test("cuts", model["weights"], options.treebank, path=options.rows)
    gold = list(read_treebank(treebank_path(options)))
    parser = Parser.from_pretrained(options.model, device=options.device)
    text = raw_text(gold)
    found = list(parser.segment([text.text]))
    of_treebank = {name: round(each.f1, 6) for name, each in cut_scores(found, gold).items()}
    of_treebank |= sureness(found, sentence_spans(text)) | boundary_error(parser, text)
    line, spans = one_line(islice(final_sentences(options.text), options.sentences))
    config = {
        "device": parser.device.type,
        "text": options.text.name,
        "text_sentences": len(spans),
        "sentence_ends": _settings(parser),
    }
    result = of_treebank | {"other_text": on_one_line(line, spans, list(parser.segment([line])))}
    save_row("cuts", model | gold_fields(options, gold) | config, result, path=options.rows)


def final_sentences(path: Path) -> Iterator[str]:
    """Yield the lines of an xz file that end in final punctuation."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        yield from (line.strip() for line in lines if line.strip().endswith(FINAL))


def one_line(sentences: Iterable[str]) -> tuple[str, list[Span]]:
    """Join sentences with single spaces; return the text and their spans.

    >>> one_line(["It is.", "Why?"])
    ('It is. Why?', [(0, 6), (7, 11)])
    """
    listed, spans, start = list(sentences), list[Span](), 0
    for each in listed:
        spans.append((start, start + len(each)))
        start += len(each) + 1
    return " ".join(listed), spans


def sentence_spans(text: RawText) -> list[Span]:
    """Return the spans of the sentences of a treebank's text."""
    spans, start = list[Span](), None
    for (left, right), is_end in zip(text.spans, text.ends_sentence, strict=True):
        start = left if start is None else start
        if is_end:
            spans.append((start, right))
            start = None
    return spans


def on_one_line(text: str, gold: Sequence[Span], found: Sequence[Segmented]) -> dict[str, float]:
    """Return F1 of sentences, and the boundaries per 1,000 sentences that follow no final punctuation."""
    spans = [_span(each) for each in found]
    odd = sum(not ends_finally(text[start:end].rstrip(_CLOSING)) for start, end in spans[:-1])
    f1 = Score(len(gold), len(spans), len({*gold} & {*spans})).f1
    rate = round(1000 * odd / max(1, len(gold)), 3)
    return {"Sentences": round(f1, 6), "odd_boundaries_per_1000": rate} | sureness(found, gold)


def sureness(found: Sequence[Segmented], gold: Iterable[Span]) -> dict[str, float]:
    """Return the mean confidence of the cuts, the share of sentences that are cut right, and their difference."""
    right = {*gold}
    sure = float(np.mean([each.cut for each in found])) if found else 0.0
    accuracy = float(np.mean([_span(each) in right for each in found])) if found else 0.0
    return {
        "cut_confidence": round(sure, 6),
        "cut_right": round(accuracy, 6),
        "cut_gap": round(abs(sure - accuracy), 6),
    }


def boundary_error(parser: Parser, text: RawText) -> dict[str, float]:
    """Return the expected calibration error of the boundary probabilities of tokens; nothing without an encoder."""
    segmenter = parser.text_segmenter()
    if segmenter.sentence_ends is None:
        return {}
    scores = end_scores(segmenter, segmenter.sentence_ends.scorer, text)
    probabilities, is_end = end_probabilities(scores, segmenter.sentence_ends.settings)
    return {"boundary_error": round(calibration_error(probabilities, is_end), 6)}


def _span(found: Segmented) -> Span:
    return found.spans[0][0], found.spans[-1][1]


def _settings(parser: Parser) -> dict[str, Any] | None:
    ends = parser.text_segmenter().sentence_ends
    return None if ends is None else asdict(ends.settings)
