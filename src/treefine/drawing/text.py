"""Draw a graph in a terminal: one word per line, its arc on the left."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from treefine.drawing.picture import Picture
from treefine.errors import cells, is_right_to_left, shorten, visible, wrapped
from treefine.treebank.graph import ROOT, Graph, find_cycles
from treefine.treebank.sentence import BLANK

_MAX_COLUMNS = 40  # deeper parts of a tree start again on the left, because a wider drawing does not fit the screen
_MAX_CELLS = 40  # maximum width of a form, tag or label, so that a long word does not push the others off the screen
_MARGIN = 2  # columns; a root's line starts here
_TO_ASCII = str.maketrans("─┄│╭├╰┬┼┴", "-.|,|`v+^")
_GOES_UP = str.maketrans("─┄│╭├╰┬┼┴>", "  │ ││ ││ ")  # the bars of a line that continue into the line above
_PLAIN, BOLD, _DIM, _LABEL, _CHANGED = "", "1", "2", "36", "1;35"  # ANSI codes, readable on dark and light terminals
_GAPS = ("", "  ", "  ", "  ", " ", "  ", "  ", "  ")  # before each of the cells
_WIDTH = 100  # columns of a caption, if the width of the terminal is not known
_HEAD_CELL = 3  # the index of the cell with the head, which is right-aligned
_FEWEST_CELLS = 12  # of features that are cut off at the end of a line


class StyledText(NamedTuple):
    """One cell of a row: its text and its ANSI code."""

    text: str
    style: str = _PLAIN

    def painted(self, *, color: bool) -> str:
        """Return the text in its style."""
        return f"\x1b[{self.style}m{self.text}\x1b[0m" if color and self.style and self.text else self.text


class Row(NamedTuple):
    """One line: the number of its word, the bars that pass it, its arc, and the cells of the word."""

    number: str
    bars: str
    arc: StyledText
    cells: tuple[StyledText, ...]  # form, lemma, tag, head, label, confidence, note, features


def draw_text(
    picture: Picture, *, color: bool = False, ascii_only: bool = False, isolate: bool = False, width: int | None = None
) -> str:
    r"""Draw the graph as lines of text, safe to print whatever characters the words contain.

    Changed arcs have a star and their old value, with or without colour. `isolate` is for HTML pages: it adds Unicode
    isolates around right-to-left words, so that the text next to them keeps its place. Few terminals support these.
    `width` is the number of columns of the terminal, if it is known: features that do not fit are cut off.

    >>> graph = Graph.of_words([2, 0], ["nsubj", "root"])
    >>> print(draw_text(Picture(("Dogs", "bark"), ("NOUN", "VERB"), graph)), end="")
    1   ╭─> Dogs  NOUN  2 nsubj
    2 ──┴─> bark  VERB  0 root
    """
    rows = _rows(picture, ascii_only=ascii_only)
    number_width = max((len(row.number) for row in rows), default=0)
    widths = [max(cells(cell.text) for cell in column) for column in zip(*(row.cells for row in rows), strict=True)]
    title = StyledText(visible(picture.title, ascii_only=ascii_only), BOLD).painted(color=color)
    caption = visible(picture.caption, ascii_only=ascii_only)
    lines = [*wrapped(caption, width or _WIDTH), *([title] if title else [])]
    if width is not None and rows:
        bars = max(cells(row.bars + row.arc.text) for row in rows)
        used = number_width + 1 + bars + sum(each + len(gap) for each, gap in zip(widths, _GAPS, strict=True) if each)
        widths[-1] = max(widths[-1] - max(used - width, 0), min(widths[-1], _FEWEST_CELLS))
    for row in rows:
        drawn = row.bars + row.arc.painted(color=color)
        number = StyledText(row.number.rjust(number_width), _DIM).painted(color=color)
        line = f"{number} {drawn.translate(_TO_ASCII) if ascii_only else drawn}"
        *others, feats = row.cells
        fitting = feats._replace(text=shorten(feats.text, widths[-1], ending="..." if ascii_only else "…"))
        for index, (cell, of_column, gap) in enumerate(zip((*others, fitting), widths, _GAPS, strict=True)):
            if of_column:
                padding = " " * (of_column - cells(cell.text))
                painted = cell.painted(color=color)
                if isolate and is_right_to_left(cell.text):
                    painted = f"\u2068{painted}\u2069"  # start and end of the isolate
                line += gap + (padding + painted if index == _HEAD_CELL else painted + padding)
        lines.append(line.rstrip(" "))
    return "".join(line + "\n" for line in lines)


def _rows(picture: Picture, *, ascii_only: bool) -> list[Row]:
    def shown(text: str) -> str:
        return shorten(visible(text, ascii_only=ascii_only), _MAX_CELLS, ending="..." if ascii_only else "…")

    graph, changed, notes, rows = picture.graph, picture.changed, _notes(picture), list[Row]()
    arcs = [f"{line} " for line in arc_lines(graph, picture.unattached)] if graph else [""] * (len(picture.forms) + 1)
    feats = ["" if each == BLANK else visible(each, ascii_only=ascii_only) for each in picture.feats]
    starts = {token.words.start: token for token in picture.multiword_tokens}
    for word, form in enumerate(picture.forms, start=1):
        arc = arcs[word].lstrip(" │")
        bars = arcs[word].removesuffix(arc)
        if word in starts:
            number, name = starts[word].id, StyledText(shown(starts[word].form), _DIM)
            blank = [StyledText("")] * (len(_GAPS) - 1)
            rows.append(Row(number, arcs[word].translate(_GOES_UP), StyledText(""), (name, *blank)))
        described = (
            StyledText(shown(form)),
            StyledText(shown(picture.lemmas[word - 1]) if picture.lemmas else "", _DIM),
            StyledText(shown(picture.tags[word - 1]) if picture.tags else "", _DIM),
            StyledText("" if graph is None else BLANK if word in picture.unattached else str(graph.heads[word])),
            StyledText(shown(graph.labels[word]) if graph else "", _CHANGED if word in changed else _LABEL),
            StyledText(f"{picture.confidence[word - 1]:.2f}" if picture.confidence else "", _DIM),
            StyledText(shown(notes[word]), _CHANGED),
            StyledText(feats[word - 1] if feats else "", _DIM),
        )
        rows.append(Row(str(word), bars, StyledText(arc, _CHANGED if word in changed else _PLAIN), described))
    return rows


def _notes(picture: Picture) -> list[str]:
    notes: list[list[str]] = [[] for _ in range(len(picture.forms) + 1)]
    if picture.before is not None:
        name = picture.comparison_name or "was"
        for word in picture.changed:
            notes[word].append(f"* {name}: {picture.before.heads[word]} {picture.before.labels[word]}")
    for cycle in find_cycles(picture.graph.heads) if picture.graph else []:
        for word in cycle:
            notes[word].append("in a cycle")
    return [", ".join(each) for each in notes]


def arc_lines(graph: Graph, unattached: Collection[int] = ()) -> list[str]:
    """Return the drawing of each word's arcs, all equally wide; the first entry, for ROOT, is empty."""
    bars, loose = bars_of(graph.heads)
    width = _MARGIN + 2 * (1 + max((bar.column for bar in bars.values()), default=-1))
    lines = [[" "] * width for _ in graph.heads]
    for bar in bars.values():
        for word in range(bar.low, bar.high + 1):
            lines[word][_MARGIN + 2 * bar.column] = "│"
    for word, head in enumerate(graph.heads[1:], start=1):
        line, own, is_attached = lines[word], bars.get(word), word not in unattached
        if own is None and not is_attached:
            line.append(" ")
            continue
        above = own if not is_attached else None if word in loose or head == ROOT else bars[head]
        start = 0 if above is None else _MARGIN + 2 * above.column
        first = above.at(word, "╭├╰") if above is not None else "┄" if word in loose else "─"
        line[start:] = [first, *["─" if each == " " else each for each in line[start + 1 :]], "─>"[is_attached]]
        if own is not None and is_attached:
            line[_MARGIN + 2 * own.column] = own.at(word, "┬┼┴")
    return ["", *map("".join, lines[1:])]


