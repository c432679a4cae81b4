"""A pretrained transformer of the BERT, RoBERTa, ELECTRA or MPNet family whose attention reads a graph."""

from __future__ import annotations

import copy
import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.config import RelationSettings, TransformerSettings
from treefine.model.attention import Attend, Layer, PaddedAttention, Relations, relate
from treefine.model.batch import Graphs, PieceInputs, TagIds, WordVectors

_FARTHEST = 128  # in pieces; MPNet does not distinguish larger distances


class TransformerEncoder(nn.Module):
    """A transformer from pieces, their tags and a graph to one vector per word.

    Without a graph and tags it equals the pretrained encoder, except that ROOT has its own vector. The families differ
    in their weight names (`hf_weights`), in ELECTRA's narrow embeddings, and in MPNet's bias by relative distance.
    All token types are 0, so their embedding is part of the position embeddings.
    """

    def __init__(
        self,
        settings: TransformerSettings,
        relations: RelationSettings,
        *,
        n_labels: int,
        n_tags: tuple[int, ...] = (),
        double_specials: bool = False,
    ) -> None:
        super().__init__()
        self.settings, self.relation_settings, self.n_labels = settings, relations, n_labels
        self.width = settings.width
        self.double_specials = double_specials
        self.pieces = embedding(settings.n_pieces, settings.embedding_width)
        self.pieces.weight.requires_grad_(settings.table_bits > 4)
        self.positions = embedding(settings.n_positions, settings.embedding_width)
        self.tags = nn.ModuleList(TagEmbedding(number, settings.embedding_width) for number in n_tags)
        self.root = nn.Parameter(torch.empty(settings.embedding_width))
        self.norm = nn.LayerNorm(settings.embedding_width, eps=settings.norm_eps)
        is_narrow = settings.embedding_width != settings.width
        self.widen = nn.Linear(settings.embedding_width, settings.width) if is_narrow else None
        has_buckets = settings.n_buckets > 0
        self.buckets = embedding(settings.n_buckets, settings.n_attention_heads) if has_buckets else None
        self.layers = nn.ModuleList(Layer(settings, relations, n_labels) for _ in range(settings.n_layers))
        self.dropout = nn.Dropout(settings.dropout)
        if not self.root.is_meta:
            self.apply(_initialise)
            nn.init.normal_(self.root, std=0.02)

    def forward(
        self, inputs: PieceInputs, tags: TagIds | None, graphs: Graphs | None, *, rows_at_once: int | None = None
    ) -> WordVectors:
        """Return the vector of each word's first piece (Sec. 5.3), from the window that has the most context for it.

        `rows_at_once` limits how many rows are encoded together, which bounds the memory.
        """
        relations = self.relate(inputs, graphs)
        encoded = []
        for rows in inputs.row_chunks(rows_at_once):
            places = torch.arange(inputs.pieces.shape[1], device=inputs.pieces.device)
            x = self.embed(inputs.pieces[rows], inputs.words[rows], places, inputs.piece_tags(tags, rows))
            attend = self.attention(inputs.is_piece[rows], None if relations is None else relations[rows], x.dtype)
            for layer in self.layers:
                x = layer(x, attend)
            encoded.append(x)
        return torch.cat(encoded)[inputs.word_rows, inputs.word_pieces]

    def shallow(self, n_layers: int) -> nn.Module:
        """Return an encoder of the first layers, which shares their weights."""
        view = copy.copy(self)
        view._modules = {**self._modules, "layers": self.layers[:n_layers]}
        return view

    def relate(self, inputs: PieceInputs, graphs: Graphs | None) -> Relations | None:
        """Return the relations that attention reads; None if no sentence has a graph or the model reads none."""
        if graphs is None or self.relation_settings.graph == "none":
            return None
        has_any = bool((graphs.heads >= 0).any()) if graphs.has_any is None else graphs.has_any
        return relate(inputs, graphs, self.n_labels, self.relation_settings) if has_any else None

    def embed(
        self,
        pieces: Int[Tensor, "*row piece"],
        words: Int[Tensor, "*row piece"],
        places: Int[Tensor, " piece"],
        tags: Int[Tensor, "*row piece column"] | None,
    ) -> Float[Tensor, "*row piece width"]:
        """Return one vector per piece, from its position, form and tags (Eq. 3).

        `words` holds the number of each piece's word: 0 for ROOT, negative for CLS, SEP and padding.
        """
        x = torch.where((words == 0)[..., None], self.root, self.pieces(pieces))
        if self.double_specials:
            x = x * torch.where(words < 0, 2, 1)[..., None]
        if tags is not None:
            for table, column in zip(self.tags, tags.unbind(-1), strict=False):  # only running text has the last one
                if table.n_tags:  # a column without vectors is not read
                    x = x + table(column)
        x = self.dropout(self.norm(x + self.positions(places)))
        embedded: Tensor = x if self.widen is None else self.widen(x)
        return embedded

    def attention(self, is_piece: Bool[Tensor, "row piece"], relations: Relations | None, dtype: torch.dtype) -> Attend:
        """Return the attention function for these rows."""
        return PaddedAttention(self.bias(is_piece, dtype), relations)

    def bias(self, is_piece: Bool[Tensor, "row piece"], dtype: torch.dtype) -> Float[Tensor, "row _ _ piece"]:
        """Return the bias on the attention scores: -inf masks padding, and MPNet adds a bias by distance."""
        bias = torch.zeros(is_piece.shape, dtype=dtype, device=is_piece.device)
        bias = bias.masked_fill(~is_piece, -math.inf)[:, None, None]  # [row, 1, 1, piece]
        if self.buckets is not None:
            n_pieces = is_piece.shape[1]
            places = torch.arange(n_pieces, device=is_piece.device)
            distance = places[None] - places[:, None] + n_pieces - 1  # [query, key], from 0
            bias = bias + self.bias_by_distance(n_pieces)[:, distance][None]
        return bias

    def bias_by_distance(self, n_pieces: int) -> Float[Tensor, "attn distance"]:
        """Return MPNet's bias for each distance from query to key, from 1 - n_pieces to n_pieces - 1.

        Each small distance has its own bucket; large distances share logarithmic buckets.
        """
        assert self.buckets is not None
        distance = torch.arange(1 - n_pieces, n_pieces, device=self.buckets.weight.device)
        half = self.settings.n_buckets // 2
        exact = half // 2
        far = torch.log(distance.abs().clamp(min=1) / exact) / math.log(_FARTHEST / exact) * (half - exact)
        bucket = torch.where(distance.abs() < exact, distance.abs(), (exact + far.long()).clamp(max=half - 1))
        bias: Tensor = self.buckets(bucket + half * (distance > 0))  # [distance, attn]
        return bias.T


class TagEmbedding(nn.Module):
    """One vector per tag. Tag 0, which means no tag or an unknown one, has the zero vector."""

    def __init__(self, n_tags: int, width: int) -> None:
        super().__init__()
        self.n_tags = n_tags
        self.weight = nn.Parameter(torch.empty(n_tags, width))
        if not self.weight.is_meta:
            nn.init.normal_(self.weight, std=0.02)

    def forward(self, tags: Int[Tensor, "*place"]) -> Float[Tensor, "*place width"]:
        """Return the vector of each tag."""
        none = self.weight.new_zeros((1, self.weight.shape[1]))
        return F.embedding(tags, torch.cat([none, self.weight]))


def embedding(number: int, width: int) -> nn.Embedding:
    """Return an embedding. A model that is loaded is created on the meta device, where drawing numbers takes long."""
    weight = torch.empty(number, width)
    weight = weight if weight.is_meta else nn.init.normal_(weight)
    return nn.Embedding(number, width, _weight=weight)


def _initialise(module: nn.Module) -> None:
    """Initialise as BERT does; the weights of a pretrained encoder replace this."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
