"""Refinement analysis (Sec. 6): count the right words after each step, and the errors that each step removes.

Words are counted by the gold file, so counts of several treebanks can be added. The error is 1 minus the F-score.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress, pairwise
from operator import add
from typing import TypeAlias

from treefine.evaluation.pairing import AT_ROOT, AlignedWords, WordColumns, compared_labels, load_words
from treefine.evaluation.properties import PROPERTIES
from treefine.evaluation.scores import Score, all_marks, relative_error_reduction, rule_of, scores_by_label
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence

STEP_METRICS = ("UAS", "LAS")
Steps: TypeAlias = "tuple[Score, ...]"  # the score of each tree of a refinement, starting with the first trees


@dataclass(frozen=True, slots=True)
class Example:
    """One gold sentence with its first and last tree; exactly one of the two is right."""

    gold: Sentence
    first: Arcs
    last: Arcs
    n_wrong: int  # wrong words of the other tree


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of a model: its parameters, and the seconds of each step over a whole treebank."""

    device: str
    parameters: int
    initial_parameters: int  # of the initial parser; 0 if none ran
    initial_seconds: float | None  # None if there were no initial parses
    seconds: tuple[float, ...]  # for t = 1 … T: scores, graphs and trees
    sentences: tuple[int, ...]  # not yet converged before t = 1 … T


@dataclass(frozen=True, slots=True)
class Refinement:
    """The effect of each step of one model on the trees of one treebank, or of several together."""

    name: str
    first: int  # t of the first trees: 0 for initial parses, 1 without them
    n_sentences: int
    attachment: dict[str, Steps]  # UAS and LAS: all words that count
    labels: dict[str, Steps]  # by label as the rule compares it, unordered
    projectivity: dict[str, Steps]  # words of gold trees that are projective, and of those that are not
    converged: tuple[int, ...]  # sentences that each step after the first trees left unchanged
    corrected: tuple[Example, ...] = ()  # wrong at first and completely right at the end, the shortest first
    spoiled: tuple[Example, ...] = ()  # completely right at first and wrong at the end, the shortest first

    @property
    def steps(self) -> range:
        """All t that have trees."""
        return range(self.first, self.first + len(self.converged) + 1)


def reductions(scores: Steps) -> tuple[float | None, ...]:
    """Return the share of errors that each step after the first trees removed (Eq. 8).

    It is None if there were no errors, or no gold words.

    >>> reductions((Score(8, 8, 4), Score(8, 8, 6), Score(8, 8, 7)))
    (0.5, 0.5)
    """
    return tuple([relative_error_reduction(*(a.f1, b.f1)) if a.gold else None for a, b in pairwise(scores)])


def total_reduction(scores: Steps) -> float | None:
    """Return the share of the first trees' errors that all steps together removed."""
    return reductions((scores[0], scores[-1]))[0]


def refinement_of(
    gold: Sequence[Sentence],
    trees: Sequence[Sequence[Arcs]],
    *,
    first: int,
    name: str = "",
    rule: str = "conll18",
) -> Refinement:
    """Count the right words in the trees of each step; `trees[0]` is t = `first`. A word without a head is wrong.

    A sentence has converged if its tree is that of the previous step.
    """
    is_ud = rule_of(rule).is_ud
    words = load_words(gold, is_ud=is_ud)
    pairs = [step_pair(words, step, is_ud=is_ud) for step in trees]
    marks = [all_marks(pair, rule=rule, metrics=STEP_METRICS) for pair in pairs]
    of_labels = [scores_by_label(pair, each["LAS"]) for pair, each in zip(pairs, marks, strict=True)]
    kinds = PROPERTIES["tree projectivity"](words)

    def scores(metric: str, chosen: Sequence[bool]) -> Steps:
        """Count the chosen words; gold and system have the same words."""
        n_words = sum(compress(marks[0][metric].gold, chosen))
        return tuple([Score(n_words, n_words, sum(compress(each[metric].correct, chosen))) for each in marks])

    corrected, spoiled = list[Example](), list[Example]()
    for number, span in enumerate(words.sentence_words()):
        at = slice(span.start, span.stop)
        first_wrong, last_wrong = (
            sum(each["LAS"].gold[at]) - sum(each["LAS"].correct[at]) for each in (marks[0], marks[-1])
        )
        if bool(first_wrong) != bool(last_wrong):
            example = Example(gold[number], trees[0][number], trees[-1][number], first_wrong or last_wrong)
            (corrected if first_wrong else spoiled).append(example)
    return Refinement(
        name,
        first,
        len(gold),
        {metric: scores(metric, [True] * len(words)) for metric in STEP_METRICS},
        {
            label: tuple([each.get(label, Score(0, 0, 0, 0)) for each in of_labels])
            for label in sorted({label for each in of_labels for label in each})
        },
        {kind: scores("LAS", [kind == each for each in kinds]) for kind in ("non-projective", "projective")},
        tuple([sum(map(Arcs.__eq__, *two)) for two in pairwise(trees)]),
        _shortest_first(corrected),
        _shortest_first(spoiled),
    )


