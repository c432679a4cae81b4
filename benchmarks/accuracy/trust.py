"""Measure what the trust in other parsers' trees gains: fixed weights, estimated and fitted ones, and two parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy.model_rows import gold_fields, treebank_path
from benchmarks.markdown import NONE, percent, table
from benchmarks.options import OF_ONE_MODEL, PREDICTIONS_FOLDER, SPLIT, command, count, dev_only, option
from benchmarks.rows import Row, model_fields, read_rows, save_row
from treefine import Parser, Sentence, evaluate, read_treebank
from treefine.parsing.initial import InitialParser, given
from treefine.treebank.graph import Arcs
from treefine_paper.predictions import load_predictions, treebank_of

WEIGHTS = (0, 1, 2, 3, 4, 6)
GOLD_SIZES = (20, 100)  # sentences with correct trees to which a weight is fitted
TAGS = ("given", "predicted")
SOURCES = {  # the file of each parser's trees, and the step; None is the last
    "mpnet-SynTr": ("en_ewt-mpnet-syntr-seed1-dev.trees.xz", None),
    "gte-SynTr": ("en_ewt-gte-syntr-seed1-dev.trees.xz", None),
    "biaffine": ("en_ewt-biaffine-seed1-dev.trees.xz", None),
    "spaCy": ("en-ab27048b-tags-given-from-spacy-dev.trees.xz", 0),
    "UDPipe": ("en-ab27048b-tags-given-from-udpipe-dev.trees.xz", 0),
}
PAIRS = (("mpnet-SynTr", "gte-SynTr"), ("gte-SynTr", "biaffine"), ("spaCy", "UDPipe"))


@command(
    *OF_ONE_MODEL[:2],
    SPLIT.but(type=dev_only, choices=None, help="only dev is allowed"),
    *OF_ONE_MODEL[3:],
    PREDICTIONS_FOLDER,
    option("--sources", nargs="+", choices=[*SOURCES], default=[*SOURCES], help="the parsers whose trees are refined"),
    option("--tags", nargs="+", choices=TAGS, default=[*TAGS], help="which tags the model reads"),
    option("--weights", nargs="*", type=int, choices=WEIGHTS, default=[*WEIGHTS], help="fixed weights to try"),
    option("--fitted", nargs="*", type=int, choices=GOLD_SIZES, default=[*GOLD_SIZES], help="gold sentences to fit to"),
    count("--sentences", None, "use only the first sentences"),
)
def measure_trust(options: argparse.Namespace) -> None:
    """Refine the trees of other parsers of dev with several weights; write one row per parser and source of tags.

    python -m benchmarks trust --model en
    """
    gold = list(read_treebank(treebank_path(options)))
    sources = {name: source_trees(name, options.predictions, gold)[: options.sentences] for name in options.sources}
    gold = gold[: options.sentences]
    for tags in options.tags:
        parser = Parser.from_pretrained(options.model, device=options.device, tags=tags, initial="empty")
        config = model_fields(options.model) | gold_fields(options, gold) | {"tags": tags}
        alone = las(parser.stream_trees(gold), gold)
        for name, trees in sources.items():
            result = {"before": las(trees, gold), "alone": alone} | measured(
                parser, trees, gold, options.weights, options.fitted
            )
            save_row("trust", config | {"parsers": [name]}, result, path=options.rows)
        for pair in PAIRS:
            if set(pair) <= sources.keys():
                several = [sources[name] for name in pair]
                best = max(las(trees, gold) for trees in several)
                found = refined(parser, [listed_trees(trees) for trees in several], gold, gold)
                save_row(
                    "trust",
                    config | {"parsers": [*pair]},
                    {"before": best, "alone": alone, "auto": found},
                    path=options.rows,
                )


def source_trees(name: str, folder: Path, gold: Sequence[Sentence]) -> list[Sentence]:
    """Return the trees of a parser."""
    file, t = SOURCES[name]
    return treebank_of(load_predictions(folder / file), gold, t=t)


def measured(
    parser: Parser,
    trees: Sequence[Sentence],
    gold: Sequence[Sentence],
    weights: Sequence[int] = WEIGHTS,
    sizes: Sequence[int] = GOLD_SIZES,
) -> dict[str, Any]:
    """Return the LAS with each fixed weight, and the LAS and weight if it is estimated or fitted."""
    by_weight = {str(weight): refined(parser, [given], trees, gold, weight)["LAS"] for weight in weights}
    fitted = {
        str(size): refined(parser, [given], trees, gold, *parser.fit_trust(trees, gold[:size]))
        for size in sizes
        if size <= len(gold)
    }
    return {"by_weight": by_weight, "auto": refined(parser, [given], trees, gold), "fitted": fitted}


def refined(
    parser: Parser, initial: Sequence[InitialParser], trees: Sequence[Sentence], gold: Sequence[Sentence], *trust: float
) -> dict[str, Any]:
    """Return the LAS of refined trees and the weights; without `trust`, these are estimated."""
    refiner = parser.using(initial=[*initial], trust=[*trust] or "auto")
    parses = list(refiner.stream(trees))
    return {
        "LAS": las((each.sentence for each in parses), gold),
        "weights": [round(weight, 4) for weight in parses[0].trust],
    }


def listed_trees(trees: Sequence[Sentence]) -> InitialParser:
    """Return an initial parser that gives these trees to the sentences of a stream, in order."""

    def arcs(sentences: object) -> Iterator[Arcs]:
        return (each.arcs for each, _ in zip(trees, sentences, strict=True))  # type: ignore[call-overload]

    return arcs


def las(trees: Sequence[Sentence] | Iterator[Sentence], gold: Sequence[Sentence]) -> float:
    """Return the LAS of trees."""
    return round(evaluate(gold, list(trees))["LAS"].f1, 6)


HEAD = ("initial parser", "tags", "its LAS", "model alone", *(f"weight {each}" for each in WEIGHTS), "auto")


def trust() -> str:
    """Return the newest row of each parser and source of tags."""
    return trust_of(read_rows("trust"))


def trust_of(rows: Sequence[Row]) -> str:
    """Return the rows as a table; a weight that was estimated or fitted is in brackets.

    Weights may be measured one by one: each cell is from the newest row of the same weights that has it.
    """
    if not rows:
        return "Not measured yet."
    last, newest = rows[-1], dict[tuple[str, ...], Row]()
    for row in rows:
        config, key = row["config"], (row["config"]["tags"], *row["config"]["parsers"])
        if all(config[name] == last["config"][name] for name in ("weights", "sentences")):
            before = newest.get(key, {"result": {}})["result"]
            joined = {name: before.get(name, {}) | row["result"].get(name, {}) for name in ("by_weight", "fitted")}
            newest[key] = row | {"result": before | row["result"] | joined}
    order = [*SOURCES]
    keys = sorted(newest, key=lambda key: (TAGS.index(key[0]), len(key), order.index(key[1])))
    lines = [_cells(newest[key]) for key in keys]
    head = (*HEAD, *(f"fitted to {size}" for size in GOLD_SIZES))
    return (
        f"{table(head, *lines)}\n\nLAS on {last['config']['treebank']} {last['config']['split']}, "
        f"{last['config']['sentences']:,} sentences, refined by `{last['config']['model']}`; the weight in brackets. "
        f"Of two parsers, the better one's LAS is shown. `python -m benchmarks trust`, {last['when'][:10]}, "
        f"commit {last['commit']}."
    )


def _cells(row: Row) -> tuple[str, ...]:
    config, result = row["config"], row["result"]
    by_weight = result.get("by_weight", {})
    fixed = [percent(by_weight[str(each)]) if str(each) in by_weight else NONE for each in WEIGHTS]
    fitted = [_weighed(result.get("fitted", {}).get(str(size))) for size in GOLD_SIZES]
    scores = (percent(result["before"]), percent(result["alone"]), *fixed, _weighed(result["auto"]), *fitted)
    return (" and ".join(config["parsers"]), config["tags"], *scores)


def _weighed(found: dict[str, Any] | None) -> str:
    if found is None:
        return NONE
    return f"{percent(found['LAS'])} ({', '.join(f'{each:.1f}' for each in found['weights'])})"
