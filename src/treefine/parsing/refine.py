"""The loop: score, decode, and again with the new graph, until nothing changes (Eq. 1, Sec. 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from treefine.model.batch import Arriving, Batch, Graphs, sent
from treefine.model.scorer import Scores

Tags = Int[Tensor, "batch word column"]
Score = Callable[[Batch, Graphs, Tags | None, int], Scores]  # the last argument, here and below, is t
Decode = Callable[[Scores, Batch, int], Graphs]
IsSure = Callable[[Scores, Batch, Bool[Tensor, "batch word"]], Bool[Tensor, " batch"]]  # given the words that repeat


@dataclass(frozen=True)
class BatchStep:
    """One step of all the sentences that still moved. Training takes its loss from `scores`, parsing its trees."""

    t: int
    sentences: tuple[int, ...]  # which of the batch these are
    batch: Batch
    scores: Scores
    graphs: Graphs  # Gᵗ
    tags: Tags | None  # what the next step reads
    converged: Bool[Tensor, " batch"]  # sentences whose next step would repeat this one
    ended: Bool[Tensor, " batch"]  # sentences whose last step this is: they converged, are sure enough, or t is T


def refine(
    score: Score,
    batch: Batch,
    initial: Graphs,
    *,
    max_steps: int,
    decode: Decode,
    tags: Tags | None = None,
    predict_tags: bool = False,
    stops: bool = True,
    is_sure: IsSure | None = None,
) -> Iterator[BatchStep]:
    """Yield G¹ … Gᵀ. A sentence that repeats its input leaves the batch, and later steps cost only what still moves.
    Without `stops` none leaves: that changes what is learned, but no parse, as the next step would repeat this one.
    With `is_sure` a sentence leaves as well where that says so; what a further step would have changed stays.

    `score` may change from step to step, as in training, where the caller updates the weights before it asks for the
    next one. With `predict_tags` the later steps read the first step's tags for words that have none in `tags`; as
    these are new to the second step, a sentence that has such words does not converge before it.
    """
    sentences, graphs = tuple(range(len(batch))), initial
    for t in range(1, max_steps + 1):
        scores = score(batch, graphs, tags, t)
        refined = decode(scores, batch, t)
        is_same = refined.same_words(graphs)
        converged = is_same.all(1)
        if predict_tags and t == 1:
            best = best_tags(scores, batch)
            is_new = best > 0 if tags is None else (best > 0) & (tags == 0)
            tags = best if tags is None else torch.where(is_new, best, tags)
            converged = converged & ~is_new.flatten(1).any(1)
        leaves = converged if is_sure is None else converged | is_sure(scores, batch, is_same)
        arriving = Arriving(leaves)  # read after the caller has given a GPU more to do, such as an update
        yield BatchStep(t, sentences, batch, scores, refined, tags, converged, (leaves & stops) | (t == max_steps))
        graphs = refined
        if not stops or t == max_steps:
            continue
        moving = [row for row, is_done in enumerate(arriving.read().tolist()) if not is_done]
        if not moving:
            return
        if len(moving) < len(batch):
            rows = sent(moving, graphs.heads.device)
            batch = batch.select(moving)
            sentences = tuple(sentences[row] for row in moving)
            graphs = graphs.select(rows, batch.n_words)
            tags = tags if tags is None else tags[rows, : batch.n_words]


def best_tags(scores: Scores, batch: Batch) -> Tags:
    """The best tag of each word in each column, counted from 1; 0 for ROOT and padding."""
    is_word = batch.is_word.clone()
    is_word[:, 0] = False
    return torch.stack([(each.argmax(-1) + 1) * is_word for each in scores.tags], dim=-1)
