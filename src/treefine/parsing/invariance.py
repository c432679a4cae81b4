"""Batch invariance: give a sentence the same tree whatever else is in its batch.

Padding changes no score in exact arithmetic: masked keys have weight zero, and no operation mixes sentences. In
floating point the order of a sum depends on the tensor shapes, so scores differ by some ε between batches. ε grows with
the scores (in fp32 it is a few millionths of the largest, as the tests measure). If the two best candidates of a
decision differ by more than 2 ε, the decision is the same in every batch. Otherwise it is close, and the sentence is
scored again alone. Alone its tensors always have the same shape, so its scores are always the same. By induction over
the steps, each graph depends only on the sentence, if 2 ε is less than TOLERANCE times the word's largest score.

If a sentence's best heads do not form a tree, a search finds its tree. Trees are compared by the sum of their arc
scores, so the best tree is the same in every batch if it leads by more than the sum of its words' score differences.

Whether a sentence takes another step depends on its sureness, a mean of probabilities. `unsteadiness` bounds how much
it can differ between batches. A sentence whose sureness is closer than that to the limit is also scored alone.

A sentence cut into windows is always alone. (Only when memory runs out are its windows encoded in other groups.)
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from treefine.model.batch import Batch, Graphs
from treefine.model.scorer import Scores
from treefine.parsing.decode import Decoder, dependents, labelled
from treefine.parsing.refine import Tags, log_best, mean_of_words, stopping, sureness

TOLERANCE = 1e-4  # the smallest safe difference of the two best scores, relative to the largest one
LONGEST_SEARCH = 100  # words; for a longer sentence, scoring it again may be faster than the search


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
    """Return the scores of a batch, in which sentences with a close decision are scored alone.

    A sentence needs a tree with `needs_trees`, or if this step is its last. If it needs a tree and its best heads do
    not form one, it counts as close unless its tree leads clearly.
    """
    scores = score(batch, graphs, tags)
    if len(batch) == 1:
        return scores
    labels = decoder.best_labels(scores)
    best = labelled(scores.best_heads, labels, batch.is_word)
    is_same = best.same_words(graphs)
    is_close, sure = close_calls(scores, labels, batch.is_word), None
    if stop_above < 1:
        given = scores.arcs, labels, dependents(batch.is_word), is_same
        sure = sureness(*given)
        is_close = is_close | ~((sure - stop_above).abs() > unsteadiness(*given, _least_lead))
    may_end = stopping(is_same, None, sure, stop_above=stop_above).ended
    lacks_tree = (may_end | needs_trees) & ~decoder.are_trees(best, batch.is_word)
    rows = []
    for row, (is_one, lacks_one) in enumerate(torch.stack([is_close, lacks_tree], dim=1).tolist()):
        if is_one or (lacks_one and not leads_clearly(scores.only(row, batch.lengths[row] + 1), decoder)):
            rows.append(row)
    alone = {}
    for row in rows:
        part = batch.select([row])
        index = torch.tensor([row], device=graphs.heads.device)
        part_tags = tags if tags is None else tags[index, : part.n_words]
        alone[row] = score(part, graphs.select(index, part.n_words), part_tags)
    return scores.with_rows(alone)


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
        return False  # differences of scores do not bound those of sums of probabilities
    heads = torch.from_numpy(decoder.best_heads(scores.arcs[0]))[None].to(scores.arcs.device)
    if bool(_is_close(decoder.allowed_labels(scores, heads))[0, 1:].any()):
        return False
    return decoder.lead(scores.arcs[0]) > float(_least_lead(scores.arcs)[0, 1:].sum())


def _is_close(scores: Float[Tensor, "batch word choice"]) -> Bool[Tensor, "batch word"]:
    if scores.shape[-1] == 1:
        return torch.zeros(scores.shape[:-1], dtype=torch.bool, device=scores.device)
    best, second = scores.topk(2, dim=-1).values.unbind(-1)
    return ~(best - second > _least_lead(scores))  # written so that NaN counts as close


def _least_lead(scores: Float[Tensor, "batch word choice"]) -> Float[Tensor, "batch word"]:
    """Return by how much each word's best choice has to lead."""
    return TOLERANCE * scores.masked_fill(scores.isinf(), 0).abs().amax(-1).clamp(min=1)


def unsteadiness(
    arcs: Float[Tensor, "batch dep head"],
    labels: Float[Tensor, "batch dep label"],
    is_dependent: Bool[Tensor, "batch dep"],
    is_same: Bool[Tensor, "batch dep"],
    noise: Callable[[Float[Tensor, "batch dep choice"]], Float[Tensor, "batch dep"]],
) -> Float[Tensor, " batch"]:
    """Return by how much the sureness can differ if the difference of any two scores of a word can differ by its noise.

    The log odds of the best choice then differ by at most the noise x, and its probability p by at most x eˣ (1 - p).
    """
    moved = [noise(each) * noise(each).exp() * -log_best(each).expm1() for each in (arcs, labels)]
    return mean_of_words(torch.where(is_same, 0, moved[0] + moved[1]), is_dependent)
