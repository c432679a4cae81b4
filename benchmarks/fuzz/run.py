"""Run the fuzzer in worker processes, watch them for crashes and hangs, and show the result as a table."""

from __future__ import annotations

import argparse
import faulthandler
import json
import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks.options import ROWS_FILE, command, count, option
from benchmarks.rows import save_row
from treefine import TreefineError

COMMAND = "python -m benchmarks fuzz_inputs"
FAULTS = {"crash": "crashes", "hang": "hangs", "lost": "lost or changed sentences", "other": "other faults"}
LAST_INPUT, STACK = "last-input.txt", "stack.txt"
PATIENCE = 5  # times the limit that a process may wait for a core
START_SECONDS = 120  # for a worker to load torch on a busy machine
RARE = {"info": 0.1, "models": 0.1, "serve": 0.3, "new-recipe": 0.5, "parse": 3.0, "refine": 2.0, "convert": 2.0}
PARSING = ("parse", "refine", "steps", "process")  # routes that read a model are asked more often than the others


class Tried(NamedTuple):
    """One input: the command or route, the kind of fault or an empty string, what happened, and the input."""

    kind: str
    fault: str = ""
    message: str = ""
    shown: str = ""
    succeeded: bool = False  # exit code 0 or status 200


Attempt = Callable[[int], Tried]


class Fuzzer:
    """Runs inputs in this process; a seed and a number determine each."""

    def __init__(self, folder: Path, seed: int, only: Sequence[str] = ()) -> None:
        from benchmarks.fuzz import commands, endpoints  # loads torch

        self._commands, self._endpoints = commands, endpoints
        self.folder, self.seed = folder, seed
        self.models = commands.Models(folder / "models")
        self.server = endpoints.Server(self.models)
        weights = {name: RARE.get(name, 1.0) for name in commands.COMMANDS}
        for route in self.server.routes:
            weights[route] = 1.0 if route.endswith(PARSING) else 0.1
        self.weights = {name: each for name, each in weights.items() if not only or name in only}
        if not self.weights:
            raise TreefineError("--only names no command or route.", hint=f"Choose from {', '.join(weights)}.")

    def __call__(self, number: int) -> Tried:
        """Run the input with this number."""
        rng = Random(f"{self.seed}/{number}")
        kind = rng.choices([*self.weights], [*self.weights.values()])[0]
        shown = ""
        try:
            if " " in kind:
                sent = self._endpoints.request_for(rng, kind)
                self._save(kind, shown := repr(sent))
                answer = self.server.ask(sent)
                fault, succeeded = self._endpoints.check(sent, answer), answer.status == 200
            else:
                call = self._commands.call_of(rng, kind, self.models)
                self._save(kind, shown := repr(call))
                outcome = self._commands.run(call, self.folder / "work")
                fault, succeeded = self._commands.check(call, outcome), outcome.code == 0
        except Exception:
            return Tried(kind, "crash", traceback.format_exc()[-3000:], shown)
        return Tried(kind, succeeded=succeeded) if fault is None else Tried(kind, fault.kind, fault.message, shown)

    def _save(self, kind: str, shown: str) -> None:
        """Write the input to a file, from which the parent process reads it if this process hangs or dies."""
        (self.folder / LAST_INPUT).write_text(f"{kind}\n{shown}", errors="replace")


@dataclass
class Found:
    """The inputs of a run by kind, and its faults, each with its number."""

    inputs: Counter[str] = field(default_factory=Counter)
    succeeded: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[int, Tried]] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, number: int, tried: Tried) -> None:
        """Count an input, and keep it if it has a fault."""
        self.inputs[tried.kind] += 1
        self.succeeded[tried.kind] += tried.succeeded
        if tried.fault:
            self.faults.append((number, tried))

    @property
    def counts(self) -> dict[str, int]:
        """The number of faults of each kind."""
        return {name: sum(tried.fault == name for _, tried in self.faults) for name in FAULTS}


