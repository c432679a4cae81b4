"""Refinement analysis (Sec. 6): count the right words after each step, and the errors that each step removes.

Words are counted by the gold file, so counts of several treebanks can be added. The error is 1 minus the F-score, and
`reductions` are the shares of the error that each step removes (Eq. 8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress, pairwise

from treefine.evaluation.breakdown import PROPERTIES
from treefine.evaluation.pairing import AlignedWords
from treefine.evaluation.scores import Score, all_marks, relative_error_reduction, rule_of, scores_by_label
from treefine.evaluation.words import AT_ROOT, WordColumns, load_words
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence

STEP_METRICS = ("UAS", "LAS")
LARGE = 10_000  # sentences: a training set with more is "high-resource" in the paper


@dataclass(frozen=True, slots=True)
class StepCounts:
    """The words of one kind, step by step: how many the gold and system trees have, and how many are right.

    The counts are averages if several seeds were counted.

    >>> counts = StepCounts(gold=8, system=(8, 8, 8), correct=(4, 6, 7))
    >>> counts.f1, counts.reductions, counts.total
    ((0.5, 0.75, 0.875), (0.5, 0.5), 0.75)
    """

    gold: float
    system: tuple[float, ...]  # for each t, starting with the first trees
    correct: tuple[float, ...]

    @property
    def f1(self) -> tuple[float, ...]:
        """The F-score after each step; over all words it is the attachment score."""
        pairs = zip(self.system, self.correct, strict=True)
        return tuple([2 * right / (self.gold + n) if self.gold + n else 0.0 for n, right in pairs])

    @property
    def reductions(self) -> tuple[float | None, ...]:
        """The share of errors that each step after the first trees removed; None if there were no errors."""
        return tuple([self._reduction(*two) for two in pairwise(self.f1)])

    @property
    def total(self) -> float | None:
        """The share of the first trees' errors that all steps together removed."""
        return self._reduction(self.f1[0], self.f1[-1])

    def _reduction(self, before: float, after: float) -> float | None:
        return relative_error_reduction(before, after) if self.gold else None  # undefined without gold words


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
    n_sentences: float
    attachment: dict[str, StepCounts]  # UAS and LAS: all words that count
    labels: dict[str, StepCounts]  # by label as the rule compares it, unordered
    projectivity: dict[str, StepCounts]  # words of gold trees that are projective, and of those that are not
    converged: tuple[float, ...]  # sentences that each step after the first trees left unchanged
    corrected: tuple[Example, ...] = ()  # wrong at first and completely right at the end, the shortest first
    spoiled: tuple[Example, ...] = ()  # completely right at first and wrong at the end, the shortest first
    predicts_tags: bool = False  # whether t = 1 predicts tags for t = 2; then sentences without tags converge later

    @property
    def steps(self) -> range:
        """All t that have trees."""
        return range(self.first, self.first + len(self.converged) + 1)


def refinement_of(
    gold: Sequence[Sentence],
    trees: Sequence[Sequence[Arcs]],
    *,
    first: int,
    name: str = "",
    rule: str = "conll18",
    converged: Sequence[int] | None = None,
    predicts_tags: bool = False,
) -> Refinement:
    """Count the right words in the trees of each step; `trees[0]` is t = `first`. A word without a head is wrong.

    `converged` has the number of sentences that each step after the first trees left unchanged. Without it, a sentence
    has converged if its tree is that of the previous step.
    """
    words = load_words(gold, is_ud=rule_of(rule).is_ud)
    pairs = [step_pair(words, step) for step in trees]
    marks = [all_marks(pair, rule=rule, metrics=STEP_METRICS) for pair in pairs]
    of_labels = [scores_by_label(pair, each["LAS"], rule=rule) for pair, each in zip(pairs, marks, strict=True)]
    kinds = PROPERTIES["tree projectivity"](words, rule)
    if converged is None:
        converged = [sum(map(Arcs.__eq__, *two)) for two in pairwise(trees)]

    def counts(metric: str, chosen: Sequence[bool]) -> StepCounts:
        """Count the chosen words; gold and system have the same words."""
        n_words = sum(compress(marks[0][metric].gold, chosen))
        right = [sum(compress(each[metric].correct, chosen)) for each in marks]
        return StepCounts(n_words, (n_words,) * len(marks), tuple(right))

    def label_counts(label: str) -> StepCounts:
        scores = [each.get(label, Score(0, 0, 0)) for each in of_labels]
        return StepCounts(
            scores[0].gold, tuple([each.system for each in scores]), tuple([each.correct for each in scores])
        )

    def examples(first_is_wrong: bool) -> tuple[Example, ...]:
        """Return the sentences with one right tree, the last if `first_is_wrong`, and the other tree wrong."""
        found = []
        for number, span in enumerate(words.sentence_words()):
            at = slice(span.start, span.stop)
            first, last = (sum(each["LAS"].gold[at]) - sum(each["LAS"].correct[at]) for each in (marks[0], marks[-1]))
            wrong, other = (first, last) if first_is_wrong else (last, first)
            if wrong and not other:
                found.append(Example(gold[number], trees[0][number], trees[-1][number], wrong))
        return tuple(sorted(found, key=lambda example: len(example.gold)))

    return Refinement(
        name,
        first,
        len(gold),
        {metric: counts(metric, [True] * len(words)) for metric in STEP_METRICS},
        {label: label_counts(label) for label in sorted({label for scores in of_labels for label in scores})},
        {kind: counts("LAS", [kind == found for found in kinds]) for kind in ("non-projective", "projective")},
        tuple(converged),
        corrected=examples(True),
        spoiled=examples(False),
        predicts_tags=predicts_tags,
    )


