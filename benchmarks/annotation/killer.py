"""Kill the server of the studio at random moments, also in the middle of a change, and start it again."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from benchmarks.annotation.screen import StudioProcess
from treefine import TreefineError, read_treebank

INTERVAL = 0.0005  # seconds between two looks at the journal
WAIT = 1.5  # seconds after an input in which its moment comes, or the server is killed anyway
DOWN = 1.5  # seconds that the server is away at most
Moment = Literal["before the input", "after the input", "when the change is recorded", "when the file is written"]
MOMENTS: tuple[Moment, ...] = (
    "before the input",
    "after the input",
    "when the change is recorded",
    "when the file is written",
)


class Killer:
    """Kills the server at some of the annotator's inputs. A thread does it while the page waits for an answer."""

    def __init__(
        self,
        studio: StudioProcess,
        *,
        kills: int,
        inputs: int,
        seed: int,
        wait_for_parser: Callable[[], None] = lambda: None,
    ) -> None:
        self._studio, self._rng, self._wait_for_parser = studio, random.Random(seed), wait_for_parser
        numbers = self._rng.sample(range(inputs), min(kills, inputs))
        self._when = {number: MOMENTS[place % len(MOMENTS)] for place, number in enumerate(numbers)}  # by input
        self._n_inputs = 0
        self._thread: threading.Thread | None = None
        self.moments: Counter[Moment] = Counter()
        self.faults: list[str] = []  # a file that was not a whole treebank, or a server that did not start

    @property
    def n_kills(self) -> int:
        """The number of kills so far."""
        return self.moments.total()

    @property
    def is_at_work(self) -> bool:
        """Whether the server is being killed or started."""
        return self._thread is not None and self._thread.is_alive()

    def before_input(self) -> None:
        """Start a kill, if this input has one. The parser is loaded by then, so that its follow-up is hit as well."""
        moment, self._n_inputs = self._when.get(self._n_inputs), self._n_inputs + 1
        if moment is None:
            return
        self.wait()
        self._wait_for_parser()
        away, delay = self._rng.uniform(0, DOWN), self._rng.uniform(0, 0.5)
        is_second = self._rng.random() < 0.5  # the parser's follow-up is the second change
        wait = self._moment(moment, delay, is_second)
        self.moments[moment] += 1
        if moment == "before the input":
            self._studio.kill()
        self._thread = threading.Thread(target=self._kill, args=(wait, away))
        self._thread.start()

    def wait(self) -> None:
        """Wait until the server is running again."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _moment(self, moment: Moment, delay: float, is_second: bool) -> Callable[[], None]:
        """Return a function that waits for the moment of a kill."""
        path = self._studio.path
        journal = path.with_name(f"{path.name}.annotation") / "journal.jsonl"
        if moment == "before the input":
            return lambda: None
        if moment == "after the input":
            return lambda: time.sleep(delay)
        if moment == "when the change is recorded":
            return lambda: _wait_for_changes(lambda: _count_of(journal, b'"record": "change"'), 2 if is_second else 1)
        return lambda: _wait_for_changes(lambda: _count_of(journal, b'"record": "saving"'), 1)

    def _kill(self, wait: Callable[[], None], away: float) -> None:
        wait()
        self._studio.kill()
        try:
            for _ in read_treebank(self._studio.path):
                pass
        except TreefineError as error:
            self.faults.append(f"the file after a kill: {error}")
        time.sleep(away)
        try:
            self._studio.start()
        except TreefineError as error:
            self.faults.append(str(error))


def _count_of(path: Path, what: bytes) -> int:
    return path.read_bytes().count(what) if path.exists() else 0


def _wait_for_changes(count: Callable[[], int], changes: int) -> None:
    """Wait until a count has grown by this much, or for a while."""
    first, until = count(), time.perf_counter() + WAIT
    while count() < first + changes and time.perf_counter() < until:
        time.sleep(INTERVAL)