@dataclass(frozen=True)
class Plan:
    """The time and the number of processes of a run; worker w of n runs the inputs w, w + n, w + 2n and so on."""

    seconds: float
    workers: int
    most: int = 0  # number of inputs; 0: no limit
    hang_seconds: float = 10.0


class _Clock:
    """A clock that stands still while this process is stopped, together with its workers."""

    def __init__(self) -> None:
        self.now, self._last = 0.0, time.monotonic()

    def tick(self) -> None:
        """Advance by the time since the last call, at most one second."""
        last, self._last = self._last, time.monotonic()
        self.now += min(self._last - last, 1.0)


class _Worker:
    """A process that runs inputs, from the given one."""

    def __init__(self, start: Callable[[str], Attempt], first: int, plan: Plan, clock: _Clock) -> None:
        context = multiprocessing.get_context("spawn")
        self.reader, writer = context.Pipe(duplex=False)
        self.folder = tempfile.TemporaryDirectory(prefix="fuzz-")
        arguments = (start, self.folder.name, first, plan, writer)
        self.process = context.Process(target=_work, args=arguments, daemon=True)
        self.process.start()
        writer.close()
        self.clock, self.number, self._cpu_before = clock, first, 0.0
        self.deadline = clock.now + START_SECONDS

    def begin(self, number: int, plan: Plan) -> None:
        """Note that an input starts."""
        self.number, self.deadline = number, self.clock.now + plan.hang_seconds
        self._cpu_before = _cpu_seconds(self.process.pid)

    def is_stuck(self, plan: Plan) -> bool:
        """Return whether the input took that time on a core, or stood still for many times as long.

        On a busy machine, an input can take longer because the process waits for a core.
        """
        used = _cpu_seconds(self.process.pid) - self._cpu_before
        late = self.clock.now - self.deadline
        return used > plan.hang_seconds / 2 or late > PATIENCE * plan.hang_seconds

    def stack(self) -> str:
        """Return where the process is now."""
        os.kill(self.process.pid or 0, signal.SIGUSR1)
        time.sleep(0.2)
        path = Path(self.folder.name, STACK)
        return (
            path.read_text().rpartition("Current thread")[2][:2000] if path.exists() else ""
        )  # the last call is first

    def end(self) -> None:
        """Kill the process and remove its files."""
        self.process.kill()
        self.process.join()
        self.reader.close()
        self.folder.cleanup()


def _work(start: Callable[[str], Attempt], folder: str, first: int, plan: Plan, writer: Connection) -> None:
    """Report the number of each input before it runs, and what happened afterwards."""
    with Path(folder, STACK).open("w") as file:
        faulthandler.register(signal.SIGUSR1, file)
        _run_all(start(folder), first, plan, writer)


def _run_all(attempt: Attempt, first: int, plan: Plan, writer: Connection) -> None:
    number = first
    while not plan.most or number < plan.most:
        writer.send(number)
        writer.send(attempt(number))
        number += plan.workers
    writer.send(None)


def _cpu_seconds(pid: int | None) -> float:
    """Return the time that a process has spent on cores."""
    try:
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:
        return 0.0
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def watch(start: Callable[[str], Attempt], plan: Plan) -> Found:
    """Run inputs in workers until the time is over; replace a worker that hangs or dies, and skip its input."""
    found, clock = Found(), _Clock()
    workers = [_Worker(start, number, plan, clock) for number in range(plan.workers)]
    try:
        while workers and clock.now < plan.seconds:
            clock.tick()
            ready = wait([each.reader for each in workers], timeout=0.2)
            for place, each in enumerate(list(workers)):
                if each.reader in ready:
                    try:
                        message = each.reader.recv()
                    except (EOFError, OSError):
                        each.process.join()
                        message = f"the process ended with code {each.process.exitcode}"
                        _replace(workers, place, "crash", message, found, start, plan)
                        continue
                    if isinstance(message, int):
                        each.begin(message, plan)
                    elif message is None:
                        each.deadline = float("inf")
                        each.number = -1
                    else:
                        found.add(each.number, message)
                elif clock.now > each.deadline and each.is_stuck(plan):
                    message = f"no result after {plan.hang_seconds:g} s\n{each.stack()}"
                    _replace(workers, place, "hang", message, found, start, plan)
            for each in [each for each in workers if each.number < 0]:
                each.end()
                workers.remove(each)
    finally:
        for each in workers:
            each.end()
    found.seconds = clock.now
    return found


