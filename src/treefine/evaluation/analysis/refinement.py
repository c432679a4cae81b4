"""What each refinement step corrects (Sec. 6, "Refinement Analysis"): counts of right words, from the trees of each t.

All is counted by the words of the gold file, so that counts of several treebanks add up to those of all together. An
error is what an F-score lacks to 1, and `reductions` are the shares of the errors that each step removes (Eq. 8).
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
    """The words of one kind, step by step: how many gold has, how many the system, and how many of those are right.

    These are means where several seeds were counted.

    >>> counts = StepCounts(gold=8, system=(8, 8, 8), correct=(4, 6, 7))
    >>> counts.f1, counts.reductions, counts.total
    ((0.5, 0.75, 0.875), (0.5, 0.5), 0.75)
    """

    gold: float
    system: tuple[float, ...]  # for each t, that of the first trees first
    correct: tuple[float, ...]

    @property
    def f1(self) -> tuple[float, ...]:
        """Return the F-score after each step; of all words it is the attachment score."""
        pairs = zip(self.system, self.correct, strict=True)
        return tuple([2 * right / (self.gold + n) if self.gold + n else 0.0 for n, right in pairs])

    @property
    def reductions(self) -> tuple[float | None, ...]:
        """Return the share of errors that each step after the first trees removed; None where there were no errors."""
        return tuple([self._reduction(*two) for two in pairwise(self.f1)])

    @property
    def total(self) -> float | None:
        """Return the share of the first trees' errors that all steps together removed."""
        return self._reduction(self.f1[0], self.f1[-1])

    def _reduction(self, before: float, after: float) -> float | None:
        return relative_error_reduction(before, after) if self.gold else None  # where nothing is to be found


@dataclass(frozen=True, slots=True)
class Example:
    """One gold sentence with its first and its last tree, only one of which is right."""

    gold: Sentence
    first: Arcs
    last: Arcs
    n_wrong: int  # words of the other one that are wrong


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of a model: its parameters, and the seconds of each step over a whole treebank."""

    device: str
    parameters: int
    initial_parameters: int  # of the initial parser; 0 where none ran
    initial_seconds: float | None  # None where there was nothing to start from
    seconds: tuple[float, ...]  # of t = 1 … T: scores, graphs and trees
    sentences: tuple[int, ...]  # that had not converged before t = 1 … T


@dataclass(frozen=True, slots=True)
class Refinement:
    """What the steps of one model did to the trees of one treebank, or of several together."""

    name: str
    first: int  # t of the first trees: 0 for initial parses, 1 without them
    n_sentences: float
    attachment: dict[str, StepCounts]  # UAS and LAS: all words that count
    labels: dict[str, StepCounts]  # by label as the rule compares it, in no order
    projectivity: dict[str, StepCounts]  # words of gold trees that are projective, and of those that are not
    converged: tuple[float, ...]  # sentences that each step after the first trees left as they were
    corrected: tuple[Example, ...] = ()  # wrong at first and all right at last, the shortest first
    spoiled: tuple[Example, ...] = ()  # all right at first and wrong at last
    predicts_tags: bool = False  # whether t = 1 gave tags to t = 2: no sentence that lacked them converged by it

    @property
    def steps(self) -> range:
        """Return each t that has trees."""
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
    """Count the trees of each step, `trees[0]` being those of t = `first`; a word without a head is wrong.

    `converged` are the numbers of sentences that stopped by each step after the first trees; without it, a sentence
    counts there if its tree is that of the step before.
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
        """Return the sentences of which one tree, the first or the last, is wrong and the other is right."""
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
    """Return the gold words aligned with the trees of a step, as with a system's file of the same words."""
    heads: list[int] = []
    for words, tree in zip(gold.sentence_words(), trees, strict=True):
        if len(tree.heads) != len(words):
            raise ValueError(f"a tree of {len(tree.heads)} words for a sentence of {len(words)}")
        # No gold word is its own head, so that of a word without one is wrong.
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
    """Average the counts of several models (seeds) over the same treebank; the examples are the first model's."""
    found = _added(refinements, name, parts=len(refinements))
    return replace(found, corrected=refinements[0].corrected, spoiled=refinements[0].spoiled)


def ranked_labels(refinement: Refinement, *, least: float, most: int | None = None) -> list[str]:
    """Return the labels with at least `least` gold words, those that lost the largest share of their errors first.

    Labels without an error in the first trees have no such share and are left out.
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
