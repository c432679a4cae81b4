"""A stream of sentences cut into batches."""

from hypothesis import given
from hypothesis import strategies as st

from treefine.parsing.batches import CHUNK_BATCHES, MOST_SENTENCES, batches, chunks

SIZES = st.lists(st.integers(1, 30), max_size=40)


@given(SIZES, st.integers(1, 100), st.integers(1, 30))
def test_every_sentence_is_in_one_batch(sizes, batch_pieces, longest):
    found = batches(sizes, batch_pieces, longest)

    assert sorted(number for batch in found for number in batch) == list(range(len(sizes)))


@given(SIZES, st.integers(1, 100), st.integers(1, 30))
def test_a_batch_with_its_padding_is_no_larger_than_asked_for(sizes, batch_pieces, longest):
    for batch in batches(sizes, batch_pieces, longest):
        assert len(batch) == 1 or len(batch) * max(sizes[number] for number in batch) <= batch_pieces


@given(SIZES, st.integers(1, 100), st.integers(1, 30))
def test_a_sentence_that_is_cut_into_windows_is_alone(sizes, batch_pieces, longest):
    for batch in batches(sizes, batch_pieces, longest):
        assert len(batch) == 1 or max(sizes[number] for number in batch) <= longest


@given(SIZES, st.integers(1, 100), st.integers(1, 30), st.integers(1, 4))
def test_padding_that_is_counted_apart_has_a_bound_of_its_own(sizes, batch_pieces, longest, times):
    most = times * batch_pieces

    found = batches(sizes, batch_pieces, longest, with_padding=most)

    assert sorted(number for batch in found for number in batch) == list(range(len(sizes)))
    for one, following in zip(found, [*found, []][1:], strict=True):
        lengths = [sizes[number] for number in one]
        assert len(one) == 1 or (sum(lengths) <= batch_pieces and len(one) * max(lengths) <= most)
        assert len(one) == 1 or max(lengths) <= longest
        if following and (size := sizes[following[0]]) <= longest:  # a batch ends only where one more is too much
            assert sum(lengths) + size > batch_pieces or (len(one) + 1) * size > most


def test_sentences_of_like_length_are_together():
    assert batches([5, 1, 5, 1], 10, longest=100) == [[1, 3], [0, 2]]


@given(SIZES, st.integers(1, 5))
def test_chunks_are_the_stream_in_stretches_of_many_batches(sizes, batch_pieces):
    found = list(chunks(sizes, lambda size: size, batch_pieces))

    assert [size for chunk in found for size in chunk] == sizes
    for chunk in found[:-1]:
        assert sum(chunk) >= CHUNK_BATCHES * batch_pieces > sum(chunk[:-1])


def test_a_chunk_of_short_sentences_is_bounded_too():
    found = list(chunks([1] * 10_000, lambda size: size, 1_000_000))

    assert [len(chunk) for chunk in found] == [MOST_SENTENCES, MOST_SENTENCES, 10_000 - 2 * MOST_SENTENCES]
