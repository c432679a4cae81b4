"""Several processes that learn together, each from its share of every batch (torchrun)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

from treefine.errors import TreefineError

_SETTLING = 0.3  # seconds; gloo's thread lets go of the last tensors late, and must not do so while Python ends
_LONGEST_WAIT = timedelta(minutes=30)  # for the others, after which one of them is taken for dead


class Processes:
    """This process among those that torchrun started, while entered; alone without it. All see one output folder.

    They sum their gradients themselves, without DistributedDataParallel: that wants as many backward passes from each
    process, but sentences leave the refinement loop at different steps, and a process whose sentences have all left
    still takes part in the updates of the others.
    """

    def __init__(self, device: torch.device) -> None:
        try:
            self.count = int(os.environ.get("WORLD_SIZE", 1))
            self.rank, local_rank = (int(os.environ.get(name, 0)) for name in ("RANK", "LOCAL_RANK"))
        except ValueError as error:
            message = f"WORLD_SIZE, RANK or LOCAL_RANK is no number ({error})."
            raise TreefineError(message, hint="Use torchrun.") from None
        if not 0 <= self.rank < self.count:
            message = f"RANK is {self.rank}, but there are {self.count} processes (WORLD_SIZE)."
            raise TreefineError(message, hint="Use torchrun, or unset RANK.")
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
                message = f"The processes do not find each other ({reason})."
                raise TreefineError(message, hint="Use torchrun.") from error
        return self

    def __exit__(self, *error: object) -> None:
        if self.count > 1:
            dist.destroy_process_group()
            time.sleep(_SETTLING)

    @property
    def is_first(self) -> bool:
        """Whether this one writes and reports."""
        return self.rank == 0

    def share(self, numbers: Sequence[int]) -> list[int]:
        """This process's share of the sentences of a batch."""
        return list(numbers[self.rank :: self.count])

    def total(self, value: float) -> float:
        """The sum of all processes' values; they wait for each other."""
        if self.count == 1:
            return float(value)
        return float(self._together(dist.all_reduce, torch.tensor(value, dtype=torch.float64)))

    def same(self, value: float) -> float:
        """The first process's value, in all of them."""
        return float(self._together(lambda told: dist.broadcast(told, src=0), torch.tensor(value, dtype=torch.float64)))

    def wait(self) -> None:
        """Go on when all are here."""
        self.total(0)

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Give all processes the sum of their gradients; a weight that none of them used keeps none."""
        if self.count == 1:
            return
        is_used = self._together(dist.all_reduce, torch.tensor([int(each.grad is not None) for each in parameters]))
        used = [each for each, count in zip(parameters, is_used.tolist(), strict=True) if count]
        flat = torch.cat([(torch.zeros_like(each) if each.grad is None else each.grad).flatten() for each in used])
        summed = torch.split(self._together(dist.all_reduce, flat), [each.numel() for each in used])
        for each, gradient in zip(used, summed, strict=True):
            each.grad = gradient.view_as(each)

    def _together(self, change: Callable[[Tensor], object], values: Tensor) -> Tensor:
        """The values after all processes have exchanged them."""
        if self.count == 1:
            return values
        values = values.to(self.device)
        try:
            change(values)
            return values
        except RuntimeError:
            pass  # torch's error holds on to its frames and so to the group, whose threads then abort Python's exit
        raise TreefineError("Another process of this training has failed.", hint="Its own message says why.")
