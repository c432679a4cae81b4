"""The engine that parses streams of sentences on a GPU; elsewhere `parsing.batches` does.

See docs/design.md, 'Buffers on a GPU'.
"""

from __future__ import annotations

import threading
import time
import warnings
import weakref
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from itertools import chain, compress, islice, repeat
from operator import and_, not_

import numpy as np
import torch

from treefine.fast.buffers import (
    ENDED,
    IS_SEARCHED,
    IS_TREE,
    Buffer,
    Numbers,
    PackedStep,
    SentenceState,
    StepResult,
    in_one_tensor,
)
from treefine.fast.packed import NoMemoryError, Packed, PackedTrees, filled, pack
from treefine.fast.packed_encoder import ROOMS, PackedEncoder, Room
from treefine.model.batch import most_pieces_of_word
from treefine.parsing.batches import free_memory, parse_inputs, run
from treefine.parsing.options import ConstraintsLike
from treefine.parsing.plan import ParseInput, Plan, is_out_of_memory
from treefine.parsing.results import trees
from treefine.treebank.sentence import Sentence

WARM_UPS = 2  # runs before a CUDA graph is captured: libraries select kernels and allocate memory in the first ones

_STREAMS: defaultdict[int, list[torch.cuda.Stream]] = defaultdict(list)  # by GPU; those of dropped slots


