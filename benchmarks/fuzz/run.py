"""Run the fuzzer in worker processes, and note the inputs that crash or hang them."""

from __future__ import annotations

import argparse
import faulthandler
import json
import logging
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import wait
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.options import ROWS_FILE, command, count, option
from benchmarks.rows import save_row
from treefine import TreefineError

HANG_SECONDS = 60.0  # an input that takes longer hangs, also on a busy machine
LAST_INPUT, STACK, TRIED = "last-input.txt", "stack.txt", "tried.jsonl"
RARE = {"info": 0.1, "models": 0.1, "serve": 0.3, "new-recipe": 0.5, "parse": 3.0, "refine": 2.0, "convert": 2.0}
PARSING = ("parse", "refine", "steps", "process")  # routes that read a model are asked more often than the others


@dataclass(frozen=True)
class Tried:
    """One input: its number, the command or route, the kind of fault or an empty string, and what happened."""

    number: int
    kind: str
    fault: str = ""
    message: str = ""
    shown: str = ""  # the input, if it has a fault
    succeeded: bool = False  # exit code 0 or status 200


class Fuzzer:
    """Runs inputs in this process; a seed and a number determine each."""

    def __init__(self, folder: Path, seed: int, only: Sequence[str] = ()) -> None:
        from benchmarks.fuzz import commands, endpoints  # loads torch

        self._commands, self._endpoints = commands, endpoints
        self.folder, self.seed = folder, seed
        self.models = commands.Models(folder / "models")
        self.server = endpoints.Server(self.models)
        weights = {name: RARE.get(name, 1.0) for name in commands.COMMANDS}
        weights |= {route: 1.0 if route.endswith(PARSING) else 0.1 for route in self.server.routes}
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
                self._note(kind, shown := repr(sent))
                answer = self.server.ask(sent)
                fault, succeeded = self._endpoints.check(sent, answer), answer.status == 200
            else:
                call = self._commands.call_of(rng, kind, self.models)
                self._note(kind, shown := repr(call))
                outcome = self._commands.run(call, self.folder / "work")
                fault, succeeded = self._commands.check(call, outcome), outcome.code == 0
        except Exception:
            return Tried(number, kind, "crash", traceback.format_exc()[-3000:], shown)
        if fault is None:
            return Tried(number, kind, succeeded=succeeded)
        return Tried(number, kind, fault.kind, fault.message, shown)

    def _note(self, kind: str, shown: str) -> None:
        """Write the input to a file, from which the parent process reads it if this process hangs or dies."""
        (self.folder / LAST_INPUT).write_text(f"{kind}\n{shown}", errors="replace")


@dataclass(frozen=True)
class Plan:
    """What the workers run: worker w of n runs the inputs w, w + n, w + 2n and so on, until the time is over."""

    seed: int
    only: tuple[str, ...]
    workers: int
    until: float  # of time.monotonic()

    def fuzzer(self, folder: Path) -> Fuzzer:
        """Return a fuzzer that uses one thread and no GPU; the server does not log the requests that it rejects."""
        logging.disable(logging.CRITICAL)
        fuzzer = Fuzzer(folder, self.seed, self.only)
        fuzzer.server.start()
        return fuzzer


def work(plan: Plan, folder: Path, first: int) -> None:
    """Run the inputs of one worker, from the given one. An input that hangs ends the process."""
    fuzzer = plan.fuzzer(folder)
    with (folder / STACK).open("w") as stack, (folder / TRIED).open("a") as tried:
        number = first
        while time.monotonic() < plan.until:
            faulthandler.dump_traceback_later(HANG_SECONDS, exit=True, file=stack)
            tried.write(json.dumps(asdict(fuzzer(number))) + "\n")
            tried.flush()
            number += plan.workers
    faulthandler.cancel_dump_traceback_later()
    os._exit(0)  # threads of the server may still wait


def run_all(plan: Plan, scratch: Path) -> list[Tried]:
    """Run inputs in workers until the time is over; replace a worker that hangs or dies, and skip its input."""
    context = multiprocessing.get_context("spawn")
    running: dict[Any, tuple[Path, Any]] = {}  # by sentinel

    def start(place: int, first: int) -> None:
        folder = scratch / f"{place}-{first}"
        folder.mkdir()
        process = context.Process(target=work, args=(plan, folder, first))
        process.start()
        running[process.sentinel] = (folder, process)

    for place in range(plan.workers):
        start(place, place)
    faults = []
    while running:
        for sentinel in wait([*running]):
            folder, process = running.pop(sentinel)
            process.join()
            if process.exitcode:
                place, first = map(int, folder.name.split("-"))
                lines = folder.joinpath(TRIED).read_text().splitlines() if folder.joinpath(TRIED).exists() else []
                if not (folder / LAST_INPUT).exists():
                    raise TreefineError("A worker could not start; see the messages above.")
                number = first + len(lines) * plan.workers
                kind, _, shown = (folder / LAST_INPUT).read_text().partition("\n")
                stack = (folder / STACK).read_text()
                message = stack[:3000] or f"the process ended with code {process.exitcode}"
                faults.append(Tried(number, kind, "hang" if stack else "crash", message, shown))
                start(place, number + plan.workers)
    lines = [line for path in scratch.glob(f"*/{TRIED}") for line in path.read_text().splitlines()]
    return [*(Tried(**json.loads(line)) for line in lines), *faults]


@command(
    count("--seconds", 600, "how long to run"),
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
    fault is a crash, a run of more than a minute, a lost or changed sentence, a leftover file or an unclear message.
    """
    os.environ.update(OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    only = tuple(filter(None, options.only.split(",")))
    plan = Plan(options.seed, only, options.workers, time.monotonic() + options.seconds)
    with tempfile.TemporaryDirectory() as scratch:
        if options.replay is not None:
            print(plan.fuzzer(Path(scratch))(options.replay))
            os.chdir("/")
            return
        tried = run_all(plan, Path(scratch))
    faults = [each for each in tried if each.fault]
    result = {
        "seconds": options.seconds,
        "inputs": len(tried),
        "inputs_by_kind": dict(sorted(Counter(each.kind for each in tried).items())),
        "succeeded_by_kind": dict(sorted(Counter(each.kind for each in tried if each.succeeded).items())),
        "faults": {kind: sum(each.fault == kind for each in faults) for kind in ("crash", "hang", "lost", "other")},
    }
    config = {"device": "cpu", "seed": options.seed, "workers": options.workers, "only": [*only]}
    save_row("fuzz_inputs", config, result, path=options.rows)
    if faults:
        options.faults.parent.mkdir(parents=True, exist_ok=True)
        options.faults.write_text("".join(json.dumps({"seed": options.seed, **asdict(each)}) + "\n" for each in faults))
        for each in faults[:20]:
            print(f"input {each.number}, {each.kind}: {each.fault}: {each.message[-800:]}", file=sys.stderr)
        hint = f"Repeat one with --seed {options.seed} --replay NUMBER."
        raise TreefineError(f"{len(faults)} inputs had faults; see {options.faults}.", hint=hint)
