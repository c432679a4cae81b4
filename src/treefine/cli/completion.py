"""The names that shell completion offers besides commands and options."""

from __future__ import annotations

from treefine.evaluation.scores import RULES
from treefine.model.bundled import bundled_models
from treefine.training.recipe import BUNDLED_RECIPES
from treefine.treebank.formats import FORMATS


def complete_model(incomplete: str) -> list[str]:
    """Return the bundled models whose names start like this; without a match the shell completes file names."""
    return [name for name in bundled_models() if name.startswith(incomplete)]


def complete_recipe(incomplete: str) -> list[str]:
    """Return the bundled recipes whose names start like this."""
    return sorted(each.stem for each in BUNDLED_RECIPES.glob("*.toml") if each.stem.startswith(incomplete))


def complete_format(incomplete: str) -> list[str]:
    """Return the treebank formats whose names start like this."""
    return [name for name in FORMATS if name.startswith(incomplete)]


def complete_rule(incomplete: str) -> list[str]:
    """Return the scoring rules whose names start like this."""
    return [name for name in RULES if name.startswith(incomplete)]
