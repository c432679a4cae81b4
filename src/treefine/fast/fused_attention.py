"""Attend within rows of pieces laid end to end, with or without a graph, in one GPU kernel.

`model.attention.PaddedAttention` is the reference. Here the two cells per piece that a graph changes are changed while
the scores are in registers, and no matrix of pieces × pieces is ever stored. See docs/design.md, 'Why NONE cancels in
attention'.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from treefine.model.attention import NONE, PaddedAttention, RelationRows, Relations, Vectors
from treefine.model.batch import PieceInputs
from treefine.model.encoder import TransformerEncoder

QUERIES, KEYS = 32, 32  # block size; it does not depend on the batch, so neither does any result
WARPS = 2  # one per 16 queries, the tile height of the hardware; twice as many in float32
FORWARD_QUERIES, FORWARD_WARPS = 64, 4  # in the forward pass in half precision, which needs fewer registers
TABLE_PIECES, TABLE_RELATIONS, TABLE_WARPS = 64, 64, 4  # block size for the gradients of relation tables
_NARROWEST = 16  # the smallest width of a matrix product on a GPU
N_SHARES = 5  # coefficients of table rows, per piece and attention head


@dataclass(frozen=True)
class Rows:
    """The position of each row among the pieces. A row of length 0 is skipped; pieces outside all rows get zeros."""

    starts: Int[Tensor, " row"]
    lengths: Int[Tensor, " row"]
    places: Int[Tensor, " piece"]  # of each piece in its row
    longest: int  # an upper bound on the lengths, known on the host
    by_distance: Float[Tensor, "attn distance"] | None = None  # bias for distances -reach … reach (MPNet)


@dataclass(frozen=True)
class FusedAttention:
    """Attention within rows of pieces: one kernel on a GPU; elsewhere the padded reference implementation."""

    rows: Rows
    relations: Relations | None

    def __call__(
        self, query: Vectors, key: Vectors, value: Vectors, tables: RelationRows | None, dropout: float = 0.0
    ) -> Vectors:
        """Return the new value of each piece. Pieces outside all rows, which are never read, get zeros."""
        if not is_available(query.device):
            return self._padded(query, key, value, tables)
        graph = None
        if self.relations is not None and tables is not None:
            above, up, down, has_graph = vars(self.relations).values()
            starts = torch.arange(len(above), device=above.device) - self.rows.places  # of each piece's row
            rows = (each.to(query.dtype) for each in tables)
            graph = RowRelations(above - starts, up, down, has_graph[self.rows.starts], *rows)
        return attend_rows(query, key, value, rows=self.rows, relations=graph, dropout=dropout)

    def _padded(self, query: Vectors, key: Vectors, value: Vectors, tables: RelationRows | None) -> Vectors:
        rows, result = self.rows, torch.zeros_like(query, memory_format=torch.contiguous_format)
        is_used = rows.lengths > 0
        starts, lengths = rows.starts[is_used], rows.lengths[is_used]
        row = torch.repeat_interleave(torch.arange(len(starts), device=query.device), lengths)
        places = torch.arange(len(row), device=query.device) - (torch.cumsum(lengths, 0) - lengths)[row]
        index = starts[row] + places  # of the pieces in rows
        is_piece = torch.arange(rows.longest, device=query.device) < lengths[:, None]
        bias = torch.zeros(is_piece.shape, dtype=query.dtype, device=query.device).masked_fill(~is_piece, -math.inf)
        bias = bias[:, None, None]  # [row, 1, 1, place]
        if rows.by_distance is not None:
            order = torch.arange(rows.longest, device=query.device)
            distance = order[None] - order[:, None] + rows.by_distance.shape[1] // 2  # [query, key], from 0
            bias = bias + rows.by_distance[:, distance][None]
        relations = self.relations
        if relations is not None:
            number = torch.zeros(len(query), dtype=torch.long, device=query.device)
            number[index] = torch.arange(len(index), device=query.device)
            above, up, down, has_graph = (each[index] for each in vars(relations).values())
            relations = Relations(number[above], up, down, has_graph)
        attend = PaddedAttention(torch.cumsum(lengths, 0) - lengths, row, places, bias, relations)
        result[index] = attend(query[index], key[index], value[index], tables)
        return result


def fused_attention(encoder: TransformerEncoder, inputs: PieceInputs, relations: Relations | None) -> FusedAttention:
    """Return the attention function for the rows of a batch."""
    by_distance = None if encoder.buckets is None else encoder.bias_by_distance(max(inputs.row_sizes)).contiguous()
    lengths = torch.zeros_like(inputs.starts).index_add_(0, inputs.rows, inputs.is_piece.long())
    return FusedAttention(Rows(inputs.starts, lengths, inputs.places, max(inputs.row_sizes), by_distance), relations)


@dataclass(frozen=True)
class RowRelations:
    """`Relations` of pieces laid end to end, with the rows of a layer's tables, as the kernels read them."""

    above: Int[Tensor, " piece"]  # an index in the piece's own row
    up: Int[Tensor, " piece"]
    down: Int[Tensor, " piece"]
    has_graph: Bool[Tensor, " row"]
    key_rows: Float[Tensor, "relation width"]
    value_rows: Float[Tensor, "relation width"]


