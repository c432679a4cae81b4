"""Recipes: what to train, on what, and how. The defaults are the paper's Appendix A."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from treefine.config import (
    BiLSTMSettings,
    DecodeSettings,
    RelationSettings,
    ScorerSettings,
    TagSettings,
    read_settings,
)
from treefine.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found]

BUNDLED = Path(__file__).with_name("recipes")
EMPTY, FILES = "empty", "files"  # initial parsers that are no models


@dataclass(frozen=True, slots=True)
class TreebankSettings:
    """What to learn from, and what to choose the best epoch by."""

    train: tuple[str, ...]  # one file, or several that are learned together
    dev: str
    rule: Literal["conll18", "conllx", "ptb", "conll09"] = "conll18"  # by which dev is scored
    format: str = ""  # of the files; empty: told by their names

    def __post_init__(self) -> None:
        if not self.train:
            raise ValueError("train names no file")


@dataclass(frozen=True, slots=True)
class PretrainedSettings:
    """The pretrained transformer to start from."""

    folder: str  # of an encoder or of a model of treefine's, or OWNER/NAME on a hub
    family: Literal["pretrained"] = "pretrained"
    pieces: Literal["all", "cut"] = "all"  # cut: a word table of the treebank's pieces and the most frequent others
    n_frequent: int = 8000  # how many others


@dataclass(frozen=True, slots=True)
class InitialSettings:
    """G⁰: what refinement starts from (Sec. 4). Without shares, the training set has the parser's parses alone."""

    parser: str = EMPTY  # or a recipe to train first, or a model folder; "files" for those of train and dev
    folds: int = 0  # the training set's parses are made by so many parsers, none of which saw them; 0: by the parser
    train: str = ""  # a file with another parser's parses of all training sentences …
    dev: str = ""  # … and of the dev set
    empty_share: float = 0.0  # of the training sentences that start from no graph instead, drawn anew each epoch
    noised_share: float = 0.0  # … from a gold tree with errors put in
    noise: float = 0.15  # share of the words of such a tree whose arc is wrong

    def __post_init__(self) -> None:
        if self.empty_share + self.noised_share > 1:
            raise ValueError("empty_share and noised_share together are over 1")
        if self.noise > 1:
            raise ValueError(f"noise = {self.noise}; it must not be over 1")
        if self.folds == 1:
            raise ValueError("folds = 1 leaves nothing to train on; choose 0, or at least 2")
        if (self.parser == FILES) != bool(self.train and self.dev):
            raise ValueError('parser = "files" needs train and dev, and they need it')
        if self.folds and self.parser in (EMPTY, FILES):
            raise ValueError(f'folds = {self.folds} needs a parser that can be trained, not "{self.parser}"')


@dataclass(frozen=True, slots=True)
class RefineSettings:
    """The loop in training (Sec. 3.3)."""

    max_steps: int = 3  # T; the paper has 4 from an empty graph
    stop: bool = True  # a sentence that repeats its input leaves the loop
    update: Literal["each", "sum"] = "each"  # one update a step, or one for the sum of their losses

    def __post_init__(self) -> None:
        if self.max_steps < 1:
            raise ValueError("max_steps = 0; at least one step is needed")


