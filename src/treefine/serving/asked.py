"""What a request asks of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import StringIO
from typing import Any, Literal

from treefine.config import TagSource
from treefine.errors import TreefineError
from treefine.parsing.cuts import Segmented
from treefine.parsing.initial import given, renamed
from treefine.parsing.options import STEPS
from treefine.parsing.parser import Parser
from treefine.treebank.constraints import CONSTRAIN, Constraints, Keep
from treefine.treebank.sentence import Sentence
from treefine.treebank.spans import own_text, spans_in

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