@cache
def is_available(device: torch.device) -> bool:
    """Return whether the kernels run on a device: a GPU with bfloat16, if Triton is installed and can compile."""
    if device.type != "cuda" or importlib.util.find_spec("triton") is None:
        return False
    return torch.cuda.get_device_capability(device) >= (8, 0) and _compiles(device)


def _compiles(device: torch.device) -> bool:
    """Return whether Triton can compile a kernel, and warn if not: it needs a C compiler, which may be missing."""
    query = torch.zeros(1, 1, _NARROWEST, dtype=torch.float16, device=device)
    row = torch.ones(1, dtype=torch.int32, device=device)
    try:
        attend_rows(query, query, query, rows=Rows(row - 1, row, row.long() - 1, 1))
    except Exception as error:  # its type depends on what is missing
        warnings.warn(f"Triton cannot compile here, so attention is slower: {error}", RuntimeWarning, stacklevel=3)
        return False
    return True


def attend_rows(
    query: Vectors,
    key: Vectors,
    value: Vectors,
    *,
    rows: Rows,
    relations: RowRelations | None = None,
    dropout: float = 0.0,
) -> Vectors:
    """Return the new value of each piece from its row; without relations, the same as the plain encoder."""
    if query.stride() != key.stride() or query.stride() != value.stride() or query.stride(2) != 1:
        query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
    seed = torch.randint(2**31 - 1, (1,), dtype=torch.int32, device=query.device) if dropout else None
    if rows.by_distance is not None:
        rows = replace(rows, by_distance=rows.by_distance.contiguous())
    tables = (None, None) if relations is None else (relations.key_rows, relations.value_rows)
    inputs = [query, key, value, *tables, rows.by_distance]
    if torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in inputs):
        attended: Tensor = _Attention.apply(*inputs, rows, relations, dropout, seed)  # type: ignore[no-untyped-call]
        return attended
    out = torch.zeros_like(query, memory_format=torch.contiguous_format)
    _forward(_Call(query, key, value, rows, relations, dropout, seed), out, None)
    return out


