"""Sentences and graphs as padded tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from treefine.model.vocabulary import NO_HEAD, UNSEEN, Vocabulary, flat_arcs
from treefine.treebank.graph import Arcs

TagIds = Int[Tensor, "batch word column"]  # and other numbers that the encoder reads of each word
WordVectors = Float[Tensor, "batch word width"]
_Value = TypeVar("_Value", bound="OnDevice")


def to_device(values: Tensor | Sequence[int], device: torch.device) -> Tensor:
    """Return the values on a device. The copy to a GPU is asynchronous, so the host does not wait for it."""
    tensor = values if isinstance(values, Tensor) else torch.tensor(values, dtype=torch.int64)
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


class AsyncCopy:
    """A copy of some values to the host that is started now and read later.

    Reading waits for the copy but not for later GPU work, so the GPU stays busy while the host reads.
    """

    def __init__(self, values: Tensor) -> None:
        self._copy = values.detach().to("cpu", non_blocking=values.is_cuda)
        self._event = torch.cuda.current_stream(values.device).record_event() if values.is_cuda else None

    def read(self) -> Tensor:
        """Return the values on the host, after waiting for the copy."""
        if self._event is not None:
            self._event.synchronize()
        return self._copy


class OnDevice:
    """A frozen dataclass whose tensors can be copied to another device."""

    def to(self: _Value, device: torch.device) -> _Value:
        """Return a copy on another device."""
        moved: dict[str, Any] = {}
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                moved[field.name] = to_device(value, device)
            elif isinstance(value, OnDevice):
                moved[field.name] = value.to(device)
        return replace(self, **moved)  # type: ignore[type-var]


@dataclass(frozen=True)
class Allowed(OnDevice):
    """Masks of the heads and labels that each word may have. The rows of ROOT and of padding allow everything."""

    heads: Bool[Tensor, "batch dep head"]
    labels: Bool[Tensor, "batch dep label"]

    def select(self, rows: Int[Tensor, " row"], n_words: int) -> Allowed:
        """Return the masks of some sentences, cut to `n_words`, ROOT included."""
        return Allowed(self.heads[rows, :n_words, :n_words], self.labels[rows, :n_words])


@dataclass(frozen=True)
class Evidence(OnDevice):
    """The arcs that other parsers found, and the weight of each parser, which is added to the scores of its arcs."""

    heads: Int[Tensor, "source batch dep"]  # NO_HEAD for a word without an arc
    labels: Int[Tensor, "source batch dep"]  # UNSEEN for a missing or unknown label
    weights: tuple[float, ...]  # one per source

    def select(self, rows: Int[Tensor, " row"], n_words: int) -> Evidence:
        """Return the arcs of some sentences, cut to `n_words`, ROOT included."""
        return Evidence(self.heads[:, rows, :n_words], self.labels[:, rows, :n_words], self.weights)

    def of_heads(self, n_words: int) -> Float[Tensor, "batch dep head"]:
        """Return the weight of each arc, 0 for an arc that no source has; `n_words` includes ROOT."""
        found = torch.zeros(*self.heads.shape[1:], n_words, device=self.heads.device)
        for heads, weight in zip(self.heads, self.weights, strict=True):
            found.scatter_add_(2, heads.clamp(min=0)[..., None], weight * (heads >= 0)[..., None].float())
        return found

    def of_labels(self, heads: Int[Tensor, "batch dep"], n_labels: int) -> Float[Tensor, "batch dep label"]:
        """Return the weight of each label for these heads, 0 where no source has the same head and label."""
        found = torch.zeros(*heads.shape, n_labels, device=heads.device)
        for their_heads, labels, weight in zip(self.heads, self.labels, self.weights, strict=True):
            is_same = (their_heads == heads) & (labels != UNSEEN)
            found.scatter_add_(2, labels.clamp(min=0)[..., None], weight * is_same[..., None].float())
        return found


def padded(
    flat: Int[np.ndarray, "word ..."], lengths: Sequence[int], fill: int
) -> Int[np.ndarray, "sentence place ..."]:
    """Return one row per sentence, with ROOT at place 0. ROOT and the padding after the words get `fill`.

    >>> padded(np.array([5, 6, 7]), [1, 2], -1)
    array([[-1,  5, -1],
           [-1,  6,  7]])
    """
    n_words = np.array(lengths, dtype=np.int64)
    place = np.arange(n_words.max(initial=0) + 1)
    rows = np.full((len(n_words), len(place), *flat.shape[1:]), fill, dtype=np.int64)
    rows[(place > 0) & (place <= n_words[:, None])] = flat
    return rows


def windows(n_pieces: Sequence[int], room: int) -> list[range]:
    """Return the words (from 0) of each window: one window if all fit into `room` pieces, else half-overlapping ones.

    No word may have more than `room` pieces.

    >>> windows([1, 1, 2, 1, 1, 1], 4)
    [range(0, 3), range(2, 5), range(3, 6)]
    """
    ends = [0, *accumulate(n_pieces)]  # pieces before each word, then the total
    n_words = len(n_pieces)
    found = []
    start = stop = 0
    while True:
        while stop < n_words and ends[stop + 1] - ends[start] <= room:
            stop += 1
        if stop == n_words:
            break
        found.append(range(start, stop))
        middle = ends[start] + room // 2
        start = next(word for word in range(start + 1, stop + 1) if ends[word] >= middle or word == stop)
    while start and ends[n_words] - ends[start - 1] <= room:  # the last window reaches back as far as it can
        start -= 1
    return [*found, range(start, n_words)]


def owners(n_pieces: Sequence[int], cut: Sequence[range]) -> list[int]:
    """Return the window each word is read from: the one where it is farthest from an edge that cuts the sentence.

    >>> owners([1, 1, 2, 1, 1, 1], [range(0, 3), range(2, 5), range(3, 6)])
    [0, 0, 0, 1, 2, 2]
    """
    if len(cut) == 1:
        return [0] * len(n_pieces)
    ends = [0, *accumulate(n_pieces)]
    n_words = len(n_pieces)
    best = [(-1, 0)] * n_words
    for number, window in enumerate(cut):
        for word in window:
            left = ends[word] - ends[window.start] if window.start else ends[-1]
            right = ends[window.stop] - ends[word + 1] if window.stop < n_words else ends[-1]
            best[word] = max(best[word], (min(left, right), -number))
    return [-number for _, number in best]


# What a person decided about a word, in `Graphs.decided`.
NOTHING, ARC, HEAD, LABEL = range(4)

N_SPECIALS = 3  # each window holds CLS, ROOT and SEP
ROOT_PIECE = 1  # ROOT's place in each window


@dataclass(frozen=True)
class Graphs(OnDevice):
    """One graph per sentence, cycles allowed. A sentence in which no word has a head has no graph."""

    heads: Int[Tensor, "batch word"]
    labels: Int[Tensor, "batch word"]  # UNSEEN for a label that the model does not know, and for a word without a head
    has_any: bool | None = None  # whether any sentence has a graph; None if `heads` must be searched
    decided: Int[Tensor, "batch word"] | None = None  # NOTHING, ARC, HEAD or LABEL; None if nothing is decided

    @classmethod
    def of(cls, arcs: Sequence[Arcs], vocabulary: Vocabulary) -> Graphs:
        """Return the graphs as tensors."""
        lengths = [len(each.heads) for each in arcs]
        heads, labels = flat_arcs(arcs, vocabulary)
        padded_heads, padded_labels = padded(heads, lengths, NO_HEAD), padded(labels, lengths, UNSEEN)
        has_graph = {any(head is not None for head in each.heads) for each in arcs}
        has_any = has_graph.pop() if len(has_graph) == 1 else None
        return cls(torch.from_numpy(padded_heads), torch.from_numpy(padded_labels), has_any)

    def select(self, rows: Int[Tensor, " row"], n_words: int) -> Graphs:
        """Return some of the graphs, cut to `n_words`, ROOT included."""
        decided = None if self.decided is None else self.decided[rows, :n_words]
        return Graphs(self.heads[rows, :n_words], self.labels[rows, :n_words], self.has_any, decided)

    def same_words(self, other: Graphs) -> Bool[Tensor, "batch word"]:
        """Return whether each word has the same head and label in both."""
        return (self.heads == other.heads) & (self.labels == other.labels)

    def listed(self) -> tuple[list[list[int]], list[list[int]]]:
        """Return heads and labels as lists, with only two copies from the device for all sentences."""
        return self.heads.tolist(), self.labels.tolist()

    def words(self, row: int, n_words: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the heads and labels of one sentence's words, without ROOT and padding."""
        return self.heads[row, 1 : n_words + 1].numpy(), self.labels[row, 1 : n_words + 1].numpy()


