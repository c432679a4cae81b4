"""What protects an app: middleware, limits on connections, error responses, static files. It does not import torch.

`create_app` and `treefine annotate` use it. Another app gets the same protection with
`app.add_middleware(Gate, limits=…, hosts=…, origins=…)` and `add_error_handlers(app)`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import count
from mimetypes import add_type
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from treefine.errors import TreefineError
from treefine.serving.limits import ServerLimits, ServingError

if TYPE_CHECKING:
    from treefine.serving.batching import ServerMetrics

SAFE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",  # browsers check for a new version each time, so that page and server always match
}
_HOST = re.compile(r"(?P<name>[a-z0-9_.-]+|\[[0-9a-f:.]+\])(:[0-9]{0,5})?")
_LINK = ("GET", "navigate", "document")  # method, Sec-Fetch-Mode and Sec-Fetch-Dest of a link that a person follows
_GRACE = 1  # seconds, so that the app can answer with an error before the connection is closed
_MOST_FILES = 65_536  # open files and connections; more are never needed
add_type("text/javascript", ".js")  # Windows may say something else, which browsers do not run


def add_error_handlers(app: FastAPI, *, hint: str) -> None:
    """Answer all errors of an app with JSON; an error in the request itself gets this hint.

    The details of an unexpected error are only in the log.
    """

    async def answer_error(request: Request, error: Exception) -> Response:
        if isinstance(error, TreefineError):
            return error_response(error)
        if isinstance(error, HTTPException):  # an unknown route, or a body that cannot be read
            unknown = ServingError(str(error.detail), hint=hint, status=error.status_code)
            return error_response(unknown, error.headers)
        if not isinstance(error, RequestValidationError):
            message = "This request caused an internal error. Other requests are not affected."
            advice = "Please report it to the operator of this server."
            return error_response(ServingError(message, hint=advice, status=500))
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not re.fullmatch(r"application/([^/]+\+)?json", kind):  # FastAPI reads no other body as JSON
            message = f"The Content-Type header is {kind[:80]!r}."
            return error_response(ServingError(message, hint="Send Content-Type: application/json.", status=422))
        message = "; ".join(map(_fault, error.errors()[:5])).encode(errors="backslashreplace").decode()
        return error_response(ServingError(message, hint=hint, status=422))

    for kind in (TreefineError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answer_error)


def _fault(fault: Mapping[str, Any]) -> str:
    if fault["type"] == "json_invalid":
        return f"The body is not valid JSON at character {fault['loc'][-1]}: {fault['ctx']['error']}"
    place, message = ".".join(map(str, fault["loc"][1:])), str(fault["msg"]).removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


def error_response(error: TreefineError, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the response for an error: its HTTP status, the message, the hint, and the place where it is known."""
    status = getattr(error, "status", 400)
    if retry_after := getattr(error, "retry_after", None):
        headers = {"Retry-After": str(retry_after)}
    names = ("message", "hint", "line", "sent_id", "sentence", "word", "models")
    values = {name: value for name in names if (value := getattr(error, name, None))}
    return JSONResponse({"error": {"status": status, **values}}, status, headers)


@dataclass(eq=False)
class Gate:
    """ASGI middleware that checks hosts, origins (see `create_app`) and body sizes, adds headers, counts responses."""

    app: ASGIApp
    limits: ServerLimits
    hosts: Collection[str] = ()
    origins: Collection[str] = ()
    metrics: ServerMetrics | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the app, or reject it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["method"] == "HEAD":  # answered as GET; uvicorn leaves out the body
            scope = {**scope, "method": "GET"}
        started = perf_counter()
        status = 499  # no response was sent: the client has disconnected

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in SAFE_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._answer(scope, receive, send_with_headers)
        finally:
            if self.metrics is not None:
                route = getattr(scope.get("route"), "path", "other")
                self.metrics.answers.labels(route, status).inc()
                self.metrics.seconds.labels(route).observe(perf_counter() - started)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        try:
            self._check_source(scope, headers)
            body = await self._body(receive)
        except ServingError as error:
            closing = {"Connection": "close"} if error.status in (408, 413) else None  # more may be on its way
            await error_response(error, closing)(scope, receive, send)
        except ClientDisconnect:
            pass
        else:
            await _answer_while_connected(self.app, scope, body, receive, send)

    def _check_source(self, scope: Scope, headers: Headers) -> None:
        """Raise an error for a host name that is not allowed, or for a request from another web site.

        A web page may use a DNS name that points to this machine, so only known names are answered.
        """
        host = _HOST.fullmatch(headers.get("host", "").lower())
        known = {"localhost", *map(str.lower, self.hosts)}
        if host is None or not ({"*", host["name"]} & known or _is_address(host["name"])):
            hint = "Start the server with --allowed-host to allow it."
            raise ServingError("This server does not accept requests for that host name.", hint=hint)
        if "*" not in self.origins and headers.get("origin") not in self.origins and _is_other_site(scope, headers):
            hint = "Start the server with --allow-origin and the origin of that page to allow it."
            raise ServingError("This server does not accept requests from other web sites.", hint=hint, status=403)

    async def _body(self, receive: Receive) -> bytes:
        """Return the whole body, or raise an error if it is too large or does not arrive in time.

        The rest of a body that is too large is read and dropped: many clients do not read the response earlier.
        """
        body, most = bytearray(), self.limits.max_bytes

        async def read() -> None:
            has_more = True
            while has_more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                body.extend(message.get("body", b"")[: most + 1 - len(body)])
                has_more = message.get("more_body", False)

        try:
            await asyncio.wait_for(read(), self.limits.receive)
        except asyncio.TimeoutError:
            if len(body) <= most:
                message = f"The request did not arrive within {self.limits.receive:g} s."
                raise ServingError(message, hint="Send less text, or use a faster connection.", status=408) from None
        if len(body) > most:
            hint = "Send the text in several requests, or parse it with `treefine parse`."
            raise ServingError(f"The request is larger than {most:,} bytes.", hint=hint, status=413)
        return bytes(body)


