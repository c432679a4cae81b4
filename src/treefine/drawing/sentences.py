"""Draw sentences of a treebank and parses: one SVG picture, or an HTML page with a section per sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, cast

from treefine.drawing.html import page_end, page_part, page_start
from treefine.drawing.picture import Picture, picture_of
from treefine.drawing.svg import draw_svg
from treefine.errors import TreefineError, described, is_list_like
from treefine.treebank.raw_text import own_text
from treefine.treebank.sentence import HasSentence, Sentence, sentence_in

_MOST_IN_SVG = 200  # sentences; viewers fail on larger pictures


class Drawing(NamedTuple):
    """One sentence to draw."""

    name: str  # its sent_id; empty if it has none
    text: str
    pictures: tuple[Picture, ...]
    confidence: float | None = None
    is_ranked: bool = False  # whether the pictures after the first are other trees, not steps


def to_svg(sentences: Sentence | HasSentence | Iterable[Sentence | HasSentence], *, steps: bool = False) -> str:
    """Return a complete SVG file with the trees of Sentences or Parses, from top to bottom.

    With `steps`, each Parse is drawn with all its refinement steps. Raises TreefineError for more than 200 sentences;
    draw them as HTML.
    """
    return svg_of(_drawings(sentences, steps=steps))


def to_html(
    sentences: Sentence | HasSentence | Iterable[Sentence | HasSentence],
    *,
    steps: bool = False,
    title: str = "Trees",
) -> str:
    """Return a complete HTML page with the trees of Sentences or Parses, and a table of the words of each.

    With `steps`, each Parse is drawn with all its refinement steps. `title` is the heading of the page.
    """
    return "".join(html_of(_drawings(sentences, steps=steps), title))


def drawing_of(given: Sentence | HasSentence, *, steps: bool = False, marks_changes: bool = False) -> Drawing:
    """Return the drawing of a sentence, or of a Parse: its tree, its k best trees, or its steps.

    With `marks_changes`, the single tree of a Parse shows how it differs from the initial one.
    """
    if isinstance(given, Sentence):
        return Drawing(given.sent_id, own_text(given), (picture_of(given),))
    parse = cast(Any, given)
    pictures = tuple(parse.pictures(steps=steps))
    if marks_changes and len(pictures) == 1:
        pictures = (parse.changed_picture(),)
    is_ranked = bool(parse.trees) and not steps
    sure = None if parse.trees else parse.confidence  # each of several trees shows its own
    return Drawing(parse.sentence.sent_id, parse.text, pictures, sure, is_ranked)


def svg_of(drawings: Iterable[Drawing], *, hint: str = "Draw them as HTML, which has no limit.") -> str:
    """Draw all sentences in one picture, from top to bottom; name them if there are several."""
    found = []
    for each in drawings:
        found.append(each)
        if len(found) > _MOST_IN_SVG:
            raise TreefineError(f"An SVG picture holds at most {_MOST_IN_SVG} sentences.", hint=hint)
    pictures = []
    for number, each in enumerate(found, start=1):
        first, *others = each.pictures
        name = f"{each.name or number}: " if len(found) > 1 else ""
        pictures += [replace(first, caption=name + each.text), *others]
    return draw_svg(pictures)


def html_of(drawings: Iterable[Drawing], title: str) -> Iterator[str]:
    """Yield the parts of one page with a section per sentence."""
    yield page_start(title)
    for _, text, pictures, _, is_ranked in drawings:
        if is_ranked:
            yield page_part(pictures[:1], heading=text, others=pictures[1:])
        else:
            yield page_part(pictures, heading=text)
    yield page_end()


def _drawings(sentences: object, *, steps: bool) -> Iterator[Drawing]:
    """Yield the drawings of one or several Sentences or Parses; raise an error for anything else."""
    if sentence_in(sentences) is not None:
        sentences = [sentences]
    hint = "Pass Sentences or Parses."
    if not is_list_like(sentences):
        raise TreefineError(f"There are no trees to draw in {described(sentences)}.", hint=hint)
    for number, each in enumerate(sentences, start=1):
        if sentence_in(each) is None or not hasattr(each, "to_svg"):
            raise TreefineError(f"Item {number} cannot be drawn: it is {described(each)}.", hint=hint)
        yield drawing_of(each, steps=steps)
