"""Check everything that a recipe names before training: treebanks, encoders, base models, teachers, initial parsers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from treefine.config import COLUMNS, BiLSTMSettings, TagSettings
from treefine.errors import ConfigError, ModelError, TreefineError
from treefine.model.folder import fetch, is_model_folder, load_model
from treefine.model.hf_weights import load_encoder
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
    Draft,
    InitialSettings,
    MixedSettings,
    PretrainedSettings,
    Recipe,
    SegmenterTraining,
    TagTraining,
    TeacherSettings,
    TreebankSettings,
    expand,
    find_recipe,
    read_draft,
    split_changes,
    values_of,
)
from treefine.treebank.sentence import Sentence

_NO_BIAFFINE_BASE = "A biaffine model cannot be fine-tuned."
_TRAIN_APART = "Train it separately, and name its model folder."


@dataclass(frozen=True)
class Prepared:
    """A recipe with checked files."""

    recipe: Recipe
    data: Data
    initial: dict[str, Recipe] = field(
        default_factory=dict
    )  # recipes of initial parsers to train, by source; "" is the main one
    bases: dict[str, Prepared] = field(
        default_factory=dict
    )  # base models to train and fine-tune, by the name of their recipe
    teachers: dict[str, Prepared] = field(default_factory=dict)  # teachers to train, by the name of their recipe
    texts: tuple[str | Sentence, ...] = ()  # unlabelled sentences: lines of text, or words


def sources_of(settings: InitialSettings) -> dict[str, InitialSettings | MixedSettings]:
    """Return the sources of initial parses by name; the main initial parser has the name ""."""
    return {"": settings, **settings.mix}


def base_of(recipe: Recipe | None) -> str:
    """Return the name of the base recipe that a recipe fine-tunes, or ""."""
    if recipe is None or isinstance(recipe.encoder, BiLSTMSettings):
        return ""
    name = expand(recipe.encoder.fine_tune_from or "")
    return name if name.endswith(".toml") else ""


def settings_of(prepared: Prepared) -> dict[str, Any]:
    """Return all settings, including defaults, of the recipe, its initial parsers, its bases and its teachers."""
    values = {name: values_of(each) for name, each in prepared.initial.items()}
    main = values.pop("", None)
    mixed = {f"mixed {name}": each for name, each in values.items()}
    bases = {f"start {Path(name).stem}": values_of(each.recipe) for name, each in prepared.bases.items()}
    teachers = {f"teacher {Path(name).stem}": values_of(each.recipe) for name, each in prepared.teachers.items()}
    return {"recipe": values_of(prepared.recipe), "initial parser": main, **mixed, **bases, **teachers}


@dataclass
class _Findings:
    """The faults and base recipes found in a recipe and in the recipes that it names."""

    faults: list[str] = field(default_factory=list)
    bases: dict[str, Prepared] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)  # encoders and bases; recipes can share them

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Collect errors as faults."""
        try:
            yield
        except TreefineError as error:
            self.faults.append(str(error))
        except OSError as error:
            self.faults.append(f"{error.filename}: {error.strerror}." if error.filename else str(error))


