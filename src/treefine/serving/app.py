"""create_app: serve parsers through the JSON API, the UDPipe API and the page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool

from treefine.drawing.picture import Picture
from treefine.drawing.svg import STYLE, draw_frames
from treefine.errors import TreefineError
from treefine.model.vocabulary import language_of
from treefine.parsing.parse import Parse
from treefine.parsing.parser import Parser
from treefine.segmenter.language import code_of, table
from treefine.serving.batching import Models, ModelServer, ServerMetrics
from treefine.serving.gate import Gate, add_error_handlers, add_page
from treefine.serving.limits import ServerLimits
from treefine.serving.requests import ParseBody, ParseRequest, RefineBody, ResultKind, StepsBody, request_of, size_of
from treefine.serving.udpipe_api import udpipe_routes
from treefine.treebank.conllu import texts_in_file
from treefine.treebank.constraints import unknown_labels
from treefine.treebank.graph import Graph
from treefine.version import __version__

_DESCRIPTION = (
    "A dependency parser that corrects itself: it predicts a tree, reads it together with the sentence, "
    "predicts every arc again, and repeats until nothing changes."
)
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The name of the model, and the sentences as `treefine parse --format json` writes them.",
        "content": {"application/json": {}, "text/plain": {"schema": {"type": "string"}}},
    },
    "default": {"description": "An error: status, message and hint, and the place in the input if it has one."},
}


def create_app(
    parsers: Mapping[str, Parser],
    *,
    limits: ServerLimits | None = None,
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
    workers: int = 0,
) -> FastAPI:
    """Return an app that serves these parsers by name, the first as the default.

    Each parser runs in a thread of this process or, with `workers`, in that many worker processes, which is faster on a
    CPU with several cores but takes the memory of as many models.

    Only requests for an IP address, for localhost, or for a host name in `hosts` are accepted. Of other web sites, only
    those of `origins` may send requests. "*" stands for all.
    """
    limits, metrics = limits or ServerLimits(), ServerMetrics()
    models = Models(parsers, limits, metrics, workers=workers)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        for server in models.values():
            await run_in_threadpool(server.start)
        yield
        await asyncio.gather(*(run_in_threadpool(server.stop) for server in models.values()))  # one time limit for all

    app = FastAPI(
        title="treefine",
        version=__version__,
        description=_DESCRIPTION,
        license_info={"name": "Apache-2.0"},
        lifespan=lifespan,
        docs_url=None,  # these pages of FastAPI load scripts from other hosts
        redoc_url=None,
    )
    app.state.models = models
    app.include_router(_api_routes(models, metrics))
    app.include_router(udpipe_routes(models))
    page = Path(__file__).with_name("page")

    @app.get("/page/page.css", include_in_schema=False)
    async def style() -> Response:
        """Return the rules of drawings, since the Content-Security-Policy forbids styles inside them, then our own."""
        return Response(STYLE + page.joinpath("page.css").read_text(encoding="utf-8"), media_type="text/css")

    add_page(app, page)
    add_error_handlers(app, hint="See /openapi.json for the API.")
    app.add_middleware(Gate, limits=limits, metrics=metrics, hosts=hosts, origins=frozenset(origins))
    if origins:
        app.add_middleware(CORSMiddleware, allow_origins=list(origins), allow_methods=["*"], allow_headers=["*"])
    return app


def _api_routes(models: Models, metrics: ServerMetrics) -> APIRouter:
    """Return the routes of the JSON API over these models. docs/serving.md describes each of them."""
    router = APIRouter()

    @router.post("/v1/parse", responses=_RESPONSES, tags=["parse"])
    async def parse(body: ParseBody) -> Response:
        """Parse a text, or sentences that are already divided into words."""
        return await _answer(body, models, _parse_json)

    @router.post("/v1/refine", responses=_RESPONSES, tags=["parse"])
    async def refine(body: RefineBody) -> Response:
        """Correct the trees of another parser, and list the changes."""
        return await _answer(body, models, _refined_json)

    @router.post("/v1/steps", responses=_RESPONSES, tags=["parse"])
    async def steps(body: StepsBody) -> Response:
        """Parse, and draw every graph from the initial one to the tree."""
        return await _answer(body, models, _stepped_json)

    @router.get("/v1/models", tags=["server"])
    async def list_models() -> list[dict[str, Any]]:
        """List the models, the languages and labels of each, and what they can do."""
        return [
            {
                "name": server.name,
                "is_default": server is models.find(),
                "languages": _languages(server),
                "labels": list(server.parser.model.vocabulary.labels),
                "max_steps": server.parser.max_steps,
                "reads_graph": server.parser.model.settings.reads_graph,
                "has_segmenter": server.parser.segmenter is not None,
                "predicts_tags": server.parser.model.settings.tags.source == "predicted",
                "has_initial_parser": isinstance(server.parser.initial, Parser),
            }
            for server in models.values()
        ]

    @router.get("/health", responses={503: {"description": "A model has failed."}}, tags=["server"])
    async def health() -> JSONResponse:
        """Report whether all models are ready: 200, otherwise 503."""
        states = {server.name: "ok" if server.is_alive else "failed" for server in models.values()}
        status = "failed" if "failed" in states.values() else "ok"
        content = {"status": status, "version": __version__, "models": states}
        return JSONResponse(content, 200 if status == "ok" else 503)

    @router.get("/metrics", response_class=PlainTextResponse, tags=["server"])
    async def metrics_text() -> Response:
        """Return counters and histograms for Prometheus."""
        return Response(metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return router


def _languages(server: ModelServer) -> list[dict[str, Any]]:
    choice = server.languages()
    codes = sorted(choice.main or {code_of(name) or name for name in server.parser.languages})
    treebanks = sorted(choice.treebanks, key=lambda each: (each not in choice.main.values(), each))
    return [
        {
            "code": code,
            "name": table().names.get(code, code),
            "treebanks": [each for each in treebanks if language_of(each) == code],
        }
        for code in codes
    ]


async def _answer(body: StepsBody | RefineBody, models: Models, as_json: Callable[[Parse], dict[str, Any]]) -> Response:
    server = models.find(body.model, language=body.language)
    is_conllu = getattr(body, "format", "json") == "conllu"
    result: ResultKind = (
        "steps" if as_json is _stepped_json else "trees" if is_conllu and body.k in (None, 1) else "parses"
    )
    treebank = server.languages(body.language).named

    def read() -> ParseRequest:
        request = request_of(body, result, treebank)
        _check_labels(request, server.parser.model.vocabulary.labels)
        return request

    def write(results: list[Any]) -> Response:
        if not is_conllu:
            content = {"model": server.name, "sentences": [as_json(parse) for parse in results]}
            return Response(json.dumps(content, ensure_ascii=False), media_type="application/json")
        ranked = (parse.ranked_sentences() for parse in results)
        sentences = results if result == "trees" else chain.from_iterable(ranked)
        return PlainTextResponse("".join(texts_in_file(sentences)))

    return await server.answer(size_of(body), read, write)


def _check_labels(request: ParseRequest, known: Collection[str]) -> None:
    """Raise an error if a constraint has a label that the model does not know, unless the word has it in the input."""
    for number, constraints in request.constraints.items():
        sentence = request.sentences[number - 1] if number <= len(request.sentences) else None
        for unknown in unknown_labels(constraints, frozenset(known)):
            if sentence is not None and unknown.label in sentence.labels[unknown.word - 1 : unknown.word]:
                continue
            hint = f"Did you mean {unknown.nearest}?" if unknown.nearest else "GET /v1/models lists its labels."
            raise TreefineError(unknown.message, hint=hint, sentence=number, word=str(unknown.word))


def _parse_json(parse: Parse) -> dict[str, Any]:
    treebank = parse.sentence.treebank
    return parse.to_dict() | ({"treebank": treebank} if treebank else {})


def _refined_json(parse: Parse) -> dict[str, Any]:
    changes = [
        {name: round(value, 4) if isinstance(value, float) else value for name, value in asdict(change).items()}
        for change in parse.changes
    ]
    initial = {"heads": list(parse.initial.heads), "labels": list(parse.initial.labels)}
    return _parse_json(parse) | {"initial": initial, "changes": changes, "converged": parse.converged}


def _stepped_json(parse: Parse) -> dict[str, Any]:
    return _refined_json(parse) | {"conllu": parse.to_conllu(), "graphs": graphs_of(parse)}


def graphs_of(parse: Parse) -> list[dict[str, Any]]:
    """Return G⁰, the graph of each step, and the tree if it differs from the last step.

    The words have the same positions in all drawings. In G⁰, some or all words may have no head.
    """
    pictures = parse.pictures(steps=True)
    if None in parse.initial.heads:  # `pictures` leaves out an incomplete initial graph
        pictures[:1] = _incomplete_and_first(parse, pictures[0])
    of_steps = parse.step_confidences or ((),) * len(parse.steps)
    confidences = ((), *of_steps, parse.word_confidences)  # G⁰, each step, and the tree if it has its own picture
    pictures = [
        replace(picture, confidence=picture.confidence or tuple(each.both for each in words), shows_confidence=True)
        for picture, words in zip(pictures, confidences, strict=False)
    ]
    graphs = []
    for t, (picture, svg) in enumerate(zip(pictures, draw_frames(pictures), strict=True)):
        assert picture.graph is not None
        arcs = picture.graph.arcs
        graph = {
            "t": t,
            "title": picture.title,
            "heads": [None if word in picture.unattached else head for word, head in enumerate(arcs.heads, start=1)],
            "labels": list(arcs.labels),
            "changed": sorted(picture.changed),
            "confidence": [round(each, 4) for each in picture.confidence] or None,
            "svg": svg,
        }
        graphs.append(graph)
    return graphs


def _incomplete_and_first(parse: Parse, first: Picture) -> list[Picture]:
    """Return pictures of an incomplete G⁰ and of G¹, in which a word without an arc in G⁰ counts as unchanged."""
    assert first.graph is not None
    heads, labels = parse.initial
    bare = frozenset(word for word, head in enumerate(heads, start=1) if head is None)
    n_arcs = len(heads) - len(bare)
    graph = Graph.of_words([head or 0 for head in heads], labels)
    title = f"initial graph: {n_arcs} of {len(heads)} words have a head" if n_arcs else "initial graph: empty"
    initial = replace(first, graph=graph, before=None, unattached=bare, title=title, confidence=())
    arcs = zip(zip(*parse.initial, strict=True), zip(*first.graph.arcs, strict=True), strict=True)
    filled = [new if old[0] is None else old for old, new in arcs]
    step = replace(first, before=Graph.of_words(*zip(*filled, strict=True)))
    n_changed = len(step.changed)
    changes = f"{n_changed or 'no'} arc{'s' * (n_changed > 1)} changed" if n_arcs else "the first arcs"
    return [initial, replace(step, title=f"{first.title}: {changes}")]
