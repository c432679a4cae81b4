"""The k best trees of a sentence, and how probable each is among all its trees."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treefine.parsing.tree import Heads

Weights = NDArray[np.float64]  # [dep, head]; -inf for an arc that cannot be


class _Part(NamedTuple):
    """Trees whose first words have certain heads, and whose next word has none of some: the best once it is known.

    Parts are compared by their first fields: the largest sum first, and of equal ones the part that was made first.
    """

    cost: float  # minus the sum, or minus what bounds it
    number: int
    heads: Heads | None  # None while it is not known
    n_fixed: int  # so many words have the heads of `like` …
    like: Heads
    without: tuple[int, ...]  # … and the next one has none of these


def best_trees(weights: Weights, search: Callable[[Weights], Heads]) -> Iterator[Heads]:
    """All trees, the one with the largest sum of weights first; `search` finds the best one of such weights.

    After each tree, the others that share its part of all trees are parted by the first word whose arc they lack
    (Lawler 1972). A part is searched only when the sum of its words' best arcs, which its best tree cannot beat, is
    larger than the next tree's: so few searches are needed where most heads are clear.
    """
    words = np.arange(1, len(weights))
    parts = [_Part(-math.inf, 0, None, 0, np.zeros(len(weights), np.int64), ())]
    n_parts = 1
    while parts:
        part = heapq.heappop(parts)
        if part.heads is None:
            within = _within(weights, part)
            heads = search(within)
            total = float(within[words, heads[1:]].sum())
            if total > -math.inf:
                heapq.heappush(parts, part._replace(cost=-total, heads=heads))
            continue
        yield part.heads
        for n_fixed, bound in enumerate(_bounds(_within(weights, part), part.heads)):
            if n_fixed >= part.n_fixed and bound > -math.inf:
                before = part.without if n_fixed == part.n_fixed else ()
                without = (*before, int(part.heads[n_fixed + 1]))
                heapq.heappush(parts, _Part(max(-bound, part.cost), n_parts, None, n_fixed, part.heads, without))
                n_parts += 1


def _bounds(within: Weights, heads: Heads) -> list[float]:
    """For each word: the sum of the best arcs if the words before it have these heads and it has another one."""
    words = np.arange(1, len(within))
    best, chosen = within[1:].max(-1), within[words, heads[1:]]
    others = within[1:].copy()
    others[words - 1, heads[1:]] = -math.inf
    before, after = np.cumsum(chosen) - chosen, best.sum() - np.cumsum(best)
    bounds: list[float] = (before + others.max(-1) + after).tolist()
    return bounds


def _within(weights: Weights, part: _Part) -> Weights:
    """The weights with -inf for all arcs that the trees of a part cannot have."""
    within: Weights = weights.copy()
    np.fill_diagonal(within, -math.inf)
    rows = np.arange(1, part.n_fixed + 1)
    within[rows] = -math.inf
    within[rows, part.like[rows]] = weights[rows, part.like[rows]]
    if part.without:
        within[part.n_fixed + 1, list(part.without)] = -math.inf
    return within


def log_sum_of_trees(weights: Weights) -> float:
    """The logarithm of the sum of exp(sum of weights) over all trees with one root.

    By the matrix-tree theorem this is a determinant, which is found here by leaving out one word after another: what
    went through a word goes past it. Nothing is subtracted, and all is done in logarithms, so nothing is lost however
    improbable the trees are beside graphs with cycles. ROOT has one word, which is the one that is left.
    """
    roots, arcs = weights[1:, 0].copy(), weights[1:, 1:].copy()  # [word], [dep, head]
    np.fill_diagonal(arcs, -math.inf)
    log_sum = 0.0
    while len(arcs) > 1:
        # The word with the most weight on other words: one that can be nothing but the root comes last.
        totals = np.logaddexp.reduce(arcs, axis=1)
        word = int(totals.argmax())
        total = totals[word]
        if total == -math.inf:
            return -math.inf
        log_sum += float(total)
        rest = np.delete(np.arange(len(arcs)), word)
        onto = arcs[rest, word] - total
        roots = np.logaddexp(roots[rest], onto + roots[word])
        arcs = np.logaddexp(arcs[np.ix_(rest, rest)], onto[:, None] + arcs[word, rest])
        np.fill_diagonal(arcs, -math.inf)
    return log_sum + float(roots[0])
