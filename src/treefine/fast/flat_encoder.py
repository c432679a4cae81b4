"""Rows of pieces laid end to end, for parsing on a CPU: only attention looks beyond a single piece."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.model.batch import PieceInputs, padded_length
from treefine.model.relations import NONE, Relations


class Block(NamedTuple):
    """Rows of one length."""

    rows: Int[np.ndarray, " row"]  # which of the inputs' rows these are
    start: int  # the first of their pieces
    length: int  # of each row, padding included

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.rows)

    @property
    def stop(self) -> int:
        """Where its pieces end."""
        return self.start + self.n_rows * self.length

    def of(self, x: Float[Tensor, "piece attn width"]) -> Float[Tensor, "row attn place width"]:
        """The pieces of the block as rows."""
        return x[self.start : self.stop].view(self.n_rows, self.length, *x.shape[1:]).transpose(1, 2)


@dataclass(frozen=True)
class FlatRows:
    """Where the pieces of some rows are when they are laid end to end, shorter rows first."""

    index: Int[Tensor, " piece"]  # where each piece is among all the inputs' pieces
    rows: Int[Tensor, " piece"]  # the row of each piece …
    places: Int[Tensor, " piece"]  # … and its place in that row
    starts: Int[Tensor, " row"]  # the first piece of each of the inputs' rows; only those of the rows asked for count
    blocks: tuple[Block, ...]

    @classmethod
    def of(cls, inputs: PieceInputs, chosen: slice) -> FlatRows:
        """Those of the chosen rows. Each is as long as its own pieces ask for, not as the longest row."""
        width = inputs.pieces.shape[1]
        numbers = range(inputs.n_rows)[chosen]
        lengths = np.array([padded_length(inputs.row_lengths[n], inputs.padded_to, width) for n in numbers])
        order = np.argsort(lengths, kind="stable")
        rows, lengths = np.array(numbers)[order], lengths[order]
        ends = np.cumsum(lengths)
        row_of = np.repeat(rows, lengths)
        places = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
        starts = np.zeros(inputs.n_rows, dtype=np.int64)
        starts[rows] = ends - lengths
        firsts = [0, *(np.flatnonzero(np.diff(lengths)) + 1).tolist(), len(rows)]
        blocks = tuple(
            Block(rows[first:last], int(starts[rows[first]]), int(lengths[first]))
            for first, last in zip(firsts, firsts[1:], strict=False)
        )
        arrays = {"index": row_of * width + places, "rows": row_of, "places": places, "starts": starts}
        return cls(**{name: torch.from_numpy(array) for name, array in arrays.items()}, blocks=blocks)

    def take(self, padded: Int[Tensor, "row place"]) -> Int[Tensor, " piece"]:
        """What the pieces have of something that is padded."""
        return padded.flatten()[self.index]

    def __len__(self) -> int:
        """Return the number of pieces."""
        return len(self.index)


class FlatBias(NamedTuple):
    """What is added to the scores of the pairs of pieces, block by block."""

    rows: FlatRows
    blocks: Sequence[Float[Tensor, "row _ _ place"]]


@dataclass(frozen=True)
class FlatRelations:
    """`Relations` of pieces laid end to end, and the bias of all pairs in one tensor, to which they are added."""

    above: Int[Tensor, " piece"]  # counted through all pieces
    up: Int[Tensor, " piece"]
    down: Int[Tensor, " piece"]
    has_graph: Float[Tensor, "piece 1 1"]  # 1 or 0
    cells: Int[Tensor, " up_and_down"]  # where in the bias a piece is query to the piece above it; where it is its key
    bias: Float[Tensor, "_ cell"]  # of each attention head, or of all

    @classmethod
    def of(cls, relations: Relations, bias: FlatBias) -> FlatRelations:
        """The relations of the rows that have this bias."""
        rows = bias.rows
        above, up, down = (rows.take(each) for each in (relations.above, relations.up, relations.down))
        lengths = np.repeat([each.length for each in rows.blocks], [each.n_rows for each in rows.blocks])
        before = np.repeat(np.cumsum(lengths**2) - lengths**2, lengths)  # the cells of the rows before
        first, length = torch.from_numpy(before), torch.from_numpy(np.repeat(lengths, lengths))
        cells = torch.cat([first + rows.places * length + above, first + above * length + rows.places])
        pairs = [
            each.expand(-1, -1, block.length, -1).transpose(0, 1).flatten(1)
            for each, block in zip(bias.blocks, rows.blocks, strict=True)
        ]
        has_graph = relations.has_graph[rows.rows].float()[:, None, None]
        return cls(rows.starts[rows.rows] + above, up, down, has_graph, cells, torch.cat(pairs, dim=1))


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
