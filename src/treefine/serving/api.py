"""The JSON API: /v1/parse, /v1/refine, /v1/steps, /v1/models, and /health and /metrics beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response
from starlette.concurrency import run_in_threadpool

from treefine.parsing.parse import Parse
from treefine.serving.graphs import graphs_of
from treefine.serving.metrics import CONTENT_TYPE, Metrics
from treefine.serving.requests import Asked
from treefine.serving.schema import (
    ERRORS,
    Health,
    ModelJson,
    Parsed,
    ParseRequest,
    Refined,
    RefineRequest,
    Stepped,
    StepsRequest,
)
from treefine.serving.service import Served, Service
from treefine.treebank.conllu import texts_in_file
from treefine.treebank.sentence import Sentence
from treefine.version import __version__

LARGE = 20_000  # characters: what is longer is read and written in another thread, so that others are not held up

Value = TypeVar("Value")
_CONLLU: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


def routes(served: Served, metrics: Metrics) -> APIRouter:
    """The routes, over these models."""
    router = APIRouter()

    @router.post("/v1/parse", response_model=Parsed, responses={**ERRORS, **_CONLLU}, tags=["parse"])
    async def parse(request: ParseRequest) -> Response:
        """Parse a text, or sentences that are cut into words."""
        return await _parsed(request, served.find(request.model), Parse.to_dict)

    @router.post("/v1/refine", response_model=Refined, responses={**ERRORS, **_CONLLU}, tags=["parse"])
    async def refine(request: RefineRequest) -> Response:
        """Correct the trees of another parser, and tell what was changed."""
        return await _parsed(request, served.find(request.model), refined)

    @router.post("/v1/steps", response_model=Stepped, responses=ERRORS, tags=["parse"])
    async def steps(request: StepsRequest) -> Response:
        """Parse, and draw every graph from the initial one to the tree."""
        service = served.find(request.model)
        service.check_room()
        asked = await _aside(_size(request), request.asked)
        parses = await service.steps(asked)
        # Drawing takes milliseconds a sentence.
        return await run_in_threadpool(lambda: _answer(service, stepped(asked, parses)))

    @router.get("/v1/models", tags=["server"])
    async def models() -> list[ModelJson]:
        """List the models that can be asked."""
        return [_model(service, is_default=service.name == served.default) for service in served]

    @router.get("/health", response_model=Health, responses={503: {"model": Health}}, tags=["server"])
    async def health() -> Response:
        """Tell whether all models can be asked: 200, else 503."""
        told = Health(
            status="ok" if all(each.is_alive for each in served) else "failed",
            version=__version__,
            models={each.name: "ok" if each.is_alive else "failed" for each in served},
        )
        return Response(told.model_dump_json(), 200 if told.status == "ok" else 503, media_type="application/json")

    @router.get("/metrics", response_class=PlainTextResponse, tags=["server"])
    async def counted() -> Response:
        """Give counts and times for Prometheus."""
        return Response(metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    return router


async def _parsed(
    request: ParseRequest | RefineRequest, service: Service, as_json: Callable[[Parse], dict[str, Any]]
) -> Response:
    service.check_room()  # before anything is read for it
    asked = await _aside(_size(request), request.asked)
    if request.format == "conllu":
        sentences = await service.trees(asked)
        return PlainTextResponse(await _aside(asked.size, lambda: "".join(texts_in_file(sentences))))
    parses = await service.parses(asked)
    return await _aside(asked.size, lambda: _answer(service, map(as_json, parses)))


async def _aside(size: int, work: Callable[[], Value]) -> Value:
    """Do it here, or in another thread where it may take long."""
    return await run_in_threadpool(work) if size > LARGE else work()


def _size(request: StepsRequest | RefineRequest) -> int:
    if isinstance(request, StepsRequest) and request.conllu is None:
        return sum(
            len(word) for words in request.words or () for word in words
        )  # a text is read by the model's own thread
    return len(request.conllu or "")


def refined(parse: Parse) -> dict[str, Any]:
    """A parse with where it started, and what it changed."""
    changes = [
        {name: round(value, 4) if isinstance(value, float) else value for name, value in each._asdict().items()}
        for each in parse.changes
    ]
    initial = {"heads": list(parse.initial.heads), "labels": list(parse.initial.labels)}
    return parse.to_dict() | {"initial": initial, "changes": changes, "converged": parse.converged}


def stepped(asked: Asked, parses: Sequence[Parse]) -> list[dict[str, Any]]:
    """Parses with all their graphs; their CoNLL-U has what was decided in marks, so that it can be gone on with."""
    found = []
    for number, parse in enumerate(parses, start=1):
        given: Sentence = parse.sentence if asked.sentences is None else asked.sentences[number - 1]
        decided = asked.decided(number, given)
        marked = decided.mark(parse.sentence) if decided else parse.sentence
        found.append(refined(parse) | {"conllu": marked.to_text(), "graphs": graphs_of(parse)})
    return found


def _answer(service: Service, sentences: Any) -> Response:
    # Not through pydantic: what we made ourselves is not checked again for every client; tests do.
    body = json.dumps({"model": service.name, "sentences": list(sentences)}, ensure_ascii=False)
    return Response(body, media_type="application/json")


def _model(service: Service, *, is_default: bool) -> ModelJson:
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