def _is_other_site(scope: Scope, headers: Headers) -> bool:
    """Return whether a web page of another origin sends this request.

    CORS only hides the response from that page; the server would still do the work. Browsers send Sec-Fetch-Site only
    to localhost and over HTTPS; elsewhere, the origin must be that of the host. Following a link is allowed, except to
    /process. Programs other than browsers send none of these headers.
    """
    site = headers.get("sec-fetch-site")
    if site is None:
        origin = headers.get("origin")
        return origin is not None and origin.lower().partition("://")[2] != headers["host"].lower()
    is_link = (scope["method"], headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == _LINK
    return site in ("cross-site", "same-site") and (not is_link or scope["path"].endswith("/process"))


async def _answer_while_connected(app: ASGIApp, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
    """Let an app answer a request, until its client disconnects: other requests must not wait for that one."""
    parts = [body]

    async def disconnect() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async def receive_body() -> Message:
        if parts:
            return {"type": "http.request", "body": parts.pop(), "more_body": False}
        await asyncio.wait({leaving})
        return {"type": "http.disconnect"}

    leaving = asyncio.ensure_future(disconnect())
    answering = asyncio.ensure_future(app(scope, receive_body, send))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        answering.cancel()  # if it is not done
        with suppress(asyncio.CancelledError):
            await answering
    finally:
        leaving.cancel()
        answering.cancel()


def _is_address(name: str) -> bool:
    """Return whether a host name is an IP address, which no other web site can make point to this machine."""
    try:
        return bool(ip_address(name.strip("[]")))
    except ValueError:
        return False


def add_page(app: FastAPI, folder: Path, start: str = "") -> None:
    """Answer `start`/ with index.html of a folder, and `start`/page/NAME with its other files."""
    files = StaticFiles(directory=folder)

    @app.get(f"{start}/", include_in_schema=False)
    async def index(request: Request) -> Response:
        return await files.get_response("index.html", request.scope)

    app.mount(f"{start}/page", files)


def connection_class(limits: ServerLimits) -> type[asyncio.Protocol]:
    """Return uvicorn's class for HTTP connections with these limits added, which uvicorn lacks."""
    order = count()  # of the moments at which connections start to wait for their clients

    class LimitedConnection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        """A connection that is closed if the client is too slow, or if there are too many connections."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._waits_since = next(order)
            self._seen: tuple[int, int] | None = None  # at the last check
            self._timer = self.loop.call_later(limits.receive + _GRACE, self._check)
            if len(self.connections) > limits.connections:
                waiting = [each for each in self.connections if each.waits_for_client]  # at least this one
                oldest = min(waiting, key=lambda each: each._waits_since)
                self.connections.discard(oldest)  # at once: more connections may follow in this turn of the loop
                oldest.transport.abort()

        def on_response_complete(self) -> None:
            self._waits_since = next(order)
            super().on_response_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._timer.cancel()
            super().connection_lost(exc)

        @property
        def waits_for_client(self) -> bool:
            """Whether no whole request waits for its answer."""
            return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

        def _check(self) -> None:
            """Close the connection if the client has sent no whole request and read nothing since the last check."""
            n_unread = self.transport.get_write_buffer_size()
            is_receiving = self.waits_for_client and self.timeout_keep_alive_task is None  # not idle after an answer
            seen = (self._waits_since, n_unread) if is_receiving or n_unread else None
            if seen is not None and seen == self._seen:
                self.transport.abort()
            else:
                self._seen = seen
                self._timer = self.loop.call_later(limits.receive + _GRACE, self._check)

    return LimitedConnection


def raise_file_limit() -> int:
    """Raise the limit of open files of this process as far as allowed, and return it."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return _MOST_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft
