"""The parser beside a person: what it doubts, what it would choose instead, and what follows from a correction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from treefine.errors import TreefineError
from treefine.studio.actions import decisions_of, forbidding, set_arcs
from treefine.treebank.constraints import Constraints
from treefine.treebank.schemes import read_as
from treefine.treebank.sentence import BLANK, Sentence

if TYPE_CHECKING:
    from treefine.parsing.parse import Parse
    from treefine.parsing.parser import Parser

DOUBTFUL = 0.8  # an arc that is right with a lower probability is shown as doubtful
_MOST_SUGGESTIONS = 5  # places per sentence for which another tree is looked for
_MOST_WORDS = 400  # of a sentence; a longer one is edited without the parser
_LONGEST_WAIT = 10.0  # seconds; then the parser is loaded even if nobody has opened the page
_REMEMBERED = 2_000  # parses

_Method = TypeVar("_Method", bound=Callable[..., Any])


@dataclass(frozen=True)
class Suggestion:
    """Another arc for a doubtful word."""

    word: int
    head: int
    label: str


@dataclass(frozen=True)
class Advice:
    """The parser's opinion on the arcs of a sentence."""

    confidence: tuple[float | None, ...]  # that each arc of the sentence is right; None for a word without a head
    suggestions: tuple[Suggestion, ...] = ()  # the most doubtful word first

    @property
    def n_wrong(self) -> float:
        """The expected number of wrong arcs; a word without a head counts as wrong."""
        return sum(1.0 if each is None else 1 - each for each in self.confidence)


def _in_parser_thread(work: _Method) -> _Method:
    """Let a method run in the thread of the parser, and wait for it; raise an error if no parser is loaded."""

    @wraps(work)
    def run(self: Partner, *given: Any) -> Any:
        if not self.is_ready:
            raise TreefineError("The parser is not loaded.", hint=self.fault or "Wait a few seconds.")
        return self._thread.submit(work, self, *given).result()

    return cast("_Method", run)


