"""Accuracy curves: F1 by a property of words, with bootstrap bands, over one treebank or several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from treefine.evaluation.breakdown import Value
from treefine.evaluation.pairing import AlignedWords
from treefine.evaluation.scores import Marks
from treefine.evaluation.significance import SLICE, draw_weights, sentence_of_each_word

Name = TypeVar("Name")
_BAND = 0.95
# The lowest value of each point. A point covers all values up to the next point, and the last point has no upper end:
# long arcs, deep words and long sentences are rare, so several values share a point.
LOWEST: Mapping[str, tuple[int, ...]] = {
    "dependency length": (*range(1, 12), 16, 21, 31),
    "distance to root": tuple(range(1, 10)),
    "sentence length": (1, 11, 21, 31, 41, 51),
}
_KINDS_AT_ONCE = 64  # bounds memory for files with many labels

_Integers = NDArray[np.int64]
_Floats = NDArray[np.float64]


def point_of(by: str, value: Value) -> Value:
    """Return the point of a curve to which a word with this value belongs.

    >>> [point_of("dependency length", length) for length in (0, 7, 12, 40)]
    ['ROOT', 7, '11-15', '31+']
    """
    if by not in LOWEST or isinstance(value, str):
        return value
    if value == 0:
        return "ROOT"
    lowest = LOWEST[by]
    low = max(each for each in lowest if each <= value)
    if low == lowest[-1]:
        return f"{low}+"
    high = lowest[lowest.index(low) + 1] - 1
    return low if low == high else f"{low}-{high}"


@dataclass(frozen=True, slots=True)
class Point:
    """The words with one value of a property (a point of a curve, a row of a table), and how many of them are right.

    Gold words are grouped by their value in the gold file and give recall; system words are grouped by their value in
    the system file and give precision. Without words, precision and recall are 0.
    """

    value: Value  # a number, a label or tag, or a range of numbers such as "11-15" or "31+"
    gold: int  # words of this kind in the gold file
    system: int  # in the system's file
    gold_correct: int  # gold words of this kind that are right
    system_correct: int  # system words of this kind that are right
    low: float  # the 95% bootstrap band of F1
    high: float

    @property
    def precision(self) -> float:
        """The share of the system's words of this kind that are right."""
        return self.system_correct / self.system if self.system else 0.0

    @property
    def recall(self) -> float:
        """The share of the gold words of this kind that are right."""
        return self.gold_correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


@dataclass(frozen=True, slots=True)
class Tally:
    """The words of gold and one system by kind and sentence. Each entry counts one word in one column of its kind.

    A kind is a point of the curve.
    """

    kinds: tuple[Value, ...]
    n_sentences: int
    sentences: _Integers  # for each entry: the gold sentence, from 0
    cells: _Integers  # for each entry: 4 * kind + column; columns are gold, system, gold correct, system correct


def tally(
    by: str, pair: AlignedWords, found: Marks, gold_values: Sequence[Value], system_values: Sequence[Value]
) -> Tally:
    """Tally the words that count by their value in their own file and by gold sentence."""
    kinds: dict[Value, int] = {}
    counted = {*compress(gold_values, found.gold), *compress(system_values, found.system)}
    kind_of = {value: kinds.setdefault(point_of(by, value), len(kinds)) for value in counted}
    ours = np.array([kind_of.get(value, -1) for value in gold_values], dtype=np.int64)
    theirs = np.array([kind_of.get(value, -1) for value in system_values], dtype=np.int64)
    gold_sentences, system_sentences = sentence_of_each_word(pair)
    in_gold, in_system, right = (np.array(each, dtype=bool) for each in (found.gold, found.system, found.correct))
    right_system = np.array(pair.system_of, dtype=np.int64)[right]
    columns = [ours[in_gold], theirs[in_system], ours[right], theirs[right_system]]
    cells = [4 * kind + column for column, kind in enumerate(columns)]
    of_right = gold_sentences[right]  # a right word is drawn with its gold sentence
    sentences = [gold_sentences[in_gold], system_sentences[in_system], of_right, of_right]
    return Tally(tuple(kinds), len(pair.gold.sentences), np.concatenate(sentences), np.concatenate(cells))


def join(tallies: Sequence[Tally]) -> Tally:
    """Concatenate the tallies of several treebanks."""
    kinds: dict[Value, int] = {}
    sentences, cells, n_sentences = [], [], 0
    for each in tallies:
        new = np.array([kinds.setdefault(kind, len(kinds)) for kind in each.kinds], dtype=np.int64)
        kind, column = np.divmod(each.cells, 4)
        cells.append(4 * new[kind] + column)
        sentences.append(each.sentences + n_sentences)
        n_sentences += each.n_sentences
    return Tally(tuple(kinds), n_sentences, np.concatenate(sentences), np.concatenate(cells))


