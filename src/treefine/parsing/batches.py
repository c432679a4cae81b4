"""Run sentences through a model in batches of similar length, and return the results in input order."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, compress, tee
from typing import TypeVar

import torch

from treefine.config import TransformerSettings
from treefine.cores import on_all_cores, thread_count
from treefine.errors import NO_MEMORY, NO_MEMORY_HINT, TreefineError
from treefine.parsing.constrained import check_constraints, named_as_given
from treefine.parsing.initial import parsers_in
from treefine.parsing.long_sentences import is_long, warn_if_long
from treefine.parsing.plan import AUTO, Item, Plan, WeightedArcs, is_out_of_memory
from treefine.parsing.trust import (
    arcs_with_labels,
    beliefs_of,
    choices_of,
    estimated_weight,
    fitted_weight,
    read_sample,
    without_graph,
)
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence

Member = TypeVar("Member")
Result = TypeVar("Result")

FIRST_BATCHES = 2  # in the first chunk of a stream, so that its results come soon
MOST_SENTENCES = 4096  # in a chunk
_SMALLEST_SHARE = 300  # pieces; for less, several threads are faster on one batch than on one batch each


def chunks(
    items: Iterable[Member], size: Callable[[Member], int], batch_pieces: int, most_batches: int
) -> Iterator[list[Member]]:
    """Cut a stream into chunks. Sentences of a chunk are sorted by length, and its results come at the same time.

    Each chunk has twice as many batches as the one before, up to `most_batches`. The cuts depend on the stream alone,
    so that a resumed run has the same batches.
    """
    chunk: list[Member] = []
    total, n_batches = 0, min(FIRST_BATCHES, most_batches)
    for item in items:
        chunk.append(item)
        total += size(item)
        if total >= n_batches * batch_pieces or len(chunk) == MOST_SENTENCES:
            yield chunk
            chunk, total, n_batches = [], 0, min(2 * n_batches, most_batches)
    if chunk:
        yield chunk


def batches(
    sizes: Sequence[int], batch_pieces: int, longest: int, *, with_padding: int | None = None
) -> list[list[int]]:
    """Choose which sentences to score together, by similar length. A sentence longer than `longest` is scored alone.

    `batch_pieces` limits the pieces of a batch, padding included. With `with_padding`, `batch_pieces` limits the pieces
    without padding, and `with_padding` the pieces with it.

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
    """Return the results of `work`; if memory runs out, halve the numbers and try again.

    If even one number is too much, raise the error that `on_one` returns.
    """
    try:
        return work(numbers)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        if len(numbers) == 1:
            raise on_one(numbers[0]) from error
    free_memory()
    middle = len(numbers) // 2
    return [*halving(numbers[:middle], work, on_one), *halving(numbers[middle:], work, on_one)]


def free_memory() -> None:
    """Return unused memory to the device, after it ran out."""
    gc.collect()  # the traceback kept the tensors of its frames alive
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


Work = Callable[[Plan, Sequence[Item]], list[Result]]


def run(
    plan: Plan, sentences: Iterable[Sentence], work: Work[Result], *, skip: int = 0, one_by_one: bool = False
) -> Iterator[tuple[Sentence, Result]]:
    """Yield each sentence with its result of `work` (`results.trees`, `parses` or `steps`), in order.

    The first `skip` sentences are left out, and most of them are not parsed. The others stay in the same batches, so
    their scores are the same to the last digit as without `skip`. With `one_by_one`, batches are not parsed at the same
    time on a CPU, so that `work` can measure its time.
    """
    return run_items(plan, items_of(plan, sentences), work, skip=skip, one_by_one=one_by_one)


