"""Split a stream of sentences into batches, and halve them when memory runs out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny import sample, short, tiny_parser
from tests.support.wrapped_models import Crowded
from treefine.cores import torch_threads
from treefine.errors import TreefineError
from treefine.parsing.batches import batches, run
from treefine.parsing.parser import Parser

SIZES = st.lists(st.integers(1, 30), max_size=40)


@given(SIZES, st.integers(1, 100), st.integers(1, 30))
def test_every_sentence_is_in_one_batch_of_at_most_the_given_size(sizes, batch_pieces, longest):
    found = batches(sizes, batch_pieces, longest)

    assert sorted(number for batch in found for number in batch) == list(range(len(sizes)))
    for batch in found:
        most = max(sizes[number] for number in batch)
        assert len(batch) == 1 or (len(batch) * most <= batch_pieces and most <= longest)


# Skipped sentences: the others stay in their batches


@pytest.fixture(scope="module")
def parser():
    return tiny_parser(max_steps=1, batch_pieces=60)


def scored_together(parser, skip):
    """Return the sentences that are scored together, and those that are yielded."""
    scored = []

    def work(plan, items):
        scored.append(tuple(item.sentence.number for item in items))
        return [None] * len(items)

    found = [sentence.number for sentence, _ in run(parser.plan(), sample(60), work, skip=skip)]
    return scored, found


@pytest.mark.parametrize("skip", range(0, 64, 7))
def test_skipping_keeps_the_batches_and_most_skipped_sentences_are_not_scored(parser, skip):
    """Rounding depends on the batch, and a confidence must be the same to its last digit."""
    whole, all_found = scored_together(parser, 0)

    scored, found = scored_together(parser, skip)

    assert found == all_found[skip:]
    assert scored == whole[len(whole) - len(scored) :]
    assert len(whole) > 16
    assert skip - (60 - sum(map(len, scored))) <= 40  # those in the chunk of the first one


# Memory


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes."),
    ],
    ids=repr,
)
def test_when_memory_runs_out_the_batch_is_halved_and_nothing_is_lost(parser, error):
    crowded = Crowded(parser.model, 200, error)
    together = 8 * short(2)  # sentences of equal length share a batch

    parsed = Parser(crowded, device="cpu", max_steps=1, batch_pieces=4000).parse(together)

    assert crowded.refusals
    assert parsed == 8 * parser.parse(short(2))


def test_too_little_memory_for_one_sentence_is_an_error(parser):
    crowded = Crowded(parser.model, 1, MemoryError())

    with pytest.raises(TreefineError) as error:
        Parser(crowded, device="cpu").parse(sample(2)[1])

    assert str(error.value).endswith(
        "-0002) There is not enough memory to parse this sentence. Use another device or a smaller model."
    )
    assert crowded.refusals == 1  # a single sentence cannot be split, so it is not tried again


@pytest.mark.parametrize("batch_pieces", [60, 1000])
def test_batches_parsed_at_the_same_time_give_the_same_trees_and_parses(batch_pieces):
    parser = tiny_parser(batch_pieces=batch_pieces, max_steps=3)
    sentences = short()
    one_by_one = list(parser.stream_trees(sentences))
    with torch_threads(3):
        at_once, parses = list(parser.stream_trees(sentences)), list(parser.stream(sentences))

    assert at_once == one_by_one
    assert [each.sentence for each in parses] == one_by_one
