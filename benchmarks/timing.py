"""Time functions in turn, so that other load on the machine affects all of them."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping

Work = Callable[[], object]
Times = dict[str, list[float]]  # seconds of each round, by name


def seconds(work: Work) -> float:
    """Return the seconds of one call; garbage is collected first."""
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def seconds_on(device: str) -> Callable[[Work], float]:
    """Return a clock that also waits for the GPU if the device is a GPU."""
    if device == "cpu":
        return seconds
    import torch

    def run_to_end(work: Work) -> None:
        work()
        torch.cuda.synchronize()

    def clock(work: Work) -> float:
        torch.cuda.synchronize()
        return seconds(lambda: run_to_end(work))

    return clock


def in_turn(works: Mapping[str, Work], rounds: int, *, clock: Callable[[Work], float] = seconds) -> Times:
    """Return the seconds of each function in each round."""
    times: Times = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            times[name].append(clock(work))
    return times


def median_ratio(times: Times, name: str, against: str) -> float:
    """Return the median over the rounds of the ratio of two times."""
    return statistics.median(a / b for a, b in zip(times[name], times[against], strict=True))
