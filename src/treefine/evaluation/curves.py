"""The curves of an error analysis: words counted by kind and sentence, and the bootstrap band of each point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from treefine.evaluation.alignment import UNALIGNED, Pair
from treefine.evaluation.analysis import Point
from treefine.evaluation.breakdown import Value
from treefine.evaluation.conll18 import Marks
from treefine.evaluation.significance import SLICE, draw_weights

BAND = 0.95
# The lowest number of each point; it goes up to the next one, and the last has no end. Long arcs, deep words and long
# sentences are rare, so they are put together.
LOWEST: Mapping[str, tuple[int, ...]] = {
    "dependency length": (*range(1, 12), 16, 21, 31),
    "distance to root": tuple(range(1, 10)),
    "sentence length": (1, 11, 21, 31, 41, 51),
}
KINDS_AT_ONCE = 64  # to bound memory, however many labels a file has

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def point_of(by: str, value: Value) -> Value:
    """The point of a curve to which a word with this value belongs.

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
class Tally:
    """The words of gold and one system by kind and sentence. Each entry is one word in one column of its kind."""

    kinds: tuple[Value, ...]
    n_sentences: int
    sentences: Integers  # of each entry: the gold sentence, from 0
    cells: Integers  # of each entry: 4 * kind + column; these are gold, system, gold correct, system correct

    def totals(self) -> Integers:
        """How many words each column of each kind has. [kind, 4]."""
        return np.bincount(self.cells, minlength=4 * len(self.kinds)).reshape(-1, 4)


def tally(by: str, pair: Pair, found: Marks, gold_values: Sequence[Value], system_values: Sequence[Value]) -> Tally:
    """Sort the words that count by their value, in the file they stand in, and by the gold sentence."""
    kinds: dict[Value, int] = {}
    counted = {*compress(gold_values, found.gold), *compress(system_values, found.system)}
    kind_of = {value: kinds.setdefault(point_of(by, value), len(kinds)) for value in counted}
    ours = np.array([kind_of.get(value, -1) for value in gold_values], dtype=np.int64)
    theirs = np.array([kind_of.get(value, -1) for value in system_values], dtype=np.int64)
    gold_sentences, system_sentences = sentence_of_each_word(pair)
    gold_counts, system_counts = np.array(found.gold, dtype=bool), np.array(found.system, dtype=bool)
    system_of = np.array(pair.system_of, dtype=np.int64)
    right = np.array(found.correct, dtype=bool) & (system_of != UNALIGNED)
    right_system = system_of[right]
    sentences = [
        gold_sentences[gold_counts],
        system_sentences[system_counts],
        gold_sentences[right],
        gold_sentences[right],  # a right word is drawn with its gold sentence
    ]
    columns = [ours[gold_counts], theirs[system_counts], ours[right], theirs[right_system]]
    cells = [4 * kind + column for column, kind in enumerate(columns)]
    return Tally(tuple(kinds), len(pair.gold.sentences), np.concatenate(sentences), np.concatenate(cells))


def sentence_of_each_word(pair: Pair) -> tuple[Integers, Integers]:
    """The gold sentence, from 0, of each gold word and of each system word, which belongs where its text begins."""
    ours = np.repeat(np.arange(len(pair.gold.sentences)), [len(words) for words in pair.gold.sentence_words()])
    if pair.gold.spans == pair.system.spans:
        return ours, ours
    starts = [start for start, _ in pair.gold.sentences]
    return ours, np.searchsorted(starts, [start for start, _ in pair.system.spans], side="right") - 1


def join(tallies: Sequence[Tally]) -> Tally:
    """The tallies of several treebanks as one: their sentences follow one another."""
    kinds: dict[Value, int] = {}
    sentences, cells, n_sentences = [], [], 0
    for each in tallies:
        new = np.array([kinds.setdefault(kind, len(kinds)) for kind in each.kinds], dtype=np.int64)
        kind, column = np.divmod(each.cells, 4)
        cells.append(4 * new[kind] + column)
        sentences.append(each.sentences + n_sentences)
        n_sentences += each.n_sentences
    return Tally(tuple(kinds), n_sentences, np.concatenate(sentences), np.concatenate(cells))


