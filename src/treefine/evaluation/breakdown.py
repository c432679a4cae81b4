"""UAS and LAS by the kind of word: dependency length, distance to root, sentence length, label, tag, arcs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from treefine.errors import TreefineError
from treefine.evaluation.pairing import UNALIGNED, AlignedWords
from treefine.evaluation.scores import Marks, all_marks, compared_labels, rule_of
from treefine.evaluation.words import AT_ROOT, WordColumns
from treefine.treebank.graph import distances_to_root, non_projective_words

Value: TypeAlias = "int | str"


@dataclass(frozen=True, slots=True)
class Bin:
    """The words of one kind: how many the gold file has, how many the system, and how many of each are right.

    The two counts of right words can differ: a word that is right may hang at another depth in the system's tree.
    """

    system_name: str
    value: Value
    gold: int
    system: int
    gold_correct: dict[str, int]  # by metric, UAS and LAS
    system_correct: dict[str, int]

    def recall(self, metric: str = "LAS") -> float:
        """Return the share of the gold words of this kind that is right."""
        return self.gold_correct[metric] / self.gold if self.gold else 0.0

    def precision(self, metric: str = "LAS") -> float:
        """Return the share of the system's words of this kind that is right."""
        return self.system_correct[metric] / self.system if self.system else 0.0

    def f1(self, metric: str = "LAS") -> float:
        """Return the harmonic mean of the two."""
        precision, recall = self.precision(metric), self.recall(metric)
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def breakdown(pairs: Mapping[str, AlignedWords], by: str, *, rule: str = "conll18", width: int = 1) -> list[Bin]:
    """Count right words by one property, for each system; a bin holds `width` numbers and is named by the highest.

    Gold words are sorted by their property in the gold file and give recall, system words by theirs and give precision.
    """
    if by not in PROPERTIES:
        raise TreefineError(f"There is no property {by!r}.", hint=f"Choose one of {', '.join(PROPERTIES)}.")
    if width < 1:
        raise ValueError(f"width is {width}; it must be 1 or more")
    bins = []
    for name, pair in pairs.items():
        found = all_marks(pair, rule=rule, metrics=("UAS", "LAS"))
        ours, theirs = (_grouped(PROPERTIES[by](words, rule), width) for words in (pair.gold, pair.system))
        counted = found["LAS"]
        gold = Counter(value for value, counts in zip(ours, counted.gold, strict=True) if counts)
        system = Counter(value for value, counts in zip(theirs, counted.system, strict=True) if counts)
        right = {metric: _right(pair, each, ours, theirs) for metric, each in found.items()}
        for value in sorted(gold | system, key=lambda value: (isinstance(value, str), value)):
            gold_correct = {metric: each[0][value] for metric, each in right.items()}
            system_correct = {metric: each[1][value] for metric, each in right.items()}
            bins.append(Bin(name, value, gold[value], system[value], gold_correct, system_correct))
    return bins


def _right(
    pair: AlignedWords, found: Marks, ours: list[Value], theirs: list[Value]
) -> tuple[Counter[Value], Counter[Value]]:
    """Count the right words by their property in the gold file and by that in the system file."""
    pairs = [(g, s) for g, s in enumerate(pair.system_of) if s != UNALIGNED and found.correct[g]]
    return Counter(ours[g] for g, _ in pairs), Counter(theirs[s] for _, s in pairs)


def _grouped(values: list[Value], width: int) -> list[Value]:
    return [-(-value // width) * width if isinstance(value, int) else value for value in values]


def _heads_by_sentence(words: WordColumns) -> Iterator[tuple[range, list[int]]]:
    """Yield the words of each sentence, and its heads with ROOT at 0 as in a Graph."""
    for sentence in words.sentence_words():
        first = sentence.start
        heads = words.heads[first : sentence.stop]
        yield sentence, [0, *[0 if head == AT_ROOT else head - first + 1 for head in heads]]


def _dependency_length(words: WordColumns, rule: str) -> list[Value]:
    """Return the distance in words between dependent and head, 1 for neighbours; 0 for an arc from ROOT.

    A word that is its own head, as only a system's graph has it, is in a "cycle" and not at ROOT.
    """
    return [
        0 if head == AT_ROOT else abs(word - head) if word != head else "cycle" for word, head in enumerate(words.heads)
    ]


def _arc_direction(words: WordColumns, rule: str) -> list[Value]:
    """Return where the head is: "left" or "right" of the word, or "ROOT"; "cycle" for a word that is its own head."""
    return [
        "ROOT" if head == AT_ROOT else "left" if head < word else "right" if head > word else "cycle"
        for word, head in enumerate(words.heads)
    ]


def _distance_to_root(words: WordColumns, rule: str) -> list[Value]:
    """Return the number of arcs up to ROOT, 1 for a root word; "cycle" where a system's graph never gets there."""
    distances = [each for _, heads in _heads_by_sentence(words) for each in distances_to_root(heads)[1:]]
    return ["cycle" if distance < 0 else distance for distance in distances]


def _sentence_length(words: WordColumns, rule: str) -> list[Value]:
    """Return the number of words in the sentence."""
    return [len(sentence) for sentence in words.sentence_words() for _ in sentence]


def _label(words: WordColumns, rule: str) -> list[Value]:
    """Return the label, as the rule compares it."""
    return [*compared_labels(words, is_ud=rule_of(rule).is_ud)]


def _tag(words: WordColumns, rule: str) -> list[Value]:
    """Return UPOS, or XPOS where that is blank."""
    return [*words.tags()]


def _arc_projectivity(words: WordColumns, rule: str) -> list[Value]:
    """Return whether all words between dependent and head descend from the head."""
    values: list[Value] = ["projective"] * len(words)
    for sentence, heads in _heads_by_sentence(words):
        for word in non_projective_words(heads):
            values[sentence.start + word - 1] = "non-projective"
    return values


def _tree_projectivity(words: WordColumns, rule: str) -> list[Value]:
    """Return whether all arcs of the sentence are projective."""
    values: list[Value] = ["projective"] * len(words)
    for sentence, heads in _heads_by_sentence(words):
        if non_projective_words(heads):
            values[sentence.start : sentence.stop] = ["non-projective"] * len(sentence)
    return values


PROPERTIES: Mapping[str, Callable[[WordColumns, str], list[Value]]] = {
    "dependency length": _dependency_length,
    "distance to root": _distance_to_root,
    "sentence length": _sentence_length,
    "label": _label,
    "tag": _tag,
    "arc direction": _arc_direction,
    "arc projectivity": _arc_projectivity,
    "tree projectivity": _tree_projectivity,
}
