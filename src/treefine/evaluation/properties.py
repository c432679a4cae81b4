"""Scores by properties of words, such as their distance to the root, as points of curves with bootstrap bands."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import compress
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from treefine.errors import TreefineError
from treefine.evaluation.pairing import AT_ROOT, AlignedWords, WordColumns
from treefine.evaluation.scores import Marks, Score, all_marks, scores_by_value
from treefine.evaluation.significance import SLICE, draw_weights, sentence_of_each_word
from treefine.treebank.graph import distances_to_root, non_projective_words

Value: TypeAlias = "int | str"
_Floats: TypeAlias = "NDArray[np.float64]"
_BAND = 0.95
# The lowest value of each point. A point covers all values up to the next point, and the last point has no upper end:
# long arcs, deep words and long sentences are rare, so several values share a point.
LOWEST: Mapping[str, tuple[int, ...]] = {
    "dependency length": (*range(1, 12), 16, 21, 31),
    "distance to root": tuple(range(1, 10)),
    "sentence length": (1, 11, 21, 31, 41, 51),
}


def scores_by_property(
    pair: AlignedWords, by: str, *, metric: str = "LAS", rule: str = "conll18"
) -> dict[Value, Score]:
    """Return the score of the words with each value of a property, one of PROPERTIES; numbers come first, in order.

    Gold words are grouped by their value in the gold file and give recall; system words are grouped by their value in
    the system's file and give precision.
    """
    if by not in PROPERTIES:
        raise TreefineError(f"There is no property {by!r}.", hint=f"Choose one of {', '.join(PROPERTIES)}.")
    marks = all_marks(pair, rule=rule, metrics=[metric])[metric]
    scores = scores_by_value(pair, marks, *map(PROPERTIES[by], (pair.gold, pair.system)))
    return dict(sorted(scores.items(), key=lambda item: (isinstance(item[0], str), item[0])))


def _heads_by_sentence(words: WordColumns) -> Iterator[list[int]]:
    """Yield the heads of each sentence, with ROOT at index 0 as in a Graph."""
    for sentence in words.sentence_words():
        heads = words.heads[sentence.start : sentence.stop]
        yield [0, *[0 if head == AT_ROOT else head - sentence.start + 1 for head in heads]]


def _dependency_length(words: WordColumns) -> list[Value]:
    """Return the distance between word and head: 1 for neighbours, 0 for ROOT, "cycle" for a word that is its head."""
    return [
        0 if head == AT_ROOT else abs(word - head) if word != head else "cycle" for word, head in enumerate(words.heads)
    ]


def _arc_direction(words: WordColumns) -> list[Value]:
    return [
        "ROOT" if head == AT_ROOT else "left" if head < word else "right" if head > word else "cycle"
        for word, head in enumerate(words.heads)
    ]


def _distance_to_root(words: WordColumns) -> list[Value]:
    """Return the number of arcs up to ROOT: 1 for a root word, "cycle" for a word that never reaches ROOT."""
    distances = [distance for heads in _heads_by_sentence(words) for distance in distances_to_root(heads)[1:]]
    return ["cycle" if distance < 0 else distance for distance in distances]


def _projectivity(words: WordColumns, *, of_trees: bool) -> list[Value]:
    """Return for each word whether its arc or, with `of_trees`, all arcs of its sentence are projective."""
    values: list[Value] = []
    for heads in _heads_by_sentence(words):
        crossed = {*non_projective_words(heads)}
        is_crossed = [bool(crossed) if of_trees else word in crossed for word in range(1, len(heads))]
        values += ["non-projective" if each else "projective" for each in is_crossed]
    return values


PROPERTIES: Mapping[str, Callable[[WordColumns], list[Value]]] = {
    "dependency length": _dependency_length,
    "distance to root": _distance_to_root,
    "sentence length": lambda words: [len(sentence) for sentence in words.sentence_words() for _ in sentence],
    "label": lambda words: [*words.labels],
    "tag": lambda words: [*words.tags()],
    "arc direction": _arc_direction,
    "arc projectivity": partial(_projectivity, of_trees=False),
    "tree projectivity": partial(_projectivity, of_trees=True),
}


@cache
def point_of(by: str, value: Value) -> Value:
    """Return the point of a curve to which a word with this value belongs.

    >>> [point_of("dependency length", length) for length in (0, 7, 12, 40)]
    ['ROOT', 7, '11-15', '31+']
    """
    if by not in LOWEST or isinstance(value, str):
        return value
    if value == 0:
        return "ROOT"
    place = bisect_right(LOWEST[by], value)
    low, *rest = LOWEST[by][place - 1 :]
    return f"{low}+" if not rest else low if low == rest[0] - 1 else f"{low}-{rest[0] - 1}"


@dataclass(frozen=True, slots=True)
class Point(Score):
    """The score of the words with one value of a property: a point of a curve, or a row of a table."""

    value: Value = ""  # a number, a label or tag, or a range of numbers such as "11-15" or "31+"
    low: float = 0.0  # the 95% bootstrap band of F1
    high: float = 0.0


def draw_curves(
    by: str, pairs: Mapping[str, AlignedWords], marks: Mapping[str, Marks], *, samples: int, seed: int
) -> dict[str, tuple[Point, ...]]:
    """Return the points of each system by one property, over the words that count in `marks`.

    All systems have the same points: numbers in ascending order, then words in cycles; for labels and tags, the most
    frequent in gold first. Bands depend on `samples` and `seed` only, so those of all properties use the same samples.
    """
    values = {
        system: [[point_of(by, value) for value in PROPERTIES[by](words)] for words in (pair.gold, pair.system)]
        for system, pair in pairs.items()
    }
    n_gold, kinds = Counter[Value](), set[Value]()
    for system, (ours, theirs) in values.items():
        n_gold = Counter(compress(ours, marks[system].gold))  # the same for all systems
        kinds.update(n_gold, compress(theirs, marks[system].system))
    if by in LOWEST:
        order = {point_of(by, number): number for number in reversed((0, *LOWEST[by]))}
        shown = sorted(kinds, key=lambda kind: order.get(kind, np.inf))  # words in cycles come last
    else:
        shown = sorted(kinds, key=lambda kind: (-n_gold[kind], str(kind)))
    curves = {}
    for system, pair in pairs.items():
        counts = _counts_by_kind(pair, marks[system], values[system], shown)
        totals = counts.sum(axis=0, dtype=np.float64).astype(int).tolist()
        bands = _f1_bands(counts, samples=samples, seed=seed).tolist()
        curves[system] = tuple(
            Point(gold, system, correct, system_correct=right, value=kind, low=low, high=high)
            for kind, (gold, system, correct, right), (low, high) in zip(shown, totals, bands, strict=True)
        )
    return curves


def _counts_by_kind(
    pair: AlignedWords, marks: Marks, kinds_of_words: Sequence[Sequence[Value]], kinds: Sequence[Value]
) -> NDArray[np.float32]:
    """Count gold, system, gold correct and system correct words by gold sentence and kind. [sentence, kind, 4]."""
    number = {kind: index for index, kind in enumerate(kinds)}
    ours, theirs = (np.array([number.get(kind, -1) for kind in each], dtype=int) for each in kinds_of_words)
    gold_sentences, system_sentences = sentence_of_each_word(pair)
    in_gold, in_system, right = (np.array(each, dtype=bool) for each in (marks.gold, marks.system, marks.correct))
    of_right = gold_sentences[right]  # a right word is drawn with its gold sentence
    columns = (
        (gold_sentences[in_gold], ours[in_gold]),
        (system_sentences[in_system], theirs[in_system]),
        (of_right, ours[right]),
        (of_right, theirs[np.array(pair.system_of, dtype=int)[right]]),
    )
    shape = (len(pair.gold.sentences), len(kinds))
    cells = [np.bincount(at * shape[1] + kind, minlength=shape[0] * shape[1]).reshape(shape) for at, kind in columns]
    return np.stack(cells, axis=-1).astype(np.float32)


def _f1_bands(counts: NDArray[np.float32], *, samples: int, seed: int) -> _Floats:
    """Return the lower and upper end of the bootstrap band of the F1 of each kind. [kind, 2].

    Each sample draws sentences with replacement, as many as the treebank has; the band contains the middle 95% of the
    F1 values. Samples in which the F1 of a kind is undefined are ignored; if all are, its band is 0, like its F1.
    """
    rng, slices = np.random.default_rng(seed), []
    for start in range(0, samples, SLICE):
        weights = draw_weights(rng, min(SLICE, samples - start), len(counts)).astype(np.float32)
        # Sums of words are exact as 32-bit floats up to 16 million.
        totals = (weights @ counts.reshape(len(counts), -1)).astype(np.float64)
        slices.append(f1_of_kinds(totals.reshape(len(weights), -1, 4)))
    f1_values = np.concatenate(slices)  # [sample, kind]
    f1_values[:, np.isnan(f1_values).all(axis=0)] = 0
    outside = (1 - _BAND) / 2
    bands: _Floats = np.nanquantile(f1_values, [outside, 1 - outside], axis=0).T
    return bands


def f1_of_kinds(totals: _Floats) -> _Floats:
    """Return F1 from totals of words; nan if precision or recall has no words and the other one is not 0."""
    gold, system, gold_correct, system_correct = np.moveaxis(totals, -1, 0)
    recall = gold_correct / np.maximum(gold, 1)
    precision = system_correct / np.maximum(system, 1)
    both = precision + recall
    f1 = 2 * precision * recall / np.where(both > 0, both, 1)
    is_known = ((gold > 0) | (precision == 0)) & ((system > 0) | (recall == 0)) & (gold + system > 0)
    return np.where(is_known, f1, np.nan)
