"""A process that reads, tokenises and writes for another, which starts it (`pool`).

It does what a Scribe does, and loads no torch. Its orders, and then what it is asked for, come over standard input; it
ends when that does, and so with the process that started it.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from treefine.fast.packed import PackedTrees
from treefine.fast.pool import Arrays, as_array, error_values, receive, send
from treefine.fast.scribe import Orders, Place, Scribe
from treefine.treebank.conllu import Stretch

Reply = tuple[dict[str, Any], Arrays]


def main() -> None:
    """Answer until nobody asks any more."""
    asked, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library may print must not get between the answers
    with suppress(EOFError, BrokenPipeError):
        orders, _ = receive(asked)
        scribe = Scribe(Orders(**orders))
        while True:
            values, arrays = receive(asked)
            try:
                answer = _DO[values.pop("do")](scribe, values, arrays)
            except Exception:
                answer = {"crash": traceback.format_exc()}, {}
            send(answers, *answer)


def _read(scribe: Scribe, values: dict[str, Any], arrays: dict[str, np.ndarray]) -> Reply:
    stretch = Stretch(arrays["data"].tobytes(), values["line"])
    read = scribe.read(values["number"], Place(stretch, values["path"], values["format"], values["to"]))
    told = {"fault": error_values(read.fault), "warning": error_values(read.warning)}
    return told | {"is_decided": read.is_decided, "lost": read.lost}, vars(read.packed)


def _write(scribe: Scribe, values: dict[str, Any], arrays: dict[str, np.ndarray]) -> Reply:
    written = scribe.write(trees=PackedTrees(**arrays), **values)
    return {"gap": written.gap}, {"first": as_array(written.first), "rest": as_array(written.rest)}


def _drop(scribe: Scribe, values: dict[str, Any], arrays: dict[str, np.ndarray]) -> Reply:
    scribe.drop(values["number"])
    return {}, {}


_DO: dict[str, Callable[[Scribe, dict[str, Any], dict[str, np.ndarray]], Reply]] = {
    "read": _read,
    "write": _write,
    "drop": _drop,
}
