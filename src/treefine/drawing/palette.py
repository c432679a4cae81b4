"""How the lines of a chart look: colours, markers and dashes, so that no line is told by its colour alone."""

from __future__ import annotations

from treefine.drawing.svg import FONTS

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
