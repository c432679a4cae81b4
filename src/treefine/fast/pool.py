"""Processes that read and write beside the model, and the messages they exchange."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar, cast

import numpy as np

from treefine import errors
from treefine.errors import TreebankError, TreefineError
from treefine.fast.packed import Packed, PackedTrees
from treefine.fast.scribe import Orders, Place, Read, Scribe, Written

_LENGTH = struct.Struct("<Q")
_FIELDS = ("message", "hint", "path", "line", "sent_id", "sentence", "word")  # of an error
Arrays = Mapping[str, "np.ndarray | None"]


def send(stream: IO[bytes], values: Mapping[str, Any], arrays: Arrays | None = None) -> None:
    """Write one message."""
    given = {name: np.ascontiguousarray(array) for name, array in (arrays or {}).items() if array is not None}
    shapes = [(name, array.dtype.str, array.shape) for name, array in given.items()]
    head = json.dumps([values, shapes]).encode()
    stream.write(_LENGTH.pack(len(head)))
    stream.write(head)
    for array in given.values():
        stream.write(array.data)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read one message; EOFError where the other end is closed."""
    (length,) = _LENGTH.unpack(_bytes(stream, _LENGTH.size))
    values, shapes = json.loads(_bytes(stream, length))
    arrays = {}
    for name, dtype, shape in shapes:
        array = np.empty(shape, np.dtype(dtype))
        _fill(stream, array.reshape(-1).view(np.uint8).data)
        arrays[name] = array
    return values, arrays


def _bytes(stream: IO[bytes], length: int) -> bytes:
    data = bytearray(length)
    _fill(stream, memoryview(data))
    return bytes(data)


def _fill(stream: IO[bytes], room: memoryview) -> None:
    while room:
        count = stream.readinto(room)  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        room = room[count:]


def as_array(text: str) -> np.ndarray:
    """A text as an array of its bytes."""
    return np.frombuffer(text.encode(), np.uint8)


def as_text(array: np.ndarray) -> str:
    """The text of such an array."""
    return array.tobytes().decode()


def error_values(error: TreefineError | None) -> dict[str, Any] | None:
    """An error as plain values."""
    if error is None:
        return None
    return {"class": type(error).__name__, **{name: getattr(error, name) for name in _FIELDS}}


def error_of(values: Mapping[str, Any] | None) -> TreefineError | None:
    """The error of such values, of the same class and with the same text."""
    if values is None:
        return None
    kind: type[TreefineError] = getattr(errors, values["class"])
    return kind(**{name: values[name] for name in _FIELDS})


Result = TypeVar("Result")

MOST_WORKERS = 16
FOR_OTHERS = 2  # cores: one for the process that runs the model, one for the rest
SHORT = 1 << 20  # bytes of a file that are read here before other processes are started
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",  # each worker is one of many
    "RAYON_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
# Modules come from where ours came from: a file json.py beside the user's is not read. Ctrl-C is for others.
_START = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
import json
sys.path[:] = json.loads(sys.argv[1])
from treefine.fast.worker import main
main()
"""


def default_workers() -> int:
    """As many as there are cores for."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(0, min(MOST_WORKERS, cores - FOR_OTHERS))


class Hand(Protocol):
    """One that reads and writes stretches as a Scribe does; the answers come in the order in which it was asked."""

    def read(self, number: int, place: Place) -> Future[Read]: ...  # noqa: D102
    def write(  # noqa: D102
        self, number: int, trees: PackedTrees, *, skip: int, is_start: bool
    ) -> Future[Written]: ...
    def drop(self, number: int) -> None: ...  # noqa: D102


