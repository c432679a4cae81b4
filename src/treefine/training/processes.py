"""Training in several processes (torchrun): each process trains on its share of every batch."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from treefine.errors import TreefineError

_Item = TypeVar("_Item")
_SETTLING = 0.3  # seconds; gloo's thread frees the last tensors late, and must not do so while Python exits
_LONGEST_WAIT = timedelta(minutes=30)  # for another process, before it is considered dead


class Processes:
    """The processes that torchrun started, or a single one without it. All write to the same output folder.

    They sum their gradients without DistributedDataParallel, which needs the same number of backward passes in each
    process. Here, sentences leave the refinement loop at different steps, and a process without sentences still takes
    part in the updates.
    """

    def __init__(self, device: torch.device) -> None:
        self.count = int(os.environ.get("WORLD_SIZE", 1))
        self.rank, local_rank = (int(os.environ.get(name, 0)) for name in ("RANK", "LOCAL_RANK"))
        if not 0 <= self.rank < self.count:
            message = f"RANK is {self.rank}, but there are {self.count} processes (WORLD_SIZE)."
            raise TreefineError(message, hint="Start the training with torchrun, or unset RANK.")
        is_any_gpu = device.type == "cuda" and device.index is None
        self.device = torch.device("cuda", local_rank) if is_any_gpu and self.count > 1 else device

    def __enter__(self) -> Processes:
        if self.count > 1:
            is_on_gpu = self.device.type == "cuda"
            try:
                if is_on_gpu:
                    torch.cuda.set_device(self.device)
                dist.init_process_group("nccl" if is_on_gpu else "gloo", timeout=_LONGEST_WAIT)
            except (RuntimeError, ValueError) as error:
                reason = str(error).partition("\n")[0]
                message = f"The processes cannot connect to each other ({reason})."
                raise TreefineError(message, hint="Start the training with torchrun.") from error
        return self

    def __exit__(self, *error: object) -> None:
        if self.count > 1:
            dist.destroy_process_group()
            time.sleep(_SETTLING)

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and reports progress."""
        return self.rank == 0

    def own_part(self, batch: Sequence[_Item]) -> list[_Item]:
        """Return the part of a batch that this process trains on."""
        return list(batch[self.rank :: self.count])

    def total(self, value: float) -> float:
        """Return the sum of the values of all processes, after waiting for them."""
        if self.count == 1:
            return float(value)
        return float(self._together(dist.all_reduce, torch.tensor(value, dtype=torch.float64)))

    def same(self, value: float) -> float:
        """Return the value of the first process, in all processes."""
        return float(
            self._together(lambda value: dist.broadcast(value, src=0), torch.tensor(value, dtype=torch.float64))
        )

    def wait(self) -> None:
        """Wait for all processes."""
        self.total(0)

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Sum the gradients over all processes; a weight that no process used keeps no gradient."""
        if self.count == 1:
            return
        is_used = self._together(dist.all_reduce, torch.tensor([int(each.grad is not None) for each in parameters]))
        used = [each for each, count in zip(parameters, is_used.tolist(), strict=True) if count]
        flat = torch.cat([(torch.zeros_like(each) if each.grad is None else each.grad).flatten() for each in used])
        summed = torch.split(self._together(dist.all_reduce, flat), [each.numel() for each in used])
        for each, gradient in zip(used, summed, strict=True):
            each.grad = gradient.view_as(each)

    def _together(self, change: Callable[[Tensor], object], values: Tensor) -> Tensor:
        """Return the values after all processes have exchanged them."""
        if self.count == 1:
            return values
        values = values.to(self.device)
        try:
            change(values)
            return values
        except RuntimeError:
            pass  # raise below: torch's error keeps the process group alive, and its threads abort Python's exit
        raise TreefineError("Another process of this training has failed.", hint="See its error message.")
