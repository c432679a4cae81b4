"""Encode sentences laid end to end in buffers of fixed size, without padding within a buffer.

All matrix products have the same shape, so a sentence's vectors do not depend on the other sentences in its buffer. See
docs/design.md, 'Buffers on a GPU'.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.config import RelationSettings
from treefine.fast.fused_attention import FusedAttention, Rows
from treefine.model.attention import (
    Attend,
    Layer,
    RelationAttention,
    RelationRows,
    Relations,
    n_kinds_of,
    relation_ids,
)
from treefine.model.batch import Graphs, PieceInputs, TagIds, WordVectors
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
    return Relations(above, *relation_ids(kinds, is_related, is_mutual, n_kinds, settings), inputs.has_graph > 0)


class PackedEncoder(nn.Module):
    """`TransformerEncoder` in a given precision, over buffers of pieces laid end to end; for parsing only."""

    def __init__(self, encoder: TransformerEncoder, dtype: torch.dtype, rooms: Sequence[Room] = ROOMS) -> None:
        super().__init__()
        self.width, self.n_labels, self.relation_settings = encoder.width, encoder.n_labels, encoder.relation_settings
        self.encoder = copy.deepcopy(encoder).to(dtype).requires_grad_(False).eval()
        for ours, whole in zip(self.encoder.layers, encoder.layers, strict=True):
            assert isinstance(ours, Layer)
            assert isinstance(whole, Layer)
            tables = whole.attention.relations
            rows = None if tables is None else RelationRows(*(each.detach().to(dtype) for each in tables.rows()))
            ours.attention = MergedAttention(ours.attention, rows)  # type: ignore[assignment]
        n_positions = encoder.settings.n_positions
        self.rooms = [room._replace(longest=min(room.longest, n_positions)) for room in rooms]
        if self.rooms[-1].longest < n_positions:
            self.rooms.append(Room(max(self.rooms[-1].pieces, n_positions), self.rooms[-1].sentences, n_positions))

    @torch.no_grad()
    def forward(
        self, inputs: PieceInputs, tags: TagIds | None, graphs: Graphs | None, *, rows_at_once: int | None = None
    ) -> WordVectors:
        """Return the vector of each word's first piece (Sec. 5.3), using as many buffers as needed.

        `rows_at_once` is ignored, because buffers have a fixed size.
        """
        del rows_at_once
        relations, piece_tags = self.encoder.relate(inputs, graphs), inputs.piece_tags(tags, slice(None))
        encoded = torch.zeros((inputs.pieces.numel(), self.width), device=inputs.pieces.device)
        for room, rows in fitted_rows(inputs.row_lengths, self.rooms):
            row_lengths = np.array([inputs.row_lengths[row] for row in rows])
            row_starts = np.cumsum(row_lengths) - row_lengths
            in_row = np.arange(row_lengths.sum()) - np.repeat(row_starts, row_lengths)
            in_batch = np.repeat(rows, row_lengths) * inputs.pieces.shape[1] + in_row
            arrays = (in_batch, in_row, row_starts, row_lengths, np.array(rows))
            index, places, starts, lengths, chosen = (torch.from_numpy(each).to(encoded.device) for each in arrays)
            starts, lengths = (_extended(each, room.sentences) for each in (starts, lengths))

            def take(padded: Tensor, unused: int = 0) -> Tensor:
                """Return the values of the buffer's pieces from a tensor [row, piece, …]."""
                return _extended(padded.flatten(0, 1)[index], room.pieces, unused)  # noqa: B023 - called in this round

            of_buffer = None
            if relations is not None:
                above, up, down = (take(each) for each in (relations.above, relations.up, relations.down))
                of_buffer = Relations(above, up, down, _extended(relations.has_graph[chosen], room.sentences))
            x = self.encode(
                take(inputs.pieces),
                take(inputs.words, -1),
                _extended(places, room.pieces),
                None if piece_tags is None else take(piece_tags),
                FusedAttention(self._rows(starts, lengths, room), of_buffer),
            )
            encoded[index] = x[: len(index)].float()
        return encoded.view(len(inputs.row_lengths), inputs.pieces.shape[1], -1)[inputs.word_rows, inputs.word_pieces]

    def of_buffer(self, inputs: PackedInputs, room: Room) -> Float[Tensor, "word width"]:
        """Return the vector of each word's first piece, for the sentences of one buffer."""
        relations = None
        if self.relation_settings.graph != "none":
            relations = relate_packed(inputs, self.n_labels, self.relation_settings)
        attend = FusedAttention(self._rows(inputs.starts, inputs.n_pieces, room), relations)
        x = self.encode(inputs.pieces, inputs.word_numbers, inputs.places, inputs.piece_tags, attend)
        return x[inputs.first_pieces]

    def _rows(self, starts: Int[Tensor, " sentence"], lengths: Int[Tensor, " sentence"], room: Room) -> Rows:
        by_distance = None if self.encoder.buckets is None else self.encoder.bias_by_distance(room.longest)
        return Rows(starts, lengths, room.longest, by_distance)

    def shallow(self, n_layers: int) -> nn.Module:
        """Return an encoder of the first layers, which shares their weights."""
        view = copy.copy(self)
        view._modules = {**self._modules, "encoder": self.encoder.shallow(n_layers)}
        return view

    def encode(
        self,
        pieces: Int[Tensor, " piece"],
        words: Int[Tensor, " piece"],
        places: Int[Tensor, " piece"],
        tags: Int[Tensor, "piece column"] | None,
        attend: Attend,
    ) -> Float[Tensor, "piece width"]:
        """Return the vectors of the pieces of a buffer, from the inputs of `TransformerEncoder.embed`."""
        with torch.autocast(pieces.device.type, enabled=False):  # even if the caller enabled it
            x: Tensor = self.encoder.embed(pieces, words, places, tags)
            for layer in self.encoder.layers:
                x = layer(x, attend)
        return x


def _extended(values: Tensor, size: int, unused: int = 0) -> Tensor:
    """Return the values, followed by `unused` in the places up to a size."""
    return torch.cat([values, values.new_full((size - len(values), *values.shape[1:]), unused)])


def fitted_rows(lengths: Sequence[int], rooms: Sequence[Room]) -> Iterator[tuple[Room, list[int]]]:
    """Yield the rows of each buffer. A row goes into the first room that is long enough for it."""
    shortest = 0
    for room in rooms:
        rows: list[int] = []
        n_pieces = 0
        for row, length in enumerate(lengths):
            if not shortest < length <= room.longest:
                continue
            if n_pieces + length > room.pieces or len(rows) == room.sentences:
                yield room, rows
                rows, n_pieces = [], 0
            rows.append(row)
            n_pieces += length
        if rows:
            yield room, rows
        shortest = room.longest


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
