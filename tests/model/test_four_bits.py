"""Piece embeddings in four bits: what a model computes with is what its file holds."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny import sample, tiny_model, write_encoder
from treefine.config import FOUR_BIT_BLOCK
from treefine.errors import ConfigError
from treefine.model.create import PieceChoice, create_parser_model
from treefine.model.folder import from_four_bits, in_four_bits, load_model, read_weights
from treefine.parsing.parser import Parser

numbers = st.floats(-100, 100, width=16)


def table_of(values):
    return torch.tensor(values).reshape(-1, FOUR_BIT_BLOCK)


@given(values=st.lists(numbers, min_size=2 * FOUR_BIT_BLOCK, max_size=2 * FOUR_BIT_BLOCK))
def test_rounding_is_within_half_a_step_and_doing_it_again_changes_nothing(values):
    table = table_of(values)

    once = from_four_bits(*in_four_bits(table))

    step = in_four_bits(table)[1].float().abs()
    largest = 0.51 * step + 1e-3 * table.abs() + 0.51 * (table == -8 * step).float()
    is_opposite = (table / torch.where(step == 0, 1, step)).abs() > 7.5  # only one sign reaches 8 steps
    assert ((once - table).abs() <= torch.where(is_opposite, 1.01 * step, largest)).all()
    assert torch.equal(from_four_bits(*in_four_bits(once)), once)


def wide_model():
    model = tiny_model()
    shape = replace(model.settings.encoder, width=32, embedding_width=32, table_bits=4)
    found = type(model)(replace(model.settings, encoder=shape), model.vocabulary, model.subwords)
    table = found.encoder.pieces.weight
    table.data = from_four_bits(*in_four_bits(torch.randn(table.shape, generator=torch.Generator().manual_seed(1))))
    return found.eval()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8], ids=str)
def test_a_saved_table_of_four_bits_is_loaded_exactly(dtype, tmp_path):
    model = wide_model()

    Parser(model, device="cpu").save(tmp_path / "model", dtype=dtype)
    loaded = load_model(tmp_path / "model")

    assert torch.equal(loaded.encoder.pieces.weight, model.encoder.pieces.weight)
    assert read_weights(tmp_path / "model" / "model.safetensors")["encoder.pieces.weight"].dtype == torch.uint8
    assert not loaded.encoder.pieces.weight.requires_grad


def test_an_encoder_whose_rows_are_not_whole_blocks_cannot_have_four_bits(tmp_path):
    write_encoder(tmp_path / "encoder", "bert")

    with pytest.raises(ConfigError, match=r"table_bits = 4; embedding_width = 16 must be a multiple of 32"):
        create_parser_model(tmp_path / "encoder", sample(5), pieces=PieceChoice(table_bits=4))
