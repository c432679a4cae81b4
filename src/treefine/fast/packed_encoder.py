"""Encode on a GPU: batches, and sentences in buffers of fixed size (docs/design.md, 'Buffers on a GPU')."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.config import RelationSettings
from treefine.fast import view_of
from treefine.fast.fused_attention import FusedAttention, Rows, fused_attention
from treefine.model.attention import (
    Attend,
    Layer,
    RelationAttention,
    RelationRows,
    Relations,
    n_kinds_of,
    relation_ids,
)
from treefine.model.batch import Encoded, Graphs, PieceInputs, TagIds
from treefine.model.encoder import TransformerEncoder

SPECIAL, FIRST, REST = 0, 1, 2  # kinds of pieces: CLS, SEP or unused; first piece of a word, or ROOT; other piece


class Room(NamedTuple):
    """The capacity of a buffer."""

    pieces: int
    sentences: int
    longest: int  # the maximum length of a sentence, in pieces and also in words with ROOT

    def halved(self) -> Room:
        """Return half the capacity, but at least enough for one sentence of the maximum length."""
        return Room(max(self.longest, self.pieces // 2), max(1, self.sentences // 2), self.longest)


PIECES = 8192  # in a buffer
ROOMS = (Room(PIECES, 512, 64), Room(PIECES // 2, 64, 512))  # each sentence goes into the first that fits it


@dataclass(frozen=True)
class PackedInputs:
    """The sentences in a buffer, and what a step has to do for each.

    Each word has a place in the buffer, and ROOT a place before its sentence's words.
    """

    pieces: Int[Tensor, " piece"]
    places: Int[Tensor, " piece"]  # of each piece in its sentence
    kinds: Int[Tensor, " piece"]
    words: Int[Tensor, " piece"]  # the place of each piece's word in the buffer; for CLS and SEP, that of ROOT
    starts: Int[Tensor, " sentence"]  # the first piece of each sentence …
    n_pieces: Int[Tensor, " sentence"]  # … and its number of pieces; 0 for an unused sentence slot
    word_starts: Int[Tensor, " sentence"]  # the place of each sentence's ROOT
    n_words: Int[Tensor, " sentence"]  # with ROOT
    has_graph: Int[Tensor, " sentence"]
    sentences: Int[Tensor, " word"]  # the sentence of each word
    numbers: Int[Tensor, " word"]  # the number of each word in its sentence; 0 is ROOT
    first_pieces: Int[Tensor, " word"]  # indices in the buffer
    heads: Int[Tensor, " word"]  # in the graph that is read, as numbers in the sentence; NO_HEAD if none
    labels: Int[Tensor, " word"]
    tags: Int[Tensor, "word column"]
    forced: Int[Tensor, " word"]  # heads found by tree search, for which the step only finds labels; else NO_HEAD
    lacks_tags: Int[Tensor, " sentence"]  # whether this step predicts tags that the next step reads
    is_last: Int[Tensor, " sentence"]  # whether this is step T of the sentence

    @property
    def head_places(self) -> Int[Tensor, " word"]:
        """The place of each word's head in the buffer; that of ROOT for a word without a head."""
        return self.in_buffer(self.heads)

    def in_buffer(self, heads: Int[Tensor, " word"]) -> Int[Tensor, " word"]:
        """Return the places in the buffer of heads that are given as numbers in the sentence."""
        return self.word_starts[self.sentences] + heads.clamp(min=0)

    @property
    def word_numbers(self) -> Int[Tensor, " piece"]:
        """The number of each piece's word in its sentence: 0 for ROOT, -1 for CLS, SEP and unused places."""
        return torch.where(self.kinds == SPECIAL, -1, self.numbers[self.words])

    @property
    def piece_tags(self) -> Int[Tensor, "piece column"]:
        """The tags of each piece's word; 0 for ROOT and for pieces that belong to no word."""
        return self.tags[self.words] * (self.kinds != SPECIAL)[:, None]


