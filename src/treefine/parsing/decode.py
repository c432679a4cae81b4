"""Turn scores into graphs: argmax between steps, the highest-scoring tree at the end (Sec. 3.2.2)."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from treefine.model.batch import Graphs
from treefine.model.parser_model import ParserModel
from treefine.model.scorer import Scores
from treefine.model.vocabulary import NO_HEAD, UNSEEN
from treefine.parsing.trees import Heads, Weights, best_trees, maximum_tree, projective_tree
from treefine.treebank.graph import ROOT, non_projective_words


@dataclass(frozen=True)
class Decoder:
    """The rules by which a model's scores become graphs and trees."""

    root_label: int | None = None  # a word has it if and only if its head is ROOT; None if there is no such rule
    tree_over: Literal["log-probabilities", "probabilities"] = "log-probabilities"
    is_projective: bool = False

    @classmethod
    def of(cls, model: ParserModel, *, is_projective: bool = False) -> Decoder:
        """Return the decoder for a model's settings."""
        settings = model.settings.decode
        root_label = model.vocabulary.label_id(settings.root_label) if settings.root_rule == "exact" else None
        return cls(root_label, settings.tree_over, is_projective)

    def graphs(self, scores: Scores, is_word: Bool[Tensor, "batch word"], *, as_trees: Collection[int] = ()) -> Graphs:
        """Return the best head of each word with its best label; the graphs may have cycles and several roots.

        The sentences in `as_trees` get their highest-scoring trees instead.
        """
        graphs = labelled(scores.best_heads, self.best_labels(scores), is_word)
        return self.trees(scores, graphs, is_word, rows=as_trees) if as_trees else graphs

    def best_labels(self, scores: Scores) -> Float[Tensor, "batch word label"]:
        """Return the label scores for the best heads, with -inf for labels that the root label rule forbids."""
        return self.obeying(scores.best_labels, scores.best_heads)

    def allowed_labels(self, scores: Scores, heads: Int[Tensor, "batch word"]) -> Float[Tensor, "batch word label"]:
        """Return the label scores for these heads, with -inf for labels that the root label rule forbids."""
        return self.obeying(scores.labels(heads), heads)

    def labels_of(self, scores: Scores, graphs: Graphs) -> Float[Tensor, "batch word label"]:
        """Return `allowed_labels` for the heads of graphs; faster if most sentences have their best heads."""
        heads = graphs.heads.clamp(min=0)
        differs = ((heads != scores.best_heads) & (graphs.heads >= 0)).any(1).tolist()
        rows = [row for row, is_one in enumerate(differs) if is_one]
        if 2 * len(rows) > len(differs):
            return self.allowed_labels(scores, heads)
        labels = self.best_labels(scores).clone()
        for row in rows:
            part = scores.only(row, heads.shape[1])
            n_words = part.arcs.shape[1]
            labels[row, :n_words] = self.allowed_labels(part, heads[row : row + 1, :n_words])[0]
        return labels

    def obeying(
        self, labels: Float[Tensor, "*arcs label"], heads: Int[Tensor, "*arcs"]
    ) -> Float[Tensor, "*arcs label"]:
        """Return the label scores, with -inf for labels that the root label rule forbids with these heads."""
        if self.root_label is None or labels.shape[-1] == 1:
            return labels
        is_root_label = torch.arange(labels.shape[-1], device=labels.device) == self.root_label
        return labels.masked_fill(is_root_label != (heads == ROOT)[..., None], -math.inf)

    def trees(
        self,
        scores: Scores,
        graphs: Graphs,
        is_word: Bool[Tensor, "batch word"],
        *,
        rows: Collection[int] | None = None,
    ) -> Graphs:
        """Return the highest-scoring tree with one root for each sentence (or those in `rows`).

        A graph that is already a tree is returned as it is.
        """
        is_tree = self.are_trees(graphs, is_word).tolist()
        wrong = [row for row, is_one in enumerate(is_tree) if not is_one and (rows is None or row in rows)]
        if not wrong:
            return graphs
        heads, labels = graphs.heads.clone(), graphs.labels.clone()
        for row in wrong:
            n_words = int(is_word[row].sum())
            part = scores.only(row, n_words)
            best = torch.from_numpy(self.best_heads(part.arcs[0]))[None].to(heads.device)
            tree = labelled(best, self.allowed_labels(part, best), is_word[row : row + 1, :n_words])
            heads[row, :n_words], labels[row, :n_words] = tree.heads[0], tree.labels[0]
        return Graphs(heads, labels, graphs.has_any)

    def best_heads(self, arcs: Float[Tensor, "dep head"]) -> Heads:
        """Return the heads of the highest-scoring tree of one sentence, from its arc scores."""
        return self.search(self.weights(arcs))

    def lead(self, arcs: Float[Tensor, "dep head"]) -> float:
        """Return the difference in total weight between the best and the second-best tree of one sentence."""
        weights = self.weights(arcs)
        words = np.arange(1, len(weights))
        totals = [float(weights[words, heads[1:]].sum()) for heads in islice(best_trees(weights, self.search), 2)]
        if len(totals) < 2:
            return math.inf if totals else 0.0
        return totals[0] - totals[1]

    def has_tree(self, allowed: Bool[np.ndarray, "dep head"]) -> bool:
        """Return whether there is a tree of allowed arcs only."""
        heads = self.search(np.where(allowed, 0.0, -math.inf))
        return bool(allowed[np.arange(1, len(heads)), heads[1:]].all())

    def weights(self, arcs: Float[Tensor, "dep head"]) -> Weights:
        """Return the arc weights. The best tree has the largest sum of them; an impossible arc has -inf."""
        scores: Weights = arcs.cpu().double().numpy()  # numpy is faster than torch for so few numbers
        with np.errstate(invalid="ignore"):  # a word may have no possible head
            scores = scores - scores.max(axis=-1, keepdims=True)
            weights: Weights = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
        if self.tree_over == "probabilities":
            return np.where(np.isneginf(weights), -math.inf, np.exp(weights))
        return weights

    def search(self, weights: Weights) -> Heads:
        """Return the heads of the tree with the largest sum of weights."""
        return projective_tree(weights) if self.is_projective else maximum_tree(weights)

    def are_trees(self, graphs: Graphs, is_word: Bool[Tensor, "batch word"]) -> Bool[Tensor, " batch"]:
        """Return whether each sentence's graph is a tree with one root, and projective if it must be."""
        is_tree = are_trees(graphs.heads, is_word)
        if not self.is_projective:
            return is_tree
        lengths = is_word.sum(1).tolist()
        crosses = [
            non_projective_words([ROOT, *heads[1:n_words]])
            for heads, n_words in zip(graphs.heads.tolist(), lengths, strict=True)
        ]
        return is_tree & ~torch.tensor([bool(words) for words in crosses], device=is_tree.device)


