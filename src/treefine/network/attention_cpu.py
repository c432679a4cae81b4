"""Attention that reads a graph, for a CPU that parses: torch's own attention, and a correction where there are arcs."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.network.relations import NONE, Relations


def attend_on_cpu(
    query: Float[Tensor, "row attn piece width"],
    key: Float[Tensor, "row attn piece width"],
    value: Float[Tensor, "row attn piece width"],
    *,
    bias: Float[Tensor, "row _ _ piece"],
    relations: Relations,
    keys: Float[Tensor, "relation width"],
    values: Float[Tensor, "relation width"],
) -> Float[Tensor, "row attn piece width"]:
    """What `attend` gives, without gradients.

    The shares of the arcs in the scores go into the mask of torch's own attention, which never holds the weights of all
    pairs. The two weights of each piece that the values need are worked out anew, from the sums that it tells.
    """
    n_rows, n_attn, n_pieces, width = query.shape
    pieces, cells = relations.pieces_above, relations.cells[:, None].expand(-1, n_attn, -1)
    key_shares, value_shares = keys - keys[NONE], values - values[NONE]
    own_query, own_key = (each.transpose(1, 2) for each in (query, key))  # [row, piece, attn, width]
    query_above, key_above = (_above(each, pieces) for each in (own_query, own_key))

    # Products are written over each other: to ask for memory takes longer than to multiply.
    product = torch.empty_like(query_above)
    up_share = torch.mul(own_query, F.embedding(relations.up, key_shares)[:, :, None], out=product).sum(-1)
    down_share = torch.mul(query_above, F.embedding(relations.down, key_shares)[:, :, None], out=product).sum(-1)
    mask = bias.expand(-1, n_attn, n_pieces, -1).clone()
    shares = mask.flatten(2).scatter_add_(2, cells, torch.cat([up_share, down_share], dim=1).transpose(1, 2))
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    attended, log_sums = attention(query, key, value, attn_mask=mask)

    log_sums = log_sums.transpose(1, 2)  # [row, piece, attn]
    up_share, down_share = shares.gather(2, cells).transpose(1, 2).chunk(2, dim=1)  # what the bias adds is in these
    up = key_above.mul_(own_query).sum(-1).mul_(1 / math.sqrt(width)).add_(up_share).sub_(log_sums).exp_()
    down = query_above.mul_(own_key).sum(-1).mul_(1 / math.sqrt(width)).add_(down_share)
    down = down.sub_(_above(log_sums, pieces)).exp_()
    found: Tensor = attended.transpose(1, 2).flatten(0, 1).flatten(1)  # [row and piece, attn and width]
    below = torch.mul(down[..., None], F.embedding(relations.down, value_shares)[:, :, None], out=product)
    found.scatter_add_(0, pieces[:, None].expand_as(found), below.view_as(found))
    found = found.view(n_rows, n_pieces, n_attn, width)
    found.addcmul_(up[..., None], F.embedding(relations.up, value_shares)[:, :, None])
    found.add_(relations.has_graph[:, None, None, None] * values[NONE])
    return found.transpose(1, 2)


def _above(x: Float[Tensor, "row piece *rest"], pieces: Tensor) -> Float[Tensor, "row piece *rest"]:
    """For each piece what the piece above it has."""
    return x.flatten(0, 1).index_select(0, pieces).view(x.shape)
