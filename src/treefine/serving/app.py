"""create_app: serve parsers through the JSON API, the UDPipe API and the page.

First the app and its answers to errors, then the routes of the JSON API, then the graphs that the page steps through.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import PlainTextResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from treefine.drawing.picture import Picture
from treefine.drawing.svg import draw_frames
from treefine.errors import TreefineError
from treefine.parsing.parse import Parse
from treefine.parsing.parser import Parser
from treefine.serving.middleware import Gate, ServerLimits, ServerMetrics, body_too_large, error_answer
from treefine.serving.page import docs_routes, page_routes
from treefine.serving.schema import (
    ERRORS,
    HealthJson,
    ModelJson,
    ParseAnswer,
    ParseRequest,
    RefineAnswer,
    RefineRequest,
    StepsAnswer,
    StepsRequest,
)
from treefine.serving.service import ParseJob, Served, Service
from treefine.serving.udpipe_api import udpipe_routes
from treefine.treebank.conllu import texts_in_file
from treefine.treebank.graph import Arcs, Graph, changed_words
from treefine.version import __version__

_DESCRIPTION = (
    "A dependency parser that corrects itself: it takes a parse of a sentence, or none, predicts every arc anew, and "
    "repeats until nothing changes. Requests that come together are parsed together."
)
_SEE_DOCS = "See /docs for what can be asked."
LARGE_REQUEST = 20_000  # characters; longer ones are read and written in another thread, so as not to hold up others

_Value = TypeVar("_Value")
_CONLLU: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


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
    app.include_router(_api_routes(served, metrics))
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


async def _answer_our_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, TreefineError)
    return error_answer(error)


async def _answer_invalid_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = []
    for each in error.errors():
        place = ".".join(str(part) for part in each["loc"][1:] if isinstance(part, str | int))
        faults.append(f"{place}: {each['msg']}" if place else str(each["msg"]))
    message = "; ".join(faults[:5]).encode(errors="backslashreplace").decode()
    return error_answer(TreefineError(message, hint=_SEE_DOCS), status=422)


async def _answer_status(request: Request, error: Exception) -> Response:
    """Answer a request for an unknown route, or one whose body cannot be read."""
    assert isinstance(error, HTTPException)
    if error.status_code == 413:
        return error_answer(body_too_large(request.app.state.limits.max_bytes))
    unknown = TreefineError(str(error.detail), hint=_SEE_DOCS)
    return error_answer(unknown, status=error.status_code, headers=error.headers)


async def _answer_failure(_: Request, error: Exception) -> Response:
    """Answer where the server itself fails; the details are in its log and do not leave the machine."""
    message = "The server failed at this request; others are not harmed."
    return error_answer(TreefineError(message, hint="Please tell its operator."), status=500)


def _api_routes(served: Served, metrics: ServerMetrics) -> APIRouter:
    """Return the routes of the JSON API over these models."""
    router = APIRouter()

    @router.post("/v1/parse", response_model=ParseAnswer, responses={**ERRORS, **_CONLLU}, tags=["parse"])
    async def parse(request: ParseRequest) -> Response:
        """Parse a text, or sentences that are cut into words."""
        return await _parse(request, served.find(request.model), Parse.to_dict)

    @router.post("/v1/refine", response_model=RefineAnswer, responses={**ERRORS, **_CONLLU}, tags=["parse"])
    async def refine(request: RefineRequest) -> Response:
        """Correct the trees of another parser, and tell what was changed."""
        return await _parse(request, served.find(request.model), _refined_json)

    @router.post("/v1/steps", response_model=StepsAnswer, responses=ERRORS, tags=["parse"])
    async def steps(request: StepsRequest) -> Response:
        """Parse, and draw every graph from the initial one to the tree."""
        service = served.find(request.model)
        service.check_room()
        job = await _in_thread_if_large(_size(request), request.job)
        parses = await service.ask(job, "steps")
        # Drawing takes milliseconds per sentence.
        return await run_in_threadpool(lambda: _json_answer(service, _stepped_json(job, parses)))

    @router.get("/v1/models", tags=["server"])
    async def models() -> list[ModelJson]:
        """List the models that can be asked."""
        return [
            ModelJson(
                name=service.name,
                is_default=service.name == served.default,
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
        """Tell whether all models can be asked: 200, else 503."""
        found = HealthJson(
            status="ok" if all(each.is_alive for each in served) else "failed",
            version=__version__,
            models={each.name: "ok" if each.is_alive else "failed" for each in served},
        )
        return Response(found.model_dump_json(), 200 if found.status == "ok" else 503, media_type="application/json")

    @router.get("/metrics", response_class=PlainTextResponse, tags=["server"])
    async def counted() -> Response:
        """Give counts and times for Prometheus."""
        return Response(metrics.text(), headers={"Content-Type": metrics.CONTENT_TYPE})

    return router


async def _parse(
    request: ParseRequest | RefineRequest, service: Service, as_json: Callable[[Parse], dict[str, Any]]
) -> Response:
    service.check_room()  # before the input is read
    job = await _in_thread_if_large(_size(request), request.job)
    if request.format == "conllu":
        sentences = await service.ask(job, "trees")
        return PlainTextResponse(await _in_thread_if_large(job.size, lambda: "".join(texts_in_file(sentences))))
    parses = await service.ask(job, "parses")
    return await _in_thread_if_large(job.size, lambda: _json_answer(service, map(as_json, parses)))


async def _in_thread_if_large(size: int, work: Callable[[], _Value]) -> _Value:
    return await run_in_threadpool(work) if size > LARGE_REQUEST else work()


def _size(request: StepsRequest | RefineRequest) -> int:
    """Return the characters to be read here; the model's own thread reads a text."""
    if isinstance(request, StepsRequest) and request.conllu is None:
        return sum(len(word) for words in request.words or () for word in words)
    return len(request.conllu or "")


