"""Int8 products; tests/contracts/test_encoders.py tests the encoder."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.fast.cpu_encoder import Int8Linear, rounded_rows
from treefine.model.folder import restored, rounded


def some_linear(n_in, n_out, seed=1):
    linear = nn.Linear(n_in, n_out)
    for weight in linear.parameters():
        weight.data = torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed))
    return linear


def slow_product(x, linear):
    """Compute the integer product, one row and one column at a time."""
    results = []
    for row in x:
        row_scale = row.abs().max() / 127
        whole = [round((number / row_scale).item()) for number in row]
        for weights, bias in zip(linear.weight, linear.bias, strict=True):
            scale = weights.abs().max() / 127
            total = sum(a * round((b / scale).item()) for a, b in zip(whole, weights, strict=True))
            results.append(total * row_scale * scale + bias)
    return torch.stack(results).view(len(x), -1)


@torch.no_grad()
def test_the_product_equals_the_integer_product():
    x, linear = torch.randn(3, 16, generator=torch.Generator().manual_seed(2)), some_linear(16, 8)

    assert torch.allclose(Int8Linear([linear])(x), slow_product(x, linear), atol=1e-4)


@torch.no_grad()
@given(st.integers(0, 2**31), st.integers(1, 40), st.floats(1e-3, 1e3))
def test_the_rounding_error_is_within_one_step_of_each_factor(seed, n_rows, size):
    x = size * torch.randn(n_rows, 32, generator=torch.Generator().manual_seed(seed))
    linear = some_linear(32, 16, seed)

    found = Int8Linear([linear])(x)

    steps = [each.abs().amax(-1) / 127 for each in (x, linear.weight)]  # of each row
    exact, most = F.linear(x, linear.weight, linear.bias), [each.abs().sum(-1) for each in (x, linear.weight)]
    bound = 0.5 * (steps[0][:, None] * most[1] + most[0][:, None] * steps[1]) + 8 * steps[0][:, None] * steps[1]
    assert ((found - exact).abs() <= bound + 1e-5 * exact.abs().max()).all()


@torch.no_grad()
@given(st.integers(0, 2**31), st.integers(1, 60))
def test_a_row_has_the_same_result_to_the_last_bit_in_every_batch(seed, n_rows):
    x, layer = (
        torch.randn(n_rows, 32, generator=torch.Generator().manual_seed(seed)),
        Int8Linear([some_linear(32, 16)]),
    )

    whole = layer(x)

    assert torch.equal(whole, torch.cat([layer(row[None]) for row in x]))


@given(st.integers(0, 2**31))
def test_weights_stored_as_int8_are_not_rounded_again(seed):
    weight = torch.randn(8, 32, generator=torch.Generator().manual_seed(seed))
    stored = rounded({"w": weight})

    rows, scale = rounded_rows(restored(stored)["w"])

    assert torch.equal(rows, stored["w"])
    assert torch.allclose(scale[:, 0], stored["w.scale"], rtol=1e-6)
