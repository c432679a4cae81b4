"""A linear layer of an activation, in training: what the activation gives is made again for the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the customary name

Activation = Callable[[Tensor], Tensor]


def activated(
    linear: nn.Linear, activation: Activation, x: Float[Tensor, "*place input"]
) -> Float[Tensor, "*place output"]:
    """`linear(activation(x))`. Of the widest tensors of a layer one is kept, `x`, and not two."""
    output: Tensor = _Activated.apply(x, linear.weight, linear.bias, activation)  # type: ignore[no-untyped-call]
    return output


class _Activated(torch.autograd.Function):
    """The function and its gradients; weights are rounded to the precision of `x`, as autocast rounds them."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, activation: Activation) -> Tensor:
        rounded = weight.to(x.dtype)
        ctx.save_for_backward(x, rounded)
        ctx.activation, ctx.dtype = activation, weight.dtype
        return F.linear(activation(x), rounded, bias.to(x.dtype))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, weight = ctx.saved_tensors
        grad = grads[0].to(x.dtype)
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            again = ctx.activation(x)
        (of_x,) = torch.autograd.grad(again, x, grad @ weight)
        rows = grad.flatten(0, -2)
        of_weight = rows.T @ again.detach().flatten(0, -2)
        return of_x, of_weight.to(ctx.dtype), rows.sum(0).to(ctx.dtype), None
