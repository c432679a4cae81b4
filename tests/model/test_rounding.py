"""Weights stored in eight bits."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from treefine.model.folder import restored, rounded


@given(st.integers(0, 2**31), st.floats(1e-6, 1e3), st.sampled_from([(5, 32), (3, 40), (2, 3, 33)]))
def test_each_number_comes_back_within_half_a_step_of_its_row(seed, size, shape):
    weight = size * torch.randn(shape, generator=torch.Generator().manual_seed(seed))

    stored = rounded({"w": weight})
    back = restored(stored)["w"]

    assert stored["w"].dtype == torch.int8
    step = weight.abs().amax(-1, keepdim=True) / 127
    assert ((back - weight).abs() <= step * 0.5001).all()


def test_a_row_of_zeros_stays_one():
    weight = torch.zeros(2, 64)
    weight[1] = 1.0

    assert torch.equal(restored(rounded({"w": weight}))["w"], weight)


def test_vectors_and_narrow_rows_are_stored_as_float16():
    weights = {"bias": torch.randn(64), "narrow": torch.randn(64, 8)}

    stored = rounded(weights)

    assert {name: each.dtype for name, each in stored.items()} == {"bias": torch.float16, "narrow": torch.float16}
    assert all(torch.equal(restored(stored)[name], weights[name].half().float()) for name in weights)


def test_what_was_never_rounded_is_left_as_it_is():
    """Also a weight whose own name ends like a scale's, and one that has lost its scale: the loader refuses that."""
    weights = {"norm.scale": torch.ones(3), "w": torch.ones((2, 64), dtype=torch.int8), "ids": torch.ones(2).long()}

    found = restored(weights)

    assert found.keys() == weights.keys()
    assert found["w"].dtype == torch.int8


def test_a_scale_that_is_no_number_is_not_believed():
    stored = rounded({"w": torch.randn(3, 40)})
    stored["w.scale"] = stored["w.scale"].to(torch.int8)

    assert restored(stored)["w"].dtype == torch.int8
