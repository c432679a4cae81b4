"""The web page at `/`, the graphs that it shows, and /docs: the description of the API, without scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.responses import HTMLResponse, Response

from treefine.drawing.picture import Picture
from treefine.drawing.svg import STYLE, draw_frames
from treefine.parsing.parse import Parse
from treefine.serving.schema import REFINE_EXAMPLE
from treefine.serving.static import static_routes
from treefine.treebank.graph import Arcs, Graph, changed_words

_DOCS_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem 1.5rem; }
code, pre { font: 0.9rem/1.4 ui-monospace, monospace; }
pre { padding: 0.8rem; border: 1px solid #81818155; border-radius: 6px; overflow: auto; }
h2 { margin-top: 2.5rem; overflow-wrap: anywhere; }
.scroll { overflow: auto; }
table { border-collapse: collapse; }
th, td { text-align: start; vertical-align: top; padding: 0.2rem 0.8rem 0.2rem 0; border-bottom: 1px solid #81818155; }
"""
_EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "/v1/parse": {"text": "Nobody knew why."},
    "/v1/steps": {"words": [["Nobody", "knew", "why", "."]], "steps": 2},
    "/v1/refine": {"conllu": REFINE_EXAMPLE},
}


def page_routes() -> APIRouter:
    """Return the routes of the page and its files."""
    # The Content-Security-Policy forbids styles inside drawings; the page's own rules come later and win.
    return static_routes(files("treefine.serving").joinpath("page"), before={"page.css": STYLE})


def graphs_of(parse: Parse) -> list[dict[str, Any]]:
    """Return G⁰, the graph of each step, and the tree if it differs from the last step, as JSON values.

    The words have the same positions in all drawings. In G⁰, some or all words may have no head.
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
    """Return the picture of a G⁰ in which some or all words have no arc."""
    heads, labels = parse.initial
    bare = frozenset(word for word, head in enumerate(heads, start=1) if head is None)
    n_arcs = len(heads) - len(bare)
    title = f"initial graph: {n_arcs} of {len(heads)} words have a head" if n_arcs else "initial graph: empty"
    graph = Graph.of_words([head or 0 for head in heads], labels)
    return replace(like, graph=graph, before=None, unattached=bare, title=title, confidence=())


def _first_picture(parse: Parse, first: Picture) -> Picture:
    """Return the picture of G¹ after an incomplete G⁰: a word without an arc in G⁰ counts as unchanged."""
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


def docs_routes(app: FastAPI) -> APIRouter:
    """Return the routes of /docs and its style."""
    router = APIRouter(include_in_schema=False)
    page = cache(lambda: _docs_page(app.openapi()))

    @router.get("/docs")
    async def docs() -> Response:
        return HTMLResponse(page())

    @router.get("/docs.css")
    async def style() -> Response:
        return Response(_DOCS_STYLE, media_type="text/css")

    return router


def _docs_page(description: Mapping[str, Any]) -> str:
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        "<title>treefine API</title>\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        '<link rel="stylesheet" href="docs.css"/>\n</head>\n<body>\n<main>\n',
        f"<h1>{escape(description['info']['title'])} {escape(description['info']['version'])}</h1>\n",
        f"<p>{escape(description['info']['description'])} For programs: "
        '<a href="openapi.json">openapi.json</a>. Try it: <a href="./">the page</a>.</p>\n',
    ]
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            parts.append(_operation(path, method, operation, description))
    return "".join([*parts, "</main>\n</body>\n</html>\n"])


def _operation(path: str, method: str, operation: Mapping[str, Any], description: Mapping[str, Any]) -> str:
    parts = [f"<h2><code>{method.upper()} {escape(path)}</code></h2>\n"]
    parts.append(f"<p>{escape(operation.get('description') or operation.get('summary', ''))}</p>\n")
    body = operation.get("requestBody", {}).get("content", {})
    fields = [(each["name"], each["schema"], each.get("description", "")) for each in operation.get("parameters", ())]
    for kind, content in body.items():
        parts.append(f"<p>The body is <code>{escape(kind)}</code>.</p>\n")
        fields += _fields(content["schema"], description)
    if fields:
        rows = "".join(
            f"<tr><td><code>{escape(name)}</code></td><td>{escape(_type(schema))}</td><td>{escape(said)}</td></tr>\n"
            for name, schema, said in {field[0]: field for field in fields}.values()
        )
        heading = "<tr><th>name</th><th>value</th><th>meaning</th></tr>"
        parts.append(f'<div class="scroll" tabindex="0"><table>\n{heading}\n{rows}</table></div>\n')
    if path in _EXAMPLES:
        asked = json.dumps(_EXAMPLES[path])
        shell = f"curl -s localhost:8080{path} -H 'Content-Type: application/json' -d '{asked}'"
        parts.append(f"<pre>{escape(shell)}</pre>\n")
    answers = ", ".join(
        f"{status} ({escape(answer.get('description', ''))})" for status, answer in operation["responses"].items()
    )
    return "".join([*parts, f"<p>Responses: {answers}</p>\n"])


def _fields(schema: Mapping[str, Any], description: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Yield name, schema and description of each field of a body."""
    if "$ref" in schema:
        schema = description["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    for name, each in schema.get("properties", {}).items():
        yield name, each, each.get("description", "")


def _type(schema: Mapping[str, Any]) -> str:
    """Describe the values of a field.

    >>> _type({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]})
    'list of string, or null'
    """
    if "enum" in schema:
        return ", ".join(map(json.dumps, schema["enum"]))
    if "anyOf" in schema:
        return ", or ".join(map(_type, schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    return str(schema.get("type", "any"))
