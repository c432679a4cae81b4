"""How long a training took, and its best epoch, from the metrics in its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from treefine.training.logs import LINES
from treefine.training.train import LAYOUT


def trained(folder: Path) -> dict[str, Any]:
    """What the metrics of a training say: its seconds, those of its initial parsers, and its best epoch.

    A mean of several trainings has no epochs of its own; its seconds are those of all its members.
    """
    epochs = _metrics(folder)
    measured = [epoch for epoch in epochs if "LAS" in epoch]
    best = max(measured, key=lambda epoch: epoch["LAS"], default={"epoch": None, "LAS": None})

    def together(pattern: str) -> float:
        return round(sum(_seconds(_metrics(each)) or 0 for each in folder.glob(pattern)), 1)

    mixed = f"{LAYOUT.mix}/*"
    return {
        "training_seconds": _seconds(epochs) if epochs else together(f"{LAYOUT.members}/*") or None,
        "initial_seconds": (together(LAYOUT.initial) + together(f"{mixed}/{LAYOUT.initial}")) or None,
        "folds_seconds": together(f"{LAYOUT.folds}/*") + together(f"{mixed}/{LAYOUT.folds}/*"),
        "start_seconds": together(f"{LAYOUT.start}/*"),
        "epochs_run": len(epochs) or None,
        "best_epoch": best["epoch"],
        "LAS_in_training": best["LAS"],  # of the averaged or plain weights, in the precision of the training
    }


def _metrics(folder: Path) -> list[dict[str, Any]]:
    path = folder / LINES
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _seconds(epochs: list[dict[str, Any]]) -> float | None:
    return round(float(epochs[-1]["seconds"]), 1) if epochs else None
