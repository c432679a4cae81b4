"""The scorer: four MLPs, a biaffine form for arcs, one for labels (Eq. 6, Sec. 3.2.1), and a tagger."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from treefine.config import ScorerSettings
from treefine.model.batch import Allowed, Evidence

WORDS_AT_ONCE = 64  # per matrix product on a CPU, see `label_scores`


@dataclass(frozen=True)
class Scores:
    """The scores of one batch: one per arc. Label scores are computed on request, for given heads."""

    arcs: Float[Tensor, "batch dep head"]  # -inf for a head that is padding, and for the word itself
    label_dep: Float[Tensor, "batch dep width"]
    label_head: Float[Tensor, "batch head width"]
    label_weight: Float[Tensor, "label width width"]
    tags: tuple[Float[Tensor, "batch word _"], ...] = ()  # one score per tag, one tensor per column
    rescored_rows: Mapping[int, Scores] = field(default_factory=dict)  # scored on their own (`parsing.refine`)
    allowed: Bool[Tensor, "batch dep label"] | None = None  # a mask of labels; None allows all
    evidence: Evidence | None = None  # other parsers' labels, which add to the label scores
    words: Int[Tensor, " place"] | None = None  # flat indices of the words, if label scores skip padding

    @cached_property
    def best_heads(self) -> Int[Tensor, "batch dep"]:
        """The highest-scoring head of each word, regardless of the other words."""
        return self.arcs.argmax(-1)

    @cached_property
    def best_labels(self) -> Float[Tensor, "batch dep label"]:
        """The score of each label for the best heads, computed once because several callers need it."""
        return self.labels(self.best_heads)

    def labels(self, heads: Int[Tensor, "batch dep"]) -> Float[Tensor, "batch dep label"]:
        """Return the score of each label, given these heads. The rows of ROOT and padding are meaningless."""
        index = heads.clamp(min=0)[..., None].expand(-1, -1, self.label_head.shape[-1])
        head = self.label_head.gather(1, index)  # [batch, dep, width]
        if self.words is None:
            labels = label_scores(self.label_dep, head, self.label_weight)
        else:
            dep, head = (each.flatten(0, 1)[None, self.words] for each in (self.label_dep, head))
            labels = _padded(label_scores(dep, head, self.label_weight)[0], self.words, heads.shape)
        if self.evidence is not None:
            labels = labels + self.evidence.of_labels(heads, labels.shape[-1])
        if self.allowed is not None:
            labels = labels.masked_fill(~self.allowed, -math.inf)
        for row, other in self.rescored_rows.items():
            n_words = other.arcs.shape[1]
            labels[row, :n_words] = other.labels(heads[row : row + 1, :n_words])[0]
        return labels

    def only(self, row: int, n_words: int) -> Scores:
        """Return the scores of one sentence, cut to its words, ROOT included."""
        if row in self.rescored_rows:
            return self.rescored_rows[row]
        part, evidence = (slice(row, row + 1), slice(n_words)), self.evidence
        if evidence is not None:
            evidence = evidence.select(torch.tensor([row], device=evidence.heads.device), n_words)
        return replace(
            self,
            arcs=self.arcs[part][..., :n_words],
            label_dep=self.label_dep[part],
            label_head=self.label_head[part],
            tags=tuple(each[part] for each in self.tags),
            rescored_rows={},
            allowed=None if self.allowed is None else self.allowed[part],
            evidence=evidence,
            words=None,
        )

    def supported_by(self, evidence: Evidence) -> Scores:
        """Return the scores with the weights of other parsers added to their heads and labels."""
        return replace(self, arcs=self.arcs + evidence.of_heads(self.arcs.shape[-1]), evidence=evidence)

    def within(self, allowed: Allowed) -> Scores:
        """Return the scores with -inf for every head and label that is not allowed."""
        return replace(self, arcs=self.arcs.masked_fill(~allowed.heads, -math.inf), allowed=allowed.labels)

    def with_rows(self, rows: Mapping[int, Scores]) -> Scores:
        """Return a copy in which some sentences have other scores. Each value of `rows` holds only that sentence."""
        if not rows:
            return self
        arcs, dep, head = self.arcs.clone(), self.label_dep.clone(), self.label_head.clone()
        tags = [each.clone() for each in self.tags]
        for row, other in rows.items():
            n_words = other.arcs.shape[1]
            arcs[row, :n_words, :n_words] = other.arcs[0]
            dep[row, :n_words], head[row, :n_words] = other.label_dep[0], other.label_head[0]
            for whole, part in zip(tags, other.tags, strict=True):
                whole[row, :n_words] = part[0]
        rescored = {**self.rescored_rows, **rows}
        merged = replace(self, arcs=arcs, label_dep=dep, label_head=head, tags=tuple(tags), rescored_rows=rescored)
        if "best_labels" in vars(self):  # the other sentences' labels are already computed
            labels = self.best_labels.clone()
            for row, other in rows.items():
                labels[row, : other.arcs.shape[1]] = other.best_labels[0]
            vars(merged)["best_labels"] = labels
        return merged


class SharedDropout(nn.Module):
    """Dropout with one mask for all words of a sentence."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Float[Tensor, "*batch word width"]) -> Float[Tensor, "*batch word width"]:
        """Return the input; in training, with some dimensions zeroed and the rest scaled up."""
        if not self.training or not self.rate:
            return x
        keep = torch.empty_like(x[..., :1, :]).bernoulli_(1 - self.rate)
        return x * keep / (1 - self.rate)


