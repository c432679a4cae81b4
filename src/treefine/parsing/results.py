"""The results of one batch: trees, full parses, or every step."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from treefine.model.batch import Graphs
from treefine.model.parser_model import ParserModel
from treefine.model.scorer import best_tag
from treefine.model.vocabulary import UNSEEN, lemma_tag, ruled_scripts, tag_names
from treefine.parsing.confidence import Confidence, RankedTree, ranked_trees, sentence_confidence, word_confidences
from treefine.parsing.parse import Parse
from treefine.parsing.plan import ParseInput, Plan, refine_inputs
from treefine.parsing.refine import BatchStep, log_best
from treefine.treebank.graph import Arcs, Graph
from treefine.treebank.sentence import Sentence

TagNames = tuple[tuple[str, ...], ...]  # the tags of one sentence, by column
SentenceTags = tuple[TagNames, Mapping[str, tuple[float, ...]]]  # the tags of one sentence, and the confidence in them
_NO_TAGS: SentenceTags = (), {}
Listed = tuple[list[list[int]], list[list[int]]]  # the heads and labels of a batch, from `Graphs.listed`


@dataclass(frozen=True)
class Step:
    """Step t of one sentence: its graph, its scores, and the tree that would be the parse if it stopped here."""

    t: int  # the number of the step, from 1
    graph: Graph  # the graph Gᵗ, which may have cycles
    tree: Graph  # the highest-scoring tree of this step
    converged: bool  # whether a further step would repeat this one
    arc_scores: Float[np.ndarray, "dep head"]  # the score of each head for each word; 0 is ROOT
    label_scores: Float[np.ndarray, "dep label"]  # the score of each label for the heads of `graph`
    labels: tuple[str, ...]  # the names of the labels in `label_scores`
    tags: tuple[tuple[str, ...], ...] = ()  # the tags predicted in this step, by column; empty without a tagger
    tag_scores: tuple[Float[np.ndarray, "word tag"], ...] = ()  # by column: the score of each tag; row 0 is ROOT
    seconds: float = 0.0  # the sentence's share of the time that its batch took for this step

    @property
    def arc_probabilities(self) -> Float[np.ndarray, "dep head"]:
        """The probability of each head for each dependent. The row of ROOT is meaningless."""
        return _softmax(self.arc_scores)

    @property
    def label_probabilities(self) -> Float[np.ndarray, "dep label"]:
        """The probability of each label for the heads of `graph`. The row of ROOT is meaningless."""
        return _softmax(self.label_scores)


def _softmax(scores: np.ndarray) -> np.ndarray:
    exponents = np.exp(scores - scores.max(-1, keepdims=True))
    result: np.ndarray = exponents / exponents.sum(-1, keepdims=True)
    return result


@torch.no_grad()
def steps(plan: Plan, inputs: Sequence[ParseInput]) -> list[list[Step]]:
    """Return all steps of each sentence of a batch."""
    results: list[list[Step]] = [[] for _ in inputs]
    start = time.perf_counter()
    for step in refine_inputs(plan, inputs, wants_trees=True):
        graphs = step.graphs.listed()
        trees = plan.decoder.trees(step.scores, step.graphs, step.batch.is_word).listed()
        seconds = (time.perf_counter() - start) / len(step.sentences)
        tags = predicted_tags(step, plan.model, [inputs[number].sentence for number in step.sentences])
        labels, converged = plan.decoder.labels_of(step.scores, step.graphs), step.converged.tolist()
        for row, number in enumerate(step.sentences):
            n_words = len(inputs[number].sentence) + 1
            results[number].append(
                Step(
                    step.t,
                    Graph.of_words(*_arcs(graphs, row, inputs[number], plan)),
                    Graph.of_words(*_arcs(trees, row, inputs[number], plan)),
                    converged[row],
                    _array(step.scores.arcs[row, :n_words, :n_words]),
                    _array(labels[row, :n_words]),
                    plan.model.vocabulary.labels,
                    tags[row],
                    tuple(_array(each[row, :n_words]) for each in step.scores.tags),
                    seconds,
                )
            )
        start = time.perf_counter()
    return results


def _array(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().float().cpu().numpy()
    return array


def _arcs(listed: Listed, row: int, item: ParseInput, plan: Plan) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return one sentence's heads and the names of its labels; labels that the user gave keep their spelling."""
    heads, labels = (each[row][1 : len(item.sentence) + 1] for each in listed)
    names, decided = plan.model.vocabulary.labels, item.constraints.labels
    return tuple(heads), tuple([decided.get(word, names[label]) for word, label in enumerate(labels, start=1)])


