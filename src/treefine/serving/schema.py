"""The JSON of requests: FastAPI validates them with it and describes them in /openapi.json."""

from __future__ import annotations

from io import BytesIO
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from typing_extensions import Self

from treefine.config import TagChoice
from treefine.parsing.options import CAUTIOUS_TRUST, MOST_TRUST, OPTIONS, ParserOptions
from treefine.serving.batching import ParseRequest
from treefine.serving.hosts import ResultKind
from treefine.treebank.conllu import read_treebank
from treefine.treebank.constraints import Constraints, Keep
from treefine.treebank.sentence import Sentence

_MAX_STEPS, _MAX_TREES = 20, 20  # the largest T and k that a request may ask for
_EXAMPLE = "1\tDogs\t_\t_\t_\t_\t0\troot\t_\t_\n2\tbark\t_\t_\t_\t_\t1\tobj\t_\t_\n\n"


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


def _option(name: str, *, le: float | None = None) -> Any:
    """Return a field of a request that is an option of the parser, perhaps with a lower maximum."""
    option = OPTIONS[name]
    most = option.at_most if le is None else le
    return Field(None, description=f"{option.help} Default: {option.default}.", ge=option.at_least, le=most)


class _Strict(BaseModel):
    # strict: otherwise true would count as 1, which the schema forbids
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SentenceConstraints(_Strict):
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


class _Body(_Strict):
    model: _Text = Field("", max_length=200, description="A name from GET /v1/models; empty: the default.")
    language: _Text | None = Field(
        None,
        max_length=100,
        description="The language of the input, for a model of several: a code or a treebank from GET /v1/models, or "
        "an English name. Without `model`, it also chooses the model; default: identified from the input.",
    )
    steps: int | None = _option("max_steps", le=_MAX_STEPS)
    tags: TagChoice | None = _option("tags")
    keep: Keep | None = _option("keep")
    projective: bool | None = _option("is_projective")
    k: int | None = _option("k", le=_MAX_TREES)
    stop_above: float | None = _option("stop_above")
    trust: float | None = Field(
        None, ge=0, le=MOST_TRUST, description="Weight of the initial trees' arcs; default: 1 for given trees, else 0."
    )
    constraints: list[SentenceConstraints] = Field([], max_length=10_000, description="Constraints by sentence.")

    @model_validator(mode="after")
    def _lists_each_sentence_once(self) -> Self:
        numbers = [each.sentence for each in self.constraints]
        if len(set(numbers)) < len(numbers):
            raise ValueError("A sentence is listed twice in constraints. Put all its constraints into one entry.")
        return self

    def _request(self, result: ResultKind, initial: str | None, **source: Any) -> ParseRequest:
        options = ParserOptions(
            initial=initial,
            trust=CAUTIOUS_TRUST if self.trust is None and initial == "given" else self.trust,
            max_steps=self.steps,
            stop_above=self.stop_above,
            tags=self.tags,
            is_projective=self.projective,
            keep=self.keep,
            k=self.k,
        )
        constraints = {each.sentence: each.constraints() for each in self.constraints}
        return ParseRequest(**source, options=options, constraints=constraints, result=result)


class StepsBody(_Body):
    """The input is exactly one of text, words and conllu."""

    text: _Text | None = Field(None, description="Running text.", examples=["Nobody knew why."])
    words: list[list[_Text]] | None = Field(None, description="Sentences, each a list of words.")
    conllu: _Text | None = Field(None, description="Sentences in CoNLL-U.")
    initial: Literal["own", "empty", "given"] = Field(
        "own", description="Start from the model's own initial parse, nothing, or given trees."
    )

    @model_validator(mode="after")
    def _has_one_input(self) -> Self:
        if sum(each is not None for each in (self.text, self.words, self.conllu)) != 1:
            raise ValueError("Give exactly one of text, words and conllu.")
        if self.initial == "given" and self.conllu is None:
            raise ValueError('initial "given" needs trees to start from: send them in conllu.')
        return self

    @property
    def size(self) -> int:
        """The number of characters that are read before the request waits for the model, which reads a text."""
        return len(self.conllu or "") + sum(len(word) for words in self.words or () for word in words)

    def request(self, result: ResultKind) -> ParseRequest:
        """Return the request for a model."""
        initial = None if self.initial == "own" else self.initial
        if self.text is not None:
            return self._request(result, initial, text=self.text)
        if self.words is not None:
            return self._request(result, initial, sentences=tuple(map(Sentence.of_words, self.words)))
        return self._request(result, initial, sentences=conllu_sentences(self.conllu or ""))


_Format = Annotated[
    Literal["json", "conllu"], Field(description="json; or conllu, which is faster but has only trees.")
]


class ParseBody(StepsBody):
    """The input is exactly one of text, words and conllu."""

    format: _Format = "json"


class RefineBody(_Body):
    """Trees to correct."""

    conllu: _Text = Field(description="Sentences in CoNLL-U, with another parser's trees.", examples=[_EXAMPLE])
    format: _Format = "json"

    @property
    def size(self) -> int:
        """The number of characters."""
        return len(self.conllu)

    def request(self, result: ResultKind) -> ParseRequest:
        """Return the request for a model."""
        return self._request(result, "given", sentences=conllu_sentences(self.conllu))


def conllu_sentences(conllu: str) -> tuple[Sentence, ...]:
    """Return the sentences of a request; an error names the line."""
    return tuple(read_treebank(BytesIO(conllu.encode()), format="conllu"))


ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"description": "The input cannot be parsed; the error has the line or the sentence."},
    403: {"description": "A web page of another origin sent the request."},
    404: {"description": "Unknown model; the error lists the available ones."},
    408: {"description": "The client took too long to send the request."},
    413: {"description": "The request is larger than the server accepts."},
    422: {"description": "The request does not match the schema."},
    503: {"description": "The queue is full; retry after the number of seconds in Retry-After."},
    504: {"description": "The request took too long."},
}
