"""Other ways to find the best tree of a score matrix, and random matrices to compare them on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def random_scores(rng: np.random.Generator, n_words: int) -> NDArray[np.float64]:
    """Return log-probabilities from normal numbers, as an untrained network gives them."""
    logits = rng.normal(size=(n_words + 1, n_words + 1))
    scores: NDArray[np.float64] = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return scores


def by_ufal(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the tree of ufal.chu_liu_edmonds; arcs from ROOT get a penalty, so that it uses only one."""
    from ufal.chu_liu_edmonds import chu_liu_edmonds

    work = scores.copy()
    work[0] = 0
    np.fill_diagonal(work, 0)
    work[1:, 0] -= len(work) * (work.max() - work.min()) + 1
    np.fill_diagonal(work, -np.inf)  # the diagonal does not change the tree, but a high one takes far longer
    heads, _ = chu_liu_edmonds(work)
    return np.array([0, *heads[1:]])


def by_networkx(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the best tree, searched for each root in turn."""
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
