"""Recipes: the settings of a training run, read from TOML. The defaults are those of Appendix A.

The treebank decides settings that are "auto" or empty; see `treefine.training.data`.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from treefine.config import (
    DRAFT_SCORER,
    STEPS,
    STEPS_FROM_EMPTY,
    Checked,
    Column,
    DecodeSettings,
    Rate,
    RelationSettings,
    ScorerSettings,
    SegmenterSettings,
    Share,
    Size,
    column_faults,
    try_settings,
)
from treefine.errors import ConfigError
from treefine.treebank.conllu import FORMATS
from treefine.treebank.files import nearest_file, open_output

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found]

EMPTY, FILES = "empty", "files"  # initial parsers that are not models
BUNDLED_RECIPES = Path(__file__).with_name("recipes")
TEMPLATE_FOLDER = Path(__file__).with_name("templates")  # a commented recipe for each kind of training
TEMPLATES = ("empty", "refine", "syntr", "files", "fine-tune", "distil")
_STARTS = {"pretrained": "fine_tune_from", "fine_tune_from": "pretrained"}


@dataclass(frozen=True, slots=True)
class TreebankSettings(Checked):
    """The treebank to train on, and the dev set that chooses the best epoch."""

    train: tuple[str, ...]  # a treebank file to train on, or a list of files
    dev: tuple[str, ...]  # the dev set, a file or a list; its LAS chooses the best epoch
    test: tuple[str, ...] = ()  # files to score the final model on, for the model card; empty: no test scores
    rule: Literal["conll18", "conllx", "ptb", "conll09"] = "conll18"  # scoring rule for the dev and test sets
    format: str = ""  # file format of all treebanks and initial parses; empty: chosen by the file names
    sentences: int = 0  # number of training sentences, an evenly spaced sample of those in train; 0: all
    dev_sentences: int = 0  # number of dev sentences, an evenly spaced sample of those in dev; 0: all
    by_treebank: bool = False  # tell the model which treebank a sentence is from, so that it learns the habits of each
    main: tuple[str, ...] = ()  # with by_treebank: treebanks that a language stands for; others: its largest treebank
    unnamed: Share = 0.1  # with by_treebank: share of the training sentences whose treebank is masked
    balance: Share = 1.0  # a treebank of n words is drawn in proportion to n to this power; 1: each sentence once

    def _faults(self) -> Iterator[str]:
        for name in ("train", "dev"):
            if not (getattr(self, name) and all(getattr(self, name))):
                yield f"{name} must name at least one file, without empty names"
        if "-" in (*self.train, *self.dev, *self.test):
            yield "standard input cannot be read more than once; name a file"
        if self.format not in ("", *FORMATS):
            yield f"format = {json.dumps(self.format)}; choose one of {', '.join(FORMATS)}, or leave it out"


@dataclass(frozen=True, slots=True)
class PretrainedSettings(Checked):
    """The pretrained encoder to start from, or the trained model to fine-tune."""

    pretrained: str | None = None  # encoder: a folder, or a name on the hub
    fine_tune_from: str | None = None  # trained model (a folder or a hub name), or a recipe
    family: Literal["pretrained"] = "pretrained"  # kind of encoder; may be omitted
    pieces: Literal["all", "cut"] = "all"  # vocabulary; cut: the pieces of the treebank and the most frequent others
    n_frequent: int = 8000  # with pieces = "cut": number of pieces to keep in addition to those of the treebank
    most_pieces: int = 0  # with pieces = "cut": largest number of the treebank's pieces; rarer ones are split; 0: all
    table_bits: Literal[4, 32] = 32  # of a number in the piece embeddings; 4: they are rounded and not trained

    def _faults(self) -> Iterator[str]:
        if bool(self.pretrained) == bool(self.fine_tune_from):
            yield "set either pretrained (an encoder) or fine_tune_from (a treefine model or a recipe)"
        if self.table_bits == 4 and not self.pretrained:
            yield "table_bits = 4 needs pretrained; a fine-tuned model keeps its own precision"
        if (self.pretrained or "").endswith(".toml"):
            yield "pretrained names a recipe; set fine_tune_from to it instead"

    @property
    def start(self) -> str:
        """The encoder, model or recipe that training starts from."""
        return self.pretrained or self.fine_tune_from or ""


@dataclass(frozen=True, slots=True)
class InitialSettings(Checked):
    """The initial graphs G⁰ that the model learns to refine (Sec. 4)."""

    parser: str = EMPTY  # "empty", a recipe that is trained first, a model folder, or "files" (set train and dev)
    folds: int = 0  # jack-knifing: parse each fold of the training set with a parser trained on the other folds; 0: off
    train: tuple[str, ...] = ()  # with parser = "files": another parser's trees of the training set, a file or a list
    dev: tuple[str, ...] = ()  # with parser = "files": its trees of the dev set
    decided_share: float = 0.0  # share of the training sentences in which some gold arcs are decided from the start
    corrected_share: float = 0.0  # share in which the first wrong arc is corrected after the first step

    def _faults(self) -> Iterator[str]:
        if not self.parser:
            yield f'parser is empty; choose "{EMPTY}", "{FILES}", a recipe or a model folder'
        if self.folds == 1:
            yield "folds = 1 leaves nothing to train on; choose 0, or at least 2"
        if {any(self.train), any(self.dev)} != {self.parser == FILES}:
            yield 'train and dev must be set if parser = "files", and only then'
        if self.folds and self.parser in (EMPTY, FILES):
            yield f'folds = {self.folds} needs a recipe as parser, not "{self.parser}"'
        if self.decided_share + self.corrected_share > 1:
            yield "decided_share and corrected_share must not sum to more than 1"


@dataclass(frozen=True, slots=True)
class TagTraining(Checked):
    """Part-of-speech tags (Eq. 3), features and lemmas."""

    source: Literal["auto", "predicted", "given", "none"] = (
        "auto"  # predict tags, read those of the input, or use none; auto: predict the treebank's tags
    )
    columns: tuple[Column, ...] = ()  # columns to predict or read; empty: those with values (given: upos)
    case: bool = False  # also read the case of each word's letters, which an uncased encoder does not see
    refined: bool = False  # later steps correct the tags of the first step
    weight: float = 1.0  # of the loss of tags, compared with that of heads and labels
    fewest: int = 1  # features and lemma scripts that occur less often in the treebank are not learned
    double_specials: bool = False  # add the embeddings of CLS and SEP twice, as the authors' code does
    given: tuple[Column, ...] = ()  # with predicted tags: columns that are always read from the input, not predicted
    unread: tuple[Column, ...] = ()  # predicted columns that later steps do not read, which makes the model smaller

    def _faults(self) -> Iterator[str]:
        can_predict = self.source in ("auto", "predicted")
        yield from column_faults(self.given, self.unread, self.columns, can_predict=can_predict)


@dataclass(frozen=True, slots=True)
class RefineSettings(Checked):
    """The refinement loop during training (Sec. 3.3)."""

    max_steps: int = 0  # T, the largest number of refinement steps; 0: 4 from an empty graph, else 3 (Sec. 6.1)
    stop: bool = True  # stop refining a sentence when a step does not change its graph
    stages: tuple[int, ...] = ()  # the layer at which each of the first steps ends; empty: each step runs all layers


@dataclass(frozen=True, slots=True)
class OptimiserSettings(Checked):
    """AdamW with linear warmup and decay to zero, and a separate learning rate for the encoder (Appendix A)."""

    learning_rate: float = 2e-3  # peak learning rate of the weights that are not pretrained
    encoder_learning_rate: float = 1e-5  # peak learning rate of the pretrained encoder
    betas: tuple[float, ...] = (0.9, 0.999)  # AdamW's β₁ and β₂
    eps: float = 1e-5  # AdamW's ε
    weight_decay: float = 0.01  # AdamW's weight decay; biases and layer norms have none
    clip_gradient_norm: float = 1.0  # clip the gradient to this norm; 0: no clipping
    warmup: Share = 0.01  # share of training in which the learning rates rise
    ema: Rate = 0.0  # decay of an exponential moving average of the weights; 0: off

    def _faults(self) -> Iterator[str]:
        if len(self.betas) != 2 or max(self.betas) >= 1:
            yield "betas must be two numbers below 1"


@dataclass(frozen=True, slots=True)
class TrainingSettings(Checked):
    """Epochs, batches, masking, weight averaging and checkpoints."""

    epochs: Size = 200  # largest number of epochs
    patience: int = 100  # early stopping: stop after more than this many epochs without a better dev LAS
    batch_pieces: Size = 1000  # batch size in pieces (sub-words), padding included
    masking: Rate = 0.0  # share of the pieces that are masked
    given_tags: Share = 0.0  # with predicted tags: share of the sentences that show the treebank's tags to the model
    seed: int = 1  # random seed; the same seed gives the same model on the same machine
    weight_averaging: Size = 1  # number of models to train and average; 1: off
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # auto: bfloat16 on a GPU, float32 on a CPU
    dev_every: Size = 1  # score the dev set every N epochs
    checkpoint_minutes: float = 10.0  # shortest time between two checkpoints, in minutes; 0: one after every epoch


@dataclass(frozen=True, slots=True)
class TeacherSettings(Checked):
    """Teachers: models, usually larger ones, whose probabilities this model learns (knowledge distillation)."""

    recipes: tuple[str, ...] = ()  # recipes of teachers that are trained first; files, or names of bundled recipes
    models: tuple[str, ...] = ()  # or folders of trained models; without both, there are no teachers
    members: Size = 1  # number of teachers of each recipe, trained with different seeds
    texts: tuple[str, ...] = ()  # unlabelled sentences to learn from as well: text with one per line, or treebanks
    sentences: int = 0  # largest number of unlabelled sentences, an evenly spaced sample; 0: all
    weight: Share = 0.5  # share of the teachers in what is learned from a labelled sentence; the rest is its tree

    def _faults(self) -> Iterator[str]:
        if self.recipes and self.models:
            yield "set either recipes or models"
        if self.texts and not self.names:
            yield "texts need teachers: set recipes or models"
        if "-" in self.texts:
            yield "standard input cannot be read more than once; name a file"
        if self.members > 1 and self.models:
            yield "members is only for recipes; name more models instead"

    @property
    def names(self) -> tuple[str, ...]:
        """The recipes or models of the teachers."""
        return self.recipes or self.models


@dataclass(frozen=True, slots=True)
class SegmenterTraining(Checked):
    """The training of a segmenter for raw text. Shares are drawn again in each epoch."""

    train: Literal["auto", "always", "never"] = "auto"  # auto: if the treebank has text
    encoder_layers: int = 0  # layers of the parser's encoder that learn to find sentences; 0: characters alone do
    texts_per_epoch: Size = 1  # how often an epoch of the parser reads the whole text for that
    network: SegmenterSettings = field(default_factory=SegmenterSettings)  # sizes, in [segmenter.network]
    epochs: Size = 40  # number of epochs
    learning_rate: float = 2e-3  # peak learning rate
    window: Size = 640  # length of a training window in characters
    batch_windows: int = 0  # windows per batch; 0: 32, or fewer for a small treebank, which needs enough updates
    weight_decay: float = 0.01  # AdamW's weight decay
    dev_every: Size = 1  # epochs between two scores on dev; the last epoch is always scored
    ema: Rate = 0.995  # decay of an exponential moving average of the weights; 0: off
    masking: Annotated[float, "below 0.5"] = 0.05  # share of the characters that are masked; for runs, twice this share
    joined: Share = 0.1  # share of the documents that follow the previous one without a blank line
    shuffled: Share = 0.5  # share of the documents whose sentences are shuffled
    wrapped: float = 0.1  # share of the documents that are wrapped into lines of a random width
    lines: float = 0.05  # share of the documents with one sentence per line
    lowered: Share = 0.05  # share of the sentences in lower case
    unpointed: Share = 0.05  # share of the sentences without their final punctuation mark
    quoted: Share = 0.05  # share of the sentences in quotation marks
    short: Share = 0.2  # share of the windows that are cut to whole sentences, as a short text is

    def _faults(self) -> Iterator[str]:
        if self.wrapped + self.lines > 1:
            yield "wrapped and lines must not sum to more than 1"


@dataclass(frozen=True, slots=True)
class CardSettings:
    """Facts for the model card. They do not change the training."""

    language: tuple[str, ...] = ()  # one or more language codes, such as "en"; empty: from the file names
    treebank: str = ""  # name of the treebank; empty: from the file names
    licence: str = ""  # licence of the treebank, such as "CC BY-SA 4.0"; empty: not stated


@dataclass(frozen=True, slots=True)
class Recipe(Checked):
    """The settings of a training run."""

    treebank: TreebankSettings
    encoder: PretrainedSettings
    relations: RelationSettings = field(default_factory=RelationSettings)
    tags: TagTraining = field(default_factory=TagTraining)
    scorer: ScorerSettings = field(default_factory=ScorerSettings)
    draft: ScorerSettings = DRAFT_SCORER  # of the stages before the last
    decode: DecodeSettings = field(default_factory=DecodeSettings)  # root_label comes from the treebank
    initial: InitialSettings = field(default_factory=InitialSettings)
    refine: RefineSettings = field(default_factory=RefineSettings)
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    teacher: TeacherSettings = field(default_factory=TeacherSettings)
    segmenter: SegmenterTraining = field(default_factory=SegmenterTraining)
    card: CardSettings = field(default_factory=CardSettings)
    title: str = ""

    def __post_init__(self) -> None:
        if not self.refine.max_steps:
            of_graph = STEPS_FROM_EMPTY if self.initial.parser == EMPTY else STEPS
            max_steps = 1 if self.relations.graph == "none" else of_graph
            object.__setattr__(self, "refine", replace(self.refine, max_steps=max_steps))
        Checked.__post_init__(self)

    def _faults(self) -> Iterator[str]:
        if self.relations.graph == "none":  # SynTr
            if self.refine.max_steps != 1:
                yield "a model that reads no graph takes only one step: set max_steps = 1 in [refine]"
            if self.initial != InitialSettings():
                yield "a model that reads no graph has no initial parse: remove [initial]"
            if self.relations.decided:
                yield "a model that reads no graph reads no decided arcs: remove decided from [relations]"
        if self.relations.decided and self.initial.decided_share + self.initial.corrected_share == 0:
            yield "decided arcs must be learned: set decided_share or corrected_share in [initial]"
        if self.initial.corrected_share and self.refine.max_steps < 2:
            yield "corrected_share needs a second step: set max_steps in [refine] to 2 or more"
        if self.treebank.sentences and self.initial.parser == FILES:
            yield 'sentences must be 0 if the initial parser is "files", which parse all sentences'
        if self.teacher.names and self.initial.parser != EMPTY:
            yield "teachers start from an empty graph: remove parser from [initial], or remove [teacher]"
        if self.teacher.texts and (self.tags.source == "given" or self.tags.given):
            hint = 'set source = "predicted" or "none" in [tags]' + (", and remove given" if self.tags.given else "")
            yield f"texts in [teacher] have no tags to read: {hint}"
        if self.training.given_tags and self.tags.source not in ("auto", "predicted"):
            yield 'given_tags needs predicted tags: set source = "predicted" in [tags]'

    def with_names(self, change: Callable[[str], str]) -> Recipe:
        """Return the recipe with a change to the names of the other recipes that it names."""

        def changed(name: str) -> str:
            return change(name) if name.endswith(".toml") else name

        encoder = self.encoder
        if encoder.fine_tune_from is not None:
            encoder = replace(encoder, fine_tune_from=changed(encoder.fine_tune_from))
        return replace(
            self,
            encoder=encoder,
            initial=replace(self.initial, parser=changed(self.initial.parser)),
            teacher=replace(self.teacher, recipes=tuple(map(changed, self.teacher.recipes))),
        )


def values_of(recipe: Recipe) -> dict[str, Any]:
    """Return all settings by section and key. Other recipes are named without their folders."""
    return asdict(recipe.with_names(lambda name: Path(name).name))


def recipe_toml(recipe: Recipe) -> str:
    """Return the recipe as TOML that `read_recipe` reads back, with all settings, including the defaults."""
    values = values_of(recipe)
    del values["decode"]["root_label"]  # comes from the treebank
    if recipe.teacher == TeacherSettings():
        del values["teacher"]
    return "\n".join(_toml_lines(values)) + "\n"


def _toml_lines(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the settings of a section, then the sections within it; values that are None are left out."""
    for key, value in values.items():
        if not isinstance(value, dict) and value is not None:
            # JSON writes strings, numbers and lists as TOML does, except for one character.
            yield f"{key} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from ("", f"[{prefix}{key}]", *_toml_lines(value, f"{prefix}{key}."))


