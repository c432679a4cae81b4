"""`treefine serve` in a process of its own, which can be watched, killed and started again on the same port."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from benchmarks.http_client import HOST
from benchmarks.peer import PROC, memory
from benchmarks.rows import ROOT
from treefine import TreefineError

START = 120.0  # seconds that a server may take to start on a busy machine


class ServeProcess:
    """A server, while entered."""

    def __init__(self, arguments: Sequence[str], *, threads: int = 2, python: str = sys.executable) -> None:
        self.port = free_port()
        self._command = [python, "-m", "treefine", "serve", "--port", str(self.port), *arguments]
        self._env = os.environ | {"OMP_NUM_THREADS": str(threads)}
        self._said = tempfile.TemporaryFile("a+")  # appended, wherever we read
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> ServeProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()
        self._said.close()

    @property
    def pid(self) -> int:
        """The process' number."""
        assert self._process is not None
        return self._process.pid

    def launch(self) -> None:
        """Start it, and do not wait."""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=self._said, stderr=self._said, text=True, cwd=ROOT,
            env=self._env,
        )  # fmt: skip

    def start(self) -> float:
        """Start it, wait until it answers, and return the seconds that took."""
        started = time.perf_counter()
        self.launch()
        while not self.is_healthy():
            assert self._process is not None
            if self._process.poll() is not None or time.perf_counter() - started > START:
                lines = self.said().strip().splitlines() or ["It said nothing."]
                raise TreefineError("The server did not start.", hint=lines[-1])
            time.sleep(0.05)
        return time.perf_counter() - started

    def is_healthy(self) -> bool:
        """Whether it answers GET /health with 200."""
        return self.get("/health")[0] == 200

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of a GET request; 0 where nobody answers."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def kill(self) -> None:
        """End it at once, with what is under way."""
        self._send(signal.SIGKILL)
        self.wait()

    def terminate(self) -> None:
        """Ask it to end; `wait` says when it has."""
        self._send(signal.SIGTERM)

    def wait(self, seconds: float = 60) -> int:
        """Its exit code, once it has ended."""
        assert self._process is not None
        return self._process.wait(seconds)

    def said(self) -> str:
        """All that it wrote."""
        self._said.seek(0)
        return self._said.read()

    def memory(self) -> float:
        """MiB that it holds now."""
        return memory(self.pid, "VmRSS")

    def processor_seconds(self) -> float:
        """Seconds of the processor that it has used."""
        columns = (PROC / str(self.pid) / "stat").read_text().rpartition(")")[2].split()
        return (int(columns[11]) + int(columns[12])) / os.sysconf("SC_CLK_TCK")

    def _send(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port: int = listener.getsockname()[1]
        return port
