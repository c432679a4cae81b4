"""Middleware and error responses that protect an app. This module does not import torch or a model.

An app other than `create_app` gets the same protection with `app.add_middleware(Gate, limits=…, hosts=…, origins=…)`
and `add_error_handlers(app)`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from treefine.errors import TreefineError
from treefine.serving.limits import (
    BusyError,
    ServerLimits,
    ServingError,
    TooLargeError,
    TooSlowError,
    UnknownModelError,
)

if TYPE_CHECKING:
    from treefine.serving.metrics import ServerMetrics

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
SAFE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_HOST = re.compile(r"(?P<name>[a-z0-9_.-]+|\[[0-9a-f:.]+\])(:[0-9]{0,5})?")
_LINK = ("GET", "navigate", "document")  # method, Sec-Fetch-Mode and Sec-Fetch-Dest of a link that a person follows
# Read and drop up to 32 times the limit of a body that is too large: many clients do not read the response earlier.
_DRAIN_FACTOR = 32


def add_error_handlers(app: FastAPI, *, hint: str = "") -> None:
    """Answer all errors of an app with `answer_error`; an error in the request itself gets this hint."""
    app.state.request_hint = hint
    for kind in (TreefineError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answer_error)


async def answer_error(request: Request, error: Exception) -> Response:
    """Answer with an error. The details of an unexpected error are only in the log."""
    if isinstance(error, TreefineError):
        return error_answer(error)
    hint = getattr(request.app.state, "request_hint", "")
    if isinstance(error, RequestValidationError):
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not re.fullmatch(r"application/([^/]+\+)?json", kind):  # FastAPI reads no other body as JSON
            message = f"The Content-Type header is {kind[:80]!r}." if kind else "The Content-Type header is missing."
            return error_answer(TreefineError(message, hint="Send Content-Type: application/json."), status=422)
        message = "; ".join(map(_fault, error.errors()[:5])).encode(errors="backslashreplace").decode()
        return error_answer(TreefineError(message, hint=hint), status=422)
    if isinstance(error, _TooManyBytesError):
        return error_answer(body_too_large(error.max_bytes))
    if isinstance(error, HTTPException):  # an unknown route, or a body that cannot be read
        unknown = TreefineError(str(error.detail), hint=hint)
        return error_answer(unknown, status=error.status_code, headers=error.headers)
    message = "This request caused an internal error. Other requests are not affected."
    return error_answer(TreefineError(message, hint="Please report it to the operator of this server."), status=500)


def _fault(found: Mapping[str, Any]) -> str:
    """Return the message of one of Pydantic's errors, with its place in the JSON."""
    if found["type"] == "json_invalid":
        return f"The body is not valid JSON at character {found['loc'][-1]}: {found['ctx']['error']}"
    place, message = ".".join(map(str, found["loc"][1:])), str(found["msg"]).removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


def body_too_large(max_bytes: int) -> TooLargeError:
    """Return the error for a body with more bytes than this."""
    hint = "Send the text in several requests, or parse it with `treefine parse`."
    return TooLargeError(f"The request is larger than {max_bytes:,} bytes.", hint=hint)