def _refined_json(parse: Parse) -> dict[str, Any]:
    """Return the parse as JSON, with its initial graph and what changed since."""
    changes = [
        {name: round(value, 4) if isinstance(value, float) else value for name, value in each._asdict().items()}
        for each in parse.changes
    ]
    initial = {"heads": list(parse.initial.heads), "labels": list(parse.initial.labels)}
    return parse.to_dict() | {"initial": initial, "changes": changes, "converged": parse.converged}


def _stepped_json(job: ParseJob, parses: Sequence[Parse]) -> list[dict[str, Any]]:
    """Return the parses as JSON with all their graphs.

    Marks in their CoNLL-U repeat what a person decided, so that a later parse of it respects the decisions too.
    """
    found = []
    for number, parse in enumerate(parses, start=1):
        given = parse.sentence if job.sentences is None else job.sentences[number - 1]
        constraints = job.constraints_of(number, given)
        marked = constraints.mark(parse.sentence) if constraints else parse.sentence
        found.append(_refined_json(parse) | {"conllu": marked.to_text(), "graphs": graphs_of(parse)})
    return found


def _json_answer(service: Service, sentences: Iterable[dict[str, Any]]) -> Response:
    # Pydantic would check for every client what we made ourselves; tests check it instead.
    body = json.dumps({"model": service.name, "sentences": list(sentences)}, ensure_ascii=False)
    return Response(body, media_type="application/json")


def graphs_of(parse: Parse) -> list[dict[str, Any]]:
    """Return as JSON values G⁰, the graph of each step, and the tree if the last step has another graph.

    All drawings have their words in the same places. In G⁰ some words, or all, may have no head.
    """
    pictures = _pictures(parse)
    drawn = zip(pictures, draw_frames(pictures), strict=True)
    return [_graph_json(t, picture, svg) for t, (picture, svg) in enumerate(drawn)]


def _graph_json(t: int, picture: Picture, svg: str) -> dict[str, Any]:
    graph = picture.graph or Graph.of_words([], [])
    heads = [None if word in picture.unattached else head for word, head in enumerate(graph.arcs.heads, start=1)]
    return {
        "t": t,
        "title": picture.title,
        "heads": heads,
        "labels": list(graph.arcs.labels),
        "changed": sorted(picture.changed),
        "confidence": [round(each, 4) for each in picture.confidence] or None,
        "svg": svg,
    }


def _pictures(parse: Parse) -> list[Picture]:
    steps = parse.pictures(steps=True)
    if None in parse.initial.heads:  # `pictures` leaves out an incomplete initial graph
        steps = [_initial_picture(parse, steps[0]), _first_picture(parse, steps[0]), *steps[1:]]
    of_steps = parse.step_confidences or ((),) * len(parse.steps)
    confidences = ((), *of_steps, parse.word_confidences)  # G⁰, each step, and the tree if it has its own picture
    return [
        replace(picture, confidence=picture.confidence or tuple(each.both for each in words), shows_confidence=True)
        for picture, words in zip(steps, confidences, strict=False)
    ]


def _initial_picture(parse: Parse, like: Picture) -> Picture:
    """Return the picture of a G⁰ in which some words, or all, have no arc."""
    heads, labels = parse.initial
    bare = frozenset(word for word, head in enumerate(heads, start=1) if head is None)
    n_arcs = len(heads) - len(bare)
    title = f"initial graph: {n_arcs} of {len(heads)} words have a head" if n_arcs else "initial graph: empty"
    graph = Graph.of_words([head or 0 for head in heads], labels)
    return replace(like, graph=graph, before=None, unattached=bare, title=title, confidence=())


def _first_picture(parse: Parse, first: Picture) -> Picture:
    """Return the picture of G¹ after such a G⁰: a word that had no arc counts as unchanged."""
    assert first.graph is not None
    if set(parse.initial.heads) == {None}:
        return replace(first, title=f"{first.title}: the first arcs")
    before = _completed(parse.initial, first.graph)
    n_changed = len(changed_words(before, first.graph))
    title = f"{first.title}: {n_changed or 'no'} arc{'s' * (n_changed > 1)} changed"
    return replace(first, before=before, title=title)


def _completed(arcs: Arcs, graph: Graph) -> Graph:
    """Return these arcs as a graph; a word without one gets its arc in `graph`."""
    pairs = zip(*arcs, graph.heads[1:], graph.labels[1:], strict=True)
    filled = [(new, new_label) if old is None else (old, label) for old, label, new, new_label in pairs]
    return Graph.of_words([head for head, _ in filled], [label for _, label in filled])
