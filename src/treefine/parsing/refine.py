"""The refinement loop: score, decode, and repeat with the new graph until nothing changes (Eq. 1, Sec. 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.model.batch import AsyncCopy, Batch, Encoded, Graphs, to_device
from treefine.model.scorer import Scores, best_tag
from treefine.parsing.decode import LabelScores, WordMask, dependents

SentenceMask = Bool[Tensor, " batch"]
Stabilities = Float[Tensor, " batch"]  # the expected stability of each sentence
HeadScores = Float[Tensor, "batch word head"]
WordNumbers = Float[Tensor, "batch word"]
Tags = Int[Tensor, "batch word column"]
# The int, here and below, is t. `Encoded` are the vectors that the next step continues from.
Scorer = Callable[[Batch, Graphs, Tags | None, int], tuple[Scores, Encoded]]
Decode = Callable[[Scores, Batch, int], Graphs]
Stability = Callable[[Scores, Batch, WordMask], Stabilities]  # the mask: unchanged words


@dataclass(frozen=True)
class BatchStep:
    """One step of the sentences that have not stopped. Training computes its loss from `scores`, parsing its trees."""

    t: int
    sentences: tuple[int, ...]  # their numbers in the original batch
    batch: Batch
    scores: Scores
    graphs: Graphs  # Gᵗ
    tags: Tags | None  # those that the next step reads
    converged: SentenceMask  # sentences whose next step would repeat this one
    ended: SentenceMask  # sentences for which this is the last step
    layers: int  # of the encoder that this step ran


Correct = Callable[[BatchStep], tuple[Batch, Graphs]]


def refine(
    score: Scorer,
    batch: Batch,
    initial: Graphs,
    *,
    max_steps: int,
    decode: Decode,
    tags: Tags | None = None,
    predict_tags: bool = False,
    stops: bool = True,
    stability: Stability | None = None,
    stop_above: float = 1.0,
    correct: Correct | None = None,
    drafts: bool = False,
) -> Iterator[BatchStep]:
    """Yield G¹ … Gᵀ. A sentence that has ended (see `stopping`) leaves the batch, so later steps cost less.

    With `stops=False`, no sentence leaves before T, which only training needs: a parser would repeat converged graphs.
    `stability` returns the expected stability of each sentence; without it, a sentence ends only when it has converged.
    Decided arcs stay marked as such in every graph. `correct` may decide more of them after a step: it returns the
    batch and the graphs that the next step reads. A sentence with decided arcs ends only when it has converged, and not
    in a first step that `drafts` a graph without reading one.

    With `predict_tags`, later steps read the tags predicted in the first step for words that have none in `tags`.
    `score` may change from step to step: training updates the weights in between. See docs/design.md, 'The refinement
    loop and its stopping rule'.
    """
    sentences, graphs = tuple(range(len(batch))), initial
    for t in range(1, max_steps + 1):
        scores, encoded = score(batch, graphs, tags, t)
        refined = replace(decode(scores, batch, t), decided=graphs.decided)
        is_same = refined.same_words(graphs)
        has_new_tags = None
        if predict_tags and t == 1:
            best = best_tags(scores, batch)
            if tags is not None:  # they may have further columns, which are not predicted
                best = F.pad(best, (0, tags.shape[-1] - best.shape[-1]))
            is_new = best > 0 if tags is None else (best > 0) & (tags == 0)
            tags = best if tags is None else torch.where(is_new, best, tags)
            has_new_tags = is_new.flatten(1).any(1)
        expected = None if stability is None else stability(scores, batch, is_same)
        converged, leaves = stopping(is_same, has_new_tags, expected, stop_above=stop_above)
        if graphs.decided is not None:
            is_decided = (graphs.decided > 0).any(1)
            converged = converged & ~(is_decided & (drafts and t == 1))
            leaves = torch.where(is_decided, converged, leaves)
        arriving = AsyncCopy(leaves)  # read after the caller has queued more GPU work, such as an update
        ended, n_layers = (leaves & stops) | (t == max_steps), encoded.n_layers
        step = BatchStep(t, sentences, batch, scores, refined, tags, converged, ended, n_layers)
        yield step
        graphs = refined
        if correct is not None:
            batch, graphs = correct(step)
            arriving = AsyncCopy(leaves & graphs.same_words(refined).all(1))  # a corrected sentence continues
        batch = replace(batch, encoded=encoded)
        if not stops or t == max_steps:
            continue
        moving = [row for row, is_done in enumerate(arriving.read().tolist()) if not is_done]
        if not moving:
            return
        if len(moving) < len(batch):
            rows = to_device(moving, graphs.heads.device)
            batch = batch.select(moving)
            sentences = tuple(sentences[row] for row in moving)
            graphs = graphs.select(rows, batch.n_words)
            tags = tags if tags is None else tags[rows, : batch.n_words]


def with_drafts(
    score: Scorer, decode: Decode, batch: Batch, initial: Graphs, tags: Tags | None
) -> tuple[Batch, Graphs]:
    """Return the batch and its initial graphs, with a draft for each sentence that has none."""
    is_read = initial.are_read[:, None]
    if is_read.all():
        return batch, initial
    scores, encoded = score(batch, initial, tags, 0)
    draft = decode(scores, batch, 0)
    heads, labels = torch.where(is_read, initial.heads, draft.heads), torch.where(is_read, initial.labels, draft.labels)
    return replace(batch, encoded=encoded), Graphs(heads, labels, initial.decided)


def stopping(
    is_same: WordMask, has_new_tags: SentenceMask | None, stability: Stabilities | None, *, stop_above: float
) -> tuple[SentenceMask, SentenceMask]:
    """Return which sentences have converged, and which stop, apart from those that have reached T.

    A sentence has converged if each word repeats the head and label that the step read (`is_same`, true for ROOT and
    padding) and the next step reads no new tags. It also stops if its expected stability exceeds `stop_above`. The GPU
    engine uses this rule too.
    """
    converged = is_same.all(1)
    if has_new_tags is not None:
        converged = converged & ~has_new_tags
    return converged, converged if stability is None else converged | (stability > stop_above)


def expected_stability(arcs: HeadScores, labels: LabelScores, is_dependent: WordMask, is_same: WordMask) -> Stabilities:
    """Return the share of each sentence's words that a further step is expected to leave unchanged.

    A word counts with the probability of its best head and label, or as 1 if the step read the same head and label
    (`is_same`). `labels` are the label scores for the best heads. A NaN score makes the result NaN. See
    docs/design.md, 'The refinement loop and its stopping rule'.
    """
    best = (log_best(arcs) + log_best(labels)).exp()  # [batch, dep]
    return mean_of_words(torch.where(is_same, 1, best), is_dependent)


def log_best(scores: Float[Tensor, "*place choice"]) -> Float[Tensor, "*place"]:
    """Return the log-probability of each word's best choice; 0 if there is nothing to choose."""
    if not scores.shape[-1]:
        return scores.new_zeros(scores.shape[:-1])
    return scores.amax(-1) - scores.logsumexp(-1)


def mean_of_words(of_words: WordNumbers, is_dependent: WordMask) -> Stabilities:
    """Return the mean over each sentence's words, without ROOT and padding."""
    return torch.where(is_dependent, of_words, 0).sum(1) / is_dependent.sum(1).clamp(min=1)


def best_tags(scores: Scores, batch: Batch) -> Tags:
    """Return the best tag of each word in each column, counted from 1; 0 for ROOT and padding."""
    is_dependent = dependents(batch.is_word)
    return torch.stack([(best_tag(each) + 1) * is_dependent for each in scores.tags], dim=-1)
