"""Buffers of one size on their way to a device and back, each step one replay of a CUDA graph."""

from __future__ import annotations

import torch

from treefine.network.packed import Room
from treefine.parsing.buffers import Answer, Arrays, Buffer, Numbers, Standing
from treefine.parsing.packed_step import PackedStep
from treefine.parsing.run import Plan

WARM_UPS = 2  # runs before a graph is captured: libraries choose and allocate in the first ones


class Lane:
    """Buffers for sentences of up to some length: as many as are on their way at a time."""

    def __init__(self, step: PackedStep, room: Room, n_columns: int, n_searched: int, plan: Plan) -> None:
        self.step, self.room, self.plan = step, room, plan
        self.n_columns, self.n_searched = n_columns, n_searched
        self.free: list[Slot] = []

    def start(self, standing: Standing, numbers: Numbers) -> Slot:
        """Send sentences to the device, and wait for nothing."""
        if not self.free:
            self.free.append(Slot(self, Buffer(self.room, self.n_columns, self.n_searched, self.plan.device)))
        slot = self.free.pop()
        slot.buffer.fill(standing, numbers, last=self.plan.max_steps)
        slot.start()
        return slot


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
        if self.graph is None:
            self._capture()
        assert self.graph is not None
        self.buffer.on_device.copy_(self.buffer.sent, non_blocking=True)
        self.graph.replay()
        self.answer.received.copy_(self.result, non_blocking=True)
        self.event.record()

    def finish(self) -> Arrays:
        """The answer, once it is there; it stands until the slot is taken again."""
        if self.is_cuda:
            self.event.synchronize()
        self.lane.free.append(self)
        return self.answer.arrays()

    def _run(self) -> torch.Tensor:
        return self.answer.joined(self.lane.step(self.buffer.inputs(), self.buffer.room, self.buffer.n_searched))

    def _capture(self) -> None:
        self.event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self.buffer.on_device.copy_(self.buffer.sent)
        other = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        other.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(other):
            for _ in range(WARM_UPS):
                self._run()
        torch.cuda.current_stream().wait_stream(other)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.result = self._run()
