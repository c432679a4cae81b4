"""The inputs of the network: pieces in windows, words, batches and graphs as tensors."""

from dataclasses import fields, replace
from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generated_inputs import CLS, LABELS, PAD, SEP, arcs_over, inputs_of, sentences_in_pieces
from treefine.model.batch import (
    LABEL,
    N_SPECIALS,
    NOTHING,
    ROOT_PIECE,
    Batch,
    Encoded,
    Graphs,
    PieceInputs,
    owners,
    windows,
)
from treefine.model.vocabulary import UNSEEN, Vocabulary
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
    """Draw some of the sentences, each at most once, in any order."""
    return st.lists(st.integers(0, len(sentences) - 1), min_size=1, max_size=5, unique=True)


# Pieces


def rows_of(inputs):
    """Return the numbers of the pieces of each row."""
    return torch.arange(len(inputs.pieces)).split(inputs.row_sizes)


def test_a_row_is_cls_root_the_pieces_and_sep_and_rows_are_laid_end_to_end():
    inputs = inputs_of([[[7, 8], [9]], []])

    assert inputs.pieces.tolist() == [CLS, PAD, 7, 8, 9, SEP, CLS, PAD, SEP]
    assert inputs.words.tolist() == [-1, 0, 1, 1, 2, -1, -1, 0, -1]
    assert inputs.is_first.int().tolist() == [0, 1, 1, 0, 1, 0, 0, 1, 0]
    assert inputs.is_piece.all()
    assert inputs.places.tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2]
    assert inputs.rows.tolist() == inputs.sentences.tolist() == [0] * 6 + [1] * 3
    assert inputs.starts.tolist() == [0, 6]
    assert inputs.first_pieces.tolist() == [1, 2, 4, 7]
    assert (inputs.row_sizes, inputs.row_counts) == ((6, 3), (1, 1))


def test_rows_may_be_padded_to_multiples_of_a_size():
    inputs = inputs_of([[[7, 8], [9]], []], padded_to=4)

    assert inputs.pieces.tolist() == [CLS, PAD, 7, 8, 9, SEP, PAD, PAD, CLS, PAD, SEP, PAD]
    assert inputs.words.tolist() == [-1, 0, 1, 1, 2, -1, -1, -1, -1, 0, -1, -1]
    assert inputs.is_piece.int().tolist() == [1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0]
    assert (inputs.starts.tolist(), inputs.row_sizes) == ([0, 8], (8, 4))
    assert inputs.first_pieces.tolist() == [1, 2, 4, 9]


@given(sentences=sentences_in_pieces(max_words=20), n_positions=room_for_positions, padded_to=st.sampled_from([1, 4]))
def test_rows_fit_the_positions_and_belong_to_their_sentences(sentences, n_positions, padded_to):
    inputs = inputs_of(sentences, n_positions, padded_to=padded_to)

    assert max(inputs.row_sizes) <= n_positions
    assert sum(inputs.row_sizes) == len(inputs.pieces)
    of_rows = [number for number, count in enumerate(inputs.row_counts) for _ in range(count)]
    for row, numbers in enumerate(rows_of(inputs)):
        sentence = sentences[of_rows[row]]
        assert inputs.starts[row] == numbers[0]
        assert inputs.places[numbers].tolist() == list(range(len(numbers)))
        assert set(inputs.rows[numbers].tolist()) == {row}
        assert set(inputs.sentences[numbers].tolist()) == {of_rows[row]}
        length = int(inputs.is_piece[numbers].sum())
        assert len(numbers) - length < padded_to
        pieces, words = inputs.pieces[numbers].tolist(), inputs.words[numbers].tolist()
        inside = words[2 : length - 1]
        most = max(1, (n_positions - N_SPECIALS) // 4)
        window = range(inside[0], inside[-1] + 1) if inside else range(0)
        whole = [(word, piece) for word in window for piece in sentence[word - 1][:most]]
        assert list(zip(inside, pieces[2 : length - 1], strict=True)) == whole
        assert (pieces[0], pieces[length - 1], set(pieces[length:])) == (CLS, SEP, {PAD} if pieces[length:] else set())
        assert words[0] == words[length - 1] == -1
        assert words[ROOT_PIECE] == 0
        assert set(words[length:]) <= {-1}
        assert inputs.is_piece[numbers].tolist() == [place < length for place in range(len(pieces))]
        firsts = [place for place, word in enumerate(words) if word >= 0 and words.index(word) == place]
        assert inputs.is_first[numbers].nonzero().flatten().tolist() == firsts


@given(sentences=sentences_in_pieces(max_words=20), n_positions=room_for_positions)
def test_each_word_is_read_at_its_first_piece_in_a_row_of_its_sentence(sentences, n_positions):
    inputs = inputs_of(sentences, n_positions)

    of_words = iter(inputs.first_pieces.tolist())
    for number, sentence in enumerate(sentences):
        for word in range(len(sentence) + 1):
            piece = next(of_words)
            assert inputs.sentences[piece] == number
            assert inputs.words[piece] == word
            assert inputs.is_first[piece]
            if word:
                assert inputs.pieces[piece] == sentence[word - 1][0]
    assert next(of_words, None) is None


@given(data=st.data())
def test_a_selected_batch_is_that_of_the_selected_sentences(data):
    sentences = data.draw(sentences_in_pieces(max_words=12))
    n_positions, chosen = data.draw(room_for_positions), data.draw(choices(sentences))
    lengths, padded_to = [len(sentence) for sentence in sentences], data.draw(st.sampled_from([1, 4]))
    inputs = inputs_of(sentences, n_positions, padded_to=padded_to)
    numbers = torch.arange(len(inputs.pieces))[:, None].float()  # a vector for each piece

    part = replace(Batch.of(inputs, lengths), encoded=Encoded(numbers, -numbers, 1)).select(chosen)

    rebuilt = inputs_of([sentences[number] for number in chosen], n_positions, padded_to=padded_to)
    assert_same(replace(part, encoded=None), Batch.of(rebuilt, [lengths[number] for number in chosen]))
    kept = [numbers[inputs.sentences == number] for number in chosen]
    assert torch.equal(part.encoded.lower, torch.cat(kept))
    assert torch.equal(part.encoded.last, -part.encoded.lower)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5))
def test_words_have_places_in_a_padded_table_and_the_root_of_their_sentence(lengths):
    batch = Batch.of(inputs_of([[[7]] * length for length in lengths]), lengths)

    assert batch.is_word.sum(1).tolist() == [length + 1 for length in lengths]
    assert batch.places.tolist() == batch.is_word.flatten().nonzero()[:, 0].tolist()
    words = [(row, word) for row, length in enumerate(lengths) for word in range(length + 1)]
    assert batch.roots.tolist() == [words.index((row, 0)) for row, _ in words]
    assert [divmod(place, batch.n_words) for place in batch.places.tolist()] == words


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

    assert_same(part, Graphs.of([arcs[number] for number in chosen], VOCABULARY))


def test_a_graph_is_read_if_it_has_an_arc_or_a_decided_label():
    heads, nothing = torch.tensor([[-1, 2, 0], [-1, -1, -1], [-1, -1, -1]]), torch.full((3, 3), UNSEEN)
    decided = torch.tensor([[NOTHING] * 3, [NOTHING] * 3, [NOTHING, NOTHING, LABEL]])

    assert Graphs(heads, nothing).are_read.tolist() == [True, False, False]
    assert Graphs(heads, nothing, decided).are_read.tolist() == [True, False, True]


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
