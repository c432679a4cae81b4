"""Draw a graph as SVG: the words in a row with their arcs above, without fonts or scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import Literal, NamedTuple

from treefine.drawing.characters import cells, is_right_to_left, safe_html, shorten, visible, wrapped
from treefine.drawing.picture import Picture
from treefine.treebank.graph import ROOT

WORD_SIZE, SMALL_SIZE = 16, 12  # font size of words and of all other text, in pixels, as in tree.css
STEM = (
    11  # arcs to dependents start this far left or right of a word's middle; the arc from its head ends in the middle
)
_MARGIN = 18  # around the drawing
GAP = 18  # between two words
BOLD_WIDTH = 1.1  # bold letters are wider by this factor
_MAX_CELLS = 40  # maximum width of a form, tag or label, in columns of letters
UNSURE = 0.8  # a lower confidence gets a question mark
NARROW, WIDE = frozenset("fijlrtI .,:;'`!|()[]{}/\\-"), frozenset("mwMW@%—…")
LEVEL = 24  # pixels from one level of arcs to the next
CORNER = 10  # radius of an arc's corners
ARROW = 7  # length of an arrowhead
ASIDE = 6  # distance between the ends of an old and a new arc
_TITLE, _TITLE_SIZE, _TITLE_CELLS = 26, 14, 120  # height of a title, its font size, and its maximum length
_CAPTION, _CAPTION_WIDTH = 20, 480  # height of a line of a caption, and the width that every caption may have
_WORDS, _TAGS, _TOKENS = 26, 18, 26  # height of a row of words, tags, multiword tokens

# Every CSS rule starts with "treefine", because a style applies to the whole page or notebook that contains it.
# The drawing has its own background, so that it is readable on any page; in print it is always light.
STYLE = "\n" + files(__package__).joinpath("tree.css").read_text(encoding="utf-8")


class Arc(NamedTuple):
    """One arc of a drawing, with its label."""

    word: int
    head: int
    label: str
    kind: Literal["same", "changed", "old"] = "same"  # old: the arc of the previous step
    old_label: str = ""  # if only the label has changed
    sure: float | None = None  # the confidence of the parser, if it is shown

    @property
    def sure_text(self) -> str:
        """The confidence as shown after the label."""
        return "" if self.sure is None else f" {self.sure:.2f}{'?' * self.is_unsure}"

    @property
    def is_unsure(self) -> bool:
        """Whether the confidence is below `UNSURE`."""
        return self.sure is not None and self.sure < UNSURE

    @property
    def span(self) -> range:
        """The gaps between words that the arc spans; gap i is right of word i. An arrow from ROOT spans two gaps."""
        if self.head in (ROOT, self.word):
            return range(self.word - 1, self.word + 1)
        return range(min(self.word, self.head), max(self.word, self.head))


def arcs_of(picture: Picture) -> list[Arc]:
    """Return the arcs to draw: those of the graph, and the old arc of each word whose head has changed."""
    graph, before, changed = picture.graph, picture.before, picture.changed
    if graph is None:
        return []
    arcs = []
    for word in range(1, len(graph) + 1):
        if word in picture.unattached:
            continue
        head, label = graph.heads[word], graph.labels[word]
        sure = picture.confidence[word - 1] if picture.shows_confidence and picture.confidence else None
        if word not in changed or before is None:
            arcs.append(Arc(word, head, label, sure=sure))
        elif before.heads[word] == head:
            arcs.append(Arc(word, head, label, "changed", before.labels[word], sure))
        else:
            arcs.append(Arc(word, head, label, "changed", sure=sure))
            arcs.append(Arc(word, before.heads[word], before.labels[word], "old"))
    return arcs


def arc_levels(arcs: Sequence[Arc], n_words: int) -> list[int]:
    """Return the level of each arc, from 1: above all shorter arcs that overlap with it.

    >>> arc_levels([Arc(1, 2, "det"), Arc(2, 0, "root"), Arc(3, 1, "obj")], 3)
    [1, 3, 2]
    """
    levels = [0] * len(arcs)
    skyline = [0] * (n_words + 1)  # the level reached over each gap between two words

    def length(index: int) -> int:
        # Arrows from ROOT come last: nothing should run above them.
        return n_words + 1 if arcs[index].head == ROOT else len(arcs[index].span)

    for index in sorted(range(len(arcs)), key=length):
        span = arcs[index].span
        levels[index] = 1 + max(skyline[span.start : span.stop])
        skyline[span.start : span.stop] = [levels[index]] * len(span)
    return levels


def shown(text: str, max_cells: int = _MAX_CELLS) -> str:
    """Return the text as drawn: control characters escaped, and long text cut off."""
    return shorten(visible(text), max_cells)


def text_width(text: str, size: float) -> float:
    """Estimate the width of a text in pixels, without a font."""
    narrow = sum(each in NARROW for each in text)
    wide = sum(each in WIDE or each.isupper() for each in text)
    return size * (0.6 * cells(text) - 0.25 * narrow + 0.15 * wide)


def label_width(arc: Arc) -> float:
    """Return the width of an arc's label, including the old label, the confidence and a margin."""
    bold = BOLD_WIDTH if arc.kind == "changed" else 1.0
    was = text_width(f"{shown(arc.old_label)} ", SMALL_SIZE) if arc.old_label else 0.0
    return bold * text_width(shown(arc.label) + arc.sure_text, SMALL_SIZE) + was + 10


