"""create_app: serve parsers through the JSON API, the UDPipe API and the page.

The file has two parts: the app and the routes of the JSON API. `gate` has the middleware and the error responses.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from itertools import chain
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import PlainTextResponse, Response
from starlette.concurrency import run_in_threadpool

from treefine.errors import TreefineError
from treefine.model.vocabulary import language_of
from treefine.parsing.parse import Parse
from treefine.parsing.parser import Parser
from treefine.segmenter.language import code_of, table
from treefine.serving.gate import LOOPBACK as LOOPBACK  # `treefine serve` imports it from here
from treefine.serving.gate import Gate, add_error_handlers, checked_host_name
from treefine.serving.jobs import ParseJob
from treefine.serving.limits import ServerLimits
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
from treefine.treebank.constraints import UnknownLabel, marks_of, unknown_labels
from treefine.treebank.sentence import Sentence
from treefine.version import __version__

_DESCRIPTION = (
    "A dependency parser that corrects itself: it predicts a tree, reads it together with the sentence, "
    "predicts every arc again, and repeats until nothing changes."
)
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
    hosts = None if hosts is None else frozenset(map(checked_host_name, hosts))
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
    app.state.served = served
    app.include_router(_api_routes(served, metrics))
    app.include_router(udpipe_routes(served))
    app.include_router(page_routes())
    app.include_router(docs_routes(app))
    add_error_handlers(app, hint="See /docs for the API.")
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
    """Raise an error if a constraint has a label that the model does not know, unless the input has it there too.

    In the input, the word has that label, or a mark of the word forbids it.
    """
    known = frozenset(known)
    for number, constraints in job.constraints.items():
        given = job.sentences[number - 1] if job.sentences and number <= len(job.sentences) else None
        for found in unknown_labels(constraints, known):
            if given is not None and found.label in _labels_in_input(given, found):
                continue
            nearest = found.nearest(known)
            hint = f"Did you mean {nearest}?" if nearest else "GET /v1/models lists its labels."
            raise TreefineError(found.message, hint=hint, sentence=number, word=str(found.word))


def _labels_in_input(given: Sentence, found: UnknownLabel) -> Collection[str]:
    if found.is_forbidden:
        return marks_of(given).not_labels.get(found.word, ())
    return given.labels[found.word - 1 : found.word]


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
    """Return the parses as JSON with their constraints and all their graphs.

    Marks in their CoNLL-U repeat the constraints, so that a later parse of that CoNLL-U respects them too. A given tree
    is drawn as it is in the input, with labels that the model reads as others.
    """
    found = []
    for number, parse in enumerate(parses, start=1):
        given = parse.sentence if job.sentences is None else job.sentences[number - 1]
        constraints = job.constraints_of(number, given)
        is_marked = constraints or job.options.keep == "nothing"  # then marks of the input no longer apply
        sentence = constraints.mark(parse.sentence) if is_marked else parse.sentence
        drawn = replace(parse, initial=given.arcs) if job.options.initial == "given" else parse
        found.append(
            _refined_json(parse)
            | {"constraints": asdict(constraints), "conllu": sentence.to_conllu(), "graphs": graphs_of(drawn)}
        )
    return found


def _json_answer(service: Service, sentences: Iterable[dict[str, Any]]) -> Response:
    # Validating our own responses with Pydantic would cost time; tests check them instead.
    body = json.dumps({"model": service.name, "sentences": list(sentences)}, ensure_ascii=False)
    return Response(body, media_type="application/json")
