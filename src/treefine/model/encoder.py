"""A pretrained transformer of the BERT, RoBERTa, ELECTRA or MPNet family whose attention reads a graph."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.config import RelationSettings, TransformerSettings
from treefine.model.attention import Attend, Layer, PaddedAttention, Relations, relate
from treefine.model.batch import Encoded, Graphs, PieceInputs, PieceVectors, TagIds

_FARTHEST = 128  # in pieces; MPNet does not distinguish larger distances


class TransformerEncoder(nn.Module):
    """A transformer from pieces, their tags and a graph to one vector per piece.

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
        self.layers = nn.ModuleList(
            Layer(settings, relations, n_labels, reads_graph=relations.is_read_by(number))
            for number in range(settings.n_layers)
        )
        self.dropout = nn.Dropout(settings.dropout)
        if not self.root.is_meta:
            self.apply(_initialise)
            nn.init.normal_(self.root, std=0.02)

    def forward(
        self,
        inputs: PieceInputs,
        tags: TagIds | None,
        graphs: Graphs | None,
        layers: range | None = None,
        before: Encoded | None = None,
    ) -> Encoded:
        """Return the vectors of the pieces after some layers, by default all of them.

        Layers that do not start at the first continue from the vectors `before`.
        """
        layers, first = layers or range(len(self.layers)), self.relation_settings.first_layer
        relations = self.relate(inputs, graphs) if layers.stop > first else None
        if layers.start == 0 or before is None:
            x = lower = self.embed(inputs, tags)
        else:
            x, lower = before.lower if layers.start == first else before.last, before.lower
        attend = self.attention(inputs, relations, x.dtype)
        for number in layers:
            x = self.layers[number](x, attend)
            if number < first:
                lower = x
        return Encoded(lower, x, len(layers))

    def relate(self, inputs: PieceInputs, graphs: Graphs | None) -> Relations | None:
        """Return the relations that attention reads; None if no sentence has a graph or the model reads none."""
        if graphs is None or self.relation_settings.graph == "none":
            return None
        if graphs.heads.device.type == "cpu" and not graphs.are_read.any():  # on a GPU, the host would wait
            return None
        return relate(inputs, graphs, self.n_labels, self.relation_settings)

    def embed(self, inputs: PieceInputs, tags: TagIds | None) -> PieceVectors:
        """Return one vector per piece, from its position, form and tags (Eq. 3)."""
        of_pieces = None if tags is None else inputs.of_words(tags)
        return self.embed_pieces(inputs.pieces, inputs.words, inputs.places, of_pieces)

    def embed_pieces(
        self,
        pieces: Int[Tensor, " piece"],
        words: Int[Tensor, " piece"],
        places: Int[Tensor, " piece"],
        tags: Int[Tensor, "piece column"] | None,
    ) -> PieceVectors:
        """Return the embedding of pieces with these words: 0 is ROOT, negative is CLS, SEP or padding."""
        x = torch.where((words == 0)[:, None], self.root, self.pieces(pieces))
        if self.double_specials:
            x = x * torch.where(words < 0, 2, 1)[:, None]
        if tags is not None:
            for table, column in zip(self.tags, tags.unbind(-1), strict=False):  # only running text has the last one
                if table.n_tags:  # a column without vectors is not read
                    x = x + table(column)
        x = self.dropout(self.norm(x + self.positions(places)))
        embedded: Tensor = x if self.widen is None else self.widen(x)
        return embedded

    def attention(self, inputs: PieceInputs, relations: Relations | None, dtype: torch.dtype) -> Attend:
        """Return the attention function for these rows."""
        is_piece = torch.zeros(len(inputs.starts), max(inputs.row_sizes), dtype=torch.bool, device=inputs.rows.device)
        is_piece[inputs.rows, inputs.places] = inputs.is_piece
        return PaddedAttention(inputs.starts, inputs.rows, inputs.places, self.bias(is_piece, dtype), relations)

    def bias(self, is_piece: Bool[Tensor, "row place"], dtype: torch.dtype) -> Float[Tensor, "row _ _ place"]:
        """Return the bias on the attention scores: -inf masks padding, and MPNet adds a bias by distance."""
        bias = torch.zeros(is_piece.shape, dtype=dtype, device=is_piece.device)
        bias = bias.masked_fill(~is_piece, -math.inf)[:, None, None]  # [row, 1, 1, place]
        if self.buckets is not None:
            n_places = is_piece.shape[1]
            places = torch.arange(n_places, device=is_piece.device)
            distance = places[None] - places[:, None] + n_places - 1  # [query, key], from 0
            bias = bias + self.bias_by_distance(n_places)[:, distance][None]
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