def predicted_tags(step: BatchStep, model: ParserModel, sentences: Sequence[Sentence]) -> list[TagNames]:
    """Return the best tags of each sentence's words, column by column; empty without a tagger.

    `sentences` are those of the step: a lemma is made from its form.
    """
    columns = model.settings.tags.columns if step.scores.tags else ()
    best = [best_tag(scores).tolist() for scores in step.scores.tags]  # one copy to the host per column
    return [
        tuple(map(tuple, tag_names(model.vocabulary, columns, [each[row][1 : len(one) + 1] for each in best], one)))
        for row, one in enumerate(sentences)
    ]


def _tags_of_step(
    step: BatchStep, plan: Plan, inputs: Sequence[ParseInput], ending: set[int], *, wants_confidences: bool
) -> dict[int, SentenceTags]:
    """Return the predicted tags of the sentences for which this step has them, by number.

    These are the sentences in the rows `ending` if later steps correct tags; else all sentences of the first step.
    """
    settings, vocabulary = plan.model.settings.tags, plan.model.vocabulary
    if not plan.predicts_tags or not (ending if settings.refined else step.t == 1):
        return {}
    columns, sentences = settings.columns, [inputs[number].sentence for number in step.sentences]
    names = predicted_tags(step, plan.model, sentences)
    if not wants_confidences:  # which take one more copy to the host per column
        return {number: (names[row], {}) for row, number in enumerate(step.sentences)}
    calibration, probabilities = list(map(plan.confidence_of, sentences)), []
    for column, scores in zip(columns, step.scores.tags, strict=True):
        temperatures = scores.new_tensor([getattr(each, f"{column}_temperature") for each in calibration])[
            :, None, None
        ]
        probabilities.append(log_best(scores / temperatures).exp().tolist())
    results: dict[int, SentenceTags] = {}
    for row, (number, sentence) in enumerate(zip(step.sentences, sentences, strict=True)):
        words = slice(1, len(sentence) + 1)
        confidences: dict[str, tuple[float, ...]]
        confidences = {name: tuple(each[row][words]) for name, each in zip(columns, probabilities, strict=True)}
        if {"lemma", lemma_tag(columns)} <= set(columns):  # a lemma by a rule is as sure as its tag, or more
            rules, doubt = ruled_scripts(vocabulary, columns, names[row], sentence), calibration[row].lemma_doubt
            of_words = zip(confidences["lemma"], confidences[lemma_tag(columns)], rules, strict=True)
            confidences["lemma"] = tuple(
                of_lemma if rule is None else max(0.0, 1 - doubt * (1 - of_tag)) for of_lemma, of_tag, rule in of_words
            )
        results[number] = names[row], confidences
    return results


@torch.no_grad()
def trees(plan: Plan, inputs: Sequence[ParseInput]) -> list[Sentence]:
    """Return each sentence of a batch with its final tree and, if the model predicts them, tags."""
    results: dict[int, Sentence] = {}
    tags: dict[int, SentenceTags] = {}
    columns = plan.model.settings.tags
    for step in refine_inputs(plan, inputs, wants_trees=False):
        ending = {row for row, is_done in enumerate(step.ended.tolist()) if is_done}
        best = plan.decoder.trees(step.scores, step.graphs, step.batch.is_word, rows=ending)
        tags |= _tags_of_step(step, plan, inputs, ending, wants_confidences=False)
        listed = best.listed() if ending else ([], [])
        for row in ending:
            number = step.sentences[row]
            arcs = Arcs(*_arcs(listed, row, inputs[number], plan))
            names = tags.get(number, _NO_TAGS)[0]
            results[number] = inputs[number].sentence.with_parse(
                arcs, columns.columns, names, replaces_tags=plan.replaces_tags, kept=columns.given
            )
    return [results[number] for number in range(len(inputs))]