def _replace(
    workers: list[_Worker],
    place: int,
    fault: str,
    message: str,
    found: Found,
    start: Callable[[str], Attempt],
    plan: Plan,
) -> None:
    number, last = workers[place].number, Path(workers[place].folder.name, LAST_INPUT)
    kind, _, shown = (last.read_text(errors="replace") if last.exists() else "").partition("\n")
    workers[place].end()
    found.add(number, Tried(kind, fault, message, shown))
    workers[place] = _Worker(start, number + plan.workers, plan, workers[place].clock)


@dataclass(frozen=True)
class _Start:
    """Creates the fuzzer of a worker process."""

    seed: int
    only: tuple[str, ...]

    def __call__(self, folder: str) -> Attempt:
        logging.disable(logging.CRITICAL)  # the server logs the requests that it rejects
        fuzzer = Fuzzer(Path(folder), self.seed, self.only)
        fuzzer.server.start()
        return fuzzer


def _offline() -> None:
    """Let workers use one thread each, no GPU and no network."""
    os.environ.update(OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")


@command(
    count("--seconds", 600, "how long to run"),
    count("--inputs", 0, "stop after this many inputs; 0: no limit"),
    count("--workers", os.cpu_count() or 1, "number of processes"),
    count("--seed", 1, "random seed"),
    option("--only", default="", help="commands and routes, separated by commas: parse,POST /v1/parse (default: all)"),
    option("--replay", type=int, help="run only the input with this number, in this process, and show it"),
    option("--faults", type=Path, default=Path("scratch", "faults.jsonl"), help="file for the inputs with faults"),
    ROWS_FILE,
)
def measure_fuzz_inputs(options: argparse.Namespace) -> None:
    """Run every command and route on generated inputs; write one row, and exit with 1 if there is a fault.

    python -m benchmarks fuzz_inputs --seconds 600 --workers 16
    python -m benchmarks fuzz_inputs --seconds 20 --only parse,convert --rows scratch/rows.jsonl     # a trial run
    python -m benchmarks fuzz_inputs --seed 1 --replay 4711

    An input is a call with random options on generated texts, treebanks, recipes and model folders, or a request. A
    fault is a crash, a run of more than 10 s, a lost or changed sentence, a leftover file or an unclear message.
    """
    _offline()
    start = _Start(options.seed, tuple(filter(None, options.only.split(","))))
    if options.replay is not None:
        with tempfile.TemporaryDirectory() as folder:
            fuzzer = start(folder)
            print(fuzzer(options.replay))
            os.chdir("/")
        return
    found = watch(start, Plan(options.seconds, options.workers, options.inputs))
    config = {"device": "cpu", "seed": options.seed, "workers": options.workers, "only": [*start.only]}
    result = {
        "seconds": round(found.seconds),
        "inputs": found.inputs.total(),
        "inputs_by_kind": dict(sorted(found.inputs.items())),
        "succeeded_by_kind": dict(sorted(found.succeeded.items())),
        "faults": found.counts,
    }
    save_row("fuzz_inputs", config, result, path=options.rows)
    if found.faults:
        options.faults.parent.mkdir(parents=True, exist_ok=True)
        lines = [
            json.dumps({"seed": options.seed, "number": number, **each._asdict()}) for number, each in found.faults
        ]
        options.faults.write_text("\n".join([*lines, ""]))
        for number, each in found.faults[:20]:
            print(f"input {number}, {each.kind}: {each.fault}: {each.message[-800:]}", file=sys.stderr)
        hint = f"Repeat one with --seed {options.seed} --replay NUMBER."
        raise TreefineError(f"{len(found.faults)} inputs had faults; see {options.faults}.", hint=hint)
