"""Where a model runs."""

from __future__ import annotations

import torch

from treefine.errors import TreefineError

DEVICES = ("cpu", "cuda", "mps", "xpu")


def find_device(name: str | torch.device | None) -> torch.device:
    """The device of this name; without one a GPU if there is any."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        if device.type not in DEVICES:
            raise RuntimeError(f"it is none of {', '.join(DEVICES)}")
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise TreefineError(f"Device {str(name)!r} cannot be used ({reason}).", hint="Choose cpu.") from error
    return device