def prepare(named: Recipe | str | os.PathLike[str], changes: Sequence[str] = ()) -> Prepared:
    """Check a recipe, given as a Recipe, a TOML file or the name of a bundled recipe, and the files that it names.

    Raises one error with a line for each fault.
    """
    own, inner_changes = split_changes(changes)
    draft = Draft(Path(), {}, named, []) if isinstance(named, Recipe) else read_draft(named, own)
    found = _Findings(list(draft.faults))
    treebank, initial = draft.section("treebank"), draft.section("initial")
    data = _check_treebank(treebank, found)
    _check_tags(draft.section("tags"), data, found)
    _check_encoder(draft.section("encoder"), found)
    recipes: dict[str, Recipe] = {}
    for name, source in sources_of(initial).items() if initial is not None else ():
        place = f"initial.mix.{name}" if name else "initial"
        own = inner_changes.pop(place, [])
        recipe = _check_source(source, treebank, data, found, place=f"[{place}]", changes=own)
        if recipe is not None:
            recipes[name] = recipe
        elif own and not found.faults:
            found.faults.append(f"--set {place}.{own[0]}: [{place}] does not name a recipe as parser.")
    if initial is not None:
        found.faults += [f"--set {place}.{each[0]}: There is no [{place}]." for place, each in inner_changes.items()]
    recipe = draft.recipe
    teachers = _check_teachers(draft.section("teacher"), draft.section("tags"), data, found)
    texts = _check_texts(draft.section("teacher"), draft.section("segmenter"), data, found)
    if recipe is not None and data is not None and recipe.segmenter.train == "always":
        if any(not sentence.format.is_ud for sentence in (*data.train, *data.dev)):
            found.faults.append(f"[segmenter] {no_text(data)}. Remove this section.")
    if recipe is None or data is None or found.faults:
        raise ConfigError("\n".join(dict.fromkeys(found.faults)))
    files = [path for each in sources_of(initial).values() for path in (*each.train, *each.dev)]
    data = replace(data, checksums=data.checksums | checksums_of((*files, *recipe.teacher.texts)))
    for teacher in teachers.values():
        data = replace(data, checksums=data.checksums | teacher.data.checksums)
    for name, each in recipes.items():  # initial parsers use the sentences and the seed of the recipe
        training = replace(each.training, seed=recipe.training.seed)
        recipes[name] = completed(replace(each, treebank=recipe.treebank, training=training), data, is_main=False)
    return Prepared(completed(recipe, data), data, recipes, found.bases, teachers, texts)


def _check_treebank(settings: TreebankSettings | None, found: _Findings) -> Data | None:
    if settings is not None:
        with found.reported():
            return load_data(settings)
    return None


def _check_tags(settings: TagTraining | None, data: Data | None, found: _Findings, *, path: str = "") -> None:
    """Check that the training set has the tags to read or predict; `path` names an inner recipe."""
    if settings is None or data is None:
        return
    tags, filled = completed_tags(settings, data.train), filled_columns(data.train)
    place = f"{path}: " if path else ""
    missing = [column.upper() for column in tags.columns if column not in (*filled, *tags.given)]
    if missing and tags.source != "none":
        others = f", or tags.columns={json.dumps([each for each in COLUMNS if each in filled])}" if filled else ""
        found.faults.append(
            f"{place}[tags] No training word has a value in {' or '.join(missing)}. Set tags.source=none{others}."
        )
    if lacking := [column.upper() for column in tags.given if column not in filled]:
        rest = json.dumps([column for column in tags.given if column in filled])
        found.faults.append(
            f"{place}[tags] given: No training word has a value in {' or '.join(lacking)}. Set tags.given={rest}."
        )


def _check_encoder(settings: PretrainedSettings | BiLSTMSettings | None, found: _Findings) -> None:
    """Check the encoder, model or recipe that training starts from."""
    if not isinstance(settings, PretrainedSettings):
        return
    with found.reported():
        name = expand(settings.start)
        if name in found.seen:
            return
        found.seen.add(name)
        if name.endswith(".toml"):
            _check_base(name, found)
            return
        folder = fetch(name)
        if not is_model_folder(folder):
            if settings.fine_tune_from is not None:
                hint = "Set pretrained, not fine_tune_from, in [encoder]."
                raise ModelError("This is an encoder, not a treefine model.", hint=hint, path=str(folder))
            load_encoder(folder)
            Subwords.from_folder(folder)
        elif isinstance(load_model(folder).settings.encoder, BiLSTMSettings):
            raise ModelError(_NO_BIAFFINE_BASE, path=str(folder))


def _check_base(name: str, found: _Findings) -> None:
    """Check the recipe of a base model."""
    draft = read_draft(name)
    found.faults.extend(draft.faults)
    for other in found.bases:  # each is trained in a folder with its name
        if Path(other).stem == Path(name).stem and not find_recipe(other).samefile(draft.path):
            found.faults.append(f"{name} and {other}: Two base recipes need different file names.")
    if isinstance(draft.section("encoder"), BiLSTMSettings):
        found.faults.append(f"{draft.path}: {_NO_BIAFFINE_BASE}")
    base = _check_inner(draft, found, "base")
    if base is not None:
        found.bases[name] = base


