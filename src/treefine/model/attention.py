"""A graph as relations between pieces (Fig. 2, Sec. 5.3), and the transformer layer that reads it (Eqs. 4 and 5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.config import RelationSettings, TransformerSettings
from treefine.model.batch import ARC, HEAD, LABEL, Graphs, PieceInputs

_ACTIVATIONS = {"gelu": nn.GELU(), "gelu_new": nn.GELU(approximate="tanh"), "relu": nn.ReLU()}
NONE = 0
Ids = Int[Tensor, "*row piece"]  # of relations or of pieces


@dataclass(frozen=True)
class Relations:
    """The graph as attention reads it. A piece has at most one piece above it, so two ids per piece are enough."""

    above: Ids  # the index in its row of the piece above each piece, or its own index
    up: Ids  # the relation of a piece, as query, to the piece above it, or NONE
    down: Ids  # the relation of the piece above it, as query, to the piece
    has_graph: Bool[Tensor, " rows"]  # a row without a graph is encoded as in the plain encoder

    def __getitem__(self, rows: slice) -> Relations:
        """Return the relations of some rows."""
        return Relations(self.above[rows], self.up[rows], self.down[rows], self.has_graph[rows])


def n_kinds_of(n_labels: int, settings: RelationSettings) -> int:
    """Count the kinds of arcs: one per label (or one for all), and one from a word's first piece to its others.

    If the model distinguishes decided arcs, there are more (see `decided_kinds`).
    """
    if settings.graph != "labelled":
        return 3 if settings.decided else 2
    return (3 * n_labels + 1 if settings.decided else n_labels) + 1


def relate(inputs: PieceInputs, graphs: Graphs, n_labels: int, settings: RelationSettings) -> Relations:
    """Return the relations between the pieces of each row, from the graphs of the sentences (Fig. 2).

    An arc joins the first pieces of two words, if both are in the row. Each other piece is attached to the first piece
    of its word. A model that reads labels ignores an arc with an unknown label, unless its head is decided. A word
    whose label is decided but that has no head is related to itself.
    """
    n_kinds = n_kinds_of(n_labels, settings)
    n_rows, n_pieces = inputs.pieces.shape
    device = inputs.pieces.device
    places = torch.arange(n_pieces, device=device).expand(n_rows, n_pieces)
    words = inputs.words.clamp(min=0)  # [row, piece]
    n_words = graphs.heads.shape[1]
    first_piece = torch.full((n_rows, n_words + 1), -1, device=device)  # of each word; -1: in another window
    # Other pieces are written to an extra column that is never read: boolean indexing would make the host wait.
    first_piece.scatter_(1, torch.where(inputs.is_first, inputs.words, n_words), places)

    heads = graphs.heads[inputs.sentences].gather(1, words)  # [row, piece]
    labels = graphs.labels[inputs.sentences].gather(1, words)
    has_graph = (graphs.heads >= 0).any(1)[inputs.sentences]  # [row]
    is_arc = inputs.is_first & (heads >= 0)
    kinds = torch.zeros_like(labels)
    if settings.graph == "labelled":
        is_arc = is_arc & (labels >= 0)
        kinds = labels
    is_self = torch.zeros_like(is_arc)
    if settings.decided and graphs.decided is not None:
        decided = graphs.decided[inputs.sentences].gather(1, words)
        has_graph = has_graph | (graphs.decided > 0).any(1)[inputs.sentences]
        kinds = decided_kinds(decided, labels, n_labels, settings)
        is_arc = is_arc | (inputs.is_first & (heads >= 0) & ((decided == ARC) | (decided == HEAD)))
        if settings.graph == "labelled":
            is_self = inputs.is_first & (decided == LABEL) & (heads < 0) & (labels >= 0)
    is_rest = (inputs.words > 0) & ~inputs.is_first & has_graph[:, None]
    kinds = torch.where(is_rest, n_kinds - 1, kinds)
    above = first_piece.gather(1, torch.where(is_arc, heads, words))  # [row, piece]
    is_related = ((is_arc | is_rest) & (above >= 0) & (above != places)) | is_self
    above = torch.where(is_related, above, places)
    is_mutual = is_related & (above.gather(1, above) == places)
    up, down = relation_ids(kinds, is_related, is_mutual, n_kinds, settings)
    up = torch.where(is_self, kinds + 1 + n_kinds, up)  # no cycle of two words, although it looks like one
    return Relations(above, up, down, has_graph)


def decided_kinds(decided: Ids, labels: Ids, n_labels: int, settings: RelationSettings) -> Ids:
    """Return the kind of each arc, by its label and by what a person decided about it.

    The kinds are, for each label, a predicted arc, a decided arc, and a predicted arc whose label is decided; then one
    for a decided head, whatever its label. A model that reads no labels only distinguishes decided heads.
    """
    has_head = (decided == ARC) | (decided == HEAD)
    if settings.graph != "labelled":
        return has_head.long()
    kinds = torch.where(decided == ARC, n_labels + labels, labels)
    kinds = torch.where(decided == LABEL, 2 * n_labels + labels, kinds)
    return torch.where((decided == HEAD) | (has_head & (labels < 0)), 3 * n_labels, kinds)


def relation_ids(
    kinds: Ids,
    is_related: Bool[Tensor, "*row piece"],
    is_mutual: Bool[Tensor, "*row piece"],
    n_kinds: int,
    settings: RelationSettings,
) -> tuple[Ids, Ids]:
    """Return the relation of each piece to the piece above it, and of that piece to this one (Sec. 3.1.2).

    A relation is `kind + 1` if the query is the head and `kind + 1 + n_kinds` if it is the dependent. If two words are
    each other's head (`is_mutual`), each one sees only its own head, or neither does if the settings erase such arcs.
    """
    is_up = is_related & ~is_mutual if settings.two_cycles == "erased" else is_related
    up = torch.where(is_up, kinds + 1 + n_kinds, NONE)
    return up, torch.where(is_related & ~is_mutual, kinds + 1, NONE)


class RelationRows(NamedTuple):
    """One vector per relation, as attention adds them; row NONE is that of two pieces that no arc joins."""

    keys: Float[Tensor, "relation width"]  # of Eq. 5
    values: Float[Tensor, "relation width"]  # of Eq. 4


class RelationTables(nn.Module):
    """The relation embeddings of one layer, shared by all its attention heads: W₁ᴸ for keys, W₂ᴸ for values."""

    def __init__(self, n_labels: int, width: int, settings: RelationSettings) -> None:
        super().__init__()
        n_relations = 2 * n_kinds_of(n_labels, settings) + 1  # NONE, each kind of arc downwards, then each upwards
        self.keys = nn.Parameter(torch.empty(n_relations, width))
        self.values = nn.Parameter(torch.empty(n_relations, width))
        self.norm = nn.LayerNorm(width) if settings.key_norm else None
        self.scale = 1 / math.sqrt(width) if settings.scaled else 1.0
        self.is_none_learned = settings.none == "learned"
        if not self.keys.is_meta:
            nn.init.normal_(self.keys, std=0.02)
            nn.init.normal_(self.values, std=0.02)

    def rows(self) -> RelationRows:
        """Return the rows; those of Eq. 5 are normalised and scaled if the settings say so, those of Eq. 4 never."""
        tables: list[Tensor] = [self.keys if self.norm is None else self.norm(self.keys), self.values]
        if not self.is_none_learned:
            tables = [torch.cat([torch.zeros_like(each[:1]), each[1:]]) for each in tables]
        return RelationRows(tables[0] * self.scale, tables[1])


Vectors = Float[Tensor, "*row piece attn width"]  # of the pieces, by attention head
# How the pieces of a batch attend to each other: from query, key, value, each [*row, piece, attn, width], rows of the
# layer and the rate of dropout to new values. `PaddedAttention` has rows of equal length; `fast` has faster layouts.
Attend = Callable[[Vectors, Vectors, Vectors, RelationRows | None, float], Vectors]


@dataclass(frozen=True)
class PaddedAttention:
    """Attention within padded rows of pieces, with or without a graph."""

    bias: Float[Tensor, "row _ _ piece"]  # added to the scores: -inf for padding; MPNet adds a bias by distance
    relations: Relations | None

    def __call__(
        self, query: Vectors, key: Vectors, value: Vectors, rows: RelationRows | None, dropout: float = 0.0
    ) -> Vectors:
        """Return the new value of each piece (Eqs. 4 and 5); without relations, the same as the plain encoder.

        Nearly all relations are NONE, which cancels in the softmax. So each piece changes only two cells of the score
        matrix: the piece as query with the piece above it as key, and the reverse. See docs/design.md, 'Why NONE
        cancels in attention'.
        """
        query, key, value = (each.transpose(1, 2) for each in (query, key, value))  # [row, attn, piece, width]
        relations = self.relations
        if relations is None or rows is None:
            attended = F.scaled_dot_product_attention(query, key, value, attn_mask=self.bias, dropout_p=dropout)
            return attended.transpose(1, 2)
        n_attention_heads, n_pieces, width = query.shape[1:]
        key_shares, value_shares = rows.keys - rows.keys[NONE], rows.values - rows.values[NONE]
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
        weights = F.dropout((scores + self.bias).softmax(-1), dropout)

        up, down = weights.flatten(2).gather(2, cells).chunk(2, dim=2)
        down_weights = torch.zeros_like(weights).flatten(2).scatter(2, cells[:, :, n_pieces:], down).view_as(weights)
        none = relations.has_graph[:, None, None, None] * rows.values[NONE]
        attended = weights @ (value + none) + down_weights @ F.embedding(relations.down, value_shares)[:, None]
        return (attended + up[..., None] * F.embedding(relations.up, value_shares)[:, None]).transpose(1, 2)


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
        if torch.is_autocast_enabled(x.device.type):  # otherwise autocast casts x three times and keeps each copy
            x = x.to(torch.get_autocast_dtype(x.device.type))
        query, key, value = (
            linear(x).unflatten(-1, (self.n_attention_heads, -1)) for linear in (self.query, self.key, self.value)
        )
        rows = None if self.relations is None else self.relations.rows()
        attended = attend(query, key, value, rows, self.dropout if self.training else 0.0)
        output: Tensor = self.output(attended.flatten(-2))
        return output


class Layer(nn.Module):
    """One transformer layer: attention, then a feed-forward network, each with a residual connection and a norm."""

    def __init__(self, settings: TransformerSettings, relations: RelationSettings, n_labels: int) -> None:
        super().__init__()
        tables = None
        if relations.graph != "none":
            width = settings.width // settings.n_attention_heads
            tables = RelationTables(n_labels, width, relations)
        self.attention = RelationAttention(
            settings.width, settings.n_attention_heads, settings.attention_dropout, tables
        )
        self.attention_norm = nn.LayerNorm(settings.width, eps=settings.norm_eps)
        self.inner = nn.Linear(settings.width, settings.inner_width)
        self.outer = nn.Linear(settings.inner_width, settings.width)
        self.outer_norm = nn.LayerNorm(settings.width, eps=settings.norm_eps)
        self.activation = _ACTIVATIONS[settings.activation]
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, x: Float[Tensor, "*row piece width"], attend: Attend) -> Float[Tensor, "*row piece width"]:
        """Return the output of the layer."""
        x = self.attention_norm(x + self.dropout(self.attention(x, attend)))
        output: Tensor = self.outer_norm(x + self.dropout(self.outer(self.activation(self.inner(x)))))
        return output
