"""Choose how much the arcs of another parser count, from its agreement with the model or from some gold trees.

See docs/design.md, 'Trust in other parsers'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from treefine.model.batch import Graphs
from treefine.model.vocabulary import UNSEEN, Vocabulary
from treefine.parsing.plan import ParseInput, Plan, WeightedArcs, refine_inputs
from treefine.treebank.constraints import FREE
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import BLANK

SAMPLE_SENTENCES, SAMPLE_WORDS = 300, 10_000  # at the start of a stream, from which the weights are estimated
WEAK, FULL = 0.15, 8.0  # the smallest and the largest estimated weight, in calibrated log-probabilities
GOOD_FROM, SLOPE = 1.0, 0.03  # sharpness of heads from which on a parser is good, and how gradually it becomes so
FULL_TO, LOSS = 1.13, 28.0  # sharpness of labels up to which a good parser has the full weight, and its fall beyond
USUAL_HEADS, USUAL_LABELS, SPREAD = 0.85, 1.3, 0.15  # the prior of both: means and standard deviation
N_CHOICES = 14  # heads or labels that are compared: the other parser's, the right one, and the most probable ones
SLIPS = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12)  # shares of a parser's choices that are slips
LEAST_SURE = 0.5  # probability of a head from which on its label counts; else the label of a wrong head would
DRAW = 5.0  # the pull of a fitted weight towards the estimated one
LARGEST_FITTED = 6.0
_LEAST_PROBABILITY = 1e-6
Sharpness = Float[np.ndarray, " value"]
_UNKNOWN = -1  # the column of the right head of a word without gold tree


@dataclass(frozen=True)
class Beliefs:
    """The calibrated probabilities of the heads and labels of one sentence that the model finds from an empty graph."""

    heads: Float[np.ndarray, "dep head"]  # without ROOT as a dependent
    labels: tuple[Float[np.ndarray, "dep label"], ...]  # for the heads of each other parser


@dataclass(frozen=True)
class Choices:
    """The model's probabilities for the heads or labels of some words, and the ones that another parser chose."""

    probabilities: Float[np.ndarray, "word choice"]  # the other parser's choice is first
    gold: Int[np.ndarray, " word"]  # the column of the right head, or _UNKNOWN

    def likelihoods(self, sharpness: float) -> list[float]:
        """Return the log-likelihood of the other parser's choices for each share of slips in `SLIPS`.

        A choice c is made in proportion to p(c)^sharpness, or it is a slip, which may be any choice. The most likely
        sharpness is 1 for the gold trees, because p is calibrated. It is lower for a parser that makes errors where the
        model is sure, and higher for one that agrees with the model more often than the truth does.
        """
        powers = self.probabilities**sharpness
        chosen = powers[:, 0] / powers.sum(1)
        return [float(np.log((1 - share) * chosen + share / N_CHOICES).sum()) for share in SLIPS]

    def gold_likelihood(self, weight: float) -> float:
        """Return the log-likelihood of the right heads, where they are known, if this weight is added to the others."""
        is_known = self.gold != _UNKNOWN
        known, gold = self.probabilities[is_known], self.gold[is_known]
        right, totals = known[np.arange(len(gold)), gold], known.sum(1) + np.expm1(weight) * known[:, 0]
        return float((np.log(right) + weight * (gold == 0) - np.log(totals)).sum())

    def mean(self, values: Callable[[Sharpness, Sharpness], Sharpness], usual: float) -> float:
        """Return the expected value of a function of the sharpness and the share of slips.

        `usual` is the mean of the sharpness before anything is known.
        """
        grid, slips = np.arange(0.2, 2.5, 0.04), np.array(SLIPS)
        fits = np.array([self.likelihoods(each) for each in grid.tolist()])  # [sharpness, slips]
        fits = fits - (((grid - usual) / SPREAD) ** 2 / 2)[:, None]
        beliefs = np.exp(fits - fits.max())
        return float((beliefs * values(grid[:, None], slips[None])).sum() / beliefs.sum())


NO_CHOICES = Choices(np.zeros((0, N_CHOICES)), np.zeros(0, int))


def estimated_weight(heads: Choices, labels: Choices) -> float:
    """Return the weight of another parser, from its sharpness alone; a prior makes it cautious for few words.

    A parser is good if its heads are as sharp as the truth: the model finds no fault with them. A good parser gets the
    full weight if its labels are as sharp as the truth, too, and less the more they repeat the model's errors. Some
    slips, such as a person's, do not make it a weak parser, but they limit its weight. The constants are measured:
    docs/design.md.

    >>> 0.15 < estimated_weight(NO_CHOICES, NO_CHOICES) < 1
    True
    """
    is_good = heads.mean(lambda sharpness, _: 1 / (1 + np.exp((GOOD_FROM - sharpness) / SLOPE)), USUAL_HEADS)
    most = labels.mean(lambda sharpness, _: (FULL - LOSS * (sharpness - FULL_TO)).clip(WEAK, FULL), USUAL_LABELS)
    against_slips = heads.mean(lambda _, slips: np.log(N_CHOICES * (1 - slips) / slips), USUAL_HEADS)
    most = min(most, against_slips)  # a choice that the model finds less likely than a slip is a slip
    return WEAK + is_good * (most - WEAK)


