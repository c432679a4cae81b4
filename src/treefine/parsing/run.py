"""Sentences through a model in batches, and back in the order they came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import tee
from typing import NamedTuple, TypeVar

import torch

from treefine.config import TagSource, TransformerSettings
from treefine.errors import TreefineError
from treefine.network.batch import N_SPECIALS, Batch, Graphs
from treefine.network.biaffine import Scores
from treefine.network.model import ParserModel
from treefine.parsing.batching import batches, chunks, halving, is_out_of_memory
from treefine.parsing.confidence import Confidence, word_confidences
from treefine.parsing.decode import Decoder, made_trees
from treefine.parsing.initial import InitialParser
from treefine.parsing.refine import BatchStep, Tags, refine
from treefine.parsing.stable import stable_scores
from treefine.parsing.steps import Step, graph_of, predicted_tags, steps_of
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
    """A sentence's parse, where it started, the graph of each step, and how sure each word of the tree is."""

    parsed: Parsed
    initial: Arcs
    steps: tuple[Graph, ...]  # G¹ … Gᵀ
    confidence: tuple[Confidence, ...]  # word 1 first


Work = Callable[[Plan, Sequence[Sentence], Sequence[Arcs]], list[Result]]


def run(
    plan: Plan, sentences: Iterable[Sentence], work: Work[Result], *, skip: int = 0
) -> Iterator[tuple[Sentence, Result]]:
    """Each sentence with what `work` (`trees`, `details` or `steps`) makes of it, in the order they came.

    The first `skip` are left out, mostly without work: those after them are in the same batches as without it, so that
    their numbers are the same to the last digit.
    """
    pairs = _with_initial(plan.initial, sentences)
    encoder = plan.model.settings.encoder
    longest = encoder.n_positions if isinstance(encoder, TransformerSettings) else plan.batch_pieces

    def size(pair: tuple[Sentence, Arcs]) -> int:
        if plan.model.subwords is None:
            return len(pair[0]) + 1
        return sum(map(len, plan.model.subwords.pieces_of(pair[0].forms))) + N_SPECIALS

    for chunk in chunks(pairs, size, plan.most_pieces):
        if skip >= len(chunk):
            skip -= len(chunk)
            continue
        results: dict[int, Result] = {}

        def on_some(numbers: Sequence[int], chunk: list[tuple[Sentence, Arcs]] = chunk) -> list[Result]:
            chosen, arcs = zip(*(chunk[number] for number in numbers), strict=True)
            return work(plan, chosen, arcs)

        def on_one(number: int, chunk: list[tuple[Sentence, Arcs]] = chunk) -> TreefineError:
            hint = "Choose another device, or a smaller model."
            return chunk[number][0].error("Memory does not suffice for this sentence.", hint=hint)

        for numbers in batches([size(pair) for pair in chunk], plan.most_pieces, longest):
            results.update(zip(numbers, halving(numbers, on_some, on_one), strict=True))
        for number in range(skip, len(chunk)):
            yield chunk[number][0], results[number]
        skip = 0


def _with_initial(initial: InitialParser, sentences: Iterable[Sentence]) -> Iterator[tuple[Sentence, Arcs]]:
    """Each sentence with its initial parse; one that does not fit it is refused."""
    ours, theirs = tee(sentences)
    parses = initial(theirs)
    for sentence in ours:
        arcs = next(parses, None)
        heads = () if arcs is None else arcs.heads
        if arcs is None or len(heads) != len(sentence) or len(arcs.labels) != len(sentence):
            raise sentence.error("The initial parser gave no head and label for each word of this sentence.")
        if any(head is not None and not 0 <= head <= len(sentence) for head in heads):
            raise sentence.error("The initial parser gave a head that is no word of this sentence.")
        yield sentence, arcs
    for _ in parses:  # where there are more, some know why that is wrong
        raise TreefineError("The initial parser gave more parses than there are sentences.")


