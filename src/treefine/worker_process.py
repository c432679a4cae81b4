"""A process that runs the methods of one object on behalf of another process.

Importing this module does not load torch: some workers do not need it.
"""

from __future__ import annotations

import os
import pickle
import select
import selectors
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from treefine.errors import TreefineError

_WATCH_SECONDS = 0.05  # how often to check whether a result is still wanted
# `multiprocessing` would import the user's main script, and modules from the current folder, in each worker.
_START = """
import signal, sys
for name in ("SIGINT", "SIGTERM", "SIGUSR1"):  # a worker ends when its standard input is closed
    if hasattr(signal, name):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
sys.path[:] = sys.argv[1:]
from treefine.worker_process import run_tasks
run_tasks()
"""

_Value = TypeVar("_Value")
_is_wanted = True  # in a worker: whether the result of the current task is still wanted


class WorkerDiedError(TreefineError):
    """A worker process has ended before it sent a result."""


class UnwantedError(Exception):
    """The result of a task is not wanted any more."""


def check_wanted(*_: object) -> None:
    """Raise an UnwantedError if this process is a worker and the result of its task is not wanted any more."""
    if not _is_wanted:
        raise UnwantedError


class WorkerProcess:
    """A process with an object, `create(*arguments)`, whose methods it runs one at a time."""

    def __init__(self, create: Callable[..., Any], *arguments: Any, threads: int = 1, hint: str = "") -> None:
        paths = [*(each for each in sys.path if each), str(Path(__file__).parents[1])]
        numbers = {"OMP_NUM_THREADS": str(threads), "RAYON_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", _START, *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | numbers | {"TOKENIZERS_PARALLELISM": "false"},
        )
        self._hint = hint
        self._unsent: tuple[Any, ...] | None = (create, arguments)  # sending blocks until the worker reads

    def run(
        self,
        method: Callable[..., _Value],
        arguments: tuple[Any, ...],
        *,
        is_wanted: Callable[[], bool] | None = None,
    ) -> _Value:
        """Run a method of the worker's object, and return its result or raise its error.

        If `is_wanted` returns False before the result is there, the worker stops at its next `check_wanted`.
        """
        try:
            if self._unsent is not None:
                _send(self._unsent, self.process.stdin)
                self._unsent = None
            _send((method, arguments), self.process.stdin)
            if is_wanted is not None:
                self._wait(is_wanted)
            assert self.process.stdout is not None
            result: _Value | Exception = pickle.load(self.process.stdout)
        except Exception as error:  # after any error, a late result would be taken for that of the next task
            self.kill()
            reason = "" if isinstance(error, (EOFError, OSError, pickle.UnpicklingError)) else f" ({error})"
            raise WorkerDiedError(f"A worker process has ended unexpectedly{reason}.", hint=self._hint) from error
        if isinstance(result, Exception):
            raise result
        return result

    def _wait(self, is_wanted: Callable[[], bool]) -> None:
        """Wait for the result; as long as it is not wanted, send a signal again and again: an early one may be lost."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not selector.select(_WATCH_SECONDS):
                if not is_wanted():
                    self.process.send_signal(signal.SIGUSR1)

    def kill(self) -> None:
        """Kill the process, which holds no state worth saving."""
        self.process.kill()

    def close(self) -> None:
        """Kill the process and wait for its end."""
        self.kill()
        with suppress(OSError), self.process:  # close its pipes, which may be broken
            pass


def run_tasks() -> None:
    """Run the tasks that arrive on standard input until it is closed. This is the main function of a worker.

    A worker therefore ends with the process that started it, even if that process is killed.
    """
    global _is_wanted
    if hasattr(signal, "SIGUSR1"):
        signal.signal(signal.SIGUSR1, _note_unwanted)
    if hasattr(select, "poll"):
        Thread(target=_end_with_parent, daemon=True).start()
    tasks, results = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output printed by a library must not mix with the results
    with suppress(EOFError, BrokenPipeError, pickle.UnpicklingError):
        create, arguments = pickle.load(tasks)
        worker = create(*arguments)
        while True:
            method, arguments = pickle.load(tasks)
            _is_wanted = True  # a signal for the last task has arrived before this task was sent
            result: Any
            try:
                result = method(worker, *arguments)
            except (TreefineError, UnwantedError) as error:
                result = error
            except Exception:
                result = RuntimeError(traceback.format_exc())
            _send(result, results)


def _end_with_parent() -> None:
    """End this process, even in the middle of a task, when the other end of its standard input is closed."""
    poll = select.poll()
    poll.register(0, 0)  # no event but the end
    poll.poll()
    os._exit(0)


def _note_unwanted(*_: object) -> None:
    global _is_wanted
    _is_wanted = False


def _send(value: Any, stream: Any) -> None:
    pickle.dump(value, stream, protocol=5)
    stream.flush()
