"""The parser that a command asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from treefine.config import BATCH_PIECES, Precision, TagSource
from treefine.errors import TreefineError
from treefine.treebank.constraints import Keep
from treefine.treebank.label_names import read_label_map

if TYPE_CHECKING:
    from treefine.parsing.initial import InitialParser
    from treefine.parsing.parser import Parser


@dataclass(frozen=True)
class Loading:
    """A model and how it is to parse; what is None is as the model has it."""

    model: str
    initial: str | InitialParser | None = None
    label_map: str | None = None
    steps: int | None = None
    stop_above: float | None = None
    tags: TagSource | None = None
    projective: bool = False
    keep: Keep = "marked"
    k: int = 1
    device: str | None = None
    precision: Precision | None = None
    batch_pieces: int = BATCH_PIECES


def load_parser(loading: Loading) -> Parser:
    """The parser, with names for the labels of another scheme."""
    from treefine.parsing.initial import empty, renamed  # which load torch
    from treefine.parsing.parser import Parser

    parser = Parser.from_pretrained(
        loading.model,
        initial=loading.initial,
        max_steps=loading.steps,
        stop_above=loading.stop_above,
        tags=loading.tags,
        is_projective=loading.projective,
        keep=loading.keep,
        k=loading.k,
        device=loading.device,
        precision=loading.precision,
        batch_pieces=loading.batch_pieces,
    )
    if parser.initial is empty or isinstance(parser.initial, Parser):
        if loading.label_map is not None:
            raise TreefineError("--label-map is for the trees of a file.", hint="Name one with --initial.")
        return parser
    known = parser.model.vocabulary.labels
    names = None if loading.label_map is None else read_label_map(loading.label_map, known)
    named = renamed(parser.initial, known, names)
    return parser.using(initial=named, max_steps=parser.max_steps, stop_above=parser.stop_above)