def _word_places(pictures: Sequence[Picture]) -> tuple[list[float], float]:
    """Return the middle of each word (ROOT's is unused) and the total width; right-to-left text runs from the right.

    All pictures are over the same words and share their places, so that changes between steps are easy to see.
    """
    forms = pictures[0].forms
    halves = [0.0, *[max(text_width(shown(form), WORD_SIZE), 2 * STEM) / 2 for form in forms]]
    apart: list[list[tuple[int, float]]] = [[] for _ in halves]  # for each word: minimum distances from earlier words
    for picture in pictures:
        for word, tag in enumerate(picture.tags, start=1):
            halves[word] = max(halves[word], text_width(shown(tag), SMALL_SIZE) / 2)
        for arc in arcs_of(picture):
            if arc.head in (ROOT, arc.word):
                halves[arc.word] = max(halves[arc.word], label_width(arc) / 2)
            else:
                # At this distance the label touches neither the ends of its arc nor other arcs of its word.
                apart[arc.span.stop].append((arc.span.start, label_width(arc) + 3 * STEM + 6))
        for token in picture.multiword_tokens:
            apart[token.words[-1]].append((token.words[0], text_width(shown(token.form), SMALL_SIZE)))
    middles = [0.0] * len(halves)
    end: float = _MARGIN - GAP
    for word in range(1, len(halves)):
        places = [middles[earlier] + distance for earlier, distance in apart[word]]
        middles[word] = max([end + GAP + halves[word], *places])
        end = middles[word] + halves[word]
    width = end + _MARGIN
    return ([width - middle for middle in middles] if is_right_to_left("".join(forms)) else middles), width


def draw_svg(pictures: Sequence[Picture]) -> str:
    """Draw one SVG with the pictures below each other, such as the steps of a sentence."""
    return svg_and_width(pictures)[0]


def svg_and_width(pictures: Sequence[Picture]) -> tuple[str, float]:
    """Draw the pictures as `draw_svg` does; return the SVG and its width in pixels."""
    parts: list[str] = []
    width = top = 0.0
    for _, group in groupby(pictures, key=lambda picture: picture.forms):
        same_words = list(group)
        places, needed = _word_places(same_words)
        titles = [shown(picture.title, _TITLE_CELLS) for picture in same_words]
        width = max(width, needed, *(text_width(title, _TITLE_SIZE) * BOLD_WIDTH + 2 * _MARGIN for title in titles))
        for picture in same_words:
            caption = _caption_lines(picture, needed - 2 * _MARGIN)
            width = max([width, *(text_width(line, _TITLE_SIZE) + 2 * _MARGIN for line in caption)])
            drawn, height = _draw(picture, places, _n_levels(picture), caption)
            parts.append(f'<g transform="translate(0 {number_text(top)})">{drawn}</g>')
            top += height
    title = pictures[-1].text if pictures else ""
    return whole_svg("treefine", title, STYLE, parts, width=width, height=top), width