@dataclass(frozen=True)
class PieceInputs(OnDevice):
    """Rows of pieces: CLS, ROOT, the pieces of the words, SEP. A long sentence has several rows, one per window."""

    pieces: Int[Tensor, "row piece"]
    words: Int[Tensor, "row piece"]  # the word of each piece, 0 for ROOT; -1 for CLS, SEP and padding
    is_first: Bool[Tensor, "row piece"]  # the first piece of each word and of ROOT, which represents it (Sec. 5.3)
    is_piece: Bool[Tensor, "row piece"]  # false for padding
    sentences: Int[Tensor, " row"]  # the sentence of each row
    word_rows: Int[Tensor, "batch word"]  # where each word's vector is read: the row …
    word_pieces: Int[Tensor, "batch word"]  # … and the piece in it
    row_lengths: tuple[int, ...]
    row_counts: tuple[int, ...]  # the number of rows of each sentence
    padded_to: int = 1  # the row length is a multiple of this, except at the maximum length

    @classmethod
    def of(
        cls,
        sentences: Sequence[Sequence[Sequence[int]]],
        *,
        cls_id: int,
        sep_id: int,
        pad_id: int,
        n_positions: int,
        padded_to: int = 1,
    ) -> PieceInputs:
        """Return the inputs for sentences that are given as the pieces of their words."""
        room, most = n_positions - N_SPECIALS, most_pieces_of_word(n_positions)
        rows: list[list[int]] = []
        words: list[list[int]] = []
        row_counts, places = [], []
        for sentence in sentences:
            counts = [min(len(pieces), most) for pieces in sentence]
            cut = windows(counts, room)
            owner = owners(counts, cut)
            places.append([(len(rows), ROOT_PIECE)])  # the row and the piece of each word
            for number, window in enumerate(cut):
                row, word_of = [cls_id, pad_id], [-1, 0]
                for word in window:
                    if owner[word] == number:
                        places[-1].append((len(rows), len(row)))
                    row += sentence[word][:most]
                    word_of += [word + 1] * counts[word]
                rows.append([*row, sep_id])
                words.append([*word_of, -1])
            row_counts.append(len(cut))
        lengths = tuple(map(len, rows))
        shape = (len(rows), padded_length(max(lengths, default=0), padded_to, n_positions))
        pieces, word_of_piece = np.full(shape, pad_id), np.full(shape, -1)
        for number, (row, word_of) in enumerate(zip(rows, words, strict=True)):
            pieces[number, : len(row)] = row
            word_of_piece[number, : len(row)] = word_of
        is_first = word_of_piece >= 0
        is_first[:, 1:] &= word_of_piece[:, 1:] != word_of_piece[:, :-1]
        word_places = np.zeros((len(sentences), max(map(len, places), default=0), 2), dtype=np.int64)
        for number, place in enumerate(places):
            word_places[number, : len(place)] = place
            word_places[number, len(place) :] = place[0]  # padding reads ROOT of its own sentence
        return cls(
            torch.from_numpy(pieces),
            torch.from_numpy(word_of_piece),
            torch.from_numpy(is_first),
            torch.from_numpy(np.arange(shape[1])[None] < np.array(lengths, dtype=np.int64)[:, None]),
            torch.from_numpy(np.repeat(np.arange(len(sentences)), row_counts)),
            torch.from_numpy(word_places[..., 0]),
            torch.from_numpy(word_places[..., 1]),
            lengths,
            tuple(row_counts),
            padded_to,
        )

    def select(self, sentences: Sequence[int], n_words: int) -> PieceInputs:
        """Return the inputs of some sentences, cut to `n_words`, ROOT included, and to their longest row of pieces."""
        starts = np.cumsum([0, *self.row_counts])
        kept = [row for number in sentences for row in range(starts[number], starts[number + 1])]
        row_counts = tuple(self.row_counts[number] for number in sentences)
        lengths = tuple(self.row_lengths[row] for row in kept)
        device = self.pieces.device
        rows, width = to_device(kept, device), padded_length(max(lengths), self.padded_to, self.pieces.shape[1])
        chosen = to_device(sentences, device)
        new_starts = np.cumsum([0, *row_counts])[:-1]
        shift = to_device([int(new_starts[i] - starts[number]) for i, number in enumerate(sentences)], device)
        return PieceInputs(
            self.pieces[rows, :width],
            self.words[rows, :width],
            self.is_first[rows, :width],
            self.is_piece[rows, :width],
            to_device(torch.from_numpy(np.repeat(np.arange(len(sentences)), row_counts)), device),
            self.word_rows[chosen, :n_words] + shift[:, None],
            self.word_pieces[chosen, :n_words],
            lengths,
            row_counts,
            self.padded_to,
        )

    def row_chunks(self, rows_at_once: int | None) -> list[slice]:
        """Return slices of `rows_at_once` rows, or one slice of all rows if it is None."""
        n_rows = len(self.row_lengths)
        step = rows_at_once or n_rows
        return [slice(start, start + step) for start in range(0, n_rows, step)]

    def piece_tags(self, tags: TagIds | None, rows: slice) -> Int[Tensor, "row piece column"] | None:
        """Return the tags of each piece's word, for some rows; 0 for pieces that belong to no word."""
        if tags is None:
            return None
        words = self.words[rows]
        return tags[self.sentences[rows, None], words.clamp(min=0)] * (words > 0)[..., None]


