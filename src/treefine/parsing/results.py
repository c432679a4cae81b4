"""The results of one batch: trees, full parses, or every step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import starmap
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from treefine.model.batch import Graphs
from treefine.model.parser_model import ParserModel
from treefine.model.scorer import best_tag
from treefine.model.vocabulary import UNSEEN, lemma_tag, ruled_scripts, tag_names
from treefine.parsing.confidence import Confidence, RankedTree, ranked_trees, sentence_confidences, word_confidences
from treefine.parsing.parse import Parse
from treefine.parsing.plan import ParseInput, Plan, refine_inputs
from treefine.parsing.refine import BatchStep, log_best
from treefine.treebank.graph import Arcs, Graph
from treefine.treebank.sentence import Sentence

TagNames = tuple[tuple[str, ...], ...]  # the tags of one sentence, by column
SentenceTags = tuple[TagNames, Mapping[str, tuple[float, ...]]]  # the tags of one sentence, and the confidence in them
_NO_TAGS: SentenceTags = (), {}
_HeadsAndLabels = tuple[np.ndarray, np.ndarray]  # of the words of one sentence
_Member = TypeVar("_Member")


class Lazy(Sequence[_Member]):
    """A tuple that is made when it is first read: most results are never looked at."""

    def __init__(self, make: Callable[[], Iterable[_Member]]) -> None:
        self._make = make

    @cached_property
    def _members(self) -> tuple[_Member, ...]:
        return tuple(self._make())

    def __getitem__(self, index: Any) -> Any:
        """Return a member, or a tuple of some."""
        return self._members[index]

    def __len__(self) -> int:
        """Return the number of members."""
        return len(self._members)

    def __eq__(self, other: object) -> bool:
        """Compare with another sequence."""
        return isinstance(other, Sequence) and self._members == tuple(other)

    def __hash__(self) -> int:
        """Return the hash of the tuple."""
        return hash(self._members)

    def __repr__(self) -> str:
        """Return the representation of the tuple."""
        return repr(self._members)

    def __reduce__(self) -> tuple[type, tuple[tuple[_Member, ...]]]:
        """Pickle and copy the tuple."""
        return tuple, (self._members,)


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
    for step in refine_inputs(plan, inputs):
        graphs = _by_sentence(step.graphs, step)
        trees = _by_sentence(plan.decoder.trees(step.scores, step.graphs, step.batch.is_word), step)
        seconds = (time.perf_counter() - start) / len(step.sentences)
        tags = predicted_tags(step, plan.model, [inputs[number].sentence for number in step.sentences])
        labels, converged = plan.decoder.labels_of(step.scores, step.graphs), step.converged.tolist()
        for row, number in enumerate(step.sentences):
            n_words = len(inputs[number].sentence) + 1
            results[number].append(
                Step(
                    step.t,
                    Graph.of_words(*_arcs(graphs[row], *_names(inputs[number], plan))),
                    Graph.of_words(*_arcs(trees[row], *_names(inputs[number], plan))),
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


def _by_sentence(graphs: Graphs, step: BatchStep) -> list[_HeadsAndLabels]:
    """Return the heads and label ids of each sentence's words, with only two copies from the device."""
    heads, labels = graphs.heads.cpu().numpy(), graphs.labels.cpu().numpy()
    lengths = enumerate(step.batch.lengths)
    return [(heads[row, 1 : length + 1].copy(), labels[row, 1 : length + 1].copy()) for row, length in lengths]


def _names(item: ParseInput, plan: Plan) -> tuple[tuple[str, ...], Mapping[int, str]]:
    """Return the names of all labels, and the labels that the user gave, by word."""
    return plan.model.vocabulary.labels, item.constraints.labels


