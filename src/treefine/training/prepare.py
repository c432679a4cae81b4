"""All that a recipe names, found and looked over before any work starts: treebanks, encoders, the initial parser."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from treefine.config import BiLSTMSettings
from treefine.errors import ConfigError, ModelError, TreefineError
from treefine.network.subwords import Subwords
from treefine.network.weight_names import load_encoder
from treefine.parsing.initial import from_file
from treefine.parsing.pretrained import fetch, is_model_folder, load_model
from treefine.training.data import FEWEST, Data, load_data
from treefine.training.jackknife import blocks
from treefine.training.recipe import (
    EMPTY,
    FILES,
    Draft,
    InitialSettings,
    PretrainedSettings,
    Recipe,
    TreebankSettings,
    expand,
    read_draft,
    read_recipe,
)


@dataclass(frozen=True)
class Prepared:
    """A recipe whose files were found fit."""

    recipe: Recipe
    data: Data
    initial: Recipe | None  # of the initial parser, where one is to be trained
    starts: dict[str, Prepared] = field(default_factory=dict)  # recipes whose models these two go on from, by name


def prepare(name: str | os.PathLike[str], changes: Sequence[str] = ()) -> Prepared:
    """The recipe of a file, or the bundled one of that name, and what it names.

    All faults of the recipe and of its files come in one report, a line each.
    """
    draft = read_draft(name, changes)
    if draft.recipe is not None:
        return prepare_recipe(draft.recipe)
    faults = list(draft.faults)
    _look_over(draft.section("treebank"), draft.section("encoder"), draft.section("initial"), faults)
    raise ConfigError(_lines(faults))


def prepare_recipe(recipe: Recipe) -> Prepared:
    """A recipe and what it names. All faults of its files come in one report, a line each."""
    faults: list[str] = []
    data, initial = _look_over(recipe.treebank, recipe.encoder, recipe.initial, faults)
    starts: dict[str, Prepared] = {}
    for name in filter(None, map(start_of, (recipe, initial))):
        if name not in starts:
            with _told(faults):
                starts[name] = prepare_recipe(read_recipe(name))
    if faults or data is None:
        raise ConfigError(_lines(faults))
    if initial is not None:  # it learns from the same sentences, and by the same seed
        settings = replace(initial.training, seed=recipe.training.seed)
        initial = replace(initial, treebank=recipe.treebank, training=settings)
    return Prepared(recipe, data, initial, starts)


def start_of(recipe: Recipe | None) -> str:
    """The recipe that a recipe goes on from, or nothing."""
    encoder = None if recipe is None else recipe.encoder
    name = expand(encoder.folder) if isinstance(encoder, PretrainedSettings) else ""
    return name if name.endswith(".toml") else ""


def _look_over(
    treebank: TreebankSettings | None,
    encoder: PretrainedSettings | BiLSTMSettings | None,
    initial: InitialSettings | None,
    faults: list[str],
) -> tuple[Data | None, Recipe | None]:
    """The treebanks and the initial parser's recipe. Sections with faults of their own are None."""
    data = inner = None
    if treebank is not None:
        with _told(faults):
            data = load_data(treebank)
    with _told(faults):
        _check_encoder(encoder)
    if initial is not None:
        inner = _look_over_initial(initial, data, faults)
    return data, inner


def _check_encoder(settings: PretrainedSettings | BiLSTMSettings | None) -> None:
    if not isinstance(settings, PretrainedSettings):
        return
    if expand(settings.folder).endswith(".toml"):
        return  # a recipe, looked over by itself
    folder = fetch(expand(settings.folder))
    if not is_model_folder(folder):
        load_encoder(folder)
        Subwords.from_folder(folder)
    elif isinstance(load_model(folder).settings.encoder, BiLSTMSettings):
        raise ModelError("A biaffine model cannot go on learning on another treebank.", path=str(folder))


def _look_over_initial(settings: InitialSettings, data: Data | None, faults: list[str]) -> Recipe | None:
    """The recipe of the initial parser, if it is to be trained."""
    inner = None
    if settings.parser == FILES and data is not None:
        for path, sentences in ((settings.train, data.train), (settings.dev, data.dev)):
            with _told(faults):
                for _ in from_file(expand(path))(sentences):
                    pass
    if settings.parser not in (EMPTY, FILES):
        with _told(faults):
            name = expand(settings.parser)
            if _is_recipe(name):
                inner = _look_over_recipe(read_draft(name), faults)
            else:
                load_model(fetch(name))
                if settings.folds:
                    faults.append(f"[initial] folds = {settings.folds} needs a recipe to train, not the model {name}.")
    if settings.folds and data is not None:
        rest = len(data.train) - max(len(block) for block in blocks(len(data.train), settings.folds))
        if rest < FEWEST or settings.folds > len(data.train):
            faults.append(f"[initial] folds = {settings.folds} is too many for {len(data.train)} sentences.")
    return inner


def _is_recipe(name: str) -> bool:
    """Whether an initial parser is a recipe, and not a model folder or OWNER/NAME on a hub."""
    return not Path(name).is_dir() and (name.endswith(".toml") or "/" not in name)


def _look_over_recipe(draft: Draft, faults: list[str]) -> Recipe | None:
    """The recipe of an initial parser; of its files only the encoder is used."""
    faults.extend(draft.faults)
    with _told(faults):
        _check_encoder(draft.section("encoder"))
    initial = draft.section("initial")
    if initial is not None and initial.parser != EMPTY:
        faults.append(f"{draft.path}: An initial parser has none of its own. Train it apart, and name its folder.")
    return draft.recipe


@contextmanager
def _told(faults: list[str]) -> Iterator[None]:
    """Add what goes wrong within to the faults."""
    try:
        yield
    except TreefineError as error:
        faults.append(str(error))
    except OSError as error:
        faults.append(f"{error.filename}: {error.strerror}." if error.filename else str(error))


def _lines(faults: list[str]) -> str:
    return "\n".join(dict.fromkeys(faults))  # two recipes may name the same encoder
