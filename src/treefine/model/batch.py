"""Sentences and graphs as tensors: pieces and word vectors are laid end to end, and words are padded."""

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
PieceVectors = Float[Tensor, "piece width"]
WordVectors = Float[Tensor, "word width"]  # without padding; ROOT is the first word of each sentence
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
    decided: Int[Tensor, "batch word"] | None = None  # NOTHING, ARC, HEAD or LABEL; None if nothing is decided

    @classmethod
    def of(cls, arcs: Sequence[Arcs], vocabulary: Vocabulary) -> Graphs:
        """Return the graphs as tensors."""
        lengths = [len(each.heads) for each in arcs]
        heads, labels = flat_arcs(arcs, vocabulary)
        padded_heads, padded_labels = padded(heads, lengths, NO_HEAD), padded(labels, lengths, UNSEEN)
        return cls(torch.from_numpy(padded_heads), torch.from_numpy(padded_labels))

    @property
    def are_read(self) -> Bool[Tensor, " batch"]:
        """Whether there is anything to read in each sentence: an arc, or a decided label."""
        has_arc = (self.heads >= 0).any(1)
        return has_arc if self.decided is None else has_arc | (self.decided > 0).any(1)

    def select(self, rows: Int[Tensor, " row"], n_words: int) -> Graphs:
        """Return some of the graphs, cut to `n_words`, ROOT included."""
        decided = None if self.decided is None else self.decided[rows, :n_words]
        return Graphs(self.heads[rows, :n_words], self.labels[rows, :n_words], decided)

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
    """Rows of pieces, laid end to end: CLS, ROOT, the pieces of the words, SEP, and perhaps some padding.

    A long sentence has several rows, one per window.
    """

    pieces: Int[Tensor, " piece"]
    words: Int[Tensor, " piece"]  # the word of each piece in its sentence, 0 for ROOT; -1 for CLS, SEP and padding
    is_first: Bool[Tensor, " piece"]  # the first piece of each word and of ROOT, which represents it (Sec. 5.3)
    is_piece: Bool[Tensor, " piece"]  # false for padding
    places: Int[Tensor, " piece"]  # of each piece in its row
    rows: Int[Tensor, " piece"]  # the row of each piece …
    sentences: Int[Tensor, " piece"]  # … and its sentence
    starts: Int[Tensor, " row"]  # the first piece of each row
    first_pieces: Int[Tensor, " word"]  # where the vector of each word of each sentence is read, ROOT included
    row_sizes: tuple[int, ...]  # the number of pieces of each row, with padding
    row_counts: tuple[int, ...]  # the number of rows of each sentence

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
        """Return the inputs for sentences that are given as the pieces of their words.

        The size of a row is a multiple of `padded_to`, except at the maximum length.
        """
        room, most = n_positions - N_SPECIALS, most_pieces_of_word(n_positions)
        pieces, words, first_pieces = list[int](), list[int](), list[int]()
        lengths, row_counts = list[int](), list[int]()
        for sentence in sentences:
            counts = [min(len(pieces), most) for pieces in sentence]
            cut = windows(counts, room)
            owner = owners(counts, cut)
            first_pieces.append(len(pieces) + ROOT_PIECE)
            for number, window in enumerate(cut):
                start = len(pieces)
                pieces += (cls_id, pad_id)
                words += (-1, 0)
                for word in window:
                    if owner[word] == number:
                        first_pieces.append(len(pieces))
                    pieces += sentence[word][:most]
                    words += [word + 1] * counts[word]
                lengths.append(len(pieces) + 1 - start)
                n_unused = padded_length(lengths[-1], padded_to, n_positions) - lengths[-1]
                pieces += [sep_id, *[pad_id] * n_unused]
                words += [-1] * (1 + n_unused)
            row_counts.append(len(cut))
        sizes = np.array([padded_length(length, padded_to, n_positions) for length in lengths], dtype=np.int64)
        starts, rows = np.cumsum(sizes) - sizes, np.repeat(np.arange(len(sizes)), sizes)
        places, word_of_piece = np.arange(len(pieces)) - starts[rows], np.array(words, dtype=np.int64)
        is_first = (word_of_piece >= 0) & (word_of_piece != np.concatenate([[-1], word_of_piece[:-1]]))
        return cls(
            torch.tensor(pieces, dtype=torch.int64),
            torch.from_numpy(word_of_piece),
            torch.from_numpy(is_first),
            torch.from_numpy(places < np.array(lengths)[rows]),
            torch.from_numpy(places),
            torch.from_numpy(rows),
            torch.from_numpy(np.repeat(np.arange(len(row_counts)), row_counts)[rows]),
            torch.from_numpy(starts),
            torch.tensor(first_pieces, dtype=torch.int64),
            tuple(sizes.tolist()),
            tuple(row_counts),
        )

    def select(
        self, sentences: Sequence[int], words: Int[Tensor, " word"]
    ) -> tuple[PieceInputs, Int[Tensor, " piece"]]:
        """Return the inputs of some sentences, whose words have these numbers, and the index of their pieces."""
        row_starts, sizes = np.cumsum([0, *self.row_counts]), np.array(self.row_sizes)
        kept = np.concatenate([np.arange(row_starts[number], row_starts[number + 1]) for number in sentences])
        row_counts, of_row = [self.row_counts[number] for number in sentences], sizes[kept]
        starts, new_starts = (np.cumsum(sizes) - sizes)[kept], np.cumsum(of_row) - of_row
        numbers = np.repeat(np.arange(len(kept)), of_row)
        device = self.pieces.device
        index = to_device(torch.from_numpy(np.arange(of_row.sum()) + (starts - new_starts)[numbers]), device)
        place = torch.zeros_like(self.pieces).index_put_((index,), torch.arange(len(index), device=device))
        of_sentence = np.repeat(np.arange(len(sentences)), row_counts)
        selected = PieceInputs(
            self.pieces[index],
            self.words[index],
            self.is_first[index],
            self.is_piece[index],
            self.places[index],
            to_device(torch.from_numpy(numbers), device),
            to_device(torch.from_numpy(of_sentence[numbers]), device),
            to_device(torch.from_numpy(new_starts), device),
            place[self.first_pieces[words]],
            tuple(of_row.tolist()),
            tuple(row_counts),
        )
        return selected, index

    def of_words(self, tags: TagIds) -> Int[Tensor, "piece column"]:
        """Return the tags of each piece's word: 0 for ROOT and for pieces that belong to no word."""
        return tags[self.sentences, self.words.clamp(min=0)] * (self.words > 0)[:, None]