def step_pair(gold: WordColumns, trees: Sequence[Arcs]) -> AlignedWords:
    """Return the gold words aligned with the trees of a step, as if these were a system file with the same words."""
    heads: list[int] = []
    for words, tree in zip(gold.sentence_words(), trees, strict=True):
        if len(tree.heads) != len(words):
            raise ValueError(f"a tree of {len(tree.heads)} words for a sentence of {len(words)}")
        # A word without a head becomes its own head, which is always wrong: no gold word is its own head.
        own = enumerate(tree.heads, start=words.start)
        heads += [word if head is None else AT_ROOT if head == 0 else words.start + head - 1 for word, head in own]
    same = list(range(len(gold)))
    labels = [label for tree in trees for label in tree.labels]
    return AlignedWords(gold, replace(gold, heads=heads, labels=labels), same, same)


def together(refinements: Sequence[Refinement], *, name: str) -> Refinement:
    """Add the counts of several treebanks; a model with fewer steps keeps its last trees."""
    examples = [
        [each for found in refinements for each in found.corrected],
        [each for found in refinements for each in found.spoiled],
    ]
    corrected, spoiled = (tuple(sorted(each, key=lambda example: len(example.gold))) for each in examples)
    return replace(_added(refinements, name), corrected=corrected, spoiled=spoiled)


def sum_costs(costs: Sequence[Costs]) -> Costs:
    """Add the seconds and the sentences of one model over several treebanks."""
    initial = [each.initial_seconds for each in costs if each.initial_seconds is not None]
    return replace(
        costs[0],
        initial_seconds=sum(initial) if initial else None,
        seconds=tuple(map(sum, zip(*(each.seconds for each in costs), strict=True))),
        sentences=tuple(map(sum, zip(*(each.sentences for each in costs), strict=True))),
    )


def mean(refinements: Sequence[Refinement], *, name: str) -> Refinement:
    """Average the counts of several models (seeds) on the same treebank; the examples are those of the first model."""
    found = _added(refinements, name, parts=len(refinements))
    return replace(found, corrected=refinements[0].corrected, spoiled=refinements[0].spoiled)


def ranked_labels(refinement: Refinement, *, least: float, most: int | None = None) -> list[str]:
    """Return the labels with at least `least` gold words, sorted by the share of their errors removed, largest first.

    Labels without errors in the first trees are left out.
    """
    found = {
        label: counts.total
        for label, counts in refinement.labels.items()
        if counts.gold >= least and counts.total is not None
    }
    return sorted(found, key=lambda label: (-found[label], label))[:most]


def _added(refinements: Sequence[Refinement], name: str, *, parts: int = 1) -> Refinement:
    """Add all counts and divide them by `parts`, without examples."""
    if len({each.first for each in refinements}) != 1:
        raise ValueError("refinements with an initial parse and without one cannot be counted together")
    n_trees = max(len(each.steps) for each in refinements)

    def total(numbers: Iterable[float]) -> float:
        return sum(numbers) / parts if parts > 1 else sum(numbers)  # counts of one part stay whole numbers

    def by_step(several: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
        longer = [each + each[-1:] * (n_trees - len(each)) for each in several]
        return tuple([total(step) for step in zip(*longer, strict=True)])

    def added(of: Callable[[Refinement], Mapping[str, StepCounts]]) -> dict[str, StepCounts]:
        found = {}
        for kind in sorted({kind for each in refinements for kind in of(each)}):
            counts = [of(each).get(kind, StepCounts(0, (0,), (0,))) for each in refinements]
            columns = ([each.system for each in counts], [each.correct for each in counts])
            found[kind] = StepCounts(total(each.gold for each in counts), *map(by_step, columns))
        return found

    # All sentences have converged after the last step of a model.
    converged = [(*each.converged, each.n_sentences) for each in refinements]
    return Refinement(
        name,
        refinements[0].first,
        total(each.n_sentences for each in refinements),
        added(lambda each: each.attachment),
        added(lambda each: each.labels),
        added(lambda each: each.projectivity),
        by_step(converged)[:-1],
        predicts_tags=any(each.predicts_tags for each in refinements),
    )
