"""What one refinement step says of one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from torch import Tensor

from treefine.network.model import ParserModel
from treefine.network.vocabulary import Vocabulary
from treefine.parsing.decode import Decoder
from treefine.parsing.refine import BatchStep
from treefine.treebank.constraints import FREE, Constraints
from treefine.treebank.graph import Graph


@dataclass(frozen=True)
class Step:
    """Step t of a sentence: its graph, the tree that would be its parse if this were the last step, and how sure."""

    t: int
    graph: Graph  # Gᵗ; it may have cycles
    tree: Graph
    converged: bool  # whether a further step would repeat this one
    arc_scores: Float[np.ndarray, "dep head"]  # 0 is ROOT; -inf for a word itself
    label_scores: Float[np.ndarray, "dep label"]  # for the heads of `graph`
    labels: tuple[str, ...]  # the names of that last axis
    tags: tuple[tuple[str, ...], ...] = ()  # predicted in this step, by column; empty without a tagger

    @property
    def arc_probabilities(self) -> Float[np.ndarray, "dep head"]:
        """Of each head, for each dependent; ROOT's row means nothing."""
        return _softmax(self.arc_scores)

    @property
    def label_probabilities(self) -> Float[np.ndarray, "dep label"]:
        """Of each label, for the heads of `graph`; ROOT's row means nothing."""
        return _softmax(self.label_scores)


def steps_of(
    step: BatchStep, decoder: Decoder, model: ParserModel, constraints: Sequence[Constraints] = ()
) -> list[Step]:
    """A batch's step, sentence by sentence."""
    decided = constraints or [FREE] * len(step.batch)
    trees = decoder.trees(step.scores, step.graphs, step.batch.is_word)
    labels, tags = decoder.labels_of(step.scores, step.graphs), predicted_tags(step, model)
    converged, graphs, best = step.converged.tolist(), step.graphs.listed(), trees.listed()
    return [
        Step(
            step.t,
            graph_of(graphs, row, length, model.vocabulary, decided[row]),
            graph_of(best, row, length, model.vocabulary, decided[row]),
            converged[row],
            _array(step.scores.arcs[row, : length + 1, : length + 1]),
            _array(labels[row, : length + 1]),
            model.vocabulary.labels,
            tags[row],
        )
        for row, length in enumerate(step.batch.lengths)
    ]


def predicted_tags(step: BatchStep, model: ParserModel) -> list[tuple[tuple[str, ...], ...]]:
    """The best tags of each sentence's words, column by column; none without a tagger."""
    names = [model.vocabulary.tags(column) for column in (model.settings.tags.columns if step.scores.tags else ())]
    best = [scores.argmax(-1).tolist() for scores in step.scores.tags]  # one copy to the host a column
    return [
        tuple(
            tuple(known[tag] for tag in of_column[row][1 : length + 1])
            for known, of_column in zip(names, best, strict=True)
        )
        for row, length in enumerate(step.batch.lengths)
    ]


def graph_of(
    listed: tuple[list[list[int]], list[list[int]]],
    row: int,
    length: int,
    vocabulary: Vocabulary,
    constraints: Constraints = FREE,
) -> Graph:
    """One sentence's graph, its labels by name; those that a person gave are told as they were given."""
    heads, labels = (each[row][1 : length + 1] for each in listed)
    names = [constraints.labels.get(word, vocabulary.labels[label]) for word, label in enumerate(labels, start=1)]
    return Graph.of_words(heads, names)


def _array(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().float().cpu().numpy()
    return array


def _softmax(scores: np.ndarray) -> np.ndarray:
    exponents = np.exp(scores - scores.max(-1, keepdims=True))
    result: np.ndarray = exponents / exponents.sum(-1, keepdims=True)
    return result
