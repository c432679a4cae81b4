"""Draw charts as self-contained SVG: lines over numbers or names, refinement steps, and rows of named values.

Charts need no fonts or scripts, follow the reader's dark mode, and are readable without colour: each line has a
different marker and dash pattern, and a tooltip on each marker shows its numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from itertools import groupby, pairwise
from typing import TypeAlias

from treefine.drawing.characters import safe_html
from treefine.drawing.svg import BOLD_WIDTH, number_text, shown, text_element, text_width, whole_svg
from treefine.evaluation.analysis.curves import merged

Limits: TypeAlias = tuple[float, float]  # the lowest and highest possible value; round numbers
_Pixels: TypeAlias = tuple[float, float]  # from the left and from the top
_Scale: TypeAlias = Callable[[float], float]  # from a value to its pixel

PERCENT: Limits = (0, 100)
MOST_BANDS = 3  # more lines than this have no bands; exactly this many have faint ones, because bands overlap
_ANY: Limits = (-math.inf, math.inf)
_LARGEST = 1e15  # larger values cannot be placed exactly

_STYLE = "\n" + files(__package__).joinpath("templates/chart.css").read_text(encoding="utf-8")

# In pixels unless noted.
_TEXT_SIZE, _TITLE_SIZE = 13, 14  # a chart is 400 wide, so on a phone with 360 pixels the text is about 12 pixels high
_WIDTH, _MARGIN = 400, 12
_INNER = _WIDTH - 2 * _MARGIN
_LINE = 18  # from one line of text to the next
_MIDDLE = 4.5  # from the middle of a line of text down to its baseline
_RADIUS, _SMALL_RADIUS = 3.6, 2.4  # of a marker; small if points are closer than _CLOSE
_CLOSE = 10
_SWATCH = 30  # length of the line next to a name in the legend
_INSIDE = 12  # from the ends of an axis to the first and last point
_MAX_END = 60  # width of names at the ends of lines
_ROW, _LANE = 20, 10  # height of a row with one line, and of each further line in it
_LONG_ROWS = 12  # a chart with more rows also has ticks at the bottom
_ROW_CELLS = 18  # maximum length of a row's name, in columns of letters


@dataclass(frozen=True, slots=True)
class Mark:
    """One point of a line, optionally with the band around it and the number of cases behind it."""

    x: float | str
    y: float
    low: float | None = None
    high: float | None = None
    count: int | None = None

    def __post_init__(self) -> None:
        for value in (self.x, self.y, self.low, self.high):
            if isinstance(value, int | float) and not abs(value) <= _LARGEST:  # also rejects NaN
                raise ValueError(f"{value} cannot be drawn")
        if (self.low is None) != (self.high is None):
            raise ValueError("a band must have a low and a high end")

    @property
    def x_text(self) -> str:
        """The place on the x axis as text."""
        if isinstance(self.x, str):
            return self.x
        return f"{self.x + 0.0:.0f}" if self.x == int(self.x) else f"{self.x:.12g}"

    @property
    def band(self) -> tuple[float, ...]:
        """The ends of the band; empty without a band."""
        return () if self.low is None or self.high is None else (self.low, self.high)

    def said(self, name: str, x_title: str, y_format: str) -> str:
        """Return the tooltip of the marker."""
        band = f" ({' to '.join(map(y_format.format, self.band))})" if self.band else ""
        count = f", n = {self.count:,}" if self.count is not None else ""
        place = f"{x_title} {self.x_text}" if x_title else self.x_text
        return f"{name}, {place}: {y_format.format(self.y)}{band}{count}"


@dataclass(frozen=True, slots=True)
class Line:
    """The points of one system or setting; the line has a gap at points that only other lines have."""

    name: str
    marks: tuple[Mark, ...]

    def __post_init__(self) -> None:
        if len(self.by_place) < len(self.marks):
            raise ValueError(f"{self.name}: two points at the same place")

    @property
    def by_place(self) -> dict[str, Mark]:
        """The points by their places on the x axis."""
        return {mark.x_text: mark for mark in self.marks}


def draw_lines(
    lines: Sequence[Line],
    *,
    title: str,
    x_title: str,
    y_title: str,
    y_format: str = "{:.1f}",
    limits: Limits = _ANY,
    apart: Collection[str] = (),
    plot_height: float = 190,
) -> str:
    """Draw lines over numbers, or over names if any x is a name; names keep the order of the lines' points.

    Below the axis are the counts (n) of the first line that has one at that place. The value axis stays within the
    limits. Lines do not connect to the places in `apart`. With more than three lines, no bands are drawn.
    """
    has_bands = len(lines) <= MOST_BANDS
    values = [y for line in lines for mark in line.marks for y in (mark.y, *(mark.band if has_bands else ()))]
    ticks = nice_ticks(values, limits=limits)
    labels = tick_labels(ticks, y_format)
    xs = _x_values(lines)
    ends = _names_at_ends(lines, [*xs], plot_height / (ticks[-1] - ticks[0]))
    parts, top = _heading(title, [] if ends else [line.name for line in lines], y_title)
    bottom = top + plot_height
    left, right = _MARGIN + _widest([*labels, "n"]) + 8, _WIDTH - _MARGIN - _widest(ends)
    height_of = _scale(ticks[0], ticks[-1], bottom, top)
    for tick, label in zip(ticks, labels, strict=True):
        y = height_of(tick)
        parts.append(_grid((left, y), (right, y), is_zero=tick == 0 and ticks[0] < 0 < ticks[-1]))
        parts.append(text_element(left - 8, y + _MIDDLE, label, "end"))
    along = _scale(min(xs.values(), default=0), max(xs.values(), default=0), left + _INSIDE, right - _INSIDE)
    places = {name: along(x) for name, x in xs.items()}
    runs = [_runs(line, places, apart) for line in lines]
    for number, run in [(number, run) for number, each in enumerate(runs) for run in each if has_bands]:
        ends_of = [(places[mark.x_text], *map(height_of, mark.band)) for mark in run if mark.band]
        if len(run) > 1 and ends_of:
            outline = [(x, high) for x, _, high in ends_of] + [(x, low) for x, low, _ in reversed(ends_of)]
            kind = "band" if len(lines) < MOST_BANDS else "band faint"
            parts.append(f'<g class="{line_class(number)}"><path class="{kind}" d="{_polyline(outline)}z"/></g>')
    radius = _RADIUS if places and (right - left) / len(places) >= _CLOSE else _SMALL_RADIUS
    for number, line in enumerate(lines):
        for run in runs[number]:
            path = _polyline((places[mark.x_text], height_of(mark.y)) for mark in run)
            parts.append(f'<g class="{line_class(number)}"><path class="line" d="{path}"{dash(number)}/></g>')
            for mark in run:
                x = places[mark.x_text]
                reach = [(x, height_of(value)) for value in mark.band] if has_bands and len(run) == 1 else []
                said = mark.said(line.name, x_title, y_format)
                parts.append(_point(number, (x, height_of(mark.y)), said, radius=radius, reach=reach))
        if ends:
            y = height_of(line.by_place[[*xs][-1]].y) + _MIDDLE
            parts.append(text_element(right, y, ends[number], "name start", whole=line.name))
    below, height = _x_labels(lines, places, (left + right) / 2, bottom, x_title)
    return whole_svg("treefine-chart", title, _STYLE, [*parts, *below], width=_WIDTH, height=height + _MARGIN)


# A flat chart over the refinement steps; t = 0 is the initial graph.
draw_steps = partial(draw_lines, x_title="step t", plot_height=120)


def draw_rows(
    names: Sequence[str],
    lines: Sequence[Line],
    *,
    title: str,
    x_title: str,
    y_format: str = "{:.1f}",
    limits: Limits = _ANY,
) -> str:
    """Draw one row per name, such as a label or a tag, in the given order, with a marker for each line that has it.

    On the right are the counts (n) of the first line that has one. Points whose x is not in `names` are not drawn. The
    axis stays within the limits.
    """
    marks = [line.by_place for line in lines]
    counts = [_count([each.get(name) for each in marks]) for name in names]
    drawn_names = [shown(name, _ROW_CELLS) for name in names]
    left = _MARGIN + _widest(drawn_names) + 8
    right = _WIDTH - _MARGIN - (_widest(counts) + 4 if any(counts) else 0)
    drawn = [each[name] for each in marks for name in names if name in each]
    ticks = nice_ticks([value for mark in drawn for value in (mark.y, *mark.band)], limits=limits)
    labels = tick_labels(ticks, y_format)
    inside = max(_INSIDE, _widest(labels) / 2)
    along = _scale(ticks[0], ticks[-1], left + inside, right - inside)
    places = [along(tick) for tick in ticks]
    parts, top = _heading(title, [line.name for line in lines], x_title)
    top += _LINE
    row_height = _ROW + _LANE * max(0, len(lines) - 1)
    bottom = top + row_height * len(names)
    label_heights = [top - 6, bottom + _LINE - 4] if len(names) > _LONG_ROWS else [top - 6]
    for place, tick in zip(places, ticks, strict=True):
        parts.append(_grid((place, top), (place, bottom), is_zero=tick == 0 and ticks[0] < 0 < ticks[-1]))
    for index in fitting(places, [text_width(label, _TEXT_SIZE) for label in labels]):
        parts += [text_element(places[index], height, labels[index]) for height in label_heights]
    if any(counts):
        parts.append(text_element(_WIDTH - _MARGIN, top - 6, "n", "end"))
    for row, name in enumerate(names):
        middle = top + row_height * (row + 0.5)
        end = middle + row_height / 2
        parts.append(_grid((_MARGIN, end), (_WIDTH - _MARGIN, end)))
        parts.append(text_element(left - 8, middle + _MIDDLE, drawn_names[row], "name end", whole=name))
        parts.append(text_element(_WIDTH - _MARGIN, middle + _MIDDLE, counts[row], "end"))
        for number, line in enumerate(lines):
            if mark := marks[number].get(name):
                y = middle + _LANE * (number - (len(lines) - 1) / 2)
                reach = [(along(value), y) for value in mark.band]
                parts.append(_point(number, (along(mark.y), y), mark.said(line.name, "", y_format), reach=reach))
    height = max(label_heights[-1], bottom) + _MARGIN
    return whole_svg("treefine-chart", title, _STYLE, parts, width=_WIDTH, height=height)


def _x_values(lines: Sequence[Line]) -> dict[str, float]:
    """Return the x coordinate of each place, from left to right: its number, or its rank if any place is a name.

    >>> _x_values([Line("a", (Mark(1, 0), Mark("4+", 0))), Line("b", (Mark(1, 0), Mark("2-3", 0), Mark("4+", 0)))])
    {'1': 0, '2-3': 1, '4+': 2}
    """
    marks = [mark for line in lines for mark in line.marks]
    if not any(isinstance(mark.x, str) for mark in marks):
        return dict(sorted({mark.x_text: float(mark.x) for mark in marks}.items(), key=lambda item: item[1]))
    return {name: rank for rank, name in enumerate(merged([*line.by_place] for line in lines))}


def _runs(line: Line, places: Mapping[str, float], apart: Collection[str]) -> list[list[Mark]]:
    """Return the connected parts of a line, from left to right: it breaks at gaps and around the places in `apart`."""
    marks = line.by_place

    def kind(name: str) -> tuple[bool, str]:
        return name in marks, name if name in apart else ""

    return [[marks[name] for name in run] for (has_mark, _), run in groupby(places, key=kind) if has_mark]


def _names_at_ends(lines: Sequence[Line], places: Sequence[str], pixels: float) -> list[str]:
    """Return the names to write at the right ends of the lines, or [] if they would overlap or need too much room."""
    names = [shown(line.name) for line in lines]
    last = [mark for line in lines for mark in line.marks if mark.x_text == places[-1]]
    heights = sorted(pixels * mark.y for mark in last)
    is_apart = all(above - below >= _LINE - 2 for below, above in pairwise(heights))
    return names if is_apart and len(last) == len(lines) and _widest(names) <= _MAX_END else []


def _x_labels(
    lines: Sequence[Line], places: Mapping[str, float], middle: float, top: float, x_title: str
) -> tuple[list[str], float]:
    """Return the labels, counts and title below the x axis, and the height where they end."""
    pixels = [*places.values()]
    labels = [_fitted(name, 2 * min(place, _WIDTH - place)) for name, place in places.items()]
    counts = [_count([line.by_place.get(name) for line in lines]) for name in places]
    kept = fitting(pixels, [_widest(two) for two in zip(labels, counts, strict=True)])
    bottom = top + _LINE
    parts = [text_element(pixels[index], bottom, labels[index]) for index in kept]
    if any(counts[index] for index in kept):
        bottom += _LINE
        parts.append(text_element(_MARGIN, bottom, "n", "start"))
        parts += [text_element(pixels[index], bottom, counts[index]) for index in kept]
    bottom += _LINE + 2
    said = x_title if places else f"{x_title} (no data)"
    parts.append(text_element(middle, bottom, _fitted(said, 2 * min(middle, _WIDTH - middle)), whole=said))
    return parts, bottom


def _count(marks: Sequence[Mark | None]) -> str:
    """Return the first count as text, or "" if no mark has one."""
    return next((short_count(mark.count) for mark in marks if mark is not None and mark.count is not None), "")


def short_count(count: int) -> str:
    """Return a count shortened for a narrow column.

    >>> short_count(999), short_count(1234), short_count(23456), short_count(4_500_000)
    ('999', '1.2k', '23k', '4.5M')
    """
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= 0.9995 * size:
            return f"{count / size:.1f}{letter}" if count < 9.95 * size else f"{count / size:.0f}{letter}"
    return str(count)


def _scale(start: float, end: float, first_pixel: float, last_pixel: float) -> _Scale:
    """Return a function from a value between start and end to its pixel; a single value is placed in the middle.

    >>> _scale(0.0, 10.0, 200, 0)(2.5)
    150.0
    """

    def pixel(value: float) -> float:
        share = (value - start) / (end - start) if end != start else 0.5
        return first_pixel + share * (last_pixel - first_pixel)

    return pixel


def nice_ticks(values: Sequence[float], *, limits: Limits = _ANY) -> list[float]:
    """Return equally spaced round numbers that enclose all values.

    A single value gets room on both sides, within the limits.

    >>> nice_ticks([61.3, 88.0])
    [60.0, 65.0, 70.0, 75.0, 80.0, 85.0, 90.0]
    >>> nice_ticks([100], limits=PERCENT)
    [90.0, 92.0, 94.0, 96.0, 98.0, 100.0]
    """
    low, high = min(values, default=0.0), max(values, default=1.0)
    if high - low <= 1e-9 * max(1.0, abs(low), abs(high)):  # all values are equal
        room = max(1.0, abs(low) / 10)
        least, most = limits
        low, high = max(low - room, min(low, least)), min(high + room, max(high, most))
    least = (high - low) / 6  # for about six ticks
    power = 10.0 ** math.floor(math.log10(least))
    slack = 1e-9  # so that 0.3 / 0.1 is 3
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * (1 - slack))
    numbers = range(math.floor(low / step + slack), math.ceil(high / step - slack) + 1)
    return [round(number * step, 12) for number in numbers]


def tick_labels(ticks: Sequence[float], form: str) -> list[str]:
    """Return the ticks in the given format, without common trailing zeros; use more digits if two would look equal.

    >>> tick_labels([60, 65], "{:.1f}"), tick_labels([0.1, 0.15], "{:.1f}")
    (['60', '65'], ['0.1', '0.15'])
    """
    labels = [form.format(tick) for tick in ticks]
    if len(set(labels)) < len(labels):
        return [f"{tick:g}" for tick in ticks]
    whole = [label.rstrip("0").removesuffix(".") for label in labels if "." in label]
    return whole if len(whole) == len(labels) and not any("." in label for label in whole) else labels


def fitting(places: Sequence[float], widths: Sequence[float], *, gap: float = 6.0) -> range:
    """Return the labels that fit in a row without touching: all of them, or every second, third and so on.

    >>> fitting([0, 10, 20, 30, 40], [16, 16, 16, 16, 16])
    range(0, 5, 3)
    """
    for step in range(1, len(places)):
        kept = range(0, len(places), step)
        if all(places[b] - places[a] >= (widths[a] + widths[b]) / 2 + gap for a, b in pairwise(kept)):
            return kept
    return range(min(1, len(places)))


def _heading(title: str, names: Sequence[str], y_title: str) -> tuple[list[str], float]:
    """Return the title, the legend (if there are names), the title of the value axis, and the height where they end."""
    parts = [text_element(_MARGIN, 22, _fitted(title, _INNER, BOLD_WIDTH * _TITLE_SIZE), "title", whole=title)]
    x, y = float(_MARGIN), 22.0 + _LINE if names else 22.0
    for number, name in enumerate(names):
        said = _fitted(name, _INNER - _SWATCH - 6)
        width = _SWATCH + 6 + text_width(said, _TEXT_SIZE)
        if x > _MARGIN and x + width > _WIDTH - _MARGIN:
            x, y = _MARGIN, y + _LINE
        line = f'<path class="line" d="M{number_text(x)} {number_text(y)}h{_SWATCH}"{dash(number)}/>'
        drawn = f'<path class="marker" d="{marker(number, x + _SWATCH / 2, y, _RADIUS)}"/>'
        parts.append(f'<g class="{line_class(number)}">{line}{drawn}</g>')
        parts.append(text_element(x + _SWATCH + 6, y + _MIDDLE, said, "name start", whole=name))
        x += width + 16
    y += _LINE + 6
    parts.append(text_element(_MARGIN, y, _fitted(y_title, _INNER), "start", whole=y_title))
    return parts, y + 12


def _widest(texts: Sequence[str]) -> float:
    return max((text_width(each, _TEXT_SIZE) for each in texts), default=0.0)


def _fitted(said: str, room: float, size: float = _TEXT_SIZE) -> str:
    """Return the text as drawn, shortened to fit the room in pixels."""
    limit = max(1, int(room / (0.3 * size)))  # columns of letters, if all were narrow
    while limit > 1 and text_width(shown(said, limit), size) > room:
        limit -= 1
    return shown(said, limit)


def _point(number: int, at: _Pixels, said: str, *, radius: float = _RADIUS, reach: Sequence[_Pixels] = ()) -> str:
    """Return the marker of a point with its tooltip, and the line of its band if it has one."""
    band = f'<path class="line reach" d="{_polyline(reach)}"/>' if reach else ""
    drawn = f'<path class="marker" d="{marker(number, *at, radius)}"/>'
    return f'<g class="{line_class(number)}"><title>{safe_html(said)}</title>{band}{drawn}</g>'


def _grid(start: _Pixels, end: _Pixels, *, is_zero: bool = False) -> str:
    return f'<path class="{"zero" if is_zero else "grid"}" d="{_polyline((start, end))}"/>'


def _polyline(places: Iterable[_Pixels]) -> str:
    return "M" + "L".join(f"{number_text(x)} {number_text(y)}" for x, y in places)


_COLORS = 5  # defined in chart.css
DASHES = ("", "7 3", "2 3", "10 3 2 3")
_CORNERS = {  # of the markers after the circle; all look about equally large
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "triangle": ((0, -1.2), (1.2, 0.9), (-1.2, 0.9)),
    "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    "down": ((0, 1.2), (1.2, -0.9), (-1.2, -0.9)),
}
MARKERS = ("circle", *_CORNERS)


def line_class(number: int) -> str:
    """Return the CSS class of a line: its colour, and whether its markers are hollow.

    >>> line_class(1), line_class(6)
    ('color1', 'color1 hollow')
    """
    return f"color{number % _COLORS}" + " hollow" * (number // len(MARKERS) % 2)


def dash(number: int) -> str:
    """Return the attribute for a line's dashes; the first line is solid."""
    dashes = DASHES[number % len(DASHES)]
    return f' stroke-dasharray="{dashes}"' if dashes else ""


def marker(number: int, x: float, y: float, radius: float) -> str:
    """Return the outline of a line's marker around a point, as SVG path data."""
    kind, r = MARKERS[number % len(MARKERS)], radius
    if kind == "circle":
        return f"M{x - r:.1f} {y:.1f}a{r:.1f} {r:.1f} 0 1 0 {2 * r:.1f} 0a{r:.1f} {r:.1f} 0 1 0 {-2 * r:.1f} 0z"
    return "M" + "L".join(f"{x + r * dx:.1f} {y + r * dy:.1f}" for dx, dy in _CORNERS[kind]) + "z"