def read_recipe(name: str | os.PathLike[str], changes: Sequence[str] = ()) -> Recipe:
    """Read a recipe from a TOML file, or a bundled recipe by name, and apply changes such as `training.seed=2`.

    Raises one ConfigError with a line for each fault.
    """
    path = find_recipe(name)
    return recipe_of(read_toml(path), changes, path)


def read_toml(path: Path) -> dict[str, Any]:
    """Return the values of a TOML file, by section and key."""
    try:
        values: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        return values
    except OSError as error:
        raise ConfigError(f"{error.strerror or error}.", path=str(path)) from None
    except (ValueError, RecursionError) as error:  # numbers too long for Python, or too deeply nested lists
        raise ConfigError(f"This is not valid TOML: {error}.", path=str(path)) from None


def recipe_of(values: dict[str, Any], changes: Sequence[str] = (), path: Path | None = None) -> Recipe:
    """Return the recipe with these values, by section and key; other recipes may be in the folder of its `path`.

    Raises one ConfigError with a line for each fault.
    """
    faults = apply_changes(values, changes)
    recipe, wrong = try_settings(Recipe, values)
    if isinstance(values.get("decode"), dict) and "root_label" in values["decode"]:
        wrong.append("[decode] root_label is read from the treebank; remove it")
    place = "" if path is None else f"{path}: "
    faults += [f"{place}{fault}{'' if fault.endswith('?') else '.'}" for fault in wrong]
    if recipe is None or faults:
        raise ConfigError("\n".join(faults))
    folder = Path() if path is None else path.parent

    def found(name: str) -> str:
        name = expand(name)
        return str(folder / name) if (folder / name).is_file() else name

    return recipe.with_names(found)


