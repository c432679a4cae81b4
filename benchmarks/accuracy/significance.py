"""Repeat the paired significance tests of rows.jsonl on the saved trees of the test sets."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

from benchmarks.options import PREDICTIONS_FOLDER, ROWS_FILE, TREEBANKS_ENV, command
from benchmarks.rows import Row, read_rows
from treefine import Sentence, TreefineError, read_treebank
from treefine.evaluation.pairing import load_pairs
from treefine.evaluation.significance import compare
from treefine_paper.predictions import load_predictions, treebank_of


@command(ROWS_FILE, PREDICTIONS_FOLDER, TREEBANKS_ENV)
def measure_significance(options: argparse.Namespace) -> None:
    """Repeat each significance test of rows.jsonl on the saved trees; exit with 1 if a result differs.

    python -m benchmarks significance --treebanks ../shared/treebanks/ud-2.3
    """
    paths = {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in options.predictions.glob("*.trees.xz")}
    rows = read_rows("significance", path=options.rows)
    different = 0
    for row in rows:
        config = row["config"]
        same = repeated(row, paths, options.treebanks) == row["result"]["differences"]
        different += not same
        verdict = "as in the row" if same else "DIFFERENT from the row"
        print(f"{config['treebank']}, {config['encoder']}, {config['metric']}: {verdict}", flush=True)
    if different:
        raise TreefineError(f"{different} of {len(rows)} results differ from their rows.")


def repeated(row: Row, paths: dict[str, Path], treebanks: Path) -> list[dict[str, object]]:
    """Return the differences between the systems of a row, computed again; `paths` is by checksum."""
    config = row["config"]
    gold = list(read_treebank(next(treebanks.joinpath(config["treebank"]).glob("*test.conllu*"))))
    trees = {name: _trees(name, checksum, paths, gold) for name, checksum in row["result"]["systems"].items()}
    numbers = {name: config[name] for name in ("metric", "alpha", "samples", "seed")}
    compared = compare(load_pairs(gold, trees), **numbers)
    names = ("difference", "randomisation", "bootstrap")
    return [
        {"first": each.first, "second": each.second} | {name: round(getattr(each, name), 6) for name in names}
        for each in compared.differences.values()
    ]


def _trees(name: str, checksum: str, paths: dict[str, Path], gold: list[Sentence]) -> list[Sentence]:
    if checksum not in paths:
        raise TreefineError(f"The predictions of {name} are missing or have changed.")
    return treebank_of(load_predictions(paths[checksum]), gold)
