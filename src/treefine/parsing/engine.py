"""Many sentences to trees at the speed of the encoder: what a GPU does in place of `run`.

Sentences are laid end to end in buffers of fixed size (`network.packed`). One step of a buffer is one replay of a CUDA
graph and one copy in each direction; while the device works on one buffer, the host reads the answer to the other and
fills it anew. Sentences that have ended leave at once, others take their places, and a buffer may hold sentences at any
step. A sentence that ends with no tree has its scores searched by the host, and takes one more pass for the labels of
the heads that were found.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np
import torch

from treefine.config import TransformerSettings
from treefine.network.batch import N_SPECIALS, Batch, Graphs, PieceInputs
from treefine.network.fused import is_available
from treefine.network.packed import Room
from treefine.network.packed_arrays import Packed, PackedTrees
from treefine.parsing.buffers import Numbers, Standing
from treefine.parsing.lane import Lane, Slot
from treefine.parsing.packed_step import CONVERGED, IS_SEARCHED, IS_SURE, IS_TREE, PackedStep
from treefine.parsing.refine import best_tags
from treefine.parsing.run import Plan, refined

PIECES = 8192  # in a buffer
ROOMS = (Room(PIECES, 512, 64), Room(PIECES // 2, 64, 512))  # each sentence goes into the first that is long enough
SEARCHES = 1 << 17  # scores that come back with an answer, of sentences whose trees are to be searched
IN_FLIGHT = 2  # buffers: the device works on one while the host is busy with the other
MOST_HELD = 1 << 15  # sentences that may wait for a buffer to be full, or for those before them

_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def can_run(plan: Plan) -> bool:
    """Whether the engine can do as this plan asks; it sees no constraints."""
    settings = plan.model.settings
    is_transformer = isinstance(settings.encoder, TransformerSettings)
    has_kernels = plan.device.type != "cuda" or is_available(plan.device)
    has_argmax = settings.decode.first_graph == "argmax" and not plan.decoder.is_projective
    return is_transformer and has_kernels and has_argmax


class Engine:
    """A model on a device, ready for any number of sentences."""

    def __init__(self, plan: Plan, rooms: tuple[Room, ...] = ROOMS) -> None:
        settings, subwords = plan.model.settings, plan.model.subwords
        assert isinstance(settings.encoder, TransformerSettings)
        assert subwords is not None
        self.plan = plan
        self.n_columns = len(settings.tags.columns) if settings.tags.source != "none" else 0
        self.n_positions = settings.encoder.n_positions
        self.most = max(1, (self.n_positions - N_SPECIALS) // 4)  # pieces of a word, as PieceInputs has it
        self.special = (subwords.cls_id, subwords.pad_id, subwords.sep_id)
        step = PackedStep(plan, _DTYPES[plan.precision])
        rooms = tuple(room._replace(longest=min(room.longest, self.n_positions)) for room in rooms)
        self.longest = max(room.longest for room in rooms)  # pieces of a sentence; a longer one is parsed by `run`
        self.lanes = [
            Lane(step, room, self.n_columns, min(room.sentences, max(4, SEARCHES // room.longest**2)), plan)
            for room in rooms
        ]

    def stream(self, blocks: Iterable[Packed]) -> Iterator[PackedTrees]:
        """The trees of each block of sentences, in the order in which they came; some blocks are read ahead."""
        return _Run(self, blocks).results()


class _Run:
    """One stream's sentences on their way through the lanes."""

    def __init__(self, engine: Engine, blocks: Iterable[Packed]) -> None:
        self.engine, self.plan = engine, engine.plan
        self.source, self.has_more = iter(blocks), True
        self.fault: Exception | None = None  # of the source
        self.standing = Standing(engine.special, engine.n_columns)
        self.sizes: deque[int] = deque()  # of the blocks that are held
        self.pools = [Pool(lane) for lane in engine.lanes]
        self.flying: deque[Slot] = deque()

    def results(self) -> Iterator[PackedTrees]:
        """The trees of each block; what is wrong with the source is raised behind all that came before it."""
        try:
            yield from self._results()
        finally:
            for slot in self.flying:  # where nobody asks any more
                slot.finish()
                slot.lane.hand_back(slot)
        if self.fault is not None:
            raise self.fault

    def _results(self) -> Iterator[PackedTrees]:
        while self.has_more or self.sizes:
            self._read()
            pool = next((pool for pool in self.pools if pool.is_full), None)
            if pool is None and not self.flying:  # no more is to come, or too much is held
                pool = max(self.pools, key=lambda each: each.n_pieces)
            if pool is not None and pool.n_pieces and len(self.flying) < IN_FLIGHT:
                self.flying.append(pool.lane.start(self.standing, pool.take()))
            elif self.flying:
                self._finish(self.flying.popleft())
            while self.sizes and self.standing["is_done"][: self.sizes[0]].all():
                yield self._leave(self.sizes.popleft())

    def _read(self) -> None:
        """Hold more sentences until some buffer can be filled."""
        standing = self.standing
        while self.has_more and len(standing) < MOST_HELD and not any(pool.is_full for pool in self.pools):
            try:
                packed = next(self.source)
            except StopIteration:
                self.has_more = False
                return
            except Exception as error:  # what came before it is not to be lost
                self.has_more, self.fault = False, error
                return
            numbers = standing.add(packed, self.engine.most)
            self.sizes.append(len(packed))
            n_pieces = standing["n_pieces"][numbers - standing.first]
            for number in numbers[n_pieces > self.engine.longest]:
                self._alone(number)
            self._wait(numbers[n_pieces <= self.engine.longest])

    def _wait(self, numbers: Numbers, *, first: bool = False) -> None:
        """Put sentences into the pools of their lengths."""
        n_pieces = self.standing["n_pieces"][numbers - self.standing.first]
        shortest = 0
        for pool in self.pools:
            is_ours = (n_pieces > shortest) & (n_pieces <= pool.lane.room.longest)
            pool.add(numbers[is_ours], n_pieces[is_ours], first=first)
            shortest = pool.lane.room.longest

    def _finish(self, slot: Slot) -> None:
        """Take over the answer to a buffer: sentences end, or wait for their next step."""
        standing, buffer, answer = self.standing, slot.buffer, slot.finish()
        rows, words, n_words = buffer.numbers - standing.first, buffer.words - standing.first_word, len(buffer.words)
        of_word = buffer.host["sentences"][:n_words]
        state, t, is_forced = answer.states[: len(rows)], standing["t"][rows], standing["is_forced"][rows] > 0

        is_ending = (state & (CONVERGED | IS_SURE) > 0) | (t >= self.plan.max_steps)
        is_done = is_forced | (is_ending & (state & IS_TREE > 0))
        goes_on = ~is_ending & ~is_forced
        is_new = (is_done | goes_on)[of_word]  # the others are to have their trees searched, or wait for that
        standing["heads"][words[is_new]] = answer.heads[:n_words][is_new]
        standing["labels"][words[is_new]] = answer.labels[:n_words][is_new]
        if self.plan.predicts_tags:
            is_first = ((t == 1) & ~is_forced)[of_word] & (buffer.host["numbers"][:n_words] > 0)
            standing["best_tags"][words[is_first]] = answer.tags[:n_words][is_first]
            places = words[is_first & goes_on[of_word]]
            given = standing["tags"][places]
            standing["tags"][places] = np.where(given == 0, standing["best_tags"][places], given)
        standing["t"][rows[goes_on]] += 1
        standing["is_done"][rows[is_done]] = 1
        for place, row in enumerate(answer.searched):
            if row < len(rows) and state[row] & IS_SEARCHED and not is_forced[row]:
                self._search(rows[row], answer.arcs[place])
        self._wait(buffer.numbers[~is_done], first=True)
        slot.lane.hand_back(slot)

    def _search(self, row: int, arcs: np.ndarray) -> None:
        """Find the heads of the best tree; what is left to find are labels for them."""
        standing = self.standing
        start, size = standing.word_starts[row], standing["n_words"][row]
        heads = self.plan.decoder.best_heads(torch.from_numpy(arcs[:size, :size]))
        standing["forced"][start + 1 : start + size] = heads[1:]
        standing["is_forced"][row] = 1

    def _leave(self, n_sentences: int) -> PackedTrees:
        """The trees of the first block, which is held no longer."""
        standing = self.standing
        n_words = standing["n_words"][:n_sentences].sum()
        is_word = standing["numbers"][:n_words] > 0
        heads, labels, tags = (standing[name][:n_words][is_word] for name in ("heads", "labels", "best_tags"))
        standing.drop(standing.first + n_sentences)
        return PackedTrees(heads, labels, tags if self.plan.predicts_tags else None)

    @torch.no_grad()
    def _alone(self, number: int) -> None:
        """Parse a sentence that is too long for any room as `run` does."""
        standing, plan, subwords = self.standing, self.plan, self.plan.model.subwords
        assert subwords is not None
        row = number - standing.first
        n_words, start, piece_start = (
            int(each[row]) for each in (standing["n_words"], standing.word_starts, standing.piece_starts)
        )
        words = slice(start, start + n_words)
        firsts = (piece_start + standing["first_places"][words][1:]).tolist()
        ends = [*firsts[1:], piece_start + int(standing["n_pieces"][row]) - 1]
        pieces = [standing["pieces"][a:b].tolist() for a, b in zip(firsts, ends, strict=True)]
        inputs = PieceInputs.of(
            [pieces],
            cls_id=subwords.cls_id,
            sep_id=subwords.sep_id,
            pad_id=subwords.pad_id,
            n_positions=self.engine.n_positions,
        )
        heads, labels, tags = (
            torch.from_numpy(standing[name][words].astype(np.int64))[None] for name in ("heads", "labels", "tags")
        )
        given = tags if plan.tags == "given" and self.engine.n_columns else None
        batch = Batch.of(inputs, [n_words - 1])
        for step in refined(plan, batch, Graphs(heads, labels), given, wants_trees=False):
            if step.t == 1 and plan.predicts_tags:
                standing["best_tags"][words] = best_tags(step.scores, step.batch)[0].cpu().numpy()
            last = step
        trees = plan.decoder.trees(last.scores, last.graphs, last.batch.is_word)
        standing["heads"][words], standing["labels"][words] = trees.heads[0].cpu(), trees.labels[0].cpu()
        standing["is_done"][row] = 1


