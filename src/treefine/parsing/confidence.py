"""How sure a parser is of an arc, a label and a whole sentence, as probabilities that hold (calibrated on dev)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from treefine.config import ConfidenceSettings
from treefine.network.batch import Graphs
from treefine.network.biaffine import Scores
from treefine.parsing.decode import Decoder

LEAST = 1e-12  # the doubt of a word that is sure: a sentence of such words is sure as well


class Confidence(NamedTuple):
    """The probabilities that a word's head is right, and that its label is right if its head is."""

    arc: float
    label: float

    @property
    def both(self) -> float:
        """That head and label are right."""
        return self.arc * self.label


def word_confidences(
    scores: Scores, trees: Graphs, decoder: Decoder, settings: ConfidenceSettings
) -> Float[Tensor, "batch word two"]:
    """The confidence in the head and in the label of each word of these trees; those of ROOT and padding mean nothing.

    A temperature changes no choice: it only makes the probabilities of all choices more or less alike.
    """
    heads, labels = trees.heads.clamp(min=0), trees.labels.clamp(min=0)
    arcs = (scores.arcs / settings.arc_temperature).softmax(-1)
    of_labels = (decoder.labels_of(scores, trees) / settings.label_temperature).softmax(-1)
    chosen = (arcs.gather(2, heads[..., None]), of_labels.gather(2, labels[..., None]))
    return torch.cat(chosen, dim=-1).nan_to_num(0.0)  # [batch, word, arc and label]


def sentence_confidence(words: Iterable[Confidence], settings: ConfidenceSettings) -> float:
    """The probability that all heads and labels of a sentence are right.

    Words are wrong together, so their product is too low. What it says of a sentence is the sum of the words' doubts,
    -log p; the odds of a fault are a power of that sum.

    >>> sentence_confidence([Confidence(1.0, 1.0)], ConfidenceSettings()) > 0.999
    True
    >>> sentence_confidence([Confidence(math.exp(-1.0), 1.0)], ConfidenceSettings())
    0.5
    """
    doubt = doubt_of(words)
    odds = math.exp(min(700.0, settings.sentence_slope * math.log(doubt / settings.sentence_scale)))
    return 1 / (1 + odds)


def doubt_of(words: Iterable[Confidence]) -> float:
    """The sum of -log p over the words of a sentence."""
    return sum(-math.log(max(LEAST, min(1 - LEAST, word.both))) for word in words)
