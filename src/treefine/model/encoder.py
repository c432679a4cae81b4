"""A pretrained transformer of the BERT, RoBERTa, ELECTRA or MPNet family whose attention reads a graph."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.config import RelationSettings, TransformerSettings
from treefine.fast.activated import activated
from treefine.fast.flat_encoder import FlatBias, FlatRelations, FlatRows
from treefine.fast.fused_attention import Rows, is_available
from treefine.model.attention import RelationAttention, RelationTables
from treefine.model.batch import ROOT_PIECE, Graphs, PieceInputs
from treefine.model.relations import Relations, n_relations, relate

_ACTIVATIONS = {"gelu": nn.GELU(), "gelu_new": nn.GELU(approximate="tanh"), "relu": nn.ReLU()}
_FARTHEST = 128  # pieces between two that MPNet tells apart


class TransformerEncoder(nn.Module):
    """Pieces, their tags and a graph to one vector a word.

    With no graph and no tags this is the pretrained encoder itself, but that ROOT's vector stands in for a piece. The
    families differ in what their folders are called (`weight_names`), in ELECTRA's narrow embeddings, and in MPNet's
    bias by relative distance; token types, all 0 here, have become part of the position embeddings.
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
        self.pieces = nn.Embedding(settings.n_pieces, settings.embedding_width)
        self.positions = nn.Embedding(settings.n_positions, settings.embedding_width)
        self.tags = nn.ModuleList(TagEmbedding(number, settings.embedding_width) for number in n_tags)
        self.root = nn.Parameter(torch.empty(settings.embedding_width))
        self.norm = nn.LayerNorm(settings.embedding_width, eps=settings.norm_eps)
        is_narrow = settings.embedding_width != settings.width
        self.widen = nn.Linear(settings.embedding_width, settings.width) if is_narrow else None
        has_buckets = settings.n_buckets > 0
        self.buckets = nn.Embedding(settings.n_buckets, settings.n_attention_heads) if has_buckets else None
        self.layers = nn.ModuleList(Layer(settings, relations, n_labels) for _ in range(settings.n_layers))
        self.dropout = nn.Dropout(settings.dropout)
        self.apply(_initialise)
        nn.init.normal_(self.root, std=0.02)

    def forward(
        self,
        inputs: PieceInputs,
        tags: Int[Tensor, "batch word column"] | None,
        graphs: Graphs | None,
        *,
        rows_at_once: int | None = None,
    ) -> Float[Tensor, "batch word width"]:
        """The vector of each word's first piece (Sec. 5.3), from the window in which it stands farthest inside.

        `rows_at_once` bounds what is encoded together; the rows after them follow.
        """
        relations = None
        if graphs is not None and self.relation_settings.graph != "none":
            has_any = bool((graphs.heads >= 0).any()) if graphs.has_any is None else graphs.has_any
            relations = relate(inputs, graphs, self.n_labels, self.relation_settings) if has_any else None
        chunks = inputs.row_chunks(rows_at_once)
        if self.lays_flat(inputs.pieces.device):
            return self._forward_flat(inputs, tags, relations, chunks)
        encoded = [
            self.encode(
                self.embed(inputs, tags, rows),
                inputs.is_piece[rows],
                None if relations is None else relations[rows],
            )
            for rows in chunks
        ]
        return torch.cat(encoded)[inputs.word_rows, inputs.word_pieces]

    def lays_flat(self, device: torch.device) -> bool:
        """Whether rows are laid end to end, so that their lengths may differ: on a CPU that parses in float32."""
        learns = self.training or torch.is_grad_enabled()
        is_single = self.root.dtype == torch.float32 and not torch.is_autocast_enabled(device.type)
        return device.type == "cpu" and is_single and not learns

    def _forward_flat(
        self,
        inputs: PieceInputs,
        tags: Int[Tensor, "batch word column"] | None,
        relations: Relations | None,
        chunks: Iterable[slice],
    ) -> Float[Tensor, "batch word width"]:
        encoded, starts, n_pieces = [], torch.zeros(inputs.n_rows, dtype=torch.long), 0
        for chunk in chunks:
            rows = FlatRows.of(inputs, chunk)
            x = self.embed_flat(inputs, tags, rows)
            is_piece = [inputs.is_piece[block.rows, : block.length] for block in rows.blocks]
            bias = FlatBias(rows, [self._bias(x.dtype, each) for each in is_piece])
            of_rows = None if relations is None else FlatRelations.of(relations, bias)
            for layer in self.layers:
                x = layer(x, bias, of_rows)
            encoded.append(x)
            starts[chunk] = rows.starts[chunk] + n_pieces
            n_pieces += len(x)
        return torch.cat(encoded)[starts[inputs.word_rows] + inputs.word_pieces]

    def embed(
        self, inputs: PieceInputs, tags: Int[Tensor, "batch word column"] | None, rows: slice
    ) -> Float[Tensor, "row piece width"]:
        """Position, word and tag of each piece in one vector (Eq. 3)."""
        pieces = inputs.pieces[rows]
        x = self.pieces(pieces)  # [row, piece, width]
        x = torch.cat([x[:, :ROOT_PIECE], self.root.expand(len(x), 1, -1), x[:, ROOT_PIECE + 1 :]], dim=1)
        if self.double_specials:
            x = x * torch.where(inputs.words[rows] < 0, 2, 1)[..., None]
        if tags is not None:
            words = inputs.words[rows]
            for column, table in enumerate(self.tags):
                of_word = tags[inputs.sentences[rows], :, column].gather(1, words.clamp(min=0))  # [row, piece]
                x = x + table(torch.where(words > 0, of_word, 0))
        x = self.dropout(self.norm(x + self.positions.weight[: pieces.shape[1]]))
        embedded: Tensor = x if self.widen is None else self.widen(x)
        return embedded

    def embed_flat(
        self, inputs: PieceInputs, tags: Int[Tensor, "batch word column"] | None, rows: FlatRows
    ) -> Float[Tensor, "piece width"]:
        """The same for rows laid end to end."""
        x = self.pieces(rows.take(inputs.pieces))
        x = torch.where((rows.places == ROOT_PIECE)[:, None], self.root, x)
        words = rows.take(inputs.words)
        if self.double_specials:
            x = x * torch.where(words < 0, 2, 1)[:, None]
        if tags is not None:
            of_words = tags[inputs.sentences[rows.rows], words.clamp(min=0)]  # [piece, column]
            for column, table in enumerate(self.tags):
                x = x + table(torch.where(words > 0, of_words[:, column], 0))
        x = self.norm(x + self.positions(rows.places))
        embedded: Tensor = x if self.widen is None else self.widen(x)
        return embedded

    def encode(
        self,
        x: Float[Tensor, "row piece width"],
        is_piece: Tensor,
        relations: Relations | None,
    ) -> Float[Tensor, "row piece width"]:
        """The last layer's vectors, from the embedded pieces."""
        bias: Tensor | Rows
        if relations is not None and is_available(x.device):
            by_distance = None if self.buckets is None else self.bias_by_distance(x.shape[1])
            bias = Rows.padded(is_piece, by_distance)
        else:
            bias = self._bias(x.dtype, is_piece)
        for layer in self.layers:
            x = layer(x, bias, relations)
        return x

    def _bias(self, dtype: torch.dtype, is_piece: Bool[Tensor, "row piece"]) -> Float[Tensor, "row _ _ piece"]:
        """What is added to the scores: nothing is attended to in padding, and MPNet minds the distance."""
        bias = torch.zeros(is_piece.shape, dtype=dtype, device=is_piece.device)
        bias = bias.masked_fill(~is_piece, -math.inf)[:, None, None]  # [row, 1, 1, piece]
        if self.buckets is not None:
            n_pieces = is_piece.shape[1]
            places = torch.arange(n_pieces, device=is_piece.device)
            distance = places[None] - places[:, None] + n_pieces - 1  # [query, key], from 0
            bias = bias + self.bias_by_distance(n_pieces)[:, distance][None]
        return bias

    def bias_by_distance(self, n_pieces: int) -> Float[Tensor, "attn distance"]:
        """What MPNet adds to a score for the distance from query to key: near ones apart, far ones by logarithm.

        The distances are those between so many pieces, from 1 - n_pieces to n_pieces - 1.
        """
        assert self.buckets is not None
        distance = torch.arange(1 - n_pieces, n_pieces, device=self.buckets.weight.device)
        half = self.settings.n_buckets // 2
        exact = half // 2
        far = torch.log(distance.abs().clamp(min=1) / exact) / math.log(_FARTHEST / exact) * (half - exact)
        bucket = torch.where(distance.abs() < exact, distance.abs(), (exact + far.long()).clamp(max=half - 1))
        bias: Tensor = self.buckets(bucket + half * (distance > 0))  # [distance, attn]
        return bias.T


