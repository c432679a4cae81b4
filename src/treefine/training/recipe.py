"""Recipes: what to train, on what, and how. The defaults are the paper's Appendix A."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_type_hints

from treefine.config import (
    BiLSTMSettings,
    DecodeSettings,
    RelationSettings,
    ScorerSettings,
    SegmenterSettings,
    TagSettings,
    current_names,
    renamed_from,
    try_settings,
)
from treefine.errors import ConfigError
from treefine.treebank.formats import FORMATS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found]

EMPTY, FILES = "empty", "files"  # initial parsers that are no models
_STARTS = {"pretrained", "fine_tune_from"}
BUNDLED_RECIPES = Path(__file__).with_name("recipes")


def _check(*claims: tuple[bool, str]) -> None:
    """Raise one error with the message of every claim that does not hold."""
    faults = [fault for holds, fault in claims if not holds]
    if faults:
        raise ValueError(*faults)


@dataclass(frozen=True, slots=True)
class TreebankSettings:
    """What to learn from, and what to choose the best epoch by."""

    train: tuple[str, ...]  # one or several files
    dev: str
    rule: Literal["conll18", "conllx", "ptb", "conll09"] = "conll18"  # for the dev scores
    format: str = ""  # of all files, including initial parses; empty: by their names

    def __post_init__(self) -> None:
        _check(
            (bool(self.train) and all(self.train), "train names no file"),
            (bool(self.dev), "dev names no file"),
            ("-" not in (*self.train, self.dev), "standard input cannot be read again and again; name a file"),
            (
                self.format in ("", *FORMATS),
                f"format = {json.dumps(self.format)}; choose one of {', '.join(FORMATS)}, or leave it out",
            ),
        )


def _is_encoder(folder: object) -> bool:
    """Return whether `folder`, a setting of older recipes, names an encoder and not a treefine model or a recipe."""
    if not isinstance(folder, str):
        return True
    try:
        config = json.loads(Path(expand(folder), "config.json").read_bytes())
    except (OSError, ValueError, ConfigError):  # it is on a hub, or does not exist
        return not folder.endswith(".toml")
    return not (isinstance(config, dict) and "format" in config and "encoder" in config)


@dataclass(frozen=True, slots=True)
class PretrainedSettings:
    """The pretrained encoder to start from, or the trained model to fine-tune."""

    pretrained: str | None = renamed_from("folder", None, takes=_is_encoder)  # an encoder: its folder, or name on a hub
    fine_tune_from: str | None = renamed_from("folder", None)  # or a treefine model, or a recipe that is trained first
    family: Literal["pretrained"] = "pretrained"
    pieces: Literal["all", "cut"] = "all"  # cut: keep only the treebank's pieces and the most frequent other ones
    n_frequent: int = 8000  # number of other pieces that cut keeps

    def __post_init__(self) -> None:
        given = [each for each in (self.pretrained, self.fine_tune_from) if each is not None]
        _check(
            (len(given) == 1, "set either pretrained (an encoder) or fine_tune_from (a treefine model or a recipe)"),
            (self.pretrained != "", "pretrained is empty; name the folder of an encoder, or its name on a hub"),
            (self.fine_tune_from != "", "fine_tune_from is empty; name a treefine model or a recipe"),
            (
                not (self.pretrained or "").endswith(".toml"),
                "pretrained names a recipe; set fine_tune_from to it instead",
            ),
        )

    @property
    def start(self) -> str:
        """The encoder, model or recipe that training starts from."""
        return self.pretrained or self.fine_tune_from or ""


@dataclass(frozen=True, slots=True)
class MixedSettings:
    """Another source of G⁰, for a share of the training sentences."""

    parser: str  # as in [initial]: "empty", a recipe to train first, a model folder, or "files"
    share: float  # of the training sentences, drawn again in each epoch
    folds: int = 0  # as in [initial], for a recipe
    train: str = ""  # as in [initial], for files
    dev: str = ""

    def __post_init__(self) -> None:
        claims = _source_claims(self.parser, self.folds, self.train, self.dev)
        _check(*claims, (self.share > 0, "share = 0 is no share; leave this source out"))


@dataclass(frozen=True, slots=True)
class InitialSettings:
    """G⁰, the initial graphs. Without shares, all are made by the parser."""

    parser: str = EMPTY  # or a recipe to train first, or a model folder; "files" for those of train and dev
    folds: int = 0  # number of parsers for the training set, each trained on the other folds; 0: one parser for all
    train: str = ""  # a file with another parser's parses of all training sentences …
    dev: str = ""  # … and of the dev set
    empty_share: float = 0.0  # of the training sentences whose initial graph is empty, drawn again in each epoch
    noised_share: float = 0.0  # … whose initial graph is the gold tree with errors
    noise: float = 0.15  # share of the words of such a tree that have a wrong arc
    mix: dict[str, MixedSettings] = field(default_factory=dict)  # by their names: the metrics and folders have these

    def __post_init__(self) -> None:
        shares = (self.empty_share, self.noised_share, *(each.share for each in self.mix.values()))
        among = "empty_share, noised_share and the shares in mix" if self.mix else "empty_share and noised_share"
        odd = [name for name in self.mix if not re.fullmatch(r"[A-Za-z0-9_]+", name)]
        _check(
            *_source_claims(self.parser, self.folds, self.train, self.dev),
            (round(sum(shares), 9) <= 1, f"{among} together are over 1"),  # 0.2 + 0.4 + 0.3 + 0.1 is a bit more
            (self.noise <= 1, f"noise = {self.noise}; it must not be over 1"),
            (not odd, "a name in mix has letters from a to z, digits and _ alone"),
            (self.name not in self.mix, f"mix.{self.name} is what parser is called; choose another name"),
        )

    @property
    def name(self) -> str:
        """What the source of all other sentences is called beside those of the mix."""
        return EMPTY if self.parser == EMPTY else "parser"


def _source_claims(parser: str, folds: int, train: str, dev: str) -> list[tuple[bool, str]]:
    """What must hold of any source of initial parses."""
    files = [name for name, each in (("train", train), ("dev", dev)) if each]
    needed = ["train", "dev"] if parser == FILES else []
    can_fold = parser not in (EMPTY, FILES)
    return [
        (bool(parser), f'parser names nothing; choose "{EMPTY}", "{FILES}", a recipe or a model folder'),
        (folds != 1, "folds = 1 leaves nothing to train on; choose 0, or at least 2"),
        (files == needed, 'parser = "files" needs train and dev, and they need it'),
        (not folds or can_fold, f'folds = {folds} needs a recipe as parser, not "{parser}"'),
    ]


@dataclass(frozen=True, slots=True)
class RefineSettings:
    """The loop in training (Sec. 3.3)."""

    max_steps: int = 3  # T; the paper has 4 from an empty graph
    stop: bool = True  # sentences whose graph no longer changes leave the loop
    update: Literal["each", "sum"] = "each"  # one update per step, or one for the sum of the losses

    def __post_init__(self) -> None:
        _check((self.max_steps > 0, "max_steps = 0; at least one step is needed"))


@dataclass(frozen=True, slots=True)
class OptimiserSettings:
    """AdamW with two learning rates, which rise, then fall to zero at the last epoch (Appendix A)."""

    learning_rate: float = renamed_from("rate", 2e-3)  # highest learning rate of all weights that are not pretrained
    encoder_learning_rate: float = renamed_from("encoder_rate", 1e-5)  # highest learning rate of the pretrained encoder
    betas: tuple[float, ...] = (0.9, 0.999)
    eps: float = 1e-5
    weight_decay: float = 0.01
    clip_gradient_norm: float = renamed_from("clip", 1.0)  # scale longer gradients down to this norm; 0: never
    warmup: float = renamed_from("warm_up", 0.01)  # share of the training in which the learning rates rise from 0
    ema: float = renamed_from("average", 0.0)  # decay of an exponential moving average of the weights; 0: no average

    def __post_init__(self) -> None:
        _check(
            (len(self.betas) == 2 and max(self.betas) < 1, "betas must be two numbers below 1"),
            (self.ema < 1, f"ema = {self.ema}; it must be below 1"),
            (self.warmup <= 1, f"warmup = {self.warmup}; it must not be over 1"),
        )


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How long, in what batches, and with which seed."""

    epochs: int = 200
    patience: int = 100  # early stopping after more epochs than this without a better dev LAS
    batch_pieces: int = 1000  # in a batch, including padding
    masking: float = renamed_from("hidden", 0.0)  # share of the pieces (BiLSTM: words) that are masked in training
    given_tags: float = 0.0  # share of the sentences with given tags, in all columns or one, if tags are predicted
    seed: int = 1
    weight_averaging: int = renamed_from("members", 1)  # number of models to train and to average the weights of
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # bfloat16 on a GPU
    dev_every: int = 1  # epochs
    checkpoint_minutes: float = 10.0  # least time between two checkpoints, written after an epoch; 0: after every epoch

    def __post_init__(self) -> None:
        counts = ("epochs", "batch_pieces", "weight_averaging", "dev_every")
        _check(
            *((getattr(self, name) > 0, f"{name} = 0; it must be at least 1") for name in counts),
            (self.masking < 1, f"masking = {self.masking}; it must be below 1"),
            (self.given_tags <= 1, f"given_tags = {self.given_tags}; it must not be over 1"),
        )


