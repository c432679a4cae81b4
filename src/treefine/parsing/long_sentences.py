"""Parse a long sentence in parts and join their trees, so that memory grows linearly with its length.

See docs/design.md, 'Long sentences'.
"""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, update_wrapper
from heapq import nlargest
from itertools import chain
from math import prod
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from treefine.config import COLUMNS
from treefine.errors import LongSentenceWarning, TreebankError
from treefine.parsing.annotate import with_parse
from treefine.parsing.confidence import Confidence, RankedTree, sentence_confidence
from treefine.parsing.constrained import check_constraints
from treefine.parsing.parse import Parse, tags_of
from treefine.parsing.plan import Item, Plan
from treefine.treebank.constraints import Constraints
from treefine.treebank.graph import ROOT, Arcs, Graph, find_cycles
from treefine.treebank.label_schemes import read_as
from treefine.treebank.sentence import BLANK, Sentence, Token

_ENDS, _BREAKS = frozenset(".!?…。！？؟।"), frozenset(";:,")  # punctuation after which a sentence can be cut
_JOINING = ("parataxis", "dep")  # labels of the arcs between parts, best first

_Result = TypeVar("_Result")
_Options = ParamSpec("_Options")
_Work = Callable[Concatenate[Plan, Sequence[Item], _Options], list[_Result]]  # such as `results.trees`


