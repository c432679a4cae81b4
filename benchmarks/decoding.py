"""The best tree with one root, found by treefine and by the contenders that lost to it."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import files, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.rows import save_row, seconds
from treefine import Graph
from treefine.parsing.trees import maximum_tree, projective_tree

Decoder = Callable[[NDArray[np.float64]], NDArray[np.int64]]
LENGTHS = {10: 50, 25: 50, 60: 20, 200: 5, 2000: 1}  # words: matrices
LONGEST_FOR_NETWORKX = 25  # words; it takes a search for each root


def by_ufal(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """The tree of ufal.chu_liu_edmonds; ROOT's arcs are made so bad that one is all it takes."""
    from ufal.chu_liu_edmonds import chu_liu_edmonds

    work = scores.copy()
    work[0] = 0
    np.fill_diagonal(work, 0)
    work[1:, 0] -= len(work) * (work.max() - work.min()) + 1
    np.fill_diagonal(work, -np.inf)  # it finds the same tree with any diagonal, but takes far longer with a high one
    heads, _ = chu_liu_edmonds(work)
    return np.array([0, *heads[1:]])


def by_networkx(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """The best tree over the words alone, found for each root in turn."""
    import networkx

    words = range(1, len(scores))
    found = []
    for root in words:
        graph = networkx.DiGraph([(0, root, {"weight": scores[root, 0]})])
        arcs = ((head, word) for word in words for head in words if word not in (head, root))
        graph.add_weighted_edges_from((head, word, scores[word, head]) for head, word in arcs)
        tree = networkx.maximum_spanning_arborescence(graph)
        found.append((tree.size("weight"), root, {word: head for head, word in tree.edges}))
    return np.array([0, *(head for _, head in sorted(max(found)[2].items()))])


@cache
def compiled() -> Decoder:
    """`by_loops` as numba compiles it."""
    from numba import njit

    decoder: Decoder = njit(by_loops)
    return decoder


def by_loops(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """The steps of `maximum_tree`, element by element."""
    n = len(scores) - 1
    work = scores.copy()
    ends_at = np.empty((n + 1, n + 1), np.int32)
    for word in range(n + 1):
        ends_at[word] = word
    best_head, best_word = np.zeros(2 * n + 1, np.int64), np.zeros(2 * n + 1, np.int64)
    best, row_of, part_of = np.zeros(2 * n + 1), np.arange(2 * n + 1), np.zeros(2 * n + 1, np.int64)
    node_of, size, place = np.arange(n + 1), np.ones(2 * n + 1, np.int64), np.full(2 * n + 1, -1)
    path, length, last = np.zeros(2 * n + 1, np.int64), 1, n
    path[0], place[1], node = 1, 0, 1
    while True:
        row = row_of[node]
        if best_head[node] == 0:
            if size[node] == n:
                break
            best[node] = -np.inf
            for head in range(1, n + 1):
                if node_of[head] != node and work[row, head] > best[node]:
                    best[node], best_head[node] = work[row, head], head
            best_word[node] = ends_at[row, best_head[node]]
        above = node_of[best_head[node]]
        if place[above] < 0:
            place[above], path[length] = length, above
            length, node = length + 1, above
            continue
        last += 1
        row_of[last], size[last], start = row_of[above], 0, place[above]
        for step in range(start, length):
            part = path[step]
            part_of[part] = last
            size[last] += size[part]
            for head in range(n + 1):
                gain = work[row_of[part], head] - best[part]
                if step == start or gain > work[row_of[above], head]:
                    work[row_of[above], head] = gain
                    ends_at[row_of[above], head] = ends_at[row_of[part], head]
        for word in range(1, n + 1):
            if part_of[node_of[word]] == last:
                node_of[word] = last
        place[last], path[start], length, node = start, last, start + 1, last
    best_word[node] = ends_at[row_of[node], 0]
    heads, entered = np.zeros(n + 1, np.int64), np.zeros(2 * n + 1, np.bool_)
    for node in range(last, 0, -1):
        if not entered[node]:
            part = best_word[node]
            heads[part] = best_head[node]
            while part != node:
                entered[part] = True
                part = part_of[part]
    return heads


def measure_decoding(rounds: int = 7) -> None:
    """Random scores for several lengths, by decoders that must find trees of the same total; rounds are interleaved."""
    rng = np.random.default_rng(1)
    result: dict[str, Any] = {}
    result["numba, first call_seconds"] = round(seconds(lambda: compiled()(random_scores(rng, 5))), 2)
    for n_words, n_matrices in LENGTHS.items():
        decoders = {"treefine": maximum_tree, "numba": compiled(), "ufal": by_ufal}
        if n_words <= LONGEST_FOR_NETWORKX:
            decoders["networkx"] = by_networkx
        matrices = [random_scores(rng, n_words) for _ in range(n_matrices)]
        totals = [[total(scores, decode(scores)) for scores in matrices] for decode in decoders.values()]
        if not np.allclose(totals, totals[0], rtol=1e-9, atol=0):
            sys.exit("the decoders do not agree: no time is printed")
        times: dict[str, list[float]] = {name: [] for name in decoders}
        for _ in range(rounds if n_words < 1000 else 1):
            for name, decode in decoders.items():
                few = matrices[:2] if name == "networkx" else matrices
                elapsed = seconds(lambda decode=decode, few=few: [decode(scores) for scores in few])
                times[name].append(elapsed / len(few))
        for name, each in times.items():
            result[f"{name}, {n_words}_microseconds"] = round(1e6 * statistics.median(each), 1)
            if name != "treefine":
                ratios = (a / b for a, b in zip(each, times["treefine"], strict=True))
                result[f"{name}/treefine, {n_words}"] = round(statistics.median(ratios), 3)
        few = matrices[:3]
        elapsed = seconds(lambda few=few: [projective_tree(scores) for scores in few])
        result[f"projective, {n_words}_microseconds"] = round(1e6 * elapsed / len(few), 1)
    sentences = [random_scores(rng, n_words) for n_words in rng.integers(12, 26, size=2000)]
    result["treefine, 2000 sentences_seconds"] = round(seconds(lambda: [maximum_tree(each) for each in sentences]), 2)
    result["numba, installed_megabytes"] = round(sum(map(installed_bytes, ("numba", "llvmlite"))) / 1e6)
    config: dict[str, Any] = {"lengths": list(LENGTHS), "matrices": list(LENGTHS.values()), "rounds": rounds, "seed": 1}
    config |= {name: version(name) for name in ("numpy", "numba", "ufal.chu_liu_edmonds", "networkx")}
    save_row("decoding", config, result)


def installed_bytes(package: str) -> int:
    """What the files of a package take on disk."""
    paths = (each.locate() for each in files(package) or ())
    return sum(Path(str(path)).stat().st_size for path in paths if Path(str(path)).is_file())


def random_scores(rng: np.random.Generator, n_words: int) -> NDArray[np.float64]:
    """Normal numbers, each row as log-probabilities: what a network says before it is trained."""
    logits = rng.normal(size=(n_words + 1, n_words + 1))
    scores: NDArray[np.float64] = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return scores


def total(scores: NDArray[np.float64], heads: NDArray[np.int64]) -> float:
    """The score of a tree; NaN, which equals nothing, for what has several roots or a cycle."""
    if not Graph.of_words(heads[1:].tolist(), ["_"] * (len(heads) - 1)).is_tree:
        return np.nan
    return float(scores[np.arange(1, len(heads)), heads[1:]].sum())
