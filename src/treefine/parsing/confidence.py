"""Confidence in arcs, labels and sentences as calibrated probabilities, and the k best trees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from treefine.config import ConfidenceSettings
from treefine.model.batch import Graphs
from treefine.model.scorer import Scores
from treefine.model.vocabulary import Vocabulary
from treefine.parsing.decode import Decoder, best_trees, log_sum_of_trees
from treefine.treebank.constraints import FREE, Constraints
from treefine.treebank.graph import Graph

LEAST = 1e-12  # probabilities are clipped to [LEAST, 1 - LEAST] before their logarithm is taken


@dataclass(frozen=True, slots=True)
class Confidence:
    """The confidence in the head and the label of a word."""

    arc: float  # the probability that the head is right
    label: float  # the probability that the label is right if the head is

    @property
    def both(self) -> float:
        """The probability that head and label are right."""
        return self.arc * self.label


def word_confidences(
    scores: Scores, trees: Graphs, decoder: Decoder, arc_temperature: Tensor | float, label_temperature: Tensor | float
) -> Float[Tensor, "batch word two"]:
    """Return the confidence in the head and in the label of each word. The rows of ROOT and padding are meaningless.

    The temperatures calibrate the probabilities but change no decision.
    """
    heads, labels = trees.heads.clamp(min=0), trees.labels.clamp(min=0)
    arcs = (scores.arcs / arc_temperature).softmax(-1)
    of_labels = (decoder.labels_of(scores, trees) / label_temperature).softmax(-1)
    chosen = (arcs.gather(2, heads[..., None]), of_labels.gather(2, labels[..., None]))
    return torch.cat(chosen, dim=-1).nan_to_num(0.0)  # [batch, word, arc and label]


def sentence_confidences(
    words: Float[np.ndarray, "batch word"], lengths: Sequence[int], settings: Sequence[ConfidenceSettings]
) -> list[float]:
    """Return the probability that all heads and labels of each sentence are right, from that of its words.

    Column 0 of `words` is ROOT. See docs/design.md, 'Confidence'.

    >>> sentence_confidences(np.array([[1, 0.9], [1, math.exp(-1)]]), [1, 1], [ConfidenceSettings()] * 2)[1]
    0.5
    """
    curves = np.array([(each.sentence_slope, each.sentence_scale) for each in settings])
    with np.errstate(over="ignore"):
        odds = np.exp(curves[:, 0] * np.log(log_losses(words, lengths) / curves[:, 1]))
    return (1 / (1 + odds)).tolist()  # type: ignore[no-any-return]


def log_losses(words: Float[np.ndarray, "batch word"], lengths: Sequence[int]) -> Float[np.ndarray, " batch"]:
    """Return the sum of -log p over the words of each sentence. Column 0 is ROOT."""
    place = np.arange(words.shape[1])
    is_dependent = (place > 0) & (place <= np.array(lengths)[:, None])
    losses: np.ndarray = np.where(is_dependent, -np.log(words.clip(LEAST, 1 - LEAST)), 0).sum(1)
    return losses


@dataclass(frozen=True, slots=True)
class RankedTree:
    """One of the k best trees of a sentence, with the best labels for its heads."""

    tree: Graph  # the heads and labels
    probability: float  # the probability of the heads among all trees with one root that satisfy the constraints
    label_probability: float  # the probability that all labels are right if all heads are

    @property
    def heads(self) -> tuple[int, ...]:
        """The head of each word, word 1 first; 0 is ROOT."""
        return self.tree.heads[1:]

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each word, word 1 first."""
        return self.tree.labels[1:]

    @property
    def both(self) -> float:
        """The probability that all heads and labels are right."""
        return self.probability * self.label_probability


def ranked_trees(
    scores: Scores,
    decoder: Decoder,
    settings: ConfidenceSettings,
    vocabulary: Vocabulary,
    k: int,
    constraints: Constraints = FREE,
) -> tuple[RankedTree, ...]:
    """Return the k best trees of one sentence, or all of them if there are fewer.

    The first tree is the parse. Probabilities use the same temperature as the confidence of words. See docs/design.md,
    'The k best trees'.
    """
    arcs = scores.arcs[0].double()
    log_arcs = (arcs / settings.arc_temperature).log_softmax(-1).cpu().numpy()
    log_sum = log_sum_of_trees(log_arcs)
    ranked = []
    for heads in islice(best_trees(decoder.weights(arcs), decoder.search), k):
        of_labels = decoder.allowed_labels(scores, torch.from_numpy(heads)[None].to(arcs.device))[0, 1:]
        log_labels = (of_labels / settings.label_temperature).double().log_softmax(-1).amax(-1).nan_to_num(0.0)
        names = [vocabulary.labels[label] for label in of_labels.argmax(-1).tolist()]
        labels = [constraints.labels.get(word, name) for word, name in enumerate(names, start=1)]
        log_probability = float(log_arcs[np.arange(1, len(heads)), heads[1:]].sum() - log_sum)
        log_label = sum(each for word, each in enumerate(log_labels.tolist(), 1) if word not in constraints.labels)
        tree = Graph.of_words(heads[1:].tolist(), labels)
        ranked.append(RankedTree(tree, min(1.0, math.exp(log_probability)), math.exp(log_label)))
    return tuple(ranked)


def agreement(tree: Graph, steps: Sequence[Graph]) -> tuple[float, ...]:
    """Return, for each word of a tree, the share of the steps whose graph has the same head and label for it.

    >>> first, second = Graph.of_words([2, 0], ["obj", "root"]), Graph.of_words([2, 0], ["nsubj", "root"])
    >>> agreement(second, [first, second])
    (0.5, 1.0)
    """
    of_steps = zip(*(zip(*step.arcs, strict=True) for step in steps), strict=True)
    return tuple(own.count(arc) / len(steps) for arc, own in zip(zip(*tree.arcs, strict=True), of_steps, strict=False))