class Layer(nn.Module):
    """One layer: attention, then a feed-forward network, each with residual and norm."""

    def __init__(self, settings: TransformerSettings, relations: RelationSettings, n_labels: int) -> None:
        super().__init__()
        tables = None
        if relations.graph != "none":
            width = settings.width // settings.n_attention_heads
            tables = RelationTables(n_relations(n_labels, relations), width, relations)
        self.attention = RelationAttention(
            settings.width, settings.n_attention_heads, settings.attention_dropout, tables
        )
        self.attention_norm = nn.LayerNorm(settings.width, eps=settings.norm_eps)
        self.inner = nn.Linear(settings.width, settings.inner_width)
        self.outer = nn.Linear(settings.inner_width, settings.width)
        self.outer_norm = nn.LayerNorm(settings.width, eps=settings.norm_eps)
        self.activation = _ACTIVATIONS[settings.activation]
        self.dropout = nn.Dropout(settings.dropout)

    def forward(
        self,
        x: Float[Tensor, "*row piece width"],
        bias: Float[Tensor, "row _ _ piece"] | Rows | FlatBias,
        relations: Relations | FlatRelations | None,
    ) -> Float[Tensor, "*row piece width"]:
        """The next layer's input; of rows laid end to end with a FlatBias."""
        x = self.attention_norm(x + self.dropout(self.attention(x, bias, relations)))
        inner = self.inner(x)
        outer = activated(self.outer, self.activation, inner) if self.training else self.outer(self.activation(inner))
        output: Tensor = self.outer_norm(x + self.dropout(outer))
        return output


class TagEmbedding(nn.Module):
    """A vector a tag; tag 0, which is none or one never seen, is the zero vector."""

    def __init__(self, n_tags: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_tags, width))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, tags: Int[Tensor, "*place"]) -> Float[Tensor, "*place width"]:
        """The vector of each tag."""
        none = self.weight.new_zeros((1, self.weight.shape[1]))
        return F.embedding(tags, torch.cat([none, self.weight]))


def _initialise(module: nn.Module) -> None:
    """As BERT is initialised; a pretrained encoder's weights replace this."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
