"""UAS and LAS by properties of words: dependency length, distance to root, sentence length, label, tag, arcs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, compress
from typing import TypeAlias

from treefine.errors import TreefineError
from treefine.evaluation.pairing import AlignedWords
from treefine.evaluation.scores import all_marks, compared_labels, rule_of
from treefine.evaluation.words import AT_ROOT, WordColumns
from treefine.treebank.graph import distances_to_root, non_projective_words

Value: TypeAlias = "int | str"


@dataclass(frozen=True, slots=True)
class Bin:
    """The words with one value of a property: how many the gold and system files have, and how many of each are right.

    The two counts of right words can differ: a right word may be at a different depth in the system's tree.
    """

    system_name: str
    value: Value
    gold: int
    system: int
    gold_correct: dict[str, int]  # by metric, UAS and LAS
    system_correct: dict[str, int]

    def recall(self, metric: str = "LAS") -> float:
        """Return the share of the gold words in this bin that are right."""
        return self.gold_correct[metric] / self.gold if self.gold else 0.0

    def precision(self, metric: str = "LAS") -> float:
        """Return the share of the system's words in this bin that are right."""
        return self.system_correct[metric] / self.system if self.system else 0.0

    def f1(self, metric: str = "LAS") -> float:
        """Return the harmonic mean of precision and recall."""
        precision, recall = self.precision(metric), self.recall(metric)
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def breakdown(pairs: Mapping[str, AlignedWords], by: str, *, rule: str = "conll18", width: int = 1) -> list[Bin]:
    """Count right words by one property, for each system.

    Gold words are binned by their value in the gold file and give recall. System words are binned by their value in the
    system file and give precision. A bin of numbers spans `width` values and is named after the highest.
    """
    if by not in PROPERTIES:
        raise TreefineError(f"There is no property {by!r}.", hint=f"Choose one of {', '.join(PROPERTIES)}.")
    if width < 1:
        raise ValueError(f"width must be 1 or more, not {width}")
    bins = []
    for name, pair in pairs.items():
        found = all_marks(pair, rule=rule, metrics=("UAS", "LAS"))
        ours, theirs = (
            [-(-value // width) * width if isinstance(value, int) else value for value in PROPERTIES[by](words, rule)]
            for words in (pair.gold, pair.system)
        )
        gold, system = Counter(compress(ours, found["LAS"].gold)), Counter(compress(theirs, found["LAS"].system))
        gold_right, system_right = {}, {}
        for metric, marks in found.items():
            gold_right[metric] = Counter(compress(ours, marks.correct))
            system_right[metric] = Counter(theirs[word] for word in compress(pair.system_of, marks.correct))
        for value in sorted(gold | system, key=lambda value: (isinstance(value, str), value)):
            gold_correct = {metric: right[value] for metric, right in gold_right.items()}
            system_correct = {metric: right[value] for metric, right in system_right.items()}
            bins.append(Bin(name, value, gold[value], system[value], gold_correct, system_correct))
    return bins


def _heads_by_sentence(words: WordColumns) -> Iterator[tuple[range, list[int]]]:
    """Yield the words of each sentence, and its heads, with ROOT at index 0 as in a Graph."""
    for sentence in words.sentence_words():
        first = sentence.start
        heads = words.heads[first : sentence.stop]
        yield sentence, [0, *[0 if head == AT_ROOT else head - first + 1 for head in heads]]


def _dependency_length(words: WordColumns, rule: str) -> list[Value]:
    """Return the distance in words between dependent and head: 1 for neighbours, 0 for an arc from ROOT.

    The value is "cycle" for a word that is its own head, which occurs only in a system's graph.
    """
    return [
        0 if head == AT_ROOT else abs(word - head) if word != head else "cycle" for word, head in enumerate(words.heads)
    ]


def _arc_direction(words: WordColumns, rule: str) -> list[Value]:
    """Return the side of the head: "left", "right" or "ROOT"; "cycle" for a word that is its own head."""
    return [
        "ROOT" if head == AT_ROOT else "left" if head < word else "right" if head > word else "cycle"
        for word, head in enumerate(words.heads)
    ]


def _distance_to_root(words: WordColumns, rule: str) -> list[Value]:
    """Return the number of arcs up to ROOT: 1 for a root word, "cycle" for a word that never reaches ROOT."""
    distances = [each for _, heads in _heads_by_sentence(words) for each in distances_to_root(heads)[1:]]
    return ["cycle" if distance < 0 else distance for distance in distances]


def _arc_projectivity(words: WordColumns, rule: str) -> list[Value]:
    """Return "projective" for each word if all words between it and its head descend from the head."""
    values: list[Value] = ["projective"] * len(words)
    for sentence, heads in _heads_by_sentence(words):
        for word in non_projective_words(heads):
            values[sentence.start + word - 1] = "non-projective"
    return values


def _tree_projectivity(words: WordColumns, rule: str) -> list[Value]:
    """Return "projective" for each word if all arcs of its sentence are projective."""
    sentences = _heads_by_sentence(words)
    kinds = (["non-projective" if non_projective_words(heads) else "projective"] * len(own) for own, heads in sentences)
    return [*chain.from_iterable(kinds)]


PROPERTIES: Mapping[str, Callable[[WordColumns, str], list[Value]]] = {
    "dependency length": _dependency_length,
    "distance to root": _distance_to_root,
    "sentence length": lambda words, rule: [len(sentence) for sentence in words.sentence_words() for _ in sentence],
    "label": lambda words, rule: [*compared_labels(words, is_ud=rule_of(rule).is_ud)],
    "tag": lambda words, rule: [*words.tags()],
    "arc direction": _arc_direction,
    "arc projectivity": _arc_projectivity,
    "tree projectivity": _tree_projectivity,
}
