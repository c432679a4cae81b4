"""Check everything that a recipe names before training: treebanks, encoders, base models, teachers, initial parser."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from treefine.config import COLUMNS, LAYOUT, TagSettings, read_json
from treefine.errors import ConfigError, ModelError
from treefine.model.folder import fetch, is_model_folder, load_model
from treefine.model.hf_weights import load_encoder
from treefine.model.parser_model import ParserModel
from treefine.model.subwords import Subwords
from treefine.model.vocabulary import Vocabulary
from treefine.training.data import (
    FEWEST,
    Data,
    checksums_of,
    completed,
    completed_tags,
    filled_columns,
    fold_ranges,
    is_plain_text,
    load_data,
    load_texts,
    no_text,
    parses_in_files,
)
from treefine.training.recipe import (
    EMPTY,
    FILES,
    TEMPLATE_FOLDER,
    PretrainedSettings,
    Recipe,
    TagTraining,
    TreebankSettings,
    expand,
    read_recipe,
    read_toml,
    recipe_of,
    split_changes,
    values_of,
)
from treefine.treebank.conllu import format_of
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence

_TRAIN_APART = "Train it separately, and name its model folder."
_RULES = {"conllu": "conll18", "conllx": "conllx", "conll09": "conll09", "conll09-predicted": "conll09"}
_WIDE = 768  # the width of a base model
SIZES = (  # sentences at least; epochs (with a graph, where each batch gives up to T updates), batch_pieces, masking
    (40_000, 3, 4000, 0.0),  # the first row that fits; see docs/training.md, Learning rates and epochs
    (7_000, 6, 4000, 0.0),  # measured with 12,500 (English EWT) and 4,000 sentences, otherwise estimates
    (1_000, 10, 2000, 0.1),
    (0, 30, 1000, 0.1),
)


@dataclass(frozen=True)
class Prepared:
    """A recipe with checked files, and the recipes to train before it, each by the name of its file."""

    recipe: Recipe
    data: Data
    initial: Recipe | None = None  # of the initial parser, if it must be trained
    parses: tuple[list[Arcs], ...] = ()  # those of the training set and of dev, if they are in files
    bases: dict[str, Prepared] = field(default_factory=dict)  # of models to fine-tune
    teachers: dict[str, Prepared] = field(default_factory=dict)
    texts: tuple[str | Sentence, ...] = ()  # unlabelled sentences: lines of text, or words

    @property
    def others(self) -> dict[str, Recipe]:
        """The recipes to train before this one, by what they are."""
        recipes = {} if self.initial is None else {"initial parser": self.initial}
        for what, others in (("base model", self.bases), ("teacher", self.teachers)):
            recipes |= {f"{what} {Path(name).stem}": other.recipe for name, other in others.items()}
        return recipes

    @property
    def settings(self) -> dict[str, Any]:
        """All settings, including defaults, of the recipe and of those to train before it."""
        return {name: values_of(recipe) for name, recipe in {"recipe": self.recipe, **self.others}.items()}


def base_of(recipe: Recipe) -> str:
    """Return the name of the base recipe that a recipe fine-tunes, or ""."""
    return recipe.encoder.start if recipe.encoder.start.endswith(".toml") else ""


def prepare(named: Recipe | str | os.PathLike[str], changes: Sequence[str] = ()) -> Prepared:
    """Check a recipe, given as a Recipe, a TOML file or the name of a bundled recipe, and the files that it names.

    Raises one error with a line for each fault of the recipe, or else for each fault of its treebanks, or else for the
    first fault of the models and recipes that it names.
    """
    of_recipe, of_initial = split_changes(changes)
    recipe = named if isinstance(named, Recipe) else read_recipe(named, of_recipe)
    data, bases, teachers = load_data(recipe.treebank), dict[str, Prepared](), dict[str, Prepared]()
    if recipe.segmenter.train == "always" and not all(each.format.is_ud for each in (*data.train, *data.dev)):
        raise ConfigError(f"[segmenter] {no_text(data)}. Remove this section.")
    _check_model(recipe, data, bases)
    initial, form = _initial_recipe(recipe, data, of_initial, bases), recipe.treebank.format or None
    files = ((recipe.initial.train, data.train), (recipe.initial.dev, data.dev))
    parses = tuple(parses_in_files(*each, form) for each in files if recipe.initial.parser == FILES)
    for name in recipe.teacher.recipes:
        _add_recipe(name, teachers)
    _check_teachers(recipe, data, teachers)
    texts = _texts(recipe, data)
    checksums = data.checksums | checksums_of((*recipe.initial.train, *recipe.initial.dev, *recipe.teacher.texts))
    for other in (*bases.values(), *teachers.values()):
        checksums |= other.data.checksums
    data = replace(data, checksums=checksums)
    return Prepared(completed(recipe, data), data, initial, parses, bases, teachers, texts)


def fine_tuning_recipe(model: str, train: Sequence[str], dev: str, changes: Sequence[str] = ()) -> Recipe:
    """Return the recipe of `treefine train --from MODEL`, which suits the treebank's size and the model's width."""
    rule: Any = _RULES[format_of(train[0]).name]
    n_sentences = len(load_data(TreebankSettings(tuple(train), (dev,), rule=rule)).train)
    _, epochs, batch_pieces, masking = next(row for row in SIZES if n_sentences >= row[0])
    encoder = read_json(fetch(expand(model)) / LAYOUT.config).get("encoder")
    width = encoder.get("width") if isinstance(encoder, dict) else _WIDE
    rate = 5e-5 if width == _WIDE or not isinstance(width, int) else 1e-4 if width < _WIDE else 2e-5
    values = read_toml(TEMPLATE_FOLDER / "fine-tune.toml")
    values["title"] = f"{Path(model).name}, fine-tuned"
    values["treebank"] = {"train": list(train), "dev": dev, "rule": rule}
    values["encoder"]["fine_tune_from"] = model
    values["optimiser"]["encoder_learning_rate"] = rate
    values["training"] |= {"epochs": epochs, "patience": epochs, "batch_pieces": batch_pieces, "masking": masking}
    return recipe_of(values, changes)


def _check_model(recipe: Recipe, data: Data, bases: dict[str, Prepared], place: str = "") -> None:
    """Check the tags of a recipe, which may be an inner one at a place, and what its training starts from."""
    filled, tags = filled_columns(data.train), completed_tags(recipe.tags, data.train)
    missing = [column for column in tags.columns if column not in (*filled, *tags.given)]
    if missing and tags.source != "none":
        others = [column for column in COLUMNS if column in filled]
        hint = "Set tags.source=none" + (f", or tags.columns={json.dumps(others)}." if others else ".")
        raise ConfigError(f"{place}[tags] {_no_value(missing)} {hint}")
    if lacking := [column for column in tags.given if column not in filled]:
        rest = json.dumps([column for column in tags.given if column in filled])
        raise ConfigError(f"{place}[tags] given: {_no_value(lacking)} Set tags.given={rest}.")
    if base := base_of(recipe):
        _add_recipe(base, bases)
    else:
        _check_start(recipe.encoder)


def _no_value(columns: Sequence[str]) -> str:
    return f"No training word has a value in {' or '.join(map(str.upper, columns))}."


def _add_recipe(name: str, others: dict[str, Prepared]) -> None:
    """Add the recipe of a base or a teacher, with its own data, to the others of its kind."""
    if name in others:
        return
    if Path(name).stem in [Path(other).stem for other in others]:  # they are trained in folders with these names
        raise ConfigError(f"{name}: Another recipe has the same file name. Rename one of them.")
    recipe = _inner_recipe(name)
    if base_of(recipe):
        raise ConfigError(f"{name}: This recipe must not fine-tune that of another model. {_TRAIN_APART}")
    data = load_data(recipe.treebank)
    _check_model(recipe, data, others, f"{name}: ")
    others[name] = Prepared(completed(recipe, data, is_main=False), data)


def _inner_recipe(name: str, changes: Sequence[str] = ()) -> Recipe:
    """Read a recipe that another one names. It must have no initial parser and no teachers."""
    recipe = read_recipe(name, changes)
    if recipe.initial.parser != EMPTY or recipe.teacher.names:
        needed = "teachers" if recipe.teacher.names else "an initial parser"
        raise ConfigError(f"{name}: This recipe must not have {needed}. {_TRAIN_APART}")
    return recipe


def _initial_recipe(outer: Recipe, data: Data, changes: Sequence[str], bases: dict[str, Prepared]) -> Recipe | None:
    """Check the initial parser of a recipe. Return its own recipe, with these changes, if it must be trained."""
    settings = outer.initial
    name = "" if settings.parser in (EMPTY, FILES) else expand(settings.parser)
    # OWNER/NAME is a model on the hub
    if not name or not (name.endswith(".toml") or "/" not in name) or Path(name).is_dir():
        if changes:
            raise ConfigError(f"--set initial.{changes[0]}: [initial] does not name a recipe as parser.")
        if settings.folds:
            raise ConfigError(f"[initial] folds = {settings.folds} needs a recipe as parser, not a model.")
        if name:
            _load(name)
        return None
    recipe = _inner_recipe(name, changes)
    _check_model(recipe, data, bases, f"{name}: ")
    if settings.folds:
        _check_folds(outer, data, bases.get(base_of(recipe)))
    # It is trained on the sentences of the outer recipe, with its seed.
    training = replace(recipe.training, seed=outer.training.seed)
    return completed(replace(recipe, treebank=outer.treebank, training=training), data, is_main=False)


def _check_folds(recipe: Recipe, data: Data, base: Prepared | None) -> None:
    """Check that there are enough sentences for the folds, and that the base of their parsers has not seen them."""
    folds = recipe.initial.folds
    longest = max(map(len, fold_ranges(len(data.train), folds)))
    if len(data.train) - longest < FEWEST or folds > len(data.train):
        raise ConfigError(f"[initial] folds = {folds} is too many for {len(data.train)} sentences.")
    learned = () if base is None else [base.data.checksums[path] for path in base.recipe.treebank.train]
    if seen := [path for path in recipe.treebank.train if data.checksums[path] in learned]:
        why = f"the base model of the parsers is trained on {', '.join(seen)}"
        hint = "Remove that treebank from the base recipe, or set folds = 0."
        raise ConfigError(f"[initial] folds: {why}, so they would parse sentences that they have seen. {hint}")


def _check_teachers(recipe: Recipe, data: Data, teachers: Mapping[str, Prepared]) -> None:
    """Check that the teachers know the labels and tags of the training set."""
    known: dict[str, tuple[Vocabulary, TagTraining | TagSettings]] = {}
    for name in recipe.teacher.models:
        model = _load(name)
        known[name] = model.vocabulary, model.settings.tags
    for name, teacher in teachers.items():
        known[name] = Vocabulary.of_treebank(teacher.data.train), teacher.recipe.tags
    for name, theirs in known.items():
        tags = completed_tags(recipe.tags, data.train)
        if why := _misfit(Vocabulary.of_treebank(data.train), tags, *theirs):
            raise ConfigError(f"[teacher] {name}: {why}")


def _texts(recipe: Recipe, data: Data) -> tuple[str | Sentence, ...]:
    """Return the unlabelled sentences; only a segmenter can divide text into words."""
    plain = [path for path in recipe.teacher.texts if is_plain_text(path)]
    why = "segmenter.train is never" if recipe.segmenter.train == "never" else no_text(data)
    if plain and why:
        fault = f"{plain[0]}: Text needs the segmenter of this training, but {why}."
        raise ConfigError(f"[teacher] {fault} Name a treebank file, whose words are used.")
    return load_texts(recipe.teacher)


def _load(name: str) -> ParserModel:
    return load_model(fetch(expand(name)))


def _check_start(settings: PretrainedSettings) -> None:
    """Raise an error if training cannot start from this encoder or model."""
    folder = fetch(expand(settings.start))
    if is_model_folder(folder):
        load_model(folder)
        return
    if settings.fine_tune_from is not None:
        hint = "Set pretrained, not fine_tune_from, in [encoder]."
        raise ModelError("This is an encoder, not a treefine model.", hint=hint, path=str(folder))
    load_encoder(folder)
    Subwords.from_folder(folder)


def _misfit(ours: Vocabulary, tags: TagTraining, theirs: Vocabulary, their_tags: TagTraining | TagSettings) -> str:
    """Return why a model cannot learn from a teacher, or an empty string if it can."""
    columns = () if tags.source == "none" else tags.columns
    theirs_are_other = (tags.source, tags.given) != (their_tags.source, their_tags.given)
    if theirs_are_other or (columns and columns != their_tags.columns):
        return "The teacher has other tags. Use the same source, columns and given in [tags] for both."
    for what in ("labels", *columns):
        if odd := sorted(set(getattr(ours, what)) ^ set(getattr(theirs, what))):
            shown = f"{what}, such as {', '.join(odd[:3])}"
            return f"The teacher and the training set have different {shown}. Train both on one treebank."
    return ""
