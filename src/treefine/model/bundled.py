"""The bundled parsers: their names, where they lie, and what is known of them. Asking loads no torch."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from treefine.config import read_settings
from treefine.errors import ModelError
from treefine.model.weight_files import LAYOUT, read_json

BUNDLED = Path(__file__).parent.parent / "models"
ABOUT = "about.json"  # beside a bundled model's own files


@dataclass(frozen=True)
class About:
    """What a person wants to know of a bundled parser before using it."""

    language: str
    treebank: str
    licence: str
    encoder: str
    scores: dict[str, float] = field(default_factory=dict)  # on the treebank's test set, in per cent


def bundled_models() -> dict[str, Path]:
    """The folders of the bundled parsers, by name."""
    return {folder.name: folder for folder in sorted(BUNDLED.glob("*")) if (folder / LAYOUT.config).is_file()}


def about(folder: Path) -> About:
    """What is known of a bundled parser."""
    path = folder / ABOUT
    return read_settings(About, read_json(path), path=str(path))


def find_model(name: str | os.PathLike[str]) -> Path:
    """The folder of a parser: a bundled one by its name, else a folder, else a copy of the hub's OWNER/NAME.

    A bundled name always means the bundled parser; `./en` is the folder of that name.
    """
    known = bundled_models()
    asked = os.fspath(name)
    if asked in known:
        return known[asked]
    if "/" not in asked and "\\" not in asked and not Path(name).exists():
        bundled = f"Choose a bundled one ({', '.join(known)}), or give" if known else "None is bundled: give"
        hint = f"{bundled} the path of a folder, or OWNER/NAME on a hub."
        raise ModelError(f"There is no model {asked!r}.", hint=hint)
    from treefine.model.folder import fetch  # which loads torch

    return fetch(name)
