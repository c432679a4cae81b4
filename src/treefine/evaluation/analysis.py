"""What an error analysis of any number of systems over one treebank finds: plain values, for a page, JSON or CSV."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from treefine.evaluation.breakdown import Value
from treefine.evaluation.conll18 import Score
from treefine.treebank.sentence import Sentence

if TYPE_CHECKING:
    from treefine.evaluation.significance import Comparison  # which loads numpy

METRICS = ("UAS", "LAS", "LA", "CLAS", "MLAS", "BLEX", "UEM", "LEM")  # shown first, in this order
METRICS_WITHOUT_LABELS = ("UAS", "UEM")


@dataclass(frozen=True, slots=True)
class Point:
    """The words of one kind (one point of a curve, one row of a table), and how many of them a system got right.

    Gold words are sorted by their value in the gold file and give recall, system words by theirs and give precision.
    A share of nothing is 0; the counts tell.
    """

    value: Value  # a number, a label or tag, or the name of several numbers put together, such as "11-15" or "31+"
    gold: int  # words of this kind in the gold file
    system: int  # in the system's file
    gold_correct: int  # gold words of this kind that are right
    system_correct: int  # system words of this kind that are right
    low: float  # the 95 % bootstrap band of F1
    high: float

    @property
    def precision(self) -> float:
        """The share of the system's words of this kind that is right."""
        return self.system_correct / self.system if self.system else 0.0

    @property
    def recall(self) -> float:
        """The share of the gold words of this kind that is right."""
        return self.gold_correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of the two."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


@dataclass(frozen=True, slots=True)
class SentenceDifference:
    """One gold sentence that two systems parse differently well, with what is needed to draw it.

    Where one system alone is analysed, `first` is None and the sentence is one of those with the most errors.
    """

    sent_id: str  # "" without one
    number: int  # in its file, from 1
    treebank: str  # the name of its treebank
    first: str | None
    other: str  # the system that `first`, or gold, is compared with
    gold: Sentence
    trees: dict[
        str, tuple[Sentence, ...]
    ]  # of each of the two systems: one, or several where it cut the text otherwise
    correct: dict[str, int]  # right words of each of the two systems
    n_words: int  # gold words that count

    @property
    def difference(self) -> int:
        """How many words more the other system has right; below 0 if it has fewer."""
        return self.correct[self.other] - (self.n_words if self.first is None else self.correct[self.first])


@dataclass(frozen=True, slots=True)
class Analysis:
    """Several systems, or one, over one treebank, or over several put together.

    The properties of `curves` are those of `breakdown.PROPERTIES`, without "label" where there are no labels. Points
    stand in the order in which they are shown: numbers rising, words of a cycle last, the most frequent label or tag in
    gold first. A system has no point where neither it nor gold has a word.
    """

    name: str  # of the treebank
    systems: tuple[str, ...]  # in the order given
    rule: str
    metric: str  # what curves, comparison and differences count: LAS, or UAS where a file has no labels
    n_sentences: int  # of the gold file
    n_words: int  # of the gold file, all of them
    scores: dict[str, dict[str, Score]]  # by system and metric
    curves: dict[str, dict[str, tuple[Point, ...]]]  # by property and system
    label_confusions: dict[str, Counter[tuple[str, str]]]  # by system: (gold label, system label); {} without labels
    head_confusions: dict[str, Counter[tuple[str, str]]]  # by system: tags of (gold head, system head)
    cycles: dict[str, int]  # by system: sentences whose heads form a cycle
    comparison: Comparison | None  # of each two systems; None if there is one alone
    differences: tuple[SentenceDifference, ...]  # of the first system and each other one, the largest gains first
