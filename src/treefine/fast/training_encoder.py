"""The encoder for training: fused attention on a GPU, and the widest tensor of each layer recomputed, not stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.fast import view_of
from treefine.fast.fused_attention import fused_attention, is_available
from treefine.model.attention import Attend, Layer, Relations
from treefine.model.batch import PieceInputs
from treefine.model.encoder import TransformerEncoder

Activation = Callable[[Tensor], Tensor]


def training_encoder(encoder: TransformerEncoder) -> TrainingEncoder:
    """Return an encoder with the same results and less memory use. It shares all weights, so it follows each update."""
    layers = nn.ModuleList(view_of(each, RecomputingLayer) for each in encoder.layers)
    return view_of(encoder, TrainingEncoder, layers=layers)


class TrainingEncoder(TransformerEncoder):
    """`TransformerEncoder` with fused attention if the device supports it."""

    def attention(self, inputs: PieceInputs, relations: Relations | None, dtype: torch.dtype) -> Attend:
        """Return the attention function for these rows."""
        if relations is None or not is_available(inputs.pieces.device):
            return super().attention(inputs, relations, dtype)
        return fused_attention(self, inputs, relations)


class RecomputingLayer(Layer):
    """`Layer` that recomputes its activation in the backward pass."""

    def forward(self, x: Float[Tensor, "piece width"], attend: Attend) -> Float[Tensor, "piece width"]:
        """Return the output of the layer."""
        if not self.dropout.training:
            return super().forward(x, attend)
        x = self.attention_norm(x + self.dropout(self.attention(x, attend)))
        inner, outer = self.inner(x), self.outer
        outer = LinearOfActivation.apply(inner, outer.weight, outer.bias, self.activation)  # type: ignore[no-untyped-call]
        output: Tensor = self.outer_norm(x + self.dropout(outer))
        return output


class LinearOfActivation(torch.autograd.Function):
    """`linear(activation(x))`, which stores only `x` for the backward pass.

    Weights are cast to the dtype of `x`, as autocast does.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, activation: Activation) -> Tensor:
        """Return the output."""
        rounded = weight.to(x.dtype)
        ctx.save_for_backward(x, rounded)
        ctx.activation, ctx.dtype = activation, weight.dtype
        return F.linear(activation(x), rounded, bias.to(x.dtype))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        """Return the gradients of input, weight and bias."""
        x, weight = ctx.saved_tensors
        grad = grads[0].to(x.dtype)
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            again = ctx.activation(x)
        (of_x,) = torch.autograd.grad(again, x, grad @ weight)
        rows = grad.flatten(0, -2)
        of_weight = rows.T @ again.detach().flatten(0, -2)
        return of_x, of_weight.to(ctx.dtype), rows.sum(0).to(ctx.dtype), None
