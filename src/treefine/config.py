"""The settings and files of models and segmenters, and a reader for settings. Defaults are from Appendix A."""

from __future__ import annotations

import difflib
import json
import math
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache, partial
from operator import ge, gt, le, lt
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from treefine.errors import ConfigError, ModelError

Column = Literal["upos", "xpos", "feats", "lemma"]
COLUMNS: tuple[Column, ...] = get_args(Column)
TagChoice = Literal["given", "predicted", "none"]
Speed = Literal["default", "fast"]
Precision = Literal["float32", "float16", "bfloat16", "int8"]
BATCH_PIECES = 4000  # batch size for parsing, padding included
MOST_WORDS = 2000  # a longer sentence is parsed in parts: its scores need more than 130 MiB, growing with the square
STEPS = 3  # T in the paper (Sec. 6.1), for a model whose config.json has no max_steps; the bundled models have one …
STEPS_FROM_EMPTY = 4  # … and, from an empty graph, one more step that creates the first graph
FOUR_BIT_BLOCK = 32  # numbers that share a scale in four bits
_LARGEST = 10_000_000  # larger numbers are taken for mistakes
_Settings = TypeVar("_Settings")


def read_settings(kind: type[_Settings], values: object, *, path: str = "") -> _Settings:
    """Read settings of this kind from the values of a JSON or TOML file; report all faults in one error.

    >>> from treefine.config import ScorerSettings
    >>> read_settings(ScorerSettings, {"arc_width": 50}).arc_width
    50
    >>> read_settings(ScorerSettings, {"arc_with": 50})
    Traceback (most recent call last):
    treefine.errors.ConfigError: The settings have 1 fault: arc_with is unknown; did you mean arc_width?
    """
    settings, faults = try_settings(kind, values)
    if settings is None:
        count = f"{len(faults)} fault{'s' if len(faults) > 1 else ''}"
        raise ConfigError(f"The settings have {count}: {'; '.join(faults)}", path=path)
    return settings


def try_settings(kind: type[_Settings], values: object) -> tuple[_Settings | None, list[str]]:
    """Read settings of this kind. Return None and a list of faults if the values are not valid."""
    faults: list[str] = []
    settings = _read(kind, values, "", faults)
    return (None if faults else settings), faults


def _read(kind: Any, value: object, name: str, faults: list[str]) -> Any:
    if types.NoneType in get_args(kind):  # optional
        if value is None:
            return None
        kind = get_args(kind)[0]
    origin, wrong = get_origin(kind), ""
    if is_dataclass(kind):
        return _read_section(kind, value, name, faults)
    if origin is Literal:
        if value not in get_args(kind):
            faults.append(f"{name} = {_shown(value)}; choose {' or '.join(map(_shown, get_args(kind)))}")
        return value
    if origin is tuple:
        inner = get_args(kind)[0]
        takes_string = inner is str or get_origin(inner) is Literal
        if takes_string and isinstance(value, str):
            value = [value]  # a list of one
        if isinstance(value, list | tuple):
            return tuple(_read(inner, member, name, faults) for member in value)
        wrong = "be a string or a list of strings" if takes_string else "be a list"
    elif origin is dict:
        if isinstance(value, Mapping):
            inner = get_args(kind)[1]
            return {str(key): _read(inner, member, f"{name}.{_named(key)}", faults) for key, member in value.items()}
        wrong = "be a table"
    elif kind in (int, float) and isinstance(value, (int, kind)) and type(value) is not bool and abs(value) < math.inf:
        if 0 <= value <= _LARGEST:
            return kind(value)
        wrong = "not be negative" if value < 0 else f"be at most {_LARGEST:,}"
    elif kind in (int, float) or type(value) is not kind:
        wrong = "be " + {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}[kind]
    if wrong:
        faults.append(f"{name} = {_shown(value)}; it must {wrong}")
    return value


def _read_section(kind: Any, value: object, name: str, faults: list[str]) -> Any:
    place = f"[{name}] " if name else ""
    if not isinstance(value, Mapping):
        faults.append(f"{place}{_shown(value)} is not a section of settings")
        return None
    types_of = get_type_hints(kind)
    known = {setting.name: setting for setting in fields(kind)}
    before = len(faults)
    for key in value:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            faults.append(f"{place}{_named(key)} is unknown" + (f"; did you mean {near[0]}?" if near else ""))
    read = {}
    for key, setting in known.items():
        if key in value:
            has_sections = any(map(is_dataclass, (types_of[key], *get_args(types_of[key]))))  # or a table of them
            read[key] = _read(
                types_of[key], value[key], f"{name}.{key}".lstrip(".") if has_sections else place + key, faults
            )
        elif setting.default is MISSING and setting.default_factory is MISSING:
            faults.append(f"{place}{key} is missing")
    if len(faults) > before:
        return None
    try:
        return kind(**read)
    except ValueError as error:
        faults.extend(f"{place}{fault}" for fault in error.args)
        return None


