"""Batch invariance: give a sentence the same tree whatever else is in its batch.

Rounding depends on the batch, so a sentence with a close decision is scored again on its own. See docs/design.md,
'Batch invariance'.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from treefine.model.batch import Batch, Graphs
from treefine.model.scorer import Scores
from treefine.parsing.decode import Decoder, dependents, labelled
from treefine.parsing.refine import Tags, expected_stability, log_best, mean_of_words, stopping

TOLERANCE = 1e-4  # the smallest safe lead of the best score, relative to the largest score
LONGEST_SEARCH = 100  # words; scoring a longer sentence again may be faster than the search


def stable_scores(
    score: Callable[[Batch, Graphs, Tags | None], Scores],
    decoder: Decoder,
    batch: Batch,
    graphs: Graphs,
    tags: Tags | None,
    *,
    needs_trees: bool,
    stop_above: float = 1.0,
) -> Scores:
    """Return the scores of a batch. Sentences with a close decision are scored again on their own.

    A sentence needs a tree if this step is its last, or if `needs_trees` is set. If it needs a tree and its best heads
    do not form one, its decision is close unless its best tree leads clearly.
    """
    scores = score(batch, graphs, tags)
    if len(batch) == 1:
        return scores
    labels = decoder.best_labels(scores)
    best = labelled(scores.best_heads, labels, batch.is_word)
    is_same = best.same_words(graphs)
    is_close, stability = close_calls(scores, labels, batch.is_word), None
    if stop_above < 1:
        given = scores.arcs, labels, dependents(batch.is_word), is_same
        stability = expected_stability(*given)
        is_close = is_close | ~((stability - stop_above).abs() > unsteadiness(*given, _least_lead))
    may_end = stopping(is_same, None, stability, stop_above=stop_above).stops_early
    lacks_tree = (may_end | needs_trees) & ~decoder.are_trees(best, batch.is_word)
    rows = []
    for row, (is_one, lacks_one) in enumerate(torch.stack([is_close, lacks_tree], dim=1).tolist()):
        if is_one or (lacks_one and not leads_clearly(scores.only(row, batch.lengths[row] + 1), decoder)):
            rows.append(row)
    rescored_rows = {}
    for row in rows:
        part = batch.select([row])
        index = torch.tensor([row], device=graphs.heads.device)
        part_tags = tags if tags is None else tags[index, : part.n_words]
        rescored_rows[row] = score(part, graphs.select(index, part.n_words), part_tags)
    return scores.with_rows(rescored_rows)


def close_calls(
    scores: Scores, labels: Float[Tensor, "batch word label"], is_word: Bool[Tensor, "batch word"]
) -> Bool[Tensor, " batch"]:
    """Return the sentences in which some head, label or tag does not lead by enough to win in every batch."""
    is_close = torch.stack([_is_close(each) for each in (scores.arcs, labels, *scores.tags)]).any(0)
    is_close = is_close & is_word
    is_close[:, 0] = False
    return is_close.any(1)


def leads_clearly(scores: Scores, decoder: Decoder) -> bool:
    """Return whether one sentence's best tree and all its labels lead by enough to win in every batch."""
    n_words = scores.arcs.shape[1] - 1
    if n_words > LONGEST_SEARCH or decoder.tree_over != "log-probabilities":
        return False  # a bound on scores does not bound sums of probabilities
    heads = torch.from_numpy(decoder.best_heads(scores.arcs[0]))[None].to(scores.arcs.device)
    if bool(_is_close(decoder.allowed_labels(scores, heads))[0, 1:].any()):
        return False
    return decoder.lead(scores.arcs[0]) > float(_least_lead(scores.arcs)[0, 1:].sum())


def _is_close(scores: Float[Tensor, "batch word choice"]) -> Bool[Tensor, "batch word"]:
    if scores.shape[-1] < 2:
        return torch.zeros(scores.shape[:-1], dtype=torch.bool, device=scores.device)
    best, second = scores.topk(2, dim=-1).values.unbind(-1)
    return ~(best - second > _least_lead(scores))  # written so that NaN counts as close


def _least_lead(scores: Float[Tensor, "batch word choice"]) -> Float[Tensor, "batch word"]:
    """Return the lead that each word's best choice needs."""
    return TOLERANCE * scores.masked_fill(scores.isinf(), 0).abs().amax(-1).clamp(min=1)


def unsteadiness(
    arcs: Float[Tensor, "batch dep head"],
    labels: Float[Tensor, "batch dep label"],
    is_dependent: Bool[Tensor, "batch dep"],
    is_same: Bool[Tensor, "batch dep"],
    noise: Callable[[Float[Tensor, "batch dep choice"]], Float[Tensor, "batch dep"]],
) -> Float[Tensor, " batch"]:
    """Return how much the expected stability can change if score differences within a word change by at most its noise.

    The probability p of a best choice changes by at most x eˣ (1 - p), where x is the noise. See docs/design.md, 'Batch
    invariance'.
    """
    moved = [noise(each) * noise(each).exp() * -log_best(each).expm1() for each in (arcs, labels)]
    return mean_of_words(torch.where(is_same, 0, moved[0] + moved[1]), is_dependent)