@dataclass(frozen=True, slots=True)
class OptimiserSettings:
    """AdamW with two learning rates, which rise, then fall to zero at the last epoch (Appendix A)."""

    rate: float = 2e-3  # of all that is not pretrained
    encoder_rate: float = 1e-5  # of the pretrained encoder
    betas: tuple[float, ...] = (0.9, 0.999)
    eps: float = 1e-5
    weight_decay: float = 0.01
    clip: float = 1.0  # longest gradient; 0: any
    warm_up: float = 0.01  # share of the training in which the rates rise
    average: float = 0.0  # what a running mean of the weights keeps of itself at an update; 0: no mean

    def __post_init__(self) -> None:
        if len(self.betas) != 2 or max(self.betas) >= 1:
            raise ValueError("betas must be two numbers below 1")
        if self.average >= 1 or self.warm_up > 1:
            raise ValueError("average must be below 1, and warm_up not over 1")


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How long, in what batches, and with which seed."""

    epochs: int = 200
    patience: int = 100  # epochs without a better dev LAS after which to stop
    batch_pieces: int = 1000  # padding counted
    seed: int = 1
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # bfloat16 on a GPU
    dev_every: int = 1  # epochs
    checkpoint_minutes: float = 10.0  # written at the first end of an epoch after so long; 0: after every epoch

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_pieces", "dev_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = 0; it must be at least 1")


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that a training needs to be done again."""

    treebank: TreebankSettings
    encoder: PretrainedSettings | BiLSTMSettings
    relations: RelationSettings = field(default_factory=RelationSettings)
    tags: TagSettings = field(default_factory=TagSettings)
    scorer: ScorerSettings = field(default_factory=ScorerSettings)
    decode: DecodeSettings = field(default_factory=DecodeSettings)  # its root_label is the treebank's
    initial: InitialSettings = field(default_factory=InitialSettings)
    refine: RefineSettings = field(default_factory=RefineSettings)
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    title: str = ""

    def __post_init__(self) -> None:
        if self.relations.graph != "none":
            if isinstance(self.encoder, BiLSTMSettings):
                raise ValueError('a BiLSTM reads no graph: set graph = "none" in [relations]')
            return
        if self.refine.max_steps > 1:
            raise ValueError("a model that reads no graph takes one step: set max_steps = 1 in [refine]")
        if self.initial != InitialSettings():
            raise ValueError("a model that reads no graph has no initial parse: leave [initial] out")


def read_recipe(name: str | os.PathLike[str], changes: Sequence[str] = ()) -> Recipe:
    """The recipe of a TOML file, or the bundled one of that name, with `key=value` changes such as `training.seed=2`.

    All faults come in one report.
    """
    path = find_recipe(name)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"This is no TOML: {error}.", path=str(path)) from None
    for change in changes:
        _apply(values, change)
    if isinstance(values.get("decode"), dict) and "root_label" in values["decode"]:
        raise ConfigError("[decode] root_label is read from the treebank.", hint="Leave it out.", path=str(path))
    return read_settings(Recipe, values, path=str(path))


def find_recipe(name: str | os.PathLike[str]) -> Path:
    """The path of a recipe: a file, or the name of a bundled one."""
    path = Path(name)
    if path.is_file():
        return path
    bundled = BUNDLED / f"{path.name.removesuffix('.toml')}.toml"
    if path.parent == Path() and bundled.is_file():
        return bundled
    names = ", ".join(sorted(each.stem for each in BUNDLED.glob("*.toml")))
    raise ConfigError(f"There is no recipe {os.fspath(name)!r}.", hint=f"Name a TOML file, or one of {names}.")


def _apply(values: dict[str, Any], change: str) -> None:
    """Change one value; what is no TOML value is taken as a string."""
    key, equals, text = change.partition("=")
    if not equals or not re.fullmatch(r"\w+(\.\w+)*", key.strip()):
        raise ConfigError(f"{change!r} changes nothing.", hint="Write SECTION.KEY=VALUE, such as training.seed=2.")
    *sections, last = key.strip().split(".")
    for section in sections:
        inner = values.setdefault(section, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{change!r}: {section} is a value, not a section.")
        values = inner
    try:
        values[last] = tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        values[last] = text.strip()


def expand(path: str, environment: Mapping[str, str] = os.environ) -> str:
    """A path of a recipe with $NAMES replaced by environment variables.

    >>> expand("$TREEBANKS/tr_imst/dev.conllu", {"TREEBANKS": "ud"})
    'ud/tr_imst/dev.conllu'
    """

    def value(found: re.Match[str]) -> str:
        if found[1] not in environment:
            raise ConfigError(
                f"{path} needs the environment variable {found[1]}.",
                hint=f"Set it to the folder that is meant: {found[1]}=FOLDER treefine train …",
            )
        return environment[found[1]]

    return re.sub(r"\$(\w+)", value, path)
