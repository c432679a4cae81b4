"""Rows of pieces laid end to end; the encoder over them is tested in tests/contracts/test_encoders.py."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.generated_inputs import inputs_of, sentences_in_pieces
from tests.support.tiny import sample, tiny_model
from treefine.fast.flat_encoder import FlatRows


@given(sentences_in_pieces(), st.sampled_from([12, 128]), st.booleans())
def test_every_row_lies_in_one_stretch_and_blocks_hold_rows_of_one_length(sentences, n_positions, last_alone):
    inputs = inputs_of(sentences, n_positions)  # some are cut into windows
    chosen = slice(inputs.n_rows - 1, None) if last_alone else slice(None)

    rows = FlatRows.of(inputs, chosen)

    laid = []
    for block in rows.blocks:
        assert block.start == len(laid)
        for row in block.rows:
            assert rows.starts[row] == len(laid)
            laid += [(row, place) for place in range(inputs.row_lengths[row])]
            assert inputs.row_lengths[row] == block.length
        assert block.stop == len(laid)
    assert list(zip(rows.rows.tolist(), rows.places.tolist(), strict=True)) == laid
    assert sorted({row for row, _ in laid}) == list(range(inputs.n_rows))[chosen]
    assert rows.take(inputs.pieces).tolist() == [inputs.pieces[place] for place in laid]
    assert [block.length for block in rows.blocks] == sorted({block.length for block in rows.blocks})


def test_rows_are_as_long_as_the_multiple_that_they_are_padded_to():
    model = tiny_model()
    inputs = model.batch_of(sample(20), padded_to=4).inputs

    rows = FlatRows.of(inputs, slice(None))

    assert all(block.length % 4 == 0 for block in rows.blocks)
    assert len(rows) == sum(-(-length // 4) * 4 for length in inputs.row_lengths)
    assert len(rows) < inputs.pieces.numel()  # which has the padding of the longest
