"""Sentences through a model in batches, and back in the order they came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import tee
from typing import NamedTuple, TypeVar

import torch

from treefine.config import TagSource, TransformerSettings
from treefine.errors import TreefineError
from treefine.network.batch import N_SPECIALS, Batch, Graphs
from treefine.network.biaffine import Scores
from treefine.network.model import ParserModel
from treefine.network.vocabulary import UNSEEN
from treefine.parsing.alternatives import RankedTree, ranked_trees
from treefine.parsing.batching import batches, chunks, halving, is_out_of_memory
from treefine.parsing.confidence import Confidence, word_confidences
from treefine.parsing.constrain import allowed_of, check_constraints, named_as_given
from treefine.parsing.decode import Decoder, made_trees
from treefine.parsing.initial import InitialParser
from treefine.parsing.refine import BatchStep, Tags, refine
from treefine.parsing.stable import stable_scores
from treefine.parsing.steps import Step, graph_of, predicted_tags, steps_of
from treefine.treebank.constraints import Constrain, Constraints, unconstrained
from treefine.treebank.graph import Arcs, Graph
from treefine.treebank.sentence import Sentence

Result = TypeVar("Result")

WINDOWS_AT_ONCE = 8  # of a sentence too long for the encoder
CPU_PIECES = 1000  # that a transformer scores together on a CPU; of more, the numbers no longer stay in its cache


@dataclass(frozen=True)
class Plan:
    """How sentences are to be parsed."""

    model: ParserModel
    device: torch.device
    batch_pieces: int  # in a batch, padding counted
    initial: InitialParser
    max_steps: int  # T
    tags: TagSource
    decoder: Decoder
    constrain: Constrain = unconstrained
    k: int = 1  # trees of a sentence that `details` gives

    @property
    def predicts_tags(self) -> bool:
        """Whether the model's tagger fills in the tags that are not read from the sentences."""
        return self.tags != "none" and self.model.settings.tags.source == "predicted"

    @property
    def most_pieces(self) -> int:
        """What a batch holds at most: `batch_pieces`, or less where that is faster."""
        is_on_cpu = self.device.type == "cpu" and isinstance(self.model.settings.encoder, TransformerSettings)
        return min(self.batch_pieces, CPU_PIECES) if is_on_cpu else self.batch_pieces


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


class Item(NamedTuple):
    """A sentence to parse, what to start from, and what a person decided about it."""

    sentence: Sentence
    initial: Arcs
    constraints: Constraints
    known: Constraints  # the same, as the model reads it


Work = Callable[[Plan, Sequence[Item]], list[Result]]


def run(
    plan: Plan, sentences: Iterable[Sentence], work: Work[Result], *, skip: int = 0
) -> Iterator[tuple[Sentence, Result]]:
    """Each sentence with what `work` (`trees`, `details` or `steps`) makes of it, in the order they came.

    The first `skip` are left out, mostly without work: those after them are in the same batches as without it, so that
    their numbers are the same to the last digit.
    """
    items = _items(plan, sentences)
    encoder = plan.model.settings.encoder
    longest = encoder.n_positions if isinstance(encoder, TransformerSettings) else plan.batch_pieces

    def size(item: Item) -> int:
        if plan.model.subwords is None:
            return len(item.sentence) + 1
        return sum(map(len, plan.model.subwords.pieces_of(item.sentence.forms))) + N_SPECIALS

    for chunk in chunks(items, size, plan.most_pieces):
        if skip >= len(chunk):
            skip -= len(chunk)
            continue
        results: dict[int, Result] = {}

        def on_some(numbers: Sequence[int], chunk: list[Item] = chunk) -> list[Result]:
            return work(plan, [chunk[number] for number in numbers])

        def on_one(number: int, chunk: list[Item] = chunk) -> TreefineError:
            hint = "Choose another device, or a smaller model."
            return chunk[number].sentence.error("Memory does not suffice for this sentence.", hint=hint)

        for numbers in batches([size(item) for item in chunk], plan.most_pieces, longest):
            results.update(zip(numbers, halving(numbers, on_some, on_one), strict=True))
        for number in range(skip, len(chunk)):
            yield chunk[number].sentence, results[number]
        skip = 0


def _items(plan: Plan, sentences: Iterable[Sentence]) -> Iterator[Item]:
    """Each sentence with its initial parse and its constraints; what does not fit it is refused."""
    ours, for_initial, for_constraints = tee(sentences, 3)
    parses, decided = plan.initial(for_initial), plan.constrain(for_constraints)
    for sentence in ours:
        arcs, constraints = next(parses, None), next(decided, None)
        heads = () if arcs is None else arcs.heads
        if arcs is None or len(heads) != len(sentence) or len(arcs.labels) != len(sentence):
            raise sentence.error("The initial parser gave no head and label for each word of this sentence.")
        if any(head is not None and not 0 <= head <= len(sentence) for head in heads):
            raise sentence.error("The initial parser gave a head that is no word of this sentence.")
        if constraints is None:
            raise sentence.error("There are no constraints for this sentence, though there were for those before.")
        known = constraints
        if constraints:
            known = constraints.read_by(plan.model.vocabulary.labels)
            check_constraints(sentence, known, plan.decoder, plan.model.vocabulary)
            arcs = named_as_given(arcs, constraints, known)
        yield Item(sentence, arcs, constraints, known)
    for _ in parses:  # where there are more, some know why that is wrong
        raise TreefineError("The initial parser gave more parses than there are sentences.")
    for _ in decided:
        raise TreefineError("There are constraints for more sentences than there are.")


