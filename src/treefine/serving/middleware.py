"""What surrounds every route: limits, errors and their HTTP statuses, metrics, and the gate that requests pass."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from treefine.errors import TreefineError

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
SAFE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
# Of a body that is too large, read and drop up to 32 times the limit: many clients read no answer before they are done.
_DRAIN_FACTOR = 32
_SECONDS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SENTENCES_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class ServerLimits:
    """A request beyond a limit is refused at once with an error, and others are not affected."""

    max_bytes: int = 1_000_000  # in the body of a request: 413
    max_words: int = 1_000  # in a sentence: 413; the time grows with the square of its length
    queue: int = 256  # requests per model that wait or are being parsed: 503
    queue_size: int = 20_000_000  # characters in all these requests: 503
    seconds: float = 60  # from a request that has been read to its answer: 504
    gather: float = 0.003  # seconds that a model waits for one more request to parse with those it has

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value < 0 or (value == 0 and each.name != "gather"):
                raise TreefineError(f"{each.name} is {value}.", hint="Give a number above 0.")


class ServingError(TreefineError):
    """This server does not do what was asked, or not now."""

    status = 400


class UnknownModelError(ServingError):
    """No model of that name is loaded."""

    status = 404

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.models = tuple(known)
        super().__init__(f"There is no model {name[:80]!r} here.", hint=f"Choose {' or '.join(known)}.")


class TooLargeError(ServingError):
    """The request is larger than the server accepts."""

    status = 413


class BusyError(ServingError):
    """The queue is full."""

    status = 503

    def __init__(self, retry_after: int) -> None:
        self.retry_after = retry_after  # seconds
        super().__init__("The queue is full.", hint=f"Ask again in {retry_after} s.")


class TooLateError(ServingError):
    """The request took longer than the server allows."""

    status = 504


def body_too_large(max_bytes: int) -> TooLargeError:
    """Return the error for a body of more bytes than that."""
    hint = "Send the text in several requests, or parse it with `treefine parse`."
    return TooLargeError(f"The request is larger than {max_bytes:,} bytes.", hint=hint)


def error_answer(
    error: TreefineError, *, status: int | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Return the answer for an error: its HTTP status, the message, the hint, and the place where it is known."""
    if isinstance(error, BusyError):
        headers = {"Retry-After": str(error.retry_after)}
    status = status or (error.status if isinstance(error, ServingError) else 400)
    found = {
        "status": status,
        "message": error.message,
        "hint": error.hint or None,
        "line": error.line,
        "sent_id": error.sent_id or None,
        "sentence": error.sentence,
        "word": error.word or None,
        "models": error.models if isinstance(error, UnknownModelError) else None,
    }
    return JSONResponse({"error": {name: each for name, each in found.items() if each is not None}}, status, headers)


class ServerMetrics:
    """The Prometheus metrics of one app; two apps in a process do not share them."""

    CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()

        def counter(name: str, help_text: str, *labels: str) -> Counter:
            return Counter(f"treefine_{name}", help_text, labels, registry=registry)

        def histogram(name: str, help_text: str, label: str, buckets: Sequence[float] = _SECONDS_BUCKETS) -> Histogram:
            return Histogram(f"treefine_{name}", help_text, [label], buckets=buckets, registry=registry)

        self.answers = counter("answers", "Answers by route and HTTP status.", "route", "status")
        self.seconds = histogram("answer_seconds", "From a request to its answer.", "route")
        self.sentences = counter("sentences", "Sentences parsed.", "model")
        self.words = counter("words", "Words parsed.", "model")
        self.queue = Gauge(
            "treefine_open_requests", "Requests that wait or are being parsed.", ["model"], registry=registry
        )
        self.refused = counter("refused", "Requests that found the queue full.", "model")
        self.round_sentences = histogram(
            "round_sentences", "Sentences that were parsed together.", "model", _SENTENCES_BUCKETS
        )
        self.round_seconds = histogram("round_seconds", "How long that took.", "model")

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


class Gate:
    """ASGI middleware that checks hosts and body sizes, adds safe headers, and counts answers."""

    def __init__(
        self, app: ASGIApp, *, limits: ServerLimits, metrics: ServerMetrics, hosts: Collection[str] | None
    ) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics
        self.hosts = None if hosts is None else frozenset(map(host_name, hosts))  # None: any

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the app, or refuse it here."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = perf_counter()
        status = 499  # unless an answer is sent: the client has hung up

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in SAFE_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._pass_on(scope, receive, send_with_headers)
        except ClientDisconnect:  # before its whole body was read; nobody got what may have been sent
            status = 499
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.answers.labels(route, status).inc()
            self.metrics.seconds.labels(route).observe(perf_counter() - started)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if self.hosts is not None and host_name(headers.get("host", "")) not in self.hosts:
            # A page on the web may point a host name of its own at this machine, so only known names are answered.
            hint = "Start the server with --allow-host for other names."
            error = TreefineError("This server does not answer to that host name.", hint=hint)
            await error_answer(error)(scope, receive, send)
            return
        body = _Body(receive, self.limits.max_bytes)
        announced = headers.get("content-length", "0")
        if announced.isdecimal() and int(announced) > self.limits.max_bytes:
            await body.drain()
            await error_answer(body_too_large(self.limits.max_bytes))(scope, receive, send)
            return
        answering = asyncio.ensure_future(self.app(scope, body.receive, send))
        gone = asyncio.ensure_future(body.gone())
        try:
            await asyncio.wait({answering, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():  # the client has hung up, so other requests should not wait behind this one
                answering.cancel()
            with suppress(asyncio.CancelledError):
                await answering
        finally:
            gone.cancel()
            answering.cancel()


class _Body:
    """Count the bytes of a body while it is read."""

    def __init__(self, receive: Receive, max_bytes: int) -> None:
        self._receive, self._max_bytes, self._n_read = receive, max_bytes, 0
        self._has_more = True
        self._is_read = asyncio.Event()

    async def gone(self) -> None:
        """Return once the client has hung up after its whole request was read."""
        await self._is_read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def receive(self) -> Message:
        """Return the next part, or raise an HTTPException, the only kind that FastAPI passes on to our handlers."""
        message = await self._next()
        if self._n_read > self._max_bytes:
            await self.drain()
            raise HTTPException(413)
        return message

    async def drain(self) -> None:
        """Read and drop the rest, up to a multiple of the limit."""
        while self._has_more and self._n_read < self._max_bytes * _DRAIN_FACTOR:
            await self._next()

    async def _next(self) -> Message:
        message = await self._receive()
        self._n_read += len(message.get("body", b""))
        self._has_more = message["type"] == "http.request" and message.get("more_body", False)
        if not self._has_more:
            self._is_read.set()
        return message


def host_name(host: str) -> str:
    """Return the name in a Host header, without the port.

    >>> host_name("LOCALHOST:8080"), host_name("[::1]:80"), host_name("127.0.0.1")
    ('localhost', '[::1]', '127.0.0.1')
    """
    name = host.lower()
    return name[: name.find("]") + 1] if name.startswith("[") else name.partition(":")[0]