def _shortest_first(examples: Iterable[Example]) -> tuple[Example, ...]:
    return tuple(sorted(examples, key=lambda example: len(example.gold)))


def step_pair(gold: WordColumns, trees: Sequence[Arcs], *, is_ud: bool) -> AlignedWords:
    """Return the gold words aligned with the trees of a step, as if these were a system file with the same words."""
    heads: list[int] = []
    for words, tree in zip(gold.sentence_words(), trees, strict=True):
        if len(tree.heads) != len(words):
            raise ValueError(f"a tree of {len(tree.heads)} words for a sentence of {len(words)}")
        # A word without a head becomes its own head, which is always wrong: no gold word is its own head.
        own = enumerate(tree.heads, start=words.start)
        heads += [word if head is None else AT_ROOT if head == 0 else words.start + head - 1 for word, head in own]
    same = list(range(len(gold)))
    labels = compared_labels([label for tree in trees for label in tree.labels], is_ud=is_ud)
    return AlignedWords(gold, replace(gold, heads=heads, labels=labels), same, same)


def together(refinements: Sequence[Refinement], *, name: str) -> Refinement:
    """Add the counts of several treebanks or models with the same steps."""
    if len({each.steps for each in refinements}) != 1:
        raise ValueError("refinements with other steps cannot be counted together")

    def added(of_kind: str) -> dict[str, Steps]:
        total: dict[str, Steps] = {}
        for each in refinements:
            for kind, scores in getattr(each, of_kind).items():
                total[kind] = tuple(map(add, total[kind], scores)) if kind in total else scores
        return dict(sorted(total.items()))

    return Refinement(
        name,
        refinements[0].first,
        sum(each.n_sentences for each in refinements),
        added("attachment"),
        added("labels"),
        added("projectivity"),
        tuple(map(sum, zip(*[each.converged for each in refinements], strict=True))),
        _shortest_first(example for each in refinements for example in each.corrected),
        _shortest_first(example for each in refinements for example in each.spoiled),
    )


def sum_costs(costs: Sequence[Costs]) -> Costs:
    """Add the seconds and the sentences of one model over several treebanks."""
    initial = [each.initial_seconds for each in costs if each.initial_seconds is not None]
    return replace(
        costs[0],
        initial_seconds=sum(initial) if initial else None,
        seconds=tuple(map(sum, zip(*(each.seconds for each in costs), strict=True))),
        sentences=tuple(map(sum, zip(*(each.sentences for each in costs), strict=True))),
    )


def ranked_labels(refinement: Refinement, *, least: float, most: int | None = None) -> list[str]:
    """Return the labels with at least `least` gold words, sorted by the share of their errors removed, largest first.

    Labels without errors in the first trees are left out.
    """
    totals = {
        label: total
        for label, scores in refinement.labels.items()
        if scores[0].gold >= least and (total := total_reduction(scores)) is not None
    }
    return sorted(totals, key=lambda label: (-totals[label], label))[:most]
