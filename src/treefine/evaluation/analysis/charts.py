"""Charts as self-contained SVG: lines over numbers or names, steps, and rows of named values."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise
from typing import TypeAlias, TypeVar

from treefine.drawing.characters import visible
from treefine.drawing.svg import BOLD, FONTS, shown, text_width

Name = TypeVar("Name")
Limits: TypeAlias = tuple[float, float]  # beyond which no value can lie; round numbers

TICKS = 6  # about as many on an axis
FREE: Limits = (-math.inf, math.inf)
PERCENT: Limits = (0, 100)


@dataclass(frozen=True, slots=True)
class Axis:
    """A stretch of pixels that stands for a stretch of numbers; it may run upwards. One number alone is in the middle.

    >>> Axis(0.0, 10.0, first_pixel=200, last_pixel=0).place(2.5)
    150.0
    """

    start: float
    end: float
    first_pixel: float
    last_pixel: float

    def place(self, value: float) -> float:
        """The pixel of a value."""
        share = (value - self.start) / (self.end - self.start) if self.end != self.start else 0.5
        return self.first_pixel + share * (self.last_pixel - self.first_pixel)


def nice_ticks(values: Sequence[float], *, around: bool = True, limits: Limits = FREE) -> list[float]:
    """Round numbers at equal distances: around all values, or only those that lie between two of them.

    Where there is but one value there is room on both sides of it, as far as the limits.

    >>> nice_ticks([61.3, 88.0])
    [60.0, 65.0, 70.0, 75.0, 80.0, 85.0, 90.0]
    >>> nice_ticks([0.7, 3.3], around=False)
    [1.0, 1.5, 2.0, 2.5, 3.0]
    >>> nice_ticks([100], limits=PERCENT)
    [90.0, 92.0, 94.0, 96.0, 98.0, 100.0]
    """
    low, high = min(values, default=0.0), max(values, default=1.0)
    if high - low <= 1e-9 * max(1.0, abs(low), abs(high)):  # nothing to tell apart
        room = max(1.0, abs(low) / 10)
        if around:
            least, most = limits
            low, high = max(low - room, min(low, least)), min(high + room, max(high, most))
    step = _nice_step((high - low) / TICKS)
    first, last = low / step, high / step
    slack = 1e-9  # so that 0.3 / 0.1 is 3
    start = math.floor(first + slack) if around else math.ceil(first - slack)
    stop = math.ceil(last - slack) if around else math.floor(last + slack)
    return [round(number * step, 12) for number in range(start, stop + 1)]


def _nice_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, 20 … or 0.5, 0.2 … that is not less."""
    if least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * (1 - 1e-9))


def tick_labels(ticks: Sequence[float], form: str) -> list[str]:
    """The ticks in the format given, without zeros that all of them end in; more exact where two would look equal.

    >>> tick_labels([60, 65], "{:.1f}"), tick_labels([0.0, 0.5], "{:.0%}"), tick_labels([0.1, 0.15], "{:.1f}")
    (['60', '65'], ['0%', '50%'], ['0.1', '0.15'])
    """
    labels = [form.format(tick) for tick in ticks]
    if len(set(labels)) < len(labels):
        return [f"{tick:g}" for tick in ticks]
    ends = [label.partition(".")[2].rstrip("%") for label in labels]
    if all(end and not end.strip("0") for end in ends):
        return [label.replace(f".{end}", "") for label, end in zip(labels, ends, strict=True)]
    return labels


def merged(orders: Iterable[Sequence[Name]]) -> list[Name]:
    """All names of several lists, each after the one before it in its own list.

    >>> merged([["1", "2", "5+"], ["1", "3", "5+"]])
    ['1', '3', '2', '5+']
    """
    order: list[Name] = []
    for names in orders:
        place = 0
        for name in names:
            if name not in order:
                order.insert(place, name)
            place = order.index(name) + 1
    return order


def fitting(places: Sequence[float], widths: Sequence[float], *, gap: float = 6.0) -> range:
    """The labels that can be written in a row with no two of them touching: all, or every second, third and so on.

    >>> fitting([0, 10, 20, 30, 40], [16, 16, 16, 16, 16])
    range(0, 5, 3)
    """
    for step in range(1, len(places)):
        kept = range(0, len(places), step)
        if all(places[b] - places[a] >= (widths[a] + widths[b]) / 2 + gap for a, b in pairwise(kept)):
            return kept
    return range(min(1, len(places)))


