"""Clients of a server on this machine, as light as can be: they share its cores while it is measured.

Each has one connection, which it keeps, and one request under way at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

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
