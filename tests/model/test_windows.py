from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from treefine.model.batch import owners, windows


@st.composite
def words_and_room(draw):
    """The number of pieces of each word, and a room into which each of them fits."""
    n_pieces = draw(st.lists(st.integers(1, 6), max_size=40))
    room = draw(st.integers(max(n_pieces, default=1), 60))
    return n_pieces, room


@given(words_and_room())
def test_every_word_stands_in_a_window_and_no_window_is_over_the_room(case):
    n_pieces, room = case

    cut = windows(n_pieces, room)

    assert {word for window in cut for word in window} == set(range(len(n_pieces)))
    assert all(sum(n_pieces[word] for word in window) <= room for window in cut)


@given(words_and_room())
def test_a_sentence_that_fits_has_one_window(case):
    n_pieces, room = case

    cut = windows(n_pieces, room)

    assert (cut == [range(len(n_pieces))]) == (sum(n_pieces) <= room)


@given(words_and_room())
def test_windows_go_forward_and_none_lies_within_another_if_no_word_fills_half_of_one(case):
    n_pieces, room = case
    assume(max(n_pieces, default=1) <= max(1, room // 2))

    cut = windows(n_pieces, room)

    assert all(one.start < other.start and one.stop < other.stop for one, other in pairwise(cut))


@given(words_and_room())
def test_neighbouring_windows_share_half_a_window_but_for_the_words_at_its_edges(case):
    n_pieces, room = case

    cut = windows(n_pieces, room)

    for one, other in pairwise(cut):
        shared = sum(n_pieces[word] for word in range(other.start, one.stop))
        assert shared > room - room // 2 - 2 * max(n_pieces)


def test_windows_of_one_piece_a_word_share_half_a_window():
    assert windows([1] * 10, 4) == [range(0, 4), range(2, 6), range(4, 8), range(6, 10)]


@given(words_and_room())
def test_the_last_window_is_as_full_as_the_others(case):
    n_pieces, room = case

    last = windows(n_pieces, room)[-1]

    assert last.start == 0 or sum(n_pieces[last.start - 1 :]) > room


def naive_distance(n_pieces, window, word):
    """Pieces between a word and the nearer edge of a window; an edge of the sentence itself is no edge."""
    left = sum(n_pieces[window.start : word]) if window.start > 0 else float("inf")
    right = sum(n_pieces[word + 1 : window.stop]) if window.stop < len(n_pieces) else float("inf")
    return min(left, right)


@given(words_and_room())
def test_the_owner_of_a_word_is_the_window_in_which_it_stands_farthest_from_a_cut(case):
    n_pieces, room = case
    cut = windows(n_pieces, room)

    found = owners(n_pieces, cut)

    assert len(found) == len(n_pieces)
    for word, owner in enumerate(found):
        assert word in cut[owner]
        best = max(naive_distance(n_pieces, window, word) for window in cut if word in window)
        assert naive_distance(n_pieces, cut[owner], word) == best


@given(words_and_room())
def test_owners_do_not_go_back(case):
    n_pieces, room = case

    found = owners(n_pieces, windows(n_pieces, room))

    assert found == sorted(found)


@pytest.mark.parametrize("n_words", [0, 1])
def test_a_sentence_of_no_word_or_one_has_one_window(n_words):
    assert windows([1] * n_words, 1) == [range(n_words)]


def test_five_thousand_words_have_some_twenty_windows():
    n_pieces = [1 + word % 3 for word in range(5000)]

    cut = windows(n_pieces, 509)

    assert len(cut) == pytest.approx(sum(n_pieces) / (509 / 2), abs=3)
