"""create_app: parsers behind a JSON API, the UDPipe API and a page."""

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
from treefine.serving import api, page, udpipe_api
from treefine.serving.metrics import Metrics
from treefine.serving.middleware import BusyError, Gate, Limits, error_json, status_of, too_large
from treefine.serving.service import Served
from treefine.version import __version__

_DESCRIPTION = (
    "A dependency parser that corrects itself: it takes a parse of a sentence, or none, predicts every arc anew, and "
    "repeats until nothing changes. Requests that come together are parsed together."
)


def create_app(
    parsers: Mapping[str, Parser],
    *,
    limits: Limits | None = None,
    hosts: Collection[str] | None = None,
    origins: Collection[str] = (),
) -> FastAPI:
    """The app of these parsers, the first of which is the default; each is touched by a thread of its own alone.

    With `hosts`, requests to other host names are refused. Pages of `origins` may ask from a browser.
    """
    limits, metrics = limits or Limits(), Metrics()
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
    app.state.served = served
    app.include_router(api.routes(served, metrics))
    app.include_router(udpipe_api.routes(served))
    app.include_router(page.routes())
    app.include_router(page.docs_routes(app))
    app.add_exception_handler(TreefineError, _told)
    app.add_exception_handler(RequestValidationError, _told_of_fault)
    app.add_exception_handler(HTTPException, _told_of_status)
    app.add_exception_handler(Exception, _told_of_failure)
    app.state.limits = limits
    app.add_middleware(Gate, limits=limits, metrics=metrics, hosts=hosts)
    if origins:
        app.add_middleware(CORSMiddleware, allow_origins=list(origins), allow_methods=["*"], allow_headers=["*"])
    return app


async def _told(_: Request, error: Exception) -> JSONResponse:
    """Answer with one of our own errors."""
    assert isinstance(error, TreefineError)
    headers = {"Retry-After": str(error.retry_after)} if isinstance(error, BusyError) else None
    return JSONResponse(error_json(error), status_of(error), headers=headers)


async def _told_of_fault(_: Request, error: Exception) -> JSONResponse:
    """Answer a request that is not as described."""
    assert isinstance(error, RequestValidationError)
    faults = []
    for each in error.errors():
        place = ".".join(str(part) for part in each["loc"][1:] if isinstance(part, str | int))
        faults.append(f"{place}: {each['msg']}" if place else str(each["msg"]))
    message = "; ".join(faults[:5]).encode(errors="backslashreplace").decode()
    return _answer(422, message, "See /docs for what can be asked.")


async def _told_of_status(request: Request, error: Exception) -> JSONResponse:
    """Answer where there is no such route, or a body cannot be read."""
    assert isinstance(error, HTTPException)
    if error.status_code == 413:
        return await _told(request, too_large(request.app.state.limits.max_bytes))
    return _answer(error.status_code, str(error.detail), "See /docs for what can be asked.", error.headers)


async def _told_of_failure(_: Request, error: Exception) -> JSONResponse:
    """Answer where we are at fault; what happened is in the server's log, and no part of it leaves the machine."""
    return _answer(500, "The server failed at this request; others are not harmed.", "Please tell its operator.")


def _answer(status: int, message: str, hint: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": {"status": status, "message": message, "hint": hint}}, status, headers=headers)
