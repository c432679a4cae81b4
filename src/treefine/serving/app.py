"""create_app: serve parsers through the JSON API, the UDPipe API and the page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from treefine.errors import TreefineError
from treefine.parsing.parser import Parser
from treefine.serving.api import api_routes
from treefine.serving.middleware import (
    BusyError,
    Gate,
    ServerLimits,
    ServerMetrics,
    body_too_large,
    error_body,
    status_of,
)
from treefine.serving.page import docs_routes, page_routes
from treefine.serving.service import Served
from treefine.serving.udpipe_api import udpipe_routes
from treefine.version import __version__

_DESCRIPTION = (
    "A dependency parser that corrects itself: it takes a parse of a sentence, or none, predicts every arc anew, and "
    "repeats until nothing changes. Requests that come together are parsed together."
)
_SEE_DOCS = "See /docs for what can be asked."


def create_app(
    parsers: Mapping[str, Parser],
    *,
    limits: ServerLimits | None = None,
    hosts: Collection[str] | None = None,
    origins: Collection[str] = (),
) -> FastAPI:
    """Return an app that serves these parsers by name, the first as the default, each in its own thread.

    With `hosts`, requests to other host names are refused. Pages of `origins` may send requests from a browser.
    """
    limits, metrics = limits or ServerLimits(), ServerMetrics()
    served = Served(parsers, limits, metrics)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        for service in served:
            await run_in_threadpool(service.start)
        yield
        for service in served:
            await run_in_threadpool(service.stop)

    app = FastAPI(
        title="treefine",
        version=__version__,
        description=_DESCRIPTION,
        license_info={"name": "Apache-2.0"},
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own pages load scripts from elsewhere
        redoc_url=None,
    )
    app.state.served, app.state.limits = served, limits
    app.include_router(api_routes(served, metrics))
    app.include_router(udpipe_routes(served))
    app.include_router(page_routes())
    app.include_router(docs_routes(app))
    app.add_exception_handler(TreefineError, _answer_our_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid_request)
    app.add_exception_handler(HTTPException, _answer_status)
    app.add_exception_handler(Exception, _answer_failure)
    app.add_middleware(Gate, limits=limits, metrics=metrics, hosts=hosts)
    if origins:
        app.add_middleware(CORSMiddleware, allow_origins=list(origins), allow_methods=["*"], allow_headers=["*"])
    return app


async def _answer_our_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, TreefineError)
    headers = {"Retry-After": str(error.retry_after)} if isinstance(error, BusyError) else None
    return JSONResponse(error_body(error), status_of(error), headers=headers)


async def _answer_invalid_request(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    faults = []
    for each in error.errors():
        place = ".".join(str(part) for part in each["loc"][1:] if isinstance(part, str | int))
        faults.append(f"{place}: {each['msg']}" if place else str(each["msg"]))
    message = "; ".join(faults[:5]).encode(errors="backslashreplace").decode()
    return _error_answer(422, message, _SEE_DOCS)


async def _answer_status(request: Request, error: Exception) -> JSONResponse:
    """Answer a request for an unknown route, or one whose body cannot be read."""
    assert isinstance(error, HTTPException)
    if error.status_code == 413:
        return await _answer_our_error(request, body_too_large(request.app.state.limits.max_bytes))
    return _error_answer(error.status_code, str(error.detail), _SEE_DOCS, error.headers)


async def _answer_failure(_: Request, error: Exception) -> JSONResponse:
    """Answer where the server itself fails; the details are in its log and do not leave the machine."""
    return _error_answer(500, "The server failed at this request; others are not harmed.", "Please tell its operator.")


def _error_answer(status: int, message: str, hint: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": {"status": status, "message": message, "hint": hint}}, status, headers=headers)
