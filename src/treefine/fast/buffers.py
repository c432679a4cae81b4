"""The buffers that carry sentences to the device and results back, and the step that runs on the device.

See docs/design.md, 'Buffers on a GPU'.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.fast.packed import Packed
from treefine.fast.packed_encoder import FIRST, REST, SPECIAL, PackedEncoder, PackedInputs, Room
from treefine.model.scorer import best_tag, label_scores, with_one
from treefine.model.vocabulary import NO_HEAD, UNSEEN
from treefine.parsing.decode import are_trees, dependents
from treefine.parsing.plan import Plan
from treefine.parsing.refine import expected_stability, stopping

Numbers = Int[np.ndarray, " number"]
_Values = TypeVar("_Values", np.ndarray, Tensor)

ENDED, IS_TREE, IS_SEARCHED = 1, 2, 4  # bit flags of a sentence's state after a step


class SentenceState:
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
        new = self._words(packed)
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

    def _words(self, packed: Packed) -> dict[str, np.ndarray]:
        """Return the arrays by word, with ROOT before the words of each sentence, and what they say of sentences."""
        starts, n_words = starts_of(packed.lengths), packed.lengths + 1
        numbers = ranges(np.zeros_like(n_words), n_words)
        tags, is_blank = np.zeros((len(packed.counts), self["tags"].shape[1]), np.int32), np.ones(len(packed.counts))
        if packed.tags is not None:
            tags, is_blank = packed.tags, (packed.tags[:, : packed.n_tags] == 0).any(1)
        new = {"numbers": numbers, "forced": np.full(len(numbers), NO_HEAD, np.int32)}
        for name, values, root in (
            ("heads", packed.heads, NO_HEAD),
            ("labels", packed.labels, UNSEEN),
            ("tags", tags, 0),
        ):
            new[name] = np.full((len(numbers), *values.shape[1:]), root, np.int32)
            new[name][numbers > 0] = values
        new["best_tags"] = np.zeros_like(new["tags"])
        for name, values in (("has_graph", packed.heads >= 0), ("lacks_tags", is_blank)):
            new[name] = np.logical_or.reduceat(values, starts) if len(packed) else np.zeros(0, bool)
        return new

    def drop(self, number: int) -> None:
        """Remove the sentences before this number."""
        n = number - self.first
        n_pieces, n_words = (int(self[name][:n].sum()) for name in ("n_pieces", "n_words"))
        for names, cut in ((self.BY_PIECE, n_pieces), (self.BY_WORD, n_words), (self.BY_SENTENCE, n)):
            for name in names:
                self.arrays[name] = self.arrays[name][cut:]
        self.first, self.first_word = number, self.first_word + n_words
        self._index()


class StepResult(NamedTuple):
    """The results of one step, as tensors on the device or as arrays on the host."""

    heads: Any  # [word]
    labels: Any  # [word]
    tags: Any  # [word, column]
    states: Any  # [sentence]
    searched: Any  # [search]: sentences that end without a tree, if their state has IS_SEARCHED
    arcs: Any  # [search, dep, head]: their arc scores


class Buffer:
    """The inputs of one step, and its results.

    Each are one integer tensor on the host and one on the device, so that one copy suffices.
    """

    def __init__(self, room: Room, n_columns: int, n_searched: int, device: torch.device) -> None:
        self.room, self.n_columns, self.n_searched, self.device = room, n_columns, n_searched, device
        by_piece = ("pieces", "places", "kinds", "words", "sentences", "numbers", "first_pieces", "heads", "labels")
        by_sentence = ("starts", "n_pieces", "word_starts", "n_words", "has_graph", "lacks_tags", "is_last")
        self._shapes: dict[str, tuple[int, ...]] = {name: (room.pieces,) for name in (*by_piece, "forced")}
        self._shapes |= {name: (room.sentences,) for name in by_sentence}
        self._shapes["tags"] = (room.pieces, n_columns)
        of_words, of_search = (room.pieces,), (n_searched,)
        self._result_shapes: tuple[tuple[int, ...], ...] = (  # of each field of StepResult
            *(of_words, of_words, (room.pieces, n_columns), (room.sentences,)),
            *(of_search, (n_searched, room.longest, room.longest)),
        )
        size, result_size = (sum(map(math.prod, each)) for each in (self._shapes.values(), self._result_shapes))
        is_cuda = device.type == "cuda"
        self.sent = torch.zeros(size, dtype=torch.int32, pin_memory=is_cuda)
        self.on_device = torch.zeros(size, dtype=torch.int32, device=device)
        self.received = torch.zeros(result_size, dtype=torch.int32, pin_memory=is_cuda)
        self.host = dict(zip(self._shapes, parts_of(self.sent.numpy(), self._shapes.values()), strict=True))
        self.numbers: Numbers = np.zeros(0, np.int64)  # of the sentences in the buffer
        self.words: Numbers = np.zeros(0, np.int64)  # the positions of their words, counted over the whole stream

    def inputs(self) -> PackedInputs:
        """Return the device tensors as the inputs of a step."""
        parts = parts_of(self.on_device.long(), self._shapes.values())
        return PackedInputs(**dict(zip(self._shapes, parts, strict=True)))

    def fill(self, standing: SentenceState, numbers: Numbers, *, last: int) -> None:
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

    def result(self) -> StepResult:
        """Return the received results on the host; the next step overwrites them."""
        *parts, arcs = parts_of(self.received.numpy(), self._result_shapes)
        return StepResult._make([*parts, arcs.view(np.float32)])


def in_one_tensor(result: StepResult) -> Int[Tensor, " number"]:
    """Return the results of a step in one tensor, as `Buffer.received` holds them."""
    *whole, arcs = result
    return torch.cat([*(each.int().flatten() for each in whole), arcs.flatten().view(torch.int32)])


def parts_of(whole: _Values, shapes: Iterable[tuple[int, ...]]) -> list[_Values]:
    """Return views of the arrays of these shapes that one array holds, end to end."""
    parts, start = [], 0
    for shape in shapes:
        parts.append(whole[start : start + math.prod(shape)].reshape(shape))
        start += math.prod(shape)
    return parts


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


class PackedStep(nn.Module):
    """One step of a model as a module. The encoder runs in the plan's precision, the scorer always in float32."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        assert isinstance(plan.model.encoder, PackedEncoder)
        self.encoder = plan.model.encoder
        self.scorer, self.tagger = plan.model.scorer, plan.model.tagger if plan.predicts_tags else None
        self.decoder, self.stop_above = plan.decoder, plan.stop_above

    @torch.no_grad()
    def forward(self, inputs: PackedInputs, room: Room, n_searched: int) -> StepResult:
        """Return the next graph of each sentence, and whether the sentence has ended and the graph is a tree."""
        with torch.autocast(inputs.forced.device.type, enabled=False):  # even if the caller enabled it
            return self._stepped(inputs, room, n_searched)

    def _stepped(self, inputs: PackedInputs, room: Room, n_searched: int) -> StepResult:
        scorer = self.scorer
        vectors = self.encoder.of_buffer(inputs, room).float()  # [word, width]
        in_sentence = torch.arange(room.longest, device=vectors.device)
        is_word: Bool[Tensor, "sentence word"] = in_sentence < inputs.n_words[:, None]
        places = torch.where(is_word, inputs.word_starts[:, None] + in_sentence, 0)  # [sentence, word]

        dep, head = with_one(scorer.arc_dep(vectors)) @ scorer.arc_weight, scorer.arc_head(vectors)
        arcs = dep[places] @ head[places].transpose(1, 2)  # [sentence, dep, head]
        is_self = torch.eye(room.longest, dtype=torch.bool, device=arcs.device)
        arcs = arcs.masked_fill(~is_word[:, None] | is_self, -math.inf)
        best = arcs.argmax(-1)[inputs.sentences, inputs.numbers]  # [word]
        heads = torch.where(inputs.forced >= 0, inputs.forced, best)

        label_head = with_one(scorer.label_head(vectors))[inputs.in_buffer(heads)]
        labels = label_scores(with_one(scorer.label_dep(vectors)), label_head, scorer.label_weight)
        labels = self.decoder.obeying(labels, heads)
        best_labels = labels.argmax(-1)

        is_dependent = dependents(is_word)
        is_same = (heads == inputs.heads) & (best_labels == inputs.labels)
        of_sentence = is_same[places] | ~is_dependent  # [sentence, word]
        tags, has_new_tags = inputs.tags, None
        if self.tagger is not None:
            best = torch.stack([best_tag(each) + 1 for each in self.tagger(vectors)], dim=-1)
            tags = F.pad(best, (0, inputs.tags.shape[-1] - best.shape[-1]))  # the last columns are not predicted
            has_new_tags = inputs.lacks_tags > 0
        stability = expected_stability(arcs, labels[places], is_dependent, of_sentence)
        _, stops_early = stopping(of_sentence, has_new_tags, stability, stop_above=self.stop_above)
        ended = stops_early | (inputs.is_last > 0)
        is_tree = are_trees(heads[places], is_word)
        is_searched = ended & ~is_tree & (inputs.n_words > 0)
        searched = is_searched.int().argsort(descending=True, stable=True)[:n_searched]
        is_shown = torch.zeros_like(is_searched)
        is_shown[searched] = is_searched[searched]
        flags = ((ended, ENDED), (is_tree, IS_TREE), (is_shown, IS_SEARCHED))
        states = torch.stack([flag.int() * value for flag, value in flags]).sum(0)
        is_root = inputs.numbers == 0
        heads, best_labels = heads.masked_fill(is_root, NO_HEAD), best_labels.masked_fill(is_root, UNSEEN)
        return StepResult(heads, best_labels, tags, states, searched, arcs[searched])