def word_ranges(sentence: Sentence, most_words: int) -> list[range]:
    """Return the words, from 1, of each part of a sentence. The parts have similar lengths.

    A part ends after final punctuation or at a line end if there is one at a suitable place, else after a comma or a
    similar sign, else after any token.

    >>> word_ranges(Sentence.of_words("one two . three four five".split()), 4)
    [range(1, 4), range(4, 7)]
    """
    strengths = {token.words[-1]: _strength(token) for token in sentence.tokens()}
    found, start = list[range](), 1
    while (n_left := len(sentence) - start + 1) > most_words:
        size = -(-n_left // -(-n_left // most_words))  # of equal parts
        best = start + size - 1
        ends = [word for word in range(start + size // 2, start + most_words) if word in strengths] or [best]
        last = max(ends, key=lambda word, best=best: (strengths.get(word, 0), -abs(word - best)))  # type: ignore[misc]
        found.append(range(start, last + 1))
        start = last + 1
    return [*found, range(start, len(sentence) + 1)]


def _strength(token: Token) -> int:
    """Return how well a sentence can be cut after a token: 2 is best."""
    ends_line = any(note.startswith("SpacesAfter=") and "\\n" in note for note in token.misc.split("|"))
    return 2 if ends_line or _ENDS.issuperset(token.form) else int(token.form in _BREAKS)


class JoinedTree(NamedTuple):
    """The tree of a sentence that was parsed in parts."""

    tree: Graph
    joins: frozenset[int]  # the words whose arcs join two parts; the model has no scores for these arcs


@dataclass(frozen=True)
class SentenceParts:
    """A long sentence and its parts, which are parsed one by one. The methods join their results.

    The root of the main part is the root of the sentence. The roots of the other parts attach to it.
    """

    whole: Item
    words: tuple[range, ...]  # the words of each part, from 1
    main: range  # the words of the main part
    items: tuple[Item, ...]  # the parts as sentences
    joining: tuple[str, ...]  # labels for the arcs that join parts, best first
    is_projective: bool  # whether trees must be projective

    @classmethod
    def of(cls, plan: Plan, item: Item) -> SentenceParts:
        """Cut a sentence. Raise an error if no tree satisfies the constraints of a part."""
        known, root_label = plan.model.vocabulary.labels, plan.model.settings.decode.root_label
        words = tuple(word_ranges(item.sentence, plan.most_words))
        main = _main_part(plan, item, words)
        items = tuple(_part(item, each, main) for each in words)
        for each, part in zip(words, items, strict=True):
            try:
                if part.constraints:
                    check_constraints(part.sentence, part.constraints, plan.decoder, plan.model.vocabulary)
            except TreebankError as error:
                message = f"No tree satisfies all constraints on words {each[0]} to {each[-1]}."
                hint = f"The sentence is parsed in parts of at most {plan.most_words:,} words; change a constraint."
                raise item.sentence.error(message, word=each[0], hint=hint) from error
        wanted = dict.fromkeys([*(read_as(each, known) for each in _JOINING), *known])
        joining = tuple(each for each in wanted if each in known and each != root_label) or known
        return cls(item, words, main, items, joining, plan.decoder.is_projective)

    @cached_property
    def crossing(self) -> dict[int, int]:
        """The given heads that are in another part than their word."""
        starts, given = [each.start for each in self.words], self.whole.constraints.heads
        return {
            word: head
            for word, head in given.items()
            if head != ROOT and bisect_right(starts, word) != bisect_right(starts, head)
        }

    def tree(self, trees: Sequence[Graph]) -> JoinedTree:
        """Join the trees of the parts. Raise an error if the given heads allow no projective tree."""
        decided = self.whole.constraints
        roots = {words: words.start - 1 + each.roots[0] for words, each in zip(self.words, trees, strict=True)}
        root = roots.pop(self.main)
        joins, graph = set(roots.values()) - self.crossing.keys(), self.graph(trees, root)
        if not self.crossing:
            return JoinedTree(graph, frozenset(joins))
        heads, labels = list(graph.heads), list(graph.labels)
        for cycle in find_cycles(heads):  # a given head may be below its word
            free = [word for word in cycle if word not in decided.heads]
            word = next((each for each in free if root not in decided.not_heads.get(each, ())), free[0])
            heads[word], labels[word] = root, self._label(word)
            joins.add(word)
        graph = Graph(tuple(heads), tuple(labels))
        if self.is_projective and not graph.is_projective:
            message = "The tree is not projective, because a given head is far from its word."
            hint = "The sentence is too long to be parsed as a whole; remove this constraint."
            raise self.whole.sentence.error(message, word=next(iter(self.crossing)), hint=hint)
        return JoinedTree(graph, frozenset(joins))

    def graph(self, graphs: Sequence[Graph], root: int) -> Graph:
        """Join the graphs of one step. The roots of all parts except the main one attach to `root`."""
        heads, labels, given = [ROOT], [""], self.whole.constraints.labels
        for words, graph in zip(self.words, graphs, strict=True):
            outside = ROOT if words == self.main else root
            for word, head, label in zip(words, graph.heads[1:], graph.labels[1:], strict=True):
                new = self.crossing.get(word, words.start - 1 + head if head else outside)
                is_join = head == ROOT and new != ROOT
                heads.append(new)
                labels.append(self._label(word) if is_join else given.get(word, label))
        return Graph(tuple(heads), tuple(labels))

    def confidences(
        self, found: Sequence[Sequence[Confidence]], joins: frozenset[int] = frozenset()
    ) -> tuple[Confidence, ...]:
        """Join the confidences in the words.

        An arc that joins two parts has confidence 0; heads and labels that the user gave have confidence 1.
        """
        of_words = list(chain.from_iterable(found))
        for word in joins:
            of_words[word - 1] = Confidence(0.0, 0.0)
        for word in self.crossing:
            of_words[word - 1] = replace(of_words[word - 1], arc=1.0)
        for word in self.whole.constraints.labels:
            of_words[word - 1] = replace(of_words[word - 1], label=1.0)
        return tuple(of_words)

    def filled(self, plan: Plan, tree: Graph, parts: Sequence[Sentence]) -> Sentence:
        """Return the whole sentence with its tree, and with the predicted tags of its parts."""
        columns = plan.model.settings.tags.columns if plan.predicts_tags else ()
        tags = [[tag for part in parts for tag in getattr(part, each)] for each in columns]
        return with_parse(self.whole.sentence, tree.arcs, columns, tags, replaces_tags=plan.replaces_tags)

    def _label(self, word: int) -> str:
        """Return the label of an arc that joins two parts."""
        given, forbidden = self.whole.constraints.labels, self.whole.constraints.not_labels.get(word, ())
        best = next((each for each in self.joining if each not in forbidden), self.joining[0])
        return given.get(word, best)


def _main_part(plan: Plan, item: Item, words: Sequence[range]) -> range:
    """Return the part with the given root of the sentence, or else the first part that may contain the root."""
    decided, root_label = item.constraints, plan.decoder.root_label
    roots = {word for word, head in decided.heads.items() if head == ROOT}
    if root_label is not None and len(plan.model.vocabulary.labels) > 1:
        ids = plan.model.vocabulary.label_ids(list(decided.labels.values()))
        roots |= {word for word, label in zip(decided.labels, ids, strict=True) if label == root_label}
    if len(roots) > 1:
        first, second = sorted(roots)[:2]
        message = f"Constraints make words {first} and {second} the root, but a tree has one root."
        raise item.sentence.error(message, word=first, hint="Change one of them.")

    def may_contain_root(part: range) -> bool:
        if roots:
            return bool(roots.intersection(part))
        return any(
            word not in decided.heads and word not in decided.labels and ROOT not in decided.not_heads.get(word, ())
            for word in part
        )

    return next(filter(may_contain_root, words), words[0])


def _part(item: Item, words: range, main: range) -> Item:
    """Return one part as a sentence, without the initial arcs and the constraints that leave it."""
    sentence, part = item.sentence, slice(words.start - 1, words.stop - 1)
    tags = {column: getattr(sentence, column)[part] for column in COLUMNS}
    own = replace(Sentence.of_words(sentence.forms[part]).with_tags(**tags), treebank=sentence.treebank)
    own = replace(own, path=sentence.path, line=sentence.line, number=sentence.number)
    pieces = None if item.pieces is None else item.pieces[part]
    evidence = tuple(each._replace(arcs=_arcs_within(each.arcs, words)) for each in item.evidence)
    constraints = _constraints_of(item.constraints, words, main)
    return Item(own, _arcs_within(item.initial, words), constraints, pieces, evidence)


def _arcs_within(arcs: Arcs, words: range) -> Arcs:
    """Return the arcs of one part, whose words are counted from 1, without those that leave it."""
    before, part = words.start - 1, slice(words.start - 1, words.stop - 1)
    heads, labels = list[int | None](), list[str]()
    for head, label in zip(arcs.heads[part], arcs.labels[part], strict=True):
        is_within = head == ROOT or head in words
        heads.append(head - before if head and is_within else head if is_within else None)
        labels.append(label if is_within else BLANK)
    return Arcs(tuple(heads), tuple(labels))


def _constraints_of(decided: Constraints, words: range, main: range) -> Constraints:
    """Return the constraints within one part, whose words are counted from 1.

    A word of the main part that has a given head in another part must not be the root of the sentence. In the other
    parts, the root attaches to a word of the main part, so a word that must not do so must not be the root. There, a
    given label must not prevent a word from being the root, so it is applied later (`graph`).
    """
    before, is_main = words.start - 1, words == main
    heads, not_heads = dict[int, int](), dict[int, set[int]]()
    for word, head in decided.heads.items():
        if word in words and (head == ROOT or head in words):
            heads[word - before] = head and head - before
        elif word in words and is_main:
            not_heads[word - before] = {ROOT}
    for word, forbidden in decided.not_heads.items():
        if word in words:
            found = not_heads.setdefault(word - before, set())
            found.update(head - before for head in forbidden if head in words)
            if (ROOT in forbidden) if is_main else any(head in main for head in forbidden):
                found.add(ROOT)
    return Constraints(
        heads,
        {
            word - before: label
            for word, label in decided.labels.items()
            if word in words and (is_main or word - before in heads)
        },
        {word: found for word, found in not_heads.items() if found},
        {word - before: labels for word, labels in decided.not_labels.items() if word in words},
    )


def in_parts(
    join: Callable[[Plan, SentenceParts, Sequence[_Result]], _Result],
) -> Callable[[_Work[_Options, _Result]], _Work[_Options, _Result]]:
    """Change a function that parses a batch: it parses long sentences in parts and joins the results with `join`."""

    def changed(work: _Work[_Options, _Result]) -> _Work[_Options, _Result]:
        def run(
            plan: Plan, items: Sequence[Item], /, *args: _Options.args, **options: _Options.kwargs
        ) -> list[_Result]:
            short = [item for item in items if not is_long(plan, item)]
            results = iter(work(plan, short, *args, **options) if short else [])
            found = []
            for item in items:
                if is_long(plan, item):
                    parts = SentenceParts.of(plan, item)
                    found.append(join(plan, parts, [work(plan, [part], *args, **options)[0] for part in parts.items]))
                else:
                    found.append(next(results))
            return found

        update_wrapper(run, work)
        return run

    return changed


def is_long(plan: Plan, item: Item) -> bool:
    """Return whether a sentence is parsed in parts."""
    return len(item.sentence) > plan.most_words


def warn_if_long(plan: Plan, item: Item) -> None:
    """Warn about a sentence that is parsed in parts."""
    if is_long(plan, item):
        n_parts = len(word_ranges(item.sentence, plan.most_words))
        message = f"The sentence has {len(item.sentence):,} words and is parsed in {n_parts} parts."
        place = item.sentence.error(message, hint="Only the roots of the parts are connected.")
        warnings.warn(LongSentenceWarning(place), stacklevel=2)


def steps_together(steps: Sequence[Sequence[_Result]]) -> Iterator[list[_Result]]:
    """Yield the values of all parts at each step. A part that has stopped keeps its last value.

    >>> list(steps_together(["ab", "x"]))
    [['a', 'x'], ['b', 'x']]
    """
    for t in range(max(map(len, steps))):
        yield [each[min(t, len(each) - 1)] for each in steps]


def joined_sentence(plan: Plan, parts: SentenceParts, found: Sequence[Sentence]) -> Sentence:
    """Return the whole sentence with the joined tree of its parts."""
    return parts.filled(plan, parts.tree([each.graph for each in found]).tree, found)


def joined_parse(plan: Plan, parts: SentenceParts, found: Sequence[Parse]) -> Parse:
    """Join the parses of the parts of a sentence."""
    tree, joins = parts.tree([each.tree for each in found])
    root, words = tree.roots[0], parts.confidences([each.word_confidences for each in found], joins)
    return Parse(
        sentence=parts.filled(plan, tree, [each.sentence for each in found]),
        spans=(),
        word_confidences=words,
        confidence=sentence_confidence(words, plan.confidence),
        steps=tuple(parts.graph(graphs, root) for graphs in steps_together([each.steps for each in found])),
        initial=parts.whole.initial,
        initial_confidences=tuple(chain.from_iterable(each.initial_confidences for each in found)),
        trust=found[0].trust,
        converged=all(each.converged for each in found),
        trees=_joined_trees(plan, parts, [each.trees for each in found]),
        was_sure=any(each.was_sure for each in found),
        step_confidences=tuple(map(parts.confidences, steps_together([each.step_confidences for each in found]))),
        given_tags=tags_of(parts.whole.sentence),
        tag_confidences={
            column: tuple(chain.from_iterable(each.tag_confidences[column] for each in found))
            for column in found[0].tag_confidences
        },
    )


def _joined_trees(plan: Plan, parts: SentenceParts, found: Sequence[Sequence[RankedTree]]) -> tuple[RankedTree, ...]:
    """Return the k most probable combinations of the parts' trees; empty if k is 1."""
    if plan.k == 1:
        return ()
    best: list[tuple[RankedTree, ...]] = [()]
    for trees in found:
        longer = [(*chosen, each) for chosen in best for each in trees]
        best = nlargest(plan.k, longer, key=lambda chosen: prod(each.probability for each in chosen))
    return tuple(
        RankedTree(
            parts.tree([each.tree for each in chosen]).tree,
            prod(each.probability for each in chosen),
            prod(each.label_probability for each in chosen),
        )
        for chosen in best
    )