class Lane:
    """The slots for sentences up to some length. A lane creates a new slot if all are in use. Threads may share it."""

    def __init__(self, engine: Engine, room: Room) -> None:
        self.engine, self.room = engine, room
        self.free: list[Slot] = []
        self._is_open, self._lock = True, threading.Lock()

    def start(self, standing: SentenceState, numbers: Numbers) -> Slot:
        """Start a step for these sentences without waiting; the caller owns the slot until `hand_back`."""
        with self._lock:
            slot = self.free.pop() if self.free else None
        if slot is None:
            n_searched = min(self.room.sentences, max(4, SEARCHES // self.room.longest**2))
            slot = Slot(self, Buffer(self.room, self.engine.n_columns, n_searched, self.engine.plan.device))
        slot.buffer.fill(standing, numbers, last=self.engine.plan.max_steps)
        slot.start()
        return slot

    def hand_back(self, slot: Slot) -> None:
        """Return a slot for reuse, after its results have been read."""
        with self._lock:
            if self._is_open:
                self.free.append(slot)

    def close(self) -> None:
        """Drop all slots, now or when they are handed back, so that their memory becomes free."""
        with self._lock:
            self._is_open = False
            self.free.clear()


class Slot:
    """A buffer, and the CUDA graph that computes its results from its inputs."""

    def __init__(self, lane: Lane, buffer: Buffer) -> None:
        self.lane, self.buffer = lane, buffer
        self.is_cuda = buffer.device.type == "cuda"
        self.graph: torch.cuda.CUDAGraph | None = None

    def start(self) -> None:
        """Queue the copy of the buffer to the device, one step, and the copy of the results back."""
        if not self.is_cuda:
            self.buffer.on_device.copy_(self.buffer.sent)
            self.buffer.received.copy_(self._run())
            return
        with torch.cuda.device(self.buffer.device):  # for which streams, events and graphs are created
            if self.graph is None:
                self._capture()
            assert self.graph is not None
            self.buffer.on_device.copy_(self.buffer.sent, non_blocking=True)
            self.graph.replay()
            self.buffer.received.copy_(self.result, non_blocking=True)
            self.event.record()

    def finish(self) -> StepResult:
        """Wait for the results and return them; they are valid until the slot is started again."""
        if self.is_cuda:
            self.event.synchronize()
        return self.buffer.result()

    def _run(self) -> torch.Tensor:
        return in_one_tensor(self.lane.engine.step(self.buffer.inputs(), self.buffer.room, self.buffer.n_searched))

    def _capture_stream(self) -> torch.cuda.Stream:
        """Return a stream that no other slot uses, if possible that of a dropped slot.

        Torch allocates memory for cuBLAS per stream and does not free it with the slot.
        """
        unused = _STREAMS[torch.cuda.current_device()]
        try:
            stream = unused.pop()
        except IndexError:
            stream = torch.cuda.Stream(self.buffer.device)  # type: ignore[no-untyped-call]
        weakref.finalize(self, unused.append, stream)
        return stream

    def _capture(self) -> None:
        """Capture the step as a CUDA graph. Other threads may use the GPU meanwhile."""
        self.event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self.buffer.on_device.copy_(self.buffer.sent)
        other = self._capture_stream()
        other.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(other):
                for _ in range(WARM_UPS):
                    self._run()
        finally:  # if memory runs out, too: a started kernel may still read the buffer
            torch.cuda.current_stream().wait_stream(other)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=other, capture_error_mode="thread_local"):
            self.result = self._run()
        self.graph = graph


SEARCHES = 1 << 17  # arc scores in an answer, for sentences that need a tree search
IN_FLIGHT = 2  # buffers in flight: the device works on one while the host handles the other
BLOCK = 512  # sentences that are packed together …
FIRST_BLOCKS = (32, 32, 64, 64, 128, 128, 256, 256)  # … after these, so that the first results come soon
PATIENCE = 0.2  # seconds to read sentences into a buffer; a slow source such as a segmenter may need longer
MOST_HELD = 1 << 15  # sentences that may wait for a full buffer or for earlier sentences


def can_run(plan: Plan) -> bool:
    """Return whether the engine supports this plan. Some sentences bypass it in any case (`stream_sentences`)."""
    has_argmax = plan.model.settings.decode.first_graph == "argmax" and not plan.decoder.is_projective
    has_stages = len(plan.model.settings.stage_ends) > 1 or plan.model.settings.relations.first_layer > 0
    return isinstance(plan.model.encoder, PackedEncoder) and has_argmax and not has_stages


class Engine:
    """A model on a device that parses streams of any length."""

    def __init__(self, plan: Plan, rooms: tuple[Room, ...] = ROOMS) -> None:
        settings, subwords = plan.model.settings, plan.model.subwords
        self.plan = plan
        n_tags = len(settings.tags.columns) if settings.tags.source != "none" else 0
        self.n_columns = n_tags + settings.tags.case + bool(plan.model.vocabulary.treebanks)
        n_positions = settings.encoder.n_positions
        self.most = most_pieces_of_word(n_positions)
        self.special = (subwords.cls_id, subwords.pad_id, subwords.sep_id)
        self.step, self._lock, self._has_warned = PackedStep(plan), threading.Lock(), False
        rooms = tuple(room._replace(longest=min(room.longest, n_positions)) for room in rooms)
        self.longest = max(room.longest for room in rooms)  # in pieces
        self.lanes = [Lane(self, room) for room in rooms]

    def halve_lanes(self, lanes: list[Lane]) -> None:
        """Close these lanes and create new ones with buffers half as large.

        All streams continue in the new lanes. Nothing happens if another stream has replaced these lanes already.
        """
        with self._lock:
            if lanes is not self.lanes:
                return
            for lane in lanes:
                lane.close()
            self.lanes = [Lane(self, lane.room.halved()) for lane in lanes]
            if not self._has_warned:
                self._has_warned = True
                message = "The GPU ran out of memory. Parsing continues with smaller buffers and may be slower."
                warnings.warn(message, RuntimeWarning, stacklevel=2)

    def stream(self, blocks: Iterable[Packed]) -> Iterator[PackedTrees]:
        """Yield the trees of each block of sentences of at most `longest` pieces, in order. Some are read ahead."""
        return _Run(self, blocks).results()

    def stream_sentences(
        self,
        plan: Plan,
        sentences: Iterable[Sentence],
        *,
        constraints: Iterable[ConstraintsLike] | None = None,
        skip: int = 0,
    ) -> Iterator[Sentence]:
        """Yield the sentences with their trees, without the first `skip`.

        Sentences with constraints, with evidence from other parsers, and long sentences do not go through the engine.
        """
        model = plan.model
        tags, vocabulary, subwords = model.settings.tags, model.vocabulary, model.subwords
        items = islice(parse_inputs(plan, sentences, constraints), skip, None)
        held: deque[tuple[list[ParseInput], list[bool]]] = deque()  # each block, and which of its items are ours

        def packed_of(items: Iterable[ParseInput]) -> Packed:
            sentences, arcs = [item.sentence for item in items], [item.initial for item in items]
            return pack(sentences, subwords, vocabulary, tags, read=plan.read_columns, arcs=arcs)

        def packed() -> Iterator[Packed]:
            sizes = chain(FIRST_BLOCKS, repeat(BLOCK))
            while block := list(islice(items, next(sizes))):
                are_ours = [not (x.constraints or x.evidence or len(x.sentence) > plan.most_words) for x in block]
                found = packed_of([*compress(block, are_ours)])
                if found.longest > self.longest:
                    fits = [model.n_pieces(item.sentence) <= self.longest for item in block]
                    are_ours = [*map(and_, are_ours, fits)]
                    found = packed_of([*compress(block, are_ours)])
                held.append((block, are_ours))
                yield found

        def found_trees() -> Iterator[PackedTrees]:
            try:
                yield from self.stream(packed())
            except NoMemoryError as error:
                raise error.named(item.sentence for each in held for item in compress(*each)) from error

        for found in found_trees():
            block, are_ours = held.popleft()
            own = (item.sentence for item in compress(block, are_ours))
            ours = filled(own, found, vocabulary, tags, replaces_tags=plan.replaces_tags)
            others = run(plan, [*compress(block, map(not_, are_ours))], trees)
            for is_ours in are_ours:
                yield next(ours) if is_ours else next(others)[1]


class _Run:
    """The state of one stream of sentences that passes through the lanes."""

    def __init__(self, engine: Engine, blocks: Iterable[Packed]) -> None:
        self.engine, self.plan = engine, engine.plan
        self.source, self.has_more = iter(blocks), True
        self.fault: Exception | None = None  # raised by the source
        self.standing = SentenceState(engine.special, engine.n_columns)
        self.sizes: deque[int] = deque()  # of the blocks not yet yielded
        self.lanes = engine.lanes
        self.pools = [Pool(lane) for lane in self.lanes]
        self.flying: deque[Slot] = deque()

    def results(self) -> Iterator[PackedTrees]:
        """Yield the trees of each block. An error of the source is raised after all results before it."""
        try:
            yield from self._results()
        finally:
            for slot in self.flying:  # if the caller stopped early
                slot.finish()
                slot.lane.hand_back(slot)
        if self.fault is not None:
            raise self.fault

    def _results(self) -> Iterator[PackedTrees]:
        while self.has_more or self.sizes:
            if self.lanes is not self.engine.lanes:
                self._change_lanes()
            self._read()
            pool = next((pool for pool in self.pools if pool.is_full), None)
            if pool is None and not self.flying:  # the source is slow or at its end, or too many sentences are held
                waiting = [each for each in self.pools if each.n_pieces]
                pool = min(waiting, key=lambda each: int(each.waiting[0][0][0]), default=None)  # the oldest sentence
            if pool is not None and len(self.flying) < IN_FLIGHT:
                self._start(pool)
            elif self.flying:
                self._finish(self.flying.popleft())
            while self.sizes and self.standing["is_done"][: self.sizes[0]].all():
                yield self._leave(self.sizes.popleft())

    def _read(self) -> None:
        """Read more sentences until some buffer can be filled or it takes too long."""
        standing, stop = self.standing, time.monotonic() + PATIENCE
        while self.has_more and len(standing) < MOST_HELD and not any(pool.is_full for pool in self.pools):
            try:
                packed = next(self.source)
            except StopIteration:
                self.has_more = False
                return
            except Exception as error:  # raised later, so that earlier results are not lost
                self.has_more, self.fault = False, error
                return
            numbers = standing.add(packed, self.engine.most)
            self.sizes.append(len(packed))
            self._wait(numbers)
            if time.monotonic() > stop:
                return

    def _wait(self, numbers: Numbers, *, first: bool = False) -> None:
        """Put sentences into the pools for their lengths."""
        n_pieces = self.standing["n_pieces"][numbers - self.standing.first]
        assert n_pieces.max(initial=0) <= self.engine.longest
        shortest = 0
        for pool in self.pools:
            is_ours = (n_pieces > shortest) & (n_pieces <= pool.lane.room.longest)
            pool.add(numbers[is_ours], n_pieces[is_ours], first=first)
            shortest = pool.lane.room.longest

    def _start(self, pool: Pool) -> None:
        """Start a step. If memory runs out, all sentences wait for smaller buffers instead."""
        numbers = pool.take()
        try:
            self.flying.append(pool.lane.start(self.standing, numbers))
            return
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            is_smallest = all(lane.room == lane.room.halved() for lane in self.lanes)
            if is_smallest and not self.flying and not any(lane.free for lane in self.lanes):
                raise NoMemoryError(int(numbers[0]) - self.standing.first) from error
        self.engine.halve_lanes(self.lanes)

    def _change_lanes(self) -> None:
        """Continue in the engine's new lanes with all sentences that are not done, and free the old lanes' memory."""
        while self.flying:
            self._finish(self.flying.popleft())
        free_memory()
        self.lanes = self.engine.lanes
        self.pools = [Pool(lane) for lane in self.lanes]
        self._wait(self.standing.first + np.flatnonzero(self.standing["is_done"] == 0))

    def _finish(self, slot: Slot) -> None:
        """Process the answer to a buffer: each sentence ends or waits for its next step."""
        standing, buffer, answer = self.standing, slot.buffer, slot.finish()
        rows, words, n_words = buffer.numbers - standing.first, buffer.words - standing.first_word, len(buffer.words)
        of_word = buffer.host["sentences"][:n_words]
        state, t, is_forced = answer.states[: len(rows)], standing["t"][rows], standing["is_forced"][rows] > 0

        is_ending = state & ENDED > 0
        is_done = is_forced | (is_ending & (state & IS_TREE > 0))
        is_continuing = ~is_ending & ~is_forced
        is_new = (is_done | is_continuing)[of_word]  # the other sentences need a tree search, now or later
        standing["heads"][words[is_new]] = answer.heads[:n_words][is_new]
        standing["labels"][words[is_new]] = answer.labels[:n_words][is_new]
        if self.plan.predicts_tags:
            is_first = ((t == 1) & ~is_forced)[of_word] & (buffer.host["numbers"][:n_words] > 0)
            has_tags = is_first | (buffer.host["numbers"][:n_words] > 0) & self.plan.model.settings.tags.refined
            standing["best_tags"][words[has_tags]] = answer.tags[:n_words][has_tags]
            places = words[is_first & is_continuing[of_word]]
            given = standing["tags"][places]
            standing["tags"][places] = np.where(given == 0, standing["best_tags"][places], given)
        standing["t"][rows[is_continuing]] += 1
        standing["is_done"][rows[is_done]] = 1
        for place, row in enumerate(answer.searched):
            if row < len(rows) and state[row] & IS_SEARCHED and not is_forced[row]:
                self._search(rows[row], answer.arcs[place])
        self._wait(buffer.numbers[~is_done], first=True)
        slot.lane.hand_back(slot)

    def _search(self, row: int, arcs: np.ndarray) -> None:
        """Find the heads of the best tree; one more step then finds their labels."""
        standing = self.standing
        start, size = standing.word_starts[row], standing["n_words"][row]
        heads = self.plan.decoder.best_heads(torch.from_numpy(arcs[:size, :size]))
        standing["forced"][start + 1 : start + size] = heads[1:]
        standing["is_forced"][row] = 1

    def _leave(self, n_sentences: int) -> PackedTrees:
        """Return the trees of the first block and drop it."""
        standing = self.standing
        n_words = standing["n_words"][:n_sentences].sum()
        is_word = standing["numbers"][:n_words] > 0
        names = ("heads", "labels", "best_tags")
        heads, labels, tags = (standing[name][:n_words][is_word] for name in names)
        standing.drop(standing.first + n_sentences)
        return PackedTrees(heads, labels, tags if self.plan.predicts_tags else None)


class Pool:
    """The sentences that are waiting for one lane."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.waiting: deque[tuple[Numbers, Numbers]] = deque()  # sentences and their numbers of pieces
        self.n_pieces = self.n_sentences = 0

    @property
    def is_full(self) -> bool:
        """Whether a buffer can be filled."""
        return self.n_pieces >= self.lane.room.pieces or self.n_sentences >= self.lane.room.sentences

    def add(self, numbers: Numbers, n_pieces: Numbers, *, first: bool) -> None:
        """Add sentences at the end of the queue, or with `first` at its start."""
        if len(numbers):
            (self.waiting.appendleft if first else self.waiting.append)((numbers, n_pieces))
            self.n_pieces += int(n_pieces.sum())
            self.n_sentences += len(numbers)

    def take(self) -> Numbers:
        """Remove and return the first sentences of the queue that fit together into a buffer."""
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
