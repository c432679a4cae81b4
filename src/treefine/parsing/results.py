"""The results of one batch: trees, full parses, or every step; and the steps of a treebank with their times."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from treefine.model.batch import Graphs
from treefine.model.parser_model import ParserModel
from treefine.model.vocabulary import UNSEEN, Vocabulary, lemma_tag, ruled_scripts, tag_names
from treefine.parsing.annotate import with_parse
from treefine.parsing.batches import run
from treefine.parsing.confidence import Confidence, RankedTree, ranked_trees, sentence_confidence, word_confidences
from treefine.parsing.decode import Decoder
from treefine.parsing.long_sentences import SentenceParts, in_parts, joined_parse, joined_sentence, steps_together
from treefine.parsing.parse import Parse, tags_of
from treefine.parsing.plan import Item, Plan, refine_items
from treefine.parsing.refine import BatchStep, log_best
from treefine.treebank.constraints import FREE, Constraints
from treefine.treebank.graph import ROOT, Arcs, Graph
from treefine.treebank.sentence import Sentence

if TYPE_CHECKING:
    from treefine.parsing.parser import Parser

TagNames = tuple[tuple[str, ...], ...]  # the tags of one sentence, by column
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

    @property
    def arc_probabilities(self) -> Float[np.ndarray, "dep head"]:
        """The probability of each head for each dependent. The row of ROOT is meaningless."""
        return _softmax(self.arc_scores)

    @property
    def label_probabilities(self) -> Float[np.ndarray, "dep label"]:
        """The probability of each label for the heads of `graph`. The row of ROOT is meaningless."""
        return _softmax(self.label_scores)


def steps_of(
    step: BatchStep,
    decoder: Decoder,
    model: ParserModel,
    sentences: Sequence[Sentence],
    constraints: Sequence[Constraints] = (),
) -> list[Step]:
    """Split a step of a batch into one Step per sentence. `sentences` are those of the step."""
    decided = constraints or [FREE] * len(step.batch)
    trees = decoder.trees(step.scores, step.graphs, step.batch.is_word)
    labels, tags = decoder.labels_of(step.scores, step.graphs), predicted_tags(step, model, sentences)
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
            tuple(_array(each[row, : length + 1]) for each in step.scores.tags),
        )
        for row, length in enumerate(step.batch.lengths)
    ]


def predicted_tags(step: BatchStep, model: ParserModel, sentences: Sequence[Sentence]) -> list[TagNames]:
    """Return the best tags of each sentence's words, column by column; empty without a tagger.

    `sentences` are those of the step: a lemma is made from its form.
    """
    columns = model.settings.tags.columns if step.scores.tags else ()
    best = [scores.argmax(-1).tolist() for scores in step.scores.tags]  # one copy to the host per column
    return [
        tuple(map(tuple, tag_names(model.vocabulary, columns, [each[row][1 : len(one) + 1] for each in best], one)))
        for row, one in enumerate(sentences)
    ]


class FoundTags(NamedTuple):
    """The predicted tags of one sentence, and the confidence in them."""

    names: TagNames = ()
    confidences: tuple[tuple[float, ...], ...] = ()  # the probability of each tag, by column, if they are wanted


def found_tags(
    step: BatchStep, plan: Plan, items: Sequence[Item], ending: set[int], *, wants_confidences: bool
) -> dict[int, FoundTags]:
    """Return the predicted tags of the sentences for which this step has them, by number.

    These are the sentences in the rows `ending` if later steps correct tags; else all sentences of the first step.
    """
    if not plan.predicts_tags:
        return {step.sentences[row]: FoundTags() for row in ending}
    if not (ending if plan.model.settings.tags.refined else step.t == 1):
        return {}
    sentences = [items[number].sentence for number in step.sentences]
    names = predicted_tags(step, plan.model, sentences)
    sure = [
        log_best(scores / plan.confidence.tag_temperature(column)).exp().tolist()
        for column, scores in zip(plan.model.settings.tags.columns, step.scores.tags, strict=True)
        if wants_confidences  # they take one more copy to the host per column
    ]
    return {
        number: FoundTags(
            names[row],
            _tag_confidences(plan, [each[row][1 : len(one) + 1] for each in sure], names[row], one),
        )
        for row, (number, one) in enumerate(zip(step.sentences, sentences, strict=True))
    }


def _tag_confidences(
    plan: Plan, sure: Sequence[Sequence[float]], names: TagNames, sentence: Sentence
) -> tuple[tuple[float, ...], ...]:
    """Return the confidence in the tags of one sentence. A lemma by a rule is as sure as its tag, or more."""
    columns, vocabulary = plan.model.settings.tags.columns, plan.model.vocabulary
    found = [tuple(each) for each in sure]
    if sure and {"lemma", lemma_tag(columns)} <= set(columns):
        place, tag = columns.index("lemma"), columns.index(lemma_tag(columns))
        rules = ruled_scripts(vocabulary, columns, names, sentence)
        found[place] = tuple(
            own if rule is None else max(0.0, 1 - plan.confidence.lemma_doubt * (1 - of_tag))
            for own, of_tag, rule in zip(sure[place], sure[tag], rules, strict=True)
        )
    return tuple(found)


def graph_of(
    listed: Listed,
    row: int,
    length: int,
    vocabulary: Vocabulary,
    constraints: Constraints = FREE,
) -> Graph:
    """Return one sentence's graph with label names; labels that the user gave keep their spelling."""
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


