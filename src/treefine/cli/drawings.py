"""Draw the sentences of an output: as text for a terminal, as one SVG picture, or as an HTML page."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal, NamedTuple

from treefine.drawing.characters import visible
from treefine.drawing.sentences import Drawing, html_of, svg_of
from treefine.drawing.text import BOLD, WIDTH, StyledText, draw_text

DrawnShape = Literal["tree", "svg", "html"]
_BOXES = "─┄│╭├╰┬┼┴…"


class Pen(NamedTuple):
    """The encoding, colour, character set and width of drawn trees."""

    encoding: str = "utf-8"
    color: bool = False
    ascii_only: bool = False
    width: int = WIDTH


def pen_for_stdout() -> Pen:
    """Use colour on a terminal unless NO_COLOR or TERM=dumb is set, and ASCII if the encoding lacks box characters."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        _BOXES.encode(encoding)
        ascii_only = False
    except UnicodeEncodeError:
        ascii_only = True
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    return Pen(encoding, sys.stdout.isatty() and not is_plain, ascii_only, max(width, 20))


def draw_all(drawings: Iterable[Drawing], shape: DrawnShape, *, title: str, pen: Pen) -> Iterator[str]:
    """Yield the output in this format; `title` is the heading of a page."""
    if shape == "tree":
        return _as_trees(drawings, pen)
    if shape == "svg":
        return iter([svg_of(drawings, hint="Use --format html, which has no limit.")])
    return html_of(drawings, title)


def _as_trees(drawings: Iterable[Drawing], pen: Pen) -> Iterator[str]:
    """Draw each tree, or all its steps, under the name and text of the sentence; separate sentences by blank lines."""
    for number, each in enumerate(drawings, start=1):
        name = visible(each.name or str(number), ascii_only=pen.ascii_only)
        sure = "" if each.confidence is None else f", confidence {each.confidence:.2f}"
        heading = StyledText(name + sure, BOLD).painted(color=pen.color)
        first, *others = each.pictures
        drawn = (
            draw_text(picture, color=pen.color, ascii_only=pen.ascii_only, width=pen.width)
            for picture in (replace(first, caption=each.text), *others)
        )
        yield "\n" * (number > 1) + f"{heading}\n" + "\n".join(drawn)
