"""A graph in a terminal: one word a line, its arc on the left.

    1     ╭─> The    DET    2 det
    2   ╭─┴─> old    ADJ    3 nsubj
    3 ──┼───> man    VERB   0 root
    4   │ ╭─> the    DET    5 det
    5   ├─┴─> boats  NOUN   3 obj
    6   ╰───> .      PUNCT  3 punct

The line of a word starts at its head's bar (╭ ├ ╰), or at the margin for a root, passes other bars (│), and joins the
word's own bar (┬ ┼ ┴), where its dependents start. A line that starts with ┄ is an arc that could not be drawn to its
head: one of a cycle, or one too deep in the tree; the number of the head stands beside the label.
"""

from __future__ import annotations

from typing import NamedTuple

from treefine.drawing.bars import bars_of
from treefine.drawing.characters import cells, is_right_to_left, shorten, visible
from treefine.drawing.picture import Picture
from treefine.treebank.graph import ROOT, Graph, find_cycles

MAX_CELLS = 40  # of a form, tag or label: one endless word must not push the others off the screen
MARGIN = 2  # columns; a root's line starts here
TO_ASCII = str.maketrans("─┄│╭├╰┬┼┴", "-.|,|`v+^")
GOES_UP = str.maketrans("─┄│╭├╰┬┼┴>", "  │ ││ ││ ")  # what is left of a line halfway to the line above it
PLAIN, BOLD, DIM, LABEL, CHANGED = "", "1", "2", "36", "1;35"  # ANSI codes that show on dark and on light terminals


class Cell(NamedTuple):
    """One cell of a row: what it says and its ANSI code."""

    text: str
    style: str = PLAIN

    def painted(self, *, color: bool) -> str:
        """The text in its style."""
        return f"\x1b[{self.style}m{self.text}\x1b[0m" if color and self.style and self.text else self.text


class Row(NamedTuple):
    """One line: the number of its word, bars that pass, the line of its arc, then what is said of the word."""

    number: str
    bars: str
    arc: Cell
    cells: tuple[Cell, ...]  # form, tag, head, label, confidence, note


ISOLATE, END_ISOLATE = "\u2068", "\u2069"
GAPS = ("", "  ", "  ", " ", "  ", "  ")  # before each of the cells
HEAD = 2  # the one of the cells that holds a number


def draw_text(picture: Picture, *, color: bool = False, ascii_only: bool = False, isolate: bool = False) -> str:
    r"""The graph as lines of text, each with its newline; safe to print whatever the words hold.

    Changed arcs have a star and what they were before, with or without colour. A page isolates words that run from the
    right, so that what stands beside them keeps its place; few terminals know the marks for that.

    >>> graph = Graph.of_words([2, 0], ["nsubj", "root"])
    >>> print(draw_text(Picture(("Dogs", "bark"), ("NOUN", "VERB"), graph)), end="")
    1   ╭─> Dogs  NOUN  2 nsubj
    2 ──┴─> bark  VERB  0 root
    """
    rows = _rows(picture, ascii_only=ascii_only)
    number_width = max((len(row.number) for row in rows), default=0)
    widths = [max(cells(cell.text) for cell in column) for column in zip(*(row.cells for row in rows), strict=True)]
    lines = [Cell(visible(picture.title, ascii_only=ascii_only), BOLD).painted(color=color)] if picture.title else []
    for row in rows:
        drawn = row.bars + row.arc.painted(color=color)
        if ascii_only:
            drawn = drawn.translate(TO_ASCII)
        number = Cell(row.number.rjust(number_width), DIM).painted(color=color)
        line = f"{number} {drawn}"
        for index, (cell, width, gap) in enumerate(zip(row.cells, widths, GAPS, strict=True)):
            if width:
                padding = " " * (width - cells(cell.text))
                said = cell.painted(color=color)
                if isolate and is_right_to_left(cell.text):
                    said = f"{ISOLATE}{said}{END_ISOLATE}"
                line += gap + (padding + said if index == HEAD else said + padding)
        lines.append(line.rstrip(" "))
    return "".join(line + "\n" for line in lines)


def _rows(picture: Picture, *, ascii_only: bool) -> list[Row]:
    def shown(text: str) -> str:
        return shorten(visible(text, ascii_only=ascii_only), MAX_CELLS, ending="..." if ascii_only else "…")

    graph, changed = picture.graph, picture.changed
    arcs = [""] * (len(picture.forms) + 1) if graph is None else [f"{line} " for line in arc_lines(graph)]
    notes = _notes(picture)
    starts = {token.words.start: token for token in picture.multiword_tokens}
    rows = []
    for word, form in enumerate(picture.forms, start=1):
        arc = arcs[word].lstrip(" │")
        bars = arcs[word].removesuffix(arc)
        if word in starts:
            number, name = f"{word}-{starts[word].words[-1]}", Cell(shown(starts[word].form), DIM)
            rows.append(Row(number, arcs[word].translate(GOES_UP), Cell(""), (name, *[Cell("")] * 5)))
        said = (
            Cell(shown(form)),
            Cell(shown(picture.tags[word - 1]) if picture.tags else "", DIM),
            Cell(str(graph.heads[word]) if graph else ""),
            Cell(shown(graph.labels[word]) if graph else "", CHANGED if word in changed else LABEL),
            Cell(f"{picture.confidence[word - 1]:.2f}" if picture.confidence else "", DIM),
            Cell(shown(notes[word]), CHANGED),
        )
        rows.append(Row(str(word), bars, Cell(arc, CHANGED if word in changed else PLAIN), said))
    return rows


def _notes(picture: Picture) -> list[str]:
    """What is to be said of each word's arc: that it changed, and from what; that it is in a cycle."""
    notes: list[list[str]] = [[] for _ in range(len(picture.forms) + 1)]
    if picture.before is not None:
        name = picture.before_name or "was"
        for word in picture.changed:
            notes[word].append(f"* {name}: {picture.before.heads[word]} {picture.before.labels[word]}")
    for cycle in find_cycles(picture.graph.heads) if picture.graph else []:
        for word in cycle:
            notes[word].append("in a cycle")
    return [", ".join(each) for each in notes]


def arc_lines(graph: Graph) -> list[str]:
    """The drawn arcs of each word, all equally wide; the first entry is ROOT's and says nothing.

    >>> for line in arc_lines(Graph.of_words([2, 0, 2], ["nsubj", "root", "obj"])):
    ...     print(line)
    <BLANKLINE>
      ╭─>
    ──┼─>
      ╰─>
    """
    bars, loose = bars_of(graph.heads)
    width = MARGIN + 2 * (1 + max((bar.column for bar in bars.values()), default=-1))
    lines = [[" "] * width for _ in graph.heads]
    for bar in bars.values():
        for word in range(bar.low, bar.high + 1):
            lines[word][MARGIN + 2 * bar.column] = "│"
    for word, head in enumerate(graph.heads[1:], start=1):
        line = lines[word]
        start = 0
        if word in loose:
            first = "┄"
        elif head == ROOT:
            first = "─"
        else:
            start = MARGIN + 2 * bars[head].column
            first = "╭" if word == bars[head].low else "╰" if word == bars[head].high else "├"
        line[start:] = [first, *["─" if each == " " else each for each in line[start + 1 :]], ">"]
        if word in bars:
            own = bars[word]
            line[MARGIN + 2 * own.column] = "┬" if word == own.low else "┴" if word == own.high else "┼"
    return ["", *map("".join, lines[1:])]