def error_answer(
    error: TreefineError, *, status: int | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Return the response for an error: its HTTP status, the message, the hint, and the place where it is known."""
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


class Gate:
    """ASGI middleware that checks hosts, origins and body sizes, adds safe headers, and counts responses."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: ServerLimits,
        hosts: Collection[str] | None,
        origins: Collection[str],
        metrics: ServerMetrics | None = None,
    ) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics
        self.hosts, self.origins = hosts, origins  # hosts None: any

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the app, or reject it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        is_head = scope["method"] == "HEAD"  # answered as GET, without the body
        scope = {**scope, "method": "GET"} if is_head else scope
        started = perf_counter()
        status = 499  # no response was sent: the client has disconnected

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in SAFE_HEADERS.items():
                    headers.setdefault(name, value)
            elif is_head:
                message = {**message, "body": b""}
            await send(message)

        try:
            await self._pass_on(scope, receive, send_with_headers)
        except ClientDisconnect:  # before the whole body was read
            status = 499
        finally:
            if self.metrics is not None:
                route = getattr(scope.get("route"), "path", "other")
                self.metrics.answers.labels(route, status).inc()
                self.metrics.seconds.labels(route).observe(perf_counter() - started)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if self.hosts is not None and host_name(headers.get("host", "")) not in self.hosts:
            # A web page may use a DNS name that points to this machine, so only known names are answered.
            hint = "Start the server with --allow-host to allow it."
            error = TreefineError("This server does not accept requests for that host name.", hint=hint)
            await error_answer(error)(scope, receive, send)
            return
        if self._is_from_other_site(scope, headers):
            hint = "Start the server with --allow-origin and the origin of that page to allow it."
            error = TreefineError("This server does not accept requests from other web sites.", hint=hint)
            await error_answer(error, status=403)(scope, receive, send)
            return
        body = _Body(receive, self.limits.max_bytes)
        announced = headers.get("content-length", "0")
        if announced.isdecimal() and int(announced) > self.limits.max_bytes:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(body.drain(), self.limits.receive)
            await error_answer(body_too_large(self.limits.max_bytes), headers=body.headers)(scope, receive, send)
            return
        answering = asyncio.ensure_future(self.app(scope, body.receive, send))
        gone = asyncio.ensure_future(body.gone())
        try:
            await asyncio.wait({answering, gone}, timeout=self.limits.receive, return_when=asyncio.FIRST_COMPLETED)
            is_slow = not answering.done() and not body.is_read.is_set()
            if not is_slow:
                await asyncio.wait({answering, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():  # the client has disconnected: do not let other requests wait for this one
                answering.cancel()
            with suppress(asyncio.CancelledError):
                await answering
            if is_slow:
                message = f"The request did not arrive within {self.limits.receive:g} s."
                error = TooSlowError(message, hint="Send less text, or use a faster connection.")
                await error_answer(error, headers=body.headers)(scope, receive, send)
        finally:
            gone.cancel()
            answering.cancel()

    def _is_from_other_site(self, scope: Scope, headers: Headers) -> bool:
        """Return whether a web page of another origin sends this request without permission.

        CORS only hides the response from that page; the server would still do the work. Following a link is allowed,
        except to /process. Programs other than browsers do not send these headers.
        """
        if headers.get("sec-fetch-site") not in ("cross-site", "same-site"):
            return False
        is_link = (scope["method"], headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == _LINK
        if is_link and not scope["path"].endswith("/process"):
            return False
        return "*" not in self.origins and headers.get("origin") not in self.origins


class _TooManyBytesError(HTTPException):
    """A body is larger than allowed. FastAPI passes only HTTPExceptions on to our handlers."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        super().__init__(413)


class _Body:
    """Count the bytes of a body while it is read."""

    def __init__(self, receive: Receive, max_bytes: int) -> None:
        self._receive, self._max_bytes, self._n_read = receive, max_bytes, 0
        self._has_more = True
        self.is_read = asyncio.Event()

    @property
    def headers(self) -> dict[str, str]:
        """The headers of a response: if part of the body is still to come, the connection is closed."""
        return {} if self.is_read.is_set() else {"Connection": "close"}

    async def gone(self) -> None:
        """Return when the client disconnects after its whole request was read."""
        await self.is_read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def receive(self) -> Message:
        """Return the next part, or raise an error if there are too many bytes."""
        message = await self._next()
        if self._n_read > self._max_bytes:
            await self.drain()
            raise _TooManyBytesError(self._max_bytes)
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
            self.is_read.set()
        return message


def host_name(host: str) -> str | None:
    """Return the name in a Host header, without the port, or None if the header is not a name and a port.

    >>> host_name("LOCALHOST:8080"), host_name("[::1]:80"), host_name("127.0.0.1"), host_name("[::1]evil")
    ('localhost', '[::1]', '127.0.0.1', None)
    """
    found = _HOST.fullmatch(host.lower())
    return found["name"] if found else None


def checked_host_name(host: str) -> str:
    """Return the name in a Host header, or raise an error if it is not a name."""
    name = host_name(host)
    if name is None:
        hint = "Write a name or an address, such as parser.example, 192.0.2.1 or [2001:db8::1]."
        raise TreefineError(f"{host!r} is not a host name.", hint=hint)
    return name
