"""create_app: serve parsers through the JSON API, the UDPipe API and the page.

The file has four parts: the app, the routes of the JSON API, error responses, and the middleware for every request.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from itertools import chain
from time import perf_counter
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from treefine.errors import TreefineError
from treefine.model.vocabulary import language_of
from treefine.parsing.parse import Parse
from treefine.parsing.parser import Parser
from treefine.segmenter.language import code_of, table
from treefine.serving.jobs import ParseJob
from treefine.serving.limits import (
    BusyError,
    ServerLimits,
    ServingError,
    TooLargeError,
    TooSlowError,
    UnknownModelError,
)
from treefine.serving.metrics import ServerMetrics
from treefine.serving.page import docs_routes, graphs_of, page_routes
from treefine.serving.schema import (
    ERRORS,
    HealthJson,
    LanguageJson,
    ModelJson,
    ParseAnswer,
    ParseRequest,
    RefineAnswer,
    RefineRequest,
    StepsAnswer,
    StepsRequest,
)
from treefine.serving.service import Served, Service
from treefine.serving.udpipe_api import udpipe_routes
from treefine.treebank.conllu import texts_in_file
from treefine.treebank.constraints import unknown_labels
from treefine.version import __version__

_DESCRIPTION = (
    "A dependency parser that corrects itself: it predicts a tree, reads it together with the sentence, "
    "predicts every arc again, and repeats until nothing changes."
)
_SEE_DOCS = "See /docs for the API."
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

_CONLLU: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


def create_app(
    parsers: Mapping[str, Parser],
    *,
    limits: ServerLimits | None = None,
    hosts: Collection[str] | None = None,
    origins: Collection[str] = (),
    workers: int = 0,
) -> FastAPI:
    """Return an app that serves these parsers by name, the first as the default.

    Each parser runs in a thread of this process or, with `workers`, in that many worker processes, which is faster on a
    CPU with several cores but takes the memory of as many models.

    With `hosts`, requests for other host names are rejected. Of other web pages, only those of `origins` may send
    requests.
    """
    limits, metrics = limits or ServerLimits(), ServerMetrics()
    hosts = None if hosts is None else frozenset(map(_checked_host_name, hosts))
    served = Served(parsers, limits, metrics, workers=workers)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        for service in served:
            await run_in_threadpool(service.start)
        yield
        await asyncio.gather(*(run_in_threadpool(service.stop) for service in served))  # one time limit for all

    app = FastAPI(
        title="treefine",
        version=__version__,
        description=_DESCRIPTION,
        license_info={"name": "Apache-2.0"},
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own pages load scripts from other hosts
        redoc_url=None,
    )
    app.state.served, app.state.limits = served, limits
    app.include_router(_api_routes(served, metrics))
    app.include_router(udpipe_routes(served))
    app.include_router(page_routes())
    app.include_router(docs_routes(app))
    for kind in (TreefineError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _answer_error)
    app.add_middleware(Gate, limits=limits, metrics=metrics, hosts=hosts, origins=frozenset(origins))
    if origins:
        app.add_middleware(CORSMiddleware, allow_origins=list(origins), allow_methods=["*"], allow_headers=["*"])
    return app


def _api_routes(served: Served, metrics: ServerMetrics) -> APIRouter:
    """Return the routes of the JSON API over these models."""
    router = APIRouter()

    @router.post("/v1/parse", response_model=ParseAnswer, responses={**ERRORS, **_CONLLU}, tags=["parse"])
    async def parse(request: ParseRequest) -> Response:
        """Parse a text, or sentences that are already divided into words."""
        service = served.find(request.model, language=request.language)
        return await service.within_time(_parse(request, service, _parse_json))

    @router.post("/v1/refine", response_model=RefineAnswer, responses={**ERRORS, **_CONLLU}, tags=["parse"])
    async def refine(request: RefineRequest) -> Response:
        """Correct the trees of another parser, and list the changes."""
        service = served.find(request.model, language=request.language)
        return await service.within_time(_parse(request, service, _refined_json))

    @router.post("/v1/steps", response_model=StepsAnswer, responses=ERRORS, tags=["parse"])
    async def steps(request: StepsRequest) -> Response:
        """Parse, and draw every graph from the initial one to the tree."""
        service = served.find(request.model, language=request.language)
        return await service.within_time(_steps(request, service))

    @router.get("/v1/models", tags=["server"])
    async def models() -> list[ModelJson]:
        """List the models."""
        return [
            ModelJson(
                name=service.name,
                is_default=service.name == served.default,
                languages=_languages(service),
                labels=list(service.parser.model.vocabulary.labels),
                max_steps=service.parser.max_steps,
                reads_graph=service.parser.model.settings.reads_graph,
                has_segmenter=service.parser.segmenter is not None,
                predicts_tags=service.parser.model.settings.tags.source == "predicted",
                has_initial_parser=isinstance(service.parser.initial, Parser),
            )
            for service in served
        ]

    @router.get("/health", response_model=HealthJson, responses={503: {"model": HealthJson}}, tags=["server"])
    async def health() -> Response:
        """Report whether all models are ready: 200, otherwise 503."""
        found = HealthJson(
            status="ok" if all(each.is_alive for each in served) else "failed",
            version=__version__,
            models={each.name: "ok" if each.is_alive else "failed" for each in served},
        )
        return Response(found.model_dump_json(), 200 if found.status == "ok" else 503, media_type="application/json")

    @router.get("/metrics", response_class=PlainTextResponse, tags=["server"])
    async def counted() -> Response:
        """Return counters and histograms for Prometheus."""
        return Response(metrics.text(), headers={"Content-Type": metrics.CONTENT_TYPE})

    return router


def _languages(service: Service) -> list[LanguageJson]:
    """Return the languages of a model, sorted by code."""
    choice = service.languages()
    codes = sorted(choice.main or {code_of(each) or each for each in service.parser.languages})
    return [
        LanguageJson(
            code=code,
            name=table().names.get(code, code),
            treebanks=sorted(
                [each for each in choice.treebanks if language_of(each) == code],
                key=lambda each: (each != choice.main[language_of(each)], each),
            ),
        )
        for code in codes
    ]


async def _parse(
    request: ParseRequest | RefineRequest, service: Service, as_json: Callable[[Parse], dict[str, Any]]
) -> Response:
    job = await _checked_job(request, service)
    if request.format == "conllu" and job.options.k in (None, 1):
        sentences = await service.ask(job, "trees")
        return PlainTextResponse(await service.read_or_write(job.size, lambda: "".join(texts_in_file(sentences))))
    parses = await service.ask(job, "parses")
    if request.format == "conllu":
        ranked = chain.from_iterable(parse.ranked_sentences() for parse in parses)
        return PlainTextResponse(await service.read_or_write(job.size, lambda: "".join(texts_in_file(ranked))))
    return await service.read_or_write(job.size, lambda: _json_answer(service, map(as_json, parses)))


async def _steps(request: StepsRequest, service: Service) -> Response:
    job = await _checked_job(request, service)
    parses = await service.ask(job, "steps")
    # Drawing takes milliseconds per sentence.
    return await service.read_or_write(
        job.size, lambda: _json_answer(service, _stepped_json(job, parses)), is_slow=True
    )


async def _checked_job(request: StepsRequest | RefineRequest, service: Service) -> ParseJob:
    size = _size(request)
    treebank = service.languages(request.language).named
    service.check_room(size)  # before the input is read
    job = await service.read_or_write(size, request.job)
    check_labels(job, service.parser.model.vocabulary.labels)
    return replace(job, language=treebank)


def check_labels(job: ParseJob, known: Collection[str]) -> None:
    """Raise an error if a constraint has a label that the model does not know, unless the word has it in the input."""
    known = frozenset(known)
    for number, constraints in job.constraints.items():
        given = job.sentences[number - 1].labels if job.sentences and number <= len(job.sentences) else ()
        for found in unknown_labels(constraints, known):
            if not found.is_forbidden and found.label in given[found.word - 1 : found.word]:
                continue
            nearest = found.nearest(known)
            hint = f"Did you mean {nearest}?" if nearest else "GET /v1/models lists its labels."
            raise TreefineError(found.message, hint=hint, sentence=number, word=str(found.word))


def _size(request: StepsRequest | RefineRequest) -> int:
    """Return how many characters to read here; the model's thread reads a text."""
    if isinstance(request, StepsRequest) and request.conllu is None:
        return sum(len(word) for words in request.words or () for word in words)
    return len(request.conllu or "")


def _parse_json(parse: Parse) -> dict[str, Any]:
    """Return the parse as JSON, with its language if the model has several."""
    treebank = parse.sentence.treebank
    return parse.to_dict() | ({"treebank": treebank} if treebank else {})


def _refined_json(parse: Parse) -> dict[str, Any]:
    """Return the parse as JSON, with its initial graph and the changes to it."""
    changes = [
        {name: round(value, 4) if isinstance(value, float) else value for name, value in asdict(each).items()}
        for each in parse.changes
    ]
    initial = {"heads": list(parse.initial.heads), "labels": list(parse.initial.labels)}
    return _parse_json(parse) | {"initial": initial, "changes": changes, "converged": parse.converged}


def _stepped_json(job: ParseJob, parses: Sequence[Parse]) -> list[dict[str, Any]]:
    """Return the parses as JSON with all their graphs.

    Marks in their CoNLL-U repeat the constraints, so that a later parse of that CoNLL-U respects them too.
    """
    found = []
    for number, parse in enumerate(parses, start=1):
        given = parse.sentence if job.sentences is None else job.sentences[number - 1]
        constraints = job.constraints_of(number, given)
        marked = constraints.mark(parse.sentence) if constraints else parse.sentence
        found.append(_refined_json(parse) | {"conllu": marked.to_conllu(), "graphs": graphs_of(parse)})
    return found


