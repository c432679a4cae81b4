"""Buffers of one size on their way to a device and back, each step one replay of a CUDA graph."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext

import torch

from treefine.errors import TreefineError
from treefine.network.packed import Room
from treefine.parsing.batching import is_out_of_memory
from treefine.parsing.buffers import Answer, Arrays, Buffer, Numbers, Standing
from treefine.parsing.packed_step import PackedStep
from treefine.parsing.run import Plan

WARM_UPS = 2  # runs before a graph is captured: libraries choose and allocate in the first ones


class Lane:
    """Buffers for sentences of up to some length: as many as are on their way at a time, in whichever thread."""

    def __init__(self, step: PackedStep, room: Room, n_columns: int, n_searched: int, plan: Plan) -> None:
        self.step, self.room, self.plan = step, room, plan
        self.n_columns, self.n_searched = n_columns, n_searched
        self.free: list[Slot] = []
        self._lock = threading.Lock()

    def start(self, standing: Standing, numbers: Numbers) -> Slot:
        """Send sentences to the device, and wait for nothing; the slot is the caller's until it is handed back."""
        with self._lock:
            slot = self.free.pop() if self.free else None
        if slot is None:
            slot = Slot(self, Buffer(self.room, self.n_columns, self.n_searched, self.plan.device))
        slot.buffer.fill(standing, numbers, last=self.plan.max_steps)
        slot.start()
        return slot

    def hand_back(self, slot: Slot) -> None:
        """Let others have a slot whose answer has been read."""
        with self._lock:
            self.free.append(slot)


class Slot:
    """A buffer, the answer to it, and the graph that leads from one to the other."""

    def __init__(self, lane: Lane, buffer: Buffer) -> None:
        self.lane, self.buffer, self.answer = lane, buffer, Answer(buffer)
        self.is_cuda = buffer.device.type == "cuda"
        self.graph: torch.cuda.CUDAGraph | None = None

    def start(self) -> None:
        """Send the buffer, have a step done, and ask for the answer."""
        if not self.is_cuda:
            self.buffer.on_device.copy_(self.buffer.sent)
            self.answer.received.copy_(self._run())
            return
        with self._device():
            if self.graph is None:
                self._capture()
            assert self.graph is not None
            self.buffer.on_device.copy_(self.buffer.sent, non_blocking=True)
            self.graph.replay()
            self.answer.received.copy_(self.result, non_blocking=True)
            self.event.record()

    def finish(self) -> Arrays:
        """The answer, once it is there; it stands until the slot is started again."""
        if self.is_cuda:
            self.event.synchronize()
        return self.answer.arrays()

    def _device(self) -> AbstractContextManager[object]:
        """Streams, events and graphs are made for the current GPU, which may be another one."""
        return torch.cuda.device(self.buffer.device) if self.is_cuda else nullcontext()

    def _run(self) -> torch.Tensor:
        return self.answer.joined(self.lane.step(self.buffer.inputs(), self.buffer.room, self.buffer.n_searched))

    def _capture(self) -> None:
        """Record the step. Others may use the GPU meanwhile, from other threads."""
        try:
            self.event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self.buffer.on_device.copy_(self.buffer.sent)
            other = torch.cuda.Stream(self.buffer.device)  # type: ignore[no-untyped-call]
            other.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(other):
                for _ in range(WARM_UPS):
                    self._run()
            torch.cuda.current_stream().wait_stream(other)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=other, capture_error_mode="thread_local"):
                self.result = self._run()
            self.graph = graph
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            hint = "Choose another device, or a smaller model."
            raise TreefineError("Memory does not suffice for a buffer on this device.", hint=hint) from error