class Pool:
    """Sentences that wait for a lane."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.waiting: deque[tuple[Numbers, Numbers]] = deque()  # sentences, and their pieces
        self.n_pieces = self.n_sentences = 0

    @property
    def is_full(self) -> bool:
        """Whether a buffer can be filled."""
        return self.n_pieces >= self.lane.room.pieces or self.n_sentences >= self.lane.room.sentences

    def add(self, numbers: Numbers, n_pieces: Numbers, *, first: bool) -> None:
        """Let sentences wait behind the others, or before them."""
        if len(numbers):
            (self.waiting.appendleft if first else self.waiting.append)((numbers, n_pieces))
            self.n_pieces += int(n_pieces.sum())
            self.n_sentences += len(numbers)

    def take(self) -> Numbers:
        """As many of the first ones as go into a buffer."""
        room, taken, left, n_left = self.lane.room, [], self.lane.room.pieces, self.lane.room.sentences
        while self.waiting and n_left:
            numbers, n_pieces = self.waiting.popleft()
            fitting = min(n_left, int(np.searchsorted(np.cumsum(n_pieces), left, side="right")))
            taken.append(numbers[:fitting])
            left -= int(n_pieces[:fitting].sum())
            n_left -= fitting
            if fitting < len(numbers):
                self.waiting.appendleft((numbers[fitting:], n_pieces[fitting:]))
                break
        found = np.concatenate(taken)
        self.n_pieces -= room.pieces - left
        self.n_sentences -= len(found)
        return found
