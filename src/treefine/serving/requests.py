"""What a request asks of a model (ParseJob), and its state while it waits (PendingJob)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from io import StringIO
from typing import Any, Literal, NamedTuple

from treefine.errors import TreefineError
from treefine.parsing.options import ParserOptions
from treefine.parsing.parser import Parser
from treefine.parsing.plan import STEPS
from treefine.segmenter.cut import Segmented
from treefine.serving.middleware import TooLargeError
from treefine.treebank.constraints import CONSTRAIN, Constraints
from treefine.treebank.raw_text import own_text, spans_in
from treefine.treebank.sentence import Sentence

_SENTENCE_SIZE = 20  # characters that a sentence counts for beside those of its words, as it takes memory too
_MOST_DRAWN = 100  # sentences whose graphs are drawn for one request
_MOST_FORBIDDEN = 1_000  # heads and labels of one sentence: finding those that contradict each other takes long

AnswerKind = Literal["cut", "trees", "parses", "steps"]


@dataclass(frozen=True)
class ParseJob:
    """A text to segment and parse, or sentences that are cut into words, with options and constraints."""

    text: str | None = None
    sentences: tuple[Sentence, ...] | None = None
    options: ParserOptions = ParserOptions()  # jobs with equal options are parsed together
    constraints: Mapping[int, Constraints] = field(default_factory=dict)  # by the number of the sentence, from 1
    lines: bool = False  # the text has one sentence per line

    def __post_init__(self) -> None:
        if (self.text is None) == (self.sentences is None):
            raise TreefineError("Ask for one of a text and sentences.")
        if self.text is not None and self.options.initial == "given":
            raise TreefineError("A text has no trees to start from.", hint="Give CoNLL-U.")

    @property
    def size(self) -> int:
        """Return roughly how much input there is, in characters."""
        if self.text is not None:
            return len(self.text)
        return sum(_SENTENCE_SIZE + sum(map(len, each.forms)) for each in self.sentences or ())

    @property
    def work_per_word(self) -> int:
        """Return roughly how much work a word is: refinement steps times trees."""
        return (self.options.max_steps or STEPS) * (self.options.k or 1)

    def constraints_of(self, number: int, sentence: Sentence) -> Constraints:
        """Return the constraints of a sentence; for a word that the request mentions, marks in the sentence yield."""
        own = next(CONSTRAIN[self.options.keep or "marked"]([sentence]))
        asked = self.constraints.get(number)
        if asked is None or not own:
            return asked or own
        words = {word for column in _columns(asked) for word in column}
        kept = ({word: value for word, value in column.items() if word not in words} for column in _columns(own))
        return Constraints(*({**ours, **theirs} for ours, theirs in zip(kept, _columns(asked), strict=True)))

    def segment(self, parser: Parser) -> Iterator[Segmented]:
        """Yield the sentences; a text is segmented on the way."""
        if self.text is None:
            return (Segmented(each, spans_in(own_text(each), each)) for each in self.sentences or ())
        if self.lines:
            return parser.segment_lines(StringIO(self.text, newline="\n"))
        return parser.segment([self.text])


class PendingSentence(NamedTuple):
    """A sentence to parse, and its constraints."""

    segmented: Segmented
    constraints: Constraints


@dataclass(eq=False)
class PendingJob:
    """A job that waits for its answer."""

    job: ParseJob
    kind: AnswerKind
    answer: Future[list[Any]]
    size: int
    segmented: Iterator[Segmented] | None = None  # the sentences still to come; None before the first is segmented
    n_taken: int = 0
    results: list[Any] = field(default_factory=list)
    is_all_taken: bool = False

    @property
    def is_over(self) -> bool:
        """Return whether nobody waits for the answer any more: it has failed, or its time is up."""
        return self.answer.done()

    def work_of(self, sentence: Segmented) -> int:
        """Return roughly how much work a sentence is."""
        return self.job.work_per_word * len(sentence.sentence)

    def take(self, parser: Parser, most: int, most_work: int, max_words: int) -> list[PendingSentence]:
        """Return the next sentences: at least one, and more until they are `most` or are too much work."""
        if self.segmented is None:
            self.segmented = self.job.segment(parser)
        taken: list[PendingSentence] = []
        work = 0
        while len(taken) < most and work < most_work:
            found = next(self.segmented, None)
            if found is None:
                self._end()
                break
            self.n_taken += 1
            taken.append(PendingSentence(found, self._checked_constraints(found.sentence, max_words)))
            work += self.work_of(found)
        return taken

    def _checked_constraints(self, sentence: Sentence, max_words: int) -> Constraints:
        """Return the constraints of the sentence just taken, or refuse it."""
        if len(sentence) > max_words:
            hint = f"This server takes {max_words:,}. Cut it, or parse it with `treefine parse`."
            raise TooLargeError(f"Sentence {self.n_taken:,} has {len(sentence):,} words.", hint=hint)
        if self.kind == "steps" and self.n_taken > _MOST_DRAWN:
            hint = "Ask for fewer at once, or for /v1/parse."
            raise TooLargeError(f"There are more than {_MOST_DRAWN} sentences to draw.", hint=hint)
        constraints = self.job.constraints_of(self.n_taken, sentence)
        if constraints.n_forbidden > _MOST_FORBIDDEN:
            message = f"In sentence {self.n_taken:,} more than {_MOST_FORBIDDEN:,} arcs or labels are forbidden."
            raise TooLargeError(message)
        return constraints

    def _end(self) -> None:
        self.is_all_taken = True
        beyond = [number for number in self.job.constraints if not 1 <= number <= self.n_taken]
        if beyond:
            message = f"There are constraints for sentence {beyond[0]:,}, and {self.n_taken:,} sentences."
            raise TreefineError(message, hint="Sentences are counted from 1.")

    def fail(self, error: Exception) -> None:
        """Answer with an error, if somebody still waits."""
        with suppress(InvalidStateError):
            self.answer.set_exception(error)

    def finish(self) -> None:
        """Answer with the results, if somebody still waits."""
        with suppress(InvalidStateError):  # its time may be up at this very moment
            self.answer.set_result(self.results)


def _columns(constraints: Constraints) -> tuple[Mapping[int, Any], ...]:
    return constraints.heads, constraints.labels, constraints.not_heads, constraints.not_labels
