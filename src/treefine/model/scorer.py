"""The scorer: four MLPs, a biaffine form for arcs, one for labels (Eq. 6, Sec. 3.2.1), and a tagger."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from treefine.config import ScorerSettings
from treefine.model.batch import Allowed, Evidence, WordVectors

WORDS_AT_ONCE = 64  # per matrix product on a CPU, see `label_scores`


@dataclass(frozen=True)
class Scores:
    """The scores of one batch. Label scores are computed on request, for given heads, and tag scores when read."""

    arcs: Float[Tensor, "batch dep head"]  # -inf for a head that is padding, and for the word itself
    label_dep: Float[Tensor, "word label_width"]
    label_head: Float[Tensor, "word label_width"]
    label_weight: Float[Tensor, "label label_width label_width"]
    places: Int[Tensor, " word"]  # of the words in a padded table, as in `Batch` …
    roots: Int[Tensor, " word"]  # … and the number of the ROOT of each word's sentence
    words: WordVectors  # the encoder's
    stage: int = 0  # of the model's settings, counted from 0
    tagger: Tagger | None = None
    allowed: Bool[Tensor, "batch dep label"] | None = None  # a mask of labels; None allows all
    evidence: Evidence | None = None  # other parsers' labels, which add to the label scores

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
        index = self.roots + heads.flatten()[self.places].clamp(min=0)
        labels = label_scores(self.label_dep, self.label_head[index], self.label_weight)
        labels = padded_words(labels, self.places, heads.shape)
        if self.evidence is not None:
            labels = labels + self.evidence.of_labels(heads, labels.shape[-1])
        return labels if self.allowed is None else labels.masked_fill(~self.allowed, -math.inf)

    @cached_property
    def tags(self) -> tuple[Float[Tensor, "batch word _"], ...]:
        """One score per tag, one tensor per column; none without a tagger."""
        if self.tagger is None:
            return ()
        return tuple(padded_words(each, self.places, self.arcs.shape[:2]) for each in self.tagger(self.words))

    def of_rows(self, rows: Bool[Tensor, " batch"]) -> Bool[Tensor, " word"]:
        """Return which words belong to some sentences."""
        return rows[self.places // self.arcs.shape[1]]

    def only(self, row: int) -> Scores:
        """Return the scores of one sentence, cut to its words, ROOT included."""
        start, stop = ((self.places < number * self.arcs.shape[1]).sum().item() for number in (row, row + 1))
        part, words, n_words, evidence = (
            slice(row, row + 1),
            slice(int(start), int(stop)),
            int(stop - start),
            self.evidence,
        )
        if evidence is not None:
            evidence = evidence.select(torch.tensor([row], device=evidence.heads.device), n_words)
        return replace(
            self,
            arcs=self.arcs[part, :n_words, :n_words],
            label_dep=self.label_dep[words],
            label_head=self.label_head[words],
            places=torch.arange(n_words, device=self.places.device),
            roots=torch.zeros_like(self.roots[words]),
            words=self.words[words],
            allowed=None if self.allowed is None else self.allowed[part, :n_words],
            evidence=evidence,
        )

    def supported_by(self, evidence: Evidence) -> Scores:
        """Return the scores with the weights of other parsers added to their heads and labels."""
        return replace(self, arcs=self.arcs + evidence.of_heads(self.arcs.shape[-1]), evidence=evidence)

    def within(self, allowed: Allowed) -> Scores:
        """Return the scores with -inf for every head and label that is not allowed."""
        return replace(self, arcs=self.arcs.masked_fill(~allowed.heads, -math.inf), allowed=allowed.labels)


class SharedDropout(nn.Module):
    """Dropout with one mask for all words of a sentence."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(
        self, x: Float[Tensor, "*batch word width"], roots: Int[Tensor, " word"] | None = None
    ) -> Float[Tensor, "*batch word width"]:
        """Return the input; in training, with some dimensions zeroed and the rest scaled up.

        Words that are not padded belong to the sentence with this ROOT (`Batch.roots`).
        """
        if not self.training or not self.rate:
            return x
        if roots is None:
            keep = torch.empty_like(x[..., :1, :]).bernoulli_(1 - self.rate)
        else:
            keep = torch.empty_like(x).bernoulli_(1 - self.rate)[roots]
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
            mlps.append(nn.Sequential(linear, nn.LeakyReLU(settings.slope)))
        self.arc_dep, self.arc_head, self.label_dep, self.label_head = mlps
        self.dropout = SharedDropout(settings.dropout)
        self.arc_weight = nn.Parameter(torch.zeros(settings.arc_width + 1, settings.arc_width))
        self.label_weight = nn.Parameter(torch.zeros(n_labels, settings.label_width + 1, settings.label_width + 1))

    def forward(
        self,
        words: WordVectors,
        is_word: Bool[Tensor, "batch place"],
        places: Int[Tensor, " word"],
        roots: Int[Tensor, " word"],
    ) -> Scores:
        """Return the scores of all arcs between the words of each sentence; labels are scored on request.

        The last three arguments are the fields of a `Batch`.
        """
        # Each word as dependent and as head, for arcs and then for labels.
        mlps = (self.arc_dep, self.arc_head, self.label_dep, self.label_head)
        dep, head, label_dep, label_head = (self.dropout(mlp(words), roots) for mlp in mlps)
        dep = padded_words(with_one(dep) @ self.arc_weight, places, is_word.shape)
        arcs = dep @ padded_words(head, places, is_word.shape).transpose(1, 2)  # [batch, dep, head]
        is_self = torch.eye(arcs.shape[1], dtype=torch.bool, device=words.device)
        arcs = arcs.masked_fill(~is_word[:, None] | is_self, -math.inf)
        return Scores(arcs, with_one(label_dep), with_one(label_head), self.label_weight, places, roots, words)