def _arcs(
    arcs: _HeadsAndLabels, names: Sequence[str], decided: Mapping[int, str]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return one sentence's heads and the names of its labels; labels that the user gave keep their spelling."""
    labels = [names[label] for label in arcs[1].tolist()]
    for word, label in decided.items():
        labels[word - 1] = label
    return tuple(arcs[0].tolist()), tuple(labels)


def _graphs(arcs: Sequence[_HeadsAndLabels], names: Sequence[str], decided: Mapping[int, str]) -> Iterator[Graph]:
    return (Graph.of_words(*_arcs(each, names, decided)) for each in arcs)


def predicted_tags(step: BatchStep, model: ParserModel, sentences: Sequence[Sentence]) -> list[TagNames]:
    """Return the best tags of each sentence's words, column by column; empty without a tagger.

    `sentences` are those of the step: a lemma is made from its form.
    """
    return _names_of(_tag_scores(step, range(len(sentences))), model, sentences)


def _tag_scores(step: BatchStep, rows: Sequence[int]) -> list[Float[Tensor, "word tag"]]:
    """Return the scores of the tags of the words of some sentences, laid end to end without ROOT, by column."""
    scores = step.scores
    if scores.tagger is None:
        return []
    is_row = torch.zeros(len(step.batch), dtype=torch.bool)
    is_row[list(rows)] = True
    is_chosen = scores.of_rows(is_row.to(scores.words.device)) & (scores.places % scores.arcs.shape[1] > 0)
    return list(scores.tagger(scores.words[is_chosen]))


def _names_of(
    scores: Sequence[Float[Tensor, "word tag"]], model: ParserModel, sentences: Sequence[Sentence]
) -> list[TagNames]:
    columns, start, found = model.settings.tags.columns if scores else (), 0, list[TagNames]()
    best = [best_tag(each).tolist() for each in scores]  # one copy to the host per column
    for sentence in sentences:
        stop = start + len(sentence)
        names = tag_names(model.vocabulary, columns, [each[start:stop] for each in best], sentence)
        found.append(tuple(map(tuple, names)))
        start = stop
    return found


def _tags_of_step(
    step: BatchStep, plan: Plan, inputs: Sequence[ParseInput], ending: Sequence[int], *, wants_confidences: bool
) -> dict[int, SentenceTags]:
    """Return the predicted tags of the sentences for which this step has them, by number.

    These are the sentences in the rows `ending` if later steps correct tags, as those of a model with stages do; else
    all sentences of the first step.
    """
    settings, vocabulary = plan.model.settings.tags, plan.model.vocabulary
    are_refined = settings.refined or len(plan.model.settings.stage_ends) > 1
    rows = ending if are_refined else range(len(step.batch)) if step.t == 1 else ()
    if not plan.predicts_tags or not rows:
        return {}
    columns, numbers = settings.columns, [step.sentences[row] for row in rows]
    sentences = [inputs[number].sentence for number in numbers]
    scores = _tag_scores(step, rows)
    names = _names_of(scores, plan.model, sentences)
    if not wants_confidences:
        return {number: (each, {}) for number, each in zip(numbers, names, strict=True)}
    calibration = [plan.confidence_of(sentence, step.scores.stage) for sentence in sentences]
    stops = np.cumsum(list(map(len, sentences)))
    probabilities = []
    for column, of_column in zip(columns, scores, strict=True):
        temperatures = [getattr(each, f"{column}_temperature") for each in calibration]
        of_words = torch.tensor(np.repeat(temperatures, list(map(len, sentences))), dtype=of_column.dtype)
        best = log_best(of_column / of_words[:, None].to(of_column.device)).exp()
        probabilities.append([each.tolist() for each in np.split(best.cpu().numpy(), stops[:-1])])
    results: dict[int, SentenceTags] = {}
    confidences: dict[str, tuple[float, ...]]
    for place, (number, sentence) in enumerate(zip(numbers, sentences, strict=True)):
        confidences = {name: tuple(each[place]) for name, each in zip(columns, probabilities, strict=True)}
        if {"lemma", lemma_tag(columns)} <= set(columns):  # a lemma by a rule is as sure as its tag, or more
            rules, doubt = ruled_scripts(vocabulary, columns, names[place], sentence), calibration[place].lemma_doubt
            of_lemmas = zip(confidences["lemma"], confidences[lemma_tag(columns)], rules, strict=True)
            confidences["lemma"] = tuple(
                of_lemma if rule is None else max(0.0, 1 - doubt * (1 - of_tag)) for of_lemma, of_tag, rule in of_lemmas
            )
        results[number] = names[place], confidences
    return results


def _ending(step: BatchStep) -> list[int]:
    """Return the rows of the sentences that end with this step."""
    return [row for row, has_ended in enumerate(step.ended.tolist()) if has_ended]


@torch.no_grad()
def trees(plan: Plan, inputs: Sequence[ParseInput]) -> list[Sentence]:
    """Return each sentence of a batch with its final tree and, if the model predicts them, tags."""
    results: dict[int, Sentence] = {}
    tags: dict[int, SentenceTags] = {}
    columns = plan.model.settings.tags
    for step in refine_inputs(plan, inputs):
        ending = _ending(step)
        best = _by_sentence(plan.decoder.trees(step.scores, step.graphs, step.batch.is_word, rows=ending), step)
        tags |= _tags_of_step(step, plan, inputs, ending, wants_confidences=False)
        for row in ending:
            number = step.sentences[row]
            arcs = Arcs(*_arcs(best[row], *_names(inputs[number], plan)))
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
    graphs: list[list[_HeadsAndLabels]] = [[] for _ in inputs]
    step_confidences: list[list[Sequence[Confidence]]] = [[] for _ in inputs]
    tags: dict[int, SentenceTags] = {}
    columns = plan.model.settings.tags
    for step in refine_inputs(plan, inputs):
        for number, of_graph in zip(step.sentences, _by_sentence(step.graphs, step), strict=True):
            graphs[number].append(of_graph)
        if each_step:
            for number, (_, words) in zip(step.sentences, _confidences(plan, step, step.graphs, inputs), strict=True):
                step_confidences[number].append(words)
        ending = _ending(step)
        tags |= _tags_of_step(step, plan, inputs, ending, wants_confidences=True)
        if not ending:
            continue
        best = plan.decoder.trees(step.scores, step.graphs, step.batch.is_word, rows=ending)
        confidences, before = _confidences(plan, step, best, inputs), _initial_confidences(plan, step, inputs)
        arcs, converged = _by_sentence(best, step), step.converged.tolist()
        for row in ending:
            number = step.sentences[row]
            item, (names, tag_confidences) = inputs[number], tags.get(number, _NO_TAGS)
            (heads, labels), (confidence, of_words) = _arcs(arcs[row], *_names(item, plan)), confidences[row]
            results[number] = Parse(
                sentence=item.sentence.with_parse(
                    Arcs(heads, labels), columns.columns, names, replaces_tags=plan.replaces_tags, kept=columns.given
                ),
                spans=(),
                word_confidences=of_words,
                confidence=confidence,
                steps=Lazy(partial(_graphs, graphs[number], *_names(item, plan))),
                initial=item.initial,
                initial_confidences=before[row],
                trust=tuple(each.weight for each in item.evidence),
                converged=converged[row],
                trees=_ranked(plan, step, row, Graph.of_words(heads, labels), item) if plan.k > 1 else (),
                was_sure=not converged[row] and step.t < plan.max_steps,
                step_confidences=tuple(step_confidences[number]),
                given_tags=Lazy(partial(getattr, item.sentence, "words")),
                tag_confidences=tag_confidences,
            )
    return [results[number] for number in range(len(inputs))]


def _confidences(
    plan: Plan, step: BatchStep, graphs: Graphs, inputs: Sequence[ParseInput], *, given_is_sure: bool = True
) -> list[tuple[float, Sequence[Confidence]]]:
    """Return a step's confidence in each whole graph and in its arcs.

    With `given_is_sure`, the confidence in a label that the user gave is 1.
    """
    started = [inputs[number] for number in step.sentences]
    sentences, stage = [each.sentence for each in started], step.scores.stage
    temperatures = plan.temperatures(sentences, stage)
    of_batch = word_confidences(step.scores, graphs, plan.decoder, *temperatures).double().cpu().numpy()
    if given_is_sure:
        for row, each in enumerate(started):
            of_batch[row, [*each.constraints.labels], 1] = 1.0
    settings = [plan.confidence_of(sentence, stage) for sentence in sentences]
    whole = sentence_confidences(of_batch.prod(-1), step.batch.lengths, settings)
    rows = [words[1 : length + 1] for words, length in zip(of_batch.tolist(), step.batch.lengths, strict=True)]
    return [(sure, Lazy(partial(starmap, Confidence, words))) for sure, words in zip(whole, rows, strict=True)]


def _initial_confidences(
    plan: Plan, step: BatchStep, inputs: Sequence[ParseInput]
) -> list[Sequence[Confidence | None]]:
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
        for (_, words), read in zip(_confidences(plan, step, graphs, inputs, given_is_sure=False), is_read, strict=True)
    ]


def _ranked(plan: Plan, step: BatchStep, row: int, tree: Graph, item: ParseInput) -> tuple[RankedTree, ...]:
    """Return the k best trees of a sentence, starting with its parse."""
    scores, settings = step.scores.only(row), plan.confidence_of(item.sentence, step.scores.stage)
    ranked = ranked_trees(scores, plan.decoder, settings, plan.model.vocabulary, plan.k, item.constraints)
    # If several trees or labels are equal up to rounding, the search may have found another one first.
    own = next((each for each in ranked if each.tree.heads == tree.heads), ranked[0])
    others = [each for each in ranked if each.tree.heads != tree.heads]
    return (replace(own, tree=tree), *others)[: plan.k]
