"""`treefine serve` in a process of its own, and clients that are as light as can be: they share its cores.

Each client has one connection, which it keeps, and one request under way at a time. The server can be watched, killed
and started again on the same port.
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

from benchmarks.peers.process import PROC, memory
from benchmarks.rows import ROOT
from treefine import TreefineError

HOST = "127.0.0.1"
PAUSE = 0.1  # seconds before a client that may retry asks again, unless the server says when
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Request:
    """One request, and which of all it is."""

    number: int
    data: bytes  # as it goes through the connection


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, and when."""

    status: int
    headers: Mapping[str, str]  # names in small letters
    body: bytes
    sent: float  # on the clock of time.perf_counter …
    came: float

    @property
    def seconds(self) -> float:
        """The latency."""
        return self.came - self.sent


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a client had to ask again."""

    reason: str  # a status, or the name of an error of the connection
    sent: float
    came: float
    retry_after: str = ""  # what the server said of that


@dataclass
class Outcome:
    """What became of one request."""

    number: int
    answer: Answer | None = None  # the one that the client took for it
    refusals: list[Refusal] = field(default_factory=list)


def post(path: str, body: bytes, *, kind: str = "application/json") -> bytes:
    """A POST request as it goes through a connection."""
    head = f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def get(path: str) -> bytes:
    """A GET request."""
    return f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()


class Connection(asyncio.Protocol):
    """A connection that is kept from request to request."""

    def __init__(self) -> None:
        self.surplus = 0  # bytes that came without a request
        self.is_open = False
        self._received = bytearray()
        self._waiting: asyncio.Future[tuple[int, dict[str, str], bytes]] | None = None

    @classmethod
    async def to(cls, port: int) -> Connection:
        """A new one; an OSError where nobody listens."""
        _, connection = await asyncio.get_running_loop().create_connection(cls, HOST, port)
        return connection

    async def ask(self, data: bytes) -> Answer:
        """The answer; a ConnectionError where none came."""
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
        """Hang up."""
        self.is_open = False
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note where to write to."""
        assert isinstance(transport, asyncio.Transport)
        self._transport, self.is_open = transport, True

    def data_received(self, data: bytes) -> None:
        """Add to the answer, and give it to who waits once it is whole."""
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
        """Tell who waits."""
        self.is_open = False
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionResetError())


async def ask_all(
    port: int, requests: Iterator[Request], *, clients: int, retries: bool = False, give_up: float = 120
) -> tuple[list[Outcome], int]:
    """What became of each request, and the bytes that came without one.

    The clients take the requests from one list, each the next once it has an answer. With `retries` a client asks
    again, for so many seconds, after an error of the connection or a 503; without, it takes what it gets.
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