def split_changes(changes: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate the changes of a recipe from those of its initial parser's recipe.

    >>> split_changes(["training.seed=2", "initial.training.epochs=1"])
    (['training.seed=2'], ['training.epochs=1'])
    """
    inner = [each for each in changes if re.match(r"\s*initial(\.\w+){2}", each)]  # [initial] has no sections
    return [each for each in changes if each not in inner], [each.strip().removeprefix("initial.") for each in inner]


def bundled_recipes() -> list[str]:
    """Return the names of the bundled recipes."""
    return sorted(path.stem for path in BUNDLED_RECIPES.glob("*.toml"))


def find_recipe(name: str | os.PathLike[str]) -> Path:
    """Return the path of a recipe, given as a file or by the name of a bundled recipe."""
    path = Path(name)
    if path.is_file():
        return path
    bundled = BUNDLED_RECIPES / f"{path.name.removesuffix('.toml')}.toml"
    if path.parent == Path() and bundled.is_file():
        return bundled
    if path.suffix == ".toml":
        raise ConfigError(f"{os.fspath(name)}: There is no such file.", hint=nearest_file(os.fspath(name)))
    hint = f"Name a TOML file, or one of {', '.join(bundled_recipes())}."
    raise ConfigError(f"There is no recipe {os.fspath(name)!r}.", hint=hint)


def write_template(out: str, kind: str, *, force: bool = False) -> None:
    """Write the commented recipe for a kind of training to a TOML file, or to standard output if `out` is "-"."""
    if kind not in TEMPLATES:
        raise ConfigError(f"There is no kind of training {kind!r}.", hint=f"Choose one of {', '.join(TEMPLATES)}.")
    if out != "-" and not out.endswith(".toml"):
        raise ConfigError(f"{out}: The name of a recipe must end in .toml.")
    if out != "-" and os.path.lexists(out) and not force:
        raise ConfigError(f"{out}: The file exists.", hint="Overwrite it with --force, or choose another name.")
    with open_output(out) as stream:
        stream.write((TEMPLATE_FOLDER / f"{kind}.toml").read_bytes())


def apply_changes(values: dict[str, Any], changes: Sequence[str]) -> list[str]:
    """Apply `key=value` changes to the values of a recipe, and return their faults."""
    faults: list[str] = []
    for change in changes:
        name, equals, text = change.partition("=")
        name = name.strip()
        if not equals or not re.fullmatch(r"\w+(\.\w+)*", name):
            faults.append(f"--set {change!r} is not a change. Write SECTION.KEY=VALUE, such as training.seed=2.")
            continue
        *sections, last = name.split(".")
        inner = values
        for section in sections:
            inner = inner.setdefault(section, {})
            if not isinstance(inner, dict):
                faults.append(f"--set {change!r}: {section} is a value, not a section.")
                break
        else:
            if sections == ["encoder"] and last in _STARTS:
                inner.pop(_STARTS[last], None)  # the change replaces it
            inner[last] = _value(text.strip())
    return faults


def _value(text: str) -> object:
    """Return the TOML value of a text, or the text itself if it is not TOML.

    >>> _value("2"), _value("[0.9, 0.98]"), _value("models/en")
    (2, [0.9, 0.98], 'models/en')
    """
    try:
        values = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return values["value"] if len(values) == 1 else text  # a second line would be another setting


def expand(path: str, environment: Mapping[str, str] = os.environ) -> str:
    """Replace $NAMES in a path by the values of environment variables.

    >>> expand("$TREEBANKS/tr_imst/dev.conllu", {"TREEBANKS": "ud"})
    'ud/tr_imst/dev.conllu'
    """

    def value(name: re.Match[str]) -> str:
        if not environment.get(name[1]):
            hint = f"Set it to a folder: {name[1]}=FOLDER treefine train …"
            raise ConfigError(f"{path} needs the environment variable {name[1]}.", hint=hint)
        return environment[name[1]]

    return re.sub(r"\$(\w+)", value, path)
