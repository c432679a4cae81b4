"""load: the shortest way to a parser."""

from __future__ import annotations

import os

import torch

from treefine.config import Precision, TagSource
from treefine.parsing.initial import InitialParser
from treefine.parsing.parser import Parser


def load(
    name: str | os.PathLike[str] = "en",
    *,
    initial: str | os.PathLike[str] | Parser | InitialParser | None = None,
    max_steps: int | None = None,
    stop_above: float | None = None,
    tags: TagSource | None = None,
    device: str | torch.device | None = None,
    precision: Precision | None = None,
) -> Parser:
    """The bundled parser of this name, or that of a folder or a hub's model: text in, trees out."""
    return Parser.from_pretrained(
        name,
        initial=initial,
        max_steps=max_steps,
        stop_above=stop_above,
        tags=tags,
        device=device,
        precision=precision,
    )
