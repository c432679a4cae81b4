"""Limits, errors, and what stands before every route: hosts, body sizes, safe headers, counting."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from time import perf_counter
from typing import Any

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from treefine.errors import TreefineError
from treefine.serving.metrics import Metrics


@dataclass(frozen=True)
class Limits:
    """What is more is answered at once, in words, and harms nothing that is under way."""

    max_bytes: int = 1_000_000  # of a request's body: 413
    max_words: int = 1_000  # of a sentence: 413; the time for one grows with the square of its length
    queue: int = 256  # requests that wait for a model or are being parsed: 503
    queue_size: int = 20_000_000  # characters in these requests together: 503
    seconds: float = 60  # from when a request has been read to its answer: 504
    gather: float = 0.003  # seconds that a model waits for one more request to parse together with those it has

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value < 0 or (value == 0 and each.name != "gather"):
                raise TreefineError(f"{each.name} is {value}.", hint="Give a number above 0.")


class ServingError(TreefineError):
    """The request may be right, but this server does not do it, or not now."""

    status = 400


class UnknownModelError(ServingError):
    """No model of that name is loaded."""

    status = 404

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.models = tuple(known)
        super().__init__(f"There is no model {name[:80]!r} here.", hint=f"Choose {' or '.join(known)}.")


class TooLargeError(ServingError):
    """More than the server takes at once."""

    status = 413


class BusyError(ServingError):
    """The queue is full."""

    status = 503

    def __init__(self, retry_after: int) -> None:
        self.retry_after = retry_after  # seconds
        super().__init__("The queue is full.", hint=f"Ask again in {retry_after} s.")


class TooLateError(ServingError):
    """It took longer than the server lets a request take."""

    status = 504


def status_of(error: TreefineError) -> int:
    """The HTTP status that an error is answered with."""
    return error.status if isinstance(error, ServingError) else 400


def error_json(error: TreefineError) -> dict[str, Any]:
    """The error as a client gets it: what is wrong, where, and what to do, as far as that is known."""
    told: dict[str, Any] = {"status": status_of(error), "message": error.message, "hint": error.hint or None}
    told |= {"line": error.line, "sent_id": error.sent_id or None, "sentence": error.sentence}
    told |= {"word": error.word or None}
    if isinstance(error, UnknownModelError):
        told["models"] = list(error.models)
    return {"error": {name: value for name, value in told.items() if value is not None}}


LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
SAFE = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_DRAINED = 32  # times the largest body: so much is read and forgotten, for many clients read no answer before


class Gate:
    """An ASGI app around another."""

    def __init__(self, app: ASGIApp, *, limits: Limits, metrics: Metrics, hosts: Collection[str] | None) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics
        self.hosts = None if hosts is None else frozenset(map(host_name, hosts))  # None: any

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = perf_counter()
        status = 499  # where no answer is sent, for the client has gone

        async def send_safely(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in SAFE.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._let_through(scope, receive, send_safely)
        except ClientDisconnect:  # in the middle of its body; whatever was sent, nobody got it
            status = 499
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.answers.labels(route, status).inc()
            self.metrics.seconds.labels(route).observe(perf_counter() - started)

    async def _let_through(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if self.hosts is not None and host_name(headers.get("host", "")) not in self.hosts:
            # A page elsewhere may have its own name lead to this machine: only names that are ours are answered.
            hint = "Start the server with --allow-host for other names."
            await _refuse(TreefineError("This server does not answer to that host name.", hint=hint), send)
            return
        body = _Body(receive, self.limits.max_bytes)
        if body.is_too_long(headers.get("content-length", "0")):
            await body.drain()
            await _refuse(too_large(self.limits.max_bytes), send)
            return
        answering = asyncio.ensure_future(self.app(scope, body.receive, send))
        gone = asyncio.ensure_future(body.gone())
        try:
            await asyncio.wait({answering, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():  # nobody waits for the answer any more, so nobody should wait behind it
                answering.cancel()
            with suppress(asyncio.CancelledError):
                await answering
        finally:
            gone.cancel()
            answering.cancel()


class _Body:
    """A body that is counted while it is read."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._most, self._n_read = receive, most, 0
        self._has_more = True
        self._is_read = asyncio.Event()

    async def gone(self) -> None:
        """Return once the client has gone, after its whole request was read."""
        await self._is_read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def is_too_long(self, announced: str) -> bool:
        """Whether its length, as the header tells it, is too much."""
        return announced.isdecimal() and int(announced) > self._most

    async def receive(self) -> Message:
        """Its next part; FastAPI lets no other exception through to us than its own."""
        message = await self._next()
        if self._n_read > self._most:
            await self.drain()
            raise HTTPException(413)
        return message

    async def drain(self) -> None:
        """Read the rest, as far as that is bearable."""
        while self._has_more and self._n_read < self._most * _DRAINED:
            await self._next()

    async def _next(self) -> Message:
        message = await self._receive()
        self._n_read += len(message.get("body", b""))
        self._has_more = message["type"] == "http.request" and message.get("more_body", False)
        if not self._has_more:
            self._is_read.set()
        return message


def too_large(most: int) -> TooLargeError:
    """What is told of a body that is longer than it may be."""
    hint = "Send the text in several requests, or parse it with `treefine parse`."
    return TooLargeError(f"The request is larger than {most:,} bytes.", hint=hint)


def host_name(host: str) -> str:
    """The name in a Host header, without the port.

    >>> host_name("LOCALHOST:8080"), host_name("[::1]:80"), host_name("127.0.0.1")
    ('localhost', '[::1]', '127.0.0.1')
    """
    name = host.lower()
    return name[: name.find("]") + 1] if name.startswith("[") else name.partition(":")[0]


async def _refuse(error: TreefineError, send: Send) -> None:
    body = json.dumps(error_json(error)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status_of(error), "headers": headers})
    await send({"type": "http.response.body", "body": body})
