"""The command models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from treefine.parsing.models import about, bundled_models


def models(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the bundled models, with their scores on the test set of their treebank."""
    found = [_described(name, folder) for name, folder in bundled_models().items()]
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False, indent=1))
    elif found:
        typer.echo(_table(found))
    else:
        typer.echo("No model is bundled.")


def _described(name: str, folder: Path) -> dict[str, Any]:
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    known = asdict(about(folder))
    scores = known.pop("scores")
    return {"name": name, **known, "bytes": size, "scores": scores}


def _table(found: Sequence[dict[str, Any]]) -> str:
    """One row a model, columns as wide as their widest cell."""
    header = ["name", "language", "treebank", "licence", "encoder", "size", "scores"]
    rows = [header]
    for each in found:
        scores = ", ".join(f"{name} {score:.2f}" for name, score in each["scores"].items())
        rows.append([*(str(each[name]) for name in header[:5]), f"{each['bytes'] / 1e6:.1f} MB", scores])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])
