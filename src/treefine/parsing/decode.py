"""Turn scores into graphs: argmax between steps, the best tree at the end (Sec. 3.2.2), and the k best trees.

The best tree is found by Chu-Liu/Edmonds, or by Eisner's algorithm for projective trees.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from treefine.model.batch import Graphs
from treefine.model.parser_model import ParserModel
from treefine.model.scorer import Scores
from treefine.model.vocabulary import NO_HEAD, UNSEEN
from treefine.treebank.graph import ROOT, non_projective_words

ArcScores = NDArray[Any]  # [dep, head], both 0..n with ROOT at 0; row 0 and the diagonal are not read
Weights = NDArray[np.float64]  # [dep, head]; -inf for an impossible arc
Heads = NDArray[np.int64]  # [word]; heads[0] is 0
WordMask = Bool[Tensor, "batch word"]
WordHeads = Int[Tensor, "batch word"]
LabelScores = Float[Tensor, "batch word label"]  # for one head of each word


@dataclass(frozen=True)
class Decoder:
    """The rules by which a model's scores become graphs and trees."""

    root_label: int | None = None  # a word has it if and only if its head is ROOT; None if there is no such rule
    tree_over: Literal["log-probabilities", "probabilities"] = "log-probabilities"
    is_projective: bool = False

    @classmethod
    def of(cls, model: ParserModel, *, is_projective: bool = False) -> Decoder:
        """Return the decoder for a model's settings."""
        settings = model.settings.decode
        root_label = model.vocabulary.label_id(settings.root_label) if settings.root_rule == "exact" else None
        return cls(root_label, settings.tree_over, is_projective)

    def graphs(self, scores: Scores, is_word: WordMask, *, as_trees: Collection[int] = ()) -> Graphs:
        """Return the best head of each word with its best label; the graphs may have cycles and several roots.

        The sentences in `as_trees` get their highest-scoring trees instead.
        """
        graphs = labelled(scores.best_heads, self.obeying(scores.best_labels, scores.best_heads), is_word)
        return self.trees(scores, graphs, is_word, rows=as_trees)

    def allowed_labels(self, scores: Scores, heads: WordHeads) -> LabelScores:
        """Return the label scores for these heads, with -inf for labels that the root label rule forbids."""
        return self.obeying(scores.labels(heads), heads)

    def labels_of(self, scores: Scores, graphs: Graphs) -> LabelScores:
        """Return `allowed_labels` for the heads of graphs; faster if most sentences have their best heads."""
        heads = graphs.heads.clamp(min=0)
        differs = ((heads != scores.best_heads) & (graphs.heads >= 0)).any(1).tolist()
        rows = [row for row, is_one in enumerate(differs) if is_one]
        if 2 * len(rows) > len(differs):
            return self.allowed_labels(scores, heads)
        labels = self.obeying(scores.best_labels, scores.best_heads).clone()
        for row in rows:
            part = scores.only(row)
            n_words = part.arcs.shape[1]
            labels[row, :n_words] = self.allowed_labels(part, heads[row : row + 1, :n_words])[0]
        return labels

    def obeying(
        self, labels: Float[Tensor, "*arcs label"], heads: Int[Tensor, "*arcs"]
    ) -> Float[Tensor, "*arcs label"]:
        """Return the label scores, with -inf for labels that the root label rule forbids with these heads."""
        if self.root_label is None or labels.shape[-1] == 1:
            return labels
        is_root_label = torch.arange(labels.shape[-1], device=labels.device) == self.root_label
        return labels.masked_fill(is_root_label != (heads == ROOT)[..., None], -math.inf)

    def trees(
        self, scores: Scores, graphs: Graphs, is_word: WordMask, *, rows: Collection[int] | None = None
    ) -> Graphs:
        """Return the highest-scoring tree with one root for each sentence (or those in `rows`).

        A graph that is already a tree is returned as it is.
        """
        if rows is not None and not rows:
            return graphs
        is_tree = self.are_trees(graphs, is_word).tolist()
        wrong = [row for row, is_one in enumerate(is_tree) if not is_one and (rows is None or row in rows)]
        if not wrong:
            return graphs
        heads, labels = graphs.heads.clone(), graphs.labels.clone()
        for row in wrong:
            part = scores.only(row)
            n_words = part.arcs.shape[1]
            best = torch.from_numpy(self.best_heads(part.arcs[0]))[None].to(heads.device)
            tree = labelled(best, self.allowed_labels(part, best), is_word[row : row + 1, :n_words])
            heads[row, :n_words], labels[row, :n_words] = tree.heads[0], tree.labels[0]
        return Graphs(heads, labels)

    def best_heads(self, arcs: Float[Tensor, "dep head"]) -> Heads:
        """Return the heads of the highest-scoring tree of one sentence, from its arc scores."""
        return self.search(self.weights(arcs))

    def weights(self, arcs: Float[Tensor, "dep head"]) -> Weights:
        """Return the arc weights. The best tree has the largest sum of them; an impossible arc has -inf."""
        scores: Weights = arcs.cpu().double().numpy()  # numpy is faster than torch for so few numbers
        with np.errstate(invalid="ignore"):  # a word may have no possible head
            scores = scores - scores.max(axis=-1, keepdims=True)
            weights: Weights = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
        if self.tree_over == "probabilities":
            return np.where(np.isneginf(weights), -math.inf, np.exp(weights))
        return weights

    def search(self, weights: Weights) -> Heads:
        """Return the heads of the tree with the largest sum of weights."""
        return projective_tree(weights) if self.is_projective else maximum_tree(weights)

    def are_trees(self, graphs: Graphs, is_word: WordMask) -> Bool[Tensor, " batch"]:
        """Return whether each sentence's graph is a tree with one root, and projective if it must be."""
        is_tree = are_trees(graphs.heads, is_word)
        if not self.is_projective:
            return is_tree
        lengths = is_word.sum(1).tolist()
        crosses = [
            non_projective_words([ROOT, *heads[1:n_words]])
            for heads, n_words in zip(graphs.heads.tolist(), lengths, strict=True)
        ]
        return is_tree & ~torch.tensor([bool(words) for words in crosses], device=is_tree.device)


