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
