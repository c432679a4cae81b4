"""The pieces of a chart as SVG elements: texts, markers, the lines of an axis, heading and legend, the whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TypeAlias

from treefine.drawing.characters import visible
from treefine.drawing.layout import BOLD, shown, text_width
from treefine.drawing.palette import STYLE, TEXT_SIZE, TITLE_SIZE, dash, line_class, marker

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
