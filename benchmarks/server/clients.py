"""Run `treefine serve` in a process of its own, with clients that repeat what failed.

Each client keeps one connection and sends one request at a time. The server can be watched, killed and restarted on the
same port.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.peers.process import PROC, family, memory
from benchmarks.rows import ROOT
from treefine import TreefineError

HOST = "127.0.0.1"
PAUSE = 0.1  # seconds before a client tries again, unless the server says when
START = 120.0  # seconds: how long a server may take to start on a busy machine


@dataclass
class Answer:
    """The last answer to a request, and why earlier attempts failed: a status, or the name of a connection error."""

    number: int  # of the request
    status: int = 0  # 0: no answer
    body: bytes = b""
    seconds: float = 0.0  # of the last attempt
    came: float = 0.0  # time.perf_counter()
    refusals: Counter[str] = field(default_factory=Counter)
    without_retry_after: int = 0  # answers with 503 that do not say when to try again


def post(path: str, body: bytes, *, kind: str = "application/json") -> bytes:
    """Return the bytes of a POST request."""
    head = f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def ask_all(
    port: int, requests: Iterator[tuple[int, bytes]], *, clients: int, retries: bool = False, give_up: float = 120
) -> list[Answer]:
    """Send all numbered requests; return the answer to each.

    Each client takes the next request once it has an answer. With `retries`, a client tries again after a connection
    error or a 503, for `give_up` seconds.
    """
    answers: list[Answer] = []

    async def client() -> None:
        reader: asyncio.StreamReader | None = None
        writer: asyncio.StreamWriter | None = None
        for number, data in requests:
            answer = Answer(number)
            answers.append(answer)
            until = time.perf_counter() + give_up
            while True:
                sent, pause = time.perf_counter(), PAUSE
                try:
                    if reader is None or writer is None:
                        reader, writer = await asyncio.open_connection(HOST, port)
                    writer.write(data)
                    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                    first, *lines = head.split("\r\n")
                    headers = dict(line.split(": ", 1) for line in lines if ": " in line)
                    answer.body = await reader.readexactly(int(headers["content-length"]))
                    answer.status, answer.came = int(first.split()[1]), time.perf_counter()
                    answer.seconds = answer.came - sent
                    if headers.get("connection") == "close":
                        writer.close()
                        reader = writer = None
                    if answer.status != 503 or not retries:
                        break
                    answer.refusals["503"] += 1
                    answer.without_retry_after += "retry-after" not in headers
                    pause = float(headers.get("retry-after", PAUSE))
                except (OSError, EOFError) as error:
                    answer.refusals[type(error).__name__] += 1
                    if writer is not None:
                        writer.close()
                    reader = writer = None
                if not retries or time.perf_counter() > until:
                    break
                await asyncio.sleep(pause)
        if writer is not None:
            writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return answers


class ServeProcess:
    """A context manager that runs a server."""

    def __init__(self, arguments: Sequence[str], *, threads: int = 2) -> None:
        with socket.socket() as listener:
            listener.bind((HOST, 0))
            self.port: int = listener.getsockname()[1]
        self._command = [sys.executable, "-m", "treefine", "serve", "--port", str(self.port), *arguments]
        self._env = os.environ | {"OMP_NUM_THREADS": str(threads)}
        self._log = tempfile.TemporaryFile("a+")  # append mode: reading must not move the place of writing
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> ServeProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop(signal.SIGKILL)
        self._log.close()

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        until = time.perf_counter() + START
        self.process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, text=True, cwd=ROOT,
            env=self._env,
        )  # fmt: skip
        while self.get("/health")[0] != 200:
            if self.process.poll() is not None or time.perf_counter() > until:
                self._log.seek(0)
                lines = self._log.read().strip().splitlines() or ["It printed nothing."]
                raise TreefineError("The server did not start.", hint=lines[-1])
            time.sleep(0.05)

    def get(self, path: str) -> tuple[int, str]:
        """Return the status and text of a GET request; the status is 0 if there is no answer."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def send(self, number: int) -> None:
        """Send a signal to the server."""
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self) -> int:
        """Wait for the end of the process, and return its exit code."""
        assert self.process is not None
        return self.process.wait(60)

    def stop(self, number: int) -> int:
        """Send a signal, wait for the end of the process, and return its exit code."""
        self.send(number)
        return self.wait()

    def memory(self) -> float:
        """Return the memory of the server and its workers in MiB; what they share counts several times."""
        return sum(memory(pid, "VmRSS") for pid in self._pids())

    def processor_seconds(self) -> float:
        """Return the CPU seconds that the server and its workers have used."""
        stats = [(PROC / str(pid) / "stat").read_text().rpartition(")")[2].split() for pid in self._pids()]
        return sum(int(columns[11]) + int(columns[12]) for columns in stats) / os.sysconf("SC_CLK_TCK")

    def _pids(self) -> set[int]:
        assert self.process is not None
        return family(self.process.pid)
