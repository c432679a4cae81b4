"""What processes tell each other over a pipe: plain values as JSON, and arrays as their bytes; nothing is executed."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from treefine import errors
from treefine.errors import TreefineError

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