@dataclass(frozen=True, slots=True)
class SegmenterTraining:
    """How a segmenter is trained on the text of the treebank; what has a share is drawn anew each epoch."""

    network: SegmenterSettings = field(default_factory=SegmenterSettings)
    epochs: int = 40
    learning_rate: float = renamed_from("rate", 2e-3)
    window: int = 640  # characters that are read together
    batch_windows: int = 32  # fewer suit a small treebank: it needs some thousand updates
    weight_decay: float = 0.01
    ema: float = renamed_from("average", 0.995)  # decay of an exponential moving average of the weights
    masking: float = renamed_from("hidden", 0.05)  # share of the characters that are masked; twice as many runs are
    joined: float = 0.1  # share of the documents that no blank line parts from the next
    shuffled: float = 0.5  # share of the documents whose sentences stand in another order
    wrapped: float = 0.1  # share of the documents that have lines of some width …
    lines: float = 0.05  # … or a sentence a line
    lowered: float = 0.05  # share of the sentences in small letters
    unpointed: float = 0.05  # share of the sentences without their last full stop

    def __post_init__(self) -> None:
        counts, shares = ("epochs", "window", "batch_windows"), ("joined", "shuffled", "lowered", "unpointed")
        _check(
            *((getattr(self, name) > 0, f"{name} = 0; it must be at least 1") for name in counts),
            *((getattr(self, name) <= 1, f"{name} = {getattr(self, name)}; it must not be over 1") for name in shares),
            (self.wrapped + self.lines <= 1, "wrapped and lines together are over 1"),
            (self.masking < 0.5, f"masking = {self.masking}; it must be below 0.5"),
            (self.ema < 1, f"ema = {self.ema}; it must be below 1"),
        )


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
    segmenter: SegmenterTraining | None = None  # without the section none is trained
    title: str = ""

    def __post_init__(self) -> None:
        is_bilstm = isinstance(self.encoder, BiLSTMSettings)
        has_graph = self.relations.graph != "none"
        refines = has_graph and not is_bilstm
        _check(
            (not (is_bilstm and has_graph), 'a BiLSTM reads no graph: set graph = "none" in [relations]'),
            (
                refines or self.refine.max_steps == 1,
                "a model that reads no graph takes one step: set max_steps = 1 in [refine]",
            ),
            (
                refines or self.initial == InitialSettings(),
                "a model that reads no graph has no initial parse: leave [initial] out",
            ),
            (
                not self.training.given_tags or self.tags.source == "predicted",
                'given_tags needs tags that are predicted: set source = "predicted" in [tags]',
            ),
        )


