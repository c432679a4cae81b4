"""A process that runs the methods of one object on behalf of another process.

Importing this module does not load torch: some workers do not need it.
"""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from treefine.errors import TreefineError

# `multiprocessing` would import the user's main script, and modules from the current folder, in each worker.
_START = """
import signal, sys
for each in (signal.SIGINT, signal.SIGTERM):  # a worker ends when its standard input is closed
    signal.signal(each, signal.SIG_IGN)
sys.path[:] = sys.argv[1:]
from treefine.worker_process import run_tasks
run_tasks()
"""

_Value = TypeVar("_Value")


class WorkerDiedError(TreefineError):
    """A worker process has ended before it sent a result."""


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

    def run(self, method: Callable[..., _Value], arguments: tuple[Any, ...]) -> _Value:
        """Run a method of the worker's object, and return its result or raise its error."""
        try:
            if self._unsent is not None:
                _send(self._unsent, self.process.stdin)
                self._unsent = None
            _send((method, arguments), self.process.stdin)
            assert self.process.stdout is not None
            result: _Value | Exception = pickle.load(self.process.stdout)
        except Exception as error:  # after any error, a late result would be taken for that of the next task
            self.kill()
            reason = "" if isinstance(error, (EOFError, OSError, pickle.UnpicklingError)) else f" ({error})"
            raise WorkerDiedError(f"A worker process has ended unexpectedly{reason}.", hint=self._hint) from error
        if isinstance(result, Exception):
            raise result
        return result

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
    if hasattr(select, "poll"):
        Thread(target=_end_with_parent, daemon=True).start()
    tasks, results = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output printed by a library must not mix with the results
    with suppress(EOFError, BrokenPipeError, pickle.UnpicklingError):
        create, arguments = pickle.load(tasks)
        worker = create(*arguments)
        while True:
            method, arguments = pickle.load(tasks)
            result: Any
            try:
                result = method(worker, *arguments)
            except TreefineError as error:
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


def _send(value: Any, stream: Any) -> None:
    pickle.dump(value, stream, protocol=5)
    stream.flush()
