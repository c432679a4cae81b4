"""How sure a step is of what it changed: a sentence that is sure enough does without another step.

What a further step can do is to change words, and it costs as much as the sentence is long. So it is worth its while
where many of the words are in doubt, not where one is: that is the mean over words, not the least or the product.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def sureness(
    arcs: Float[Tensor, "batch dep head"],
    labels: Float[Tensor, "batch dep label"],
    is_dependent: Bool[Tensor, "batch dep"],
    is_same: Bool[Tensor, "batch dep"],
) -> Float[Tensor, " batch"]:
    """The share of each sentence's words that a further step is expected to leave as they are.

    A word counts with the probability of its best head and the best label for it, or as 1 if these are what the step
    read (`is_same`). `labels` are scored for the best heads. A score that is not a number leaves the sentence unsure.
    """
    best = (log_best(arcs) + log_best(labels)).exp()  # [batch, dep]
    return _mean(torch.where(is_same, 1, best), is_dependent)


def unsteadiness(
    arcs: Float[Tensor, "batch dep head"],
    labels: Float[Tensor, "batch dep label"],
    is_dependent: Bool[Tensor, "batch dep"],
    is_same: Bool[Tensor, "batch dep"],
    noise: Callable[[Float[Tensor, "batch dep choice"]], Float[Tensor, "batch dep"]],
) -> Float[Tensor, " batch"]:
    """By how much the sureness may differ, if the difference of any two scores of a word may by its noise.

    The log odds of the best choice then differ by the noise x at most, and its probability p by x eˣ (1 - p).
    """
    moved = [noise(each) * noise(each).exp() * -log_best(each).expm1() for each in (arcs, labels)]
    return _mean(torch.where(is_same, 0, moved[0] + moved[1]), is_dependent)


def log_best(scores: Float[Tensor, "batch dep choice"]) -> Float[Tensor, "batch dep"]:
    """The logarithm of the probability of each word's best choice."""
    return scores.amax(-1) - scores.logsumexp(-1)


def _mean(of_words: Float[Tensor, "batch dep"], is_dependent: Bool[Tensor, "batch dep"]) -> Float[Tensor, " batch"]:
    return torch.where(is_dependent, of_words, 0).sum(1) / is_dependent.sum(1).clamp(min=1)