def _named(key: object) -> str:
    return str(key) if str(key).isidentifier() else _shown(key)


def _shown(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):  # a number of more than 4300 digits, or a list of more than 1000 levels
        return "a value too large to show"


_LIMITS: dict[str, Callable[[float, float], bool]] = {"at least": ge, "at most": le, "below": lt, "above": gt}
Size: TypeAlias = Annotated[int, "at least 1"]
Layers: TypeAlias = Annotated[int, "at least 1", "at most 1000"]
Share: TypeAlias = Annotated[float, "at most 1"]
Rate: TypeAlias = Annotated[float, "below 1"]
_Factor: TypeAlias = Annotated[float, "above 0"]
_Weight: TypeAlias = Annotated[float, "at least 0"]
_limited_types_of: Callable[[type], dict[str, Any]] = cache(partial(get_type_hints, include_extras=True))


class Checked:
    """Settings that raise one ValueError with all their faults."""

    __slots__ = ()

    def __post_init__(self) -> None:
        faults = list(self._faults())
        for name, kind in _limited_types_of(type(self)).items():
            for limit in getattr(kind, "__metadata__", ()):
                relation, _, number = limit.rpartition(" ")
                if not (_LIMITS[relation](value := getattr(self, name), float(number)) and value < math.inf):
                    faults.append(f"{name} = {value}; it must be {limit}")
        if faults:
            raise ValueError(*faults)

    def _faults(self) -> Iterable[str]:
        """Return what is wrong with these settings, besides values outside the limits of their types."""
        return ()


@dataclass(frozen=True, slots=True)
class TransformerSettings(Checked):
    """The shape of a pretrained transformer, read from its folder."""

    family: Literal["bert", "roberta", "electra", "mpnet"]
    n_pieces: Size  # size of the vocabulary
    n_positions: int  # longest input in pieces, including CLS, ROOT and SEP
    n_layers: Layers
    width: Size
    n_attention_heads: int
    inner_width: Size
    embedding_width: Size  # equals width, except in small ELECTRA models
    activation: Literal["gelu", "gelu_new", "relu"] = "gelu"
    norm_eps: float = 1e-12
    n_buckets: int = 0  # buckets of relative distances between pieces (MPNet); 0: none
    table_bits: Literal[4, 32] = 32  # of a number in the piece embeddings; 4: they are rounded and not trained
    dropout: Rate = 0.1
    attention_dropout: Rate = 0.1

    def _faults(self) -> Iterator[str]:
        if self.n_attention_heads < 1 or self.width % self.n_attention_heads:
            yield f"width = {self.width}; it must be a multiple of n_attention_heads = {self.n_attention_heads}"
        if self.table_bits == 4 and self.embedding_width % FOUR_BIT_BLOCK:
            yield f"table_bits = 4; embedding_width = {self.embedding_width} must be a multiple of {FOUR_BIT_BLOCK}"
        if self.n_buckets and not 4 <= self.n_buckets < 512:
            yield f"n_buckets = {self.n_buckets}; it must be 0 or between 4 and 511"
        if self.n_positions < 4:
            yield f"n_positions = {self.n_positions}; it must be at least 4, for CLS, ROOT, one word and SEP"


@dataclass(frozen=True, slots=True)
class RelationSettings:
    """The attention over the input graph (Sec. 3.1.2)."""

    graph: Literal["labelled", "unlabelled", "none"] = "labelled"  # input graph; none: no refinement (SynTr, Eq. 7)
    key_norm: bool = True  # layer norm of the relation keys (Eq. 5)
    scaled: bool = True  # divide the relation term by √d too (Eq. 5)
    none: Literal["learned", "zero"] = "learned"  # embedding of the relation of two pieces without an arc
    two_cycles: Literal["kept", "erased"] = "kept"  # arcs of two words that are each other's head
    decided: bool = False  # arcs that a person decided have relations of their own, apart from those of predicted arcs
    first_layer: int = 0  # the first layer that reads the graph; those before it run once for all steps

    def is_read_by(self, layer: int) -> bool:
        """Return whether a layer, counted from 0, reads the graph."""
        return self.graph != "none" and layer >= self.first_layer


