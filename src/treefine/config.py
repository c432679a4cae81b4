"""Typed settings of a model; the defaults are the paper's equations, and a preset gives the released code's choices."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from treefine.errors import ConfigError

Column = Literal["upos", "xpos"]
TagSource = Literal["given", "predicted", "none"]
Precision = Literal["float32", "float16", "bfloat16", "int8"]
BATCH_PIECES = 4000  # scored together when parsing, padding counted
MOST_LAYERS = 1000


def _check_rates(**rates: float) -> None:
    for name, rate in rates.items():
        if rate >= 1:
            raise ValueError(f"{name} = {rate}; it must be below 1")


def _check_sizes(settings: object, *names: str) -> None:
    """Widths and numbers of rows, of which none may be zero."""
    for name in names:
        if getattr(settings, name) < 1:
            raise ValueError(f"{name} = {getattr(settings, name)}; it must be at least 1")
        if name.endswith("layers") and getattr(settings, name) > MOST_LAYERS:
            raise ValueError(f"{name} = {getattr(settings, name)}; it must not be over {MOST_LAYERS}")


@dataclass(frozen=True, slots=True)
class TransformerSettings:
    """The shape of a pretrained transformer; read from its folder, not chosen."""

    family: Literal["bert", "roberta", "electra", "mpnet"]
    n_pieces: int  # rows of the word table
    n_positions: int  # pieces in a window, CLS, ROOT and SEP included
    n_layers: int
    width: int
    n_attention_heads: int
    inner_width: int
    embedding_width: int  # the same as width, but for small ELECTRAs
    activation: Literal["gelu", "gelu_new", "relu"] = "gelu"
    norm_eps: float = 1e-12
    n_buckets: int = 0  # of relative distances between pieces (MPNet); 0 without
    dropout: float = 0.1
    attention_dropout: float = 0.1

    def __post_init__(self) -> None:
        _check_sizes(self, "n_pieces", "n_layers", "width", "inner_width", "embedding_width")
        if self.n_attention_heads < 1 or self.width % self.n_attention_heads:
            raise ValueError(f"a width of {self.width} cannot be shared by {self.n_attention_heads} attention heads")
        if self.n_buckets and not 4 <= self.n_buckets < 512:
            raise ValueError(f"n_buckets = {self.n_buckets}; it must be 0, or from 4 to 511")
        if self.n_positions < 4:
            raise ValueError(f"n_positions = {self.n_positions} leaves no room for a word beside CLS, ROOT and SEP")
        _check_rates(dropout=self.dropout, attention_dropout=self.attention_dropout)


@dataclass(frozen=True, slots=True)
class BiLSTMSettings:
    """The encoder of the biaffine parser (Dozat and Manning 2017): words, characters and tags into a BiLSTM."""

    family: Literal["bilstm"] = "bilstm"
    word_width: int = 100
    char_width: int = 100
    tag_width: int = 100
    n_layers: int = 3
    width: int = 400  # in each direction
    dropout: float = 0.33

    def __post_init__(self) -> None:
        _check_sizes(self, "word_width", "char_width", "tag_width", "n_layers", "width")
        _check_rates(dropout=self.dropout)


@dataclass(frozen=True, slots=True)
class RelationSettings:
    """How attention reads a graph (Sec. 3.1.2)."""

    graph: Literal["labelled", "unlabelled", "none"] = "labelled"  # none: the model reads no graph (SynTr, Eq. 7)
    key_norm: bool = True  # LN in Eq. 5
    scaled: bool = True  # Eq. 5 divides the relation term by √d as well
    none: Literal["learned", "zero"] = "learned"  # the embedding of two pieces without an arc between them
    two_cycles: Literal["kept", "erased"] = "kept"  # words that are each other's head: kept, each sees its own head


@dataclass(frozen=True, slots=True)
class TagSettings:
    """Part-of-speech tags in the input (Eq. 3)."""

    source: TagSource = "given"
    columns: tuple[Column, ...] = ("upos",)
    double_specials: bool = False  # CLS and SEP count twice in the input, as if they were their own tags

    def __post_init__(self) -> None:
        if len(set(self.columns)) < len(self.columns):
            raise ValueError("a column stands twice among the columns")
        if self.source != "none" and not self.columns:
            raise ValueError(f'source = "{self.source}" needs at least one of the columns upos and xpos')


@dataclass(frozen=True, slots=True)
class ScorerSettings:
    """The four MLPs and two biaffine forms (Sec. 3.2.1, Appendix A)."""

    arc_width: int = 500
    label_width: int = 100
    dropout: float = 0.33
    slope: float = 0.1  # of LeakyReLU below zero

    def __post_init__(self) -> None:
        _check_sizes(self, "arc_width", "label_width")
        _check_rates(dropout=self.dropout, slope=self.slope)


@dataclass(frozen=True, slots=True)
class DecodeSettings:
    """From scores to graphs (Sec. 3.2.2)."""

    root_label: str = "root"  # what the treebank calls a word whose head is ROOT; empty if it has no label for them
    root_rule: Literal["exact", "none"] = "exact"  # a word has that label if and only if its head is ROOT, or maybe not
    first_graph: Literal["argmax", "tree"] = "argmax"  # what the step after an empty graph reads
    tree_over: Literal["log-probabilities", "probabilities"] = "log-probabilities"  # whose sum the final tree maximises


@dataclass(frozen=True, slots=True)
class ConfidenceSettings:
    """From scores to probabilities that hold, as fitted on a dev set. A model that was never calibrated has ones."""

    arc_temperature: float = 1.0  # by which the scores of heads are divided
    label_temperature: float = 1.0
    sentence_scale: float = 1.0  # a sentence whose words' doubts sum to this is right half of the time …
    sentence_slope: float = 1.0  # … and the larger this, the faster that falls

    def __post_init__(self) -> None:
        for name in ("arc_temperature", "label_temperature", "sentence_scale", "sentence_slope"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} = {getattr(self, name)}; it must be above 0")


@dataclass(frozen=True, slots=True)
class PrecisionSettings:
    """The numbers a model runs with, by device: those it was measured to parse as well with as with float32."""

    cpu: Literal["float32", "int8"] = "float32"
    cuda: Literal["float32", "float16", "bfloat16"] = "float32"


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """All that config.json says of a saved model."""

    encoder: TransformerSettings | BiLSTMSettings
    relations: RelationSettings = field(default_factory=RelationSettings)
    tags: TagSettings = field(default_factory=TagSettings)
    scorer: ScorerSettings = field(default_factory=ScorerSettings)
    decode: DecodeSettings = field(default_factory=DecodeSettings)
    confidence: ConfidenceSettings = field(default_factory=ConfidenceSettings)
    precision: PrecisionSettings = field(default_factory=PrecisionSettings)
    max_steps: int = 0  # T, as it was trained; 0: not told
    stop_above: float = 1.0  # a sentence that is surer of a step than this takes no further one; 1: it must converge

    def __post_init__(self) -> None:
        if self.stop_above > 1:
            raise ValueError(f"stop_above = {self.stop_above}; it must not be over 1")
        if isinstance(self.encoder, BiLSTMSettings) and self.relations.graph != "none":
            raise ValueError('a BiLSTM reads no graph: set graph = "none" in [relations]')
        if isinstance(self.encoder, BiLSTMSettings) and self.precision != PrecisionSettings():
            raise ValueError("a BiLSTM runs in float32 alone: set no other in [precision]")

    @property
    def reads_graph(self) -> bool:
        """Whether the model can refine a graph (RNGTr), or only make a first one (SynTr, Biaffine)."""
        return self.relations.graph != "none"


@dataclass(frozen=True, slots=True)
class SegmenterSettings:
    """The network that cuts text: a BiLSTM over characters, and one over runs of them, which sees further."""

    char_width: int = 64
    kind_width: int = 16  # of a character's Unicode category
    char_layers: int = 1
    char_hidden: int = 128  # in each direction
    n_hashes: int = 2048  # rows of the table of runs, shared by all runs whose spelling falls on the same row
    hash_width: int = 32
    run_layers: int = 2
    run_hidden: int = 256  # in each direction
    dropout: float = 0.4

    def __post_init__(self) -> None:
        sizes = ("char_width", "kind_width", "char_layers", "char_hidden", "n_hashes", "hash_width", "run_layers")
        _check_sizes(self, *sizes, "run_hidden")
        _check_rates(dropout=self.dropout)


PRESETS = ("paper", "released-code")


def with_preset(settings: ModelSettings, preset: str) -> ModelSettings:
    """The settings with the paper's equations, or with the choices of the authors' code where they differ.

    The code's relation term is not scaled and its layer norm never takes effect; words that are each other's head lose
    both arcs; CLS and SEP are added twice; the first graph is a tree; the last one maximises the sum of probabilities;
    any word may be labelled `root`. What differs in training and in the test for stopping is not here.
    """
    if preset == "paper":
        relations, decode, double = RelationSettings(), DecodeSettings(), False
    elif preset == "released-code":
        relations = RelationSettings(key_norm=False, scaled=False, two_cycles="erased")
        decode = DecodeSettings(root_rule="none", first_graph="tree", tree_over="probabilities")
        double = True
    else:
        raise ConfigError(f"There is no preset {preset!r}.", hint=f"Choose one of {', '.join(PRESETS)}.")
    relations = replace(relations, graph=settings.relations.graph)
    decode = replace(decode, root_label=settings.decode.root_label)
    return replace(settings, relations=relations, decode=decode, tags=replace(settings.tags, double_specials=double))
