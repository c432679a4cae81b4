"""The web page at `/`: a person types a sentence, looks at its graphs step by step, and decides about arcs."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter, Response

from treefine.drawing.svg import STYLE

TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}


def routes() -> APIRouter:
    """The page and its files; they are read once, here, so that no request names a file."""
    router = APIRouter(include_in_schema=False)
    for file in files("treefine.serving").joinpath("page").iterdir():
        _, _, ending = file.name.rpartition(".")
        if ending in TYPES:
            text = file.read_text(encoding="utf-8")
            # The headers let no drawing bring a style of its own; the page's rules come after it and may differ.
            content = STYLE + text if file.name == "page.css" else text
            path = "/" if file.name == "index.html" else f"/page/{file.name}"
            router.add_api_route(path, _answer(content, TYPES[ending]), methods=["GET", "HEAD"])
    return router


def _answer(content: str, media_type: str):  # type: ignore[no-untyped-def]  # a return type would become a schema
    async def answer() -> Response:
        # Asked for again each time, so that page and server are always of one version.
        return Response(content, media_type=f"{media_type}; charset=utf-8", headers={"Cache-Control": "no-cache"})

    return answer
