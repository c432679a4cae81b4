"""The CPU cores of this process, and the threads that torch starts on them. Importing this module does not load torch.

See docs/speed.md, 'Shared machines and containers'.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from threading import Barrier, Lock, local
from typing import TypeVar

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

_WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")  # how OpenMP threads wait
_NUMBER = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_SPINS = "2000"  # libgomp's default, 300,000, occupies a core that another process could use
_MOST_AT_ONCE = 8  # tasks; more would mostly wait for each other in Python
_CGROUPS = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


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
    import torch

    n_threads = thread_count()
    n_workers = min(n_threads, len(tasks), _MOST_AT_ONCE)
    if n_workers < 2:
        return [work(task) for task in tasks]
    started = Barrier(n_workers + 1)

    def start() -> None:
        torch.get_num_threads()  # from here on, torch keeps a number for this thread
        torch.set_num_threads(n_threads // n_workers)  # also for threads that start from now on …
        started.wait()

    with ThreadPoolExecutor(n_workers, initializer=start) as workers:
        try:
            running = [workers.submit(copy_context().run, work, task) for task in tasks]
            started.wait()
            torch.set_num_threads(n_threads)  # … until here: other threads of the application must not be affected
        except BaseException:
            started.abort()
            raise
        try:
            return [each.result() for each in running]
        finally:
            for each in running:  # after an error, do not start the others
                each.cancel()


class _Users:
    """The threads in `torch_threads`: their number, the last number set, and the number before the first of them."""

    def __init__(self) -> None:
        self.lock, self.count, self.last, self.before = Lock(), 0, 0, 0
        self.own = local()  # own.depth: how many blocks of `torch_threads` this Python thread is in


_users = _Users()


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Let torch use this many threads in this Python thread, and as many as before afterwards."""
    import torch

    before = thread_count()
    with _users.lock:
        if _users.count == 0:
            _users.before = before
        torch.set_num_threads(number)
        _users.last = number
        _users.count += 1
        _users.own.depth = getattr(_users.own, "depth", 0) + 1
    try:
        yield
    finally:
        with _users.lock:
            _users.own.depth -= 1
            _users.count -= 1
            torch.set_num_threads(before)
            _users.last = before


def thread_count() -> int:
    """Return torch's number of threads in this Python thread.

    torch keeps this number per Python thread, but a new thread starts with the last number set. If another thread has
    set it for itself, in `torch_threads`, set it back.
    """
    import torch

    with _users.lock:
        number = torch.get_num_threads()
        if _users.count and number == _users.last and not getattr(_users.own, "depth", 0):
            number = _users.last = _users.before
            torch.set_num_threads(number)
        return number


def usable_cores() -> int:
    """Return the number of cores that this process may use: its CPU affinity, or the quota of its container if less."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = quota_cores()
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def quota_cores(cgroups: Path = _CGROUPS, membership: Path = _MEMBERSHIP) -> float | None:
    """Return the CPU quota of this process in cores, or None without a limit.

    Every cgroup (version 1 or 2) from the root to that of this process can have a quota; the smallest one applies.
    """
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        lines = []
    folders = [folder for line in ("0::/", "0:cpu:/", *lines) for folder in _folders(line, cgroups)]
    return min((quota for quota in map(_quota, folders) if quota is not None), default=None)


def _folders(line: str, cgroups: Path) -> Iterator[Path]:
    """Yield the folders of the cgroups that a line of /proc/self/cgroup names, such as 0::/user.slice/a.service.

    In a container, the path can be that of the host; folders that do not exist here have no quota.
    """
    _, controllers, path = line.split(":", 2)
    if controllers and "cpu" not in controllers.split(","):
        return
    roots = {cgroups / "cpu", cgroups / controllers} if controllers else {cgroups, cgroups / "unified"}
    parts = [each for each in path.split("/") if each not in ("", "..")]
    for root in roots:
        for depth in range(len(parts) + 1):
            yield root.joinpath(*parts[:depth])


def _quota(folder: Path) -> float | None:
    """Return the quota of one cgroup in cores, or None."""
    try:
        if (folder / "cpu.max").is_file():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return round(int(quota) / int(period), 2) if int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):  # no such cgroup, or "max"
        return None
