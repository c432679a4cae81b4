"""Find the highest-scoring tree (Chu-Liu/Edmonds, or Eisner for projective trees) and the k best trees."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ArcScores = NDArray[Any]  # [dep, head], both 0..n with ROOT at 0; row 0 and the diagonal are not read
Weights = NDArray[np.float64]  # [dep, head]; -inf for an impossible arc
Heads = NDArray[np.int64]  # [word]; heads[0] is 0
HUGE = 1e280  # sums of larger scores could overflow


def maximum_tree(scores: ArcScores) -> Heads:
    """Return the heads of the highest-scoring tree in which exactly one word is attached to ROOT.

    -inf or NaN marks an impossible arc. If every tree needs such arcs, the result has as few of them as possible and
    then the highest sum of its other arcs. Ties are always broken the same way.

    >>> maximum_tree(np.array([[0, 0, 0], [6, 0, 5], [8, 1, 0]]))  # both words score highest under ROOT
    array([0, 2, 0])
    """
    work = _comparable(scores)
    if len(work) == 1:
        return np.zeros(1, np.int64)
    np.fill_diagonal(work, -np.inf)
    # The best tree with any number of roots usually has one root, and it is faster to find.
    heads = _expand(*_contract(work.copy(), first=0), n_words=len(work) - 1)
    if np.count_nonzero(heads[1:] == 0) > 1:
        heads = _expand(*_contract(work, first=1), n_words=len(work) - 1)
    return heads


def projective_tree(scores: ArcScores) -> Heads:
    """Return the heads of the highest-scoring projective tree with one root; otherwise like `maximum_tree`.

    >>> projective_tree(np.array([[0, 0, 0, 0], [0, 0, 5, 9], [9, 0, 0, 0], [0, 5, 9, 0]]))
    array([0, 2, 0, 2])
    """
    comparable = _comparable(scores)
    heads = np.zeros(len(comparable), np.int64)
    if len(heads) > 1:
        heads[1:] = _project(comparable[1:, 1:], comparable[1:, 0])
    return heads


def _comparable(scores: ArcScores) -> ArcScores:
    """Return a copy of the scores without infinities, so that sums can be compared.

    If there are impossible arcs, the copy is complex: numpy compares complex numbers by their real part, here minus the
    number of impossible arcs, and then by their imaginary part, here the score.
    """
    copy = np.array(scores, dtype=np.float64)
    if copy.ndim != 2 or copy.shape[0] != copy.shape[1] or not len(copy):
        raise ValueError(f"scores must be a square matrix of ROOT and the words, not of shape {copy.shape}")
    copy[0] = 0
    np.fill_diagonal(copy, 0)
    impossible = np.isnan(copy) | np.isneginf(copy)
    copy[impossible] = 0
    largest = np.abs(copy).max()
    if largest == np.inf:
        raise ValueError("a score is +inf; scores must be finite or -inf")
    if largest > HUGE:
        copy *= 2.0**-64
    return copy * 1j - impossible if impossible.any() else copy


def _contract(work: ArcScores, *, first: int) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the best arc (word, head) into each node, and the node that each node was contracted into.

    Nodes 1..n are the words. With `first=1`, ROOT is ignored until all words are one node, which enforces a single
    root. Each node has a row in `work`, which is overwritten. See docs/design.md, 'Decoding'.
    """
    columns, n_words = np.arange(len(work)), len(work) - 1
    best_head = work[:, first:].argmax(axis=1) + first
    best = work[columns, best_head]  # [row]
    ends_at: NDArray[np.int32] | None = None  # [row, head]: the word that the arc enters; None before a cycle
    arcs = list(enumerate(best_head.tolist()))
    rows, part_of = columns.tolist(), [0] * len(work)  # [node]
    words_of = [[word] for word in rows]  # [node]
    node_of = columns.tolist()  # [word]: the largest node that contains it
    is_settled = [True] + [False] * n_words  # [word]: whether a path from it to ROOT has been found
    for start in range(1, len(work)):
        path, place = [node_of[start]], {node_of[start]: 0}
        while not is_settled[start]:
            if first and len(words_of[path[-1]]) == n_words:
                assert ends_at is not None or n_words == 1
                row = rows[path[-1]]
                arcs[path[-1]] = (1 if ends_at is None else int(ends_at[row, 0]), 0)
                return arcs, part_of
            above = node_of[arcs[path[-1]][1]]
            if is_settled[words_of[above][0]]:
                for word in (word for node in path for word in words_of[node]):
                    is_settled[word] = True
                continue
            if above not in place:
                place[above] = len(path)
                path.append(above)
                continue
            if ends_at is None:
                ends_at = np.repeat(columns.astype(np.int32)[:, None], len(work), axis=1)
            cycle, row, node = path[place[above] :], rows[above], len(arcs)
            words = [word for part in cycle for word in words_of[part]]
            candidates = np.array([rows[part] for part in cycle])
            winner = candidates[(work[candidates] - best[candidates, None]).argmax(axis=0)]  # [head]
            work[row] = work[winner, columns] - best[winner]
            work[row, words] = -np.inf
            ends_at[row] = ends_at[winner, columns]
            head = int(work[row, first:].argmax()) + first
            best[row] = work[row, head]
            arcs.append((int(ends_at[row, head]), head))
            rows.append(row)
            part_of.append(0)
            words_of.append(words)
            for part in cycle:
                part_of[part] = node
            for word in words:
                node_of[word] = node
            for part in cycle:
                del place[part]
            del path[-len(cycle) :]
            place[node] = len(path)
            path.append(node)
    return arcs, part_of


