"""Charts as SVG that stands alone: lines over numbers or names, steps, and rows of named values.

A chart is narrow (400 pixels), so that its letters can still be read on a phone, and so that two stand side by side in
print. Each line has its own colour, marker and dashes; pointing at a marker shows its numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from treefine.drawing.axis import FREE, Axis, Limits, fitting, merged, nice_ticks, tick_labels
from treefine.drawing.chart_parts import (
    LINE,
    MARGIN,
    MIDDLE,
    RADIUS,
    SMALL_RADIUS,
    WIDTH,
    fitted,
    grid,
    heading,
    point,
    polyline,
    short_count,
    text,
    whole_svg,
)
from treefine.drawing.layout import shown, text_width
from treefine.drawing.palette import TEXT_SIZE, dash, line_class

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
