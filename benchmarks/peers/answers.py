"""Define the protocol for parsers in other processes.

Each line of standard input is a request in JSON, answered by a line in JSON. The first one, "build", returns the
versions of packages; the others are those that the parser defines.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any

# Paths of a user from an input to a result. The names stand in rows.
RUNNING = "running text"
RUNNING_PIPE = "running text, pipe"
FIVE = "documents of five sentences"
WORDS = "words to parses"
TREES = "words to trees"
ONE_PASS = "words to trees, one pass"
SEGMENT = "segmenter"
SHORT_TEXT = "one short text"
SHORT_SENTENCE = "one short sentence of words"
ONES_PIPE = "one-sentence texts, pipe"
ONES_LINES = "one-sentence texts, one text of lines"
ONES_WORDS = "one-sentence texts, words"
MULTI = "seven languages"

Requests = Mapping[str, Callable[..., Any]]


def timed(work: Callable[[], object]) -> dict[str, float]:
    """Return the seconds of one call, and the CPU seconds of this process in it."""
    gc.collect()
    started, before = time.perf_counter(), time.process_time()
    result = work()
    seconds, processor = time.perf_counter() - started, time.process_time() - before
    del result  # after the time was read
    return {"seconds": seconds, "processor_seconds": processor}


def answer(build: Callable[..., Requests], packages: Sequence[str]) -> None:
    """Answer requests until standard input ends. Output of libraries goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    requests: Requests = {}
    for line in sys.stdin:
        name, arguments = json.loads(line)
        result: Any
        if name == "build":
            requests = build(**arguments)
            result = {package: metadata.version(package) for package in packages}
        else:
            result = requests[name](**arguments)
        answers.write(json.dumps(result) + "\n")
        answers.flush()
