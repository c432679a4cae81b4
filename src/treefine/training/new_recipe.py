"""Choose settings by the size of a treebank: the recipe of `treefine train --from MODEL`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treefine.model.folder import fetch
from treefine.model.weight_files import LAYOUT, read_json
from treefine.training.data import load_data
from treefine.training.recipe import TEMPLATE_FOLDER, Recipe, TreebankSettings, expand, recipe_of
from treefine.treebank.conllu import format_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found]

_RULES = {"conllu": "conll18", "conllx": "conllx", "conll09": "conll09", "conll09-predicted": "conll09"}
_WIDE = 768  # the width of a base model


@dataclass(frozen=True)
class Size:
    """Settings for treebanks of at least `n_sentences` sentences; see docs/training.md, Learning rates and epochs."""

    n_sentences: int
    epochs: int  # with a graph, where each batch gives up to T updates
    batch_pieces: int
    masking: float
    folds: int


SIZES = (  # the first row that fits; measured with 12,500 (English EWT) and 4,000 sentences, otherwise estimates
    Size(40_000, 3, 4000, 0.0, 2),
    Size(7_000, 6, 4000, 0.0, 2),
    Size(1_000, 10, 2000, 0.1, 3),
    Size(0, 30, 1000, 0.1, 5),
)


def size_for(n_sentences: int) -> Size:
    """Return the settings for a training set of this size."""
    return next(size for size in SIZES if n_sentences >= size.n_sentences)


def encoder_learning_rate(width: int) -> float:
    """Return the learning rate that suits a pretrained encoder of this width."""
    return 1e-4 if width < _WIDE else 5e-5 if width == _WIDE else 2e-5


def fine_tuning_recipe(model: str, train: Sequence[str], dev: str, changes: Sequence[str] = ()) -> Recipe:
    """Return the recipe that fine-tunes a model on a treebank, with settings for its size and the model's width."""
    rule: Any = _RULES[format_of(train[0]).name]
    size = size_for(len(load_data(TreebankSettings(tuple(train), (dev,), rule=rule)).train))
    encoder = read_json(fetch(expand(model)) / LAYOUT.config).get("encoder")
    width = encoder.get("width") if isinstance(encoder, dict) else None
    values = tomllib.loads((TEMPLATE_FOLDER / "fine-tune.toml").read_text(encoding="utf-8"))
    values["title"] = f"{Path(model).name}, fine-tuned"
    values["treebank"] = {"train": list(train), "dev": dev, "rule": rule}
    values["encoder"]["fine_tune_from"] = model
    values["optimiser"]["encoder_learning_rate"] = encoder_learning_rate(width if isinstance(width, int) else _WIDE)
    values["training"] |= {"epochs": size.epochs, "patience": size.epochs, "batch_pieces": size.batch_pieces}
    values["training"]["masking"] = size.masking
    return recipe_of(values, changes)


def has_encoder(name: str) -> bool:  # until packages/treefine-paper has its own
    """Return whether an encoder is on this machine: a folder, or downloaded from the hub before."""
    from huggingface_hub import try_to_load_from_cache

    return Path(expand(name)).is_dir() or isinstance(try_to_load_from_cache(name, LAYOUT.config), str)


def encoder_width(name: str) -> int:
    """Return the width of an encoder in a folder; that of a base model if it is not on this machine."""
    config = Path(expand(name), LAYOUT.config)
    width = read_json(config).get("hidden_size") if config.is_file() else None
    return width if isinstance(width, int) else _WIDE
