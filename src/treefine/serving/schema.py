"""The JSON of requests and responses. FastAPI validates requests with it and describes it in /openapi.json."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from typing_extensions import Self

from treefine.config import TagChoice
from treefine.parsing.options import CAUTIOUS_TRUST, ParserOptions
from treefine.serving.jobs import ParseJob
from treefine.treebank.conllu import read_treebank
from treefine.treebank.constraints import Constraints, Keep
from treefine.treebank.sentence import Sentence

_MAX_STEPS, _MAX_TREES = 20, 20  # the largest T and k that a request may ask for
REFINE_EXAMPLE = "1\tDogs\t_\t_\t_\t_\t0\troot\t_\t_\n2\tbark\t_\t_\t_\t_\t1\tobj\t_\t_\n\n"


def _is_text(value: str) -> str:
    """Return the text, or raise an error for an unpaired surrogate, which JSON can contain but UTF-8 cannot."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"Character {error.start + 1:,} is an unpaired surrogate.") from None
    return value


_Text = Annotated[str, AfterValidator(_is_text)]
_Number = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,5}$")]  # of a word; the names of a JSON object are strings
_Head = Annotated[int, Field(ge=0, le=999_999)]
_Label = Annotated[_Text, Field(min_length=1, max_length=100)]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


class _Strict(BaseModel):
    # strict: otherwise true would count as 1, which the schema forbids
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Decided(_Strict):
    """The constraints of one sentence. Words are numbered from 1; head 0 is ROOT."""

    sentence: int = Field(1, ge=1, description="The number of the sentence, from 1.")
    heads: dict[_Number, _Head] = Field({}, description="The head of a word.")
    labels: dict[_Number, _Label] = Field({}, description="The label of a word.")
    not_heads: dict[_Number, list[_Head]] = Field({}, description="Heads that a word must not have.")
    not_labels: dict[_Number, list[_Label]] = Field({}, description="Labels that a word must not have.")

    def constraints(self) -> Constraints:
        """Return the constraints for a parser."""
        columns = (self.heads, self.labels, self.not_heads, self.not_labels)
        return Constraints(*({int(word): value for word, value in column.items()} for column in columns))  # type: ignore[arg-type]


class _Request(_Strict):
    model: _Text = Field("", max_length=200, description="A name from GET /v1/models; empty: the default.")
    language: _Text | None = Field(
        None,
        max_length=100,
        description="The language of the input, for a model of several: a code or a treebank from GET /v1/models, or "
        "an English name. Without `model`, it also chooses the model; default: identified from the input.",
    )
    steps: int | None = Field(None, ge=1, le=_MAX_STEPS, description="Maximum number of refinement steps (T).")
    tags: TagChoice | None = Field(
        None,
        description="Read the tags of the input, predict them, or use none. If trees are refined, `predicted` also "
        "replaces all tags.",
    )
    keep: Keep = Field("marked", description="Input arcs to keep: those marked in MISC, all, or none.")
    projective: bool | None = Field(None, description="Return only trees without crossing arcs.")
    k: int | None = Field(None, ge=1, le=_MAX_TREES, description="Return the k best trees of each sentence.")
    stop_above: float | None = Field(
        None, ge=0, le=1, description="Stop refining a sentence above this mean confidence; 1: never."
    )
    trust: float | None = Field(
        None, ge=0, le=1000, description="Weight of the initial trees' arcs; default: 1 for given trees, else 0."
    )
    constraints: list[Decided] = Field([], max_length=10_000, description="Constraints by sentence.")

    @model_validator(mode="after")
    def _decides_once(self) -> Self:
        numbers = [each.sentence for each in self.constraints]
        if len(set(numbers)) < len(numbers):
            raise ValueError("A sentence is listed twice in constraints. Put all its constraints into one entry.")
        return self

    def _job(
        self, initial: str | None, *, text: str | None = None, sentences: Iterable[Sentence] | None = None
    ) -> ParseJob:
        options = ParserOptions(
            initial=initial,
            # With two digits, more requests share their options and can be parsed in one batch.
            trust=CAUTIOUS_TRUST if self.trust is None and initial == "given" else _rounded(self.trust),
            max_steps=self.steps,
            stop_above=_rounded(self.stop_above),
            tags=self.tags,
            is_projective=self.projective,
            keep=None if self.keep == "marked" else self.keep,  # which is the default
            k=self.k,
        )
        constraints = {each.sentence: each.constraints() for each in self.constraints}
        return ParseJob(text, None if sentences is None else tuple(sentences), options, constraints)


