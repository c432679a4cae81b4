"""Run sentences through a model in batches of similar length, and return the results in input order.

A long sentence is parsed in parts, whose trees are joined, so that memory grows linearly with its length: the root of
the first part is the root of the sentence, and those of the other parts attach to it (docs/design.md, 'Long
sentences').
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, compress, islice, tee
from typing import Any, TypeVar

import numpy as np
import torch

from treefine.config import COLUMNS
from treefine.cores import on_all_cores, thread_count
from treefine.errors import NO_MEMORY, NO_MEMORY_HINT, LongSentenceWarning, TreefineError, described
from treefine.parsing.confidence import Confidence, sentence_confidences
from treefine.parsing.constrained import check_constraints, named_as_given
from treefine.parsing.initial import SeveralParsers
from treefine.parsing.options import ConstraintsLike
from treefine.parsing.parse import Parse
from treefine.parsing.plan import AUTO, ParseInput, Plan, WeightedArcs, is_out_of_memory
from treefine.parsing.trust import (
    arcs_with_labels,
    beliefs_of,
    choices_of,
    estimated_weight,
    fitted_weight,
    read_sample,
    without_graph,
)
from treefine.treebank.constraints import FREE, Constraints, decisions_in
from treefine.treebank.graph import ROOT, Arcs
from treefine.treebank.schemes import read_as
from treefine.treebank.sentence import BLANK, Sentence, Token, is_list_like

Result = TypeVar("Result")
Work = Callable[[Plan, Sequence[ParseInput]], list[Result]]  # such as `results.trees`, `parses` or `steps`

FIRST_BATCHES = 2  # in the first chunk of a stream, so that its results come soon
MOST_SENTENCES = 4096  # in a chunk
_SMALLEST_SHARE = 300  # pieces; for less, several threads are faster on one batch than on one batch each
_ENDS, _BREAKS = frozenset(".!?…。！？؟।"), frozenset(";:,")  # punctuation after which a sentence can be cut
_JOINING = ("parataxis", "dep")  # labels of the arcs between parts, best first


def run(
    plan: Plan, inputs: Iterable[ParseInput], work: Work[Result], *, skip: int = 0
) -> Iterator[tuple[Sentence, Result]]:
    """Yield each sentence with its result of `work`, in order.

    The first `skip` sentences are left out, and most of them are not parsed. The others stay in the same batches, so
    their scores are the same to the last digit as without `skip`.
    """
    for chunk in _chunks(plan, inputs):
        if skip >= len(chunk):
            skip -= len(chunk)
            continue
        results = parsed_chunk(plan, chunk, work)
        for each, result in islice(zip(chunk, results, strict=True), skip, None):
            yield each.sentence, result
        skip = 0


def _chunks(plan: Plan, inputs: Iterable[ParseInput]) -> Iterator[list[ParseInput]]:
    """Cut a stream into chunks. Sentences of a chunk are sorted by length, and its results come at the same time.

    Each chunk has twice as many batches as the one before, up to a limit. The cuts depend on the stream alone, so that
    a resumed run has the same batches.
    """
    chunk: list[ParseInput] = []
    n_pieces, n_batches = 0, min(FIRST_BATCHES, plan.shape.chunk_batches)
    for each in inputs:
        pieces = plan.model.subwords.pieces_of(each.sentence.forms)
        chunk.append(each._replace(pieces=pieces))
        n_pieces += plan.size(each.sentence, pieces)
        if n_pieces >= n_batches * plan.shape.most_pieces or len(chunk) == MOST_SENTENCES:
            yield chunk
            chunk, n_pieces, n_batches = [], 0, min(2 * n_batches, plan.shape.chunk_batches)
    if chunk:
        yield chunk


def parsed_chunk(plan: Plan, chunk: Sequence[ParseInput], work: Work[Result]) -> list[Result]:
    """Return the result of each sentence of a chunk. On a CPU, each core parses a batch."""
    sizes = [plan.size(each.sentence, each.pieces) for each in chunk]
    n_threads = thread_count() if plan.device.type == "cpu" and not plan.is_timed else 1
    most = min(plan.shape.most_pieces, max(_SMALLEST_SHARE, -(-sum(sizes) // n_threads)))  # work for all threads
    longest = min(plan.model.settings.encoder.n_positions, plan.most_words)

    def parse(rows: Sequence[int]) -> list[Result]:
        if len(chunk[rows[0]].sentence) > plan.most_words:
            return [in_parts(plan, chunk[rows[0]], work)]
        return work(plan, [chunk[row] for row in rows])

    def attempt(rows: Sequence[int]) -> list[Result] | None:
        """Return None if memory runs out, perhaps because other batches are parsed at the same time."""
        try:
            return parse(rows)
        except (MemoryError, RuntimeError) as error:
            if is_out_of_memory(error):
                return None
            raise

    safely = partial(retry_in_halves, parse=parse, sentences=[each.sentence for each in chunk])
    groups = batches(sizes, most, longest, with_padding=plan.shape.with_padding)
    # A sentence that is too long for the encoder takes much memory: it is parsed when nothing else is.
    n_at_once = sum(sizes[rows[0]] <= longest for rows in groups) if n_threads > 1 else 0  # the groups grow
    attempts = [*on_all_cores(attempt, groups[:n_at_once]), *[None] * (len(groups) - n_at_once)]
    results = [safely(rows) if parsed is None else parsed for rows, parsed in zip(groups, attempts, strict=True)]
    by_row = dict(zip(chain.from_iterable(groups), chain.from_iterable(results), strict=True))
    return [by_row[row] for row in range(len(chunk))]


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
    groups: list[list[int]] = []
    total = 0  # in the last batch
    for row in sorted(range(len(sizes)), key=sizes.__getitem__):
        size = sizes[row]
        padded = size * (len(groups[-1]) + 1) if groups else 0
        is_full = total + size > batch_pieces or padded > (with_padding or batch_pieces)
        if not groups or is_full or size > longest:
            groups.append([])
            total = 0
        groups[-1].append(row)
        total += size
    return groups


def retry_in_halves(
    rows: Sequence[int], parse: Callable[[Sequence[int]], list[Result]], sentences: Sequence[Sentence]
) -> list[Result]:
    """Return the results of `parse` for some of the sentences; if memory runs out, halve the rows and try again."""
    try:
        return parse(rows)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        if len(rows) == 1:
            raise sentences[rows[0]].error(NO_MEMORY, hint=NO_MEMORY_HINT) from error
    free_memory()
    middle = len(rows) // 2
    halves = (rows[:middle], rows[middle:])
    return [result for half in halves for result in retry_in_halves(half, parse, sentences)]


def free_memory() -> None:
    """Return unused memory to the device, after it ran out."""
    gc.collect()  # the traceback kept the tensors of its frames alive
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def parse_inputs(
    plan: Plan, sentences: Iterable[Sentence], constraints: Iterable[ConstraintsLike] | None = None
) -> Iterator[ParseInput]:
    """Yield each sentence with its initial parse and its constraints; raise an error if they do not fit it.

    A model of several treebanks learns which one each sentence belongs to. If the trust in an initial parse is "auto",
    its weight is estimated from the first sentences (`SAMPLE_SENTENCES`), which are read ahead. An error in them is
    raised after the inputs before it.
    """
    inputs = _inputs_of(plan, plan.language.of_sentences(sentences), constraints)
    if AUTO not in plan.trust:
        yield from inputs
        return
    sample, fault = read_sample(inputs)
    estimates = zip(plan.trust, _weights(plan, sample), strict=True)
    weights = [estimated if trust == AUTO else trust for trust, estimated in estimates]
    for each in chain(sample, inputs if fault is None else ()):
        evidence = tuple(arcs._replace(weight=weight) for arcs, weight in zip(each.evidence, weights, strict=True))
        yield each._replace(evidence=evidence)
    if fault is not None:
        raise fault


def _inputs_of(
    plan: Plan, sentences: Iterable[Sentence], constraints: Iterable[ConstraintsLike] | None
) -> Iterator[ParseInput]:
    initial = plan.initial
    sources = initial.sources if plan.trust and isinstance(initial, SeveralParsers) else (initial,)
    sentences, *copies = tee(sentences, 1 + len(sources))
    parses = [source(copy) for source, copy in zip(sources, copies, strict=True)]
    if constraints is not None and not is_list_like(constraints):
        hint = "Pass a list with one for each sentence."
        raise TreefineError(f"The constraints must be a list, not {described(constraints)}.", hint=hint)
    decisions = None if constraints is None else map(Constraints.of, constraints)
    weights = [0.0 if each == AUTO else each for each in plan.trust]
    for sentence in sentences:
        trees = [arcs for arcs in (next(each, None) for each in parses) if arcs is not None]
        if len(trees) < len(parses) or any({*map(len, arcs)} != {len(sentence)} for arcs in trees):
            raise sentence.error("The initial parser must return a head and a label for each word of this sentence.")
        if any(head is not None and not 0 <= head <= len(sentence) for arcs in trees for head in arcs.heads):
            raise sentence.error("The initial parser returned a head that is not a word of this sentence.")
        evidence = tuple(map(WeightedArcs, map(arcs_with_labels, trees), weights)) if weights else ()
        decided = decisions_in(sentence, plan.keep) if decisions is None else next(decisions, None)
        if decided is None:
            raise sentence.error("There are fewer constraints than sentences: this sentence has none.")
        arcs = trees[0]
        if decided and len(sentence) > plan.most_words:
            hint = 'Leave them out, or use keep="nothing" (--keep nothing).'
            raise sentence.error(
                f"Constraints are not possible in a sentence of more than {plan.most_words:,} words.", hint=hint
            )
        if decided:
            check_constraints(sentence, decided, plan.decoder, plan.model.vocabulary)
            arcs = named_as_given(arcs, decided, plan.model.vocabulary)
        yield ParseInput(sentence, arcs, decided, evidence=evidence)
    for _ in chain.from_iterable(parses):  # asking for one more also lets the iterator raise its own, clearer error
        raise TreefineError("The initial parser returned more parses than there are sentences.")
    for _ in decisions or ():
        raise TreefineError("There are more constraints than sentences.")


def _weights(plan: Plan, inputs: Sequence[ParseInput], gold: Sequence[Sequence[int]] = ()) -> list[float]:
    """Return the weight of each source of evidence, estimated, or fitted to gold heads. Long sentences do not count."""
    is_short = [len(each.sentence) <= plan.most_words for each in inputs]
    short, known = list(compress(inputs, is_short)), list(compress(gold, is_short))
    beliefs = [belief for _, belief in run(plan, map(without_graph, short), beliefs_of)]
    weigh, weights = fitted_weight if gold else estimated_weight, []
    for source in range(len(plan.trust)):
        arcs = [each.evidence[source] for each in short]
        heads, labels = choices_of(beliefs, arcs, source, plan.model.vocabulary, known)
        weights.append(weigh(heads, labels) * plan.model.settings.confidence.arc_temperature)
    return weights


def fitted_weights(plan: Plan, sentences: Iterable[Sentence], gold: Iterable[Sentence]) -> tuple[float, ...]:
    """Return the weight of each initial parse, fitted to correct trees of some of the sentences with the same words."""
    heads = {each.forms: each.graph.heads[1:] for each in gold}
    n_gold, inputs = len(heads), _inputs_of(plan, sentences, None)
    known = [(each, heads.pop(each.sentence.forms)) for each in inputs if each.sentence.forms in heads]
    if not known:
        message = f"None of the {n_gold:,} sentences with correct trees occurs in the input."
        raise TreefineError(message, hint="The words of a sentence must be the same in both.")
    return tuple(_weights(plan, *zip(*known, strict=True)))


def in_parts(plan: Plan, whole: ParseInput, work: Work[Any]) -> Any:
    """Return the result of `work` for a long sentence: a sentence with its tree, or a Parse without steps."""
    sentence, words = whole.sentence, word_ranges(whole.sentence, plan.most_words)
    message = f"The sentence has {len(sentence):,} words and is parsed in {len(words)} parts."
    place = sentence.error(message, hint="Only the roots of the parts are connected.")
    warnings.warn(str(place), LongSentenceWarning, stacklevel=2)
    results = [work(plan, [_part(whole, each)])[0] for each in words]
    if isinstance(results[0], Sentence):
        return _joined_sentence(plan, whole, results)
    if isinstance(results[0], Parse) and plan.k == 1:
        return _joined_parse(plan, whole, results)
    message = f"A sentence of more than {plan.most_words:,} words has neither refinement steps nor several trees."
    raise sentence.error(message, hint="Leave out --show-steps and --k.")


def word_ranges(sentence: Sentence, most_words: int) -> list[range]:
    """Return the words, from 1, of each part of a sentence. The parts have similar lengths.

    A part ends after final punctuation or at a line end if there is one at a suitable place, else after a comma or a
    similar sign, else after any token.

    >>> word_ranges(Sentence.of_words("one two . three four five".split()), 4)
    [range(1, 4), range(4, 7)]
    """
    strengths = {token.words[-1]: _strength(token) for token in sentence.tokens()}
    ranges, start = list[range](), 1
    while (n_left := len(sentence) - start + 1) > most_words:
        size = -(-n_left // -(-n_left // most_words))  # of equal parts
        best = start + size - 1
        ends = [word for word in range(start + size // 2, start + most_words) if word in strengths] or [best]
        last = max(ends, key=lambda word, best=best: (strengths.get(word, 0), -abs(word - best)))  # type: ignore[misc]
        ranges.append(range(start, last + 1))
        start = last + 1
    return [*ranges, range(start, len(sentence) + 1)]


def _strength(token: Token) -> int:
    """Return how well a sentence can be cut after a token: 2 is best."""
    ends_line = any(note.startswith("SpacesAfter=") and "\\n" in note for note in token.misc.split("|"))
    return 2 if ends_line or _ENDS.issuperset(token.form) else int(token.form in _BREAKS)


def _part(whole: ParseInput, words: range) -> ParseInput:
    """Return one part as a sentence, without the initial arcs that leave it."""
    sentence, part = whole.sentence, slice(words.start - 1, words.stop - 1)
    tags = {column: getattr(sentence, column)[part] for column in COLUMNS}
    place = {name: getattr(sentence, name) for name in ("treebank", "path", "line", "number")}
    own = replace(Sentence.of_words(sentence.forms[part]).with_tags(**tags), **place)
    pieces = None if whole.pieces is None else whole.pieces[part]
    evidence = tuple(each._replace(arcs=_arcs_within(each.arcs, words)) for each in whole.evidence)
    return ParseInput(own, _arcs_within(whole.initial, words), FREE, pieces, evidence)


def _arcs_within(arcs: Arcs, words: range) -> Arcs:
    """Return the arcs of one part, whose words are counted from 1, without those that leave it."""
    before, part = words.start - 1, slice(words.start - 1, words.stop - 1)
    pairs = [
        (head and head - before, label) if head == ROOT or head in words else (None, BLANK)
        for head, label in zip(arcs.heads[part], arcs.labels[part], strict=True)
    ]
    return Arcs(*zip(*pairs, strict=True))


def _joined_sentence(plan: Plan, whole: ParseInput, parts: Sequence[Sentence]) -> Sentence:
    """Return the whole sentence with the joined tree and the predicted tags of its parts."""
    heads, labels, root, known = list[int](), list[str](), parts[0].graph.roots[0], plan.model.vocabulary.labels
    joining = next((label for label in (read_as(each, known) for each in _JOINING) if label in known), known[0])
    for part in parts:
        before, is_first = len(heads), part is parts[0]
        for head, label in zip(part.graph.heads[1:], part.graph.labels[1:], strict=True):
            is_join = head == ROOT and not is_first
            heads.append(root if is_join else head and head + before)
            labels.append(joining if is_join else label)
    columns = plan.model.settings.tags.columns if plan.predicts_tags else ()
    tags = [[tag for part in parts for tag in getattr(part, column)] for column in columns]
    arcs = Arcs(tuple(heads), tuple(labels))
    return whole.sentence.with_parse(arcs, columns, tags, replaces_tags=plan.replaces_tags)


def _joined_parse(plan: Plan, whole: ParseInput, parts: Sequence[Parse]) -> Parse:
    """Return the Parse of the whole sentence. The arcs that join two parts have confidence 0."""
    words = [
        Confidence(0.0, 0.0) if head == ROOT and part is not parts[0] else confidence
        for part in parts
        for head, confidence in zip(part.heads, part.word_confidences, strict=True)
    ]
    both, stage = np.array([[1.0, *(each.both for each in words)]]), len(plan.model.settings.stage_ends) - 1
    tag_confidences = {
        column: tuple(chain.from_iterable(each.tag_confidences[column] for each in parts))
        for column in parts[0].tag_confidences
    }
    return replace(
        parts[0],
        sentence=_joined_sentence(plan, whole, [each.sentence for each in parts]),
        word_confidences=tuple(words),
        confidence=sentence_confidences(both, [len(words)], [plan.confidence_of(whole.sentence, stage)])[0],
        steps=(),
        initial=whole.initial,
        initial_confidences=tuple(chain.from_iterable(each.initial_confidences for each in parts)),
        converged=all(each.converged for each in parts),
        was_sure=any(each.was_sure for each in parts),
        step_confidences=(),
        given_tags=whole.sentence.words,
        tag_confidences=tag_confidences,
    )