def _check_inner(draft: Draft, found: _Findings, what: str) -> Prepared | None:
    """Check the recipe of a base or of a teacher, its encoder and its treebanks. It must not need other recipes."""
    data = _check_treebank(draft.section("treebank"), found)
    _check_tags(draft.section("tags"), data, found, path=str(draft.path))
    encoder = draft.section("encoder")
    if isinstance(encoder, PretrainedSettings) and (inner := expand(encoder.start)).endswith(".toml"):
        is_same = Path(inner).is_file() and draft.path.samefile(inner)
        chain = f"A {what} recipe must start from an encoder or a model, not from another recipe. {_TRAIN_APART}"
        found.faults.append(f"{draft.path}: {'The recipe fine-tunes itself.' if is_same else chain}")
    else:
        _check_encoder(encoder, found)
    _check_no_initial(draft, found, f"A {what} recipe must not have an initial parser.")
    _check_no_teachers(draft, found, f"A {what} recipe must not have teachers.")
    if draft.recipe is None or data is None:
        return None
    return Prepared(completed(draft.recipe, data, is_main=False), data)


def _check_teachers(
    settings: TeacherSettings | None, tags: TagTraining | None, data: Data | None, found: _Findings
) -> dict[str, Prepared]:
    """Check that the teachers exist and know the labels and tags of the training set; return those to train."""
    teachers: dict[str, Prepared] = {}
    known: dict[str, tuple[Vocabulary, TagTraining | TagSettings]] = {}  # by the name in the recipe
    for name in settings.models if settings is not None else ():
        with found.reported():
            model = load_model(fetch(expand(name)))
            known[name] = model.vocabulary, model.settings.tags
    for name in settings.recipes if settings is not None else ():
        with found.reported():
            draft = read_draft(expand(name))
            found.faults.extend(draft.faults)
            if draft.path.stem in [Path(other).stem for other in teachers]:
                found.faults.append(f"[teacher] {name}: Two recipes of teachers need different file names.")
            teacher = _check_inner(draft, found, "teacher")
            if teacher is not None:
                teachers[str(draft.path)] = teacher
                known[name] = Vocabulary.of_treebank(teacher.data.train), teacher.recipe.tags
    if known and data is not None and tags is not None:
        ours, own = Vocabulary.of_treebank(data.train), completed_tags(tags, data.train)
        wrong = {name: _misfit(ours, own, *theirs) for name, theirs in known.items()}
        found.faults += [f"[teacher] {name}: {why}" for name, why in wrong.items() if why]
    return teachers


def _misfit(ours: Vocabulary, tags: TagTraining, theirs: Vocabulary, their_tags: TagTraining | TagSettings) -> str:
    """Return why a model cannot learn from a teacher, or an empty string if it can."""
    if tags.source != their_tags.source or (tags.source != "none" and tags.columns != their_tags.columns):
        return "The teacher has other tags. Use the same source and columns in [tags] for both."
    if set(tags.given) != set(their_tags.given):
        return "The teacher reads other tags of its input. Use the same given in [tags] for both."
    pairs = {"labels": (ours.labels, theirs.labels)}
    if tags.source != "none":
        pairs |= {f"{column.upper()} tags": (ours.tags(column), theirs.tags(column)) for column in tags.columns}
    for what, (own, other) in pairs.items():
        if own != other:
            odd = ", ".join(sorted(set(own) ^ set(other))[:3])
            return f"The teacher and the training set have different {what}, such as {odd}. Train both on one treebank."
    return ""