def _expand(arcs: list[tuple[int, int]], part_of: list[int], n_words: int) -> Heads:
    """Return the heads of the words, from the largest node down; an arc also enters the inner nodes around its word."""
    heads = np.zeros(n_words + 1, np.int64)
    entered = [False] * len(arcs)
    for node in range(len(arcs) - 1, 0, -1):
        if not entered[node]:
            word, head = arcs[node]
            heads[word] = head
            while word != node:
                entered[word] = True
                word = part_of[word]
    return heads


def _project(arcs: ArcScores, root_arcs: ArcScores) -> Heads:
    """Return the heads, counted from 1, of the best projective tree over words counted from 0 (Eisner 1996).

    An open span has an arc between its first and last word. A closed span is a word at one end with all its descendants
    on that side. `first` in a name means that the span's first word is its head, `last` that its last word is. Tables
    are [first word, width], or [last word, width] if the name ends in `_at_last`, so all sums are over slices.
    """
    n = len(arcs)
    open_first, open_last_at_last, closed_first, closed_first_at_last, closed_last, closed_last_at_last = (
        np.zeros((n, n), arcs.dtype) for _ in range(6)
    )
    split_open, split_first, split_last = (np.zeros((n, n), np.int32) for _ in range(3))
    for width in range(1, n):
        firsts, lasts = slice(n - width), slice(width, n)
        shorter, longer = slice(width), slice(1, width + 1)

        halves = closed_first[firsts, shorter] + closed_last_at_last[lasts, shorter][:, ::-1]  # [first word, split]
        split_open[firsts, width] = halves.argmax(axis=1)
        open_first[firsts, width] = halves.max(axis=1) + arcs.diagonal(-width)
        open_last_at_last[lasts, width] = halves.max(axis=1) + arcs.diagonal(width)

        halves = open_first[firsts, longer] + closed_first_at_last[lasts, shorter][:, ::-1]
        split_first[firsts, width] = halves.argmax(axis=1) + 1
        closed_first[firsts, width] = closed_first_at_last[lasts, width] = halves.max(axis=1)

        halves = closed_last[firsts, shorter] + open_last_at_last[lasts, longer][:, ::-1]
        split_last[firsts, width] = halves.argmax(axis=1)
        closed_last[firsts, width] = closed_last_at_last[lasts, width] = halves.max(axis=1)

    root = int((closed_last[0] + closed_first_at_last[n - 1, ::-1] + root_arcs).argmax())
    heads = np.zeros(n, np.int64)
    spans = [(0, root, False, False), (root, n - 1, True, False)]  # first and last word, first is head, open
    while spans:
        first, last, first_is_head, is_open = spans.pop()
        width = last - first
        if width == 0:
            continue
        if is_open:
            dep, head = (last, first) if first_is_head else (first, last)
            heads[dep] = head + 1
            middle = first + int(split_open[first, width])
            spans += [(first, middle, True, False), (middle + 1, last, False, False)]
        elif first_is_head:
            middle = first + int(split_first[first, width])
            spans += [(first, middle, True, True), (middle, last, True, False)]
        else:
            middle = first + int(split_last[first, width])
            spans += [(first, middle, False, False), (middle, last, False, True)]
    return heads


class _Part(NamedTuple):
    """A set of trees: their first words have fixed heads, and the next word must not have certain heads.

    Parts are ordered by their first two fields: the largest sum first, and among equal sums the oldest part.
    """

    cost: float  # minus the sum of the best tree, or minus an upper bound on it
    number: int
    heads: Heads | None  # the best tree; None until it is known
    n_fixed: int  # the first `n_fixed` words have the heads of `like` …
    like: Heads
    without: tuple[int, ...]  # … and the next word has none of these


def best_trees(weights: Weights, search: Callable[[Weights], Heads]) -> Iterator[Heads]:
    """Yield all trees in descending order of their sum of weights; `search` finds the best tree for given weights.

    See docs/design.md, 'The k best trees'.
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
    """Return, for each word, the sum of the best arcs if it gets another head and the words before it keep theirs."""
    words = np.arange(1, len(within))
    best, chosen = within[1:].max(-1), within[words, heads[1:]]
    others = within[1:].copy()
    others[words - 1, heads[1:]] = -math.inf
    before, after = np.cumsum(chosen) - chosen, best.sum() - np.cumsum(best)
    bounds: list[float] = (before + others.max(-1) + after).tolist()
    return bounds


def _within(weights: Weights, part: _Part) -> Weights:
    """Return the weights with -inf for all arcs that the trees of a part cannot have."""
    within: Weights = weights.copy()
    np.fill_diagonal(within, -math.inf)
    rows = np.arange(1, part.n_fixed + 1)
    within[rows] = -math.inf
    within[rows, part.like[rows]] = weights[rows, part.like[rows]]
    if part.without:
        within[part.n_fixed + 1, list(part.without)] = -math.inf
    return within


def log_sum_of_trees(weights: Weights) -> float:
    """Return the logarithm of the sum of exp(sum of weights) over all trees with one root.

    By the matrix-tree theorem this is a determinant, computed here without subtraction. See docs/design.md, 'The k best
    trees'.
    """
    roots, arcs = weights[1:, 0].copy(), weights[1:, 1:].copy()  # [word], [dep, head]
    np.fill_diagonal(arcs, -math.inf)
    log_sum = 0.0
    while len(arcs) > 1:
        # Eliminate the word with the most weight on other words, so that a word that must be the root comes last.
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
