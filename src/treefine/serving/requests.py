"""What a request asks of a model, and its state while it waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from io import StringIO
from typing import Any, Literal, NamedTuple

from treefine.config import TagSource
from treefine.errors import TreefineError
from treefine.parsing.initial import given, renamed
from treefine.parsing.options import STEPS
from treefine.parsing.parser import Parser
from treefine.segmenter.cut import Segmented
from treefine.serving.middleware import TooLargeError
from treefine.treebank.constraints import CONSTRAIN, Constraints, Keep
from treefine.treebank.raw_text import own_text, spans_in
from treefine.treebank.sentence import Sentence

SENTENCE = 20  # characters that a sentence counts for beside those of its words, as its memory does

Initial = Literal["own", "empty", "given"]


@dataclass(frozen=True)
class Options:
    """How to parse, None as the model has it; requests with the same options are parsed together."""

    max_steps: int | None = None  # T
    initial: Initial = "own"  # the model's own initial parser (if it has one), nothing, or the sentences' own trees
    tags: TagSource | None = None
    keep: Keep = "marked"
    is_projective: bool | None = None
    k: int | None = None
    stop_above: float | None = None

    @property
    def work(self) -> int:
        """About how much of it a word is: passes, and trees to look for."""
        return (self.max_steps or STEPS) * (self.k or 1)

    def apply(self, parser: Parser) -> Parser:
        """The parser with these options; it shares the model."""
        if self == Options():
            return parser
        initial = {
            "own": None,
            "empty": "empty",
            "given": renamed(given, parser.model.vocabulary.labels),
        }[self.initial]
        return parser.using(
            initial=initial,
            max_steps=self.max_steps,
            tags=self.tags,
            keep=self.keep,
            is_projective=self.is_projective,
            k=self.k,
            stop_above=self.stop_above,
        )


@dataclass(frozen=True)
class Asked:
    """Text to cut and parse, or sentences that are cut already."""

    text: str | None = None
    sentences: tuple[Sentence, ...] | None = None
    options: Options = Options()
    constraints: Mapping[int, Constraints] = field(default_factory=dict)  # by the number of the sentence, from 1
    lines: bool = False  # the text has one sentence a line

    def __post_init__(self) -> None:
        if (self.text is None) == (self.sentences is None):
            raise TreefineError("Ask for one of a text and sentences.")
        if self.text is not None and self.options.initial == "given":
            raise TreefineError("A text has no trees to start from.", hint="Give CoNLL-U.")

    @property
    def size(self) -> int:
        """About how much work it is, in characters."""
        if self.text is not None:
            return len(self.text)
        return sum(SENTENCE + sum(map(len, each.forms)) for each in self.sentences or ())

    def decided(self, number: int, sentence: Sentence) -> Constraints:
        """What was decided about a sentence: what the request says of a word goes before what the sentence says."""
        own = next(CONSTRAIN[self.options.keep]([sentence]))
        asked = self.constraints.get(number)
        if asked is None or not own:
            return asked or own
        words = {word for column in _columns(asked) for word in column}
        kept = ({word: value for word, value in column.items() if word not in words} for column in _columns(own))
        return Constraints(*({**ours, **theirs} for ours, theirs in zip(kept, _columns(asked), strict=True)))

    def cut(self, parser: Parser) -> Iterator[Segmented]:
        """Its sentences, one after another; a text is cut on the way."""
        if self.text is None:
            return (Segmented(each, spans_in(own_text(each), each)) for each in self.sentences or ())
        if self.lines:
            return parser.segment_lines(StringIO(self.text, newline="\n"))
        return parser.segment([self.text])


def _columns(constraints: Constraints) -> tuple[Mapping[int, Any], ...]:
    return constraints.heads, constraints.labels, constraints.not_heads, constraints.not_labels


MOST_DRAWN = 100  # sentences whose graphs are drawn for one request
MOST_FORBIDDEN = 1_000  # heads and labels of one sentence: looking for those that contradict each other takes long

Kind = Literal["cut", "trees", "parses", "steps"]


class Cut(NamedTuple):
    """A sentence to parse, and what was decided about it."""

    found: Segmented
    constraints: Constraints


@dataclass(eq=False)
class Waiting:
    """What one request is waiting for."""

    asked: Asked
    kind: Kind
    answer: Future[list[Any]]
    size: int
    cut: Iterator[Segmented] | None = None  # the sentences that are still to come; None before the first is cut
    n_cut: int = 0
    results: list[Any] = field(default_factory=list)
    is_cut: bool = False  # whether that was the last sentence

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for it any more: it has failed, or its time is up."""
        return self.answer.done()

    def take(self, parser: Parser, most: int, most_work: int, max_words: int) -> list[Cut]:
        """Its next sentences: at least one, and then as many as are not too much work together."""
        if self.cut is None:
            self.cut = self.asked.cut(parser)
        taken: list[Cut] = []
        work = 0
        while len(taken) < most and work < most_work:
            found = next(self.cut, None)
            if found is None:
                self._end()
                break
            self.n_cut += 1
            if len(found.sentence) > max_words:
                hint = f"This server takes {max_words:,}. Cut it, or parse it with `treefine parse`."
                raise TooLargeError(f"Sentence {self.n_cut:,} has {len(found.sentence):,} words.", hint=hint)
            if self.kind == "steps" and self.n_cut > MOST_DRAWN:
                hint = "Ask for fewer at once, or for /v1/parse."
                raise TooLargeError(f"There are more than {MOST_DRAWN} sentences to draw.", hint=hint)
            decided = self.asked.decided(self.n_cut, found.sentence)
            if decided.n_forbidden > MOST_FORBIDDEN:
                raise TooLargeError(
                    f"In sentence {self.n_cut:,} more than {MOST_FORBIDDEN:,} arcs or labels are forbidden."
                )
            taken.append(Cut(found, decided))
            work += self.asked.options.work * len(found.sentence)
        return taken

    def _end(self) -> None:
        self.is_cut = True
        beyond = [number for number in self.asked.constraints if not 1 <= number <= self.n_cut]
        if beyond:
            message = f"There are constraints for sentence {beyond[0]:,}, and {self.n_cut:,} sentences."
            raise TreefineError(message, hint="Sentences are counted from 1.")

    def fail(self, error: Exception) -> None:
        """Answer with an error, if somebody still waits."""
        with suppress(InvalidStateError):
            self.answer.set_exception(error)

    def finish(self) -> None:
        """Answer, if somebody still waits."""
        with suppress(InvalidStateError):  # its time may be up at this very moment
            self.answer.set_result(self.results)
