"""Check everything that a recipe names before training: treebanks, encoders, base models, teachers, initial parsers."""

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
    InitialSettings,
    PretrainedSettings,
    Recipe,
    SourceSettings,
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
    initial: dict[str, Recipe] = field(default_factory=dict)  # of initial parsers, by source; "" is the main one
    bases: dict[str, Prepared] = field(default_factory=dict)  # of models to fine-tune
    teachers: dict[str, Prepared] = field(default_factory=dict)
    texts: tuple[str | Sentence, ...] = ()  # unlabelled sentences: lines of text, or words


def sources_of(settings: InitialSettings) -> dict[str, SourceSettings]:
    """Return the sources of initial parses by name; the main initial parser has the name ""."""
    return {"": settings, **settings.mix}


def base_of(recipe: Recipe | None) -> str:
    """Return the name of the base recipe that a recipe fine-tunes, or ""."""
    if recipe is None:
        return ""
    name = expand(recipe.encoder.fine_tune_from or "")
    return name if name.endswith(".toml") else ""


def settings_of(prepared: Prepared) -> dict[str, Any]:
    """Return all settings, including defaults, of the recipe, its initial parsers, its bases and its teachers."""
    values = {"recipe": values_of(prepared.recipe), "initial parser": None}
    for name, recipe in prepared.initial.items():
        values[f"mixed {name}" if name else "initial parser"] = values_of(recipe)
    for what, others in (("start", prepared.bases), ("teacher", prepared.teachers)):
        values |= {f"{what} {Path(name).stem}": values_of(other.recipe) for name, other in others.items()}
    return values


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
        self.encoders: set[str] = set()  # those that were checked; recipes can share them
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

    def prepared(self, changes: dict[str, list[str]]) -> Prepared:
        """Return the recipe with its data, or raise an error. The changes are those of the initial parsers."""
        recipe, changes = self.recipe, dict(changes)
        self.check_tags(recipe, self.data)
        self.check_encoder(recipe.encoder)
        initial: dict[str, Recipe] = {}
        for name, source in sources_of(recipe.initial).items():
            place = f"initial.mix.{name}" if name else "initial"
            of_source = changes.pop(place, [])
            parser = self.check_source(source, f"[{place}]", of_source)
            if parser is not None:
                initial[name] = parser
            elif of_source and not self.faults:
                self.faults.append(f"--set {place}.{of_source[0]}: [{place}] does not name a recipe as parser.")
        self.faults += [f"--set {place}.{some[0]}: There is no [{place}]." for place, some in changes.items()]
        teachers, texts = self.teachers(), self.texts()
        if self.data is not None and recipe.segmenter.train == "always":
            if any(not sentence.format.is_ud for sentence in (*self.data.train, *self.data.dev)):
                self.faults.append(f"[segmenter] {no_text(self.data)}. Remove this section.")
        if self.data is None or self.faults:
            raise ConfigError("\n".join(dict.fromkeys(self.faults)))
        files = [path for source in sources_of(recipe.initial).values() for path in (*source.train, *source.dev)]
        checksums = self.data.checksums | checksums_of((*files, *recipe.teacher.texts))
        for teacher in teachers.values():
            checksums |= teacher.data.checksums
        data = replace(self.data, checksums=checksums)
        for name, parser in initial.items():  # initial parsers use the sentences and the seed of the recipe
            training = replace(parser.training, seed=recipe.training.seed)
            parser = replace(parser, treebank=recipe.treebank, training=training)
            initial[name] = completed(parser, data, is_main=False)
        return Prepared(completed(recipe, data), data, initial, self.bases, teachers, texts)

    def check_tags(self, recipe: Recipe, data: Data | None, place: str = "") -> None:
        """Check that the training set has the tags to read or predict; `place` names an inner recipe."""
        if data is None:
            return
        filled, tags = filled_columns(data.train), completed_tags(recipe.tags, data.train)
        missing = [column for column in tags.columns if column not in (*filled, *tags.given)]
        if missing and tags.source != "none":
            others = [column for column in COLUMNS if column in filled]
            hint = "Set tags.source=none" + (f", or tags.columns={json.dumps(others)}." if others else ".")
            self.faults.append(f"{place}[tags] {_no_value(missing)} {hint}")
        if lacking := [column for column in tags.given if column not in filled]:
            rest = json.dumps([column for column in tags.given if column in filled])
            self.faults.append(f"{place}[tags] given: {_no_value(lacking)} Set tags.given={rest}.")

    def check_encoder(self, settings: PretrainedSettings) -> None:
        """Check the encoder, model or recipe that training starts from."""
        name = self.attempt(expand, settings.start)
        if name is None or name in self.encoders:
            return
        self.encoders.add(name)
        if not name.endswith(".toml"):
            self.attempt(_check_start, name, settings)
            return
        for other in self.bases:  # each is trained in a folder with its name
            if Path(other).stem == Path(name).stem:
                self.faults.append(f"{name} and {other}: Two base recipes need different file names.")
        base = self.other_recipe(name, "base")
        if base is not None:
            self.bases[name] = base

    def other_recipe(self, name: str, what: str) -> Prepared | None:
        """Return the recipe of a base or of a teacher with its own data. It must not need other recipes."""
        recipe = self.inner_recipe(name, f"A {what} recipe must not have")
        if recipe is None:
            return None
        if base := base_of(recipe):
            why = f"A {what} recipe must start from an encoder or a model, not from another recipe. {_TRAIN_APART}"
            self.faults.append(f"{name}: {'The recipe fine-tunes itself.' if base == name else why}")
        else:
            self.check_encoder(recipe.encoder)
        data = self.attempt(load_data, recipe.treebank)
        self.check_tags(recipe, data, f"{name}: ")
        return None if data is None else Prepared(completed(recipe, data, is_main=False), data)

    def inner_recipe(self, name: str, must_not_have: str, changes: Sequence[str] = ()) -> Recipe | None:
        """Read a recipe that another one names. It must have no initial parser and no teachers."""
        recipe = self.attempt(read_recipe, name, changes)
        if recipe is not None and (recipe.initial.parser != EMPTY or recipe.initial.mix):
            self.faults.append(f"{name}: {must_not_have} an initial parser. {_TRAIN_APART}")
        if recipe is not None and recipe.teacher.names:
            self.faults.append(f"{name}: {must_not_have} teachers. {_TRAIN_APART}")
        return recipe

    def teachers(self) -> dict[str, Prepared]:
        """Check that the teachers exist and know the labels and tags of the training set; return those to train."""
        settings, teachers = self.recipe.teacher, dict[str, Prepared]()
        known: dict[str, tuple[Vocabulary, TagTraining | TagSettings]] = {}
        for name, model in ((name, self.attempt(_load, name)) for name in settings.models):
            if model is not None:
                known[name] = model.vocabulary, model.settings.tags
        for name in settings.recipes:
            path = self.attempt(expand, name)
            teacher = None if path is None else self.other_recipe(path, "teacher")
            if Path(name).stem in [Path(other).stem for other in teachers]:
                self.faults.append(f"[teacher] {name}: Two recipes of teachers need different file names.")
            elif path is not None and teacher is not None:
                teachers[path] = teacher
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

    def check_source(self, source: SourceSettings, place: str, changes: Sequence[str]) -> Recipe | None:
        """Check a source of initial parses. Return its recipe, with these changes, if a parser must be trained."""
        parser, data, folds, recipe = source.parser, self.data, source.folds, None
        if parser == FILES and data is not None:
            form = self.recipe.treebank.format or None
            self.attempt(parses_in_files, source.train, data.train, form)
            self.attempt(parses_in_files, source.dev, data.dev, form)
        name = None if parser in (EMPTY, FILES) else self.attempt(expand, parser)
        # OWNER/NAME is a model on the hub
        if name is not None and (name.endswith(".toml") or "/" not in name) and not Path(name).is_dir():
            # It is trained on the sentences of this recipe, so its own treebank is not read.
            recipe = self.inner_recipe(name, "The recipe of an initial parser must not have", changes)
            if recipe is not None:
                self.check_tags(recipe, data, f"{name}: ")
                self.check_encoder(recipe.encoder)
        elif name is not None:
            self.attempt(_load, name)
            if folds:
                self.faults.append(f"{place} folds = {folds} needs a recipe as parser, not the model {name}.")
        if folds and data is not None:
            longest = max(map(len, fold_ranges(len(data.train), folds)))
            if len(data.train) - longest < FEWEST or folds > len(data.train):
                self.faults.append(f"{place} folds = {folds} is too many for {len(data.train)} sentences.")
            base = self.bases.get(start := base_of(recipe))
            learned = {base.data.checksums[path] for path in base.recipe.treebank.train} if base is not None else ()
            if seen := [path for path in self.recipe.treebank.train if data.checksums[path] in learned]:
                why = f"the parsers fine-tune {start}, which is trained on {', '.join(seen)}"
                hint = "Remove that treebank from the base recipe, or set folds = 0."
                self.faults.append(f"{place} folds: {why}, so they would parse sentences that they have seen. {hint}")
        return recipe


def _load(name: str) -> ParserModel:
    return load_model(fetch(expand(name)))


def _no_value(columns: Sequence[str]) -> str:
    return f"No training word has a value in {' or '.join(map(str.upper, columns))}."


def _check_start(name: str, settings: PretrainedSettings) -> None:
    """Raise an error if training cannot start from this encoder or model."""
    folder = fetch(name)
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
    if (
        tags.source != their_tags.source
        or (columns and columns != their_tags.columns)
        or tags.given != their_tags.given
    ):
        return "The teacher has other tags. Use the same source, columns and given in [tags] for both."
    for what in ("labels", *columns):
        if odd := sorted(set(getattr(ours, what)) ^ set(getattr(theirs, what))):
            shown = f"{what}, such as {', '.join(odd[:3])}"
            return f"The teacher and the training set have different {shown}. Train both on one treebank."
    return ""