@in_parts(joined_sentence)
@torch.no_grad()
def trees(plan: Plan, items: Sequence[Item]) -> list[Sentence]:
    """Return each sentence of a batch with its final tree and, if the model predicts them, tags (`with_parse`)."""
    found: dict[int, Sentence] = {}
    tags: dict[int, FoundTags] = {}
    for step in refine_items(plan, items, wants_trees=False):
        ending, best = _ending(plan, step)
        tags |= found_tags(step, plan, items, ending, wants_confidences=False)
        listed = best.listed() if ending else ([], [])
        for row in ending:
            number = step.sentences[row]
            found[number] = _filled(items[number], _graph(listed, row, items[number], plan), tags[number], plan)
    return [found[number] for number in range(len(items))]


@in_parts(joined_parse)
@torch.no_grad()
def parses(plan: Plan, items: Sequence[Item], *, each_step: bool = False) -> list[Parse]:
    """Return a Parse for each sentence of a batch, with its tree, its graphs and the confidence in each word.

    The trees are those of `trees`, and `spans` is empty. With `each_step`, a Parse also has the confidence of each step
    in its own graph.
    """
    settings = plan.confidence
    found: dict[int, Parse] = {}
    graphs: list[list[Graph]] = [[] for _ in items]
    step_confidences: list[list[tuple[Confidence, ...]]] = [[] for _ in items]
    tags: dict[int, FoundTags] = {}
    for step in refine_items(plan, items, wants_trees=False):
        of_step = step.graphs.listed()
        for row, number in enumerate(step.sentences):
            graphs[number].append(_graph(of_step, row, items[number], plan))
        if each_step:
            of_words = word_confidences(step.scores, step.graphs, plan.decoder, settings).tolist()
            for row, number in enumerate(step.sentences):
                step_confidences[number].append(_confidences(of_words[row], items[number]))
        ending, best = _ending(plan, step)
        tags |= found_tags(step, plan, items, ending, wants_confidences=True)
        if not ending:
            continue
        of_words = word_confidences(step.scores, best, plan.decoder, settings).tolist()
        before = _initial_confidences(plan, step, [item.initial for item in items])
        listed, converged = best.listed(), step.converged.tolist()
        for row in ending:
            number = step.sentences[row]
            item, words = items[number], _confidences(of_words[row], items[number])
            tree = _graph(listed, row, item, plan)
            found[number] = Parse(
                sentence=_filled(item, tree, tags[number], plan),
                spans=(),
                word_confidences=words,
                confidence=sentence_confidence(words, settings),
                steps=tuple(graphs[number]),
                initial=item.initial,
                initial_confidences=before[row],
                trust=tuple(each.weight for each in item.evidence),
                converged=converged[row],
                trees=_ranked(plan, step, row, tree, item.constraints),
                was_sure=not converged[row] and step.t < plan.max_steps,
                step_confidences=tuple(step_confidences[number]),
                given_tags=tags_of(item.sentence),
                tag_confidences=dict(zip(plan.model.settings.tags.columns, tags[number].confidences, strict=False)),
            )
    return [found[number] for number in range(len(items))]


def _graph(listed: Listed, row: int, item: Item, plan: Plan) -> Graph:
    return graph_of(listed, row, len(item.sentence), plan.model.vocabulary, item.constraints)


def _filled(item: Item, tree: Graph, tags: FoundTags, plan: Plan) -> Sentence:
    settings = plan.model.settings.tags
    return with_parse(
        item.sentence,
        tree.arcs,
        settings.columns,
        tags.names,
        replaces_tags=plan.replaces_tags,
        kept=settings.given,
    )