def labelled(
    heads: Int[Tensor, "batch word"], labels: Float[Tensor, "batch word label"], is_word: Bool[Tensor, "batch word"]
) -> Graphs:
    """Return the graphs with these heads and the highest-scoring label for each."""
    is_dependent = dependents(is_word)
    labels = labels.argmax(-1)
    return Graphs(torch.where(is_dependent, heads, NO_HEAD), torch.where(is_dependent, labels, UNSEEN), has_any=True)


def made_trees(model: ParserModel, initial: Graphs) -> list[int]:
    """Return the sentences whose first graph must be a tree: those without an initial graph, if the settings say so."""
    if model.settings.decode.first_graph == "argmax":
        return []
    rows: list[int] = (initial.heads < 0).all(1).nonzero()[:, 0].tolist()
    return rows


def are_trees(heads: Int[Tensor, "batch word"], is_word: Bool[Tensor, "batch word"]) -> Bool[Tensor, " batch"]:
    """Return whether each sentence's heads form a tree with one root.

    In a tree every word reaches ROOT. Each pass doubles the length of the paths that are followed.
    """
    is_dependent = dependents(is_word)
    above = torch.where(is_dependent, heads, ROOT)
    has_one_root = ((above == ROOT) & is_dependent).sum(1) == 1
    for _ in range(max(1, heads.shape[1] - 1).bit_length()):
        above = above.gather(1, above)
    return has_one_root & (above == ROOT).all(1)


def dependents(is_word: Bool[Tensor, "batch word"]) -> Bool[Tensor, "batch word"]:
    """Return the mask of words without ROOT and padding."""
    is_dependent = is_word.clone()
    is_dependent[:, ROOT] = False
    return is_dependent
