"""What a model's card says of its training."""

from __future__ import annotations

import json
from dataclasses import asdict

from treefine.training.checkpoint import Standing
from treefine.training.data import Data
from treefine.training.recipe import Recipe
from treefine.version import __version__


def notes_of(recipe: Recipe, data: Data, standing: Standing) -> str:
    """The recipe, the version of the code, the data's checksums and the dev scores."""
    checksums = "\n".join(f"{digest}  {path}" for path, digest in data.checksums.items())
    return "\n".join(
        [
            "## Training",
            "",
            f"Trained by treefine {__version__} on {len(data.train):,} sentences. The best of {standing.epoch} epochs",
            f"is number {standing.best_epoch}, with LAS {standing.best_las:.2%} and UAS {standing.best_uas:.2%} on "
            f"{len(data.dev):,} dev sentences.",
            "",
            "The recipe:",
            "```",
            json.dumps(asdict(recipe), indent=1, ensure_ascii=False),
            "```",
            "",
            "SHA-256 of the files:",
            "```",
            checksums,
            "```",
        ]
    )