def _caption_lines(picture: Picture, width: float) -> list[str]:
    """Return the caption in lines that fit over a drawing of this width, or over a drawing of the least width."""
    limit = max(width, _CAPTION_WIDTH)
    return wrapped(visible(picture.caption), limit, width=lambda line: text_width(line, _TITLE_SIZE))


def draw_frames(pictures: Sequence[Picture]) -> list[str]:
    """Draw one SVG for each of several graphs over the same words, without titles.

    All have the same size, with words in the same places, so that one can replace another in an animation.
    """
    places, width = _word_places(pictures)
    n_levels = max(map(_n_levels, pictures))
    drawn = (_draw(replace(picture, title=""), places, n_levels) for picture in pictures)
    title = pictures[0].text
    return [whole_svg("treefine", title, STYLE, [parts], width=width, height=height) for parts, height in drawn]


def whole_svg(name: str, title: str, style: str, parts: Sequence[str], *, width: float, height: float) -> str:
    """Return the parts as an SVG file of this CSS class, with a background."""
    across, down = number_text(width), number_text(height)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{name}" role="img" '
        f'width="{across}" height="{down}" viewBox="0 0 {across} {down}">\n'
        f"<title>{safe_html(title)}</title>\n<style>{style}</style>\n"
        '<rect class="paper" width="100%" height="100%" rx="6"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _n_levels(picture: Picture) -> int:
    """Return the number of levels of arcs in the picture."""
    return max(arc_levels(arcs_of(picture), len(picture.forms)), default=0)


def _draw(picture: Picture, places: Sequence[float], n_levels: int, caption: Sequence[str] = ()) -> tuple[str, float]:
    """Return the elements of one picture, with room for `n_levels` levels of arcs, and its height."""
    arcs = arcs_of(picture)
    levels = arc_levels(arcs, len(picture.forms))
    start = _MARGIN / 2 + _CAPTION * len(caption)
    top = start + (_TITLE if picture.title else 0)
    ground = top + LEVEL * (n_levels + 0.7 if n_levels else 0)  # where arcs end and words begin
    parts = [
        text_element(_MARGIN, _MARGIN / 2 + 16 + _CAPTION * number, line, "caption")
        for number, line in enumerate(caption)
    ]
    if picture.title:
        title = shown(picture.title, _TITLE_CELLS)
        parts.append(text_element(_MARGIN, start + 16, title, "title", whole=picture.title))
    # Changed arcs are drawn last, on top of others; labels are drawn after all lines, so that no line crosses a label.
    order = sorted(range(len(arcs)), key=lambda index: (arcs[index].kind == "changed", levels[index]))
    heights = [ground - LEVEL * (level + 0.2) for level in levels]
    ends = [_ends(arc, picture, places) for arc in arcs]
    for each in order:
        parts.append(_arc(arcs[each], ends[each], heights[each], ground, _describe(arcs[each], picture)))
    parts += [_label(arcs[each], sum(ends[each]) / 2, heights[each]) for each in order]
    for word, form in enumerate(picture.forms, start=1):
        of_word = f' data-word="{word}"'
        parts.append(text_element(places[word], ground + 18, shown(form), "form", whole=form, more=of_word))
    bottom = ground + _WORDS
    if picture.tags:
        for word, tag in enumerate(picture.tags, start=1):
            parts.append(text_element(places[word], bottom + 10, shown(tag), "tag", whole=tag))
        bottom += _TAGS
    for token in picture.multiword_tokens:
        start, end = sorted((places[token.words[0]], places[token.words[-1]]))
        line = f"M{number_text(start - STEM)} {number_text(bottom)}v4H{number_text(end + STEM)}v-4"
        form = text_element((start + end) / 2, bottom + 18, shown(token.form), "token", whole=token.form)
        parts.append(f'<path d="{line}"/>{form}')
    return "\n".join(parts), bottom + (_TOKENS if picture.multiword_tokens else 0) + _MARGIN / 2


