"""Parsed sentences as the text of an output: trees drawn for a terminal, treebanks, JSON, SVG, HTML."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from treefine.drawing.characters import visible
from treefine.drawing.html import page_end, page_start
from treefine.drawing.svg import draw_svg
from treefine.drawing.text import BOLD, Cell
from treefine.errors import TreefineError

if TYPE_CHECKING:
    from treefine.parsing.parse import Parse

MOST_IN_SVG = 200  # sentences: what is larger, no program opens
_BOXES = "─┄│╭├╰┬┼┴…"


class Pen(NamedTuple):
    """What the place that is written to can show."""

    encoding: str = "utf-8"
    color: bool = False
    ascii_only: bool = False


def pen_for_stdout() -> Pen:
    """Colour on a terminal that has any, unless NO_COLOR forbids it; only ASCII where its encoding has no boxes."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        _BOXES.encode(encoding)
        ascii_only = False
    except UnicodeEncodeError:
        ascii_only = True
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return Pen(encoding, sys.stdout.isatty() and not is_plain, ascii_only)


def as_trees(parses: Iterable[Parse], pen: Pen, *, steps: bool) -> Iterator[str]:
    """Each tree, or all its steps, under a line that names the sentence, with a blank line between two."""
    for number, parse in enumerate(parses):
        name = visible(parse.sentence.sent_id or str(number + 1), ascii_only=pen.ascii_only)
        sure = "" if parse.trees else f", confidence {parse.confidence:.2f}"  # each of several trees has its own
        heading = Cell(name + sure, BOLD).painted(color=pen.color)
        drawn = parse.to_text(steps=steps, color=pen.color, ascii_only=pen.ascii_only)
        yield "\n" * bool(number) + f"{heading}\n{drawn}"


def as_json(parses: Iterable[Parse]) -> Iterator[str]:
    """One object a line."""
    for parse in parses:
        yield parse.to_json() + "\n"


def as_svg(parses: Iterable[Parse], *, steps: bool) -> Iterator[str]:
    """One picture with all sentences under one another, each under its name where they are several."""
    found = []
    for parse in parses:
        found.append(parse)
        if len(found) > MOST_IN_SVG:
            hint = "Choose --format html, which has no end."
            raise TreefineError(f"One SVG of more than {MOST_IN_SVG} sentences is too large.", hint=hint)
    pictures = []
    for number, parse in enumerate(found, start=1):
        first, *others = parse.pictures(steps=steps)
        if len(found) > 1:
            name = parse.sentence.sent_id or str(number)
            first = replace(first, title=f"{name}: {first.title}" if first.title else name)
        pictures += [first, *others]
    yield draw_svg(pictures)


def as_html(parses: Iterable[Parse], *, title: str, steps: bool) -> Iterator[str]:
    """One page, a section for each sentence."""
    yield page_start(title)
    for parse in parses:
        yield parse.to_html(steps=steps)
    yield page_end()