def padded_length(n_pieces: int, padded_to: int, longest: int) -> int:
    """Return the length of a row of `n_pieces` pieces, padding included."""
    return min(-(-n_pieces // padded_to) * padded_to, longest)


def most_pieces_of_word(n_positions: int) -> int:
    """Return the maximum number of pieces read from one word, so that several words fit into the smallest window."""
    return max(1, (n_positions - N_SPECIALS) // 4)


@dataclass(frozen=True)
class Batch(OnDevice):
    """Sentences that are scored together."""

    inputs: PieceInputs
    lengths: tuple[int, ...]  # the number of words of each sentence, without ROOT
    is_word: Bool[Tensor, "batch word"]  # true for words and ROOT, false for padding
    allowed: Allowed | None = None  # set if the user fixed or forbade something in a sentence
    evidence: Evidence | None = None  # set if other parsers' arcs add to the scores

    @classmethod
    def of(cls, inputs: PieceInputs, lengths: Sequence[int]) -> Batch:
        """Return a batch of these inputs."""
        is_word = torch.arange(max(lengths) + 1)[None] <= torch.tensor(list(lengths))[:, None]
        return cls(inputs, tuple(lengths), is_word)

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.lengths)

    @property
    def n_words(self) -> int:
        """The length of the longest sentence in words, ROOT included."""
        return max(self.lengths) + 1

    @property
    def word_places(self) -> Int[Tensor, " place"] | None:
        """The flat indices of words and ROOT in the padded batch, computed on the host; None if there is no padding."""
        is_word = np.arange(max(self.lengths) + 1) <= np.array(self.lengths)[:, None]
        return None if is_word.all() else torch.from_numpy(np.flatnonzero(is_word))

    def select(self, sentences: Sequence[int]) -> Batch:
        """Return some of the sentences, without needless padding."""
        lengths = tuple(self.lengths[number] for number in sentences)
        rows = to_device(sentences, self.is_word.device)
        n_words = max(lengths) + 1
        allowed = None if self.allowed is None else self.allowed.select(rows, n_words)
        evidence = None if self.evidence is None else self.evidence.select(rows, n_words)
        return Batch(self.inputs.select(sentences, n_words), lengths, self.is_word[rows, :n_words], allowed, evidence)
