"""Measure a parser of many languages on each of its treebanks. The facts about these are in `treebanks.json`.

Scores, confidences and errors in the rows are in percent.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.accuracy.calibration import ARC, calibration_error, claims_of
from benchmarks.accuracy.model_rows import RAW, WORDS, measures_of, without_tags
from benchmarks.options import DEVICE, MODEL, ROWS_FILE, SPLIT, TREEBANKS_FOLDER, command, option
from benchmarks.rows import TREEBANKS, model_fields, read_rows, save_row
from treefine import Parser, Sentence, TreefineError, evaluate, read_treebank
from treefine.evaluation.pairing import Treebank as Scored
from treefine.treebank.raw_text import text_of
from treefine_paper.predictions import checksum

FACTS = Path(__file__).parents[1] / "treebanks.json"
IDENTIFIED = "language identified"
IDENTIFIED_SENTENCES = 100  # of each treebank that are parsed without naming its language
CALIBRATED_SENTENCES = 150  # of each treebank whose confidences are compared with their accuracy
SHARED = TREEBANKS.parent
_RECIPE = "multi"
Measurement = tuple[dict[str, Any], dict[str, Any]]  # the config and the result of a row


@dataclass(frozen=True)
class TreebankFacts:
    """The facts about a treebank that the pages show."""

    name: str  # of the language, such as Swedish
    language: str  # its code
    treebank: str  # such as UD Swedish Talbanken
    release: str  # of UD, such as 2.3
    licence: str
    link: str
    contributors: str
    folder: str  # in the folder of all collections
    words: int  # in the training file
    is_main: bool  # whether the code of the language stands for this treebank
    is_dev_only: bool  # whether the training file is missing, so that most of the dev set was used to train
    note: str = ""  # on the training file
    repeated: float = 0.0  # % of the test sentences of six words or more that are in a training file of the model


@cache
def treebank_facts() -> dict[str, TreebankFacts]:
    """Return the facts about the treebanks of the recipe `multi`, by code."""
    return {code: TreebankFacts(**facts) for code, facts in json.loads(FACTS.read_text(encoding="utf-8")).items()}


@command(
    MODEL.but(default=_RECIPE, help=f"name of a bundled model, or a model folder (default: {_RECIPE})"),
    SPLIT.but(help="test is measured only once for the same weights (default: dev)"),
    option("--treebank", nargs="+", default=[], metavar="CODE", help="measure only these treebanks"),
    TREEBANKS_FOLDER.but(default=SHARED, help="folder of all collections of treebanks"),
    ROWS_FILE,
    DEVICE.but(default="cpu", help="cpu or cuda (default: cpu)"),
)
def measure_languages(options: argparse.Namespace) -> None:
    """Measure a parser of many languages from raw text and from gold words; write one row per treebank.

    Treebanks that have a row for the same weights and split are skipped, so the command can be stopped and repeated.

    python -m benchmarks languages --model multi --split dev
    """
    model = model_fields(options.model)
    known = treebank_facts()
    if unknown := [code for code in options.treebank if code not in known]:
        raise TreefineError(f"There is no treebank {unknown[0]}.", hint=f"Choose from {', '.join(known)}.")
    rows = read_rows("languages", path=options.rows, weights=model["weights"], split=options.split)
    done = {row["config"]["treebank"] for row in rows}
    todo = [code for code in options.treebank or known if code not in done]
    todo.sort(key=lambda code: not known[code].is_main)  # each language first
    print(f"{options.split}: {len(todo)} treebanks to measure, {len(done)} done", flush=True)
    parser = Parser.from_pretrained(options.model, device=options.device)
    for number, code in enumerate(todo, start=1):
        config, result = measurement(parser, code, known[code], options.treebanks, options.split)
        print(f"[{number}/{len(todo)}] {code}, {result['seconds']:.0f} s", flush=True)
        save_row("languages", model | config, result, path=options.rows)


def measurement(parser: Parser, code: str, facts: TreebankFacts, shared: Path, split: str) -> Measurement:
    """Return the config and the result of one treebank."""
    began = time.monotonic()
    gold = list(read_treebank(shared / facts.folder / f"{split}.conllu.xz"))
    result = measured(parser.using(language=code), parser, gold, language=facts.language)
    config = {
        "treebank": code,
        "release": facts.release,
        "split": split,
        "gold": checksum(gold),
        "sentences": len(gold),
        "words": sum(map(len, gold)),
        "T": parser.max_steps,
        "device": parser.device.type,
        "precision": parser.precision,
    }
    return config, result | {"seconds": round(time.monotonic() - began, 1)}


def measured(parser: Parser, unnamed: Parser, gold: Sequence[Sentence], *, language: str) -> dict[str, Any]:
    """Return all scores of a treebank; `unnamed` is the parser that identifies the language itself."""
    columns = parser.model.settings.tags.predicted
    cut = [each.sentence for each in parser.segment([text_of(gold)])]
    bare = [without_tags(each) for each in gold]
    parses = list(parser.stream_trees(bare))
    some = slice(CALIBRATED_SENTENCES)
    confidences, is_right = claims_of(list(parser.stream(bare[some])), gold[some])[ARC]
    of_words = _scores(gold, parses, measures_of(WORDS, columns))
    return {
        RAW: _scores(gold, list(parser.stream_trees(cut)), measures_of(RAW, columns)),
        WORDS: of_words,
        IDENTIFIED: _identified(unnamed, gold[:IDENTIFIED_SENTENCES], bare[:IDENTIFIED_SENTENCES], language),
        "calibration": {
            "confidence": _percent(float(confidences.mean())),
            "right": _percent(float(is_right.mean())),
            "error": _percent(calibration_error(confidences, is_right)),
        },
    }


def _identified(parser: Parser, gold: Sequence[Sentence], bare: Sequence[Sentence], language: str) -> dict[str, Any]:
    """Return LAS from words if the parser identifies the language, and the share of sentences for which it is right."""
    parses = list(parser.stream_trees(bare))
    codes = [each.treebank.partition("_")[0] for each in parses]
    share = _percent(sum(code == language for code in codes) / len(codes)) if any(codes) else None
    return _scores(gold, parses, ["UAS", "LAS"]) | {"right": share}


def _scores(gold: Sequence[Sentence], parses: Scored, names: Iterable[str]) -> dict[str, float]:
    scores = evaluate(gold, parses)
    return {name: _percent(scores[name].f1) for name in names}


def _percent(share: float) -> float:
    return round(100 * share, 2)
