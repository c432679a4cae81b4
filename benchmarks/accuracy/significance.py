"""Compare the tested models of a treebank by paired significance tests on their saved trees."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.accuracy.model_rows import Group, grouped
from benchmarks.options import PREDICTIONS_FOLDER, ROWS_FILE, TREEBANKS_ENV, command
from benchmarks.rows import Row, read_rows, save_row
from treefine import Sentence, TreefineError, read_treebank
from treefine.evaluation.scores import load_pairs
from treefine.evaluation.significance import ALPHA, SAMPLES, SEED, compare, difference_fields
from treefine_paper.predictions import load_predictions, treebank_of


@command(ROWS_FILE, PREDICTIONS_FOLDER, TREEBANKS_ENV)
def measure_significance(options: argparse.Namespace) -> None:
    """Compare the tested models of each treebank by LAS and UAS; write a row for each comparison."""
    groups = grouped(read_rows("accuracy", path=options.rows))
    single, with_means = compared(groups), compared(groups, means=True)
    sets = [*single.items(), *(each for each in with_means.items() if each not in single.items())]
    for (treebank, encoder), systems in sets:
        gold = _gold(options.treebanks / treebank)
        trees = {name: _trees(group, gold, options.predictions) for name, group in systems.items()}
        pairs = load_pairs(gold, trees)
        for metric in ("LAS", "UAS"):
            found = compare(pairs, metric=metric, alpha=ALPHA, samples=SAMPLES, seed=SEED)
            config = {"treebank": treebank, "encoder": encoder, "metric": metric}
            result = {
                "systems": {name: _tested(group)["result"]["sha256"] for name, group in systems.items()},
                "scores": {name: round(score, 6) for name, score in found.scores.items()},
                "best": sorted(found.best_group),
                "differences": [
                    {"first": each.first, "second": each.second} | difference_fields(each)
                    for each in found.differences.values()
                ],
            }
            numbers = {"alpha": ALPHA, "samples": SAMPLES, "seed": SEED}
            save_row("significance", config | numbers, result, path=options.rows)


def compared(groups: Sequence[Group], *, means: bool = False) -> dict[tuple[str, str], dict[str, Group]]:
    """Return the tested groups by treebank and encoder, then by name, if there are at least two to compare.

    The biaffine parser, whose encoder differs, is compared with the models of each encoder. Models with averaged
    weights are left out by default, because they would change which of the single models are the best.
    """
    found: dict[tuple[str, str], dict[str, Group]] = {}
    tested = [group for group in groups if (group.is_plain or means and group.is_mean) and group.tested is not None]
    for group in tested:
        treebank, encoder = group.config["treebank"], group.config["encoder"]
        if group.config["kind"] != "Biaffine":
            found.setdefault((treebank, encoder), {})[group.name] = group
    for group in tested:
        for (treebank, _), systems in found.items():
            if group.config["kind"] == "Biaffine" and group.config["treebank"] == treebank:
                systems[group.name] = group
    return {key: systems for key, systems in found.items() if len(systems) > 1}


@dataclass(frozen=True)
class Comparison:
    """The paired tests of one treebank and encoder; None if the tested models have changed since."""

    treebank: str
    encoder: str
    systems: dict[str, Group]
    las: dict[str, Any] | None
    uas: dict[str, Any] | None


def comparisons(groups: Sequence[Group], rows: Sequence[Row], *, means: bool = False) -> list[Comparison]:
    """Return all comparisons, with the newest rows of significance for the same trees."""
    found = []
    for (treebank, encoder), systems in compared(groups, means=means).items():
        tested = {name: _tested(group)["result"]["sha256"] for name, group in systems.items()}
        place = {"treebank": treebank, "encoder": encoder}
        same = [row for row in rows if place.items() <= row["config"].items() and row["result"]["systems"] == tested]
        newest = {row["config"]["metric"]: row["result"] for row in same}
        found.append(Comparison(treebank, encoder, systems, newest.get("LAS"), newest.get("UAS")))
    return found


def _gold(folder: Path) -> list[Sentence]:
    for path in sorted(folder.glob("*test.conllu*")):
        return list(read_treebank(path))
    raise TreefineError(
        "This folder has no test file.", hint="Name the folder of all treebanks: --treebanks DIR.", path=str(folder)
    )


def _trees(group: Group, gold: Sequence[Sentence], folder: Path) -> list[Sentence]:
    """Return the tested trees from the file that the row names."""
    result = _tested(group)["result"]
    path = folder / result["predictions"]
    if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != result["sha256"]:
        raise TreefineError("The predictions of the test row are missing or have changed.", path=str(path))
    return treebank_of(load_predictions(path), gold)


def _tested(group: Group) -> dict[str, dict[str, str]]:
    if group.tested is None:
        raise TreefineError(f"{group.config['recipe']} was not tested.")
    return group.tested
