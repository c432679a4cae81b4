"""Scores to the best tree with one root: among all trees (Chu-Liu/Edmonds), or among the projective ones (Eisner).

Written here in numpy because it is the only contender that is quick at every length and adds nothing to install; see
"Decoding" in docs/benchmarks.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[Any]  # [dep, head], both 0..n with ROOT at 0; row 0 and the diagonal are not read
Heads = NDArray[np.int64]  # [word]; heads[0] is 0
HUGE = 1e280  # larger scores could overflow when they are added up


def maximum_tree(scores: Scores) -> Heads:
    """The heads of the highest-scoring tree in which exactly one word hangs on ROOT.

    -inf, or NaN, marks an arc as impossible. Where no tree can do without such arcs, the one that comes back has the
    fewest of them and, of those, the highest score of its other arcs. Of equal trees it is always the same one.

    >>> maximum_tree(np.array([[0, 0, 0], [6, 0, 5], [8, 1, 0]]))  # both words would rather hang on ROOT
    array([0, 2, 0])
    """
    work = _comparable(scores)
    if len(work) == 1:
        return np.zeros(1, np.int64)
    np.fill_diagonal(work, -np.inf)
    # Mostly the best tree with any number of roots has one, and it is found sooner.
    heads = _expand(*_contract(work.copy(), first=0), n_words=len(work) - 1)
    if np.count_nonzero(heads[1:] == 0) > 1:
        heads = _expand(*_contract(work, first=1), n_words=len(work) - 1)
    return heads


def projective_tree(scores: Scores) -> Heads:
    """The heads of the highest-scoring projective tree with one root; all else is as in `maximum_tree`.

    >>> projective_tree(np.array([[0, 0, 0, 0], [0, 0, 5, 9], [9, 0, 0, 0], [0, 5, 9, 0]]))
    array([0, 2, 0, 2])
    """
    comparable = _comparable(scores)
    heads = np.zeros(len(comparable), np.int64)
    if len(heads) > 1:
        heads[1:] = _project(comparable[1:, 1:], comparable[1:, 0])
    return heads


def _comparable(scores: Scores) -> Scores:
    """A copy that can be added and compared, without infinities.

    With impossible arcs it is complex: numpy compares complex numbers by their real part, here minus the number of
    impossible arcs, and only then by their imaginary part, here the score.
    """
    copy = np.array(scores, dtype=np.float64)
    if copy.ndim != 2 or copy.shape[0] != copy.shape[1] or not len(copy):
        raise ValueError(f"scores must be a square of ROOT and words by ROOT and words, not of shape {copy.shape}")
    copy[0] = 0
    np.fill_diagonal(copy, 0)
    impossible = np.isnan(copy) | np.isneginf(copy)
    copy[impossible] = 0
    largest = np.abs(copy).max()
    if largest == np.inf:
        raise ValueError("a score is +inf: only finite scores and -inf can be added up")
    if largest > HUGE:
        copy *= 2.0**-64
    return copy * 1j - impossible if impossible.any() else copy


def _contract(work: Scores, *, first: int) -> tuple[list[tuple[int, int]], list[int]]:
    """The best arc (word, head) into each node, and the node that each became a part of.

    Nodes 1..n are the words. A path grows from node to best head; where it meets itself the cycle becomes a node with
    the next number, and an arc into that node counts as much as it gains over the arc that it would replace. It ends at
    ROOT, or at a path that did. With `first` 1 ROOT waits until all words are one node: this makes the root single,
    with no penalty added that would cost precision.
    A node has a row in `work`, which is overwritten; columns stay those of words, so that n words take O(n²) time.
    """
    columns, n_words = np.arange(len(work)), len(work) - 1
    best_head = work[:, first:].argmax(axis=1) + first
    best = work[columns, best_head]  # [row]
    ends_at: NDArray[np.int32] | None = None  # [row, head]: the word in the node; before the first cycle the row's own
    arcs = list(enumerate(best_head.tolist()))
    rows, part_of = columns.tolist(), [0] * len(work)  # [node]
    words_of = [[word] for word in rows]  # [node]
    node_of = columns.tolist()  # [word]: the largest node around it
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
    """The heads of the words, from the largest node down: its arc is also that of each smaller node around the word."""
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


def _project(arcs: Scores, root_arcs: Scores) -> Heads:
    """The heads, counted from 1, of the best projective tree over words counted from 0 (Eisner 1996).

    An open span has an arc between its first and last word. A closed one is a word at one end with all that hangs on it
    on that side. `first` in a name says that the span's first word is its head, `last` that its last word is; tables
    are [first word, width] or, if their name ends in `_at_last`, [last word, width], so that all sums are of slices.
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
