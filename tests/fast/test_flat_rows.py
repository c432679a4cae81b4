"""Rows of pieces laid end to end, and the encoder over them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generated_inputs import inputs_of, sentences_in_pieces
from tests.support.tiny import sample, tiny_model
from tests.support.tiny_tokenizers import wordpiece
from treefine.config import TagSettings
from treefine.fast.flat_encoder import FlatRows
from treefine.model.batch import Graphs


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


@pytest.mark.parametrize("rows_at_once", [None, 1, 3])
@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("family", ["bert", "mpnet"])
def test_words_have_the_vectors_that_training_gives_them(family, graphs, rows_at_once):
    tags = TagSettings("given", ("upos", "xpos"), double_specials=True)
    model, sentences = tiny_model(family=family, tokenizer=wordpiece, tags=tags, n_positions=24), sample(12)
    batch, given_tags = model.batch_of(sentences, padded_to=4), model.given_tags(sentences)
    read = Graphs.of([each.arcs for each in sentences], model.vocabulary) if graphs else None
    assert batch.inputs.n_rows > len(sentences)  # some are cut into windows

    padded = model.encoder(batch.inputs, given_tags, read)
    with torch.no_grad():
        flat = model.encoder(batch.inputs, given_tags, read, rows_at_once=rows_at_once)

    assert torch.allclose(flat[batch.is_word], padded[batch.is_word], atol=1e-4)


def test_rows_are_laid_flat_only_where_a_cpu_parses():
    encoder = tiny_model().encoder
    cpu = torch.device("cpu")

    with torch.no_grad():
        assert encoder.lays_flat(cpu)
        assert not encoder.lays_flat(torch.device("cuda"))
        assert not encoder.train().lays_flat(cpu)
        with torch.autocast("cpu"):
            assert not encoder.eval().lays_flat(cpu)
        assert not encoder.bfloat16().lays_flat(cpu)
    assert not tiny_model().encoder.lays_flat(cpu)