@dataclass(frozen=True, slots=True)
class TagSettings(Checked):
    """Part-of-speech tags (Eq. 3), features and lemmas."""

    source: TagChoice = "given"  # read the tags of the input, predict tags in the first step, or use no tags
    columns: tuple[Column, ...] = ("upos",)  # columns to read or predict
    case: bool = False  # also read the case of each word's letters, which an uncased encoder does not see
    refined: bool = False  # later steps correct the tags of the first step
    double_specials: bool = False  # add the embeddings of CLS and SEP twice, as the authors' code does
    given: tuple[Column, ...] = ()  # with predicted tags: columns that are always read from the input
    unread: tuple[Column, ...] = ()  # predicted columns that the encoder never reads

    def _faults(self) -> list[str]:
        faults = column_faults(self.given, self.unread, self.columns, can_predict=self.source == "predicted")
        if self.source != "none" and not self.columns:
            faults.append(f'columns is empty; source = "{self.source}" needs upos, xpos, feats or lemma')
        return faults

    @property
    def predicted(self) -> tuple[Column, ...]:
        """The columns that the model learns to predict."""
        return tuple(name for name in self.columns if name not in self.given) if self.source == "predicted" else ()


def column_faults(
    given: Sequence[Column], unread: Sequence[Column], columns: Sequence[Column], *, can_predict: bool
) -> list[str]:
    """Return what is wrong with the columns that are always read from the input (`given`), or never (`unread`)."""
    faults = []
    for name, listed in (("given", given), ("unread", unread)):
        if listed and not can_predict:
            faults.append(f'{name} needs predicted tags: set source = "predicted", or remove {name}')
    for name, listed in (("given", given), ("columns", columns)):
        if len(set(listed)) < len(listed):
            faults.append(f"{name} lists a column twice")
    if columns and (lacking := [column for column in given if column not in columns]):
        faults.append(f"given has {', '.join(lacking)}, which columns lacks; add it there, or remove it from given")
    if odd := [column for column in unread if column in given or (columns and column not in columns)]:
        faults.append(f"unread has {', '.join(odd)}, which the model does not predict; remove it from unread")
    return faults


@dataclass(frozen=True, slots=True)
class ScorerSettings(Checked):
    """The four MLPs and two biaffine classifiers (Sec. 3.2.1, Appendix A)."""

    arc_width: Size = 500  # output size of the MLPs for arcs
    label_width: Size = 100  # output size of the MLPs for labels
    dropout: Rate = 0.33  # dropout probability of the MLPs
    slope: Rate = 0.1  # negative slope of LeakyReLU


DRAFT_SCORER = ScorerSettings(arc_width=128, label_width=64)  # a full one costs as much as a layer


@dataclass(frozen=True, slots=True)
class DecodeSettings:
    """Decoding of graphs and trees from scores (Sec. 3.2.2)."""

    root_label: str = "root"  # label of words whose head is ROOT; empty: no special label
    root_rule: Literal["exact", "none"] = "exact"  # exact: only words whose head is ROOT have the label root
    first_graph: Literal["argmax", "tree"] = "argmax"  # graph that the second step reads, from an empty graph
    tree_over: Literal["log-probabilities", "probabilities"] = "log-probabilities"  # sum that the final tree maximises


@dataclass(frozen=True, slots=True)
class ConfidenceSettings(Checked):
    """The calibration of confidences, fitted on the dev set; all 1 in a model that is not calibrated."""

    arc_temperature: _Factor = 1.0  # divides the scores of heads
    label_temperature: _Factor = 1.0  # divides the scores of labels
    upos_temperature: _Factor = 1.0  # the same for each kind of tags
    xpos_temperature: _Factor = 1.0
    feats_temperature: _Factor = 1.0
    lemma_temperature: _Factor = 1.0
    lemma_doubt: _Factor = 1.0  # error rate of rule lemmas divided by that of their tags
    sentence_scale: _Factor = 1.0  # sum of the words' doubts at which half of the sentences are correct
    sentence_slope: _Factor = 1.0  # how fast that share falls as the sum grows


@dataclass(frozen=True, slots=True)
class SentenceEndSettings(Checked):
    """The weights of the encoder and of the segmenter in decisions about sentence ends, fitted on the dev set."""

    char_weight: _Weight = 0.5  # of the segmenter's score, relative to the encoder's
    margin: _Weight = 2.0  # subtracted from the score of a token within a line that does not end in final punctuation
    temperature: _Factor = 1.0  # divides the sum, so that it becomes the log-odds of an end


@dataclass(frozen=True, slots=True)
class PrecisionSettings:
    """The default precision per device; other than float32 only if the loss in accuracy was measured."""

    cpu: Literal["float32", "int8"] = "float32"
    cuda: Literal["float32", "float16", "bfloat16"] = "float32"


