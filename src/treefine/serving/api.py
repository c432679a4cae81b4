"""The JSON API: /v1/parse, /v1/refine, /v1/steps and /v1/models, with /health and /metrics beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response
from starlette.concurrency import run_in_threadpool

from treefine.parsing.parse import Parse
from treefine.serving.graphs import graphs_of
from treefine.serving.middleware import ServerMetrics
from treefine.serving.requests import ParseJob
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
from treefine.serving.service import Served, Service
from treefine.treebank.conllu import texts_in_file
from treefine.version import __version__

LARGE_REQUEST = 20_000  # characters; longer ones are read and written in another thread, so as not to hold up others

_Value = TypeVar("_Value")
_CONLLU: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


def api_routes(served: Served, metrics: ServerMetrics) -> APIRouter:
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
        parses = await service.steps(job)
        # Drawing takes milliseconds per sentence.
        return await run_in_threadpool(lambda: _json_answer(service, _stepped_json(job, parses)))

    @router.get("/v1/models", tags=["server"])
    async def models() -> list[ModelJson]:
        """List the models that can be asked."""
        return [_model_json(service, is_default=service.name == served.default) for service in served]

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
        sentences = await service.trees(job)
        return PlainTextResponse(await _in_thread_if_large(job.size, lambda: "".join(texts_in_file(sentences))))
    parses = await service.parses(job)
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


def _model_json(service: Service, *, is_default: bool) -> ModelJson:
    parser = service.parser
    settings = parser.model.settings
    return ModelJson(
        name=service.name,
        is_default=is_default,
        labels=list(parser.model.vocabulary.labels),
        max_steps=parser.max_steps,
        reads_graph=settings.reads_graph,
        has_segmenter=parser.segmenter is not None,
        predicts_tags=settings.tags.source == "predicted",
        has_initial_parser=isinstance(parser.initial, type(parser)),
    )
