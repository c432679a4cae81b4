"""Draw a graph as SVG: the words in a row with their arcs above, without fonts or scripts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from importlib.resources import files
from itertools import groupby, islice
from typing import Literal, NamedTuple

from treefine.drawing.picture import Drawing, Picture, drawings_of
from treefine.errors import TreefineError, cells, is_right_to_left, safe_html, shorten, visible, wrapped
from treefine.treebank.graph import ROOT
from treefine.treebank.sentence import HasSentence, Sentence

_WORD_SIZE, _SMALL_SIZE = 16, 12  # font size of words and of all other text, in pixels, as in tree.css
_STEM = 11  # arcs to dependents start this far from a word's middle, where the arc from its head ends
_MARGIN = 18  # around the drawing
_GAP = 18  # between two words
_BOLD_WIDTH = 1.1  # bold letters are wider by this factor
_MAX_CELLS = 40  # maximum width of a form, tag or label, in columns of letters
_LOW_CONFIDENCE = 0.8  # a lower one gets a question mark
_NARROW, _WIDE = frozenset("fijlrtI .,:;'`!|()[]{}/\\-"), frozenset("mwMW@%—…")
_LEVEL = 24  # pixels from one level of arcs to the next
_CORNER = 10  # radius of an arc's corners
_ARROW = 7  # length of an arrowhead
_ASIDE = 6  # distance between the ends of an old and a new arc
_TITLE, _TITLE_SIZE, _TITLE_CELLS = 26, 14, 120  # height of a title, its font size, and its maximum length
_CAPTION, _CAPTION_WIDTH = 20, 480  # height of a line of a caption, and the width that every caption may have
_WORDS, _TAGS, _TOKENS = 26, 18, 26  # height of a row of words, tags, multiword tokens
_MOST_SENTENCES = 200  # viewers fail on larger pictures

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
    confidence: float | None = None  # of the parser, if it is shown

    @property
    def confidence_text(self) -> str:
        """The confidence as shown after the label, with a question mark if it is low."""
        return "" if self.confidence is None else f" {self.confidence:.2f}{'?' * (self.confidence < _LOW_CONFIDENCE)}"

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
        confidence = picture.confidence[word - 1] if picture.shows_confidence and picture.confidence else None
        old_head, old_label = (before.heads[word], before.labels[word]) if before else (head, label)
        kind: Literal["changed", "same"] = "changed" if word in changed else "same"
        has_new_label = word in changed and old_head == head
        arcs.append(Arc(word, head, label, kind, old_label if has_new_label else "", confidence))
        if old_head != head:
            arcs.append(Arc(word, old_head, old_label, "old"))
    return arcs


def _arc_levels(arcs: Sequence[Arc], n_words: int) -> list[int]:
    """Return the level of each arc, from 1: above all shorter arcs that overlap with it; arrows from ROOT come last."""
    levels = [0] * len(arcs)
    skyline = [0] * (n_words + 1)  # the level reached over each gap between two words
    for index in sorted(range(len(arcs)), key=lambda index: (arcs[index].head == ROOT, len(arcs[index].span))):
        span = arcs[index].span
        levels[index] = 1 + max(skyline[span.start : span.stop])
        skyline[span.start : span.stop] = [levels[index]] * len(span)
    return levels


def _shown(text: str, max_cells: int = _MAX_CELLS) -> str:
    return shorten(visible(text), max_cells)  # control characters escaped, and long text cut off


def text_width(text: str, size: float) -> float:
    """Estimate the width of a text in pixels, without a font."""
    narrow = sum(each in _NARROW for each in text)
    wide = sum(each in _WIDE or each.isupper() for each in text)
    return size * (0.6 * cells(text) - 0.25 * narrow + 0.15 * wide)


_title_width = partial(text_width, size=_TITLE_SIZE)


def _label_width(arc: Arc) -> float:
    bold = _BOLD_WIDTH if arc.kind == "changed" else 1.0
    was = text_width(f"{_shown(arc.old_label)} ", _SMALL_SIZE) if arc.old_label else 0.0
    return bold * text_width(_shown(arc.label) + arc.confidence_text, _SMALL_SIZE) + was + 10


def _word_places(pictures: Sequence[Picture]) -> tuple[list[float], float]:
    """Return the middle of each word, the same in all pictures (ROOT's is unused), and the total width."""
    forms = pictures[0].forms
    halves = [0.0, *[max(text_width(_shown(form), _WORD_SIZE), 2 * _STEM) / 2 for form in forms]]
    apart: list[list[tuple[int, float]]] = [[] for _ in halves]  # for each word: minimum distances from earlier words
    for picture in pictures:
        for word, tag in enumerate(picture.tags, start=1):
            halves[word] = max(halves[word], text_width(_shown(tag), _SMALL_SIZE) / 2)
        for arc in arcs_of(picture):
            if arc.head in (ROOT, arc.word):
                halves[arc.word] = max(halves[arc.word], _label_width(arc) / 2)
            else:
                # At this distance the label touches neither the ends of its arc nor other arcs of its word.
                apart[arc.span.stop].append((arc.span.start, _label_width(arc) + 3 * _STEM + 6))
        for token in picture.multiword_tokens:
            apart[token.words[-1]].append((token.words[0], text_width(_shown(token.form), _SMALL_SIZE)))
    middles = [0.0] * len(halves)
    end: float = _MARGIN - _GAP
    for word in range(1, len(halves)):
        places = [middles[earlier] + distance for earlier, distance in apart[word]]
        middles[word] = max([end + _GAP + halves[word], *places])
        end = middles[word] + halves[word]
    width = end + _MARGIN
    return ([width - middle for middle in middles] if is_right_to_left("".join(forms)) else middles), width


def to_svg(sentences: Sentence | HasSentence | Iterable[Sentence | HasSentence], *, steps: bool = False) -> str:
    """Return a complete SVG file with the trees of Sentences or Parses, from top to bottom.

    With `steps`, each Parse is drawn with all its refinement steps. Raises TreefineError for more than 200 sentences;
    draw them as HTML.
    """
    return svg_of(drawings_of(sentences, steps=steps))


def svg_of(drawings: Iterable[Drawing], *, hint: str = "Draw them as HTML, which has no limit.") -> str:
    """Draw all sentences in one picture, from top to bottom; name them if there are several."""
    first_drawings = list(islice(drawings, _MOST_SENTENCES + 1))
    if len(first_drawings) > _MOST_SENTENCES:
        raise TreefineError(f"An SVG picture holds at most {_MOST_SENTENCES} sentences.", hint=hint)
    pictures = []
    for number, drawing in enumerate(first_drawings, start=1):
        first, *others = drawing.pictures
        name = f"{drawing.name or number}: " if len(first_drawings) > 1 else ""
        pictures += [replace(first, caption=name + drawing.text), *others]
    return draw_svg(pictures)[0]


def draw_svg(pictures: Sequence[Picture]) -> tuple[str, float]:
    """Draw one SVG with the pictures below each other, such as the steps of a sentence; return it and its width."""
    parts, width, top = list[str](), 0.0, 0.0
    for _, group in groupby(pictures, key=lambda picture: picture.forms):
        same_words = list(group)
        places, needed = _word_places(same_words)
        titles = [_shown(picture.title, _TITLE_CELLS) for picture in same_words]
        width = max(width, needed, *(_title_width(title) * _BOLD_WIDTH + 2 * _MARGIN for title in titles))
        for picture in same_words:
            caption = wrapped(visible(picture.caption), max(needed - 2 * _MARGIN, _CAPTION_WIDTH), width=_title_width)
            width = max([width, *(_title_width(line) + 2 * _MARGIN for line in caption)])
            drawn, height = _draw(picture, places, caption)
            parts.append(f'<g transform="translate(0 {_number_text(top)})">{drawn}</g>')
            top += height
    title = pictures[-1].text if pictures else ""
    return _whole_svg(title, parts, width, top), width


def draw_frames(pictures: Sequence[Picture]) -> list[str]:
    """Draw one SVG per graph over the same words, without titles and of one size, for an animation."""
    places, width = _word_places(pictures)
    most_levels = max(level for each in pictures for level in [0, *_arc_levels(arcs_of(each), len(each.forms))])
    drawn = (_draw(replace(picture, title=""), places, least_levels=most_levels) for picture in pictures)
    return [_whole_svg(pictures[0].text, [parts], width, height) for parts, height in drawn]


def _whole_svg(title: str, parts: Sequence[str], width: float, height: float) -> str:
    across, down = _number_text(width), _number_text(height)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" class="treefine" role="img" '
        f'width="{across}" height="{down}" viewBox="0 0 {across} {down}">\n'
        f"<title>{safe_html(title)}</title>\n<style>{STYLE}</style>\n"
        '<rect class="paper" width="100%" height="100%" rx="6"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _draw(
    picture: Picture, places: Sequence[float], caption: Sequence[str] = (), *, least_levels: int = 0
) -> tuple[str, float]:
    """Return the elements of one picture, with room for at least these levels of arcs, and its height."""
    arcs = arcs_of(picture)
    levels = _arc_levels(arcs, len(picture.forms))
    n_levels = max([least_levels, *levels])
    start = _MARGIN / 2 + _CAPTION * len(caption)
    top = start + (_TITLE if picture.title else 0)
    ground = top + _LEVEL * (n_levels + 0.7 if n_levels else 0)  # where arcs end and words begin
    parts = []
    for number, line in enumerate(caption):
        parts.append(_text_element(_MARGIN, _MARGIN / 2 + 16 + _CAPTION * number, line, "caption", 2 * len(line)))
    if picture.title:
        parts.append(_text_element(_MARGIN, start + 16, picture.title, "title", _TITLE_CELLS))
    # Changed arcs are drawn last, on top of others; labels are drawn after all lines, so that no line crosses a label.
    order = sorted(range(len(arcs)), key=lambda index: (arcs[index].kind == "changed", levels[index]))
    heights = [ground - _LEVEL * (level + 0.2) for level in levels]
    ends = [_ends(arc, picture, places) for arc in arcs]
    for each in order:
        parts.append(_arc(arcs[each], ends[each], heights[each], ground, _describe(arcs[each], picture)))
    parts += [_label(arcs[each], sum(ends[each]) / 2, heights[each]) for each in order]
    for word, form in enumerate(picture.forms, start=1):
        parts.append(_text_element(places[word], ground + 18, form, "form", more=f' data-word="{word}"'))
    bottom = ground + _WORDS
    if picture.tags:
        for word, tag in enumerate(picture.tags, start=1):
            parts.append(_text_element(places[word], bottom + 10, tag, "tag"))
        bottom += _TAGS
    for token in picture.multiword_tokens:
        start, end = sorted((places[token.words[0]], places[token.words[-1]]))
        line = _path("M", start - _STEM, bottom, "v", 4, "H", end + _STEM, "v", -4)
        form = _text_element((start + end) / 2, bottom + 18, token.form, "token")
        parts.append(f'<path d="{line}"/>{form}')
    return "\n".join(parts), bottom + (_TOKENS if picture.multiword_tokens else 0) + _MARGIN / 2