@torch.no_grad()
def parses(plan: Plan, inputs: Sequence[ParseInput], *, each_step: bool = False) -> list[Parse]:
    """Return a Parse for each sentence of a batch, with its tree, its graphs and the confidence in each word.

    The trees are those of `trees`, and `spans` is empty. With `each_step`, a Parse also has the confidence of each step
    in its own graph.
    """
    results: dict[int, Parse] = {}
    graphs: list[list[Graph]] = [[] for _ in inputs]
    step_confidences: list[list[tuple[Confidence, ...]]] = [[] for _ in inputs]
    tags: dict[int, SentenceTags] = {}
    columns = plan.model.settings.tags
    for step in refine_inputs(plan, inputs, wants_trees=False):
        listed = step.graphs.listed()
        for row, number in enumerate(step.sentences):
            graphs[number].append(Graph.of_words(*_arcs(listed, row, inputs[number], plan)))
        if each_step:
            for number, words in zip(step.sentences, _confidences(plan, step, step.graphs, inputs), strict=True):
                step_confidences[number].append(words)
        ending = {row for row, is_done in enumerate(step.ended.tolist()) if is_done}
        best = plan.decoder.trees(step.scores, step.graphs, step.batch.is_word, rows=ending)
        tags |= _tags_of_step(step, plan, inputs, ending, wants_confidences=True)
        if not ending:
            continue
        confidences, before = _confidences(plan, step, best, inputs), _initial_confidences(plan, step, inputs)
        listed, converged = best.listed(), step.converged.tolist()
        for row in ending:
            number = step.sentences[row]
            item, (names, tag_confidences) = inputs[number], tags.get(number, _NO_TAGS)
            tree = Graph.of_words(*_arcs(listed, row, item, plan))
            results[number] = Parse(
                sentence=item.sentence.with_parse(
                    tree.arcs, columns.columns, names, replaces_tags=plan.replaces_tags, kept=columns.given
                ),
                spans=(),
                word_confidences=confidences[row],
                confidence=sentence_confidence(confidences[row], plan.confidence_of(item.sentence)),
                steps=tuple(graphs[number]),
                initial=item.initial,
                initial_confidences=before[row],
                trust=tuple(each.weight for each in item.evidence),
                converged=converged[row],
                trees=_ranked(plan, step, row, tree, item),
                was_sure=not converged[row] and step.t < plan.max_steps,
                step_confidences=tuple(step_confidences[number]),
                given_tags=item.sentence.words,
                tag_confidences=tag_confidences,
            )
    return [results[number] for number in range(len(inputs))]


def _confidences(
    plan: Plan, step: BatchStep, graphs: Graphs, inputs: Sequence[ParseInput], *, given_is_sure: bool = True
) -> list[tuple[Confidence, ...]]:
    """Return a step's confidence in the arcs of graphs. With `given_is_sure`, it is 1 in a label that the user gave."""
    started = [inputs[number] for number in step.sentences]
    temperatures = plan.temperatures([each.sentence for each in started])
    rows = word_confidences(step.scores, graphs, plan.decoder, *temperatures).tolist()
    given = [each.constraints.labels if given_is_sure else () for each in started]
    return [
        tuple(
            Confidence(arc, 1.0 if word in labels else label)
            for word, (arc, label) in enumerate(row[1 : len(each.sentence) + 1], start=1)
        )
        for each, row, labels in zip(started, rows, given, strict=True)
    ]


def _initial_confidences(
    plan: Plan, step: BatchStep, inputs: Sequence[ParseInput]
) -> list[tuple[Confidence | None, ...]]:
    """Return the confidence of a step in the initial arcs of its sentences; None for a word without an initial arc.

    It is also None for an arc with an unknown label, because the model has no score for that label.
    """
    initial = [inputs[number].initial for number in step.sentences]
    if all(head is None for each in initial for head in each.heads):
        return [(None,) * len(each.heads) for each in initial]
    graphs = Graphs.of(initial, plan.model.vocabulary).to(plan.device)
    is_read = (graphs.labels[:, 1:] != UNSEEN).tolist()
    return [
        tuple(confidence if is_one else None for confidence, is_one in zip(words, read, strict=False))
        for words, read in zip(_confidences(plan, step, graphs, inputs, given_is_sure=False), is_read, strict=True)
    ]


def _ranked(plan: Plan, step: BatchStep, row: int, tree: Graph, item: ParseInput) -> tuple[RankedTree, ...]:
    """Return the k best trees of a sentence, starting with its parse; empty if k is 1."""
    if plan.k == 1:
        return ()
    scores, settings = step.scores.only(row, step.batch.lengths[row] + 1), plan.confidence_of(item.sentence)
    ranked = ranked_trees(scores, plan.decoder, settings, plan.model.vocabulary, plan.k, item.constraints)
    # If several trees or labels are equal up to rounding, the search may have found another one first.
    own = next((each for each in ranked if each.tree.heads == tree.heads), ranked[0])
    others = [each for each in ranked if each.tree.heads != tree.heads]
    return (replace(own, tree=tree), *others)[: plan.k]
