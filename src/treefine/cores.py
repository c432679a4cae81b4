"""The CPU cores of this process and the OpenMP threads that torch starts on them. This module must not import torch."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping

_WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")  # how OpenMP threads wait
_SPINS = "2000"  # about 20 µs; libgomp's own 300,000 take 3 ms of a core that another process could use


def limit_spinning(variables: MutableMapping[str, str] = os.environ) -> None:
    """Let OpenMP threads of torch sleep after a short wait, in this process and in those that it starts.

    Call it before torch is imported, because OpenMP reads its variables only once. Variables that the user has set
    stay as they are. See docs/speed.md, 'Shared machines and containers'.
    """
    if "torch" not in sys.modules and not any(name in variables for name in _WAITING):
        variables["GOMP_SPINCOUNT"] = _SPINS
