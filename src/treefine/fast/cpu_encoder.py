"""Encode for parsing on a CPU, in float32 or with int8 matrix products.

Rows of equal length attend together, as a block; everything else is computed over all pieces at once.

Int8 is several times as fast on a CPU with int8 instructions. Weights are quantised by row, as `model.folder.rounded`
stores them, and inputs by piece. See docs/design.md, 'Int8 on a CPU'.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, Int8, Shaped
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.errors import ModelError
from treefine.fast import view_of
from treefine.model.attention import NONE, Attend, Layer, RelationRows, Relations, Vectors
from treefine.model.batch import Encoded, Graphs, PieceInputs, TagIds
from treefine.model.encoder import TransformerEncoder
from treefine.model.folder import LARGEST

_TINY = torch.finfo(torch.float32).tiny  # a lower bound on scales, so that a row of zeros is not divided by zero


class FlatEncoder(TransformerEncoder):
    """`TransformerEncoder` for parsing on a CPU; its layers may be those of `int8_encoder`."""

    def forward(
        self,
        inputs: PieceInputs,
        tags: TagIds | None,
        graphs: Graphs | None,
        layers: range | None = None,
        before: Encoded | None = None,
    ) -> Encoded:
        """Return the vectors of the pieces, without gradients."""
        if torch.is_grad_enabled() or self.dropout.training:
            hint = "Call it under torch.no_grad() and in eval mode; train with the model itself."
            raise ModelError("This encoder is only for parsing and cannot be trained.", hint=hint)
        with torch.autocast("cpu", enabled=False):  # even if the caller enabled it
            return super().forward(inputs, tags, graphs, layers, before)

    def attention(self, inputs: PieceInputs, relations: Relations | None, dtype: torch.dtype) -> Attend:
        """Return the attention function for these rows."""
        blocks = blocks_of(inputs.row_sizes)
        biases = [self.bias(block.of(inputs.is_piece), dtype) for block in blocks]
        return FlatAttention(blocks, biases, inputs.places, relations)


class Block(NamedTuple):
    """Consecutive rows of equal size."""

    start: int  # their first piece
    n_rows: int
    size: int  # of each row, padding included

    def of(self, x: Shaped[Tensor, "piece ..."]) -> Shaped[Tensor, "row place ..."]:
        """Return the pieces of the block as rows."""
        return x[self.start : self.start + self.n_rows * self.size].view(self.n_rows, self.size, *x.shape[1:])

    def of_heads(self, x: Vectors) -> Float[Tensor, "row attn place width"]:
        """Return the vectors of the block by row and attention head."""
        return self.of(x).transpose(1, 2)


def blocks_of(row_sizes: Sequence[int]) -> list[Block]:
    """Return the blocks of rows of these sizes. There are few if similar sizes follow each other."""
    blocks, start = [], 0
    for size, group in groupby(row_sizes):
        blocks.append(Block(start, len(list(group)), size))
        start += blocks[-1].n_rows * size
    return blocks


class FlatAttention:
    """Attention within rows laid end to end: torch's attention, block by block, with corrections for the arcs."""

    def __init__(
        self,
        blocks: Sequence[Block],
        biases: Sequence[Float[Tensor, "_ _ _ _"]],
        places: Int[Tensor, " piece"],
        relations: Relations | None,
    ) -> None:
        """Prepare attention with the bias of each block."""
        self.blocks, self.biases, self.relations = blocks, biases, relations
        if relations is None:
            return
        self.has_graph = relations.has_graph.float()[:, None, None]  # [piece, 1, 1]
        sizes = np.repeat([each.size for each in blocks], [each.n_rows for each in blocks])
        before = np.repeat(np.cumsum(sizes**2) - sizes**2, sizes)  # the cells of earlier rows
        first, size, above = (
            torch.from_numpy(before),
            torch.from_numpy(np.repeat(sizes, sizes)),
            places[relations.above],
        )
        # The cell of each piece as query with the piece above it, then that of the reverse, in the bias of all pairs.
        self.cells = torch.cat([first + places * size + above, first + above * size + places])
        pairs = [
            each.expand(-1, -1, block.size, -1).transpose(0, 1).flatten(1)
            for each, block in zip(biases, blocks, strict=True)
        ]
        self.bias = torch.cat(pairs, dim=1)  # [attention head, or 1 for all; cell]

    def __call__(
        self, query: Vectors, key: Vectors, value: Vectors, rows: RelationRows | None, dropout: float = 0.0
    ) -> Vectors:
        """Return the new value of each piece, without gradients."""
        assert not dropout
        if rows is not None and self.relations is not None:
            return self._with_graph(query, key, value, rows, self.relations)
        found = [
            F.scaled_dot_product_attention(
                block.of_heads(query), block.of_heads(key), block.of_heads(value), attn_mask=bias
            )
            for block, bias in zip(self.blocks, self.biases, strict=True)
        ]
        return _laid([each.transpose(1, 2) for each in found])

    def _with_graph(
        self, query: Vectors, key: Vectors, value: Vectors, rows: RelationRows, relations: Relations
    ) -> Vectors:
        """Attend with a graph: add the score terms of the arcs to the mask of torch's attention.

        torch's attention never stores the weights of all pairs. The relation values need two weights per piece, which
        are recomputed from the log-sums that it returns.
        """
        n_attn, width = query.shape[1:]
        above, cells = relations.above, self.cells.expand(n_attn, -1)
        key_shares, value_shares = rows.keys - rows.keys[NONE], rows.values - rows.values[NONE]
        query_above, key_above = query.index_select(0, above), key.index_select(0, above)

        # All products reuse one buffer: allocating memory takes longer than multiplying.
        product = torch.empty_like(query_above)
        up = torch.mul(query, F.embedding(relations.up, key_shares)[:, None], out=product).sum(-1)  # [piece, attn]
        down = torch.mul(query_above, F.embedding(relations.down, key_shares)[:, None], out=product).sum(-1)
        shares = self.bias.expand(n_attn, -1).clone().scatter_add_(1, cells, torch.cat([up, down]).T)
        attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        parts, sums, first = [], [], 0  # the new values, and the logarithms of the softmax denominators
        for block in self.blocks:
            last = first + block.n_rows * block.size**2
            mask = shares[:, first:last].view(-1, block.n_rows, block.size, block.size).transpose(0, 1)
            attended, log_sum = attention(
                block.of_heads(query), block.of_heads(key), block.of_heads(value), attn_mask=mask
            )
            parts.append(attended.transpose(1, 2))
            sums.append(log_sum.transpose(1, 2))
            first = last
        found, log_sums = _laid(parts), _laid(sums)  # by piece

        up_share, down_share = shares.gather(1, cells).T.chunk(2)  # these include the bias
        up = key_above.mul_(query).sum(-1).mul_(1 / math.sqrt(width)).add_(up_share).sub_(log_sums).exp_()
        down = query_above.mul_(key).sum(-1).mul_(1 / math.sqrt(width)).add_(down_share)
        down = down.sub_(log_sums.index_select(0, above)).exp_()
        below = torch.mul(down[..., None], F.embedding(relations.down, value_shares)[:, None], out=product)
        flat = found.view(len(found), -1)  # [piece, attn and width]
        flat.scatter_add_(0, above[:, None].expand_as(flat), below.view_as(flat))
        found.addcmul_(up[..., None], F.embedding(relations.up, value_shares)[:, None])
        return found.add_(self.has_graph * rows.values[NONE])