class BiaffineScorer(nn.Module):
    """The scorer of a model: it turns the word vectors of an encoder into arc and label scores (Eq. 6)."""

    def __init__(self, width: int, n_labels: int, settings: ScorerSettings) -> None:
        super().__init__()
        mlps = []  # Sec. 3.2.1 says one layer, Appendix A says two; the authors' code has one, and so do we
        for output in (settings.arc_width, settings.arc_width, settings.label_width, settings.label_width):
            linear = nn.Linear(width, output)
            if not linear.weight.is_meta:
                nn.init.orthogonal_(linear.weight)
                nn.init.zeros_(linear.bias)
            mlps.append(nn.Sequential(linear, nn.LeakyReLU(settings.slope), SharedDropout(settings.dropout)))
        self.arc_dep, self.arc_head, self.label_dep, self.label_head = mlps
        self.arc_weight = nn.Parameter(torch.zeros(settings.arc_width + 1, settings.arc_width))
        self.label_weight = nn.Parameter(torch.zeros(n_labels, settings.label_width + 1, settings.label_width + 1))

    def forward(
        self,
        words: Float[Tensor, "batch word width"],
        is_word: Bool[Tensor, "batch word"],
        places: Int[Tensor, " place"] | None = None,
    ) -> Scores:
        """Return the scores of all arcs between words; labels are scored on request.

        `places` holds the flat indices of the words. If it is given, no time is spent on padding.
        """
        x = words if places is None else words.flatten(0, 1)[places]
        parts = [with_one(self.arc_dep(x)) @ self.arc_weight, self.arc_head(x)]
        parts += [with_one(self.label_dep(x)), with_one(self.label_head(x))]
        if places is not None:
            parts = [_padded(each, places, is_word.shape) for each in parts]
        dep, head, label_dep, label_head = parts  # each word as dependent and as head, for arcs and then for labels
        arcs = dep @ head.transpose(1, 2)  # [batch, dep, head]
        is_self = torch.eye(words.shape[1], dtype=torch.bool, device=words.device)
        arcs = arcs.masked_fill(~is_word[:, None] | is_self, -math.inf)
        return Scores(arcs, label_dep, label_head, self.label_weight, words=places)


def label_scores(
    dep: Float[Tensor, "batch dep width"],
    head: Float[Tensor, "batch dep width"],
    weight: Float[Tensor, "label width width"],
) -> Float[Tensor, "batch dep label"]:
    """Return the score of each label for each word and its head, with one biaffine form per label (Eq. 6).

    The intermediate result has one vector per word and label. A CPU scores few words at once so that it fits the cache.
    """
    if dep.device.type != "cpu":
        return torch.einsum("bdi,lij,bdj->bdl", dep, weight, head)
    by_dep = weight.transpose(0, 1).flatten(1)  # [width, label and width]
    scores = []
    for start in range(0, dep.shape[0] * dep.shape[1], WORDS_AT_ONCE):
        some = slice(start, start + WORDS_AT_ONCE)
        of_labels = (dep.flatten(0, 1)[some] @ by_dep).view(-1, *weight.shape[::2])  # [word, label, width]
        scores.append((of_labels * head.flatten(0, 1)[some, None]).sum(-1))
    return torch.cat(scores or [dep.new_zeros(0)]).view(*dep.shape[:2], len(weight))


def _padded(
    flat: Float[Tensor, "word width"], places: Int[Tensor, " word"], shape: torch.Size
) -> Float[Tensor, "batch place width"]:
    """Return the vectors of the words at their places in the padded batch, with zeros for padding."""
    rows = flat.new_zeros(shape.numel(), flat.shape[1])
    return rows.index_copy_(0, places, flat).view(*shape, -1)


def with_one(x: Float[Tensor, "*batch word width"]) -> Float[Tensor, "*batch word wider"]:
    """Append a 1 to each vector, which gives a biaffine form its linear terms."""
    return torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)


class Tagger(nn.Module):
    """A tagger: it turns word vectors into one score per tag of each column. The first tag has id 1; 0 is no tag."""

    def __init__(self, width: int, n_tags: tuple[int, ...], dropout: float) -> None:
        super().__init__()
        self.n_tags, self.dropout = n_tags, nn.Dropout(dropout)
        # A column that is read from the input has no tags to choose from, and no weights.
        self.columns = nn.ModuleDict({str(place): nn.Linear(width, n) for place, n in enumerate(n_tags) if n})

    def forward(self, words: Float[Tensor, "batch word width"]) -> tuple[Float[Tensor, "batch word _"], ...]:
        """Return the scores, one tensor per column."""
        words = self.dropout(words)
        return tuple(
            self.columns[str(place)](words) if n else words.new_zeros((*words.shape[:-1], 0))
            for place, n in enumerate(self.n_tags)
        )


def best_tag(scores: Float[Tensor, "*place tag"]) -> Int[Tensor, "*place"]:
    """Return the tag with the highest score, counted from 0; -1 in a column that is not predicted."""
    return scores.argmax(-1) if scores.shape[-1] else scores.new_full(scores.shape[:-1], -1, dtype=torch.long)