def fitted_weight(heads: Choices, labels: Choices) -> float:
    """Return the weight that makes the right heads most likely.

    The fewer words there are, the closer it is to the estimated weight.
    """
    usual = estimated_weight(heads, labels)
    weights: list[float] = np.arange(0, LARGEST_FITTED, 0.1).tolist()
    fits = {weight: heads.gold_likelihood(weight) - DRAW * (weight - usual) ** 2 / 2 for weight in weights}
    return max(fits, key=fits.__getitem__)


def choices_of(
    beliefs: Sequence[Beliefs],
    given: Sequence[WeightedArcs],
    source: int,
    vocabulary: Vocabulary,
    gold: Sequence[Sequence[int]] = (),
) -> tuple[Choices, Choices]:
    """Return the heads and the labels that the other parser with number `source` chose in some sentences.

    A label counts if the model believes in the head. `gold` has the right heads of each sentence, word 1 first.
    """
    of_heads, of_labels = list[tuple[np.ndarray, int]](), list[tuple[np.ndarray, int]]()

    def choice(
        probabilities: Float[np.ndarray, " choice"], chosen: int, known: Sequence[int] = ()
    ) -> tuple[Float[np.ndarray, " choice"], int]:
        most = np.argsort(-probabilities, kind="stable")[:N_CHOICES].tolist()
        columns = list(dict.fromkeys([chosen, *known, *most]))[:N_CHOICES]
        row = np.pad(probabilities[columns], (0, N_CHOICES - len(columns)))
        return row, columns.index(known[0]) if known else _UNKNOWN

    for of_sentence, (arcs, _), heads in zip(beliefs, given, gold or [()] * len(given), strict=True):
        labels = vocabulary.label_ids(list(arcs.labels))
        for word, (head, label) in enumerate(zip(arcs.heads, labels, strict=True)):
            if head is not None:
                of_heads.append(choice(of_sentence.heads[word], head, heads[word : word + 1]))
                if label != UNSEEN and of_sentence.heads[word, head] > LEAST_SURE:
                    of_labels.append(choice(of_sentence.labels[source][word], label))
    return _stacked(of_heads), _stacked(of_labels)


def _stacked(choices: Sequence[tuple[np.ndarray, int]]) -> Choices:
    if not choices:
        return NO_CHOICES
    rows, gold = zip(*choices, strict=True)
    return Choices(np.maximum(np.stack(rows), _LEAST_PROBABILITY).astype(np.float64), np.array(gold, int))


@torch.no_grad()
def beliefs_of(plan: Plan, inputs: Sequence[ParseInput]) -> list[Beliefs]:
    """Return what the model believes after the last step, for each sentence of a batch."""
    beliefs: dict[int, Beliefs] = {}
    decoder, vocabulary = plan.decoder, plan.model.vocabulary
    for step in refine_inputs(plan, inputs):
        arc_temperatures, label_temperatures = plan.temperatures(
            [inputs[row].sentence for row in step.sentences], step.scores.stage
        )
        heads = (step.scores.arcs / arc_temperatures).softmax(-1).cpu().numpy()
        given = [inputs[number].evidence for number in step.sentences]
        labels = []
        for arcs in zip(*([each.arcs for each in evidence] for evidence in given), strict=True):
            graphs = Graphs.of(arcs, vocabulary).to(plan.device)
            scores = decoder.allowed_labels(step.scores, graphs.heads.clamp(min=0))
            labels.append((scores / label_temperatures).softmax(-1).nan_to_num(0.0).cpu().numpy())
        for row, number in enumerate(step.sentences):
            words = slice(1, step.batch.lengths[row] + 1)
            of_heads = heads[row, words, : step.batch.lengths[row] + 1]
            beliefs[number] = Beliefs(of_heads, tuple(each[row, words] for each in labels))
    return [beliefs[number] for number in range(len(inputs))]


def without_graph(item: ParseInput) -> ParseInput:
    """Return the sentence without initial graph and constraints, and with evidence of no weight.

    The model then decides on its own.
    """
    n_words = len(item.sentence)
    evidence = tuple(each._replace(weight=0.0) for each in item.evidence)
    return ParseInput(item.sentence, Arcs((None,) * n_words, (BLANK,) * n_words), FREE, item.pieces, evidence)


def arcs_with_labels(arcs: Arcs) -> Arcs:
    """Return the arcs that are evidence: those with a label, even if the model does not know it."""
    return Arcs(tuple(None if label == BLANK else head for head, label in zip(*arcs, strict=True)), arcs.labels)


def read_sample(items: Iterator[ParseInput]) -> tuple[list[ParseInput], Exception | None]:
    """Read the first sentences of a stream; also return the error that ended it, if there was one."""
    sample, n_words = list[ParseInput](), 0
    try:
        while len(sample) < SAMPLE_SENTENCES and n_words < SAMPLE_WORDS and (item := next(items, None)) is not None:
            sample.append(item)
            n_words += len(item.sentence)
    except Exception as error:  # raised later, so that earlier results are not lost
        return sample, error
    return sample, None
