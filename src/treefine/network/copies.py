"""Copies between host and GPU for which neither waits."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def sent(values: Tensor | Sequence[int], device: torch.device) -> Tensor:
    """The values on a device. A GPU takes them when it has done what was asked of it before, without a halt here."""
    tensor = values if isinstance(values, Tensor) else torch.tensor(values, dtype=torch.int64)
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


class Arriving:
    """A copy of some values on its way to the host: asked for now, read later.

    What was started in between is not waited for, so a GPU has work while the host reads.
    """

    def __init__(self, values: Tensor) -> None:
        self._copy = values.detach().to("cpu", non_blocking=values.is_cuda)
        self._event = torch.cuda.current_stream(values.device).record_event() if values.is_cuda else None

    def read(self) -> Tensor:
        """The values, on the host."""
        if self._event is not None:
            self._event.synchronize()
        return self._copy
