"""Check everything that a recipe names before training: treebanks, encoders, base models, teachers, initial parser."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from treefine.config import COLUMNS, LAYOUT, TagSettings, read_json
from treefine.errors import ConfigError, ModelError, TreefineError
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
_Result = TypeVar("_Result")


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

    Raises one error with a line for each fault of the recipe, or else of the files and of the recipes that it names.
    """
    of_recipe, of_initial = split_changes(changes)
    recipe = named if isinstance(named, Recipe) else read_recipe(named, of_recipe)
    return _Check(recipe).prepared(of_initial)


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


class _Check:
    """Checks the files of a recipe, and collects the faults of all of them."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.faults: list[str] = []
        self.bases: dict[str, Prepared] = {}
        self.starts: set[str] = set()  # encoders and models that were checked; recipes can share them
        self.data = self.attempt(load_data, recipe.treebank)

    def attempt(self, work: Callable[..., _Result], *arguments: Any) -> _Result | None:
        """Return the result of a function; if there is an error, return None and collect it."""
        try:
            return work(*arguments)
        except TreefineError as error:
            self.faults.append(str(error))
        except OSError as error:
            self.faults.append(f"{error.filename}: {error.strerror}." if error.filename else str(error))
        return None

    def prepared(self, changes: Sequence[str]) -> Prepared:
        """Return the recipe with its data, or raise an error. The changes are those of the initial parser."""
        recipe, data = self.recipe, self.data
        self.check_model(recipe, data)
        initial, parses = self.initial(changes), self.parses()
        teachers, texts = self.teachers(), self.texts()
        if data is not None and recipe.segmenter.train == "always":
            if any(not sentence.format.is_ud for sentence in (*data.train, *data.dev)):
                self.faults.append(f"[segmenter] {no_text(data)}. Remove this section.")
        if data is None or self.faults:
            raise ConfigError("\n".join(dict.fromkeys(self.faults)))
        files = (*recipe.initial.train, *recipe.initial.dev, *recipe.teacher.texts)
        checksums = data.checksums | checksums_of(files)
        for other in (*self.bases.values(), *teachers.values()):
            checksums |= other.data.checksums
        data = replace(data, checksums=checksums)
        if initial is not None:  # it uses the sentences and the seed of the recipe
            training = replace(initial.training, seed=recipe.training.seed)
            initial = completed(replace(initial, treebank=recipe.treebank, training=training), data, is_main=False)
        return Prepared(completed(recipe, data), data, initial, parses, self.bases, teachers, texts)

    def check_model(self, recipe: Recipe, data: Data | None, place: str = "") -> None:
        """Check the tags of a recipe, and the encoder, model or base recipe that its training starts from."""
        if data is not None:
            self.check_tags(recipe, data, place)
        if base := base_of(recipe):
            self.add_recipe(base, self.bases)
        elif recipe.encoder.start not in self.starts:
            self.starts.add(recipe.encoder.start)
            self.attempt(_check_start, recipe.encoder)

    def check_tags(self, recipe: Recipe, data: Data, place: str) -> None:
        """Check that the training set has the tags to read or predict; `place` names an inner recipe."""
        filled, tags = filled_columns(data.train), completed_tags(recipe.tags, data.train)
        missing = [column for column in tags.columns if column not in (*filled, *tags.given)]
        if missing and tags.source != "none":
            others = [column for column in COLUMNS if column in filled]
            hint = "Set tags.source=none" + (f", or tags.columns={json.dumps(others)}." if others else ".")
            self.faults.append(f"{place}[tags] {_no_value(missing)} {hint}")
        if lacking := [column for column in tags.given if column not in filled]:
            rest = json.dumps([column for column in tags.given if column in filled])
            self.faults.append(f"{place}[tags] given: {_no_value(lacking)} Set tags.given={rest}.")

    def add_recipe(self, name: str, others: dict[str, Prepared]) -> None:
        """Add the recipe of a base or a teacher, with its own data, to the others of its kind."""
        if name in others:
            return
        if Path(name).stem in [Path(other).stem for other in others]:  # they are trained in folders with these names
            self.faults.append(f"{name}: Another recipe has the same file name. Rename one of them.")
            return
        recipe = self.inner_recipe(name)
        if recipe is None:
            return
        if base_of(recipe):
            self.faults.append(f"{name}: This recipe must not fine-tune that of another model. {_TRAIN_APART}")
            return
        data = self.attempt(load_data, recipe.treebank)
        self.check_model(recipe, data, f"{name}: ")
        if data is not None:
            others[name] = Prepared(completed(recipe, data, is_main=False), data)

    def inner_recipe(self, name: str, changes: Sequence[str] = ()) -> Recipe | None:
        """Read a recipe that this one names. It must have no initial parser and no teachers."""
        recipe = self.attempt(read_recipe, name, changes)
        if recipe is not None and (recipe.initial.parser != EMPTY or recipe.teacher.names):
            needed = "teachers" if recipe.teacher.names else "an initial parser"
            self.faults.append(f"{name}: This recipe must not have {needed}. {_TRAIN_APART}")
        return recipe

    def teachers(self) -> dict[str, Prepared]:
        """Check that the teachers exist and know the labels and tags of the training set; return those to train."""
        settings, teachers = self.recipe.teacher, dict[str, Prepared]()
        known: dict[str, tuple[Vocabulary, TagTraining | TagSettings]] = {}
        for name in settings.models:
            if (model := self.attempt(_load, name)) is not None:
                known[name] = model.vocabulary, model.settings.tags
        for name in settings.recipes:
            self.add_recipe(name, teachers)
        for name, teacher in teachers.items():
            known[name] = Vocabulary.of_treebank(teacher.data.train), teacher.recipe.tags
        if known and self.data is not None:
            ours = Vocabulary.of_treebank(self.data.train), completed_tags(self.recipe.tags, self.data.train)
            wrong = {name: _misfit(*ours, *theirs) for name, theirs in known.items()}
            self.faults += [f"[teacher] {name}: {why}" for name, why in wrong.items() if why]
        return teachers

    def texts(self) -> tuple[str | Sentence, ...]:
        """Return the unlabelled sentences; only a segmenter can divide text into words."""
        plain = [path for path in self.recipe.teacher.texts if is_plain_text(path)]
        if plain and self.data is not None:
            why = "segmenter.train is never" if self.recipe.segmenter.train == "never" else no_text(self.data)
            if why:
                fault = f"{plain[0]}: Text needs the segmenter of this training, but {why}."
                self.faults.append(f"[teacher] {fault} Name a treebank file, whose words are used.")
        return self.attempt(load_texts, self.recipe.teacher) or ()

    def parses(self) -> tuple[list[Arcs], ...]:
        """Return the initial parses of the training set and of dev, if they are in files."""
        settings, data, form = self.recipe.initial, self.data, self.recipe.treebank.format or None
        if settings.parser != FILES or data is None:
            return ()
        pairs = ((settings.train, data.train), (settings.dev, data.dev))
        return tuple(self.attempt(parses_in_files, *pair, form) or [] for pair in pairs)

    def initial(self, changes: Sequence[str]) -> Recipe | None:
        """Check the initial parser. Return its recipe, with these changes, if it must be trained."""
        settings, data = self.recipe.initial, self.data
        name = "" if settings.parser in (EMPTY, FILES) else self.attempt(expand, settings.parser)
        # OWNER/NAME is a model on the hub
        if not name or not (name.endswith(".toml") or "/" not in name) or Path(name).is_dir():
            if name:
                self.attempt(_load, name)
            if changes:
                self.faults.append(f"--set initial.{changes[0]}: [initial] does not name a recipe as parser.")
            if settings.folds:
                self.faults.append(f"[initial] folds = {settings.folds} needs a recipe as parser, not a model.")
            return None
        recipe = self.inner_recipe(name, changes)
        if recipe is not None:  # it is trained on the sentences of this recipe, so its own treebank is not read
            self.check_model(recipe, data, f"{name}: ")
        if recipe is not None and data is not None and settings.folds:
            self.check_folds(settings.folds, data, base_of(recipe))
        return recipe

    def check_folds(self, folds: int, data: Data, base: str) -> None:
        """Check that there are enough sentences for the folds, and that their parsers' base has not seen them."""
        longest = max(map(len, fold_ranges(len(data.train), folds)))
        if len(data.train) - longest < FEWEST or folds > len(data.train):
            self.faults.append(f"[initial] folds = {folds} is too many for {len(data.train)} sentences.")
        of_base = self.bases.get(base)
        learned = {of_base.data.checksums[path] for path in of_base.recipe.treebank.train} if of_base else ()
        if seen := [path for path in self.recipe.treebank.train if data.checksums[path] in learned]:
            why = f"the parsers fine-tune {base}, which is trained on {', '.join(seen)}"
            hint = "Remove that treebank from the base recipe, or set folds = 0."
            self.faults.append(f"[initial] folds: {why}, so they would parse sentences that they have seen. {hint}")


def _load(name: str) -> ParserModel:
    return load_model(fetch(expand(name)))


def _no_value(columns: Sequence[str]) -> str:
    return f"No training word has a value in {' or '.join(map(str.upper, columns))}."


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
