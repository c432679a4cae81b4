"""Recomputing the activation in the backward pass saves memory and changes no result."""

import pytest
import torch
from torch import nn

from treefine.fast.training_encoder import LinearOfActivation

ACTIVATIONS = [nn.GELU(), nn.GELU(approximate="tanh"), nn.ReLU()]


def recomputing(linear, activation, x):
    return LinearOfActivation.apply(x, linear.weight, linear.bias, activation)


def setting():
    generator = torch.Generator().manual_seed(1)
    linear = nn.Linear(24, 16)
    for weight in linear.parameters():
        weight.data = torch.randn(weight.shape, generator=generator)
    return linear, torch.randn(3, 5, 24, generator=generator, requires_grad=True)


def results(function, linear, x):
    """Return the output and all gradients."""
    output = function(x)
    generator = torch.Generator().manual_seed(2)
    share = torch.randn(output.shape, generator=generator).to(output.dtype)
    return [output, *torch.autograd.grad(output, (x, *linear.parameters()), share)]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_output_and_gradients_equal_activation_followed_by_linear(activation, dtype):
    """In bfloat16 as under autocast, bit for bit: weights are rounded the same, and their gradients come in float32."""
    linear, x = setting()

    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        fast = results(lambda x: recomputing(linear, activation, x.to(dtype)), linear, x)
        slow = results(lambda x: linear(activation(x.to(dtype))), linear, x)

    for ours, right in zip(fast, slow, strict=True):
        torch.testing.assert_close(ours, right, rtol=0, atol=0 if dtype == torch.bfloat16 else 1e-5)
    assert [each.dtype for each in fast] == [dtype, torch.float32, torch.float32, torch.float32]


def test_only_the_input_is_stored():
    linear, x = setting()
    kept = []

    with torch.autograd.graph.saved_tensors_hooks(lambda each: kept.append(each.shape) or each, lambda each: each):
        recomputing(linear, nn.GELU(), x)

    assert sorted(kept) == sorted([x.shape, linear.weight.shape])