class StepsRequest(_Request):
    """The input is exactly one of text, words and conllu."""

    text: _Text | None = Field(None, description="Running text.", examples=["Nobody knew why."])
    words: list[list[_Text]] | None = Field(None, description="Sentences, each a list of words.")
    conllu: _Text | None = Field(None, description="Sentences in CoNLL-U.")
    initial: Literal["own", "empty", "given"] = Field(
        "own", description="Start from the model's own initial parse, nothing, or given trees."
    )

    @model_validator(mode="after")
    def _has_one_input(self) -> StepsRequest:
        if sum(each is not None for each in (self.text, self.words, self.conllu)) != 1:
            raise ValueError("Give exactly one of text, words and conllu.")
        if self.initial == "given" and self.conllu is None:
            raise ValueError('initial "given" needs trees to start from: send them in conllu.')
        return self

    def job(self) -> ParseJob:
        """Return the job for a model."""
        initial = None if self.initial == "own" else self.initial
        if self.text is not None:
            return self._job(initial, text=self.text)
        if self.words is not None:
            return self._job(initial, sentences=map(Sentence.of_words, self.words))
        return self._job(initial, sentences=conllu_sentences(self.conllu or ""))


class ParseRequest(StepsRequest):
    """The input is exactly one of text, words and conllu."""

    format: Literal["json", "conllu"] = Field(
        "json", description="json; or conllu, which is faster but has only trees."
    )


class RefineRequest(_Request):
    """Trees to correct."""

    conllu: _Text = Field(description="Sentences in CoNLL-U, with another parser's trees.", examples=[REFINE_EXAMPLE])
    format: Literal["json", "conllu"] = Field(
        "json", description="json; or conllu, which is faster but has only trees."
    )

    def job(self) -> ParseJob:
        """Return the job for a model."""
        return self._job("given", sentences=conllu_sentences(self.conllu))


def conllu_sentences(conllu: str) -> tuple[Sentence, ...]:
    """Return the sentences of a request; an error names the line."""
    return tuple(read_treebank(BytesIO(conllu.encode()), format="conllu"))


class WordJson(BaseModel):
    """A word, with the confidence in its annotation; a value that the input gave has no confidence of its own."""

    number: int
    form: str
    lemma: str
    upos: str
    xpos: str
    feats: str = Field(description="Features, such as Number=Plur; _ for none.")
    head: int = Field(description="0 is ROOT.")
    label: str
    start: int = Field(description="Offset of its first character in the text.")
    end: int = Field(description="Offset after its last character.")
    arc_confidence: float = Field(description="Probability that the head is right.")
    label_confidence: float = Field(description="Probability that the label is right, given that the head is.")
    confidence: float
    upos_confidence: float | None = Field(description="Probability that UPOS is right; null if the input gave it.")
    xpos_confidence: float | None
    feats_confidence: float | None
    lemma_confidence: float | None


class GraphJson(BaseModel):
    """Heads and labels, word 1 first."""

    heads: list[int]
    labels: list[str]


class TreeJson(GraphJson):
    """One of the k best trees."""

    probability: float
    label_probability: float


class TokenJson(BaseModel):
    """A token of several words."""

    form: str
    words: list[int]


class SentenceJson(BaseModel):
    """A sentence with its tree."""

    sent_id: str
    text: str
    language: str | None = Field(None, description="For a model of several languages: the code of the one it used.")
    treebank: str | None = Field(None, description="The treebank whose habits the model followed, likewise.")
    start: int
    end: int
    confidence: float = Field(description="Probability that all heads, all labels and the cut are right.")
    cut_confidence: float = Field(1.0, description="Probability that the sentence starts and ends here.")
    words: list[WordJson]
    steps: list[GraphJson] = Field(description="The graph of each refinement step.")
    multiword_tokens: list[TokenJson] = []
    agreement: list[float] = Field([], description="For k above 1: fraction of the steps with each word's arc.")
    trees: list[TreeJson] = []


