"""Networks whose weights are about to be read from a file: built without memory, and without first numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class _NoFirstNumbers(TorchFunctionMode):
    """Lets `torch.nn.init` do nothing: for weights without memory it would load torch's compiler, for a second."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if getattr(func, "__module__", None) == "torch.nn.init":
            return (kwargs or {}).get("tensor", args[0] if args else None)
        return func(*args, **(kwargs or {}))


@contextmanager
def unfilled() -> Iterator[None]:
    """Modules made within have weights with a shape and nothing else."""
    with torch.device("meta"), _NoFirstNumbers():
        yield
