"""Draw the sentences of an output: as text for a terminal, as one SVG picture, or as an HTML page."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from treefine.drawing.characters import visible
from treefine.drawing.html import page_end, page_part, page_start
from treefine.drawing.picture import Picture, picture_of
from treefine.drawing.svg import draw_svg
from treefine.drawing.text import BOLD, WIDTH, StyledText, draw_text
from treefine.errors import TreefineError
from treefine.treebank.raw_text import own_text

if TYPE_CHECKING:
    from treefine.parsing.parse import Parse
    from treefine.treebank.sentence import Sentence

DrawnShape = Literal["tree", "svg", "html"]
_MOST_IN_SVG = 200  # sentences; viewers fail on larger pictures
_BOXES = "─┄│╭├╰┬┼┴…"


class Drawing(NamedTuple):
    """One sentence to draw."""

    name: str  # its sent_id; empty if it has none
    text: str
    pictures: tuple[Picture, ...]
    confidence: float | None = None
    is_ranked: bool = False  # whether the pictures after the first are other trees, not steps


def drawing_of_sentence(sentence: Sentence) -> Drawing:
    """Return the drawing of a sentence of a treebank."""
    return Drawing(sentence.sent_id, own_text(sentence), (picture_of(sentence),))


def drawing_of_parse(parse: Parse, *, steps: bool = False, marks_changes: bool = False) -> Drawing:
    """Return the drawing of a parse: its tree, its k best trees, or its steps.

    With `marks_changes`, a single tree shows how it differs from the initial one.
    """
    pictures = tuple(parse.pictures(steps=steps))
    if marks_changes and len(pictures) == 1:
        pictures = (parse.changed_picture(),)
    is_ranked = bool(parse.trees) and not steps
    sure = None if parse.trees else parse.confidence  # each of several trees shows its own
    return Drawing(parse.sentence.sent_id, parse.text, pictures, sure, is_ranked)


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
    return _as_svg(drawings) if shape == "svg" else _as_html(drawings, title)


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


def _as_svg(drawings: Iterable[Drawing]) -> Iterator[str]:
    """Draw all sentences in one picture, from top to bottom; name them if there are several."""
    found = []
    for each in drawings:
        found.append(each)
        if len(found) > _MOST_IN_SVG:
            hint = "Use --format html, which has no limit."
            raise TreefineError(f"An SVG picture holds at most {_MOST_IN_SVG} sentences.", hint=hint)
    pictures = []
    for number, each in enumerate(found, start=1):
        first, *others = each.pictures
        name = f"{each.name or number}: " if len(found) > 1 else ""
        pictures += [replace(first, caption=name + each.text), *others]
    yield draw_svg(pictures)


def _as_html(drawings: Iterable[Drawing], title: str) -> Iterator[str]:
    """Write one page with a section per sentence."""
    yield page_start(title)
    for _, text, pictures, _, is_ranked in drawings:
        if is_ranked:
            yield page_part(pictures[:1], heading=text, others=pictures[1:])
        else:
            yield page_part(pictures, heading=text)
    yield page_end()
