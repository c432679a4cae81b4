"""The transformer over sentences laid end to end: no padding, and shapes that never change."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.config import RelationSettings
from treefine.fast.fused_attention import RowRelations, Rows, attend_rows, is_available
from treefine.model.attention import RelationTables, attend
from treefine.model.encoder import Layer, TransformerEncoder
from treefine.model.relations import NONE, Relations, n_kinds_of

SPECIAL, FIRST, REST = 0, 1, 2  # kinds of pieces: CLS, SEP or nothing; the first piece of a word or ROOT; another piece


class Room(NamedTuple):
    """What a buffer holds at most."""

    pieces: int
    sentences: int
    longest: int  # pieces of a sentence, and words of it with ROOT


@dataclass(frozen=True)
class PackedInputs:
    """Sentences in a buffer. Each word, and ROOT before the words of its sentence, has a place in the buffer."""

    pieces: Int[Tensor, " piece"]
    places: Int[Tensor, " piece"]  # of each piece in its sentence
    kinds: Int[Tensor, " piece"]
    words: Int[Tensor, " piece"]  # the word of each piece, counted in the buffer; of CLS and SEP their sentence's ROOT
    starts: Int[Tensor, " sentence"]  # the first piece of each sentence …
    n_pieces: Int[Tensor, " sentence"]  # … and how many there are; none where the buffer has room left
    word_starts: Int[Tensor, " sentence"]  # where each sentence's ROOT is
    n_words: Int[Tensor, " sentence"]  # with ROOT
    has_graph: Int[Tensor, " sentence"]
    sentences: Int[Tensor, " word"]  # the sentence of each word
    numbers: Int[Tensor, " word"]  # the number of each word in its sentence; 0 is ROOT
    first_pieces: Int[Tensor, " word"]  # counted in the buffer
    heads: Int[Tensor, " word"]  # of the graph that is read, by their numbers in the sentence; NO_HEAD where none
    labels: Int[Tensor, " word"]
    tags: Int[Tensor, "word column"]

    @property
    def head_places(self) -> Int[Tensor, " word"]:
        """Where each word's head is in the buffer; ROOT for a word without one."""
        return self.in_buffer(self.heads)

    def in_buffer(self, heads: Int[Tensor, " word"]) -> Int[Tensor, " word"]:
        """The places of heads that are given by their numbers in the sentence."""
        return self.word_starts[self.sentences] + heads.clamp(min=0)


class PackedRelations(NamedTuple):
    """`Relations` of pieces laid end to end."""

    above: Int[Tensor, " piece"]  # counted in its sentence
    up: Int[Tensor, " piece"]
    down: Int[Tensor, " piece"]
    has_graph: Bool[Tensor, " sentence"]


def relate_packed(inputs: PackedInputs, n_labels: int, settings: RelationSettings) -> PackedRelations:
    """The relations between the pieces, as `relate` has them for sentences that stand in one window each."""
    n_kinds = n_kinds_of(n_labels, settings)
    words, places = inputs.words, inputs.places
    first_places = places[inputs.first_pieces]  # [word]
    is_arc = (inputs.kinds == FIRST) & (inputs.heads[words] >= 0)
    kinds = torch.zeros_like(places)
    if settings.graph == "labelled":
        kinds = inputs.labels[words]
        is_arc = is_arc & (kinds >= 0)
    is_rest = (inputs.kinds == REST) & (inputs.has_graph[inputs.sentences[words]] > 0)
    kinds = torch.where(is_rest, n_kinds - 1, kinds)
    above = first_places[torch.where(is_arc, inputs.head_places[words], words)]  # [piece]
    is_related = (is_arc | is_rest) & (above != places)
    above = torch.where(is_related, above, places)
    starts = torch.arange(len(places), device=places.device) - places  # the first piece of each piece's sentence
    is_mutual = is_related & (above[starts + above] == places)
    is_up = is_related & ~is_mutual if settings.two_cycles == "erased" else is_related
    up = torch.where(is_up, kinds + 1 + n_kinds, NONE)
    down = torch.where(is_related & ~is_mutual, kinds + 1, NONE)
    return PackedRelations(above, up, down, inputs.has_graph > 0)


