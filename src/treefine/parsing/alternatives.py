"""The k best trees of a sentence, labelled, with their probabilities; and how many steps agreed on an arc."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch

from treefine.config import ConfidenceSettings
from treefine.network.biaffine import Scores
from treefine.network.vocabulary import Vocabulary
from treefine.parsing.decode import Decoder
from treefine.parsing.ranked import best_trees, log_sum_of_trees
from treefine.treebank.constraints import FREE, Constraints
from treefine.treebank.graph import Graph

Pair = tuple[int, int]  # a word and its head


class RankedTree(NamedTuple):
    """One of the k best trees of a sentence, with the best labels for its heads."""

    tree: Graph
    probability: float  # of its heads, among all trees with one root that obey what was decided
    label_probability: float  # that all labels are right, if all heads are

    @property
    def both(self) -> float:
        """That all heads and labels are right."""
        return self.probability * self.label_probability


def ranked_trees(
    scores: Scores,
    decoder: Decoder,
    settings: ConfidenceSettings,
    vocabulary: Vocabulary,
    k: int,
    constraints: Constraints = FREE,
) -> tuple[RankedTree, ...]:
    """The k best trees of one sentence; fewer where there are no more.

    The best one has the largest sum that the decoder maximises, as in every parse. Probabilities are calibrated as
    those of words are: arcs count by their scores over the temperature, and trees by the product of their arcs.
    """
    arcs = scores.arcs[0].double()
    log_arcs = (arcs / settings.arc_temperature).log_softmax(-1).cpu().numpy()
    log_sum = log_sum_of_trees(log_arcs)
    trees = list(islice(best_trees(decoder.weights(arcs), decoder.search), k))
    pairs = sorted({(word, int(heads[word])) for heads in trees for word in range(1, len(heads))})
    names, log_labels = _labelled(scores, decoder, settings, vocabulary, pairs)
    found = []
    for heads in trees:
        own = [(word, int(heads[word])) for word in range(1, len(heads))]
        labels = [constraints.labels.get(pair[0], names[pair]) for pair in own]
        log_probability = float(log_arcs[np.arange(1, len(heads)), heads[1:]].sum() - log_sum)
        log_label = sum(log_labels[pair] for pair in own if pair[0] not in constraints.labels)
        tree = Graph.of_words(heads[1:].tolist(), labels)
        found.append(RankedTree(tree, min(1.0, math.exp(log_probability)), math.exp(log_label)))
    return tuple(found)


def _labelled(
    scores: Scores, decoder: Decoder, settings: ConfidenceSettings, vocabulary: Vocabulary, pairs: Sequence[Pair]
) -> tuple[dict[Pair, str], dict[Pair, float]]:
    """The best label of each arc, and the logarithm of its probability. Most arcs are in all trees, and scored once."""
    words, heads = torch.tensor(pairs, device=scores.arcs.device).T
    labels = decoder.obeying(scores.arc_labels(words, heads), heads)
    best = labels.argmax(-1)
    sure = (labels / settings.label_temperature).double().log_softmax(-1).gather(1, best[:, None])[:, 0]
    names = [vocabulary.labels[label] for label in best.tolist()]
    return dict(zip(pairs, names, strict=True)), dict(zip(pairs, sure.nan_to_num(0.0).tolist(), strict=True))


def agreement(tree: Graph, steps: Sequence[Graph]) -> tuple[float, ...]:
    """For each word of a tree, the share of the steps whose graph has the same head and label for it.

    >>> first, second = Graph.of_words([2, 0], ["obj", "root"]), Graph.of_words([2, 0], ["nsubj", "root"])
    >>> agreement(second, [first, second])
    (0.5, 1.0)
    """
    return tuple(
        sum((step.heads[word], step.labels[word]) == (tree.heads[word], tree.labels[word]) for step in steps)
        / len(steps)
        for word in range(1, len(tree) + 1)
    )
