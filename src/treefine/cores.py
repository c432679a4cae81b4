"""The CPU cores of this process, and the threads that torch starts on them. Importing this module does not load torch.

See docs/speed.md, 'Shared machines and containers'.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from threading import Lock
from typing import TypeVar

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

_WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")  # how OpenMP threads wait
_NUMBER = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_SPINS = "2000"  # libgomp's default, 300,000, occupies a core that another process could use
_MOST_AT_ONCE = 4  # tasks; more wait for each other in Python, which is slower even on 16 cores
_CGROUP = Path("/sys/fs/cgroup")


def limit_spinning(variables: MutableMapping[str, str] = os.environ) -> None:
    """Let OpenMP threads of torch sleep after a short wait, in this process and in those that it starts.

    Call it before torch is imported, because OpenMP reads its variables only once. Variables that the user has set
    stay as they are.
    """
    if "torch" not in sys.modules and not any(name in variables for name in _WAITING):
        variables["GOMP_SPINCOUNT"] = _SPINS


def use_threads(threads: int | None) -> None:
    """Set the number of CPU threads of torch and of the tokenizer.

    None is torch's default, but at most `usable_cores()`; a number in the environment has priority over it.
    """
    import torch

    before = torch.get_num_threads()
    if threads is not None:
        os.environ.setdefault("RAYON_NUM_THREADS", str(threads))  # read when the first batch is tokenised
    elif any(os.environ.get(name) for name in _NUMBER):
        return
    chosen = min(before, usable_cores()) if threads is None else threads
    if chosen != before:
        torch.set_num_threads(chosen)


def on_all_cores(work: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
    """Return the result of `work` for each task, in order. Several tasks run at once and share the threads of torch.

    Threads of different tasks do not wait for each other after every operation, as those of one task would. That
    matters most if another process uses a core.
    """
    n_threads = thread_count()
    n_workers = min(n_threads, len(tasks), _MOST_AT_ONCE)
    if n_workers < 2:
        return [work(task) for task in tasks]
    with ThreadPoolExecutor(n_workers, initializer=_set_here, initargs=(n_threads // n_workers,)) as workers:
        contexts = [copy_context() for _ in tasks]
        return list(workers.map(lambda context, task: context.run(work, task), contexts, tasks))


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Let torch use this many threads in this Python thread, and as many as before afterwards."""
    before = thread_count()
    if number == before:
        yield
        return
    _set_here(number)
    try:
        yield
    finally:
        _set_here(before)


_setting = Lock()


def thread_count() -> int:
    """Return torch's number of threads in this Python thread, also if another thread is in `_set_here` now."""
    import torch

    with _setting:
        return torch.get_num_threads()


def _set_here(number: int) -> None:
    """Set torch's number of threads for this Python thread only.

    torch also gives the last number set to every Python thread that uses it for the first time. Another thread
    therefore sets that number back at once.
    """
    import torch

    with _setting, ThreadPoolExecutor(1) as other:
        default = other.submit(torch.get_num_threads).result()
        torch.get_num_threads()  # torch keeps a number for this thread only from here on
        torch.set_num_threads(number)
        other.submit(torch.set_num_threads, default).result()


def _renew_after_fork() -> None:
    """Let a forked process compute: the threads of its parent, and those that would release its locks, are not in it.

    torch uses one thread from here on, because with more it would wait for threads of its parent forever.
    """
    global _setting
    _setting = Lock()
    set_threads = getattr(sys.modules.get("torch"), "set_num_threads", None)  # missing while torch is being imported
    if set_threads is not None:
        set_threads(1)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_after_fork)


def give_back_memory() -> None:
    """Give memory that is free but still held by this process back to the system, if its C library (glibc) can.

    Tensors of many sizes leave gaps, so that a process that runs for hours would otherwise grow.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name != "nt" else None
    if trim is not None:
        trim(0)


def usable_cores() -> int:
    """Return the number of cores that this process may use: its CPU affinity, or the quota of its container if less."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = quota_cores()
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def quota_cores(cgroup: Path = _CGROUP) -> float | None:
    """Return the CPU quota of the container of this process in cores, or None without one. It needs cgroups 2."""
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
        return round(int(quota) / int(period), 2)
    except (OSError, ValueError, ZeroDivisionError):  # no such file, or "max"
        return None
