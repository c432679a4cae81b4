"""Encode with int8 matrix products, which are several times as fast on a CPU with int8 instructions.

Weights are quantised by row, as `model.folder.rounded` stores them, and inputs by piece. See docs/design.md, 'Int8 on a
CPU'.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn

from treefine.fast import view_of
from treefine.fast.flat_encoder import FlatEncoder
from treefine.model.attention import Attend
from treefine.model.encoder import Layer, TransformerEncoder
from treefine.model.folder import LARGEST

_TINY = torch.finfo(torch.float32).tiny  # a lower bound on scales, so that a row of zeros is not divided by zero


@torch.no_grad()
def int8_encoder(encoder: TransformerEncoder) -> FlatEncoder:
    """Return an encoder with its linear layers in int8; it shares all other weights."""
    layers = nn.ModuleList(Int8Layer(each) for each in encoder.layers if isinstance(each, Layer))
    widen = None if encoder.widen is None else Int8Linear([encoder.widen])
    return view_of(encoder, FlatEncoder, layers=layers, widen=widen)


class Int8Linear(nn.Module):
    """Linear layers with the same input, merged into one int8 layer; weights are quantised once, inputs by row."""

    def __init__(self, linears: Sequence[nn.Linear]) -> None:
        super().__init__()
        weight, scale = rounded_rows(torch.cat([each.weight.detach() for each in linears]))
        self.weight = weight.t().contiguous()  # [input, output]
        self.scale = scale[:, 0]  # [output]
        self.bias = torch.cat([each.bias.detach() for each in linears])

    def forward(self, x: Float[Tensor, "*place input"], *, in_place: bool = False) -> Float[Tensor, "*place output"]:
        """Return the outputs of the layers, concatenated. With `in_place`, the input may be overwritten."""
        rows, scale = rounded_rows(x.flatten(0, -2), in_place=in_place)
        whole = torch._int_mm(rows, self.weight)
        product = whole.view(torch.float32)
        product.copy_(whole).mul_(scale)  # reuse the memory: allocating takes longer than multiplying
        return torch.addcmul(self.bias, product, self.scale, out=product).view(*x.shape[:-1], -1)


def rounded_rows(
    x: Float[Tensor, "row width"], *, in_place: bool = False
) -> tuple[Int8[Tensor, "row width"], Float[Tensor, "row 1"]]:
    """Return each row as integers up to ±127, and the scale by which to multiply it."""
    largest = torch.maximum(x.amax(-1, keepdim=True), x.amin(-1, keepdim=True).neg_())
    scale = largest.div_(LARGEST).clamp_(min=_TINY)
    return torch.div(x, scale, out=x if in_place else None).round_().to(torch.int8), scale


class Int8Layer(nn.Module):
    """`Layer` with linear layers in int8; norms and attention stay in float32."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        attention = layer.attention
        self.n_attention_heads = attention.n_attention_heads
        self.projections = Int8Linear([attention.query, attention.key, attention.value])
        self.output = Int8Linear([attention.output])
        self.inner, self.outer = Int8Linear([layer.inner]), Int8Linear([layer.outer])
        self.attention_norm, self.outer_norm, self.activation = layer.attention_norm, layer.outer_norm, layer.activation
        self.relations = None if attention.relations is None else attention.relations.fixed(torch.float32)

    def forward(self, x: Float[Tensor, "piece width"], attend: Attend) -> Float[Tensor, "piece width"]:
        """Return the output of the layer."""
        query, key, value = self.projections(x).unflatten(-1, (3, self.n_attention_heads, -1)).unbind(1)
        attended = attend(query, key, value, self.relations, 0.0)
        x = self.attention_norm(self.output(attended.flatten(1), in_place=True).add_(x))
        output: Tensor = self.outer_norm(self.outer(self._activated(self.inner(x)), in_place=True).add_(x))
        return output

    def _activated(self, x: Tensor) -> Tensor:
        """Apply the activation, in place if torch can."""
        if isinstance(self.activation, nn.GELU):
            return torch.ops.aten.gelu_(x, approximate=self.activation.approximate)  # type: ignore[no-any-return]
        activated: Tensor = self.activation(x)
        return activated