def relate_packed(inputs: PackedInputs, n_labels: int, settings: RelationSettings) -> Relations:
    """Return the same relations as `relate`, for sentences with one window each."""
    n_kinds, words, places = n_kinds_of(n_labels, settings), inputs.words, inputs.places
    has_graph = inputs.has_graph[inputs.sentences[words]] > 0  # [piece]
    is_arc = (inputs.kinds == FIRST) & (inputs.heads[words] >= 0)
    kinds = torch.zeros_like(places)
    if settings.graph == "labelled":
        kinds = inputs.labels[words]
        is_arc = is_arc & (kinds >= 0)
    is_rest = (inputs.kinds == REST) & has_graph
    kinds = torch.where(is_rest, n_kinds - 1, kinds)
    order = torch.arange(len(places), device=places.device)
    above = inputs.first_pieces[torch.where(is_arc, inputs.head_places[words], words)]  # [piece]
    is_related = (is_arc | is_rest) & (above != order)
    above = torch.where(is_related, above, order)
    is_mutual = is_related & (above[above] == order)
    return Relations(above, *relation_ids(kinds, is_related, is_mutual, n_kinds, settings), has_graph)


class PackedEncoder(nn.Module):
    """`TransformerEncoder` in a given precision, with fused attention, for parsing on a GPU."""

    def __init__(self, encoder: TransformerEncoder, dtype: torch.dtype) -> None:
        super().__init__()
        self.width, self.n_labels, self.relation_settings = encoder.width, encoder.n_labels, encoder.relation_settings
        self.encoder = view_of(copy.deepcopy(encoder).to(dtype).requires_grad_(False).eval(), FusedEncoder)
        for ours, whole in zip(self.encoder.layers, encoder.layers, strict=True):
            assert isinstance(ours, Layer)
            assert isinstance(whole, Layer)
            tables = whole.attention.relations
            rows = None if tables is None else RelationRows(*(each.detach().to(dtype) for each in tables.rows()))
            ours.attention = MergedAttention(ours.attention, rows)  # type: ignore[assignment]

    @torch.no_grad()
    def forward(
        self,
        inputs: PieceInputs,
        tags: TagIds | None,
        graphs: Graphs | None,
        layers: range | None = None,
        before: Encoded | None = None,
    ) -> Encoded:
        """Return the vectors of the pieces."""
        with torch.autocast(inputs.pieces.device.type, enabled=False):  # even if the caller enabled it
            encoded: Encoded = self.encoder(inputs, tags, graphs, layers, before)
        return encoded

    def of_buffer(self, inputs: PackedInputs, room: Room) -> Float[Tensor, "word width"]:
        """Return the vector of each word's first piece, for the sentences of one buffer."""
        relations, encoder = None, self.encoder
        if self.relation_settings.graph != "none":
            relations = relate_packed(inputs, self.n_labels, self.relation_settings)
        by_distance = None if encoder.buckets is None else encoder.bias_by_distance(room.longest)
        attend = FusedAttention(
            Rows(inputs.starts, inputs.n_pieces, inputs.places, room.longest, by_distance), relations
        )
        x: Tensor = encoder.embed_pieces(inputs.pieces, inputs.word_numbers, inputs.places, inputs.piece_tags)
        for layer in encoder.layers:
            x = layer(x, attend)
        return x[inputs.first_pieces]


class FusedEncoder(TransformerEncoder):
    """`TransformerEncoder` with fused attention."""

    def attention(self, inputs: PieceInputs, relations: Relations | None, dtype: torch.dtype) -> Attend:
        """Return the attention function for these rows."""
        return fused_attention(self, inputs, relations)


class MergedAttention(nn.Module):
    """`RelationAttention` with one matrix product for query, key and value, and with relation rows computed once."""

    def __init__(self, attention: RelationAttention, rows: RelationRows | None) -> None:
        super().__init__()
        self.n_attention_heads, self.output, self.rows = attention.n_attention_heads, attention.output, rows
        three = (attention.query, attention.key, attention.value)
        self.weight = torch.cat([each.weight for each in three])
        self.bias = torch.cat([each.bias for each in three])

    def forward(self, x: Float[Tensor, "piece width"], attend: Attend) -> Float[Tensor, "piece width"]:
        """Return the attention output, before the residual connection and the norm."""
        projected = F.linear(x, self.weight, self.bias).view(len(x), 3, self.n_attention_heads, -1)
        query, key, value = projected.unbind(1)
        output: Tensor = self.output(attend(query, key, value, self.rows, 0.0).flatten(-2))
        return output
