"""The inputs of the network: pieces in windows, words, batches and graphs as tensors."""

from dataclasses import fields, replace
from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generated_inputs import CLS, LABELS, PAD, SEP, arcs_over, inputs_of, sentences_in_pieces
from treefine.model.batch import N_SPECIALS, ROOT_PIECE, Batch, Graphs, PieceInputs, owners, windows
from treefine.model.vocabulary import Vocabulary
from treefine.treebank.graph import Arcs

VOCABULARY = Vocabulary(labels=LABELS)
room_for_positions = st.sampled_from([4, 5, 8, 12, 19, 64])  # small values split a sentence into windows


def assert_same(found, expected):
    """Check that all fields of two values are equal, tensors by shape, dtype and content."""
    assert type(found) is type(expected)
    for field in fields(expected):
        one, other = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(other, torch.Tensor):
            torch.testing.assert_close(one, other, atol=0, rtol=0)
        elif isinstance(other, PieceInputs):
            assert_same(one, other)
        else:
            assert one == other


def choices(sentences):
    """Draw some of the sentences, in any order."""
    return st.lists(st.integers(0, len(sentences) - 1), min_size=1, max_size=5)


# Pieces


def test_a_row_is_cls_root_the_pieces_and_sep():
    inputs = inputs_of([[[7, 8], [9]], []])

    assert inputs.pieces.tolist() == [[CLS, PAD, 7, 8, 9, SEP], [CLS, PAD, SEP, PAD, PAD, PAD]]
    assert inputs.words.tolist() == [[-1, 0, 1, 1, 2, -1], [-1, 0, -1, -1, -1, -1]]
    assert inputs.is_first.int().tolist() == [[0, 1, 1, 0, 1, 0], [0, 1, 0, 0, 0, 0]]
    assert inputs.is_piece.int().tolist() == [[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]]
    assert inputs.word_rows.tolist() == [[0, 0, 0], [1, 1, 1]]
    assert inputs.word_pieces.tolist() == [[1, 2, 4], [1, 1, 1]]  # padding reads ROOT of its own sentence
    assert (inputs.row_lengths, inputs.row_counts) == ((6, 3), (1, 1))