def _ends(arc: Arc, picture: Picture, places: Sequence[float]) -> tuple[float, float]:
    """Return the x coordinates of the start and end of an arc; an arrow from ROOT starts above its end.

    An old arc ends next to the new one, on the side where the two do not cross.
    """
    here, from_ = places[arc.word], places[arc.head]
    end = here
    if arc.kind == "old" and picture.graph is not None:
        new_head = picture.graph.heads[arc.word]
        goes_left, new_is_left = from_ < here, places[new_head] < here
        if arc.head == ROOT:
            goes_left = not new_is_left
        elif goes_left == new_is_left and new_head != ROOT:
            goes_left ^= abs(from_ - here) > abs(places[new_head] - here)
        end += -ASIDE if goes_left else ASIDE
    if arc.head == ROOT:
        return end, end
    return from_ + (STEM if from_ < here else -STEM), end


def _arc(arc: Arc, ends: tuple[float, float], height: float, ground: float, title: str) -> str:
    """Return the line of an arc from its head to its word, with an arrowhead; `title` is its tooltip."""
    start, end = ends
    size = ARROW if arc.kind != "old" else ARROW - 2
    line = f"M{number_text(start)} {number_text(height)}"
    if arc.head != ROOT:
        bend = min(CORNER, abs(end - start) / 2)
        aside = bend if start < end else -bend
        line = f"M{number_text(start)} {number_text(ground)}V{number_text(height + bend)}"
        line += f"q0 {number_text(-bend)} {number_text(aside)} {number_text(-bend)}H{number_text(end - aside)}"
        line += f"q{number_text(aside)} 0 {number_text(aside)} {number_text(bend)}"
    line += f"V{number_text(ground - size)}"
    arrow = f"M{number_text(end)} {number_text(ground)}l{-size / 2} {-size}h{size}z"
    return (
        f'<g {_attributes(arc)}><title>{safe_html(title)}</title><path d="{line}"/><path class="head" d="{arrow}"/></g>'
    )


def _describe(arc: Arc, picture: Picture) -> str:
    head = picture.forms[arc.head - 1] if arc.head else "ROOT"
    said = f"{picture.forms[arc.word - 1]} ← {head}: {arc.label}"
    before = picture.before_name or "before"
    if arc.kind == "old":
        return f"{said} ({before})"
    if arc.old_label:
        said += f" ({before}: {arc.old_label})"
    return f"{said}, {picture.confidence[arc.word - 1]:.2f}" if picture.confidence else said


def _label(arc: Arc, middle: float, height: float) -> str:
    """Return the label in the middle of its arc, on a rectangle of background."""
    width = label_width(arc)
    corner = f'x="{number_text(middle - width / 2)}" y="{number_text(height - 8)}"'
    box = f'<rect class="paper" {corner} width="{number_text(width)}" height="16"/>'
    was = f'<tspan class="was">{escape(shown(arc.old_label))}</tspan> ' if arc.old_label else ""
    sure = f'<tspan class="sure{" unsure" * arc.is_unsure}">{arc.sure_text}</tspan>' if arc.sure_text else ""
    text = f'<text x="{number_text(middle)}" y="{number_text(height + 4)}">{was}{escape(shown(arc.label))}{sure}</text>'
    return f"<g {_attributes(arc)}>{box}{text}</g>"


def _attributes(arc: Arc) -> str:
    """Return the attributes of an arc's line and label: its style, word, head and label."""
    label = safe_html(arc.label)
    return f'class="{arc.kind}" data-word="{arc.word}" data-head="{arc.head}" data-label="{label}"'


def text_element(x: float, y: float, drawn: str, name: str = "", *, whole: str = "", more: str = "") -> str:
    """Return a text element; if the text was cut off, `whole` is its tooltip."""
    title = f"<title>{safe_html(whole)}</title>" if whole and drawn != visible(whole) else ""
    kind = f' class="{name}"' if name else ""
    return f'<text{kind}{more} x="{number_text(x)}" y="{number_text(y)}">{escape(drawn)}{title}</text>'


def number_text(value: float) -> str:
    """Return a number of pixels as text, rounded to a tenth."""
    return f"{value:.1f}".removesuffix(".0")