@torch.no_grad()
def trees(plan: Plan, sentences: Sequence[Sentence], arcs: Sequence[Arcs]) -> list[Parsed]:
    """The final tree of each sentence of a batch: that of its last step, by which it converged or T was reached."""
    found: dict[int, Graph] = {}
    tags: list[tuple[tuple[str, ...], ...]] = [()] * len(sentences)
    for step in _loop(plan, sentences, arcs, wants_trees=False):
        if step.t == 1 and plan.predicts_tags:
            tags = [predicted_tags(step, row, plan.model) for row in range(len(sentences))]
        ending, graphs = _ending(plan, step)
        for row in ending:
            found[step.sentences[row]] = graph_of(graphs, row, step.batch.lengths[row], plan.model.vocabulary)
    return [Parsed(found[row], tags[row]) for row in range(len(sentences))]


@torch.no_grad()
def details(plan: Plan, sentences: Sequence[Sentence], arcs: Sequence[Arcs]) -> list[Details]:
    """The same trees, with the graph of each step and the confidence in each word of the tree."""
    vocabulary, settings = plan.model.vocabulary, plan.model.settings.confidence
    found: dict[int, tuple[Graph, tuple[Confidence, ...]]] = {}
    graphs: list[list[Graph]] = [[] for _ in sentences]
    tags: list[tuple[tuple[str, ...], ...]] = [()] * len(sentences)
    for step in _loop(plan, sentences, arcs, wants_trees=False):
        if step.t == 1 and plan.predicts_tags:
            tags = [predicted_tags(step, row, plan.model) for row in range(len(sentences))]
        for row, length in enumerate(step.batch.lengths):
            graphs[step.sentences[row]].append(graph_of(step.graphs, row, length, vocabulary))
        ending, best = _ending(plan, step)
        sure = word_confidences(step.scores, best, plan.decoder, settings).tolist() if ending else []
        for row in ending:
            length = step.batch.lengths[row]
            words = tuple(Confidence(*pair) for pair in sure[row][1 : length + 1])
            found[step.sentences[row]] = graph_of(best, row, length, vocabulary), words
    return [
        Details(Parsed(tree, tags[row]), arcs[row], tuple(graphs[row]), words)
        for row, (tree, words) in sorted(found.items())
    ]


def _ending(plan: Plan, step: BatchStep) -> tuple[set[int], Graphs]:
    """The rows whose last step this is, and their trees."""
    is_last = step.t == plan.max_steps
    ending = {row for row, is_done in enumerate(step.converged.tolist()) if is_done or is_last}
    return ending, plan.decoder.trees(step.scores, step.graphs, step.batch.is_word, rows=ending)


@torch.no_grad()
def steps(plan: Plan, sentences: Sequence[Sentence], arcs: Sequence[Arcs]) -> list[list[Step]]:
    """All steps of each sentence of a batch."""
    found: list[list[Step]] = [[] for _ in sentences]
    for step in _loop(plan, sentences, arcs, wants_trees=True):
        for row, each in enumerate(steps_of(step, plan.decoder, plan.model)):
            found[step.sentences[row]].append(each)
    return found


def _loop(plan: Plan, sentences: Sequence[Sentence], arcs: Sequence[Arcs], *, wants_trees: bool) -> Iterator[BatchStep]:
    """The refinement of one batch; `wants_trees` if each step's trees are asked for, not the last one's alone."""
    model, decoder = plan.model, plan.decoder
    initial = Graphs.of(arcs, model.vocabulary).to(plan.device)
    first_trees = made_trees(model, initial)

    def score(batch: Batch, graphs: Graphs, tags: Tags | None, t: int) -> Scores:
        needs_trees = wants_trees or t == plan.max_steps or (t == 1 and bool(first_trees))
        return stable_scores(partial(_score, plan), decoder, batch, graphs, tags, needs_trees=needs_trees)

    def decode(scores: Scores, batch: Batch, t: int) -> Graphs:
        return decoder.graphs(scores, batch.is_word, as_trees=first_trees if t == 1 else ())

    return refine(
        score,
        model.batch_of(sentences).to(plan.device),
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
            return scores
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error) or rows_at_once in (None, 1):
                raise
            rows_at_once = (rows_at_once or 2) // 2