def label_scores(
    dep: WordVectors, head: WordVectors, weight: Float[Tensor, "label width width"]
) -> Float[Tensor, "word label"]:
    """Return the score of each label for each word and its head, with one biaffine form per label (Eq. 6).

    The intermediate result has one vector per word and label. A CPU scores few words at once so that it fits the cache.
    """
    if dep.device.type != "cpu":
        return torch.einsum("wi,lij,wj->wl", dep, weight, head)
    by_dep = weight.transpose(0, 1).flatten(1)  # [width, label and width]
    parts = zip(torch.split(dep, WORDS_AT_ONCE), torch.split(head, WORDS_AT_ONCE), strict=True)
    return torch.cat([((d @ by_dep).view(len(d), *weight.shape[::2]) * h[:, None]).sum(-1) for d, h in parts])


def padded_words(
    flat: Float[Tensor, "word width"], places: Int[Tensor, " word"], shape: torch.Size
) -> Float[Tensor, "batch place width"]:
    """Return the vectors of the words of a batch as a padded table of this shape, with zeros for padding."""
    rows = flat.new_zeros(shape[0] * shape[1], flat.shape[1])
    return rows.index_copy(0, places, flat).view(shape[0], shape[1], -1)


def with_one(x: WordVectors) -> Float[Tensor, "word wider"]:
    """Append a 1 to each vector, which gives a biaffine form its linear terms."""
    return torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)


class Tagger(nn.Module):
    """A tagger: it turns word vectors into one score per tag of each column. The first tag has id 1; 0 is no tag."""

    def __init__(self, width: int, n_tags: tuple[int, ...], dropout: float) -> None:
        super().__init__()
        self.n_tags, self.dropout = n_tags, nn.Dropout(dropout)
        # A column that is read from the input has no tags to choose from, and no weights.
        self.columns = nn.ModuleDict({str(place): nn.Linear(width, n) for place, n in enumerate(n_tags) if n})

    def forward(self, words: WordVectors) -> tuple[Float[Tensor, "word _"], ...]:
        """Return the scores, one tensor per column."""
        words = self.dropout(words)
        return tuple(
            self.columns[str(place)](words) if n else words.new_zeros((len(words), 0))
            for place, n in enumerate(self.n_tags)
        )


def best_tag(scores: Float[Tensor, "*place tag"]) -> Int[Tensor, "*place"]:
    """Return the tag with the highest score, counted from 0; -1 in a column that is not predicted."""
    return scores.argmax(-1) if scores.shape[-1] else scores.new_full(scores.shape[:-1], -1, dtype=torch.long)
