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
Ids = Int[Tensor, " piece"]  # of relations or of pieces


@dataclass(frozen=True)
class Relations:
    """The graph as attention reads it. A piece has at most one piece above it, so two ids per piece are enough."""

    above: Ids  # the number of the piece above each piece, or its own number
    up: Ids  # the relation of a piece, as query, to the piece above it, or NONE
    down: Ids  # the relation of the piece above it, as query, to the piece
    has_graph: Bool[Tensor, " piece"]  # a row without a graph is encoded as in the plain encoder


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
    n_kinds, places = n_kinds_of(n_labels, settings), torch.arange(len(inputs.pieces), device=inputs.pieces.device)
    words, n_words = inputs.words.clamp(min=0), graphs.heads.shape[1]
    first_piece = torch.full((len(inputs.starts), n_words + 1), -1, device=places.device)  # -1: in another window
    # Other pieces are written to an extra column that is never read: boolean indexing would make the host wait.
    first_piece[inputs.rows, torch.where(inputs.is_first, inputs.words, n_words)] = places

    heads, labels = (table[inputs.sentences, words] for table in (graphs.heads, graphs.labels))
    is_read = graphs.are_read if settings.decided else (graphs.heads >= 0).any(1)
    has_graph = is_read[inputs.sentences]
    is_arc = inputs.is_first & (heads >= 0)
    kinds = torch.zeros_like(labels)
    if settings.graph == "labelled":
        is_arc = is_arc & (labels >= 0)
        kinds = labels
    is_self = torch.zeros_like(is_arc)
    if settings.decided and graphs.decided is not None:
        decided = graphs.decided[inputs.sentences, words]
        kinds = decided_kinds(decided, labels, n_labels, settings)
        is_arc = is_arc | (inputs.is_first & (heads >= 0) & ((decided == ARC) | (decided == HEAD)))
        if settings.graph == "labelled":
            is_self = inputs.is_first & (decided == LABEL) & (heads < 0) & (labels >= 0)
    is_rest = (inputs.words > 0) & ~inputs.is_first & has_graph
    kinds = torch.where(is_rest, n_kinds - 1, kinds)
    above = first_piece[inputs.rows, torch.where(is_arc, heads, words)]
    is_related = ((is_arc | is_rest) & (above >= 0) & (above != places)) | is_self
    above = torch.where(is_related, above, places)
    is_mutual = is_related & (above[above] == places)
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
    is_related: Bool[Tensor, " piece"],
    is_mutual: Bool[Tensor, " piece"],
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


Vectors = Float[Tensor, "piece attn width"]  # of the pieces, by attention head
# How the pieces of a batch attend to each other: from query, key, value, rows of the layer and the rate of dropout to
# new values. `PaddedAttention` is the reference; `fast` has faster ones.
Attend = Callable[[Vectors, Vectors, Vectors, RelationRows | None, float], Vectors]


@dataclass(frozen=True)
class PaddedAttention:
    """Attention within rows of pieces, with or without a graph: the reference, which pads the rows to equal length."""

    starts: Int[Tensor, " row"]  # the first piece of each row
    rows: Ids  # the row of each piece …
    places: Ids  # … and its place in it
    bias: Float[Tensor, "row _ _ place"]  # added to the scores: -inf for padding; MPNet adds a bias by distance
    relations: Relations | None

    def __call__(
        self, query: Vectors, key: Vectors, value: Vectors, rows: RelationRows | None, dropout: float = 0.0
    ) -> Vectors:
        """Return the new value of each piece (Eqs. 4 and 5); without relations, the same as the plain encoder.

        Nearly all relations are NONE, which cancels in the softmax. So each piece changes only two cells of the score
        matrix: the piece as query with the piece above it as key, and the reverse. See docs/design.md, 'Why NONE
        cancels in attention'.
        """
        n_places, width = self.bias.shape[-1], query.shape[-1]
        index = torch.zeros(len(self.starts), n_places, dtype=torch.long, device=query.device)
        index[self.rows, self.places] = torch.arange(len(query), device=query.device)
        queries, keys, values = (
            each[index].transpose(1, 2) for each in (query, key, value)
        )  # [row, attn, place, width]
        if self.relations is None or rows is None:
            attended = F.scaled_dot_product_attention(queries, keys, values, attn_mask=self.bias, dropout_p=dropout)
            return attended[self.rows, :, self.places]
        above, up_ids, down_ids = self.relations.above, self.relations.up, self.relations.down
        key_shares, value_shares = rows.keys - rows.keys[NONE], rows.values - rows.values[NONE]
        # F.embedding, not rows[ids]: nearly all ids are NONE, and the gradient of indexing adds equal ids one by one.
        up = (query * F.embedding(up_ids, key_shares)[:, None]).sum(-1)  # [piece, attn]
        down = (query[above] * F.embedding(down_ids, key_shares)[:, None]).sum(-1)
        row, place, place_above = (each[:, None] for each in (self.rows, self.places, self.places[above]))  # [piece, 1]
        attn = torch.arange(query.shape[1], device=query.device)
        to_above = (row, attn, place, place_above)  # the cells [row, attn, query, key] of each piece …
        from_above = (row, attn, place_above, place)  # … and the reverse
        scores = queries / math.sqrt(width) @ keys.transpose(-1, -2)
        scores = scores.index_put(to_above, up.to(scores.dtype), accumulate=True)
        scores = scores.index_put(from_above, down.to(scores.dtype), accumulate=True)
        weights = F.dropout((scores + self.bias).softmax(-1), dropout)
        has_graph = self.relations.has_graph[index][:, None, :, None]
        attended = weights @ (values + has_graph * rows.values[NONE])
        attended = attended[self.rows, :, self.places]
        up, down = weights[to_above], weights[from_above]
        below = down[..., None] * F.embedding(down_ids, value_shares)[:, None]
        attended = attended + up[..., None] * F.embedding(up_ids, value_shares)[:, None]
        return attended.index_add(0, above, below.to(attended.dtype))


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

    def forward(self, x: Float[Tensor, "piece width"], attend: Attend) -> Float[Tensor, "piece width"]:
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

    def __init__(
        self, settings: TransformerSettings, relations: RelationSettings, n_labels: int, *, reads_graph: bool
    ) -> None:
        super().__init__()
        tables = None
        if reads_graph:
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

    def forward(self, x: Float[Tensor, "piece width"], attend: Attend) -> Float[Tensor, "piece width"]:
        """Return the output of the layer."""
        x = self.attention_norm(x + self.dropout(self.attention(x, attend)))
        output: Tensor = self.outer_norm(x + self.dropout(self.outer(self.activation(self.inner(x)))))
        return output
