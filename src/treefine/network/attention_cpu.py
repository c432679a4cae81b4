"""Attention for a CPU that parses: torch's own, block by block, and a correction where there are arcs."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.network.flat_rows import FlatBias, FlatRelations
from treefine.network.relations import NONE


def attend_blocks(
    query: Float[Tensor, "piece attn width"],
    key: Float[Tensor, "piece attn width"],
    value: Float[Tensor, "piece attn width"],
    bias: FlatBias,
) -> Float[Tensor, "piece attn width"]:
    """The new values of each piece without a graph."""
    found = [
        F.scaled_dot_product_attention(block.of(query), block.of(key), block.of(value), attn_mask=added)
        for block, added in zip(bias.rows.blocks, bias.blocks, strict=True)
    ]
    return _laid([each.transpose(1, 2) for each in found])


def attend_on_cpu(
    query: Float[Tensor, "piece attn width"],
    key: Float[Tensor, "piece attn width"],
    value: Float[Tensor, "piece attn width"],
    *,
    bias: FlatBias,
    relations: FlatRelations,
    keys: Float[Tensor, "relation width"],
    values: Float[Tensor, "relation width"],
) -> Float[Tensor, "piece attn width"]:
    """What `attend` gives, without gradients.

    The shares of the arcs in the scores go into the mask of torch's own attention, which never holds the weights of all
    pairs. The two weights of each piece that the values need are worked out anew, from the sums that it tells.
    """
    n_attn, width = query.shape[1:]
    above, cells = relations.above, relations.cells.expand(n_attn, -1)
    key_shares, value_shares = keys - keys[NONE], values - values[NONE]
    query_above, key_above = query.index_select(0, above), key.index_select(0, above)

    # Products are written over each other: to ask for memory takes longer than to multiply.
    product = torch.empty_like(query_above)
    up_share = torch.mul(query, F.embedding(relations.up, key_shares)[:, None], out=product).sum(-1)  # [piece, attn]
    down_share = torch.mul(query_above, F.embedding(relations.down, key_shares)[:, None], out=product).sum(-1)
    shares = relations.bias.expand(n_attn, -1).clone().scatter_add_(1, cells, torch.cat([up_share, down_share]).T)
    found, log_sums = _attended(query, key, value, bias, shares)

    up_share, down_share = shares.gather(1, cells).T.chunk(2)  # what the bias adds is in these
    up = key_above.mul_(query).sum(-1).mul_(1 / math.sqrt(width)).add_(up_share).sub_(log_sums).exp_()
    down = query_above.mul_(key).sum(-1).mul_(1 / math.sqrt(width)).add_(down_share)
    down = down.sub_(log_sums.index_select(0, above)).exp_()
    below = torch.mul(down[..., None], F.embedding(relations.down, value_shares)[:, None], out=product)
    flat = found.view(len(found), -1)  # [piece, attn and width]
    flat.scatter_add_(0, above[:, None].expand_as(flat), below.view_as(flat))
    found.addcmul_(up[..., None], F.embedding(relations.up, value_shares)[:, None])
    return found.add_(relations.has_graph * values[NONE])


def _attended(
    query: Float[Tensor, "piece attn width"],
    key: Float[Tensor, "piece attn width"],
    value: Float[Tensor, "piece attn width"],
    bias: FlatBias,
    shares: Float[Tensor, "attn cell"],
) -> tuple[Float[Tensor, "piece attn width"], Float[Tensor, "piece attn"]]:
    """What torch's own attention gives, and for each piece the logarithm of the sum that its weights are divided by."""
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    found, sums, first = [], [], 0
    for block in bias.rows.blocks:
        last = first + block.n_rows * block.length**2
        mask = shares[:, first:last].view(-1, block.n_rows, block.length, block.length).transpose(0, 1)
        attended, log_sums = attention(block.of(query), block.of(key), block.of(value), attn_mask=mask)
        found.append(attended.transpose(1, 2))
        sums.append(log_sums.transpose(1, 2))
        first = last
    return _laid(found), _laid(sums)


def _laid(blocks: list[Tensor]) -> Float[Tensor, "piece ..."]:
    """The rows of blocks end to end."""
    flat = [each.flatten(0, 1) for each in blocks]
    return flat[0] if len(flat) == 1 else torch.cat(flat)