TEXT_SIZE, TITLE_SIZE = 13, 14  # of letters; a chart is 400 wide, so on a phone of 360 they are 12 pixels high
LIGHT_PAPER, DARK_PAPER = "#ffffff", "#151b23"
LIGHT_TEXT, DARK_TEXT = ("#1f2328", "#59636e"), ("#f0f6fc", "#a3adb8")  # titles and names, and all else
# Hues of Okabe and Ito (blue, vermilion, black, bluish green, reddish purple). Their lightness was moved until all have
# a contrast of 3 on the paper and stay apart for colour-blind readers; a test measures both.
LIGHT_LINES = ("#0a8ee0", "#b85100", "#17191c", "#00664a", "#ca73a3")
DARK_LINES = ("#33aaff", "#d05e00", "#f0f6fc", "#00805c", "#d78fb7")
DASHES = ("", "7 3", "2 3", "10 3 2 3")
MARKERS = ("circle", "square", "triangle", "diamond", "down")


def _colors(paper: str, text: tuple[str, str], lines: tuple[str, ...], grid: str) -> str:
    # No variables: many viewers of SVG, browsers aside, do not know them.
    ink, soft = text
    rules = [
        f".treefine-chart .paper {{ fill: {paper}; }}",
        f".treefine-chart text {{ fill: {soft}; }}",
        f".treefine-chart .title, .treefine-chart .name {{ fill: {ink}; }}",
        f".treefine-chart .grid {{ stroke: {grid}; }}",
        f".treefine-chart .zero {{ stroke: {soft}; }}",
        f".treefine-chart .marker {{ stroke: {paper}; }}",
    ]
    for number, color in enumerate(lines):
        name = f".treefine-chart .color{number}"
        rules += [
            f"{name} .line, {name} .band {{ stroke: {color}; }}",
            f"{name} .band, {name} .marker {{ fill: {color}; }}",
        ]
        rules += [f"{name}.hollow .marker {{ fill: {paper}; stroke: {color}; }}"]
    return "\n".join(rules)


# Every rule is under "treefine-chart", since a style in a page holds for all that is on it; on paper it is light.
STYLE = f"""
.treefine-chart text {{ font: {TEXT_SIZE}px {FONTS}; text-anchor: middle; white-space: pre; unicode-bidi: plaintext; }}
.treefine-chart .title {{ font-size: {TITLE_SIZE}px; font-weight: 600; text-anchor: start; }}
.treefine-chart .start {{ text-anchor: start; }}
.treefine-chart .end {{ text-anchor: end; }}
.treefine-chart .grid, .treefine-chart .zero {{ stroke-width: 1; fill: none; }}
.treefine-chart .line {{ stroke-width: 2; fill: none; stroke-linejoin: round; }}
.treefine-chart .reach {{ stroke-width: 1.2; stroke-dasharray: none; }}
.treefine-chart .band {{ fill-opacity: 0.1; stroke-opacity: 0.5; stroke-width: 0.7; }}
.treefine-chart .faint {{ fill-opacity: 0.04; }}
.treefine-chart .marker {{ stroke-width: 1; }}
.treefine-chart .hollow .marker {{ stroke-width: 1.6; }}
{_colors(LIGHT_PAPER, LIGHT_TEXT, LIGHT_LINES, "#d1d9e0")}
@media screen and (prefers-color-scheme: dark) {{
{_colors(DARK_PAPER, DARK_TEXT, DARK_LINES, "#353d47")}
}}
"""