def merged(orders: Iterable[Sequence[Name]]) -> list[Name]:
    """Merge several lists so that names keep the order they have in each list.

    >>> merged([["1", "2", "5+"], ["1", "3", "5+"]])
    ['1', '3', '2', '5+']
    """
    order: list[Name] = []
    for names in orders:
        place = 0
        for name in names:
            if name not in order:
                order.insert(place, name)
            place = order.index(name) + 1
    return order


def draw_curves(
    tallies: Mapping[str, Mapping[str, Tally]], *, samples: int, seed: int
) -> dict[str, dict[str, tuple[Point, ...]]]:
    """Return the points of each property and system, with bands that all use the same samples of sentences."""
    flat = {(by, system): each for by, systems in tallies.items() for system, each in systems.items() if each.kinds}
    bands = dict(zip(flat, f1_bands(list(flat.values()), samples=samples, seed=seed), strict=True))
    return {
        by: {system: _points(by, each, *bands[by, system]) if each.kinds else () for system, each in systems.items()}
        for by, systems in tallies.items()
    }


def _points(by: str, counted: Tally, low: _Floats, high: _Floats) -> tuple[Point, ...]:
    totals = np.bincount(counted.cells, minlength=4 * len(counted.kinds)).reshape(-1, 4)
    rows = zip(counted.kinds, totals.tolist(), low.tolist(), high.tolist(), strict=True)
    points = [Point(kind, *words, *band) for kind, words, *band in rows if words[0] or words[1]]
    if by in LOWEST:
        order = {point_of(by, number): number for number in reversed((0, *LOWEST[by]))}
        return tuple(sorted(points, key=lambda point: order.get(point.value, np.inf)))  # words in cycles come last
    return tuple(sorted(points, key=lambda point: (-point.gold, str(point.value))))


def f1_bands(tallies: Sequence[Tally], *, samples: int, seed: int) -> list[tuple[_Floats, _Floats]]:
    """Return the lower and upper end of the bootstrap band of F1, for each kind of each tally.

    Each sample draws sentences with replacement, as many as the treebank has; the band contains the middle 95% of the
    F1 values. Samples in which the F1 of a kind is undefined are ignored; if all are, its band is 0, like its F1.
    """
    rng = np.random.default_rng(seed)
    n_sentences = tallies[0].n_sentences if tallies else 1
    drawn: list[list[_Floats]] = [[] for _ in tallies]
    for start in range(0, samples, SLICE):
        weights = draw_weights(rng, min(SLICE, samples - start), n_sentences)
        for each, found in zip(tallies, drawn, strict=True):
            blocks = [f1_of_kinds((weights @ block).reshape(len(weights), -1, 4)) for block in _blocks(each)]
            found.append(np.concatenate(blocks, axis=1))  # [sample, kind]
    outside = (1 - _BAND) / 2
    bands = []
    for found in drawn:
        f1 = np.concatenate(found)
        f1[:, np.isnan(f1).all(axis=0)] = 0
        low, high = np.nanquantile(f1, [outside, 1 - outside], axis=0)
        bands.append((low, high))
    return bands


def _blocks(counted: Tally) -> Iterator[_Floats]:
    """Yield the words of each sentence, some kinds at a time. [sentence, 4 * kind]."""
    for first in range(0, 4 * len(counted.kinds), 4 * _KINDS_AT_ONCE):
        width = min(4 * _KINDS_AT_ONCE, 4 * len(counted.kinds) - first)
        is_here = (counted.cells >= first) & (counted.cells < first + width)
        places = counted.sentences[is_here] * width + counted.cells[is_here] - first
        words = np.bincount(places, minlength=counted.n_sentences * width)
        yield words.reshape(counted.n_sentences, width).astype(np.float64)


def f1_of_kinds(totals: _Floats) -> _Floats:
    """Return F1 from totals whose last axis has the columns of a kind.

    F1 is nan if precision or recall has no words and the other one is not 0.
    """
    gold, system, gold_correct, system_correct = np.moveaxis(totals, -1, 0)
    recall = gold_correct / np.maximum(gold, 1)
    precision = system_correct / np.maximum(system, 1)
    both = precision + recall
    f1 = 2 * precision * recall / np.where(both > 0, both, 1)
    is_known = ((gold > 0) | (precision == 0)) & ((system > 0) | (recall == 0)) & (gold + system > 0)
    return np.where(is_known, f1, np.nan)
