"""Run `treefine serve` in a separate process, with clients that use little CPU time because they share its cores.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.peers.process import PROC, family, memory
from benchmarks.rows import ROOT
from treefine import TreefineError

HOST = "127.0.0.1"
PAUSE = 0.1  # seconds before a client retries, unless the server says when
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Request:
    """One request and its number."""

    number: int
    data: bytes  # the request as sent


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, and when it came."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes
    sent: float  # time.perf_counter() when the request was sent, …
    came: float  # … and when the answer was complete

    @property
    def seconds(self) -> float:
        """The latency in seconds."""
        return self.came - self.sent


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a client had to retry."""

    reason: str  # a status, or the name of a connection error
    sent: float
    came: float
    retry_after: str = ""  # the Retry-After header


@dataclass
class Outcome:
    """The result of one request."""

    number: int
    answer: Answer | None = None  # None if there was no answer
    refusals: list[Refusal] = field(default_factory=list)


def post(path: str, body: bytes, *, kind: str = "application/json") -> bytes:
    """Return the bytes of a POST request."""
    head = f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def get(path: str) -> bytes:
    """Return the bytes of a GET request."""
    return f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()


class Connection(asyncio.Protocol):
    """A connection that stays open between requests."""

    def __init__(self) -> None:
        self.surplus = 0  # bytes received without a request
        self.is_open = False
        self._received = bytearray()
        self._waiting: asyncio.Future[tuple[int, dict[str, str], bytes]] | None = None

    @classmethod
    async def to(cls, port: int) -> Connection:
        """Open a connection; raise an OSError if nothing listens on the port."""
        _, connection = await asyncio.get_running_loop().create_connection(cls, HOST, port)
        return connection

    async def ask(self, data: bytes) -> Answer:
        """Return the answer; raise a ConnectionError if the connection is lost."""
        if not self.is_open:
            raise ConnectionResetError
        self._waiting = asyncio.get_running_loop().create_future()
        sent = time.perf_counter()
        self._transport.write(data)
        try:
            status, headers, body = await self._waiting
        finally:
            self._waiting = None
        if headers.get("connection", "").lower() == "close":
            self.close()
        return Answer(status, headers, body, sent, time.perf_counter())

    def close(self) -> None:
        """Close the connection."""
        self.is_open = False
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport, self.is_open = transport, True

    def data_received(self, data: bytes) -> None:
        """Collect the answer, and set the result of the waiting future when it is complete."""
        if self._waiting is None or self._waiting.done():
            self.surplus += len(data)
            return
        self._received += data
        head, gap, rest = bytes(self._received).partition(b"\r\n\r\n")
        if not gap:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = int(headers["content-length"])
        if len(rest) >= size:
            self.surplus += len(rest) - size
            self._received.clear()
            self._waiting.set_result((int(first.split()[1]), headers, rest[:size]))

    def connection_lost(self, error: Exception | None) -> None:
        """Raise an error in the waiting future."""
        self.is_open = False
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionResetError())


async def ask_all(
    port: int, requests: Iterator[Request], *, clients: int, retries: bool = False, give_up: float = 120
) -> tuple[list[Outcome], int]:
    """Send all requests; return the outcome of each, and the number of bytes received without a request.

    Each client takes the next request once it has an answer. With `retries`, a client retries after a connection error
    or a 503 for `give_up` seconds.
    """
    outcomes: list[Outcome] = []
    surplus = 0

    async def client() -> None:
        nonlocal surplus
        connection: Connection | None = None
        for request in requests:
            outcome = Outcome(request.number)
            outcomes.append(outcome)
            until = time.perf_counter() + give_up
            while outcome.answer is None:
                sent = time.perf_counter()
                try:
                    if connection is None or not connection.is_open:
                        connection = await Connection.to(port)
                    answer = await connection.ask(request.data)
                except OSError as error:
                    refusal = Refusal(type(error).__name__, sent, time.perf_counter())
                else:
                    if not retries or answer.status != 503:
                        outcome.answer = answer
                        break
                    refusal = Refusal("503", sent, answer.came, answer.headers.get("retry-after", ""))
                outcome.refusals.append(refusal)
                if not retries or time.perf_counter() > until:
                    break
                await asyncio.sleep(float(refusal.retry_after or PAUSE))
        if connection is not None:
            surplus += connection.surplus
            connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return outcomes, surplus


START = 120.0  # seconds: how long a server may take to start on a busy machine


class ServeProcess:
    """A context manager that runs a server."""

    def __init__(self, arguments: Sequence[str], *, threads: int = 2, python: str = sys.executable) -> None:
        self.port = free_port()
        self._command = [python, "-m", "treefine", "serve", "--port", str(self.port), *arguments]
        self._env = os.environ | {"OMP_NUM_THREADS": str(threads)}
        self._said = tempfile.TemporaryFile("a+")  # append mode: reading must not move the place of writing
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
        """The process id."""
        assert self._process is not None
        return self._process.pid

    def launch(self) -> None:
        """Start the server without waiting for it."""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=self._said, stderr=self._said, text=True, cwd=ROOT,
            env=self._env,
        )  # fmt: skip

    def start(self) -> float:
        """Start the server, wait until it answers, and return the seconds."""
        started = time.perf_counter()
        self.launch()
        while not self.is_healthy():
            assert self._process is not None
            if self._process.poll() is not None or time.perf_counter() - started > START:
                lines = self.said().strip().splitlines() or ["It printed nothing."]
                raise TreefineError("The server did not start.", hint=lines[-1])
            time.sleep(0.05)
        return time.perf_counter() - started

    def is_healthy(self) -> bool:
        """Return whether GET /health is answered with 200."""
        return self.get("/health")[0] == 200

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

    def kill(self) -> None:
        """Kill the server at once, with all requests in progress."""
        self._send(signal.SIGKILL)
        self.wait()

    def terminate(self) -> None:
        """Send SIGTERM; call `wait` to wait for the end."""
        self._send(signal.SIGTERM)

    def wait(self, seconds: float = 60) -> int:
        """Wait for the end of the process and return its exit code."""
        assert self._process is not None
        return self._process.wait(seconds)

    def said(self) -> str:
        """Return everything that the server printed."""
        self._said.seek(0)
        return self._said.read()

    def memory(self) -> float:
        """Return the memory of the server and its workers in MiB; what they share counts several times."""
        return sum(memory(pid, "VmRSS") for pid in family(self.pid))

    def processor_seconds(self) -> float:
        """Return the CPU seconds that the server and its workers have used."""
        found = [(PROC / str(pid) / "stat").read_text().rpartition(")")[2].split() for pid in family(self.pid)]
        return sum(int(columns[11]) + int(columns[12]) for columns in found) / os.sysconf("SC_CLK_TCK")

    def _send(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)


def free_port() -> int:
    """Return a port that is free."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port: int = listener.getsockname()[1]
        return port
