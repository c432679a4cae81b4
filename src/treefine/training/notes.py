"""What a model's card says of its training: enough to do it again."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import torch

from treefine.training.checkpoint import Standing
from treefine.training.data import Data
from treefine.training.recipe import Recipe
from treefine.version import __version__


def notes_of(recipe: Recipe, data: Data, standing: Standing, *, inner: Recipe | None = None) -> str:
    """The recipe and the initial parser's, the versions of the code, the data's checksums and the dev scores."""
    members, scores = recipe.training.members, f"UAS {standing.best_uas:.2%} and LAS {standing.best_las:.2%}"
    chosen = f"The best of {standing.epoch} epochs is number {standing.best_epoch}."
    by_step = f"; the graphs of its steps have LAS {', '.join(f'{las:.2%}' for las in standing.best_by_step)}"
    if not standing.best_epoch:
        chosen, by_step = f"Its weights are the mean of those of {members} trainings.", ""
    lines = [
        "## Training",
        "",
        f"Trained by treefine {__version__} with torch {torch.__version__} and seed {recipe.training.seed} on "
        f"{len(data.train):,} sentences.",
        f"{chosen} On {len(data.dev):,} dev sentences its trees have {scores}{by_step}.",
        "",
        "The recipe:",
        "```toml",
        recipe_toml(recipe) + "```",
        "",
    ]
    if inner is not None:
        lines += ["That of its initial parser:", "```toml", recipe_toml(inner) + "```", ""]
    return "\n".join(
        [
            *lines,
            "SHA-256 of the treebank:",
            "```",
            *(f"{digest}  {path}" for path, digest in data.checksums.items()),
            "```",
        ]
    )


def recipe_toml(recipe: Recipe) -> str:
    """The recipe as a TOML file that `read_recipe` reads, with all settings, the defaults too.

    Another recipe is named without its folder, as it is where it lies beside this one.
    """
    values = asdict(recipe)
    for section, key in (("initial", "parser"), ("encoder", "folder")):
        name = values[section].get(key, "")
        if name.endswith(".toml"):
            values[section][key] = Path(name).name
    del values["decode"]["root_label"]  # the treebank's, and not for a recipe to say
    lines = [_pair(key, value) for key, value in values.items() if not isinstance(value, dict)]
    for name, section in values.items():
        if isinstance(section, dict):
            lines += ["", f"[{name}]", *(_pair(key, value) for key, value in section.items())]
    return "\n".join(lines) + "\n"


def _pair(key: str, value: object) -> str:
    """One setting; JSON writes strings, numbers and lists of them as TOML does, but for one character."""
    return f"{key} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")
