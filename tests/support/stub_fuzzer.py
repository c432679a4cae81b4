"""A fuzzer for tests whose inputs end well, hang, or kill their process. It does not load torch."""

import os
from pathlib import Path

from benchmarks.fuzz.run import LAST_INPUT, Tried

HANGS, DIES, FAILS = 1, 2, 4


class StubFuzzer:
    """Runs inputs in a worker process."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def __call__(self, number):
        (self.folder / LAST_INPUT).write_text(f"parse\ninput {number}")
        if number == HANGS:
            while True:
                pass
        if number == DIES:
            os._exit(3)
        return Tried("parse", "lost", "a word") if number == FAILS else Tried("parse")
