"""Sentences as flat arrays, and the buffers that carry them to the device and the results back.

See docs/design.md, 'Buffers on a GPU'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from treefine.fast.packed import Packed
from treefine.fast.packed_encoder import FIRST, REST, SPECIAL, PackedInputs, Room
from treefine.fast.packed_step import StepInputs, StepOutputs
from treefine.model.vocabulary import NO_HEAD, UNSEEN

Numbers = Int[np.ndarray, " number"]


class Standing:
    """The state of the sentences being parsed: their pieces and words, and the graph that the next step reads.

    Each sentence has the layout of a buffer, with ROOT before its words, and with CLS, ROOT and SEP among its pieces.
    Sentences are numbered from 0, and the numbers never change. `drop` removes the first ones.
    """

    BY_PIECE = ("pieces", "places", "kinds", "words")
    BY_WORD = ("numbers", "first_places", "heads", "labels", "forced", "tags", "best_tags")
    BY_SENTENCE = ("n_pieces", "n_words", "t", "has_graph", "lacks_tags", "is_forced", "is_done")

    def __init__(self, special: tuple[int, int, int], n_columns: int) -> None:
        self.special = special  # the pieces CLS, ROOT (any piece) and SEP
        self.first = self.first_word = 0  # the numbers of the first sentence and the first word that are held
        names = (*self.BY_PIECE, *self.BY_WORD, *self.BY_SENTENCE)
        self.arrays = {name: np.zeros(0, np.int32) for name in names}
        self.arrays |= {name: np.zeros((0, n_columns), np.int32) for name in ("tags", "best_tags")}
        self._index()

    def __getitem__(self, name: str) -> np.ndarray:
        """Return one of the arrays."""
        return self.arrays[name]

    def __len__(self) -> int:
        """Return the number of sentences that are held."""
        return len(self.arrays["t"])

    def _index(self) -> None:
        self.piece_starts, self.word_starts = starts_of(self["n_pieces"]), starts_of(self["n_words"])

    def add(self, packed: Packed, most: int) -> Numbers:
        """Add sentences and return their numbers; only the first `most` pieces of a word are read."""
        pieces, counts, lengths = packed.pieces, packed.counts, packed.lengths
        if len(counts) and counts.max() > most:
            in_word = np.arange(len(pieces)) - np.repeat(starts_of(counts), counts)
            pieces, counts = pieces[in_word < most], np.minimum(counts, most)
        new = self._words(packed, counts)
        of_word = np.ones(len(new["numbers"]), np.int32)  # pieces of each word, ROOT included
        of_word[new["numbers"] > 0] = counts
        n_words = lengths + 1
        n_pieces = 2 + (np.add.reduceat(of_word, starts_of(n_words)) if len(packed) else lengths)
        starts, ends = starts_of(n_pieces), np.cumsum(n_pieces) - 1
        sentences = np.repeat(np.arange(len(lengths)), n_words)  # [word]
        firsts = starts_of(of_word) + 2 * sentences + 1
        new["first_places"] = firsts - starts[sentences]
        new["places"] = np.arange(n_pieces.sum()) - np.repeat(starts, n_pieces)
        kinds = np.full(len(new["places"]), REST, np.int32)
        kinds[firsts] = FIRST
        kinds[starts] = kinds[ends] = SPECIAL
        words, found = np.zeros_like(kinds), np.empty_like(kinds)
        words[kinds != SPECIAL] = np.repeat(new["numbers"], of_word)
        found[words > 0] = pieces
        found[starts], found[starts + 1], found[ends] = self.special
        new |= {"kinds": kinds, "words": words, "pieces": found, "n_pieces": n_pieces, "n_words": n_words}
        zeros = np.zeros_like(lengths)
        new |= {"t": zeros + 1, "is_forced": zeros, "is_done": zeros}
        number = self.first + len(self)
        for name, values in new.items():
            self.arrays[name] = np.concatenate([self.arrays[name], values.astype(np.int32, copy=False)])
        self._index()
        return np.arange(number, number + len(packed))

    def _words(self, packed: Packed, counts: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays by word, with ROOT before the words of each sentence."""
        starts, n_words = starts_of(packed.lengths), packed.lengths + 1
        numbers = ranges(np.zeros_like(n_words), n_words)
        given = {"heads": (packed.heads, NO_HEAD), "labels": (packed.labels, UNSEEN)}
        new = {"numbers": numbers, "forced": np.full(len(numbers), NO_HEAD, np.int32)}
        for name, (values, root) in given.items():
            new[name] = np.full(len(numbers), root, np.int32)
            new[name][numbers > 0] = values
        new["tags"] = np.zeros((len(numbers), self["tags"].shape[1]), np.int32)
        is_blank = np.ones(len(counts), bool)
        if packed.tags is not None:
            new["tags"][numbers > 0] = packed.tags
            is_blank = (packed.tags[:, : packed.n_tags] == 0).any(1)
        new["best_tags"] = np.zeros_like(new["tags"])
        by_sentence = {"has_graph": packed.heads >= 0, "lacks_tags": is_blank}
        for name, each in by_sentence.items():
            new[name] = np.logical_or.reduceat(each, starts) if len(packed) else np.zeros(0, bool)
        return new

    def drop(self, number: int) -> None:
        """Remove the sentences before this number."""
        n = number - self.first
        cuts = (
            (self.BY_PIECE, self["n_pieces"][:n].sum()),
            (self.BY_WORD, self["n_words"][:n].sum()),
            (self.BY_SENTENCE, n),
        )
        self.first_word += int(self["n_words"][:n].sum())
        for names, cut in cuts:
            for name in names:
                self.arrays[name] = self.arrays[name][cut:]
        self.first = number
        self._index()


