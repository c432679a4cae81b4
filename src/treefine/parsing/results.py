"""What a batch gives: trees, trees with details, or every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from treefine.model.batch import Graphs
from treefine.model.parser_model import ParserModel
from treefine.model.vocabulary import UNSEEN, Vocabulary
from treefine.parsing.confidence import Confidence, RankedTree, ranked_trees, word_confidences
from treefine.parsing.decode import Decoder
from treefine.parsing.plan import Item, Plan, refine_items
from treefine.parsing.refine import BatchStep
from treefine.treebank.constraints import FREE, Constraints
from treefine.treebank.graph import Arcs, Graph


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


class Parsed(NamedTuple):
    """The final tree of a sentence, and its predicted tags by column, if there are any."""

    tree: Graph
    tags: tuple[tuple[str, ...], ...]


class Details(NamedTuple):
    """A sentence's parse, where it started, the graph of each step, and how sure the last one is of both."""

    parsed: Parsed
    initial: Arcs
    steps: tuple[Graph, ...]  # G¹ … Gᵀ
    confidence: tuple[Confidence, ...]  # in each word of the tree, word 1 first
    initial_confidence: tuple[Confidence | None, ...]  # in the arcs that it started from; None where it had none
    converged: bool  # whether the last step repeated its input
    trees: tuple[RankedTree, ...]  # the k best, where more than one was asked for
    was_sure: bool  # whether it took no further step because it was sure enough of the last one
    step_confidence: tuple[tuple[Confidence, ...], ...] = ()  # in the arcs of each step's graph, where it was asked for


@torch.no_grad()
def trees(plan: Plan, items: Sequence[Item]) -> list[Parsed]:
    """The final tree of each sentence in a batch: of the step by which it converged, was sure, or T was reached."""
    found: dict[int, Graph] = {}
    tags: list[tuple[tuple[str, ...], ...]] = [()] * len(items)
    for step in refine_items(plan, items, wants_trees=False):
        if step.t == 1 and plan.predicts_tags:
            tags = predicted_tags(step, plan.model)
        ending, best = _ending(plan, step)
        listed = best.listed() if ending else ([], [])
        for row in ending:
            item = items[step.sentences[row]]
            found[step.sentences[row]] = graph_of(
                listed, row, len(item.sentence), plan.model.vocabulary, item.constraints
            )
    return [Parsed(found[row], tags[row]) for row in range(len(items))]


@torch.no_grad()
def details(plan: Plan, items: Sequence[Item], *, each_step: bool = False) -> list[Details]:
    """The same trees, with the graph of each step and the confidence in each word of the tree.

    With `each_step` also with the confidence that each step had in its own graph.
    """
    vocabulary, settings = plan.model.vocabulary, plan.model.settings.confidence
    found: dict[int, Details] = {}
    graphs: list[list[Graph]] = [[] for _ in items]
    step_sure: list[list[tuple[Confidence, ...]]] = [[] for _ in items]
    tags: list[tuple[tuple[str, ...], ...]] = [()] * len(items)
    for step in refine_items(plan, items, wants_trees=False):
        if step.t == 1 and plan.predicts_tags:
            tags = predicted_tags(step, plan.model)
        of_step = step.graphs.listed()
        for row, number in enumerate(step.sentences):
            length, constraints = step.batch.lengths[row], items[number].constraints
            graphs[number].append(graph_of(of_step, row, length, vocabulary, constraints))
        if each_step:
            said = word_confidences(step.scores, step.graphs, plan.decoder, settings).tolist()
            for row, number in enumerate(step.sentences):
                step_sure[number].append(_confidences(said[row], items[number]))
        ending, best = _ending(plan, step)
        sure = word_confidences(step.scores, best, plan.decoder, settings).tolist() if ending else []
        before = _sure_of_initial(plan, step, [item.initial for item in items]) if ending else []
        listed, has_converged = best.listed(), step.converged.tolist()
        for row in ending:
            number = step.sentences[row]
            constraints, length = items[number].constraints, len(items[number].sentence)
            words = _confidences(sure[row], items[number])
            parsed = Parsed(graph_of(listed, row, length, vocabulary, constraints), tags[number])
            initial, converged = items[number].initial, has_converged[row]
            was_sure = not converged and step.t < plan.max_steps
            ranked = _ranked(plan, step, row, parsed.tree, constraints)
            found[number] = Details(
                parsed,
                initial,
                tuple(graphs[number]),
                words,
                before[row],
                converged,
                ranked,
                was_sure,
                tuple(step_sure[number]),
            )
    return [found[number] for number in range(len(items))]


def _confidences(pairs: Sequence[Sequence[float]], item: Item) -> tuple[Confidence, ...]:
    """The confidence in each word, ROOT left out; of a label that a person gave, nobody is in doubt."""
    given = item.constraints.labels
    words = pairs[1 : len(item.sentence) + 1]
    return tuple(Confidence(arc, 1.0 if word in given else label) for word, (arc, label) in enumerate(words, start=1))


def _ranked(plan: Plan, step: BatchStep, row: int, tree: Graph, constraints: Constraints) -> tuple[RankedTree, ...]:
    """The k best trees of a sentence, where more than one is asked for; the first is its parse."""
    if plan.k == 1:
        return ()
    scores, settings = step.scores.only(row, step.batch.lengths[row] + 1), plan.model.settings.confidence
    trees = ranked_trees(scores, plan.decoder, settings, plan.model.vocabulary, plan.k, constraints)
    # Of trees, or of labels, that are equal but for rounding another may have won.
    own = next((each for each in trees if each.tree.heads == tree.heads), trees[0])
    others = [each for each in trees if each.tree.heads != tree.heads]
    return (own._replace(tree=tree), *others)[: plan.k]


def _sure_of_initial(plan: Plan, step: BatchStep, arcs: Sequence[Arcs]) -> list[tuple[Confidence | None, ...]]:
    """For each sentence of a step, how sure its scores are of the arcs that it started from; None where it had none.

    An arc whose label the model cannot read is none either: nobody can say how likely that label is.
    """
    started = [arcs[number] for number in step.sentences]
    if all(head is None for each in started for head in each.heads):
        return [(None,) * len(each.heads) for each in started]
    graphs = Graphs.of(started, plan.model.vocabulary).to(plan.device)
    sure = word_confidences(step.scores, graphs, plan.decoder, plan.model.settings.confidence)
    return [
        tuple(
            Confidence(*pair) if is_read else None
            for is_read, pair in zip(read[1 : length + 1], row[1 : length + 1], strict=True)
        )
        for length, read, row in zip(
            [len(each.heads) for each in started], (graphs.labels != UNSEEN).tolist(), sure.tolist(), strict=True
        )
    ]


def _ending(plan: Plan, step: BatchStep) -> tuple[set[int], Graphs]:
    """The rows whose last step this is, and their trees."""
    ending = {row for row, is_done in enumerate(step.ended.tolist()) if is_done}
    if not ending:
        return ending, step.graphs
    return ending, plan.decoder.trees(step.scores, step.graphs, step.batch.is_word, rows=ending)


@torch.no_grad()
def steps(plan: Plan, items: Sequence[Item]) -> list[list[Step]]:
    """All steps of each sentence of a batch."""
    found: list[list[Step]] = [[] for _ in items]
    for step in refine_items(plan, items, wants_trees=True):
        decided = [items[number].constraints for number in step.sentences]
        for row, each in enumerate(steps_of(step, plan.decoder, plan.model, decided)):
            found[step.sentences[row]].append(each)
    return found
