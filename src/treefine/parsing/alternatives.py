"""The k best trees of a sentence, labelled, with their probabilities; and how many steps agreed on an arc."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch

from treefine.config import ConfidenceSettings
from treefine.network.biaffine import Scores
from treefine.network.vocabulary import Vocabulary
from treefine.parsing.confidence import word_confidences
from treefine.parsing.decode import Decoder, labelled
from treefine.parsing.ranked import best_trees, log_sum_of_trees
from treefine.parsing.steps import graph_of
from treefine.treebank.constraints import FREE, Constraints
from treefine.treebank.graph import Graph


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
    n_words, device = len(log_arcs) - 1, scores.arcs.device
    is_word = torch.ones((1, n_words + 1), dtype=torch.bool, device=device)
    found = []
    for heads in islice(best_trees(decoder.weights(arcs), decoder.search), k):
        chosen = torch.from_numpy(heads)[None].to(device)
        graphs = labelled(chosen, decoder.allowed_labels(scores, chosen), is_word)
        sure = word_confidences(scores, graphs, decoder, settings)[0, 1:, 1].double()
        free = [word not in constraints.labels for word in range(1, n_words + 1)]
        log_probability = float(log_arcs[np.arange(1, n_words + 1), heads[1:]].sum() - log_sum)
        found.append(
            RankedTree(
                graph_of(graphs, 0, n_words, vocabulary, constraints),
                float(min(1.0, np.exp(log_probability))),
                float(sure[torch.tensor(free, device=device)].prod()),
            )
        )
    return tuple(found)


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