def line_class(number: int) -> str:
    """The class of the elements of a line: its colour, and whether its markers are hollow.

    >>> line_class(1), line_class(6)
    ('color1', 'color1 hollow')
    """
    return f"color{number % len(LIGHT_LINES)}" + " hollow" * (number // len(MARKERS) % 2)


def dash(number: int) -> str:
    """The attribute that gives a line its dashes; the first line has none."""
    dashes = DASHES[number % len(DASHES)]
    return f' stroke-dasharray="{dashes}"' if dashes else ""


def marker(number: int, x: float, y: float, radius: float) -> str:
    """The outline of a marker around a point, as the data of a path."""
    kind = MARKERS[number % len(MARKERS)]
    r = radius
    if kind == "circle":
        return f"M{x - r:.1f} {y:.1f}a{r:.1f} {r:.1f} 0 1 0 {2 * r:.1f} 0a{r:.1f} {r:.1f} 0 1 0 {-2 * r:.1f} 0z"
    corners = {  # all about as large to the eye
        "square": [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        "triangle": [(0, -1.2), (1.2, 0.9), (-1.2, 0.9)],
        "diamond": [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)],
        "down": [(0, 1.2), (1.2, -0.9), (-1.2, -0.9)],
    }[kind]
    return "M" + "L".join(f"{x + r * dx:.1f} {y + r * dy:.1f}" for dx, dy in corners) + "z"


Place: TypeAlias = tuple[float, float]  # pixels from the left and from the top
WIDTH = 400
MARGIN = 12
INNER = WIDTH - 2 * MARGIN
LINE = 18  # pixels from one line of text to the next
RADIUS, SMALL_RADIUS = 3.6, 2.4  # of a marker; the small one where points stand close
SWATCH = 30  # pixels of line beside a name in the legend
MIDDLE = 4.5  # from the middle of a line of text down to the foot of its letters


def heading(title: str, names: Sequence[str], y_title: str) -> tuple[list[str], float]:
    """Title, legend and title of the value axis, and the height where they end; no names, no legend."""
    parts = [text(MARGIN, 22, fitted(title, INNER, BOLD * TITLE_SIZE), "title", whole=title)]
    x, y = float(MARGIN), 22.0 + LINE if names else 22.0
    for number, name in enumerate(names):
        said = fitted(name, INNER - SWATCH - 6)
        width = SWATCH + 6 + text_width(said, TEXT_SIZE)
        if x > MARGIN and x + width > WIDTH - MARGIN:
            x, y = MARGIN, y + LINE
        line = f'<path class="line" d="M{number_text(x)} {number_text(y)}h{SWATCH}"{dash(number)}/>'
        drawn = f'<path class="marker" d="{marker(number, x + SWATCH / 2, y, RADIUS)}"/>'
        parts.append(f'<g class="{line_class(number)}">{line}{drawn}</g>')
        parts.append(text(x + SWATCH + 6, y + MIDDLE, said, "name start", whole=name))
        x += width + 16
    y += LINE + 6
    parts.append(text(MARGIN, y, fitted(y_title, INNER), "start", whole=y_title))
    return parts, y + 12


def fitted(said: str, room: float, size: float = TEXT_SIZE) -> str:
    """The text as it is drawn, or as much of it as there is room for, in pixels."""
    limit = max(1, int(room / (0.3 * size)))  # columns of letters, if all were narrow
    while limit > 1 and text_width(shown(said, limit), size) > room:
        limit -= 1
    return shown(said, limit)


def text(x: float, y: float, drawn: str, name: str = "", *, whole: str = "") -> str:
    """A text that was made safe; a browser shows the whole of it on pointing where its end was cut off."""
    more = f"<title>{escape(visible(whole))}</title>" if whole and drawn != visible(whole) else ""
    kind = f' class="{name}"' if name else ""
    return f'<text{kind} x="{number_text(x)}" y="{number_text(y)}">{escape(drawn)}{more}</text>'


def point(number: int, place: Place, said: str, *, radius: float = RADIUS, reach: tuple[Place, ...] = ()) -> str:
    """The marker of a line with what is said of it, on the line of its reach if it has one."""
    band = f'<path class="line reach" d="{polyline(reach)}"/>' if reach else ""
    drawn = f'<path class="marker" d="{marker(number, *place, radius)}"/>'
    return f'<g class="{line_class(number)}"><title>{escape(visible(said))}</title>{band}{drawn}</g>'


def grid(start: Place, end: Place, *, is_strong: bool = False) -> str:
    """A line of the grid."""
    return f'<path class="{"zero" if is_strong else "grid"}" d="{polyline((start, end))}"/>'


def polyline(places: Iterable[Place]) -> str:
    """A line through all the places, as the data of a path."""
    return "M" + "L".join(f"{number_text(x)} {number_text(y)}" for x, y in places)


def whole_svg(title: str, parts: Sequence[str], height: float) -> str:
    """The parts as a picture that stands alone."""
    size = f'width="{WIDTH}" height="{number_text(height)}" viewBox="0 0 {WIDTH} {number_text(height)}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="treefine-chart" role="img" {size}>\n'
        f"<title>{escape(visible(title))}</title>\n<style>{STYLE}</style>\n"
        '<rect class="paper" width="100%" height="100%" rx="6"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def short_count(count: int) -> str:
    """A count in a narrow column.

    >>> short_count(999), short_count(1234), short_count(23456), short_count(4_500_000)
    ('999', '1.2k', '23k', '4.5M')
    """
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= 0.9995 * size:
            return f"{count / size:.1f}{letter}" if count < 9.95 * size else f"{count / size:.0f}{letter}"
    return str(count)


def number_text(value: float) -> str:
    """A length or place in pixels, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


PLOT_HEIGHT, STEPS_HEIGHT = 190, 120
INSIDE = 12  # pixels from the ends of an axis to the first and last point
CLOSE = 10  # pixels between points that are small
ROW, LANE = 20, 10  # pixels of a row with one line, and of each further line in it
LONG = 12  # rows; a longer chart has its ticks at the end as well
ROW_CELLS = 18  # how long the name of a row may be, in columns of letters
MAX_END = 60  # pixels for names at the ends of lines
FEW = 8  # places on the x axis; so few are all written, of more only round numbers
MOST_BANDS = 3  # lines; the bands of so many are faint, since they lie on one another, and more have none
LARGEST = 1e15  # beyond it pixels lose their meaning


@dataclass(frozen=True, slots=True)
class Mark:
    """One point of a line, with the band around it and the number of cases behind it, as far as they are known."""

    x: float | str
    y: float
    low: float | None = None
    high: float | None = None
    count: int | None = None

    def __post_init__(self) -> None:
        for value in (self.x, self.y, self.low, self.high):
            if isinstance(value, int | float) and not abs(value) <= LARGEST:  # neither is NaN
                raise ValueError(f"{value} cannot be drawn")
        if (self.low is None) != (self.high is None):
            raise ValueError("a band has a low and a high end")

    @property
    def x_text(self) -> str:
        """The place on the x axis as it is written."""
        if isinstance(self.x, str):
            return self.x
        return f"{self.x + 0.0:.0f}" if self.x == int(self.x) else f"{self.x:.12g}"

    @property
    def band(self) -> tuple[float, ...]:
        """The ends of the band, if it has one."""
        return () if self.low is None or self.high is None else (self.low, self.high)

    def said(self, name: str, x_title: str, y_format: str) -> str:
        """The numbers of the point in words."""
        band = f" ({' to '.join(map(y_format.format, self.band))})" if self.band else ""
        count = f", n = {self.count:,}" if self.count is not None else ""
        place = f"{x_title} {self.x_text}" if x_title else self.x_text
        return f"{name}, {place}: {y_format.format(self.y)}{band}{count}"


@dataclass(frozen=True, slots=True)
class Line:
    """The points of one system or setting; where it lacks a point that another line has, it has a gap."""

    name: str
    marks: tuple[Mark, ...]

    def __post_init__(self) -> None:
        if len({mark.x_text for mark in self.marks}) < len(self.marks):
            raise ValueError(f"{self.name}: two points at one place")


def draw_lines(
    lines: Sequence[Line],
    *,
    title: str,
    x_title: str,
    y_title: str,
    y_format: str = "{:.1f}",
    limits: Limits = FREE,
    apart: Collection[str] = (),
) -> str:
    """Lines over numbers, or over names if any x is one; names stand in the order of the lines' points.

    Under the axis are the counts (n) of the first line that has one at that place. The axis ends at the limits. No line
    runs to the places that stand apart. Of more than three lines no band is drawn.
    """
    return _line_chart(lines, title, x_title, y_title, y_format, PLOT_HEIGHT, limits, apart)


def draw_steps(
    lines: Sequence[Line], *, title: str, y_title: str, y_format: str = "{:.1f}", limits: Limits = FREE
) -> str:
    """A low chart over the refinement steps; t = 0 is the initial graph."""
    return _line_chart(lines, title, "step t", y_title, y_format, STEPS_HEIGHT, limits)


def draw_rows(
    names: Sequence[str],
    lines: Sequence[Line],
    *,
    title: str,
    x_title: str,
    y_format: str = "{:.1f}",
    limits: Limits = FREE,
) -> str:
    """One row a name, such as a label or a tag, in the order given; in it a marker for each line with that x.

    On the right are the counts (n) of the first line that has one. Points with another x are not drawn. The axis ends
    at the limits.
    """
    marks = [{mark.x_text: mark for mark in line.marks} for line in lines]
    counts = [_count([each.get(name) for each in marks]) for name in names]
    drawn_names = [shown(name, ROW_CELLS) for name in names]
    left = MARGIN + _widest(drawn_names) + 8
    right = WIDTH - MARGIN - (_widest(counts) + 4 if any(counts) else 0)
    ticks = nice_ticks(
        [value for each in marks for name in names if name in each for value in (each[name].y, *each[name].band)],
        limits=limits,
    )
    labels = tick_labels(ticks, y_format)
    inside = max(INSIDE, _widest(labels) / 2)
    axis = Axis(ticks[0], ticks[-1], left + inside, right - inside)
    places = [axis.place(tick) for tick in ticks]
    parts, top = heading(title, [line.name for line in lines], x_title)
    top += LINE
    row_height = ROW + LANE * max(0, len(lines) - 1)
    bottom = top + row_height * len(names)
    label_heights = [top - 6, bottom + LINE - 4] if len(names) > LONG else [top - 6]
    for place, tick in zip(places, ticks, strict=True):
        parts.append(grid((place, top), (place, bottom), is_strong=_is_zero_inside(tick, ticks)))
    for index in fitting(places, [text_width(label, TEXT_SIZE) for label in labels]):
        parts += [text(places[index], height, labels[index]) for height in label_heights]
    if any(counts):
        parts.append(text(WIDTH - MARGIN, top - 6, "n", "end"))
    for row, name in enumerate(names):
        middle = top + row_height * (row + 0.5)
        end = middle + row_height / 2
        parts.append(grid((MARGIN, end), (WIDTH - MARGIN, end)))
        parts.append(text(left - 8, middle + MIDDLE, drawn_names[row], "name end", whole=name))
        parts.append(text(WIDTH - MARGIN, middle + MIDDLE, counts[row], "end"))
        for number, line in enumerate(lines):
            mark = marks[number].get(name)
            if mark is not None:
                y = middle + LANE * (number - (len(lines) - 1) / 2)
                reach = tuple((axis.place(value), y) for value in mark.band)
                parts.append(point(number, (axis.place(mark.y), y), mark.said(line.name, "", y_format), reach=reach))
    return whole_svg(title, parts, max(label_heights[-1], bottom) + MARGIN)


def _line_chart(
    lines: Sequence[Line],
    title: str,
    x_title: str,
    y_title: str,
    y_format: str,
    plot_height: float,
    limits: Limits,
    apart: Collection[str] = (),
) -> str:
    has_bands = len(lines) <= MOST_BANDS
    marks = [mark for line in lines for mark in line.marks]
    ticks = nice_ticks([y for mark in marks for y in (mark.y, *(mark.band if has_bands else ()))], limits=limits)
    labels = tick_labels(ticks, y_format)
    names = [line.name for line in lines]
    xs = _x_values(lines)
    ends = _names_at_ends(lines, xs, plot_height / (ticks[-1] - ticks[0]))
    parts, top = heading(title, [] if ends else names, y_title)
    bottom = top + plot_height
    left = MARGIN + _widest([*labels, "n"]) + 8
    right = WIDTH - MARGIN - _widest(ends)
    y_axis = Axis(ticks[0], ticks[-1], bottom, top)
    x_axis = Axis(min(xs.values(), default=0), max(xs.values(), default=0), left + INSIDE, right - INSIDE)
    for tick, label in zip(ticks, labels, strict=True):
        y = y_axis.place(tick)
        parts.append(grid((left, y), (right, y), is_strong=_is_zero_inside(tick, ticks)))
        parts.append(text(left - 8, y + MIDDLE, label, "end"))
    places = {name: x_axis.place(x) for name, x in xs.items()}
    runs = [_runs(line, places, apart) for line in lines]
    for number, each in enumerate(runs if has_bands else []):
        kind = "band" if len(lines) < MOST_BANDS else "band faint"
        parts += [_band(number, kind, run, places, y_axis) for run in each if len(run) > 1]
    for number, line in enumerate(lines):
        for run in runs[number]:
            path = polyline((places[mark.x_text], y_axis.place(mark.y)) for mark in run)
            parts.append(f'<g class="{line_class(number)}"><path class="line" d="{path}"{dash(number)}/></g>')
            radius = RADIUS if (right - left) / len(places) >= CLOSE else SMALL_RADIUS
            for mark in run:
                x = places[mark.x_text]
                reach = tuple((x, y_axis.place(value)) for value in mark.band) if has_bands and len(run) == 1 else ()
                said = mark.said(line.name, x_title, y_format)
                parts.append(point(number, (x, y_axis.place(mark.y)), said, radius=radius, reach=reach))
        if ends:
            y = y_axis.place(_rightmost(line, xs).y) + MIDDLE
            parts.append(text(right, y, ends[number], "name start", whole=line.name))
    below, height = _x_labels(lines, xs, x_axis, bottom, x_title)
    return whole_svg(title, [*parts, *below], height + MARGIN)


def _x_values(lines: Sequence[Line]) -> dict[str, float]:
    """The number of each place on the x axis, from left to right: its own, or its rank if any place has a name.

    >>> _x_values([Line("a", (Mark(1, 0), Mark("4+", 0))), Line("b", (Mark(1, 0), Mark("2-3", 0), Mark("4+", 0)))])
    {'1': 0, '2-3': 1, '4+': 2}
    """
    marks = [mark for line in lines for mark in line.marks]
    if not any(isinstance(mark.x, str) for mark in marks):
        return dict(sorted({mark.x_text: float(mark.x) for mark in marks}.items(), key=lambda item: item[1]))
    order = merged([mark.x_text for mark in line.marks] for line in lines)
    return {name: place for place, name in enumerate(order)}


def _runs(line: Line, places: Mapping[str, float], apart: Collection[str]) -> list[list[Mark]]:
    """The points of a line from left to right, cut where it lacks one and around those that stand apart."""
    marks = {mark.x_text: mark for mark in line.marks}

    def kind(name: str) -> tuple[bool, str]:
        return name in marks, name if name in apart else ""

    return [[marks[name] for name in run] for (has_mark, _), run in groupby(places, key=kind) if has_mark]


def _band(number: int, kind: str, run: Sequence[Mark], places: Mapping[str, float], axis: Axis) -> str:
    """The area between the low and the high ends of the points, as far as they have them."""
    ends = [(places[mark.x_text], *map(axis.place, mark.band)) for mark in run if mark.band]
    outline = [(x, high) for x, _, high in ends] + [(x, low) for x, low, _ in reversed(ends)]
    return f'<g class="{line_class(number)}"><path class="{kind}" d="{polyline(outline)}z"/></g>' if ends else ""


def _names_at_ends(lines: Sequence[Line], xs: Mapping[str, float], pixels: float) -> list[str]:
    """The names of the lines to be written at their right ends; none where they would meet or take too much room."""
    names = [shown(line.name) for line in lines]
    last = [mark for line in lines for mark in line.marks if mark.x_text == [*xs][-1]]
    heights = sorted(pixels * mark.y for mark in last)
    is_apart = all(above - below >= LINE - 2 for below, above in pairwise(heights))
    return names if is_apart and len(last) == len(lines) and _widest(names) <= MAX_END else []


def _x_labels(
    lines: Sequence[Line], xs: Mapping[str, float], axis: Axis, top: float, x_title: str
) -> tuple[list[str], float]:
    """What stands under the x axis (its labels, counts and title), and the height where it ends."""
    marks = {name: [mark for line in lines for mark in line.marks if mark.x_text == name] for name in xs}
    labels = {name: axis.place(x) for name, x in xs.items()}
    if len(xs) > FEW and not any(isinstance(mark.x, str) for each in marks.values() for mark in each):
        ticks = nice_ticks([*xs.values()], around=False)
        labels = {Mark(tick, 0).x_text: axis.place(tick) for tick in ticks}
    drawn = [
        (fitted(name, 2 * min(place, WIDTH - place)), _count(marks.get(name, [])), place)
        for name, place in labels.items()
    ]
    kept = fitting([*labels.values()], [_widest([name, count]) for name, count, _ in drawn])
    bottom = top + LINE
    parts = [text(drawn[index][2], bottom, drawn[index][0]) for index in kept]
    if any(drawn[index][1] for index in kept):
        bottom += LINE
        parts.append(text(MARGIN, bottom, "n", "start"))
        parts += [text(drawn[index][2], bottom, drawn[index][1]) for index in kept]
    bottom += LINE + 2
    middle = (axis.first_pixel + axis.last_pixel) / 2
    said = x_title if xs else f"{x_title} (no data)"
    parts.append(text(middle, bottom, fitted(said, 2 * min(middle, WIDTH - middle)), whole=said))
    return parts, bottom


def _count(marks: Sequence[Mark | None]) -> str:
    """The first count, or nothing."""
    return next((short_count(mark.count) for mark in marks if mark is not None and mark.count is not None), "")


def _widest(texts: Sequence[str]) -> float:
    return max((text_width(each, TEXT_SIZE) for each in texts), default=0.0)


def _is_zero_inside(tick: float, ticks: Sequence[float]) -> bool:
    return tick == 0 and ticks[0] < 0 < ticks[-1]


def _rightmost(line: Line, xs: Mapping[str, float]) -> Mark:
    return max(line.marks, key=lambda mark: xs[mark.x_text])