class PackedEncoder(nn.Module):
    """An encoder's weights in another precision, for sentences laid end to end."""

    def __init__(self, encoder: TransformerEncoder, dtype: torch.dtype) -> None:
        super().__init__()
        self.n_labels, self.relation_settings = encoder.n_labels, encoder.relation_settings
        self.double_specials = encoder.double_specials
        self.encoder = copy.deepcopy(encoder).to(dtype).requires_grad_(False).eval()
        self.layers = nn.ModuleList()
        for ours, whole in zip(self.encoder.layers, encoder.layers, strict=True):
            assert isinstance(ours, Layer)
            assert isinstance(whole, Layer)
            self.layers.append(PackedLayer(ours, whole, dtype))
        # TagEmbedding puts a row of zeros before its table in each call.
        self.tags = [F.pad(weight, (0, 0, 1, 0)) for weight in self.encoder.tags.parameters()]

    def forward(self, inputs: PackedInputs, room: Room) -> Float[Tensor, "word width"]:
        """The vector of each word's first piece (Sec. 5.3)."""
        relations = None
        if self.relation_settings.graph != "none":
            relations = relate_packed(inputs, self.n_labels, self.relation_settings)
        by_distance = None if self.encoder.buckets is None else self.encoder.bias_by_distance(room.longest)
        rows = Rows(inputs.starts, inputs.n_pieces, room.longest, by_distance)
        x = self.embed(inputs)
        for layer in self.layers:
            x = layer(x, rows, relations)
        return x[inputs.first_pieces]

    def embed(self, inputs: PackedInputs) -> Float[Tensor, "piece width"]:
        """Position, word and tag of each piece in one vector (Eq. 3)."""
        encoder = self.encoder
        is_word = inputs.kinds != SPECIAL
        is_root = is_word & (inputs.numbers[inputs.words] == 0)
        x = torch.where(is_root[:, None], encoder.root, F.embedding(inputs.pieces, encoder.pieces.weight))
        if self.double_specials:
            x = x * torch.where(is_word, 1, 2)[:, None].to(x.dtype)
        for column, table in enumerate(self.tags):  # ROOT has tag 0, which is the zero vector
            x = x + F.embedding(inputs.tags[inputs.words, column] * is_word, table)
        x = encoder.norm(x + F.embedding(inputs.places, encoder.positions.weight))
        embedded: Tensor = x if encoder.widen is None else encoder.widen(x)
        return embedded


class PackedLayer(nn.Module):
    """One layer with one product for query, key and value."""

    def __init__(self, layer: Layer, whole: Layer, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer = layer
        attention = layer.attention
        three = (attention.query, attention.key, attention.value)
        self.weight = torch.cat([each.weight for each in three])
        self.bias = torch.cat([each.bias for each in three])
        self.tables: RelationTables | None = None
        if whole.attention.relations is not None:
            self.tables = whole.attention.relations.fixed(dtype)

    def forward(
        self, x: Float[Tensor, "piece width"], rows: Rows, relations: PackedRelations | None
    ) -> Float[Tensor, "piece width"]:
        """The next layer's input."""
        layer = self.layer
        n_attention_heads = layer.attention.n_attention_heads
        query, key, value = F.linear(x, self.weight, self.bias).view(len(x), 3, n_attention_heads, -1).unbind(1)
        attended = attend_packed(query, key, value, rows, relations, self.tables)
        x = layer.attention_norm(x + layer.attention.output(attended.flatten(1)))
        output: Tensor = layer.outer_norm(x + layer.outer(layer.activation(layer.inner(x))))
        return output


def attend_packed(
    query: Float[Tensor, "piece attn width"],
    key: Float[Tensor, "piece attn width"],
    value: Float[Tensor, "piece attn width"],
    rows: Rows,
    relations: PackedRelations | None,
    tables: RelationTables | None,
) -> Float[Tensor, "piece attn width"]:
    """`attend` for pieces laid end to end: one kernel on a GPU; elsewhere padded, as the reference."""
    if is_available(query.device):
        of_rows = None
        if relations is not None and tables is not None:
            of_rows = RowRelations(*relations, tables.keys, tables.values)  # which are fixed
        return attend_rows(query, key, value, rows=rows, relations=of_rows)
    places = torch.arange(rows.longest, device=query.device)
    is_piece: Bool[Tensor, "row place"] = places < rows.lengths[:, None]
    index = torch.where(is_piece, rows.starts[:, None] + places, 0)
    hides = ~is_piece & is_piece.any(1, keepdim=True)  # a row without pieces has all of them, lest it have no weights
    bias = torch.zeros(is_piece.shape, dtype=query.dtype, device=query.device).masked_fill(hides, -math.inf)
    bias = bias[:, None, None]  # [row, 1, 1, place]
    if rows.by_distance is not None:
        distance = places[None] - places[:, None] + rows.by_distance.shape[1] // 2  # [query, key], from 0
        bias = bias + rows.by_distance[:, distance][None]
    padded = [each[index].transpose(1, 2) for each in (query, key, value)]  # [row, attn, place, width]
    of_places = None
    if relations is not None:
        above, up, down = (each[index] for each in relations[:3])
        above = torch.where(is_piece, above, places)
        of_places = Relations(above, up * is_piece, down * is_piece, relations.has_graph)
    attended = attend(*padded, bias=bias, relations=of_places, tables=tables).transpose(1, 2)
    result = torch.zeros_like(query, memory_format=torch.contiguous_format)
    result[index[is_piece]] = attended[is_piece]
    return result