@dataclass(frozen=True, slots=True)
class ModelSettings(Checked):
    """The settings of a model, stored in the config.json of its folder."""

    encoder: TransformerSettings
    relations: RelationSettings = field(default_factory=RelationSettings)
    tags: TagSettings = field(default_factory=TagSettings)
    scorer: ScorerSettings = field(default_factory=ScorerSettings)
    decode: DecodeSettings = field(default_factory=DecodeSettings)
    confidence: ConfidenceSettings = field(default_factory=ConfidenceSettings)
    draft_confidence: tuple[ConfidenceSettings, ...] = ()  # of each stage before the last
    precision: PrecisionSettings = field(default_factory=PrecisionSettings)
    sentence_ends: SentenceEndSettings = field(default_factory=SentenceEndSettings)
    stages: tuple[
        int, ...
    ] = ()  # the layer at which each of the first steps ends, the last one included; see `stage_ends`
    draft: ScorerSettings = DRAFT_SCORER  # of the stages before the last
    sentence_layers: int = 0  # layers of the encoder that find the sentences of running text; 0: it does not find them
    max_steps: int = 0  # T during training; 0: unknown
    stop_above: Share = 1.0  # stop refining when the mean word confidence is above this; 1: only if converged
    fast_stop_above: Share = 1.0  # the same for the option speed="fast"
    languages: tuple[str, ...] = ()  # codes such as "en", from the names of the training files; empty: unknown
    main_treebanks: tuple[str, ...] = ()  # of a model of several: the treebank that each language stands for
    calibration: dict[str, ConfidenceSettings] = field(default_factory=dict)  # for each treebank of a model of several

    def _faults(self) -> Iterator[str]:
        if not 0 <= self.sentence_layers <= self.encoder.n_layers:
            most = self.encoder.n_layers
            yield f"sentence_layers = {self.sentence_layers}; this encoder can have at most {most}"
        ends = self.stage_ends
        if list(ends) != sorted({*ends}) or ends[0] < 1 or ends[-1] != self.encoder.n_layers:
            yield f"stages = {list(ends)}; they must increase and end at the last layer, {self.encoder.n_layers}"
        if len(ends) > 1 and not self.relations.first_layer:
            yield "relations.first_layer = 0; a model with stages needs layers that read no graph: set it to 1 or more"
        if not 0 <= self.relations.first_layer <= ends[0]:
            yield f"relations.first_layer = {self.relations.first_layer}; it must be at most {ends[0]}, the first stage"

    @property
    def stage_ends(self) -> tuple[int, ...]:
        """The number of layers after each stage. By default there is one stage: each step runs all layers."""
        return self.stages or (self.encoder.n_layers,)

    @property
    def drafts(self) -> bool:
        """Whether the first step reads no graph, so that it can only draft one."""
        return self.reads_graph and self.relations.first_layer == self.stage_ends[0] < self.encoder.n_layers

    @property
    def reads_predicted_tags(self) -> bool:
        """Whether later steps read the tags of the first step, which they can only do from the first layer on."""
        return self.relations.first_layer == 0

    @property
    def reads_graph(self) -> bool:
        """Whether the model can refine a graph (RNGTr), not only predict a first one (SynTr)."""
        return self.relations.graph != "none"


@dataclass(frozen=True, slots=True)
class SegmenterSettings(Checked):
    """The segmenter network: layers over characters, and layers over runs of characters."""

    char_width: Size = 64  # size of the character embeddings
    kind_width: Size = 16  # size of the embeddings of Unicode categories
    char_layers: Layers = 1  # layers over characters
    char_hidden: Size = 128  # hidden units per direction, over characters
    n_hashes: Size = 2048  # rows of the hash table of runs; runs with the same hash share a row
    hash_width: Size = 32  # size of the embeddings of runs
    run_layers: Layers = 2  # layers over runs
    run_hidden: Size = 256  # hidden units per direction, over runs
    splits_unspaced: bool = False  # whether each letter of a script without spaces, such as Thai, is a run
    dropout: Rate = 0.4  # dropout probability


@dataclass(frozen=True)
class ModelFiles:
    """The names of the files in a model folder; the tokenizer's files are named in `model.subwords`."""

    config: str = "config.json"
    vocabulary: str = "vocabulary.json"
    weights: str = "model.safetensors"
    card: str = "README.md"
    initial: str = "initial"  # the folder of the initial parser, if the model has its own
    segmenter: str = "segmenter"  # the folder of the segmenter, if it was trained with one


LAYOUT = ModelFiles()


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object. Anything else raises a ModelError."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(value, dict):
            raise ValueError
    except FileNotFoundError:
        raise ModelError("There is no such file.", hint="Is this a model folder?", path=str(path)) from None
    except OSError as error:
        raise ModelError(f"The file cannot be read ({error.strerror}).", path=str(path)) from error
    except (ValueError, RecursionError) as error:
        hint, line = "Copy or download it again.", getattr(error, "lineno", None)
        raise ModelError(
            "The file is damaged: it is not a JSON object.", hint=hint, path=str(path), line=line
        ) from error
    return value


def write_json(path: Path, value: Any) -> None:
    """Write a value as human-readable JSON."""
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
