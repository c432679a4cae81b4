"""The bundled parsers: their names, folders and descriptions. Listing them does not import torch."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from treefine.config import read_settings
from treefine.errors import ModelError
from treefine.model.weight_files import LAYOUT, read_json

BUNDLED = Path(__file__).parent.parent / "models"
ABOUT = "about.json"  # in the folder of a bundled model
_TRAINED, _RECIPE = "model", "recipe.json"  # in the output folder of a training; see `FolderNames` in training


@dataclass(frozen=True)
class About:
    """The description of a bundled parser that `treefine models` shows."""

    language: str
    treebank: str
    licence: str
    encoder: str
    scores: dict[str, float] = field(default_factory=dict)  # on the treebank's test set, in %


def bundled_models() -> dict[str, Path]:
    """Return the folders of the bundled parsers, by name."""
    return {folder.name: folder for folder in sorted(BUNDLED.glob("*")) if (folder / LAYOUT.config).is_file()}


def about(folder: Path) -> About:
    """Read the description of a bundled parser."""
    path = folder / ABOUT
    return read_settings(About, read_json(path), path=str(path))


def find_model(name: str | os.PathLike[str]) -> Path:
    """Return the folder of a parser: a bundled one by name, else a local folder, else OWNER/NAME from the hub.

    A bundled name always means the bundled parser; `./en` is the folder of that name. A local folder can also be the
    output folder of a training.
    """
    known = bundled_models()
    asked = os.fspath(name)
    if asked in known:
        return known[asked]
    if "/" not in asked and "\\" not in asked and not Path(name).exists():
        bundled = f"Choose a bundled one ({', '.join(known)}), or give" if known else "No model is bundled; give"
        hint = f"{bundled} the path of a folder, or OWNER/NAME on the hub."
        raise ModelError(f"There is no model {asked!r}.", hint=hint)
    if Path(name).name == _TRAINED and not Path(name).exists():
        trained_model(Path(name).parent)  # raises an error if that training has not finished
    from treefine.model.folder import fetch  # imports torch

    return trained_model(fetch(name))


def trained_model(folder: Path) -> Path:
    """Return the model folder in the output folder of a training; return any other folder unchanged."""
    if (folder / LAYOUT.config).exists():
        return folder
    if (folder / _TRAINED / LAYOUT.config).is_file():
        return folder / _TRAINED
    if (folder / _RECIPE).is_file():
        hint = "Wait until it ends, or continue it with treefine train --resume."
        raise ModelError("This training has not finished, so there is no model yet.", hint=hint, path=str(folder))
    return folder
