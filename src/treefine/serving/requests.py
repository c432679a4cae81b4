"""What a client asks for: JSON that FastAPI validates and describes in /openapi.json, and the request made of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from io import BytesIO, StringIO
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import Self

from treefine.config import STEPS, TagChoice
from treefine.parsing.options import CAUTIOUS_TRUST, MOST_TRUST, OPTIONS, ParserOptions
from treefine.parsing.parser import Parser
from treefine.segmenter.cut import Segmented
from treefine.serving.limits import ServerLimits, ServingError, work_of
from treefine.treebank.conllu import read_treebank
from treefine.treebank.constraints import Constraints, Keep, decisions_in
from treefine.treebank.raw_text import spans_in
from treefine.treebank.sentence import Sentence, own_text

_MAX_STEPS, _MAX_TREES = 20, 20  # the largest T and k that a request may ask for
_MOST_DRAWN = 100  # sentences whose graphs are drawn for one request
_MOST_FORBIDDEN = 1_000  # heads and labels per sentence; finding contradictions among more takes too long
_EXAMPLE = "1\tDogs\t_\t_\t_\t_\t0\troot\t_\t_\n2\tbark\t_\t_\t_\t_\t1\tobj\t_\t_\n\n"

ResultKind = Literal["sentences", "trees", "parses", "steps"]
"""Sentences that are only segmented, sentences with trees, parses, or parses with the confidences of each step."""


@dataclass(frozen=True)
class ParseRequest:
    """A text to segment and parse, or sentences divided into words, with options and constraints."""

    text: str | None = None
    sentences: tuple[Sentence, ...] = ()  # if there is no text
    options: ParserOptions = ParserOptions()
    constraints: Mapping[int, Constraints] = field(default_factory=dict)  # by the number of the sentence, from 1
    result: ResultKind = "trees"
    has_lines: bool = False  # the text has one sentence per line
    language: str = ""  # for a model of several: the code of a treebank; empty: identified from the input

    @cached_property
    def size(self) -> int:
        """The approximate amount of input, in characters; a sentence counts 20 more, because it takes memory too."""
        if self.text is not None:
            return len(self.text)
        return sum(20 + sum(map(len, each.forms)) for each in self.sentences)

    @cached_property
    def work_of(self) -> partial[int]:
        """The function that returns the approximate work of a sentence with a number of words."""
        k = (self.options.k or 1) if self.result in ("parses", "steps") else 1
        steps, is_projective = self.options.max_steps or STEPS, bool(self.options.is_projective)
        return partial(work_of, steps=steps, k=k, is_projective=is_projective)

    def segment(self, parser: Parser) -> Iterator[Segmented]:
        """Yield the sentences; a text is segmented on the way. The parser has the language of the request as an option.

        The sentences get the treebank of their language, so that they can be parsed together with those of others.
        """
        if self.text is None:
            sentences = parser.plan().language.of_sentences(self.sentences)
            return (Segmented(each, spans_in(own_text(each), each)) for each in sentences)
        if self.has_lines:
            return parser.segment_lines(StringIO(self.text, newline="\n"))
        return parser.segment([self.text])

    def constraints_of(self, number: int, sentence: Sentence) -> Constraints:
        """Return the constraints of a sentence; those of the request replace the marks of the same words."""
        marked = decisions_in(sentence, self.options.keep or "marked")
        requested = self.constraints.get(number)
        if requested is None or not marked:
            return requested or marked
        words = {word for column in vars(requested).values() for word in column}
        columns = [
            {word: value for word, value in old.items() if word not in words} | new
            for old, new in zip(vars(marked).values(), vars(requested).values(), strict=True)
        ]
        return Constraints(*columns)

    def check(self, number: int, sentence: Sentence, constraints: Constraints, limits: ServerLimits) -> None:
        """Raise an error if a sentence exceeds a limit."""
        most = limits.max_sentence_words(self.work_of)
        longest = max(map(len, sentence.forms), default=0)
        message = hint = ""
        if len(sentence) > most:
            message = f"Sentence {number:,} has {len(sentence):,} words."
            fewer = "use fewer steps or trees" if most < limits.max_words else "parse it with `treefine parse`"
            hint = f"The limit is {most:,} words. Split it, or {fewer}."
        elif longest > limits.max_chars:
            message = f"Sentence {number:,} has a word of {longest:,} characters."
            hint = f"The limit is {limits.max_chars:,} characters."
        elif self.result == "steps" and number > _MOST_DRAWN:
            message = f"The request has more than {_MOST_DRAWN} sentences to draw."
            hint = "Send fewer, or use /v1/parse."
        elif sum(map(len, (*constraints.not_heads.values(), *constraints.not_labels.values()))) > _MOST_FORBIDDEN:
            message = f"Sentence {number:,} has more than {_MOST_FORBIDDEN:,} forbidden heads and labels."
        if message:
            raise ServingError(message, hint=hint, status=413)


_Text = Annotated[str, Field(min_length=0)]  # a string with limits cannot have unpaired surrogates, as JSON can
_Number = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,5}$")]  # of a word; the names of a JSON object are strings
_Head = Annotated[int, Field(ge=0, le=999_999)]
_Label = Annotated[_Text, Field(min_length=1, max_length=100)]
_Format = Annotated[
    Literal["json", "conllu"], Field(description="json; or conllu, which is faster but has only trees.")
]


def _option(name: str, *, le: float | None = None) -> Any:
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


class ParseBody(StepsBody):
    """The input is exactly one of text, words and conllu."""

    format: _Format = "json"


class RefineBody(_Body):
    """Trees to correct."""

    text: ClassVar[None] = None
    words: ClassVar[None] = None
    initial: ClassVar[str] = "given"

    conllu: _Text = Field(description="Sentences in CoNLL-U, with another parser's trees.", examples=[_EXAMPLE])
    format: _Format = "json"


def size_of(body: StepsBody | RefineBody) -> int:
    """Return the number of characters that are read before the request waits for the model, which reads a text."""
    return len(body.conllu or "") + sum(len(word) for words in body.words or () for word in words)


def request_of(body: StepsBody | RefineBody, result: ResultKind, treebank: str) -> ParseRequest:
    """Return the request for a model; an error in its CoNLL-U names the line."""
    is_refined = body.initial == "given"
    options = ParserOptions(
        initial=None if body.initial == "own" else body.initial,
        trust=CAUTIOUS_TRUST if body.trust is None and is_refined else body.trust,
        max_steps=body.steps,
        stop_above=body.stop_above,
        tags=body.tags,
        is_projective=body.projective,
        keep=body.keep,
        k=body.k,
    )
    words = tuple(map(Sentence.of_words, body.words or ()))
    sentences = words if body.conllu is None else conllu_sentences(body.conllu)
    constraints = {each.sentence: each.constraints() for each in body.constraints}
    return ParseRequest(body.text, sentences, options, constraints, result, language=treebank)


def conllu_sentences(conllu: str) -> tuple[Sentence, ...]:
    """Return the sentences of a request; an error names the line."""
    return tuple(read_treebank(BytesIO(conllu.encode()), format="conllu"))
