"""What training minimises: the cross-entropy of heads and of labels (Sec. 3.3)."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.network.batch import Graphs
from treefine.network.copies import sent
from treefine.network.flat import NO_HEAD
from treefine.network.vocabulary import UNSEEN
from treefine.parsing.refine import BatchStep


@dataclass(frozen=True)
class Gold:
    """What is right for a batch."""

    graphs: Graphs
    tags: Int[Tensor, "batch word column"] | None  # counted from 1; only where tags are learned

    def select(self, sentences: tuple[int, ...], n_words: int) -> Gold:
        """That of some sentences, cut to `n_words`."""
        if len(sentences) == len(self.graphs.heads):
            return self
        rows = sent(sentences, self.graphs.heads.device)
        tags = None if self.tags is None else self.tags[rows, :n_words]
        return Gold(self.graphs.select(rows, n_words), tags)


def step_loss(step: BatchStep, gold: Gold) -> Float[Tensor, ""]:
    """The loss of one step, summed over the words that still move: heads, labels of the right heads, and tags.

    Tags are learned at the first step alone, whose tags are the ones that count: later steps read them.
    """
    right = gold.select(step.sentences, step.batch.n_words)
    heads, labels = right.graphs.heads, right.graphs.labels
    loss = _summed(step.scores.arcs, heads, NO_HEAD) + _summed(step.scores.labels(heads), labels, UNSEEN)
    if right.tags is not None and step.t == 1:
        for column, scores in enumerate(step.scores.tags):
            loss = loss + _summed(scores, right.tags[..., column] - 1, UNSEEN)
    return loss


def _summed(scores: Float[Tensor, "batch word choice"], right: Int[Tensor, "batch word"], ignored: int) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), right.flatten(), ignore_index=ignored, reduction="sum")
