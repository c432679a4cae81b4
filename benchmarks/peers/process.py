"""Run a parser in another process on request, and measure its memory."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.rows import ROOT
from treefine import TreefineError

PROC = Path("/proc")


class Peer:
    """A module of `peers`, running in its own Python environment with the code in these folders."""

    def __init__(self, name: str, python: str | Path, module: str, folders: Sequence[Path]) -> None:
        self.name, self.module = name, module
        self.said = tempfile.TemporaryFile("w+")
        env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))}
        try:
            self.process = subprocess.Popen(
                [python, "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.said,
                text=True,
                cwd=ROOT,
                env=env,
            )
        except OSError as error:
            self.said.close()
            raise TreefineError(f"{python}: {error.strerror}.", hint="Name the Python of its venv.") from None

    def ask(self, request: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """Send a request and return the answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps([request, arguments or {}]) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError):  # nothing came back
            self.said.seek(0)
            lines = self.said.read().strip().splitlines() or ["It printed nothing."]
            raise TreefineError(f"{self.name} ended during the request {request}.", hint=lines[-1]) from None

    def peak(self) -> float:
        """Return the peak memory of the process in MiB."""
        return memory(self.process.pid, "VmHWM")

    def close(self) -> None:
        """End the process, if it is still running."""
        if not self.said.closed:
            self.process.communicate()
            self.said.close()


def memory(pid: int, field: str) -> float:
    """Return the current (VmRSS) or peak (VmHWM) memory of a process in MiB; 0 if it is unknown."""
    try:
        found = re.search(rf"{field}:\s+(\d+) kB", (PROC / str(pid) / "status").read_text())
    except OSError:  # it has ended
        return 0.0
    return int(found[1]) / 1024 if found else 0.0


def family(pid: int) -> set[int]:
    """Return the ids of a process and all its descendants."""
    parents = {}
    for path in PROC.glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
    found: set[int] = set()
    new = {pid}
    while new:
        found |= new
        new = {child for child, parent in parents.items() if parent in new} - found
    return found