def padded_length(n_pieces: int, padded_to: int, longest: int) -> int:
    """Return the length of a row of `n_pieces` pieces, padding included."""
    return min(-(-n_pieces // padded_to) * padded_to, longest)


def most_pieces_of_word(n_positions: int) -> int:
    """Return the maximum number of pieces read from one word, so that several words fit into the smallest window."""
    return max(1, (n_positions - N_SPECIALS) // 4)


@dataclass(frozen=True)
class Encoded(OnDevice):
    """The vectors of the pieces of a batch, which the next step continues from."""

    lower: PieceVectors  # after the layers that read no graph
    last: PieceVectors  # after the last layer so far
    n_layers: int  # that the last step ran

    def select(self, index: Int[Tensor, " piece"]) -> Encoded:
        """Return the vectors of some pieces."""
        return Encoded(self.lower[index], self.last[index], self.n_layers)


@dataclass(frozen=True)
class Batch(OnDevice):
    """Sentences that are scored together. Their words are counted with ROOT."""

    inputs: PieceInputs
    lengths: tuple[int, ...]  # the number of words of each sentence, without ROOT
    is_word: Bool[Tensor, "batch place"]  # true for words and ROOT, false for padding
    places: Int[Tensor, " word"]  # of the words in a padded table of words, flattened
    roots: Int[Tensor, " word"]  # the number of the ROOT of each word's sentence among the words
    allowed: Allowed | None = None  # set if the user fixed or forbade something in a sentence
    evidence: Evidence | None = None  # set if other parsers' arcs add to the scores
    encoded: Encoded | None = None  # after a step

    @classmethod
    def of(cls, inputs: PieceInputs, lengths: Sequence[int]) -> Batch:
        """Return a batch of these inputs."""
        is_word, places, roots = map(torch.from_numpy, word_layout(lengths))
        return cls(inputs, tuple(lengths), is_word, places, roots)

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.lengths)

    @property
    def n_words(self) -> int:
        """The length of the longest sentence in words, ROOT included."""
        return max(self.lengths) + 1

    def select(self, sentences: Sequence[int]) -> Batch:
        """Return some of the sentences, without needless padding."""
        lengths, device = tuple(self.lengths[number] for number in sentences), self.is_word.device
        rows, n_words = to_device(sentences, device), max(lengths) + 1
        allowed = None if self.allowed is None else self.allowed.select(rows, n_words)
        evidence = None if self.evidence is None else self.evidence.select(rows, n_words)
        n_words_of, new_lengths = np.array(self.lengths) + 1, np.array(lengths) + 1
        shift = (np.cumsum(n_words_of) - n_words_of)[list(sentences)] - (np.cumsum(new_lengths) - new_lengths)
        words = np.arange(new_lengths.sum()) + np.repeat(shift, new_lengths)
        inputs, index = self.inputs.select(sentences, to_device(torch.from_numpy(words), device))
        encoded = None if self.encoded is None else self.encoded.select(index)
        is_word, places, roots = (to_device(torch.from_numpy(each), device) for each in word_layout(lengths))
        return Batch(inputs, lengths, is_word, places, roots, allowed, evidence, encoded)


def word_layout(lengths: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return `Batch.is_word`, `places` and `roots` for sentences of these lengths, without ROOT."""
    n_words = np.array(lengths) + 1
    is_word = np.arange(n_words.max()) < n_words[:, None]
    return is_word, np.flatnonzero(is_word), np.repeat(np.cumsum(n_words) - n_words, n_words)
