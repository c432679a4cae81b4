"""Run sentences through a model in batches, and return them in the order they came."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import tee
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from treefine.config import Precision, TagSource, TransformerSettings
from treefine.errors import TreefineError
from treefine.model.batch import Batch, Graphs, padded_length
from treefine.model.parser_model import ParserModel
from treefine.model.scorer import Scores
from treefine.parsing.constrained import allowed_of, check_constraints, named_as_given
from treefine.parsing.decode import Decoder, dependents, made_trees
from treefine.parsing.initial import InitialParser
from treefine.parsing.invariance import stable_scores, sureness
from treefine.parsing.refine import BatchStep, Tags, refine
from treefine.treebank.constraints import Constrain, Constraints, unconstrained
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence

Member = TypeVar("Member")

CHUNK_BATCHES = 16  # batches' worth of sentences that are sorted by length together
MOST_SENTENCES = 4096  # in such a chunk


def chunks(items: Iterable[Member], size: Callable[[Member], int], batch_pieces: int) -> Iterator[list[Member]]:
    """Stretches of the stream, large enough to hold sentences of like length, small enough to be held in memory."""
    chunk: list[Member] = []
    total = 0
    for item in items:
        chunk.append(item)
        total += size(item)
        if total >= CHUNK_BATCHES * batch_pieces or len(chunk) == MOST_SENTENCES:
            yield chunk
            chunk, total = [], 0
    if chunk:
        yield chunk


def batches(
    sizes: Sequence[int], batch_pieces: int, longest: int, *, with_padding: int | None = None
) -> list[list[int]]:
    """Which sentences to score together, by like length, padding counted; one longer than `longest` is alone.

    Where padding is counted apart, `with_padding` is how much it may come to with all else.

    >>> batches([3, 9, 2, 3], 8, longest=8)
    [[2, 0], [3], [1]]
    >>> batches([3, 9, 2, 3], 8, longest=8, with_padding=9)
    [[2, 0, 3], [1]]
    """
    found: list[list[int]] = []
    total = 0  # in the last batch
    for number in sorted(range(len(sizes)), key=sizes.__getitem__):
        size = sizes[number]
        padded = size * (len(found[-1]) + 1) if found else 0
        is_full = (
            padded > batch_pieces if with_padding is None else total + size > batch_pieces or padded > with_padding
        )
        if not found or is_full or size > longest:
            found.append([])
            total = 0
        found[-1].append(number)
        total += size
    return found


def halving(
    numbers: Sequence[int],
    work: Callable[[Sequence[int]], list[Result]],
    on_one: Callable[[int], TreefineError],
) -> list[Result]:
    """What `work` makes of each number; when memory runs out, of each half apart. `on_one` is raised for one alone."""
    try:
        return work(numbers)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        if len(numbers) == 1:
            raise on_one(numbers[0]) from error
    gc.collect()  # the error held on to the tensors of its frames
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    middle = len(numbers) // 2
    return [*halving(numbers[:middle], work, on_one), *halving(numbers[middle:], work, on_one)]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on a GPU or on this machine."""
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    signs = ("can't allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs)


Result = TypeVar("Result")

WINDOWS_AT_ONCE = 8  # of a sentence too long for the encoder; a CPU, whose cache holds few, takes them one by one
CPU_PIECES = 1000  # that a transformer scores together on a CPU; of more, the numbers no longer stay in its cache
CPU_PADDING = 4  # times as many words as pieces; a CPU pads words alone, and what is made of them is not to fill memory
PADDED_TO = (
    4  # pieces: a row is as long as a multiple of it, so that attention takes many sentences of one length at once
)


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
    precision: Precision = "float32"  # of a GPU's engine; on a CPU `model` is already made for it
    stop_above: float = 1.0  # a sentence that is surer takes no further step; 1: only what has converged stops

    @property
    def predicts_tags(self) -> bool:
        """Whether the model's tagger fills in the tags that are not read from the sentences."""
        return self.tags != "none" and self.model.settings.tags.source == "predicted"

    @property
    def most_pieces(self) -> int:
        """What a batch holds at most: `batch_pieces`, or less where that is faster."""
        return min(self.batch_pieces, CPU_PIECES) if self.is_transformer_on_cpu else self.batch_pieces

    @property
    def is_transformer_on_cpu(self) -> bool:
        """Where batches are small, and rows of each length are attended to apart."""
        return self.device.type == "cpu" and isinstance(self.model.settings.encoder, TransformerSettings)

    @property
    def with_padding(self) -> int | None:
        """What a batch may come to with padding, where that is not counted among its pieces."""
        return CPU_PADDING * self.most_pieces if self.is_transformer_on_cpu else None

    @property
    def padded_to(self) -> int:
        """What the lengths of rows are multiples of."""
        return PADDED_TO if self.is_transformer_on_cpu else 1

    def size(self, sentence: Sentence) -> int:
        """The pieces of a sentence in a batch, padding counted; for a BiLSTM its words."""
        encoder, n_pieces = self.model.settings.encoder, self.model.n_pieces(sentence)
        if not isinstance(encoder, TransformerSettings):
            return n_pieces
        return max(n_pieces, padded_length(n_pieces, self.padded_to, encoder.n_positions))


class Item(NamedTuple):
    """A sentence to parse, what to start from, and what a person decided about it."""

    sentence: Sentence
    initial: Arcs
    constraints: Constraints


Work = Callable[[Plan, Sequence[Item]], list[Result]]


def run(
    plan: Plan, sentences: Iterable[Sentence], work: Work[Result], *, skip: int = 0
) -> Iterator[tuple[Sentence, Result]]:
    """Each sentence with what `work` (`trees`, `details` or `steps`) makes of it, in the order they came.

    The first `skip` are left out, mostly without work: those after them are in the same batches as without it, so that
    their numbers are the same to the last digit.
    """
    return run_items(plan, items_of(plan, sentences), work, skip=skip)


def run_items(
    plan: Plan, items: Iterable[Item], work: Work[Result], *, skip: int = 0
) -> Iterator[tuple[Sentence, Result]]:
    """The same for sentences whose initial parses and constraints are known."""
    encoder = plan.model.settings.encoder
    longest = encoder.n_positions if isinstance(encoder, TransformerSettings) else plan.batch_pieces

    for chunk in chunks(items, lambda item: plan.size(item.sentence), plan.most_pieces):
        if skip >= len(chunk):
            skip -= len(chunk)
            continue
        results: dict[int, Result] = {}

        def on_some(numbers: Sequence[int], chunk: list[Item] = chunk) -> list[Result]:
            return work(plan, [chunk[number] for number in numbers])

        def on_one(number: int, chunk: list[Item] = chunk) -> TreefineError:
            hint = "Choose another device, or a smaller model."
            return chunk[number].sentence.error("Memory does not suffice for this sentence.", hint=hint)

        sizes = [plan.size(item.sentence) for item in chunk]
        for numbers in batches(sizes, plan.most_pieces, longest, with_padding=plan.with_padding):
            results.update(zip(numbers, halving(numbers, on_some, on_one), strict=True))
        for number in range(skip, len(chunk)):
            yield chunk[number].sentence, results[number]
        skip = 0


def items_of(plan: Plan, sentences: Iterable[Sentence]) -> Iterator[Item]:
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
        if constraints:
            check_constraints(sentence, constraints, plan.decoder, plan.model.vocabulary)
            arcs = named_as_given(arcs, constraints, plan.model.vocabulary)
        yield Item(sentence, arcs, constraints)
    for _ in parses:  # where there are more, some know why that is wrong
        raise TreefineError("The initial parser gave more parses than there are sentences.")
    for _ in decided:
        raise TreefineError("There are constraints for more sentences than there are.")


def steps_of_batch(plan: Plan, items: Sequence[Item], *, wants_trees: bool) -> Iterator[BatchStep]:
    """The refinement of one batch; `wants_trees` if each step's trees are asked for, not the last one's alone.

    With it sentences stop only where they have converged.
    """
    model, decoder = plan.model, plan.decoder
    sentences = [item.sentence for item in items]
    initial = Graphs.of([item.constraints.put_into(item.initial) for item in items], model.vocabulary)
    allowed = allowed_of([item.constraints for item in items], list(map(len, sentences)), decoder, model.vocabulary)
    batch = replace(model.batch_of(sentences, padded_to=plan.padded_to), allowed=allowed)
    tags = model.given_tags(sentences) if plan.tags == "given" else None
    return refined(plan, batch, initial, tags, wants_trees=wants_trees)


def refined(plan: Plan, batch: Batch, initial: Graphs, tags: Tags | None, *, wants_trees: bool) -> Iterator[BatchStep]:
    """The same for what is a batch already."""
    model, decoder = plan.model, plan.decoder
    first_trees = made_trees(model, initial)
    stop_above = 1.0 if wants_trees else plan.stop_above  # who asks for the trees of each step asks for all steps

    def score(batch: Batch, graphs: Graphs, tags: Tags | None, t: int) -> Scores:
        needs_trees = wants_trees or t == plan.max_steps or (t == 1 and bool(first_trees))
        return stable_scores(
            partial(_score, plan), decoder, batch, graphs, tags, needs_trees=needs_trees, stop_above=stop_above
        )

    def decode(scores: Scores, batch: Batch, t: int) -> Graphs:
        return decoder.graphs(scores, batch.is_word, as_trees=first_trees if t == 1 else ())

    def is_sure(scores: Scores, batch: Batch, is_same: Tensor) -> Tensor:
        labels = decoder.best_labels(scores)
        return sureness(scores.arcs, labels, dependents(batch.is_word), is_same) > stop_above

    return refine(
        score,
        batch.to(plan.device),
        initial.to(plan.device),
        max_steps=plan.max_steps,
        decode=decode,
        tags=None if tags is None else tags.to(plan.device),
        predict_tags=plan.predicts_tags,
        is_sure=is_sure if stop_above < 1 else None,
    )


def _score(plan: Plan, batch: Batch, graphs: Graphs, tags: Tags | None) -> Scores:
    """The model's scores; the windows of one long sentence are encoded in as many parts as memory asks for."""
    windows = 1 if plan.is_transformer_on_cpu else WINDOWS_AT_ONCE
    rows_at_once = min(batch.inputs.n_rows, windows) if len(batch) == 1 else None
    while True:
        try:
            with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):  # else a GPU's LSTM rounds to 10 bits
                scores: Scores = plan.model(batch, graphs, tags, rows_at_once=rows_at_once)
            return scores if batch.allowed is None else scores.within(batch.allowed)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error) or rows_at_once in (None, 1):
                raise
            rows_at_once = (rows_at_once or 2) // 2