@torch.no_grad()
def trees(plan: Plan, items: Sequence[Item]) -> list[Parsed]:
    """The final tree of each sentence of a batch: that of its last step, by which it converged or T was reached."""
    found: dict[int, Graph] = {}
    tags: list[tuple[tuple[str, ...], ...]] = [()] * len(items)
    for step in steps_of_batch(plan, items, wants_trees=False):
        if step.t == 1 and plan.predicts_tags:
            tags = [predicted_tags(step, row, plan.model) for row in range(len(items))]
        ending, graphs = _ending(plan, step)
        for row in ending:
            item = items[step.sentences[row]]
            found[step.sentences[row]] = graph_of(
                graphs, row, len(item.sentence), plan.model.vocabulary, item.constraints
            )
    return [Parsed(found[row], tags[row]) for row in range(len(items))]


@torch.no_grad()
def details(plan: Plan, items: Sequence[Item]) -> list[Details]:
    """The same trees, with the graph of each step and the confidence in each word of the tree."""
    vocabulary, settings = plan.model.vocabulary, plan.model.settings.confidence
    found: dict[int, Details] = {}
    graphs: list[list[Graph]] = [[] for _ in items]
    tags: list[tuple[tuple[str, ...], ...]] = [()] * len(items)
    for step in steps_of_batch(plan, items, wants_trees=False):
        if step.t == 1 and plan.predicts_tags:
            tags = [predicted_tags(step, row, plan.model) for row in range(len(items))]
        for row, number in enumerate(step.sentences):
            length, constraints = step.batch.lengths[row], items[number].constraints
            graphs[number].append(graph_of(step.graphs, row, length, vocabulary, constraints))
        ending, best = _ending(plan, step)
        sure = word_confidences(step.scores, best, plan.decoder, settings).tolist() if ending else []
        before = _sure_of_initial(plan, step, [item.initial for item in items]) if ending else []
        for row in ending:
            number = step.sentences[row]
            constraints, length = items[number].constraints, len(items[number].sentence)
            words = tuple(Confidence(*pair) for pair in sure[row][1 : length + 1])
            words = tuple(
                Confidence(each.arc, 1.0) if word in constraints.labels else each
                for word, each in enumerate(words, start=1)
            )
            parsed = Parsed(graph_of(best, row, length, vocabulary, constraints), tags[number])
            initial, converged = items[number].initial, bool(step.converged[row])
            ranked = _ranked(plan, step, row, parsed.tree, constraints)
            found[number] = Details(parsed, initial, tuple(graphs[number]), words, before[row], converged, ranked)
    return [found[number] for number in range(len(items))]


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
    is_last = step.t == plan.max_steps
    ending = {row for row, is_done in enumerate(step.converged.tolist()) if is_done or is_last}
    return ending, plan.decoder.trees(step.scores, step.graphs, step.batch.is_word, rows=ending)


@torch.no_grad()
def steps(plan: Plan, items: Sequence[Item]) -> list[list[Step]]:
    """All steps of each sentence of a batch."""
    found: list[list[Step]] = [[] for _ in items]
    for step in steps_of_batch(plan, items, wants_trees=True):
        decided = [items[number].constraints for number in step.sentences]
        for row, each in enumerate(steps_of(step, plan.decoder, plan.model, decided)):
            found[step.sentences[row]].append(each)
    return found


def steps_of_batch(plan: Plan, items: Sequence[Item], *, wants_trees: bool) -> Iterator[BatchStep]:
    """The refinement of one batch; `wants_trees` if each step's trees are asked for, not the last one's alone."""
    model, decoder = plan.model, plan.decoder
    sentences = [item.sentence for item in items]
    initial = Graphs.of([item.known.put_into(item.initial) for item in items], model.vocabulary).to(plan.device)
    allowed = allowed_of([item.known for item in items], list(map(len, sentences)), decoder, model.vocabulary)
    batch = replace(model.batch_of(sentences), allowed=allowed)
    first_trees = made_trees(model, initial)

    def score(batch: Batch, graphs: Graphs, tags: Tags | None, t: int) -> Scores:
        needs_trees = wants_trees or t == plan.max_steps or (t == 1 and bool(first_trees))
        return stable_scores(partial(_score, plan), decoder, batch, graphs, tags, needs_trees=needs_trees)

    def decode(scores: Scores, batch: Batch, t: int) -> Graphs:
        return decoder.graphs(scores, batch.is_word, as_trees=first_trees if t == 1 else ())

    return refine(
        score,
        batch.to(plan.device),
        initial,
        max_steps=plan.max_steps,
        decode=decode,
        tags=model.given_tags(sentences).to(plan.device) if plan.tags == "given" else None,
        predict_tags=plan.predicts_tags,
    )


def _score(plan: Plan, batch: Batch, graphs: Graphs, tags: Tags | None) -> Scores:
    """The model's scores; the windows of one long sentence are encoded in as many parts as memory asks for."""
    rows_at_once = min(batch.inputs.n_rows, WINDOWS_AT_ONCE) if len(batch) == 1 else None
    while True:
        try:
            with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):  # else a GPU's LSTM rounds to 10 bits
                scores: Scores = plan.model(batch, graphs, tags, rows_at_once=rows_at_once)
            return scores if batch.allowed is None else scores.within(batch.allowed)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error) or rows_at_once in (None, 1):
                raise
            rows_at_once = (rows_at_once or 2) // 2