def _json_answer(service: Service, sentences: Iterable[dict[str, Any]]) -> Response:
    # Validating our own responses with Pydantic would cost time; tests check them instead.
    body = json.dumps({"model": service.name, "sentences": list(sentences)}, ensure_ascii=False)
    return Response(body, media_type="application/json")


async def _answer_error(request: Request, error: Exception) -> Response:
    """Answer with an error. The details of an unexpected error are only in the log."""
    if isinstance(error, TreefineError):
        return error_answer(error)
    if isinstance(error, RequestValidationError):
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not re.fullmatch(r"application/([^/]+\+)?json", kind):  # FastAPI reads no other body as JSON
            message = f"The Content-Type header is {kind[:80]!r}." if kind else "The Content-Type header is missing."
            return error_answer(TreefineError(message, hint="Send Content-Type: application/json."), status=422)
        message = "; ".join(map(_fault, error.errors()[:5])).encode(errors="backslashreplace").decode()
        return error_answer(TreefineError(message, hint=_SEE_DOCS), status=422)
    if isinstance(error, HTTPException) and error.status_code == 413:
        return error_answer(body_too_large(request.app.state.limits.max_bytes))
    if isinstance(error, HTTPException):  # an unknown route, or a body that cannot be read
        unknown = TreefineError(str(error.detail), hint=_SEE_DOCS)
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
        metrics: ServerMetrics,
        hosts: Collection[str] | None,
        origins: Collection[str],
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
            self.is_read.set()
        return message


def host_name(host: str) -> str | None:
    """Return the name in a Host header, without the port, or None if the header is not a name and a port.

    >>> host_name("LOCALHOST:8080"), host_name("[::1]:80"), host_name("127.0.0.1"), host_name("[::1]evil")
    ('localhost', '[::1]', '127.0.0.1', None)
    """
    found = _HOST.fullmatch(host.lower())
    return found["name"] if found else None


def _checked_host_name(host: str) -> str:
    name = host_name(host)
    if name is None:
        hint = "Write a name or an address, such as parser.example, 192.0.2.1 or [2001:db8::1]."
        raise TreefineError(f"{host!r} is not a host name.", hint=hint)
    return name
