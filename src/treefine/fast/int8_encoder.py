"""An encoder whose products are of eight-bit numbers: several times as fast on a CPU that has instructions for it.

Weights are rounded by row, as they are stored (`rounding`), and what is multiplied with them by piece. Sums of whole
numbers are exact, so that the numbers of a piece do not depend on how many others are multiplied with it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn

from treefine.errors import ModelError
from treefine.fast.flat_encoder import FlatBias, FlatRelations
from treefine.model.attention import attend_flat
from treefine.model.encoder import Layer, TransformerEncoder
from treefine.model.folder import LARGEST
from treefine.model.parser_model import ParserModel

TINY = torch.finfo(torch.float32).tiny  # so that a row of zeros can be divided by its largest number


class EightBitLinear(nn.Module):
    """Linear layers that read the same input as one, with weights that are rounded once and inputs by row."""

    def __init__(self, linears: Sequence[nn.Linear]) -> None:
        super().__init__()
        weight, scale = rounded_rows(torch.cat([each.weight.detach() for each in linears]))
        self.weight = weight.t().contiguous()  # [input, output]
        self.scale = scale[:, 0]  # [output]
        self.bias = torch.cat([each.bias.detach() for each in linears])

    def forward(self, x: Float[Tensor, "*place input"], *, in_place: bool = False) -> Float[Tensor, "*place output"]:
        """Nearly what the layers themselves give, one behind the other. With `in_place` the input may be lost."""
        rows, scale = rounded_rows(x.flatten(0, -2), in_place=in_place)
        whole = torch._int_mm(rows, self.weight)
        product = whole.view(torch.float32)
        product.copy_(whole).mul_(scale)  # into the same memory: to ask for more of it takes longer than to multiply
        return torch.addcmul(self.bias, product, self.scale, out=product).view(*x.shape[:-1], -1)


def rounded_rows(
    x: Float[Tensor, "row width"], *, in_place: bool = False
) -> tuple[Int8[Tensor, "row width"], Float[Tensor, "row 1"]]:
    """Each row in whole numbers of which the largest is ±127, and what to multiply them by."""
    largest = torch.maximum(x.amax(-1, keepdim=True), x.amin(-1, keepdim=True).neg_())
    scale = largest.div_(LARGEST).clamp_(min=TINY)
    return torch.div(x, scale, out=x if in_place else None).round_().to(torch.int8), scale


class EightBitLayer(nn.Module):
    """A layer of the encoder in eight bits; its norms, and the attention between its products, stay in float32."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        attention = layer.attention
        self.n_attention_heads = attention.n_attention_heads
        self.projections = EightBitLinear([attention.query, attention.key, attention.value])
        self.output = EightBitLinear([attention.output])
        self.inner, self.outer = EightBitLinear([layer.inner]), EightBitLinear([layer.outer])
        self.attention_norm, self.outer_norm, self.activation = layer.attention_norm, layer.outer_norm, layer.activation
        self.relations = None if attention.relations is None else attention.relations.fixed(torch.float32)

    def forward(
        self,
        x: Float[Tensor, "piece width"],
        bias: FlatBias,
        relations: FlatRelations | None,
    ) -> Float[Tensor, "piece width"]:
        """The next layer's input, of rows laid end to end."""
        query, key, value = self.projections(x).unflatten(-1, (3, self.n_attention_heads, -1)).unbind(1)
        attended = attend_flat(query, key, value, bias=bias, relations=relations, tables=self.relations)
        x = self.attention_norm(self.output(attended.flatten(1), in_place=True).add_(x))
        output: Tensor = self.outer_norm(self.outer(self._activated(self.inner(x)), in_place=True).add_(x))
        return output

    def _activated(self, x: Tensor) -> Tensor:
        """The activation, in place where torch has it so."""
        if isinstance(self.activation, nn.GELU):
            return torch.ops.aten.gelu_(x, approximate=self.activation.approximate)  # type: ignore[no-any-return]
        activated: Tensor = self.activation(x)
        return activated


def is_quick() -> bool:
    """Whether this processor has instructions for such products (VNNI), so that torch does them fast and exactly."""
    has_them = getattr(torch.cpu, "_is_vnni_supported", lambda: False)
    return bool(torch.backends.mkldnn.is_available() and has_them())  # type: ignore[no-untyped-call]


@torch.no_grad()
def with_eight_bits(model: ParserModel) -> ParserModel:
    """The model with its encoder's linear layers in eight bits; all other weights are shared."""
    shared = (*model.parameters(), model.settings, model.vocabulary, model.subwords)
    found = copy.deepcopy(model, {id(each): each for each in shared})
    assert isinstance(found.encoder, TransformerEncoder)
    encoder: nn.Module = found.encoder
    if found.encoder.widen is not None:
        encoder.widen = EightBitLinear([found.encoder.widen])
    layers = [each for each in found.encoder.layers if isinstance(each, Layer)]
    assert len(layers) == len(found.encoder.layers)  # of a model that is in eight bits already there are none
    encoder.layers = nn.ModuleList(map(EightBitLayer, layers))
    encoder.register_forward_pre_hook(_check_parses)
    return found.eval()


def _check_parses(encoder: nn.Module, _: object) -> None:
    """Refuse all but parsing: the layers are made for rows that are laid flat."""
    assert isinstance(encoder, TransformerEncoder)
    if not encoder.lays_flat(encoder.root.device):
        hint = "Call it under torch.inference_mode(), in eval mode and without autocast; train in float32."
        raise ModelError("An encoder in eight bits only parses, on a CPU; nothing can be learned with it.", hint=hint)