class Bar(NamedTuple):
    """The line that joins a head and its dependents, from its first to its last word."""

    column: int  # 0 is the leftmost
    low: int
    high: int

    def at(self, word: int, characters: str) -> str:
        """Return the character for the first word of the line, a word between, or the last."""
        return characters[0 if word == self.low else 2 if word == self.high else 1]


def bars_of(heads: Sequence[int], *, max_columns: int = _MAX_COLUMNS) -> tuple[dict[int, Bar], frozenset[int]]:
    """Return the bar of each head, and the loose words, whose arcs have no line.

    The bar of a word is to the right of the bar that the word is attached to, so lines lead from left to right, from
    ROOT down. A cycle makes this impossible, so the longest arc of a cycle has no line. An arc without a free column
    has no line either: its word starts again on the left.
    """
    loose = {max(cycle, key=lambda word: abs(word - heads[word])) for cycle in find_cycles(heads)}
    dependents: list[list[int]] = [[] for _ in heads]
    for word in range(1, len(heads)):
        if heads[word] != ROOT and word not in loose:
            dependents[heads[word]].append(word)
    bars: dict[int, Bar] = {}
    taken = [0] * max_columns  # for each column, the lines that use it, as a bit set
    words = [word for word in range(1, len(heads)) if heads[word] == ROOT or word in loose]
    for word in words:  # heads before their dependents: the list grows as it is read
        words += dependents[word]
        if not dependents[word]:
            continue
        low, high = min(word, dependents[word][0]), max(word, dependents[word][-1])
        lines = (1 << (high + 1)) - (1 << low)
        start = 0 if heads[word] == ROOT or word in loose else bars[heads[word]].column + 1
        column = next((column for column in range(start, max_columns) if not taken[column] & lines), None)
        if column is None:
            loose.update(dependents[word])
        else:
            taken[column] |= lines
            bars[word] = Bar(column, low, high)
    return bars, frozenset(loose)