def values_of(recipe: Recipe) -> dict[str, Any]:
    """All settings by section and key. Other recipes are named without their folders, as where they lie beside it."""
    values = asdict(recipe)
    for inner, key in _naming_recipes(values):
        if inner[key].endswith(".toml"):
            inner[key] = Path(inner[key]).name
    return values


def _naming_recipes(values: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """The sections and keys that may name another recipe, where they are strings."""
    initial = values.get("initial")
    mix = initial.get("mix") if isinstance(initial, dict) else None
    sources = [initial, *(mix.values() if isinstance(mix, dict) else ())]
    for section, key in ((values.get("encoder"), "fine_tune_from"), *((each, "parser") for each in sources)):
        if isinstance(section, dict) and isinstance(section.get(key), str):
            yield section, key


@dataclass(frozen=True)
class Draft:
    """What a recipe's file says, with the changes of a command; it may have faults."""

    path: Path
    values: dict[str, Any]
    recipe: Recipe | None  # None with faults
    faults: list[str]  # a line each, with the file

    def section(self, name: str) -> Any:
        """Return the settings of one section, or None if the section itself has a fault."""
        if self.recipe is not None:
            return getattr(self.recipe, name)
        kind = get_type_hints(Recipe)[name]
        return try_settings(kind, self.values.get(name, {}))[0]


def read_recipe(name: str | os.PathLike[str], changes: Sequence[str] = ()) -> Recipe:
    """The recipe of a TOML file, or the bundled one of that name, with `key=value` changes such as `training.seed=2`.

    All faults come in one report, a line each.
    """
    draft = read_draft(name, changes)
    if draft.recipe is None:
        raise ConfigError("\n".join(draft.faults))
    return draft.recipe


def read_draft(name: str | os.PathLike[str], changes: Sequence[str] = ()) -> Draft:
    """A recipe, or all that is wrong with it. Only a file that is no TOML at all is an error."""
    path = find_recipe(name)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{error.strerror or error}.", path=str(path)) from None
    except (ValueError, RecursionError) as error:  # also numbers too long for Python, and lists in lists in lists
        raise ConfigError(f"This is no TOML: {error}.", path=str(path)) from None
    renamed = current_names(Recipe, values)
    renamed.warn(str(path))
    values = renamed.values
    _find_beside(path, values)
    not_applied = _apply(values, changes)
    if isinstance(encoder := values.get("encoder"), dict) and not _STARTS.isdisjoint(encoder):
        encoder.setdefault("family", "pretrained")  # a BiLSTM has neither
    recipe, faults = try_settings(Recipe, values)
    faults = renamed.faults + faults
    if isinstance(values.get("decode"), dict) and "root_label" in values["decode"]:
        faults.append("[decode] root_label is read from the treebank; leave it out")
    told = [*not_applied, *(f"{path}: {fault}{'' if fault.endswith('?') else '.'}" for fault in faults)]
    return Draft(path, values, None if told else recipe, told)


def find_recipe(name: str | os.PathLike[str]) -> Path:
    """The path of a recipe: a file, or the name of a bundled one."""
    path = Path(name)
    if path.is_file():
        return path
    bundled = BUNDLED_RECIPES / f"{path.name.removesuffix('.toml')}.toml"
    if path.parent == Path() and bundled.is_file():
        return bundled
    names = ", ".join(sorted(each.stem for each in BUNDLED_RECIPES.glob("*.toml")))
    raise ConfigError(f"There is no recipe {os.fspath(name)!r}.", hint=f"Name a TOML file, or one of {names}.")


def _find_beside(path: Path, values: dict[str, Any]) -> None:
    """Turn the names of recipes that lie beside this one into paths from here."""
    for inner, key in _naming_recipes(values):
        beside = path.parent / inner[key]
        if inner[key].endswith(".toml") and beside.is_file():
            inner[key] = str(beside)


def _apply(values: dict[str, Any], changes: Sequence[str]) -> list[str]:
    """Apply `key=value` changes to the values of a recipe, and return their faults."""
    faults: list[str] = []
    names: dict[str, str] = {}  # the name in the command of each setting; it may be an old one
    for change in changes:
        name, equals, text = change.partition("=")
        name = name.strip()
        if not equals or not re.fullmatch(r"\w+(\.\w+)*", name):
            faults.append(f"--set {change!r} is not a change. Write SECTION.KEY=VALUE, such as training.seed=2.")
            continue
        nested: Any = _value(text.strip())
        for key in reversed(name.split(".")):
            nested = {key: nested}
        renamed = current_names(Recipe, nested)
        renamed.warn(f"--set {change}")
        faults += [f"--set {change!r}: {fault}." for fault in renamed.faults]
        keys, value = [], renamed.values
        for _ in name.split("."):
            ((key, value),) = value.items()
            keys.append(key)
        if names.setdefault(".".join(keys), name) != name:
            faults.append(f"--set {name} and --set {names['.'.join(keys)]} change the same setting; remove one.")
        if keys[0] == "encoder" and isinstance(encoder := values.get("encoder"), dict):
            for other in _STARTS - {keys[-1]} if keys[-1] in _STARTS else ():
                if f"encoder.{other}" not in names:
                    encoder.pop(other, None)  # the change replaces it
        if fault := _set(values, keys, value):
            faults.append(f"--set {change!r}: {fault}.")
    return faults


def _set(values: dict[str, Any], keys: Sequence[str], value: object) -> str:
    """Set one value in a nested table; return the fault if a key on the way is not a section."""
    *sections, last = keys
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            return f"{section} is a value, not a section"
    values[last] = value
    return ""


def _value(text: str) -> object:
    """A TOML value, or else the text as it is.

    >>> _value("2"), _value("[0.9, 0.98]"), _value("models/en")
    (2, [0.9, 0.98], 'models/en')
    """
    try:
        found = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return found["value"] if len(found) == 1 else text  # a second line is no part of a value


def recipe_toml(recipe: Recipe) -> str:
    """Return the recipe as TOML that `read_recipe` reads back, with all settings, including the defaults."""
    values = values_of(recipe)
    del values["decode"]["root_label"]  # the treebank's, and not for a recipe to say
    return "\n".join(_toml_lines(values)) + "\n"


def _toml_lines(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the settings of a section, then the sections within it; values that are None are left out."""
    for key, value in values.items():
        if not isinstance(value, dict) and value is not None:
            # JSON writes strings, numbers and lists of them as TOML does, except for one character.
            yield f"{key} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from ("", f"[{prefix}{key}]", *_toml_lines(value, f"{prefix}{key}."))


def expand(path: str, environment: Mapping[str, str] = os.environ) -> str:
    """A path of a recipe with $NAMES replaced by environment variables.

    >>> expand("$TREEBANKS/tr_imst/dev.conllu", {"TREEBANKS": "ud"})
    'ud/tr_imst/dev.conllu'
    """

    def value(found: re.Match[str]) -> str:
        if not environment.get(found[1]):
            raise ConfigError(
                f"{path} needs the environment variable {found[1]}.",
                hint=f"Set it to the folder that is meant: {found[1]}=FOLDER treefine train …",
            )
        return environment[found[1]]

    return re.sub(r"\$(\w+)", value, path)