class Partner:
    """A parser that is loaded in the background. Before it is ready, the studio works without it.

    One thread runs the model in the order of requests, so that a person waits for at most one batch of the background.
    Loading takes seconds, and waits until `may_load` is set: when the page has shown a sentence.
    """

    def __init__(self, load: Callable[[str], Parser], name: str = "") -> None:
        self.name = name  # of the model
        self.fault = ""  # why there is no parser
        self.may_load = threading.Event()
        self._load_model = load
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="parser")
        self._parsed = lru_cache(maxsize=_REMEMBERED)(lambda one: self._parse_all([one], [decisions_of(one)])[0])
        self._is_closed = False
        self._parser: Parser | None = None
        self._loading = self._thread.submit(self._load, name)

    def _load(self, name: str) -> None:
        self.may_load.wait(_LONGEST_WAIT)
        if self._is_closed:
            return
        try:
            from treefine.parsing.initial import input_trees, renamed  # the parser loads torch as well

            parser = self._load_model(name)
            if parser.model.settings.reads_graph:
                known = parser.model.vocabulary.labels
                parser = parser.using(initial=renamed(input_trees, known), trust=0.0, keep="nothing")
            list(parser.stream([["."] * 20]))  # the first parse is slow
        except Exception as error:  # whatever is wrong with the model, the studio works without it
            self.fault = str(error) or type(error).__name__
            return
        self._parser, self.name, self.fault = parser, name, ""
        self._parsed.cache_clear()

    def use(self, name: str) -> None:
        """Load another model. The present one works until then, and stays if the other cannot be loaded."""
        self._thread.submit(self._load, name).result()
        if self.fault:
            raise TreefineError("The new model cannot be loaded.", hint=self.fault)

    @property
    def is_ready(self) -> bool:
        """Whether the parser is loaded."""
        return self._parser is not None

    def wait(self) -> None:
        """Wait until the parser is loaded, or cannot be."""
        wait_for([self._loading])

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that the model knows; none before it is loaded."""
        return self._parser.model.vocabulary.labels if self._parser else ()

    @_in_parser_thread
    def rate(self, sentences: Sequence[Sentence]) -> list[Advice]:
        """Return the confidence in the arcs of some sentences."""
        inputs = list(map(_input, sentences))
        return list(map(self._rated, inputs, self._parse_all(inputs, list(map(decisions_of, inputs)))))

    @_in_parser_thread
    def parse(self, sentence: Sentence) -> Sentence | None:
        """Return the sentence with the parser's own tree, in which decisions are kept; None if it cannot be parsed."""
        parse = self._parsed(_input(sentence))
        return set_arcs(sentence, _arcs(parse)) if parse is not None else None

    def close(self) -> None:
        """Stop the thread after its present work."""
        self._is_closed = True
        self.may_load.set()
        self._thread.shutdown(cancel_futures=True)

    def _parse_all(self, sentences: Sequence[Sentence], decided: Sequence[Constraints]) -> list[Parse | None]:
        """Parse sentences together; None stands for one that is too long, or whose decisions no tree satisfies."""
        assert self._parser is not None
        try:
            if max(map(len, sentences)) > _MOST_WORDS:
                raise TreefineError("The sentence is too long.")
            return list(self._parser.stream(sentences, constraints=decided))
        except TreefineError:
            if len(sentences) == 1:
                return [None]
            return [self._parse_all([one], [some])[0] for one, some in zip(sentences, decided, strict=True)]

    def _rated(self, sentence: Sentence, parse: Parse | None) -> Advice:
        """Return the probability that each arc is right; a decided head or label counts as right."""
        if parse is None:
            return Advice(tuple(None if head is None else 1.0 for head in sentence.heads))
        decided, confidences = decisions_of(sentence), list[float | None]()
        for word, head in enumerate(sentence.heads, start=1):
            confidence = parse.initial_confidences[word - 1]
            if confidence is None and self._has_same_arc(parse, sentence, word):
                confidence = parse.word_confidences[word - 1]
            arc, label = (confidence.arc, confidence.label) if confidence is not None else (0.0, 0.0)
            right = (1.0 if word in decided.heads else arc) * (1.0 if word in decided.labels else label)
            confidences.append(None if head is None else right)
        return Advice(tuple(confidences))

    def _has_same_arc(self, parse: Parse, sentence: Sentence, word: int) -> bool:
        """Return whether the parser chose the arc of the sentence; an unknown subtype counts as its main type."""
        label = sentence.labels[word - 1]
        is_same_label = parse.labels[word - 1] in (label, read_as(label, self.labels))
        return parse.heads[word - 1] == sentence.heads[word - 1] and is_same_label

    @_in_parser_thread
    def advise(self, sentence: Sentence) -> Advice:
        """Return what the parser doubts in a sentence, and the best other tree at each doubtful place."""
        parse = self._parsed(_input(sentence))
        rated = self._rated(sentence, parse)
        if parse is None:
            return rated
        confidences = {word: each or 0.0 for word, each in enumerate(rated.confidence, start=1)}
        doubtful = sorted((word for word in confidences if confidences[word] < DOUBTFUL), key=confidences.__getitem__)
        return replace(rated, suggestions=tuple(self._suggestions(sentence, parse, doubtful[:_MOST_SUGGESTIONS])))

    def _suggestions(self, sentence: Sentence, parse: Parse, words: Sequence[int]) -> Iterator[Suggestion]:
        """Yield the parser's arc where it differs from that of the sentence, else the best tree without that arc."""
        others: dict[int, Parse | None] = dict.fromkeys(words, parse)
        same = [word for word in words if self._has_same_arc(parse, sentence, word)]
        forbidden = {word: _without_arc(parse, word, decisions_of(sentence)) for word in same}
        without = {word: decided for word, decided in forbidden.items() if decided is not None}
        if without:
            parses = self._parse_all([_input(sentence)] * len(without), list(without.values()))
            others.update(zip(without, parses, strict=True))
        for word, other in others.items():
            if other is not None and not self._has_same_arc(other, sentence, word):
                yield Suggestion(word, other.heads[word - 1], other.labels[word - 1])

    @_in_parser_thread
    def follow(self, before: Sentence, after: Sentence) -> Sentence | None:
        """Return the sentence with the arcs that follow from a correction, or None if nothing follows.

        Only words change whose arc was the parser's own choice before the correction and is not now. Whatever else the
        parser would choose differently is left alone: a person or another parser chose it.
        """
        first = self._parsed(_input(before)) if before.forms == after.forms else None
        if first is None:
            return None
        decided = decisions_of(after)
        heads, labels = dict(decided.heads), dict(decided.labels)
        pairs = zip(before.arcs.heads, after.arcs.heads, before.labels, after.labels, strict=True)
        for word, (old_head, head, old_label, label) in enumerate(pairs, start=1):
            is_same = (old_head, old_label) == (head, label)
            is_forbidden = head in decided.not_heads.get(word, ()) or label in decided.not_labels.get(word, ())
            if is_same and head is not None and not is_forbidden and not self._has_same_arc(first, before, word):
                heads[word], labels[word] = head, label
        (second,) = self._parse_all([_input(after)], [replace(decided, heads=heads, labels=labels)])
        if second is None:
            return None
        changed = [
            arc
            for arc in _arcs(second)
            if after.heads[arc[0] - 1] is not None and not self._has_same_arc(second, after, arc[0])
        ]
        return set_arcs(after, changed) if changed else None


def _without_arc(parse: Parse, word: int, decided: Constraints) -> Constraints | None:
    """Return the decisions, and one against the less certain part of an arc: its head or its label."""
    confidence = parse.word_confidences[word - 1]
    if confidence.arc < confidence.label and word not in decided.heads:
        return forbidding(decided, word, head=parse.heads[word - 1])
    return None if word in decided.labels else forbidding(decided, word, label=parse.labels[word - 1])


def _arcs(parse: Parse) -> list[tuple[int, int, str]]:
    return list(zip(range(1, len(parse) + 1), parse.heads, parse.labels, strict=True))


def _input(sentence: Sentence) -> Sentence:
    """Return what the parser reads of a sentence, so that equal inputs are parsed once: no comments, no other notes."""
    marks = decisions_of(sentence)
    plain = replace(sentence, comments=(), path="", line=0, number=1)
    bare = plain.with_misc((BLANK,) * len(sentence))
    return marks.mark(bare) if marks else bare
