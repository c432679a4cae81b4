"""Where arcs run in a drawing with one word a line: each head has an upright bar, and its dependents join it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from treefine.treebank.graph import ROOT, find_cycles

MAX_COLUMNS = 40  # deeper trees start again on the left: wider than this, nothing fits a screen


class Bar(NamedTuple):
    """The line that joins a head and its dependents, from its first to its last word."""

    column: int  # 0 is the leftmost
    low: int
    high: int


def bars_of(heads: Sequence[int], *, max_columns: int = MAX_COLUMNS) -> tuple[dict[int, Bar], frozenset[int]]:
    """The bar of each head, and the loose words, whose arcs have no line.

    The bar of a word is right of the bar that the word joins, so a reader follows lines from left to right, from ROOT
    down. That cannot hold all the way round a cycle: there the longest arc has no line. Nor have arcs that find
    no column: their words start again on the left.

    >>> bars_of((0, 2, 3, 0))
    ({3: Bar(column=0, low=2, high=3), 2: Bar(column=1, low=1, high=2)}, frozenset())
    """
    loose = {max(cycle, key=lambda word: abs(word - heads[word])) for cycle in find_cycles(heads)}
    dependents: list[list[int]] = [[] for _ in heads]
    for word in range(1, len(heads)):
        if heads[word] != ROOT and word not in loose:
            dependents[heads[word]].append(word)
    bars: dict[int, Bar] = {}
    taken = [0] * max_columns  # the lines on which a column is in use, as the bits of a number
    words = [word for word in range(1, len(heads)) if heads[word] == ROOT or word in loose]
    for word in words:  # heads before their dependents: the list grows as it is read
        words += dependents[word]
        if not dependents[word]:
            continue
        low, high = min(word, dependents[word][0]), max(word, dependents[word][-1])
        lines = (1 << (high + 1)) - (1 << low)
        start = 0 if heads[word] == ROOT or word in loose else bars[heads[word]].column + 1
        column = next((column for column in range(start, max_columns) if not taken[column] & lines), None)
        if column is None:
            loose.update(dependents[word])
        else:
            taken[column] |= lines
            bars[word] = Bar(column, low, high)
    return bars, frozenset(loose)
