"""The loop: score, decode, and again with the new graph, until nothing changes (Eq. 1, Sec. 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from treefine.network.batch import Batch, Graphs
from treefine.network.biaffine import Scores

Tags = Int[Tensor, "batch word column"]
Score = Callable[[Batch, Graphs, Tags | None, int], Scores]  # the last argument, here and below, is t
Decode = Callable[[Scores, Batch, int], Graphs]


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
) -> Iterator[BatchStep]:
    """Yield G¹ … Gᵀ. A sentence that repeats its input leaves the batch, and later steps cost only what still moves.
    Without `stops` none leaves: that changes what is learned, but no parse, as the next step would repeat this one.

    `score` may change from step to step, as in training, where the caller updates the weights before it asks for the
    next one. With `predict_tags` the later steps read the first step's tags for words that have none in `tags`; as
    these are new to the second step, a sentence that has such words does not converge before it.
    """
    sentences, graphs = tuple(range(len(batch))), initial
    for t in range(1, max_steps + 1):
        scores = score(batch, graphs, tags, t)
        refined = decode(scores, batch, t)
        converged = refined.same_as(graphs)
        if predict_tags and t == 1:
            best = best_tags(scores, batch)
            is_new = best > 0 if tags is None else (best > 0) & (tags == 0)
            tags = best if tags is None else torch.where(is_new, best, tags)
            converged = converged & ~is_new.flatten(1).any(1)
        yield BatchStep(t, sentences, batch, scores, refined, tags, converged)
        moving = [row for row, is_done in enumerate(converged.tolist()) if not (is_done and stops)]
        if not moving:
            return
        graphs = refined
        if len(moving) < len(batch):
            rows = torch.tensor(moving, device=graphs.heads.device)
            batch = batch.select(moving)
            sentences = tuple(sentences[row] for row in moving)
            graphs = graphs.select(rows, batch.n_words)
            tags = tags if tags is None else tags[rows, : batch.n_words]


def best_tags(scores: Scores, batch: Batch) -> Tags:
    """The best tag of each word in each column, counted from 1; 0 for ROOT and padding."""
    is_word = batch.is_word.clone()
    is_word[:, 0] = False
    return torch.stack([(each.argmax(-1) + 1) * is_word for each in scores.tags], dim=-1)