def _confidences(pairs: Sequence[Sequence[float]], item: Item) -> tuple[Confidence, ...]:
    """Return the confidence in each word, without ROOT; a label that the user gave has confidence 1."""
    given = item.constraints.labels
    words = pairs[1 : len(item.sentence) + 1]
    return tuple(Confidence(arc, 1.0 if word in given else label) for word, (arc, label) in enumerate(words, start=1))


def _ranked(plan: Plan, step: BatchStep, row: int, tree: Graph, constraints: Constraints) -> tuple[RankedTree, ...]:
    """Return the k best trees of a sentence, starting with its parse; empty if k is 1."""
    if plan.k == 1:
        return ()
    scores, settings = step.scores.only(row, step.batch.lengths[row] + 1), plan.confidence
    trees = ranked_trees(scores, plan.decoder, settings, plan.model.vocabulary, plan.k, constraints)
    # If several trees or labels are equal up to rounding, the search may have found another one first.
    own = next((each for each in trees if each.tree.heads == tree.heads), trees[0])
    others = [each for each in trees if each.tree.heads != tree.heads]
    return (replace(own, tree=tree), *others)[: plan.k]


def _initial_confidences(plan: Plan, step: BatchStep, arcs: Sequence[Arcs]) -> list[tuple[Confidence | None, ...]]:
    """Return the confidence of a step in the initial arcs of its sentences; None for a word without an initial arc.

    It is also None for an arc with an unknown label, because the model has no score for that label.
    """
    started = [arcs[number] for number in step.sentences]
    if all(head is None for each in started for head in each.heads):
        return [(None,) * len(each.heads) for each in started]
    graphs = Graphs.of(started, plan.model.vocabulary).to(plan.device)
    sure = word_confidences(step.scores, graphs, plan.decoder, plan.confidence)
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
    """Return the rows for which this is the last step, and the graphs of the batch with their trees filled in."""
    ending = {row for row, is_done in enumerate(step.ended.tolist()) if is_done}
    if not ending:
        return ending, step.graphs
    return ending, plan.decoder.trees(step.scores, step.graphs, step.batch.is_word, rows=ending)