def _laid(blocks: list[Tensor]) -> Float[Tensor, "piece ..."]:
    """Lay the rows of blocks end to end."""
    flat = [each.flatten(0, 1) for each in blocks]
    return flat[0] if len(flat) == 1 else torch.cat(flat)


@torch.no_grad()
def int8_encoder(encoder: TransformerEncoder) -> FlatEncoder:
    """Return an encoder with its linear layers in int8; it shares all other weights."""
    layers = [each for each in encoder.layers if isinstance(each, Layer)]
    tables = [each.attention.relations for each in layers]
    rows = [None if each is None else each.rows() for each in tables]
    int8_layers = nn.ModuleList(map(Int8Layer, layers, rows))
    widen = None if encoder.widen is None else Int8Linear([encoder.widen])
    return view_of(encoder, FlatEncoder, layers=int8_layers, widen=widen)


def int8_linears(module: nn.Module) -> nn.Module:
    """Return a view of a module, such as a scorer, with its linear layers in int8."""
    parts: dict[str, nn.Module] = {
        name: Int8Linear([part]) if isinstance(part, nn.Linear) else int8_linears(part)
        for name, part in module.named_children()
    }
    return view_of(module, type(module), **parts)


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

    def __init__(self, layer: Layer, rows: RelationRows | None) -> None:
        super().__init__()
        attention, self.rows = layer.attention, rows
        self.n_attention_heads = attention.n_attention_heads
        self.projections = Int8Linear([attention.query, attention.key, attention.value])
        self.output = Int8Linear([attention.output])
        self.inner, self.outer = Int8Linear([layer.inner]), Int8Linear([layer.outer])
        self.attention_norm, self.outer_norm, of = layer.attention_norm, layer.outer_norm, layer.activation
        # torch can apply GELU in place
        self.activation = partial(torch.ops.aten.gelu_, approximate=of.approximate) if isinstance(of, nn.GELU) else of

    def forward(self, x: Float[Tensor, "piece width"], attend: Attend) -> Float[Tensor, "piece width"]:
        """Return the output of the layer."""
        query, key, value = self.projections(x).unflatten(-1, (3, self.n_attention_heads, -1)).unbind(1)
        attended = attend(query, key, value, self.rows, 0.0)
        x = self.attention_norm(self.output(attended.flatten(1), in_place=True).add_(x))
        output: Tensor = self.outer_norm(self.outer(self.activation(self.inner(x)), in_place=True).add_(x))
        return output
