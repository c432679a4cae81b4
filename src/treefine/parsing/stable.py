"""The same tree whatever else is in the batch.

Padding changes no score in exact arithmetic: masked keys have weight zero, and no operation mixes sentences. In
floating point the order of a sum depends on the shape of the tensors, so scores differ by some ε between batches; it
grows with the scores (in fp32 some millionths of the largest, as the tests measure). A decision whose two best
candidates are farther apart than 2 ε falls the same way in every batch. For any other one, the sentence is scored again
alone; alone its tensors have one shape, so its scores are always the same. By induction over the steps, each graph is a
function of the sentence alone, as long as 2 ε is less than TOLERANCE times the largest score of the word in question.
A sentence cut into windows is always alone. (Only when memory runs out are its windows encoded in other groups.)
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from treefine.network.batch import Batch, Graphs
from treefine.network.biaffine import Scores
from treefine.parsing.decode import Decoder
from treefine.parsing.refine import Tags

TOLERANCE = 3e-4  # between the best and the second best score, for each unit of the largest one


def stable_scores(
    score: Callable[[Batch, Graphs, Tags | None], Scores],
    decoder: Decoder,
    batch: Batch,
    graphs: Graphs,
    tags: Tags | None,
    *,
    needs_trees: bool,
) -> Scores:
    """The scores of a batch, those of close decisions from scoring their sentences alone.

    Where a sentence is to have a tree and its best heads are none, it counts as close: its tree is a choice among many.
    """
    scores = score(batch, graphs, tags)
    if len(batch) == 1:
        return scores
    best = decoder.graphs(scores, batch.is_word)
    is_close = close_calls(scores, best, decoder, batch.is_word)
    same = best.same_as(graphs)
    rows = [row for row, is_one in enumerate(is_close.tolist()) if is_one]
    for row in decoder.not_trees(best, batch.is_word):
        if (needs_trees or bool(same[row])) and row not in rows:
            rows.append(row)
    alone = {}
    for row in rows:
        part = batch.select([row])
        index = torch.tensor([row], device=graphs.heads.device)
        part_tags = tags if tags is None else tags[index, : part.n_words]
        alone[row] = score(part, graphs.select(index, part.n_words), part_tags)
    return scores.with_rows(alone)


def close_calls(
    scores: Scores, graphs: Graphs, decoder: Decoder, is_word: Bool[Tensor, "batch word"]
) -> Bool[Tensor, " batch"]:
    """The sentences in which a head, a label or a tag wins by too little to win in every batch."""
    labels = decoder.allowed_labels(scores, graphs.heads)
    is_close = torch.stack([_is_close(each) for each in (scores.arcs, labels, *scores.tags)]).any(0)
    is_close = is_close & is_word
    is_close[:, 0] = False
    return is_close.any(1)


def _is_close(scores: Float[Tensor, "batch word choice"]) -> Bool[Tensor, "batch word"]:
    if scores.shape[-1] == 1:
        return torch.zeros(scores.shape[:-1], dtype=torch.bool, device=scores.device)
    best, second = scores.topk(2, dim=-1).values.unbind(-1)
    largest = scores.masked_fill(scores.isinf(), 0).abs().amax(-1)
    return ~(best - second > TOLERANCE * largest.clamp(min=1))  # so written, what is not a number is close
