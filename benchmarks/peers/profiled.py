"""Where the time of some work goes: how much of it a GPU is busy, and with what; on a CPU, with which operations."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

TOP = 8  # kernels or operations that are named
NAME = 60  # letters of a name


def profiled(work: Callable[[], object], device: torch.device) -> dict[str, Any]:
    """Seconds of one run with the profiler on, the share of it in which the device is busy, and what it does most."""
    work()  # what is compiled or recorded once is no part of it
    kind = ProfilerActivity.CUDA if device.type == "cuda" else ProfilerActivity.CPU
    started = time.perf_counter()
    with profile(activities=[kind], acc_events=True) as found:
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds = time.perf_counter() - started
    if device.type == "cuda":
        events = [each for each in found.events() or () if each.device_type == DeviceType.CUDA]
        spans = [(each.time_range.start, each.time_range.end) for each in events]
        busy = covered(spans) / 1e6
        times: Counter[str] = Counter()
        for each in events:
            times[each.name[:NAME]] += each.time_range.elapsed_us()
    else:
        times = Counter({each.key[:NAME]: each.self_cpu_time_total for each in found.key_averages()})
        busy = sum(times.values()) / 1e6  # in operations of torch, of one thread
    top = {name: round(us / 1e6, 4) for name, us in times.most_common(TOP)}
    return {
        "profiled_seconds": round(seconds, 3),
        "busy_seconds": round(busy, 3),
        "busy_share": round(busy / seconds, 3),
        "top_seconds": top,
    }


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """How much of a line is covered by spans that may overlap.

    >>> covered([(0, 2), (1, 3), (5, 6)])
    4
    """
    total, end = 0.0, float("-inf")
    for start, stop in sorted(spans):
        if stop > end:
            total += stop - max(start, end)
            end = stop
    return total
