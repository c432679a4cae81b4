"""The tables of segmenters: those that were trained, on dev, and those that were saved, on both splits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.markdown import table
from benchmarks.rows import read_rows

F1 = ("Tokens", "Sentences", "Words")


def trained_segmenters() -> str:
    """F1 on the raw text of dev by treebank and by what was set otherwise than by default; the newest of each."""
    found = {}
    for row in read_rows("segmenter"):
        config = row["config"]
        if "changes" in config:
            found[config["treebank"], tuple(config["changes"]), config["seed"]] = row["result"]
    lines = [
        (treebank, ", ".join(changes).replace("network.", "") or "–", seed, *_cells(result))
        for (treebank, changes, seed), result in sorted(found.items())
    ]
    return table(("treebank", "set", "seed", *F1), *lines)


def saved_segmenters() -> str:
    """F1 on raw text of what lies in a folder, in eight bits; the newest row of dev, and the only one of test."""
    found = {}
    for row in read_rows("segmenter"):
        config = row["config"]
        if "weights" in config:
            found[config["treebank"], config["split"], config["model"]] = row["result"]
    lines = [
        (treebank, split, model, *_cells(result), f"{result['parameters'] / 1e6:.1f}M")
        for (treebank, split, model), result in sorted(found.items())
    ]
    return table(("treebank", "split", "folder", *F1, "parameters"), *lines)


def _cells(result: Mapping[str, Any]) -> list[str]:
    return [f"{100 * result[name]:.2f}" for name in F1]


SEGMENTERS: dict[str, Callable[[], str]] = {each.__name__: each for each in (trained_segmenters, saved_segmenters)}