class StepInParts(Step):
    """A step of a long sentence. Its arc scores are computed when they are read, because they need much memory."""

    _parts: tuple[tuple[range, Step], ...]  # the words of each part, and its step
    _main: range

    def __init__(self, parts: SentenceParts, steps: Sequence[Step]) -> None:
        tree = parts.tree([each.tree for each in steps]).tree
        values = {
            "t": max(each.t for each in steps),
            "graph": parts.graph([each.graph for each in steps], tree.roots[0]),
            "tree": tree,
            "converged": all(each.converged for each in steps),
            "label_scores": np.concatenate([steps[0].label_scores[:1], *(each.label_scores[1:] for each in steps)]),
            "labels": steps[0].labels,
            "tags": tuple(
                tuple(chain.from_iterable(each)) for each in zip(*(each.tags for each in steps), strict=True)
            ),
            "tag_scores": tuple(
                np.concatenate([each[0][:1], *(part[1:] for part in each)])
                for each in zip(*(each.tag_scores for each in steps), strict=True)
            ),
            "_parts": tuple(zip(parts.words, steps, strict=True)),
            "_main": parts.main,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def arc_scores(self) -> Float[np.ndarray, "dep head"]:
        """The score of each head for each word; -inf for a head in another part, except the root of the sentence."""
        n_words = len(self.graph) + 1
        scores = np.full((n_words, n_words), -np.inf, np.float32)
        scores[ROOT] = 0
        for words, step in self._parts:
            scores[words.start : words.stop, words.start : words.stop] = step.arc_scores[1:, 1:]
            root = ROOT if words == self._main else self.tree.roots[0]
            scores[words.start : words.stop, root] = step.arc_scores[1:, 0]
        return scores


def _joined_steps(plan: Plan, parts: SentenceParts, found: Sequence[list[Step]]) -> list[Step]:
    """Join the steps of the parts of a sentence."""
    return [StepInParts(parts, steps) for steps in steps_together(found)]


@in_parts(_joined_steps)
@torch.no_grad()
def steps(plan: Plan, items: Sequence[Item]) -> list[list[Step]]:
    """Return all steps of each sentence of a batch."""
    found: list[list[Step]] = [[] for _ in items]
    for step in refine_items(plan, items, wants_trees=True):
        decided = [items[number].constraints for number in step.sentences]
        sentences = [items[number].sentence for number in step.sentences]
        for row, each in enumerate(steps_of(step, plan.decoder, plan.model, sentences, decided)):
            found[step.sentences[row]].append(each)
    return found


class TimedTree(NamedTuple):
    """The tree of one sentence after one step, and whether a further step would repeat that step."""

    tree: Arcs
    converged: bool


@dataclass(frozen=True)
class TimedSteps:
    """The steps of all sentences and their times. A sentence that has converged has no further steps."""

    initial: list[Arcs] | None  # G⁰; None if no word of any sentence had a head
    steps: list[list[TimedTree]]  # of each sentence, for t = 1 …
    initial_seconds: float
    seconds: tuple[float, ...]  # for t = 1 … T: scores, graphs and trees; t = 1 includes the split into pieces
    sentences: tuple[int, ...]  # how many sentences were refined in t = 1 … T
    predicts_tags: bool  # if so, a sentence that lacks tags cannot converge in t = 1

    @property
    def first(self) -> int:
        """The t of the first trees: 0 with initial parses, else 1."""
        return 1 if self.initial is None else 0

    @property
    def trees(self) -> list[list[Arcs]]:
        """The trees of each t from `first` on; a sentence that has converged keeps its last tree."""
        by_step = [[found[min(t, len(found) - 1)].tree for found in self.steps] for t in range(len(self.seconds))]
        return by_step if self.initial is None else [self.initial, *by_step]

    @property
    def converged(self) -> list[int]:
        """The number of sentences that had converged by each t after `first`."""
        stopped = [len(found) for found in self.steps if found[-1].converged]
        return [sum(each <= t for each in stopped) for t in range(self.first + 1, len(self.seconds) + 1)]


def timed_steps(
    parser: Parser, sentences: Sequence[Sentence], *, on_sentences: Callable[[int], None] = lambda _: None
) -> TimedSteps:
    """Refine the sentences with a tree at every step, as the paper's analyses do, and measure the time of each t.

    `on_sentences` is called with the number of sentences that have just been finished.
    """
    plan = parser.using(keep="nothing").plan()
    start = _now(parser.device)
    arcs = list(plan.initial(sentences))
    initial_seconds = _now(parser.device) - start
    seconds, refined = [0.0] * parser.max_steps, [0] * parser.max_steps

    @in_parts(_joined_trees)
    @torch.no_grad()
    def timed(plan: Plan, items: Sequence[Item]) -> list[list[TimedTree]]:
        found: list[list[TimedTree]] = [[] for _ in items]
        ends = [_now(plan.device)]
        for step in refine_items(plan, items, wants_trees=True):
            trees = plan.decoder.trees(step.scores, step.graphs, step.batch.is_word).listed()
            for row, (length, converged) in enumerate(zip(step.batch.lengths, step.converged.tolist(), strict=True)):
                tree = graph_of(trees, row, length, plan.model.vocabulary)
                found[step.sentences[row]].append(TimedTree(tree.arcs, converged))
            ends.append(_now(plan.device))
        for t in range(len(ends) - 1):  # only now: a batch that runs out of memory is repeated in halves
            seconds[t] += ends[t + 1] - ends[t]
        return found

    def work(plan: Plan, items: Sequence[Item]) -> list[list[TimedTree]]:
        found = timed(plan, items)
        for t in range(parser.max_steps):
            refined[t] += sum(len(each) > t for each in found)
        on_sentences(len(items))
        return found

    plan = replace(plan, initial=lambda _: iter(arcs), trust=())
    steps = [found for _, found in run(plan, sentences, work, one_by_one=True)]
    has_initial = any(head is not None for each in arcs for head in each.heads)
    initial = arcs if has_initial else None
    return TimedSteps(initial, steps, initial_seconds, tuple(seconds), tuple(refined), plan.predicts_tags)


def _joined_trees(plan: Plan, parts: SentenceParts, found: Sequence[list[TimedTree]]) -> list[TimedTree]:
    """Join the trees of the parts of a long sentence at each step."""
    joined = []
    for steps in steps_together(found):
        trees = [Graph.of_words([head or ROOT for head in each.tree.heads], each.tree.labels) for each in steps]
        joined.append(TimedTree(parts.tree(trees).tree.arcs, all(each.converged for each in steps)))
    return joined


def _now(device: torch.device) -> float:
    """Return the time in seconds, after the device has finished its queued work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
