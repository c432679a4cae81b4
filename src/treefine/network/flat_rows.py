"""Rows of pieces laid end to end, for a CPU that parses: all but attention works on each piece alone.

Rows of one length are a block. Attention, which needs rows, takes the blocks one by one, and so a row's numbers come
from tensors whose shapes depend on its own length, whatever other lengths are in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from treefine.network.batch import PieceInputs, padded_length
from treefine.network.relations import Relations


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
