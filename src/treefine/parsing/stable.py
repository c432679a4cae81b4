"""The same tree whatever else is in the batch.

Padding changes no score in exact arithmetic: masked keys have weight zero, and no operation mixes sentences. In
floating point the order of a sum depends on the shape of the tensors, so scores differ by some ε between batches; it
grows with the scores (in fp32 some millionths of the largest, as the tests measure). A decision whose two best
candidates are farther apart than 2 ε falls the same way in every batch. For any other one, the sentence is scored again
alone; alone its tensors have one shape, so its scores are always the same. By induction over the steps, each graph is a
function of the sentence alone, as long as 2 ε is less than TOLERANCE times the largest score of the word in question.
Where a sentence's best heads are no tree, its tree is found by search. Trees are compared by the sum of their arcs, so
the best one is the same in every batch if it leads by more than the sum of what its words' scores may differ by.
A sentence cut into windows is always alone. (Only when memory runs out are its windows encoded in other groups.)
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from treefine.network.batch import Batch, Graphs
from treefine.network.biaffine import Scores
from treefine.parsing.decode import Decoder, labelled
from treefine.parsing.refine import Tags

TOLERANCE = 3e-4  # between the best and the second best score, for each unit of the largest one
LONGEST_SEARCH = 40  # words; in a longer sentence the search for its second best tree takes longer than to score it


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

    Where a sentence is to have a tree and its best heads are none, it is close unless its tree leads clearly.
    """
    scores = score(batch, graphs, tags)
    if len(batch) == 1:
        return scores
    heads = scores.arcs.argmax(-1)
    labels = decoder.allowed_labels(scores, heads)
    best = labelled(heads, labels, batch.is_word)
    is_close = close_calls(scores, labels, batch.is_word)
    same = best.same_as(graphs)
    rows = [row for row, is_one in enumerate(is_close.tolist()) if is_one]
    for row in decoder.not_trees(best, batch.is_word):
        is_asked_for = (needs_trees or bool(same[row])) and row not in rows
        if is_asked_for and not leads_clearly(scores.only(row, batch.lengths[row] + 1), decoder):
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
    """The sentences in which a head, a label for it or a tag wins by too little to win in every batch."""
    is_close = torch.stack([_is_close(each) for each in (scores.arcs, labels, *scores.tags)]).any(0)
    is_close = is_close & is_word
    is_close[:, 0] = False
    return is_close.any(1)


def leads_clearly(scores: Scores, decoder: Decoder) -> bool:
    """Whether one sentence's best tree, and each of its labels, win by enough to win in every batch."""
    n_words = scores.arcs.shape[1] - 1
    if n_words > LONGEST_SEARCH or decoder.tree_over != "log-probabilities":
        return False  # probabilities do not change evenly with the scores, so that no sum bounds their difference
    heads = torch.from_numpy(decoder.best_heads(scores.arcs[0]))[None].to(scores.arcs.device)
    if bool(_is_close(decoder.allowed_labels(scores, heads))[0, 1:].any()):
        return False
    return decoder.lead(scores.arcs[0]) > float(_least_lead(scores.arcs)[0, 1:].sum())


def _is_close(scores: Float[Tensor, "batch word choice"]) -> Bool[Tensor, "batch word"]:
    if scores.shape[-1] == 1:
        return torch.zeros(scores.shape[:-1], dtype=torch.bool, device=scores.device)
    best, second = scores.topk(2, dim=-1).values.unbind(-1)
    return ~(best - second > _least_lead(scores))  # so written, what is not a number is close


def _least_lead(scores: Float[Tensor, "batch word choice"]) -> Float[Tensor, "batch word"]:
    """By how much a word's best choice has to win."""
    return TOLERANCE * scores.masked_fill(scores.isinf(), 0).abs().amax(-1).clamp(min=1)
