"""All that a recipe names, found and looked over before any work starts: treebanks, encoders, the initial parser."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from treefine.config import BiLSTMSettings, TagSettings
from treefine.errors import ConfigError, ModelError, TreefineError
from treefine.model.folder import fetch, is_model_folder, load_model
from treefine.model.hf_weights import load_encoder
from treefine.model.subwords import Subwords
from treefine.parsing.initial import from_file
from treefine.training.data import FEWEST, Data, checksums_of, filled_columns, load_data
from treefine.training.initial_parses import blocks
from treefine.training.recipe import (
    EMPTY,
    FILES,
    Draft,
    InitialSettings,
    MixedSettings,
    PretrainedSettings,
    Recipe,
    TreebankSettings,
    expand,
    find_recipe,
    read_draft,
    values_of,
)

_NO_START = "A biaffine model cannot go on learning on another treebank."
_ONE_START = "A recipe to go on from must start from an encoder or a model, not from a third recipe."
_TRAIN_APART = "Train it apart, and name its folder."


@dataclass(frozen=True)
class Prepared:
    """A recipe whose files were found fit."""

    recipe: Recipe
    data: Data
    initial: Recipe | None  # of the initial parser, where one is to be trained
    mixed: dict[str, Recipe] = field(default_factory=dict)  # of those that are mixed in, likewise, by name
    starts: dict[str, Prepared] = field(default_factory=dict)  # recipes whose models these go on from, by name


@dataclass
class _Findings:
    """What was found on the way through a recipe and those that it names."""

    faults: list[str] = field(default_factory=list)
    starts: dict[str, Prepared] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)  # encoders and starts; two recipes may name the same

    @contextmanager
    def told(self) -> Iterator[None]:
        """Add what goes wrong within to the faults."""
        try:
            yield
        except TreefineError as error:
            self.faults.append(str(error))
        except OSError as error:
            self.faults.append(f"{error.filename}: {error.strerror}." if error.filename else str(error))

    def error(self) -> ConfigError:
        """All faults, each of them once."""
        return ConfigError("\n".join(dict.fromkeys(self.faults)))


def prepare(name: str | os.PathLike[str], changes: Sequence[str] = ()) -> Prepared:
    """The recipe of a file, or the bundled one of that name, and what it names.

    All faults of the recipe and of its files come in one report, a line each.
    """
    draft = read_draft(name, changes)
    if draft.recipe is not None:
        return prepare_recipe(draft.recipe)
    found = _Findings(list(draft.faults))
    treebank, encoder, tags, initial = map(draft.section, ("treebank", "encoder", "tags", "initial"))
    _look_over(treebank, encoder, tags, initial, found)
    raise found.error()


def prepare_recipe(recipe: Recipe) -> Prepared:
    """A recipe and what it names. All faults of its files come in one report, a line each."""
    found = _Findings()
    data, inner = _look_over(recipe.treebank, recipe.encoder, recipe.tags, recipe.initial, found)
    if recipe.segmenter is not None and data is not None:
        _look_over_text(data, found)
    if found.faults or data is None:
        raise found.error()
    sources = sources_of(recipe.initial).values()
    files = [path for each in sources if each.parser == FILES for path in (each.train, each.dev)]
    data = replace(data, checksums=data.checksums | checksums_of(files))
    for name, each in inner.items():  # they learn from the same sentences, and by the same seed
        settings = replace(each.training, seed=recipe.training.seed)
        inner[name] = replace(each, treebank=recipe.treebank, training=settings)
    return Prepared(recipe, data, inner.pop("", None), inner, found.starts)


def sources_of(settings: InitialSettings) -> dict[str, InitialSettings | MixedSettings]:
    """The initial parser, which has no name, and those that are mixed in, by theirs."""
    return {"": settings, **settings.mix}


def settings_of(prepared: Prepared) -> dict[str, Any]:
    """All settings, defaults included: the recipe's, its initial parsers', and those of what they go on from."""
    initial = None if prepared.initial is None else values_of(prepared.initial)
    mixed = {f"mixed {name}": values_of(each) for name, each in prepared.mixed.items()}
    starts = {f"start {Path(name).stem}": values_of(each.recipe) for name, each in prepared.starts.items()}
    return {"recipe": values_of(prepared.recipe), "initial parser": initial, **mixed, **starts}


def start_of(recipe: Recipe | None) -> str:
    """The recipe that a recipe goes on from, or nothing."""
    return "" if recipe is None else _start_of(recipe.encoder)


def _start_of(encoder: PretrainedSettings | BiLSTMSettings | None) -> str:
    name = expand(encoder.folder) if isinstance(encoder, PretrainedSettings) else ""
    return name if name.endswith(".toml") else ""


def _look_over(
    treebank: TreebankSettings | None,
    encoder: PretrainedSettings | BiLSTMSettings | None,
    tags: TagSettings | None,
    initial: InitialSettings | None,
    found: _Findings,
) -> tuple[Data | None, dict[str, Recipe]]:
    """The treebanks, and the recipes of initial parsers by source. Sections with faults of their own are None."""
    data = _look_over_treebank(treebank, found)
    _look_over_tags(tags, data, found)
    _look_over_encoder(encoder, found)
    form = None if treebank is None else treebank.format or None
    recipes: dict[str, Recipe] = {}
    for name, source in sources_of(initial).items() if initial is not None else ():
        place = f"[initial.mix.{name}]" if name else "[initial]"
        recipe = _look_over_source(source, data, form, found, place=place)
        if treebank is not None and data is not None and source.folds:
            with found.told():
                _check_unseen(treebank, data, recipe, found.starts, place=place)
        if recipe is not None:
            recipes[name] = recipe
    return data, recipes


def _look_over_treebank(settings: TreebankSettings | None, found: _Findings) -> Data | None:
    if settings is not None:
        with found.told():
            return load_data(settings)
    return None


def _look_over_tags(settings: TagSettings | None, data: Data | None, found: _Findings, *, path: str = "") -> None:
    """Refuse to read or predict tags of which the training set has none; `path` is that of an inner recipe."""
    if settings is None or data is None or settings.source == "none":
        return
    filled = filled_columns(data.train)
    missing = [column.upper() for column in settings.columns if column not in filled]
    if missing:
        others = f", or tags.columns={json.dumps(sorted(filled))}" if filled else ""
        place = f"{path}: " if path else ""
        found.faults.append(
            f"{place}[tags] No word to learn from has a tag in {' or '.join(missing)}. Set tags.source=none{others}."
        )


def _look_over_text(data: Data, found: _Findings) -> None:
    """Refuse to train a segmenter on files that cannot say where their text has no space."""
    others = {sentence.format.title for sentence in (*data.train, *data.dev) if not sentence.format.is_ud}
    for title in sorted(others):
        found.faults.append(f"[segmenter] {title} does not say where words follow without a space. Leave it out.")


def _look_over_encoder(settings: PretrainedSettings | BiLSTMSettings | None, found: _Findings) -> None:
    """The encoder that a model starts from, or the recipe, which has a treebank of its own."""
    if not isinstance(settings, PretrainedSettings):
        return
    with found.told():
        name = expand(settings.folder)
        if name in found.seen:
            return
        found.seen.add(name)
        if _start_of(settings):
            _look_over_start(name, found)
        else:
            _check_encoder(fetch(name))


def _check_encoder(folder: Path) -> None:
    if not is_model_folder(folder):
        load_encoder(folder)
        Subwords.from_folder(folder)
    elif isinstance(load_model(folder).settings.encoder, BiLSTMSettings):
        raise ModelError(_NO_START, path=str(folder))


def _look_over_start(name: str, found: _Findings) -> None:
    """A recipe to train first, and all that it names: an encoder and treebanks, but no further recipe."""
    draft = read_draft(name)
    found.faults.extend(draft.faults)
    for other in found.starts:  # each is trained in a folder that has its name
        if Path(other).stem == Path(name).stem and not find_recipe(other).samefile(draft.path):
            found.faults.append(f"{name} and {other}: Two recipes to go on from need different names.")
    data = _look_over_treebank(draft.section("treebank"), found)
    _look_over_tags(draft.section("tags"), data, found, path=str(draft.path))
    encoder, initial = draft.section("encoder"), draft.section("initial")
    if isinstance(encoder, BiLSTMSettings):
        found.faults.append(f"{draft.path}: {_NO_START}")
    elif inner := _start_of(encoder):
        is_same = Path(inner).is_file() and draft.path.samefile(inner)
        wrong = "The recipe goes on from itself." if is_same else f"{_ONE_START} {_TRAIN_APART}"
        found.faults.append(f"{draft.path}: {wrong}")
    else:
        _look_over_encoder(encoder, found)
    if initial is not None and (initial.parser != EMPTY or initial.mix):
        found.faults.append(f"{draft.path}: A model to go on from has no initial parser. {_TRAIN_APART}")
    if draft.recipe is not None and data is not None:
        found.starts[name] = Prepared(draft.recipe, data, None)


def _look_over_source(
    settings: InitialSettings | MixedSettings, data: Data | None, form: str | None, found: _Findings, *, place: str
) -> Recipe | None:
    """The recipe of an initial parser, if it is to be trained. Files of parses have the treebank's format `form`."""
    inner = None
    if settings.parser == FILES and data is not None:
        for path, sentences in ((settings.train, data.train), (settings.dev, data.dev)):
            with found.told():
                for _ in from_file(expand(path), format=form)(sentences):
                    pass
    if settings.parser not in (EMPTY, FILES):
        with found.told():
            name = expand(settings.parser)
            if _is_recipe(name):
                inner = _look_over_recipe(read_draft(name), data, found)
            else:
                load_model(fetch(name))
                if settings.folds:
                    fault = f"{place} folds = {settings.folds} needs a recipe to train, not the model {name}."
                    found.faults.append(fault)
    if settings.folds and data is not None:
        rest = len(data.train) - max(len(block) for block in blocks(len(data.train), settings.folds))
        if rest < FEWEST or settings.folds > len(data.train):
            found.faults.append(f"{place} folds = {settings.folds} is too many for {len(data.train)} sentences.")
    return inner


