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
    """Trees that have some arcs and lack some others, with the best of them once it is known.

    Parts are compared by their first fields: the largest sum first, and of equal ones the part that was made first.
    """

    cost: float  # minus the sum, or minus what bounds it
    number: int
    heads: Heads | None  # None while it is not known
    fixed: tuple[int, ...]  # words that have the arc of `like`
    like: Heads
    without: tuple[tuple[int, int], ...]  # arcs (word, head) that are not allowed


def best_trees(weights: Weights, search: Callable[[Weights], Heads]) -> Iterator[Heads]:
    """All trees, the one with the largest sum of weights first; `search` finds the best one of such weights.

    After each tree, the others that share its part of all trees are parted by the first word whose arc they lack
    (Lawler 1972). A part is searched only when the sum of its words' best arcs, which its best tree cannot beat, is
    larger than the next tree's: so few searches are needed where most heads are clear.
    """
    words = np.arange(1, len(weights))
    nothing = np.zeros(len(weights), np.int64)
    parts = [_Part(-math.inf, 0, None, (), nothing, ())]
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
        fixed = part.fixed
        for word, bound in zip(words.tolist(), _bounds(_within(weights, part), part.heads), strict=True):
            if word in part.fixed:
                continue
            if bound > -math.inf:
                without = (*part.without, (word, int(part.heads[word])))
                heapq.heappush(parts, _Part(max(-bound, part.cost), n_parts, None, fixed, part.heads, without))
                n_parts += 1
            fixed = (*fixed, word)


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
    rows = list(part.fixed)
    within[rows] = -math.inf
    within[rows, part.like[rows]] = weights[rows, part.like[rows]]
    for word, head in part.without:
        within[word, head] = -math.inf
    return within


def log_sum_of_trees(weights: Weights) -> float:
    """The logarithm of the sum of exp(sum of weights) over all trees with one root.

    By the matrix-tree theorem this is a determinant, which is found here by leaving out one word after another: what
    went through a word goes past it. All numbers stay positive, nothing is subtracted, and so nothing is lost however
    improbable the trees are beside graphs with cycles. ROOT has one word, which is the one that is left.
    """
    scale = weights[1:].max(-1)  # [word]
    if not np.isfinite(scale).all():
        return -math.inf
    arcs = np.exp(weights[1:] - scale[:, None])
    roots, arcs = arcs[:, 0].copy(), arcs[:, 1:].copy()  # [word], [dep, head]
    np.fill_diagonal(arcs, 0)
    log_sum = float(scale.sum())
    left = list(range(len(arcs)))
    while len(left) > 1:
        # The word with the most weight on other words: one that can be nothing but the root comes last.
        totals = arcs[np.ix_(left, left)].sum(-1)
        word = left.pop(int(totals.argmax()))
        total = float(totals.max())
        if total == 0:
            return -math.inf
        log_sum += math.log(total)
        share, onto = arcs[word] / total, arcs[:, word].copy()
        arcs += onto[:, None] * share
        roots += onto * (roots[word] / total)
        np.fill_diagonal(arcs, 0)
    return log_sum + math.log(roots[left[0]]) if roots[left[0]] > 0 else -math.inf