class Pool:
    """Workers for the stretches of files, until closed; they are started once there is enough for them to do."""

    def __init__(self, orders: Orders, n_workers: int, *, short: int = SHORT) -> None:
        self.orders, self.n_workers, self.short = orders, n_workers, short
        self._here: _Here | None = None
        self._workers: list[_Worker] = []
        self._n_bytes = self._n_dealt = 0

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            worker.close()

    @property
    def ahead(self) -> int:
        """How many stretches are read before they are needed."""
        return 2 * self.n_workers + 1

    def hand_for(self, place: Place) -> Hand:
        """Who is to read the next stretch."""
        self._n_bytes += len(place.stretch.data)
        if not self.n_workers or self._n_bytes <= self.short:
            self._here = self._here or _Here(self.orders)
            return self._here
        if not self._workers:
            self._workers = [_Worker(self.orders) for _ in range(self.n_workers)]
        self._n_dealt += 1
        return self._workers[self._n_dealt % self.n_workers]


class _Here:
    """A Scribe in this process."""

    def __init__(self, orders: Orders) -> None:
        self._scribe = Scribe(orders)

    def read(self, number: int, place: Place) -> Future[Read]:
        return _done(lambda: self._scribe.read(number, place))

    def write(self, number: int, trees: PackedTrees, *, skip: int, is_start: bool) -> Future[Written]:
        return _done(lambda: self._scribe.write(number, trees, skip=skip, is_start=is_start))

    def drop(self, number: int) -> None:
        self._scribe.drop(number)


class _Worker:
    """A Scribe in a process of its own (`worker`), with a thread here that waits for its answers."""

    def __init__(self, orders: Orders) -> None:
        ours = str(Path(__file__).parents[2])  # where this package is, installed or not
        paths = [*(each for each in sys.path if each), ours]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _START, json.dumps(paths)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | _ENVIRONMENT,
        )
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._thread.submit(send, self._pipe("stdin"), asdict(orders))

    def read(self, number: int, place: Place) -> Future[Read]:
        data, line = place.stretch
        asked = {"do": "read", "number": number, "line": line}
        asked |= {"path": place.path, "format": place.format, "to": place.to}

        def ask() -> Read:
            values, arrays = self._ask(asked, {"data": np.frombuffer(data, np.uint8)})
            fault, warning = (cast("TreebankError | None", error_of(values[name])) for name in ("fault", "warning"))
            return Read(Packed(**arrays), fault, warning, values["is_decided"], values["lost"])

        return self._thread.submit(ask)

    def write(self, number: int, trees: PackedTrees, *, skip: int, is_start: bool) -> Future[Written]:
        asked = {"do": "write", "number": number, "skip": skip, "is_start": is_start}

        def ask() -> Written:
            values, arrays = self._ask(asked, vars(trees))
            return Written(as_text(arrays["first"]), as_text(arrays["rest"]), values["gap"])

        return self._thread.submit(ask)

    def drop(self, number: int) -> None:
        self._thread.submit(self._ask, {"do": "drop", "number": number})

    def close(self) -> None:
        """End the process, whatever it is at: it has nothing that could be lost."""
        self._process.kill()
        self._process.wait()
        self._thread.shutdown(cancel_futures=True)
        for name in ("stdin", "stdout"):
            with suppress(OSError):
                self._pipe(name).close()

    def _ask(
        self, asked: Mapping[str, Any], arrays: Arrays | None = None
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        try:
            send(self._pipe("stdin"), asked, arrays)
            values, answer = receive(self._pipe("stdout"))
        except (EOFError, OSError) as error:
            hint = "Is there enough memory? --workers 0 does without it."
            raise TreefineError("A process that reads and writes for the parser has ended.", hint=hint) from error
        if "crash" in values:
            raise RuntimeError(values["crash"])
        return values, answer

    def _pipe(self, name: str) -> IO[bytes]:
        pipe: IO[bytes] = getattr(self._process, name)
        return pipe


def _done(work: Callable[[], Result]) -> Future[Result]:
    future: Future[Result] = Future()
    try:
        future.set_result(work())
    except Exception as error:
        future.set_exception(error)
    return future