def _check_texts(
    settings: TeacherSettings | None, segmenter: SegmenterTraining | None, data: Data | None, found: _Findings
) -> tuple[str | Sentence, ...]:
    """Return the unlabelled sentences; only a segmenter can divide text into words."""
    if settings is None:
        return ()
    plain = [path for path in settings.texts if is_plain_text(path)]
    if plain and segmenter is not None and data is not None:
        why = "segmenter.train is never" if segmenter.train == "never" else no_text(data)
        if why:
            fault = f"{plain[0]}: Text needs the segmenter of this training, but {why}."
            found.faults.append(f"[teacher] {fault} Name a treebank file, whose words are used.")
    with found.reported():
        return load_texts(settings)
    return ()


def _check_source(
    settings: InitialSettings | MixedSettings,
    treebank: TreebankSettings | None,
    data: Data | None,
    found: _Findings,
    *,
    place: str,
    changes: Sequence[str],
) -> Recipe | None:
    """Check a source of initial parses. Return its recipe, with these changes, if a parser must be trained."""
    recipe = None
    if settings.parser == FILES and data is not None:
        form = None if treebank is None else treebank.format or None
        for paths, sentences in ((settings.train, data.train), (settings.dev, data.dev)):
            with found.reported():
                parses_in_files(paths, sentences, form)
    if settings.parser not in (EMPTY, FILES):
        with found.reported():
            name = expand(settings.parser)
            may_be_recipe = name.endswith(".toml") or "/" not in name  # OWNER/NAME is a model on the hub
            if may_be_recipe and not Path(name).is_dir():
                recipe = _check_recipe(read_draft(name, changes), data, found)
            else:
                load_model(fetch(name))
                if settings.folds:
                    fault = f"{place} folds = {settings.folds} needs a recipe as parser, not the model {name}."
                    found.faults.append(fault)
    if settings.folds and data is not None:
        longest = max(len(fold) for fold in fold_ranges(len(data.train), settings.folds))
        if len(data.train) - longest < FEWEST or settings.folds > len(data.train):
            found.faults.append(f"{place} folds = {settings.folds} is too many for {len(data.train)} sentences.")
        if treebank is not None:
            with found.reported():
                _check_unseen(treebank, data, found.bases.get(base_of(recipe)), base_of(recipe), place=place)
    return recipe


def _check_recipe(draft: Draft, data: Data | None, found: _Findings) -> Recipe | None:
    """Check the recipe of an initial parser. It is trained on `data`, so its own treebank is not read."""
    found.faults.extend(draft.faults)
    _check_tags(draft.section("tags"), data, found, path=str(draft.path))
    _check_encoder(draft.section("encoder"), found)
    _check_no_initial(draft, found, "The recipe of an initial parser must not have an initial parser itself.")
    _check_no_teachers(draft, found, "The recipe of an initial parser must not have teachers.")
    return draft.recipe


def _check_no_initial(draft: Draft, found: _Findings, fault: str) -> None:
    initial = draft.section("initial")
    if initial is not None and (initial.parser != EMPTY or initial.mix):
        found.faults.append(f"{draft.path}: {fault} {_TRAIN_APART}")


def _check_no_teachers(draft: Draft, found: _Findings, fault: str) -> None:
    teacher = draft.section("teacher")
    if teacher is not None and teacher.names:
        found.faults.append(f"{draft.path}: {fault} {_TRAIN_APART}")


def _check_unseen(treebank: TreebankSettings, data: Data, base: Prepared | None, name: str, *, place: str) -> None:
    """Raise an error if the base of the fold parsers was trained on sentences that they will parse."""
    if base is None:
        return
    learned = {sentence.forms for sentence in base.data.train}

    def is_seen(path: str) -> bool:  # compares words, because the file may be compressed, split or joined
        own = [sentence.forms in learned for sentence in data.train if sentence.path == expand(path)]
        return sum(own) > len(own) / 2  # different treebanks can share short sentences

    seen = [path for path in treebank.train if is_seen(path)]
    if seen:
        raise ConfigError(
            f"{place} folds: the parsers fine-tune {name}, which is trained on {', '.join(seen)}, "
            "so they would parse sentences that they have seen.",
            hint="Remove that treebank from the base recipe, or set folds = 0.",
        )
