"""Self-attention that also reads a graph (Eqs. 4 and 5)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.config import RelationSettings
from treefine.model.relations import NONE, Relations


class RelationTables(nn.Module):
    """The relation embeddings of one layer, shared by all its attention heads: W₁ᴸ for keys, W₂ᴸ for values."""

    def __init__(self, n_relations: int, width: int, settings: RelationSettings) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.empty(n_relations, width))
        self.values = nn.Parameter(torch.empty(n_relations, width))
        self.norm = nn.LayerNorm(width) if settings.key_norm else None
        self.scale = 1 / math.sqrt(width) if settings.scaled else 1.0
        self.is_none_learned = settings.none == "learned"
        if not self.keys.is_meta:
            nn.init.normal_(self.keys, std=0.02)
            nn.init.normal_(self.values, std=0.02)

    def key_rows(self) -> Float[Tensor, "relation width"]:
        """Return the relation keys of Eq. 5, normalised and scaled if the settings say so. Eq. 4 does neither."""
        keys = self.keys if self.norm is None else self.norm(self.keys)
        return self._with_none(keys) * self.scale

    def value_rows(self) -> Float[Tensor, "relation width"]:
        """Return the relation values of Eq. 4."""
        return self._with_none(self.values)

    @torch.no_grad()
    def fixed(self, dtype: torch.dtype) -> RelationTables:
        """Return tables with the same rows, computed once: norm, scale and the row of NONE are already applied."""
        plain = RelationSettings(key_norm=False, scaled=False, none="learned")
        found = RelationTables(len(self.keys), self.keys.shape[1], plain).requires_grad_(False)
        found.keys.copy_(self.key_rows())
        found.values.copy_(self.value_rows())
        return found.to(device=self.keys.device, dtype=dtype)

    def _with_none(self, rows: Float[Tensor, "relation width"]) -> Float[Tensor, "relation width"]:
        return rows if self.is_none_learned else torch.cat([torch.zeros_like(rows[:1]), rows[1:]])


@runtime_checkable
class Attend(Protocol):
    """A way for the pieces of one batch to attend to each other.

    Each implementation knows one batch layout. `PaddedAttention` has rows of equal length; `treefine.fast` has faster
    layouts.
    """

    def __call__(
        self,
        query: Float[Tensor, "*row piece attn width"],
        key: Float[Tensor, "*row piece attn width"],
        value: Float[Tensor, "*row piece attn width"],
        tables: RelationTables | None,
        dropout: float,
    ) -> Float[Tensor, "*row piece attn width"]:
        """Return the new value of each piece."""


@dataclass(frozen=True)
class PaddedAttention:
    """Attention within padded rows of pieces, with or without a graph."""

    bias: Float[Tensor, "row _ _ piece"]  # added to the scores: -inf for padding; MPNet adds a bias by distance
    relations: Relations | None

    def __call__(
        self,
        query: Float[Tensor, "row piece attn width"],
        key: Float[Tensor, "row piece attn width"],
        value: Float[Tensor, "row piece attn width"],
        tables: RelationTables | None,
        dropout: float = 0.0,
    ) -> Float[Tensor, "row piece attn width"]:
        """Return the new value of each piece."""
        three = (each.transpose(1, 2) for each in (query, key, value))  # [row, attn, piece, width]
        return attend(*three, bias=self.bias, relations=self.relations, tables=tables, dropout=dropout).transpose(1, 2)


def attend(
    query: Float[Tensor, "row attn piece width"],
    key: Float[Tensor, "row attn piece width"],
    value: Float[Tensor, "row attn piece width"],
    *,
    bias: Float[Tensor, "row _ _ piece"],
    relations: Relations | None,
    tables: RelationTables | None,
    dropout: float = 0.0,
) -> Float[Tensor, "row attn piece width"]:
    """Return the new value of each piece (Eqs. 4 and 5); without relations, the same as the plain encoder.

    Nearly all relations are NONE, which cancels in the softmax. So each piece changes only two cells of the score
    matrix: the piece as query with the piece above it as key, and the reverse. See docs/design.md, 'Why NONE cancels in
    attention'.
    """
    if relations is None or tables is None:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=bias, dropout_p=dropout)
    keys, values = tables.key_rows(), tables.value_rows()
    n_attention_heads, n_pieces, width = query.shape[1:]
    key_shares, value_shares = keys - keys[NONE], values - values[NONE]
    # F.embedding, not rows[ids]: nearly all ids are NONE, and the gradient of indexing adds equal ids one by one.
    above = relations.above[:, None].expand(query.shape[:3])  # [row, attn, piece]
    places = torch.arange(n_pieces, device=query.device)
    cells = torch.cat([places * n_pieces + above, above * n_pieces + places], dim=2)  # [row, attn, up and down]

    up = (query * F.embedding(relations.up, key_shares)[:, None]).sum(-1)  # [row, attn, piece]
    query_above = query.gather(2, above[..., None].expand_as(query))
    down = (query_above * F.embedding(relations.down, key_shares)[:, None]).sum(-1)
    scores = query / math.sqrt(width) @ key.transpose(-1, -2)  # [row, attn, piece, piece]
    shares = torch.cat([up, down], dim=2).to(scores.dtype)  # the scores may be in bfloat16
    scores.view(len(query), n_attention_heads, -1).scatter_add_(2, cells, shares)
    weights = F.dropout((scores + bias).softmax(-1), dropout)

    up, down = weights.flatten(2).gather(2, cells).chunk(2, dim=2)
    down_weights = torch.zeros_like(weights).flatten(2).scatter(2, cells[:, :, n_pieces:], down).view_as(weights)
    none = relations.has_graph[:, None, None, None] * values[NONE]
    attended = weights @ (value + none) + down_weights @ F.embedding(relations.down, value_shares)[:, None]
    return attended + up[..., None] * F.embedding(relations.up, value_shares)[:, None]


class RelationAttention(nn.Module):
    """BERT's self-attention, with relation embeddings added to the values (Eq. 4) and the keys (Eq. 5)."""

    def __init__(self, width: int, n_attention_heads: int, dropout: float, tables: RelationTables | None) -> None:
        super().__init__()
        self.n_attention_heads = n_attention_heads
        self.dropout = dropout
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        self.relations = tables

    def forward(self, x: Float[Tensor, "*row piece width"], attend: Attend) -> Float[Tensor, "*row piece width"]:
        """Return the attention output, before the residual connection and the norm."""
        query, key, value = self.project(x)
        attended = attend(query, key, value, self.relations, self.dropout if self.training else 0.0)
        output: Tensor = self.output(attended.flatten(-2))
        return output

    def project(self, x: Float[Tensor, "*row piece width"]) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value of each piece, each [*row, piece, attn, width]."""
        if torch.is_autocast_enabled(x.device.type):  # otherwise autocast casts x three times and keeps each copy
            x = x.to(torch.get_autocast_dtype(x.device.type))
        query, key, value = (
            linear(x).unflatten(-1, (self.n_attention_heads, -1)) for linear in (self.query, self.key, self.value)
        )
        return query, key, value
