"""Self-attention that also reads a graph (Eqs. 4 and 5)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.config import RelationSettings
from treefine.fast.flat_encoder import FlatBias, FlatRelations, attend_blocks, attend_on_cpu
from treefine.fast.fused_attention import RowRelations, Rows, attend_rows
from treefine.model.relations import NONE, Relations


class RelationTables(nn.Module):
    """The relation embeddings of one layer, shared by its attention heads: W₁ᴸ for keys, W₂ᴸ for values."""

    def __init__(self, n_relations: int, width: int, settings: RelationSettings) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.empty(n_relations, width))
        self.values = nn.Parameter(torch.empty(n_relations, width))
        self.norm = nn.LayerNorm(width) if settings.key_norm else None
        self.scale = 1 / math.sqrt(width) if settings.scaled else 1.0
        self.is_none_learned = settings.none == "learned"
        nn.init.normal_(self.keys, std=0.02)
        nn.init.normal_(self.values, std=0.02)

    def key_rows(self) -> Float[Tensor, "relation width"]:
        """The keys as Eq. 5 has them; Eq. 4 leaves the values as they are."""
        keys = self.keys if self.norm is None else self.norm(self.keys)
        return self._with_none(keys) * self.scale

    def value_rows(self) -> Float[Tensor, "relation width"]:
        """The values of Eq. 4."""
        return self._with_none(self.values)

    @torch.no_grad()
    def fixed(self, dtype: torch.dtype) -> RelationTables:
        """Tables whose rows are those of these, worked out once and for all."""
        plain = RelationSettings(key_norm=False, scaled=False, none="learned")
        found = RelationTables(len(self.keys), self.keys.shape[1], plain).requires_grad_(False)
        found.keys.copy_(self.key_rows())
        found.values.copy_(self.value_rows())
        return found.to(device=self.keys.device, dtype=dtype)

    def _with_none(self, rows: Float[Tensor, "relation width"]) -> Float[Tensor, "relation width"]:
        return rows if self.is_none_learned else torch.cat([torch.zeros_like(rows[:1]), rows[1:]])


def attend(
    query: Float[Tensor, "row attn piece width"],
    key: Float[Tensor, "row attn piece width"],
    value: Float[Tensor, "row attn piece width"],
    *,
    bias: Float[Tensor, "row _ _ piece"] | Rows,
    relations: Relations | None,
    tables: RelationTables | None,
    dropout: float = 0.0,
) -> Float[Tensor, "row attn piece width"]:
    """The new values of each piece; without relations those of the plain encoder. With Rows for a bias it is fused.

    Nearly all relations are NONE, whose share is the same for every key of a query. In the scores it changes no weight,
    so only the difference of the other relations to it is added; in the values it is one vector for all. What is left
    are two cells of the matrix of pairs for each piece: as query with the piece above it, and as key of that piece.
    No cell gets two shares that are not zero, so the result does not depend on an order of addition.
    """
    if isinstance(bias, Rows):
        return attend_fused(query, key, value, rows=bias, relations=relations, tables=tables, dropout=dropout)
    if relations is None or tables is None:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=bias, dropout_p=dropout)
    keys, values = tables.key_rows(), tables.value_rows()
    n_attention_heads, n_pieces, width = query.shape[1:]
    key_shares, value_shares = keys - keys[NONE], values - values[NONE]
    # F.embedding, not rows[ids]: nearly all ids are NONE, and the gradient of an index adds up equal ids one by one.
    above = relations.above[:, None].expand(query.shape[:3])  # [row, attn, piece]
    places = torch.arange(n_pieces, device=query.device)
    cells = torch.cat([places * n_pieces + above, above * n_pieces + places], dim=2)  # [row, attn, up and down]

    up = (query * F.embedding(relations.up, key_shares)[:, None]).sum(-1)  # [row, attn, piece]
    query_above = query.gather(2, above[..., None].expand_as(query))
    down = (query_above * F.embedding(relations.down, key_shares)[:, None]).sum(-1)
    scores = query / math.sqrt(width) @ key.transpose(-1, -2)  # [row, attn, piece, piece]
    shares = torch.cat([up, down], dim=2).to(scores.dtype)  # where the rest runs in bfloat16
    scores.view(len(query), n_attention_heads, -1).scatter_add_(2, cells, shares)
    weights = F.dropout((scores + bias).softmax(-1), dropout)

    up, down = weights.flatten(2).gather(2, cells).chunk(2, dim=2)
    down_weights = torch.zeros_like(weights).flatten(2).scatter(2, cells[:, :, n_pieces:], down).view_as(weights)
    none = relations.has_graph[:, None, None, None] * values[NONE]
    attended = weights @ (value + none) + down_weights @ F.embedding(relations.down, value_shares)[:, None]
    return attended + up[..., None] * F.embedding(relations.up, value_shares)[:, None]


def attend_flat(
    query: Float[Tensor, "piece attn width"],
    key: Float[Tensor, "piece attn width"],
    value: Float[Tensor, "piece attn width"],
    *,
    bias: FlatBias,
    relations: FlatRelations | None,
    tables: RelationTables | None,
) -> Float[Tensor, "piece attn width"]:
    """`attend` for a CPU that parses rows laid end to end."""
    if relations is None or tables is None:
        return attend_blocks(query, key, value, bias)
    rows = {"keys": tables.key_rows(), "values": tables.value_rows()}
    return attend_on_cpu(query, key, value, bias=bias, relations=relations, **rows)


def attend_fused(
    query: Float[Tensor, "row attn piece width"],
    key: Float[Tensor, "row attn piece width"],
    value: Float[Tensor, "row attn piece width"],
    *,
    rows: Rows,
    relations: Relations | None,
    tables: RelationTables | None,
    dropout: float = 0.0,
) -> Float[Tensor, "row attn piece width"]:
    """`attend` as one kernel of a GPU. Padding, which nobody reads, gets zeros."""
    graph = None
    if relations is not None and tables is not None:
        graph = RowRelations(
            relations.above.flatten(),
            relations.up.flatten(),
            relations.down.flatten(),
            relations.has_graph,
            tables.key_rows().to(query.dtype),
            tables.value_rows().to(query.dtype),
        )
    flat = [each.transpose(1, 2).flatten(0, 1) for each in (query, key, value)]  # [piece, attn, width]
    attended = attend_rows(*flat, rows=rows, relations=graph, dropout=dropout)
    return attended.view(len(query), -1, *attended.shape[1:]).transpose(1, 2)


class RelationAttention(nn.Module):
    """BERT's self-attention, to which relation embeddings join the values (Eq. 4) and the keys (Eq. 5)."""

    def __init__(self, width: int, n_attention_heads: int, dropout: float, tables: RelationTables | None) -> None:
        super().__init__()
        self.n_attention_heads = n_attention_heads
        self.dropout = dropout
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        self.relations = tables

    def forward(
        self,
        x: Float[Tensor, "*row piece width"],
        bias: Float[Tensor, "row _ _ piece"] | Rows | FlatBias,
        relations: Relations | FlatRelations | None,
    ) -> Float[Tensor, "*row piece width"]:
        """The output before residual and norm; of rows laid end to end with a FlatBias, and only to parse."""
        if torch.is_autocast_enabled(x.device.type):  # else it would round x three times, and keep each for backward
            x = x.to(torch.get_autocast_dtype(x.device.type))
        query, key, value = (
            linear(x).unflatten(-1, (self.n_attention_heads, -1)) for linear in (self.query, self.key, self.value)
        )  # [row, piece, attn, width]
        if isinstance(bias, FlatBias):
            assert not isinstance(relations, Relations)
            attended = attend_flat(query, key, value, bias=bias, relations=relations, tables=self.relations)
        else:
            assert not isinstance(relations, FlatRelations)
            three = (each.transpose(1, 2) for each in (query, key, value))  # [row, attn, piece, width]
            dropout = self.dropout if self.training else 0.0
            attended = attend(*three, bias=bias, relations=relations, tables=self.relations, dropout=dropout)
            attended = attended.transpose(1, 2)
        output: Tensor = self.output(attended.flatten(-2))
        return output