def _is_recipe(name: str) -> bool:
    """Whether an initial parser is a recipe, and not a model folder or OWNER/NAME on a hub."""
    return not Path(name).is_dir() and (name.endswith(".toml") or "/" not in name)


def _look_over_recipe(draft: Draft, data: Data | None, found: _Findings) -> Recipe | None:
    """The recipe of an initial parser; of its files only the encoder is used, and its sentences are the data."""
    found.faults.extend(draft.faults)
    _look_over_tags(draft.section("tags"), data, found, path=str(draft.path))
    _look_over_encoder(draft.section("encoder"), found)
    initial = draft.section("initial")
    if initial is not None and (initial.parser != EMPTY or initial.mix):
        found.faults.append(f"{draft.path}: An initial parser has none of its own. {_TRAIN_APART}")
    return draft.recipe


def _check_unseen(
    treebank: TreebankSettings, data: Data, inner: Recipe | None, starts: Mapping[str, Prepared], *, place: str
) -> None:
    """Refuse parsers of folds that go on from a model which has learned from the very sentences they will parse."""
    start = starts.get(start_of(inner))
    if start is None:
        return
    learned = {sentence.forms for sentence in start.data.train}

    def is_seen(path: str) -> bool:  # by its words: the file may be packed, cut or joined otherwise there
        own = [sentence.forms in learned for sentence in data.train if sentence.path == expand(path)]
        return sum(own) > len(own) / 2  # different treebanks share a short sentence now and then

    seen = [path for path in treebank.train if is_seen(path)]
    if seen:
        raise ConfigError(
            f"{place} folds: the parsers go on from {start_of(inner)}, which has learned from {', '.join(seen)}, "
            "so they have seen what they are to parse.",
            hint="Leave that treebank out there, or set folds = 0.",
        )