@dataclass(frozen=True)
class _Array:
    """A named part of a buffer's tensor."""

    name: str
    size: int
    columns: int = 0  # 0 for a one-dimensional array


class Buffer:
    """The inputs of one step as one integer tensor on the host and one on the device, so that one copy suffices."""

    def __init__(self, room: Room, n_columns: int, n_searched: int, device: torch.device) -> None:
        self.room, self.n_columns, self.n_searched, self.device = room, n_columns, n_searched, device
        pieces, sentences = room.pieces, room.sentences
        by_piece, by_sentence = ("pieces", "places", "kinds", "words"), ("starts", "n_pieces", "word_starts", "n_words")
        self._layout = [
            *(_Array(name, pieces) for name in by_piece),
            *(_Array(name, sentences) for name in (*by_sentence, "has_graph", "lacks_tags", "is_last")),
            *(_Array(name, pieces) for name in ("sentences", "numbers", "first_pieces", "heads", "labels", "forced")),
            _Array("tags", pieces * n_columns, n_columns),
        ]
        size = sum(each.size for each in self._layout)
        is_cuda = device.type == "cuda"
        self.sent = torch.zeros(size, dtype=torch.int32, pin_memory=is_cuda)
        self.on_device = torch.zeros(size, dtype=torch.int32, device=device)
        self.host = {name: part.numpy() for name, part in self._parts(self.sent).items()}
        self.numbers: Numbers = np.zeros(0, np.int64)  # of the sentences in the buffer
        self.words: Numbers = np.zeros(0, np.int64)  # the positions of their words, counted over the whole stream

    def _parts(self, whole: Tensor) -> dict[str, Tensor]:
        found, start = {}, 0
        for each in self._layout:
            part = whole[start : start + each.size]
            found[each.name] = part.view(-1, each.columns) if each.columns else part
            start += each.size
        if not self.n_columns:
            found["tags"] = whole.new_zeros(self.room.pieces, 0)
        return found

    def inputs(self) -> StepInputs:
        """Return the device tensors as the inputs of a step."""
        parts: Mapping[str, Tensor] = self._parts(self.on_device.long())
        names = PackedInputs.__dataclass_fields__
        packed = PackedInputs(**{name: parts[name] for name in names})
        return StepInputs(packed, parts["forced"], parts["lacks_tags"], parts["is_last"])

    def fill(self, standing: Standing, numbers: Numbers, *, last: int) -> None:
        """Copy these sentences into the buffer, end to end; `last` is T."""
        host, rows = self.host, numbers - standing.first
        n_pieces, n_words, t = standing["n_pieces"][rows], standing["n_words"][rows], standing["t"][rows]
        starts, word_starts = starts_of(n_pieces), starts_of(n_words)
        pieces = ranges(standing.piece_starts[rows], n_pieces)
        words = ranges(standing.word_starts[rows], n_words)
        self.numbers, self.words = numbers, words + standing.first_word
        for name in ("pieces", "places"):
            _put(host[name], standing[name][pieces])
        _put(host["kinds"], standing["kinds"][pieces], fill=SPECIAL)
        _put(host["words"], standing["words"][pieces] + np.repeat(word_starts, n_pieces))
        _put(host["first_pieces"], standing["first_places"][words] + np.repeat(starts, n_words))
        for name, filler in (("numbers", 0), ("heads", NO_HEAD), ("labels", UNSEEN), ("forced", NO_HEAD), ("tags", 0)):
            _put(host[name], standing[name][words], fill=filler)
        _put(host["sentences"], np.repeat(np.arange(len(rows)), n_words), fill=len(rows) - 1)
        by_sentence = {"starts": starts, "n_pieces": n_pieces, "word_starts": word_starts, "n_words": n_words}
        by_sentence |= {"has_graph": standing["has_graph"][rows] | (t > 1), "is_last": t >= last}
        by_sentence["lacks_tags"] = standing["lacks_tags"][rows] & (t == 1)
        for name, values in by_sentence.items():
            _put(host[name], values)


