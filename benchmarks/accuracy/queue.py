"""Run a list of commands, several at a time, within a time limit; a second run continues the list."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.options import command, count, option
from benchmarks.rows import read_rows
from treefine import TreefineError

PAUSE = 0.2  # seconds between two looks at the running jobs


@dataclass(frozen=True)
class Job:
    """One command line that writes a row for each of its seeds, and its estimated seconds."""

    arguments: tuple[str, ...]
    seconds: float

    @property
    def rows(self) -> Path:
        """The file that the rows are written to; each job has its own."""
        return Path(self.arguments[self.arguments.index("--rows") + 1])

    @property
    def name(self) -> str:
        """The name of the job, and of its log."""
        return self.rows.stem

    @property
    def is_done(self) -> bool:
        """Whether the file of rows has a row for each seed."""
        after = self.arguments[self.arguments.index("--seeds") + 1 :]
        n_seeds = next((number for number, each in enumerate(after) if not each.isdigit()), len(after))
        return len(read_rows(self.arguments[3], path=self.rows)) >= n_seeds


def read_job(line: str) -> Job:
    """Read a line such as `python -m benchmarks accuracy en --seeds 1 --rows a.jsonl … # 40 s`."""
    found = re.fullmatch(r"(.*\S)\s+# (\d+) s", line.strip())
    arguments = shlex.split(found[1]) if found else []
    if found is None or arguments[:3] != ["python", "-m", "benchmarks"] or not {"--rows", "--seeds"} <= {*arguments}:
        hint = "Write `python -m benchmarks accuracy … --seeds 1 --rows FILE # SECONDS s`."
        raise TreefineError(f"This is not a job: {line.strip()}", hint=hint)
    return Job(tuple(arguments), float(found[2]))


@command(
    option("jobs", type=Path, help="file with one command per line"),
    count("--at-once", 14, "number of jobs that run at the same time"),
    option("--minutes", type=float, required=True, help="time limit; jobs that still run are then killed"),
    option("--logs", type=Path, required=True, help="folder for the output of each job"),
)
def measure_queue(options: argparse.Namespace) -> None:
    """Run the jobs of a list, except those whose rows exist, until all are done or the time is over.

    python -m benchmarks refinement jobs > jobs.txt
    python -m benchmarks queue jobs.txt --at-once 14 --minutes 9 --logs logs
    """
    jobs = [read_job(line) for line in options.jobs.read_text().splitlines() if line.strip()]
    for line in run_jobs(jobs, at_once=options.at_once, seconds=60 * options.minutes, logs=options.logs):
        print(line, flush=True)


@dataclass(frozen=True)
class _Running:
    job: Job
    process: subprocess.Popen[bytes]
    since: float


def run_jobs(
    jobs: Sequence[Job],
    *,
    at_once: int,
    seconds: float,
    logs: Path,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[str]:
    """Run the jobs in order, and yield a line of text for each that ends.

    A job starts only if it can end in the time left. If jobs take longer than estimated, later estimates are
    multiplied by the median of the real over the estimated time.
    """
    end = clock() + seconds
    waiting = [job for job in jobs if not job.is_done]
    yield f"{len(jobs) - len(waiting)} of {len(jobs)} jobs were done before."
    running: list[_Running] = []
    paces: list[float] = []
    logs.mkdir(parents=True, exist_ok=True)
    try:
        while running or waiting:
            pace = max(1.0, median(paces)) if paces else 1.0
            while len(running) < at_once:
                left = end - clock()
                job = next((each for each in waiting if each.seconds * pace <= left), None)
                if job is None:
                    break
                waiting.remove(job)
                running.append(_Running(job, _start(job, logs), clock()))
            if not running:
                break
            time.sleep(PAUSE)
            if clock() >= end:
                break
            for each in [one for one in running if one.process.poll() is not None]:
                running.remove(each)
                took = clock() - each.since
                is_done = each.process.returncode == 0 and each.job.is_done
                if is_done:
                    paces.append(took / max(1.0, each.job.seconds))
                state = "done" if is_done else f"FAILED ({each.process.returncode}), see its log"
                counts = f"{len(running)} running, {len(waiting)} waiting"
                yield f"{each.job.name}: {state}, {took:.0f} s of {each.job.seconds:.0f} s; {counts}"
    finally:
        for each in running:
            _kill(each.process)
    for each in running:
        yield f"{each.job.name}: killed at the time limit"
    n_done = sum(job.is_done for job in jobs)
    yield f"{n_done} of {len(jobs)} jobs are done; {len(waiting)} were not started."


def _start(job: Job, logs: Path) -> subprocess.Popen[bytes]:
    """Start a job in its own process group, so that its children can be killed with it."""
    with (logs / f"{job.name}.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, *job.arguments[1:]],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