class PartialGraphJson(BaseModel):
    """A graph in which some words have no head."""

    heads: list[int | None]
    labels: list[str]


class ChangeJson(BaseModel):
    """A word whose head or label differs from the initial graph, or whose tag, features or lemma were replaced."""

    word: int
    form: str
    old_head: int | None
    old_label: str
    head: int
    label: str
    before: float | None = Field(description="Final confidence in the old arc.")
    after: float = Field(description="Final confidence in the new arc.")
    step: int | None = Field(description="The first step with the new arc.")
    old_upos: str = Field(description="The universal tag in the input.")
    upos: str
    old_xpos: str = Field(description="The treebank-specific tag in the input.")
    xpos: str
    old_feats: str = Field(description="The features in the input.")
    feats: str
    old_lemma: str = Field(description="The lemma in the input.")
    lemma: str


class RefinedJson(SentenceJson):
    """A sentence with its tree and the changes to its initial graph."""

    initial: PartialGraphJson
    changes: list[ChangeJson]
    converged: bool


class DrawnGraphJson(PartialGraphJson):
    """A graph of the refinement, with its drawing."""

    t: int = Field(description="0 is the initial graph.")
    title: str
    changed: list[int] = Field(description="Words whose arc differs from the previous graph.")
    confidence: list[float] | None
    svg: str


class ConstraintsJson(BaseModel):
    """Constraints by word number: those of the request, and those that marks in the input give to other words."""

    heads: dict[str, int]
    labels: dict[str, str]
    not_heads: dict[str, list[int]]
    not_labels: dict[str, list[str]]


class SteppedJson(RefinedJson):
    """A sentence with all graphs from the initial one to the tree."""

    constraints: ConstraintsJson
    conllu: str
    graphs: list[DrawnGraphJson]


class _Answer(BaseModel):
    model: str


class ParseAnswer(_Answer):
    """The response of /v1/parse."""

    sentences: list[SentenceJson]


class RefineAnswer(_Answer):
    """The response of /v1/refine."""

    sentences: list[RefinedJson]


class StepsAnswer(_Answer):
    """The response of /v1/steps."""

    sentences: list[SteppedJson]


class LanguageJson(BaseModel):
    """A language of a model."""

    code: str
    name: str = Field(description="In English.")
    treebanks: list[str] = Field(description="Codes for `language`, the main treebank first; empty if there is one.")


class ModelJson(BaseModel):
    """A model of the server."""

    name: str
    is_default: bool
    languages: list[LanguageJson]
    labels: list[str]
    max_steps: int
    reads_graph: bool
    has_segmenter: bool
    predicts_tags: bool
    has_initial_parser: bool


class HealthJson(BaseModel):
    """The state of the server and its models."""

    status: Literal["ok", "failed"]
    version: str
    models: dict[str, Literal["ok", "failed"]]


class FaultJson(BaseModel):
    """An error: the message, the place, and a hint."""

    status: int
    message: str
    hint: str | None = None
    line: int | None = None
    sent_id: str | None = None
    sentence: int | None = None
    word: str | None = None
    models: list[str] | None = None


class ErrorJson(BaseModel):
    """The response to a request that failed."""

    error: FaultJson


ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorJson, "description": "The input cannot be parsed; the error has the line or the sentence."},
    403: {"model": ErrorJson, "description": "A web page of another origin sent the request."},
    404: {"model": ErrorJson, "description": "Unknown model; the error lists the available ones."},
    408: {"model": ErrorJson, "description": "The client took too long to send the request."},
    413: {"model": ErrorJson, "description": "The request is larger than the server accepts."},
    422: {"model": ErrorJson, "description": "The request does not match the schema."},
    503: {"model": ErrorJson, "description": "The queue is full; retry after the number of seconds in Retry-After."},
    504: {"model": ErrorJson, "description": "The request took too long."},
}
