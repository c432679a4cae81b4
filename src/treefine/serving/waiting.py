"""A request that waits for a model, from its first sentence to its answer."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from treefine.errors import TreefineError
from treefine.parsing.cuts import Segmented
from treefine.parsing.parser import Parser
from treefine.serving.asked import Asked
from treefine.serving.errors import TooLargeError
from treefine.treebank.constraints import Constraints

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
