"""Several processes that learn together, each from its share of every batch (torchrun)."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn


class Processes:
    """This process among those that torchrun started; alone without it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.count, self.rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
        if self.count > 1 and not dist.is_initialized():
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    @property
    def is_first(self) -> bool:
        """Whether this one measures, writes and reports."""
        return self.rank == 0

    def share(self, numbers: Sequence[int]) -> list[int]:
        """This process's share of the sentences of a batch."""
        return list(numbers[self.rank :: self.count])

    def total(self, value: int) -> int:
        """The sum of all processes' values."""
        if self.count == 1:
            return value
        summed = torch.tensor(value, device=self.device)
        dist.all_reduce(summed)
        return int(summed)

    def same(self, value: float) -> float:
        """The first process's value, in all of them."""
        if self.count == 1:
            return value
        told = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.broadcast(told, src=0)
        return float(told)

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Give all processes the sum of their gradients; a weight that none of them used keeps none."""
        if self.count == 1:
            return
        is_used = torch.tensor([int(each.grad is not None) for each in parameters], device=self.device)
        dist.all_reduce(is_used)
        used = [each for each, count in zip(parameters, is_used.tolist(), strict=True) if count]
        grads: list[Tensor] = [torch.zeros_like(each) if each.grad is None else each.grad for each in used]
        flat = torch.cat([each.flatten() for each in grads])
        dist.all_reduce(flat)
        start = 0
        for each in used:
            each.grad = flat[start : start + each.numel()].view_as(each)
            start += each.numel()