def run_items(
    plan: Plan, items: Iterable[Item], work: Work[Result], *, skip: int = 0, one_by_one: bool = False
) -> Iterator[tuple[Sentence, Result]]:
    """Do the same as `run` for sentences whose initial parses and constraints are known."""
    encoder, most = plan.model.settings.encoder, plan.shape.most_pieces
    longest = encoder.n_positions if isinstance(encoder, TransformerSettings) else most
    cut = (item._replace(pieces=plan.model.pieces_of(item.sentence)) for item in items)

    for chunk in chunks(cut, lambda item: plan.size(item.sentence, item.pieces), most, plan.shape.chunk_batches):
        if skip >= len(chunk):
            skip -= len(chunk)
            continue
        for item in chunk[skip:]:
            warn_if_long(plan, item)

        def on_some(numbers: Sequence[int], chunk: list[Item] = chunk) -> list[Result]:
            return by_calibration(plan, [chunk[number] for number in numbers], work)

        def on_one(number: int, chunk: list[Item] = chunk) -> TreefineError:
            return chunk[number].sentence.error(NO_MEMORY, hint=NO_MEMORY_HINT)

        def attempt(numbers: Sequence[int]) -> list[Result] | None:
            """Return None if memory runs out, perhaps because other batches are parsed at the same time."""
            try:
                return on_some(numbers)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                return None

        sizes = [plan.size(item.sentence, item.pieces) for item in chunk]
        n_threads = thread_count() if plan.device.type == "cpu" and not one_by_one else 1
        share = max(_SMALLEST_SHARE, -(-sum(sizes) // n_threads))  # so that a small chunk gives work to all threads
        found = batches(sizes, min(most, share), longest, with_padding=plan.shape.with_padding)
        # A sentence that is too long for the encoder takes much memory: it is parsed when nothing else is.
        at_once = [each for each in found if sizes[each[0]] <= longest]
        results: dict[int, Result] = {}
        if n_threads > 1 and len(at_once) > 1:
            for numbers, parsed in zip(at_once, on_all_cores(attempt, at_once), strict=True):
                results.update(zip(numbers, parsed or (), strict=parsed is not None))
        for numbers in found:
            if numbers[0] not in results:
                results.update(zip(numbers, halving(numbers, on_some, on_one), strict=True))
        for number in range(skip, len(chunk)):
            yield chunk[number].sentence, results[number]
        skip = 0


def by_calibration(plan: Plan, items: Sequence[Item], work: Work[Result]) -> list[Result]:
    """Return the results of `work`, for the sentences of each treebank with its own calibration."""
    treebanks = [item.sentence.treebank for item in items] if plan.model.settings.calibration else []
    if len(set(treebanks)) < 2:
        return work(plan.for_treebank(treebanks[0]) if treebanks else plan, items)
    found: dict[int, Result] = {}
    for treebank in dict.fromkeys(treebanks):
        places = [place for place, each in enumerate(treebanks) if each == treebank]
        results = work(plan.for_treebank(treebank), [items[place] for place in places])
        found.update(zip(places, results, strict=True))
    return [found[place] for place in range(len(items))]


def items_of(plan: Plan, sentences: Iterable[Sentence]) -> Iterator[Item]:
    """Yield each sentence with its initial parse and its constraints; raise an error if they do not fit it.

    A model of several treebanks learns which one each sentence belongs to. If the trust in an initial parse is "auto",
    its weight is estimated from the first sentences (`SAMPLE_SENTENCES`), which are read ahead.
    """
    items = _items_of(plan, plan.choice.of_sentences(sentences))
    return _weighed(plan, items) if AUTO in plan.trust else items


def _weighed(plan: Plan, items: Iterator[Item]) -> Iterator[Item]:
    """Yield the items with estimated weights. An error in the sample is raised after the items before it."""
    sample, fault = read_sample(items)
    estimated = _weights(plan, sample)
    weights = [new if old == AUTO else old for old, new in zip(plan.trust, estimated, strict=True)]
    for item in chain(sample, items if fault is None else ()):
        evidence = tuple(each._replace(weight=weight) for each, weight in zip(item.evidence, weights, strict=True))
        yield item._replace(evidence=evidence)
    if fault is not None:
        raise fault


def _weights(plan: Plan, items: Sequence[Item], gold: Sequence[Sequence[int]] | None = None) -> list[float]:
    """Return the weight of each source of evidence, estimated, or fitted to gold heads. Long sentences do not count."""
    is_short = [not is_long(plan, item) for item in items]
    short = [*compress(items, is_short)]
    known = None if gold is None else [*compress(gold, is_short)]
    beliefs = [found for _, found in run_items(plan, map(without_graph, short), beliefs_of)]
    weigh, weights = estimated_weight if gold is None else fitted_weight, []
    for number in range(len(plan.trust)):
        given = [item.evidence[number] for item in short]
        heads, labels = choices_of(beliefs, given, number, plan.model.vocabulary, known)
        weights.append(weigh(heads, labels) * plan.confidence.arc_temperature)
    return weights


def fitted_weights(plan: Plan, sentences: Iterable[Sentence], gold: Iterable[Sentence]) -> tuple[float, ...]:
    """Return the weight of each initial parse, fitted to correct trees of some of the sentences with the same words."""
    heads = {each.forms: each.graph.heads[1:] for each in gold}
    n_gold = len(heads)
    items, right = list[Item](), list[Sequence[int]]()
    for item in _items_of(plan, sentences):
        known = heads.pop(item.sentence.forms, None)
        if known is not None:
            items.append(item)
            right.append(known)
    if not items:
        message = f"None of the {n_gold:,} sentences with correct trees occurs in the input."
        raise TreefineError(message, hint="The words of a sentence must be the same in both.")
    return tuple(_weights(plan, items, right))


def _items_of(plan: Plan, sentences: Iterable[Sentence]) -> Iterator[Item]:
    sources = parsers_in(plan.initial) if plan.trust else (plan.initial,)
    ours, for_constraints, *for_sources = tee(sentences, 2 + len(sources))
    parses = [initial(each) for initial, each in zip(sources, for_sources, strict=True)]
    decided = plan.constrain(for_constraints)
    weights = [0.0 if each == AUTO else each for each in plan.trust]
    for sentence in ours:
        found, constraints = [_checked(sentence, next(each, None)) for each in parses], next(decided, None)
        arcs = found[0]
        evidence = tuple(map(WeightedArcs, map(arcs_with_labels, found), weights)) if weights else ()
        if constraints is None:
            raise sentence.error("There are fewer constraints than sentences: this sentence has none.")
        if constraints:
            in_parts = len(sentence) > plan.most_words
            check_constraints(sentence, constraints, plan.decoder, plan.model.vocabulary, in_parts=in_parts)
            arcs = named_as_given(arcs, constraints, plan.model.vocabulary)
        yield Item(sentence, arcs, constraints, evidence=evidence)
    for _ in chain.from_iterable(parses):  # asking for one more also lets the iterator raise its own, clearer error
        raise TreefineError("The initial parser returned more parses than there are sentences.")
    for _ in decided:
        raise TreefineError("There are more constraints than sentences.")


def _checked(sentence: Sentence, arcs: Arcs | None) -> Arcs:
    """Return the arcs of an initial parser; raise an error if they are not those of this sentence."""
    heads = () if arcs is None else arcs.heads
    if arcs is None or len(heads) != len(sentence) or len(arcs.labels) != len(sentence):
        raise sentence.error("The initial parser must return a head and a label for each word of this sentence.")
    if any(head is not None and not 0 <= head <= len(sentence) for head in heads):
        raise sentence.error("The initial parser returned a head that is not a word of this sentence.")
    return arcs