def _ends(arc: Arc, picture: Picture, places: Sequence[float]) -> tuple[float, float]:
    """Return where an arc starts and ends; an old arc ends next to the new one, where the two do not cross."""
    here, from_ = places[arc.word], places[arc.head]
    end = here
    if arc.kind == "old" and picture.graph is not None:
        new_head = picture.graph.heads[arc.word]
        goes_left, new_is_left = from_ < here, places[new_head] < here
        if arc.head == ROOT:
            goes_left = not new_is_left
        elif goes_left == new_is_left and new_head != ROOT:
            goes_left ^= abs(from_ - here) > abs(places[new_head] - here)
        end += -_ASIDE if goes_left else _ASIDE
    if arc.head == ROOT:
        return end, end
    return from_ + (_STEM if from_ < here else -_STEM), end


def _arc(arc: Arc, ends: tuple[float, float], height: float, ground: float, title: str) -> str:
    """Return the line of an arc from its head to its word, with an arrowhead; `title` is its tooltip."""
    start, end = ends
    size = _ARROW if arc.kind != "old" else _ARROW - 2
    line = _path("M", start, height, "V", ground - size)
    if arc.head != ROOT:
        bend = min(_CORNER, abs(end - start) / 2)
        aside = bend if start < end else -bend
        line = _path("M", start, ground, "V", height + bend, "q", 0, -bend, aside, -bend, "H", end - aside)
        line += _path("q", aside, 0, aside, bend, "V", ground - size)
    arrow = _path("M", end, ground, "l", -size / 2, -size, "h", size, "z")
    return f"""<g {_attributes(arc)}>{_tooltip(title)}<path d="{line}"/><path class="head" d="{arrow}"/></g>"""