class Arrays(NamedTuple):
    """The outputs of a step (see StepOutputs) as arrays on the host."""

    heads: np.ndarray
    labels: np.ndarray
    tags: np.ndarray
    states: np.ndarray
    searched: np.ndarray
    arcs: np.ndarray


class Answer:
    """The outputs of one step for the inputs of a Buffer, in a single integer tensor on the host."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        room = buffer.room
        self._sizes = (
            room.pieces,
            room.pieces,
            room.pieces * buffer.n_columns,
            room.sentences,
            buffer.n_searched,
            buffer.n_searched * room.longest**2,
        )
        is_cuda = buffer.device.type == "cuda"
        self.received = torch.zeros(sum(self._sizes), dtype=torch.int32, pin_memory=is_cuda)

    def joined(self, outputs: StepOutputs) -> Int[Tensor, " number"]:
        """Return all outputs in one tensor on the device."""
        whole = (outputs.heads, outputs.labels, outputs.tags.flatten(), outputs.states, outputs.searched)
        return torch.cat([*(each.int() for each in whole), outputs.arcs.flatten().view(torch.int32)])

    def arrays(self) -> Arrays:
        """Return views of the outputs, which the next step overwrites."""
        heads, labels, tags, states, searched, arcs = np.split(self.received.numpy(), np.cumsum(self._sizes)[:-1])
        room, n_searched = self.buffer.room, self.buffer.n_searched
        tags = tags.reshape(room.pieces, self.buffer.n_columns)
        arcs = arcs.view(np.float32).reshape(n_searched, room.longest, room.longest)
        return Arrays(heads, labels, tags, states, searched, arcs)


def _put(target: np.ndarray, values: np.ndarray, *, fill: int = 0) -> None:
    target[: len(values)] = values
    target[len(values) :] = fill


def starts_of(sizes: np.ndarray) -> Numbers:
    """Return where each range starts if ranges of these sizes are laid end to end."""
    starts: Numbers = np.cumsum(sizes) - sizes
    return starts


def ranges(starts: np.ndarray, sizes: np.ndarray) -> Numbers:
    """Return the numbers of all ranges, one after another.

    >>> ranges(np.array([5, 1]), np.array([2, 3])).tolist()
    [5, 6, 1, 2, 3]
    """
    found: Numbers = np.repeat(starts - starts_of(sizes), sizes) + np.arange(int(sizes.sum()))
    return found
