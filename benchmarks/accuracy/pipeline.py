"""Measure the accuracy of a model from raw text, from gold words, and from gold words with tags."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.accuracy.model_rows import (
    RAW,
    TAGGED,
    UPOS_GIVEN,
    WORDS,
    gold_fields,
    measures_of,
    refuse_second_test,
    treebank_path,
    without_tags,
)
from benchmarks.options import OF_ONE_MODEL, PREDICTIONS_FOLDER, command
from benchmarks.rows import model_fields, save_row
from treefine import Parser, Sentence, evaluate, read_treebank
from treefine.treebank.raw_text import raw_text
from treefine_paper.predictions import (
    Predictions,
    checksum,
    n_parameters,
    parsed_steps,
    save_predictions,
    treebank_of,
)


@dataclass(frozen=True)
class Measured:
    """The parses from one kind of input."""

    result: dict[str, Any]
    predictions: Predictions | None  # None for raw text


@command(*OF_ONE_MODEL, PREDICTIONS_FOLDER)
def measure_pipeline(options: argparse.Namespace) -> None:
    """Measure accuracy from raw text, gold words, and gold words with tags, after each step; write one row.

    Measures of tags, features and lemmas are left out if the model does not predict them.

    python -m benchmarks pipeline --model en --treebanks ../shared/treebanks/permissive --split dev
    """
    model = model_fields(options.model)
    if options.split == "test":
        refuse_second_test("pipeline", model["weights"], options.treebank, path=options.rows)
    gold = list(read_treebank(treebank_path(options)))
    parser = Parser.from_pretrained(options.model, device=options.device)
    found = measured(parser, gold)
    result = {given: each.result for given, each in found.items()}
    for given, each in found.items():
        if each.predictions is not None:
            name = f"{model['model']}-{model['weights'][:8]}-{given.replace(' ', '-')}-{options.split}.trees.xz"
            digest = save_predictions(each.predictions, options.predictions / name)
            result[given] |= {"predictions": name, "sha256": digest}
    config = {
        "T": parser.max_steps,
        "tags": parser.tags,
        "parameters": n_parameters(parser.model),
        "device": parser.device.type,
        "precision": parser.precision,
    }
    save_row("pipeline", model | gold_fields(options, gold) | config, result, path=options.rows)


def measured(parser: Parser, gold: Sequence[Sentence]) -> dict[str, Measured]:
    """Return all measurements by kind of input."""
    bare = [without_tags(each) for each in gold]
    with_upos = [without_tags(each, keep_upos=True) for each in gold]
    cut = [each.sentence for each in parser.segment([raw_text(gold).text])]
    reading = parser.using(tags="given")
    return {
        RAW: _measured(parser, gold, cut, RAW),
        WORDS: _measured(parser, gold, bare, WORDS),
        TAGGED: _measured(reading, gold, gold, TAGGED),
        UPOS_GIVEN: _measured(reading, gold, with_upos, UPOS_GIVEN),
    }


def _measured(parser: Parser, gold: Sequence[Sentence], given: Sequence[Sentence], kind: str) -> Measured:
    """Return the scores of trees and tags for these sentences, LAS by step, and the trees."""
    predictions = parsed_steps(parser, given)
    by_step = [evaluate(gold, treebank_of(predictions, given, t=t)) for t in predictions.steps]
    parses = list(parser.stream_trees(given))
    scores = evaluate(gold, parses)
    graphs = predictions.graphs()
    columns = parser.model.settings.tags.predicted
    result: dict[str, Any] = {name: round(scores[name].f1, 6) for name in measures_of(kind, columns)}
    result["LAS_by_step"] = [None] * predictions.first + [round(each["LAS"].f1, 6) for each in by_step]
    result["sentences"] = len(given)
    result["sentences_parsed_otherwise"] = sum(
        parse.graph != tree for parse, tree in zip(parses, graphs, strict=True)
    )  # compared with the trees of all steps; should be 0
    if kind == RAW:
        return Measured(result, None)
    return Measured(result, replace(predictions, gold=checksum(gold)))