def _describe(arc: Arc, picture: Picture) -> str:
    head = picture.forms[arc.head - 1] if arc.head else "ROOT"
    text = f"{picture.forms[arc.word - 1]} ← {head}: {arc.label}"
    before = picture.comparison_name or "before"
    if arc.kind == "old":
        return f"{text} ({before})"
    if arc.old_label:
        text += f" ({before}: {arc.old_label})"
    return f"{text}, {picture.confidence[arc.word - 1]:.2f}" if picture.confidence else text


def _label(arc: Arc, middle: float, height: float) -> str:
    width = _label_width(arc)
    corner = f'x="{_number_text(middle - width / 2)}" y="{_number_text(height - 8)}"'
    box = f'<rect class="paper" {corner} width="{_number_text(width)}" height="16"/>'
    was = f'<tspan class="was">{escape(_shown(arc.old_label))}</tspan> ' if arc.old_label else ""
    kind = "sure unsure" if arc.confidence_text.endswith("?") else "sure"
    confidence = f'<tspan class="{kind}">{arc.confidence_text}</tspan>' if arc.confidence_text else ""
    place = f'x="{_number_text(middle)}" y="{_number_text(height + 4)}"'
    return f"<g {_attributes(arc)}>{box}<text {place}>{was}{escape(_shown(arc.label))}{confidence}</text></g>"


def _attributes(arc: Arc) -> str:
    label = safe_html(arc.label)
    return f'class="{arc.kind}" data-word="{arc.word}" data-head="{arc.head}" data-label="{label}"'


def _text_element(x: float, y: float, text: str, kind: str, max_cells: int = _MAX_CELLS, *, more: str = "") -> str:
    drawn = _shown(text, max_cells)
    title = _tooltip(text) if drawn != visible(text) else ""
    return f'<text class="{kind}"{more} x="{_number_text(x)}" y="{_number_text(y)}">{escape(drawn)}{title}</text>'


def _tooltip(text: str) -> str:
    return f"<title>{safe_html(text)}</title>"


def _path(*steps: str | float) -> str:
    words = [step if isinstance(step, str) else f" {_number_text(step)}" for step in steps]
    return re.sub(r"([A-Za-z]) ", r"\1", "".join(words))


def _number_text(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