def draw_curves(
    tallies: Mapping[str, Mapping[str, Tally]], *, samples: int, seed: int
) -> dict[str, dict[str, tuple[Point, ...]]]:
    """The points of each property and system, with their bands; all are drawn from the same samples of sentences."""
    flat = {(by, system): each for by, systems in tallies.items() for system, each in systems.items() if each.kinds}
    bands = dict(zip(flat, f1_bands(list(flat.values()), samples=samples, seed=seed), strict=True))
    return {
        by: {system: _points(by, each, *bands[by, system]) if each.kinds else () for system, each in systems.items()}
        for by, systems in tallies.items()
    }


def _points(by: str, counted: Tally, low: Floats, high: Floats) -> tuple[Point, ...]:
    rows = zip(counted.kinds, counted.totals().tolist(), low.tolist(), high.tolist(), strict=True)
    points = [
        Point(kind, gold, system, gold_correct, system_correct, low, high)
        for kind, (gold, system, gold_correct, system_correct), low, high in rows
        if gold or system
    ]
    if by in LOWEST:
        order = {point_of(by, number): number for number in reversed((0, *LOWEST[by]))}
        return tuple(sorted(points, key=lambda point: order.get(point.value, np.inf)))  # words of a cycle last
    return tuple(sorted(points, key=lambda point: (-point.gold, str(point.value))))


def f1_bands(tallies: Sequence[Tally], *, samples: int, seed: int) -> list[tuple[Floats, Floats]]:
    """The lower and upper end of the bootstrap band of F1, of each kind of each tally.

    As many sentences as there are, are drawn with replacement, `samples` times; the band holds the middle 95 % of F1.
    Samples that leave F1 open say nothing about a kind; if all do, its band is 0, as its F1 is.
    """
    rng = np.random.default_rng(seed)
    n_sentences = tallies[0].n_sentences if tallies else 1
    drawn: list[list[Floats]] = [[] for _ in tallies]
    for start in range(0, samples, SLICE):
        weights = draw_weights(rng, min(SLICE, samples - start), n_sentences)
        for each, found in zip(tallies, drawn, strict=True):
            blocks = [f1_of_kinds((weights @ block).reshape(len(weights), -1, 4)) for block in _blocks(each)]
            found.append(np.concatenate(blocks, axis=1))  # [sample, kind]
    outside = (1 - BAND) / 2
    bands = []
    for found in drawn:
        f1 = np.concatenate(found)
        f1[:, np.isnan(f1).all(axis=0)] = 0
        low, high = np.nanquantile(f1, [outside, 1 - outside], axis=0)
        bands.append((low, high))
    return bands


def _blocks(counted: Tally) -> Iterator[Floats]:
    """The words of each sentence, some kinds at a time. [sentence, 4 * kind]."""
    for first in range(0, 4 * len(counted.kinds), 4 * KINDS_AT_ONCE):
        width = min(4 * KINDS_AT_ONCE, 4 * len(counted.kinds) - first)
        is_here = (counted.cells >= first) & (counted.cells < first + width)
        places = counted.sentences[is_here] * width + counted.cells[is_here] - first
        words = np.bincount(places, minlength=counted.n_sentences * width)
        yield words.reshape(counted.n_sentences, width).astype(np.float64)


def f1_of_kinds(totals: Floats) -> Floats:
    """F1 from totals whose last axis has the columns of a kind; nan where it needs the share of no words.

    It does not where the other share is 0, for then it is 0 too.
    """
    gold, system, gold_correct, system_correct = np.moveaxis(totals, -1, 0)
    recall = gold_correct / np.maximum(gold, 1)
    precision = system_correct / np.maximum(system, 1)
    both = precision + recall
    f1 = 2 * precision * recall / np.where(both > 0, both, 1)
    is_known = ((gold > 0) | (precision == 0)) & ((system > 0) | (recall == 0)) & (gold + system > 0)
    return np.where(is_known, f1, np.nan)
