"""Routes for the files of a web page, which are read once at the start. This module does not import torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fastapi import APIRouter
from fastapi.responses import Response

if TYPE_CHECKING:
    from importlib.abc import Traversable

_MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}


def static_routes(
    folder: Traversable, *, prefix: str = "/page", index: str = "/", before: Mapping[str, str] | None = None
) -> APIRouter:
    """Return routes for the HTML, CSS and JavaScript files of a folder; no request names a file on disk.

    index.html has the path `index`, and other files have `prefix` before their names. `before` maps the name of a file
    to text that is put before its content.
    """
    router = APIRouter(include_in_schema=False)
    for file in folder.iterdir():
        ending = file.name.rpartition(".")[2]
        if ending in _MEDIA_TYPES:
            content = (before or {}).get(file.name, "") + file.read_text(encoding="utf-8")
            path = index if file.name == "index.html" else f"{prefix}/{file.name}"
            router.add_api_route(path, _file_answer(content, _MEDIA_TYPES[ending]), methods=["GET"])
    return router


def _file_answer(content: str, media_type: str):  # type: ignore[no-untyped-def]  # a return type would become a schema
    async def answer() -> Response:
        # Browsers check for a new version each time, so that page and server always match.
        return Response(content, media_type=f"{media_type}; charset=utf-8", headers={"Cache-Control": "no-cache"})

    return answer
