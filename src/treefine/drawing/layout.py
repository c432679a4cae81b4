"""Where words and arcs stand in a drawing with the words in a row and the arcs above them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from treefine.drawing.characters import cells, is_right_to_left, shorten, visible
from treefine.drawing.picture import Picture
from treefine.treebank.graph import ROOT

WORD_SIZE, SMALL_SIZE = 16, 12  # of letters, in pixels: words, and all else
STEM = 11  # how far from a word's middle its own arcs start, left and right; the arc of its head ends in the middle
MARGIN = 18  # around the drawing
GAP = 18  # between two words
BOLD = 1.1  # how much wider bold letters are
MAX_CELLS = 40  # of a form, tag or label, as wide as this many letters
UNSURE = 0.8  # a confidence below this has a question mark
NARROW, WIDE = frozenset("fijlrtI .,:;'`!|()[]{}/\\-"), frozenset("mwMW@%—…")


class Kind(Enum):
    """How an arc is drawn."""

    SAME = "same"
    CHANGED = "changed"
    OLD = "old"  # as it was a step before


class Arc(NamedTuple):
    """One arc of a drawing, with its label."""

    word: int
    head: int
    label: str
    kind: Kind = Kind.SAME
    old_label: str = ""  # where the label alone has changed
    sure: float | None = None  # how sure the parser is of it, where that is shown

    @property
    def sure_text(self) -> str:
        """How sure the parser is, as it stands behind the label."""
        return "" if self.sure is None else f" {self.sure:.2f}{'?' * (self.sure < UNSURE)}"

    @property
    def span(self) -> range:
        """The gaps between words that it runs over: gap i is right of word i. An arrow from ROOT has one each side."""
        if self.head in (ROOT, self.word):
            return range(self.word - 1, self.word + 1)
        return range(min(self.word, self.head), max(self.word, self.head))


def arcs_of(picture: Picture) -> list[Arc]:
    """The arcs to draw: those of the graph, and the old ones where a word has changed its head."""
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
            arcs.append(Arc(word, head, label, Kind.CHANGED, before.labels[word], sure))
        else:
            arcs.append(Arc(word, head, label, Kind.CHANGED, sure=sure))
            arcs.append(Arc(word, before.heads[word], before.labels[word], Kind.OLD))
    return arcs


def arc_levels(arcs: Sequence[Arc], n_words: int) -> list[int]:
    """How high each arc runs, from 1: over all shorter ones that share a part of its way, so no two run together.

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


def shown(text: str, max_cells: int = MAX_CELLS) -> str:
    """The text as it is drawn: nothing in it acts, and it is not endless."""
    return shorten(visible(text), max_cells)


def text_width(text: str, size: float) -> float:
    """About how wide a text is, in pixels: fonts differ, and we have none at hand."""
    narrow = sum(each in NARROW for each in text)
    wide = sum(each in WIDE or each.isupper() for each in text)
    return size * (0.6 * cells(text) - 0.25 * narrow + 0.15 * wide)


def label_width(arc: Arc) -> float:
    """The width of an arc's label, with what is shown beside it (the old one, the confidence), and some room."""
    bold = BOLD if arc.kind is Kind.CHANGED else 1.0
    was = text_width(f"{shown(arc.old_label)} ", SMALL_SIZE) if arc.old_label else 0.0
    return bold * text_width(shown(arc.label) + arc.sure_text, SMALL_SIZE) + was + 10


def word_places(pictures: Sequence[Picture]) -> tuple[list[float], float]:
    """The middle of each word (ROOT's place is unused), and the width of the whole; words may run from the right.

    The pictures are over the same words and share their places, so that one sees what moved between two steps.
    """
    forms = pictures[0].forms
    halves = [0.0, *[max(text_width(shown(form), WORD_SIZE), 2 * STEM) / 2 for form in forms]]
    apart: list[list[tuple[int, float]]] = [[] for _ in halves]  # for each word: how far from an earlier one it must be
    for picture in pictures:
        for word, tag in enumerate(picture.tags, start=1):
            halves[word] = max(halves[word], text_width(shown(tag), SMALL_SIZE) / 2)
        for arc in arcs_of(picture):
            if arc.head in (ROOT, arc.word):
                halves[arc.word] = max(halves[arc.word], label_width(arc) / 2)
            else:
                # So far apart, the label touches neither its own ends nor the lines that start from its word.
                apart[arc.span.stop].append((arc.span.start, label_width(arc) + 3 * STEM + 6))
        for token in picture.multiword_tokens:
            apart[token.words[-1]].append((token.words[0], text_width(shown(token.form), SMALL_SIZE)))
    middles = [0.0] * len(halves)
    end: float = MARGIN - GAP
    for word in range(1, len(halves)):
        places = [middles[earlier] + distance for earlier, distance in apart[word]]
        middles[word] = max([end + GAP + halves[word], *places])
        end = middles[word] + halves[word]
    width = end + MARGIN
    return ([width - middle for middle in middles] if is_right_to_left("".join(forms)) else middles), width