@given(sentences=sentences_in_pieces(max_words=20), n_positions=room_for_positions)
def test_rows_fit_the_positions_and_belong_to_their_sentences(sentences, n_positions):
    inputs = inputs_of(sentences, n_positions)

    assert max(inputs.row_lengths) == inputs.pieces.shape[1] <= n_positions
    assert inputs.sentences.tolist() == [number for number, count in enumerate(inputs.row_counts) for _ in range(count)]
    for row, length in enumerate(inputs.row_lengths):
        sentence = sentences[inputs.sentences[row]]
        pieces, words = inputs.pieces[row].tolist(), inputs.words[row].tolist()
        inside = [word for word in words[2 : length - 1]]
        most = max(1, (n_positions - N_SPECIALS) // 4)
        window = range(inside[0], inside[-1] + 1) if inside else range(0)
        whole = [(word, piece) for word in window for piece in sentence[word - 1][:most]]
        assert list(zip(inside, pieces[2 : length - 1], strict=True)) == whole
        assert (pieces[0], pieces[length - 1], set(pieces[length:])) == (CLS, SEP, {PAD} if pieces[length:] else set())
        assert words[0] == words[length - 1] == -1
        assert words[ROOT_PIECE] == 0
        assert set(words[length:]) <= {-1}
        assert inputs.is_piece[row].tolist() == [place < length for place in range(len(pieces))]
        firsts = [place for place, word in enumerate(words) if word >= 0 and words.index(word) == place]
        assert inputs.is_first[row].nonzero().flatten().tolist() == firsts


@given(sentences=sentences_in_pieces(max_words=20), n_positions=room_for_positions)
def test_each_word_is_read_at_its_first_piece_in_a_row_of_its_sentence(sentences, n_positions):
    inputs = inputs_of(sentences, n_positions)

    for number, sentence in enumerate(sentences):
        for word in range(len(sentence) + 1):
            row, piece = inputs.word_rows[number, word], inputs.word_pieces[number, word]
            assert inputs.sentences[row] == number
            assert inputs.words[row, piece] == word
            assert inputs.is_first[row, piece]
            if word:
                assert inputs.pieces[row, piece] == sentence[word - 1][0]


@given(data=st.data())
def test_selected_piece_inputs_are_those_of_the_selected_sentences(data):
    sentences = data.draw(sentences_in_pieces(max_words=12))
    n_positions, chosen = data.draw(room_for_positions), data.draw(choices(sentences))
    lengths = [len(sentence) for sentence in sentences]

    part = Batch.of(inputs_of(sentences, n_positions), lengths).select(chosen)

    rebuilt = inputs_of([sentences[number] for number in chosen], n_positions)
    assert_same(part, Batch.of(rebuilt, [lengths[number] for number in chosen]))


# Graphs


def test_a_graph_has_heads_and_label_ids_and_padding_has_neither():
    arcs = [Arcs((2, 0), ("nsubj:pass", "root")), Arcs((0,), ("never-seen",)), Arcs((), ())]

    graphs = Graphs.of(arcs, VOCABULARY)

    assert graphs.heads.tolist() == [[-1, 2, 0], [-1, 0, -1], [-1, -1, -1]]
    assert graphs.labels.tolist() == [[-1, 1, 2], [-1, -1, -1], [-1, -1, -1]]


@given(data=st.data())
def test_selected_graphs_are_those_of_the_selected_sentences(data):
    lengths = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=4))
    arcs = [Arcs(*data.draw(arcs_over(length))) for length in lengths]
    chosen = data.draw(choices(arcs))

    n_words = max(lengths[number] for number in chosen) + 1
    part = Graphs.of(arcs, VOCABULARY).select(torch.tensor(chosen), n_words)

    expected = Graphs.of([arcs[number] for number in chosen], VOCABULARY)
    assert part.has_any in (None, expected.has_any)
    assert_same(replace(part, has_any=expected.has_any), expected)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_the_places_of_words_skip_padding(lengths):
    batch = Batch.of(inputs_of([[[7]] * length for length in lengths]), lengths)

    places = batch.word_places

    assert (places is None) == bool(batch.is_word.all())
    assert places is None or places.tolist() == batch.is_word.flatten().nonzero()[:, 0].tolist()


# Windows


@st.composite
def words_and_room(draw):
    """Draw the number of pieces of each word, and a window size that fits each of them."""
    n_pieces = draw(st.lists(st.integers(1, 6), max_size=40))
    room = draw(st.integers(max(n_pieces, default=1), 60))
    return n_pieces, room


@given(words_and_room())
def test_windows_contain_every_word_and_overlap_by_half_up_to_the_words_at_their_edges(case):
    n_pieces, room = case

    cut = windows(n_pieces, room)

    assert {word for window in cut for word in window} == set(range(len(n_pieces)))
    assert all(sum(n_pieces[word] for word in window) <= room for window in cut)
    assert (cut == [range(len(n_pieces))]) == (sum(n_pieces) <= room)  # a sentence that fits is not split
    for one, other in pairwise(cut):
        shared = sum(n_pieces[word] for word in range(other.start, one.stop))
        assert shared > room - room // 2 - 2 * max(n_pieces)
    assert cut[-1].start == 0 or sum(n_pieces[cut[-1].start - 1 :]) > room  # the last window is as full as the others


def naive_distance(n_pieces, window, word):
    """Count the pieces between a word and the nearer edge of a window; the ends of the sentence do not count."""
    left = sum(n_pieces[window.start : word]) if window.start > 0 else float("inf")
    right = sum(n_pieces[word + 1 : window.stop]) if window.stop < len(n_pieces) else float("inf")
    return min(left, right)


@given(words_and_room())
def test_a_word_is_read_from_the_window_in_which_it_is_farthest_from_a_cut(case):
    n_pieces, room = case
    cut = windows(n_pieces, room)

    found = owners(n_pieces, cut)

    assert len(found) == len(n_pieces)
    for word, owner in enumerate(found):
        assert word in cut[owner]
        best = max(naive_distance(n_pieces, window, word) for window in cut if word in window)
        assert naive_distance(n_pieces, cut[owner], word) == best
    assert found == sorted(found)
