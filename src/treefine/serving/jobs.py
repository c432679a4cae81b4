"""The requests of a server: what to parse, and the parts that are taken and parsed one after another or at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from io import StringIO
from typing import Any

from treefine.config import STEPS
from treefine.errors import TreefineError
from treefine.parsing.options import ParserOptions
from treefine.parsing.parser import Parser
from treefine.segmenter.cut import Segmented
from treefine.serving.hosts import AnswerKind
from treefine.serving.limits import ServerLimits, TooLargeError, work_of
from treefine.treebank.constraints import Constraints, decisions_in
from treefine.treebank.raw_text import own_text, spans_in
from treefine.treebank.sentence import Sentence
from treefine.wording import count

SHARE_WORK = 6_000  # of one request per round, so that a long request does not block short ones
_SENTENCE_SIZE = 20  # characters added per sentence, because a sentence takes memory too
_TEXT_PER_SENTENCE = 80  # characters
_MOST_DRAWN = 100  # sentences whose graphs are drawn for one request
_MOST_FORBIDDEN = 1_000  # heads and labels per sentence; finding contradictions among more takes too long


@dataclass(frozen=True)
class ParseJob:
    """A text to segment and parse, or sentences divided into words, with options and constraints."""

    text: str | None = None
    sentences: tuple[Sentence, ...] | None = None
    options: ParserOptions = ParserOptions()  # jobs with equal options are parsed together
    constraints: Mapping[int, Constraints] = field(default_factory=dict)  # by the number of the sentence, from 1
    lines: bool = False  # the text has one sentence per line
    language: str = ""  # for a model of several: the code of a treebank; empty: identified from the input

    @cached_property
    def size(self) -> int:
        """The approximate amount of input, in characters."""
        if self.text is not None:
            return len(self.text)
        return sum(_SENTENCE_SIZE + sum(map(len, each.forms)) for each in self.sentences or ())

    @property
    def n_sentences(self) -> int:
        """The number of sentences; in a text, about as many as there are."""
        return len(self.sentences or ()) if self.text is None else 1 + len(self.text) // _TEXT_PER_SENTENCE

    @property
    def steps(self) -> int:
        """The maximum number of refinement steps."""
        return self.options.max_steps or STEPS

    def constraints_of(self, number: int, sentence: Sentence) -> Constraints:
        """Return the constraints of a sentence; those of the request replace the marks of the same words."""
        own = decisions_in(sentence, self.options.keep or "marked")
        asked = self.constraints.get(number)
        if asked is None or not own:
            return asked or own
        words = {word for column in _columns(asked) for word in column}
        kept = ({word: value for word, value in column.items() if word not in words} for column in _columns(own))
        return Constraints(*({**ours, **theirs} for ours, theirs in zip(kept, _columns(asked), strict=True)))

    def segment(self, parser: Parser) -> Iterator[Segmented]:
        """Yield the sentences; a text is segmented on the way. The parser has the language of the job as an option.

        The sentences get the treebank of their language, so that they can be parsed together with those of other jobs.
        """
        if self.text is None:
            found = parser.plan().language.of_sentences(self.sentences or ())
            return (Segmented(each, spans_in(own_text(each), each)) for each in found)
        if self.lines:
            return parser.segment_lines(StringIO(self.text, newline="\n"))
        return parser.segment([self.text])


def _columns(constraints: Constraints) -> tuple[Mapping[int, Any], ...]:
    return constraints.heads, constraints.labels, constraints.not_heads, constraints.not_labels


@dataclass(eq=False)
class PendingJob:
    """A job that waits for its answer."""

    job: ParseJob
    kind: AnswerKind
    answer: Future[list[Any]] = field(default_factory=Future)  # also done if its time is up
    segmented: Iterator[Segmented] | None = None  # the sentences still to come; None before the first is segmented
    n_taken: int = 0  # sentences of all parts
    n_parts: int = 0
    postponed: JobPart | None = None  # it did not fit into a round
    results: dict[int, list[Any]] = field(default_factory=dict)  # by part
    is_all_taken: bool = False

    @property
    def k(self) -> int:
        """The number of trees to find per sentence; an answer with trees only has one."""
        return (self.job.options.k or 1) if self.kind in ("parses", "steps") else 1

    def take(self, parser: Parser, most: int, limits: ServerLimits) -> JobPart:
        """Take sentences until there are `most` or too much work, but at least one."""
        if self.postponed is not None:
            part, self.postponed = self.postponed, None
            return part
        part = JobPart(self, self.n_parts)
        self.n_parts += 1  # before `is_all_taken` is set: another thread may have parsed all earlier parts
        if self.segmented is None:
            self._check_text(limits.max_chars)
            self.segmented = self.job.segment(parser)
        while len(part.taken) < most and part.work < SHARE_WORK and not self.answer.done():
            found = next(self.segmented, None)
            if found is None:
                self._end()
                break
            self.n_taken += 1
            part.taken.append((found, self._checked_constraints(found.sentence, limits)))
            part.work += self._work_of(len(found.sentence))
        return part

    def _work_of(self, n_words: int) -> int:
        is_projective = bool(self.job.options.is_projective)
        return work_of(n_words, steps=self.job.steps, k=self.k, is_projective=is_projective)

    def _check_text(self, max_chars: int) -> None:
        """Raise an error for a text with a very long word, before it is segmented, which takes seconds.

        A script without spaces has punctuation in between; the words themselves are checked afterwards.
        """
        long = [each for each in (self.job.text or "").split() if len(each) > max_chars]
        letters = (run for each in long for run in ([each] if each.isascii() else re.findall(r"\w+", each)))
        longest = max(map(len, letters), default=0)
        if longest > max_chars:
            hint = f"The limit is {max_chars:,} characters per word."
            raise TooLargeError(f"The text has {longest:,} characters without a space.", hint=hint)

    def _checked_constraints(self, sentence: Sentence, limits: ServerLimits) -> Constraints:
        """Return the constraints of the last sentence taken, or raise an error if it exceeds a limit."""
        is_projective = bool(self.job.options.is_projective)
        most = limits.words_with(steps=self.job.steps, k=self.k, is_projective=is_projective)
        if len(sentence) > most:
            hint = f"The limit is {most:,} words. Split it, or parse it with `treefine parse`."
            if most < limits.max_words:
                asked = f"{self.job.steps} steps and k = {self.k}{', projective' if is_projective else ''}"
                hint = f"With {asked}, the limit is {most:,} words. Use fewer steps or trees."
            raise TooLargeError(f"Sentence {self.n_taken:,} has {len(sentence):,} words.", hint=hint)
        longest = max(map(len, sentence.forms), default=0)
        if longest > limits.max_chars:
            hint = f"The limit is {limits.max_chars:,} characters."
            raise TooLargeError(f"Sentence {self.n_taken:,} has a word of {longest:,} characters.", hint=hint)
        if self.kind == "steps" and self.n_taken > _MOST_DRAWN:
            hint = "Send fewer, or use /v1/parse."
            raise TooLargeError(f"The request has more than {_MOST_DRAWN} sentences to draw.", hint=hint)
        constraints = self.job.constraints_of(self.n_taken, sentence)
        if constraints.n_forbidden > _MOST_FORBIDDEN:
            message = f"Sentence {self.n_taken:,} has more than {_MOST_FORBIDDEN:,} forbidden heads and labels."
            raise TooLargeError(message)
        return constraints

    def _end(self) -> None:
        self.is_all_taken = True
        beyond = [number for number in self.job.constraints if not 1 <= number <= self.n_taken]
        if beyond:
            message = f"There are constraints for sentence {beyond[0]:,}, but only {count(self.n_taken, 'sentence')}."
            raise TreefineError(message, hint="Sentences are counted from 1.")

    def fail(self, error: Exception) -> None:
        """Answer with an error, if the client is still waiting."""
        with suppress(InvalidStateError):
            self.answer.set_exception(error)

    def add(self, part: JobPart, results: list[Any]) -> None:
        """Add the results of a part, and answer if all parts are parsed and the client is still waiting."""
        self.results[part.number] = results
        if self.is_all_taken and len(self.results) == self.n_parts:
            in_order = [result for number in range(self.n_parts) for result in self.results[number]]
            with suppress(InvalidStateError):  # it may time out at this moment
                self.answer.set_result(in_order)


@dataclass(eq=False)
class JobPart:
    """The sentences of a request that one round parses."""

    request: PendingJob
    number: int  # among the parts of the request, from 0
    taken: list[tuple[Segmented, Constraints]] = field(default_factory=list)
    work: int = 0
