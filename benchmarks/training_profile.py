"""What the updates of one batch spend their time on, by PyTorch's profiler."""

from __future__ import annotations

import statistics
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity

TOP = 15  # kernels that are told by name
LONGEST_NAME = 60


def profile(learn: Callable[[], float], device: torch.device, *, rounds: int = 5) -> dict[str, float]:
    """Time on the clock and on the GPU, how many operations and kernels were started, how often the host waited.

    The profiler slows the host down, so the clock is read without it.
    """
    is_on_gpu = device.type == "cuda"
    learn()  # a warm-up
    wall = statistics.median(_milliseconds(learn, device) for _ in range(rounds))
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if is_on_gpu else [])]
    with torch.profiler.profile(activities=activities) as profiler:
        _milliseconds(learn, device)
    entries = profiler.key_averages()
    result: dict[str, float] = {
        "milliseconds": round(wall, 2),
        "operations": sum(each.count for each in entries if each.key.startswith("aten::")),
    }
    if is_on_gpu:
        kernels = [each for each in entries if each.device_type.name == "CUDA"]
        busy = sum(each.self_device_time_total for each in kernels) / 1000
        result |= {
            "gpu_milliseconds": round(busy, 2),
            "gpu_busy_share": round(busy / wall, 3),
            "kernels": sum(each.count for each in kernels),
        }
        places = host_waits(learn)
        result["host_waits"] = places.total()
        result |= {f"host waits at {place}": count for place, count in places.most_common()}
        costly = sorted(kernels, key=lambda each: -each.self_device_time_total)
        times = {each.key: each.self_device_time_total / 1000 for each in costly}
    else:
        costly = sorted(entries, key=lambda each: -each.self_cpu_time_total)
        times = {each.key: each.self_cpu_time_total / 1000 for each in costly}
    for each in costly[:TOP]:
        result[f"{each.key[:LONGEST_NAME]} ×{each.count}_milliseconds"] = round(times[each.key], 2)
    return result


def host_waits(learn: Callable[[], float]) -> Counter[str]:
    """Where the host waited for the GPU, and how often, as PyTorch tells it; waiting for an event is not told."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            learn()
        finally:
            torch.cuda.set_sync_debug_mode(before)
    return Counter(f"{Path(each.filename).name}:{each.lineno}" for each in told if "synchronizing" in str(each.message))


def _milliseconds(learn: Callable[[], float], device: torch.device) -> float:
    start = time.perf_counter()
    learn()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return 1000 * (time.perf_counter() - start)
