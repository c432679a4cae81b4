"""Draw the charts of a report with matplotlib, as pictures that a page can contain."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from treefine.errors import import_optional, safe_html, shorten, visible
from treefine.evaluation.properties import Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

APART = "ROOT"  # has no length, so the curve does not connect to it
MOST_BANDS = 3  # more lines than this have no bands, because bands overlap
_COLORS = ("#0a8ee0", "#b85100", "#17191c", "#00664a", "#ca73a3")  # distinct for colour-blind readers
_MARKERS, _DASHES = "os^Dv", ("-", "--", ":", "-.")
_WIDTH, _HEIGHT, _ROW = 5.6, 3.4, 0.24  # inches: a chart, the height of curves, and of each row of names
_NAME = 18  # columns of the name of a row
_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "treefine", "font.family": "sans-serif"}


def curve_chart(title: str, x_title: str, curves: Mapping[str, Sequence[Point]], y_title: str = "F1 in %") -> str:
    """Return an SVG of F1 by a property whose values are numbers or ranges, with a line and a band per system.

    All lines have the same values.
    """
    figure, axes = _figure(_HEIGHT)
    places = {point.value: place for place, point in enumerate(next(iter(curves.values())))}
    for number, (name, points) in enumerate(curves.items()):
        style = _style(number)
        axes.plot([], [], label=f" {_shown(name)}", **style)
        for run in ([p for p in points if p.value == APART], [p for p in points if p.value != APART]):
            x = [places[point.value] for point in run]
            axes.plot(x, [100 * point.f1 for point in run], **style)
            if len(curves) <= MOST_BANDS:
                low, high = ([100 * getattr(point, end) for point in run] for end in ("low", "high"))
                axes.fill_between(x, low, high, color=style["color"], alpha=0.1)
    axes.set_xticks(
        list(places.values()), [_shown(str(value), _NAME) for value in places], rotation=45 if len(places) > 8 else 0
    )
    axes.set(xlabel=x_title, ylabel=y_title)
    return _svg(figure, axes, title)


def row_chart(title: str, rows: Sequence[str], curves: Mapping[str, Sequence[Point]]) -> str:
    """Return an SVG of F1 with one row per name, such as a label, and a marker and a band per system."""
    figure, axes = _figure(1.2 + _ROW * len(rows) * max(1, len(curves) / 2))
    for number, (name, points) in enumerate(curves.items()):
        found = {str(point.value): point for point in points}
        shown = [(place, found[row]) for place, row in enumerate(rows) if row in found]
        f1, low, high = ([100 * getattr(point, end) for _, point in shown] for end in ("f1", "low", "high"))
        errors = [
            [max(0, a - b) for a, b in zip(f1, low, strict=True)],
            [max(0, b - a) for a, b in zip(f1, high, strict=True)],
        ]
        y = [place + (number - (len(curves) - 1) / 2) * 0.8 / len(curves) for place, _ in shown]
        axes.errorbar(f1, y, xerr=errors, label=f" {_shown(name)}", **_style(number) | {"linestyle": "none"})
    axes.set_yticks(range(len(rows)), [_shown(row, _NAME) for row in rows])
    axes.invert_yaxis()
    axes.set(xlabel="F1 in %")
    return _svg(figure, axes, title)


def _shown(text: str, cells: int = 40) -> str:
    """Return a text as drawn; matplotlib reads formulas between dollar signs."""
    return shorten(visible(text), cells).replace("$", r"\$")


def _style(number: int) -> dict[str, Any]:
    """Return the style of a line; lines differ in colour, marker and dashes."""
    kinds = {"color": _COLORS, "marker": _MARKERS, "linestyle": _DASHES}
    return {name: kind[number % len(kind)] for name, kind in kinds.items()} | {"markersize": 4, "linewidth": 1.5}


def _figure(height: float) -> tuple[Figure, Axes]:
    figure = matplotlib_figure().Figure(figsize=(_WIDTH, height), layout="constrained")
    axes = figure.subplots()
    axes.grid(color="#d1d9e0", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _svg(figure: Figure, axes: Axes, title: str) -> str:
    import matplotlib

    axes.set_title(title, loc="left")
    axes.legend(frameon=False)
    content = io.StringIO()
    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its font lacks some letters, but the reader's browser draws the texts
        figure.savefig(content, format="svg", metadata={"Date": None})
    return content.getvalue()


def image_of(svg: str, title: str) -> str:
    """Return a picture as an element of a page that needs no other file."""
    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{safe_html(title)}" src="data:image/svg+xml;base64,{data}"/>'


def matplotlib_figure() -> Any:
    """Return the module `matplotlib.figure`; raise an error if it is not installed."""
    message = "The charts of a report need the package matplotlib."
    return import_optional("matplotlib.figure", message, "'treefine[plots]'")