@dataclass(frozen=True)
class _Call:
    """The arguments that all kernels share."""

    query: Tensor
    key: Tensor
    value: Tensor
    rows: Rows
    relations: RowRelations | None
    dropout: float
    seed: Tensor | None

    @property
    def tensors(self) -> list[Tensor | None]:
        rows, graph = self.rows, self.relations
        ids = (
            [None] * 6
            if graph is None
            else [graph.above, graph.up, graph.down, graph.has_graph, graph.key_rows, graph.value_rows]
        )
        return [rows.starts, rows.lengths, *ids, rows.by_distance, self.seed]

    @property
    def numbers(self) -> list[int | float]:
        table = self.rows.by_distance
        reach = 0 if table is None else table.shape[1] // 2
        return [*self.query.stride()[:2], 1 / math.sqrt(self.query.shape[2]), reach, self.dropout]

    @property
    def shape(self) -> dict[str, Any]:
        """The compile-time arguments of a kernel."""
        return _widths(self.query) | {
            "QUERIES": QUERIES,
            "KEYS": KEYS,
            "READS_GRAPH": self.relations is not None,
            "READS_DISTANCE": self.rows.by_distance is not None,
            "DROPS": self.dropout > 0,
            "num_warps": WARPS * (2 if self.query.dtype == torch.float32 else 1),
            "num_stages": 1,  # most rows are one or two blocks long, so prefetching does not help
        }

    def grid(self, block: int) -> tuple[int, int, int]:
        return -(-self.rows.longest // block), self.query.shape[1], len(self.rows.starts)


def _widths(query: Tensor) -> dict[str, Any]:
    width = query.shape[2]
    padded = max(_NARROWEST, 1 << (width - 1).bit_length())
    return {"WIDTH": width, "PADDED": padded, "PRECISION": "ieee" if query.dtype == torch.float32 else "tf32"}


def _forward(call: _Call, out: Tensor, log_sums: Tensor | None) -> None:
    from treefine.fast import fused_kernels

    if not call.rows.longest or not len(call.rows.starts):
        return
    shape = call.shape
    if call.query.dtype != torch.float32:
        shape |= {"QUERIES": FORWARD_QUERIES, "num_warps": FORWARD_WARPS}
    with torch.cuda.device_of(call.query):  # type: ignore[no-untyped-call]
        fused_kernels.forward[call.grid(shape["QUERIES"])](
            *(call.query, call.key, call.value, out, log_sums, *call.tensors, *call.numbers),
            **shape,
            KEEPS_SUMS=log_sums is not None,
        )


class _Attention(torch.autograd.Function):
    """`attend_rows` with its gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_rows: Tensor | None,
        value_rows: Tensor | None,
        by_distance: Tensor | None,
        rows: Rows,
        relations: RowRelations | None,
        dropout: float,
        seed: Tensor | None,
    ) -> Tensor:
        call = _Call(query, key, value, rows, relations, dropout, seed)
        out = torch.zeros_like(query, memory_format=torch.contiguous_format)
        log_sums = torch.zeros(query.shape[:2], dtype=torch.float32, device=query.device)
        _forward(call, out, log_sums)
        ctx.save_for_backward(query, key, value, out, log_sums, *call.tensors)
        ctx.places, ctx.longest, ctx.dropout = rows.places, rows.longest, dropout
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        query, key, value, out, log_sums, starts, lengths, *ids, by_distance, seed = ctx.saved_tensors
        rows = Rows(starts, lengths, ctx.places, ctx.longest, by_distance)
        relations = None if ids[0] is None else RowRelations(*ids)
        call = _Call(query, key, value, rows, relations, ctx.dropout, seed)
        return (*_backward(call, out, log_sums, grads[0].contiguous()), None, None, None, None)


def _backward(call: _Call, out: Tensor, log_sums: Tensor, grad: Tensor) -> Sequence[Tensor | None]:
    """Return the gradients of query, key, value, key rows, value rows and the bias by distance."""
    from treefine.fast import fused_kernels

    n_pieces, n_attn, width = out.shape
    longest, graph, by_distance = call.rows.longest, call.relations, call.rows.by_distance
    of_query, of_key, of_value = (torch.zeros_like(out) for _ in range(3))
    deltas = torch.empty_like(log_sums)
    shares = None if graph is None else log_sums.new_zeros(N_SHARES, *log_sums.shape)
    above_at = None if graph is None else torch.full((n_pieces,), -1, dtype=torch.int32, device=out.device)
    of_cells = None if by_distance is None else log_sums.new_zeros(n_pieces, n_attn, 2 * longest - 1)
    if longest and len(call.rows.starts):
        vectors = (call.query, call.key, call.value)
        fused_kernels.backward_of_queries[call.grid(QUERIES)](
            *(*vectors, out, log_sums, *call.tensors, *call.numbers),
            *(grad, of_query, deltas, shares, log_sums.numel(), of_cells, longest),
            **call.shape,
        )
        fused_kernels.backward_of_keys[call.grid(KEYS)](
            *(*vectors, log_sums, *call.tensors, *call.numbers),
            *(grad, of_key, of_value, deltas, shares, log_sums.numel(), above_at),
            **call.shape,
        )
    of_distance = None
    if of_cells is not None and by_distance is not None:
        of_distance = _folded(of_cells.sum(0), by_distance.shape[1] // 2).to(by_distance.dtype)
    if graph is None or shares is None or above_at is None:
        return of_query, of_key, of_value, None, None, of_distance
    n_relations = len(graph.key_rows)
    grid = (-(-n_pieces // TABLE_PIECES), -(-n_relations // TABLE_RELATIONS))
    parts = [log_sums.new_empty(grid[0], n_relations, width) for _ in range(2)]
    if n_pieces:
        fused_kernels.backward_of_tables[grid](
            *(call.query, *call.query.stride()[:2], grad, graph.up, graph.down, above_at, shares, log_sums.numel()),
            *(n_attn, n_pieces, n_relations, *parts),
            **_widths(call.query),
            PIECES=TABLE_PIECES,
            RELATIONS=TABLE_RELATIONS,
            num_warps=TABLE_WARPS,
            num_stages=1,
        )
    of_tables = [_with_none(part.sum(0)).to(graph.key_rows.dtype) for part in parts]
    return of_query, of_key, of_value, *of_tables, of_distance


def _with_none(shares: Float[Tensor, "relation width"]) -> Float[Tensor, "relation width"]:
    """Return the gradient of a table, from the gradients of the differences `row - NONE` and of NONE on its own."""
    shares[NONE] -= shares.sum(0) - shares[NONE]
    return shares


def _folded(of_distance: Float[Tensor, "attn distance"], reach: int) -> Float[Tensor, "attn near"]:
    """Return the gradients of distances up to `reach`; larger distances count as the last one on their side."""
    beyond = of_distance.shape[1] // 2 - reach
    if beyond <= 0:
        return torch.nn.functional.pad(of_distance, (-beyond, -beyond))
    near = of_distance[:, beyond:-beyond].clone()
    near[:, 0] += of_distance[:, :beyond].sum(1)
    near[:, -1] += of_distance[:, -beyond:].sum(1)
    return near
