"""Choose how much the arcs of another parser count, from its agreement with the model or from some gold trees.

See docs/design.md, 'Trust in other parsers'.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from treefine.parsing.plan import Item, Plan, refine_items
from treefine.treebank.constraints import FREE
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import BLANK

SAMPLE_SENTENCES, SAMPLE_WORDS = 300, 10_000  # at the start of a stream, from which the weights are estimated
LEAST_WEIGHT, MOST_WEIGHT = 0.4, 2.7  # estimated weights, in calibrated log-probabilities
SLOPE = 0.04  # how far from 1 the sharpness must be for a clear decision between these weights
USUAL_SHARPNESS, SPREAD = 0.85, 0.15  # of other parsers: mean and standard deviation of the prior
N_CHOICES = 14  # heads of a word that are compared: the other parser's, the right one, and the most probable ones
DRAW = 5.0  # the pull of a fitted weight towards the estimated one, in about as many disagreements
LARGEST_FITTED = 6.0
_LEAST_PROBABILITY = 1e-6
_UNKNOWN = -1  # the column of the right head of a word without gold tree

Probabilities = Float[np.ndarray, "dep head"]  # of one sentence, without ROOT as a dependent


@dataclass(frozen=True)
class Choices:
    """What the model thinks of some words' heads, and which head another parser chose."""

    probabilities: Float[np.ndarray, "word choice"]  # calibrated, from an empty graph; the other parser's head is first
    gold: Int[np.ndarray, " word"]  # the column of the right head, or _UNKNOWN

    def likelihood(self, sharpness: float) -> float:
        """Return the log-likelihood of the other parser's heads if it chooses head h in proportion to p(h)^sharpness.

        The most likely sharpness is 1 for the gold trees, because p is calibrated. It is lower for a parser that makes
        errors where the model is sure, and higher for one that agrees with the model more often than the truth does.
        """
        powers = self.probabilities**sharpness
        return float((np.log(powers[:, 0]) - np.log(powers.sum(1))).sum())

    def gold_likelihood(self, sharpness: float, weight: float) -> float:
        """Return the log-likelihood of the other parser's heads where the right head is known.

        A head is chosen in proportion to p(h)^sharpness, and the right head is e^weight times as likely.
        """
        is_known = self.gold != _UNKNOWN
        powers, gold = self.probabilities[is_known] ** sharpness, self.gold[is_known]
        totals = powers.sum(1) + np.expm1(weight) * powers[np.arange(len(gold)), gold]
        return float((np.log(powers[:, 0]) + weight * (gold == 0) - np.log(totals)).sum())


def estimated_weight(choices: Choices) -> float:
    """Return the weight of another parser, from its sharpness alone; a prior makes it cautious for few words.

    A parser that is as sharp as the truth is trusted: the model finds no fault with it. One that is sharper repeats
    some of the model's errors, so it adds less. The constants are measured: docs/refining.md, 'Trust'.

    >>> nothing = Choices(np.zeros((0, 2)), np.zeros(0, int))
    >>> round(estimated_weight(nothing), 1)
    0.8
    """
    values = np.arange(0.2, 2.5, 0.02)
    fits = np.array([choices.likelihood(each) for each in values.tolist()])
    fits = fits - ((values - USUAL_SHARPNESS) / SPREAD) ** 2 / 2
    beliefs = np.exp(fits - fits.max())
    most = MOST_WEIGHT / np.maximum(values, 1) ** 2
    weights = LEAST_WEIGHT + (most - LEAST_WEIGHT) / (1 + np.exp((1 - values) / SLOPE))
    return float((beliefs * weights).sum() / beliefs.sum())


def fitted_weight(choices: Choices) -> float:
    """Return the weight that makes another parser's heads most likely, given the right ones.

    The fewer words there are, the closer it is to the estimated weight.
    """
    usual = estimated_weight(choices)
    scores: dict[tuple[float, float], float] = {
        (sharpness, weight): choices.gold_likelihood(sharpness, weight) - DRAW * (weight - usual) ** 2 / 2
        for sharpness in np.arange(0.2, 2.5, 0.1).tolist()
        for weight in np.arange(0, LARGEST_FITTED, 0.1).tolist()
    }
    return max(scores, key=scores.__getitem__)[1]


def choices_of(
    probabilities: Iterable[Probabilities], given: Sequence[Arcs], gold: Sequence[Sequence[int]] | None = None
) -> Choices:
    """Return the choices of another parser in some sentences, for the words to which it gave a head.

    `gold` has the right heads of each sentence, word 1 first.
    """
    rows, right = list[np.ndarray](), list[int]()
    for of_heads, arcs, heads in zip(probabilities, given, gold or [()] * len(given), strict=True):
        for word, head in enumerate(arcs.heads):
            if head is not None:
                first = [head, *heads[word : word + 1]]
                most = np.argsort(-of_heads[word], kind="stable")[:N_CHOICES].tolist()
                columns = list(dict.fromkeys([*first, *most]))[:N_CHOICES]
                rows.append(np.pad(of_heads[word][columns], (0, N_CHOICES - len(columns))))
                right.append(columns.index(first[1]) if heads else _UNKNOWN)
    table = np.stack(rows) if rows else np.zeros((0, N_CHOICES))
    return Choices(np.maximum(table, _LEAST_PROBABILITY).astype(np.float64), np.array(right, int))


@torch.no_grad()
def head_probabilities(plan: Plan, items: Sequence[Item]) -> list[Probabilities]:
    """Return the calibrated probability of each head of each word of a batch, after the last step."""
    found: dict[int, Probabilities] = {}
    for step in refine_items(plan, items, wants_trees=False):
        of_heads = (step.scores.arcs / plan.confidence.arc_temperature).softmax(-1).cpu().numpy()
        for row, number in enumerate(step.sentences):
            n_words = step.batch.lengths[row]
            found[number] = of_heads[row, 1 : n_words + 1, : n_words + 1]
    return [found[number] for number in range(len(items))]


def without_graph(item: Item) -> Item:
    """Return the sentence without initial graph and constraints, so that the model decides on its own."""
    n_words = len(item.sentence)
    return Item(item.sentence, Arcs((None,) * n_words, (BLANK,) * n_words), FREE, item.pieces)


def arcs_with_labels(arcs: Arcs) -> Arcs:
    """Return the arcs that are evidence: those with a label, even if the model does not know it."""
    return Arcs(tuple(None if label == BLANK else head for head, label in zip(*arcs, strict=True)), arcs.labels)


def read_sample(items: Iterator[Item]) -> tuple[list[Item], Exception | None]:
    """Read the first sentences of a stream; also return the error that ended it, if there was one."""
    sample, n_words = list[Item](), 0
    try:
        while len(sample) < SAMPLE_SENTENCES and n_words < SAMPLE_WORDS and (item := next(items, None)) is not None:
            sample.append(item)
            n_words += len(item.sentence)
    except Exception as error:  # raised later, so that earlier results are not lost
        return sample, error
    return sample, None
