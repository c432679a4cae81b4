"""What a parser's folder holds: its model, its segmenter, and the parser that it starts from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from treefine.parsing.initial import InitialParser
from treefine.parsing.layout import LAYOUT
from treefine.parsing.pretrained import write_model

if TYPE_CHECKING:
    from treefine.parsing.parser import Parser


def write_parser(parser: Parser, folder: Path, dtype: torch.dtype, notes: str) -> None:
    """Write all of it into a folder that is there."""
    write_model(parser.model, folder, dtype=dtype, notes=notes)
    initial: Parser | InitialParser = parser.initial
    if isinstance(initial, type(parser)):
        (folder / LAYOUT.initial).mkdir()
        write_parser(initial, folder / LAYOUT.initial, dtype, "")
    if parser.segmenter is not None:
        (folder / LAYOUT.segmenter).mkdir()
        parser.segmenter.write(folder / LAYOUT.segmenter)