def labelled(heads: WordHeads, labels: LabelScores, is_word: WordMask) -> Graphs:
    """Return the graphs with these heads and the highest-scoring label for each."""
    is_dependent = dependents(is_word)
    labels = labels.argmax(-1)
    return Graphs(torch.where(is_dependent, heads, NO_HEAD), torch.where(is_dependent, labels, UNSEEN))


def made_trees(model: ParserModel, initial: Graphs) -> list[int]:
    """Return the sentences whose first graph must be a tree: those without an initial graph, if the settings say so."""
    if model.settings.decode.first_graph == "argmax":
        return []
    rows: list[int] = (initial.heads < 0).all(1).nonzero()[:, 0].tolist()
    return rows


def are_trees(heads: WordHeads, is_word: WordMask) -> Bool[Tensor, " batch"]:
    """Return whether each sentence's heads form a tree with one root.

    In a tree every word reaches ROOT. Each pass doubles the length of the paths that are followed.
    """
    is_dependent = dependents(is_word)
    above = torch.where(is_dependent, heads, ROOT)
    has_one_root = ((above == ROOT) & is_dependent).sum(1) == 1
    for _ in range(max(1, heads.shape[1] - 1).bit_length()):
        above = above.gather(1, above)
    return has_one_root & (above == ROOT).all(1)


def dependents(is_word: WordMask) -> WordMask:
    """Return the mask of words without ROOT and padding."""
    is_dependent = is_word.clone()
    is_dependent[:, ROOT] = False
    return is_dependent


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
    heads = _expand(*_contract(work), n_words=len(work) - 1)
    if np.count_nonzero(heads[1:] == 0) > 1:  # now an arc from ROOT counts as many impossible arcs
        work = work if np.iscomplexobj(work) else work * 1j
        work[:, 0] -= 2 * len(work)
        heads = _expand(*_contract(work), n_words=len(work) - 1)
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
    if np.isposinf(copy).any():
        raise ValueError("a score is +inf; scores must be finite or -inf")
    return copy * 1j - impossible if impossible.any() else copy


def _contract(scores: ArcScores) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the best arc (word, head) into each node, and the node that each node was contracted into.

    Nodes 1..n are the words. Each node has a row in `work`. See docs/design.md, 'Decoding'.
    """
    work, columns = scores.copy(), np.arange(len(scores))
    np.fill_diagonal(work, -np.inf)
    best_head = work.argmax(axis=1)
    best = work[columns, best_head]  # [row]
    ends_at: NDArray[np.int32] | None = None  # [row, head]: the word that the arc enters; None before a cycle
    arcs = list(enumerate(best_head.tolist()))
    rows, part_of = columns.tolist(), [0] * len(work)  # [node]
    words_of = [[word] for word in rows]  # [node]
    node_of = columns.tolist()  # [word]: the largest node that contains it
    is_settled = [True] + [False] * (len(work) - 1)  # [word]: whether a path from it to ROOT has been found
    for start in range(1, len(work)):
        path, place = [node_of[start]], {node_of[start]: 0}
        while not is_settled[start]:
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
            head = int(work[row].argmax())
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
