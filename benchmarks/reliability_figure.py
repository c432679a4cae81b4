"""A drawing of how often a parser is right, by how sure it is: SVG that stands alone, for light and dark pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from treefine.drawing.svg import FONTS

SIDE = 220  # pixels of a square from 0 to 1
LEFT, TOP, GAP, BOTTOM, RIGHT = 52, 84, 64, 48, 30
COUNT, TITLE, HEADING = 8, 24, 30  # pixels from a square up to its counts and title, from the top to the heading
TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
COLUMNS = 2
LEAST = 2.0  # radius of a point that stands for one word; …
LARGEST = 5.0  # … of one that stands for all

Bins = Sequence[Sequence[float]]  # start, end, size, mean confidence and share of right ones, as rows keep them


def _colors(*, paper: str, ink: str, soft: str, line: str, bar: str, point: str) -> str:
    return f"""
.reliability .paper {{ fill: {paper}; }}
.reliability text {{ fill: {soft}; }}
.reliability .title {{ fill: {ink}; }}
.reliability .frame, .reliability .grid, .reliability .even {{ stroke: {line}; fill: none; }}
.reliability .bar {{ fill: {bar}; }}
.reliability .point {{ fill: {point}; }}"""


STYLE = f"""
.reliability text {{ font: 11px {FONTS}; text-anchor: middle; }}
.reliability .title {{ font-size: 13px; font-weight: 600; text-anchor: start; }}
.reliability .end {{ text-anchor: end; }}
.reliability .count {{ font-size: 9px; }}
.reliability .grid {{ stroke-width: 0.5; opacity: 0.5; }}
.reliability .even {{ stroke-dasharray: 4 3; }}
{_colors(paper="#ffffff", ink="#1f2328", soft="#59636e", line="#818b98", bar="#c8ddf5", point="#0a5fc0")}
@media screen and (prefers-color-scheme: dark) {{
{_colors(paper="#151b23", ink="#f0f6fc", soft="#a3adb8", line="#7d8793", bar="#1f3a5c", point="#6cb2ff")}
}}
"""


def draw_reliability(bins: Mapping[str, Bins], errors: Mapping[str, float], *, heading: str) -> str:
    """One square for each kind of confidence: the share of right ones in each bin beside the diagonal, and counts.

    A bar is a bin; a point in it is at the mean confidence, and the larger, the more there are. Right below the
    diagonal is too sure, above it not sure enough.
    """
    n_rows = -(-len(bins) // COLUMNS)
    width = LEFT + COLUMNS * SIDE + (COLUMNS - 1) * GAP + RIGHT
    height = TOP + n_rows * SIDE + (n_rows - 1) * (GAP + BOTTOM) + BOTTOM
    parts = [_text(LEFT, HEADING, heading, "title")]
    for number, (title, each) in enumerate(bins.items()):
        row, column = divmod(number, COLUMNS)
        left, top = LEFT + column * (SIDE + GAP), TOP + row * (SIDE + GAP + BOTTOM)
        drawn = _square(each, f"{title}: error {errors[title]:.1%}")
        parts.append(f'<g transform="translate({left} {top})">\n{drawn}\n</g>')
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="reliability" role="img" {size}>\n'
        f"<title>{escape(heading)}</title>\n<style>{STYLE}</style>\n"
        '<rect class="paper" width="100%" height="100%" rx="6"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _square(bins: Bins, title: str) -> str:
    """One diagram; its lower left corner is nothing and its upper right one is all."""
    parts = [_text(0, -TITLE, title, "title")]
    for tick in TICKS:
        at = _number(tick * SIDE)
        parts.append(f'<path class="grid" d="M0 {_number(SIDE - tick * SIDE)}h{SIDE}M{at} 0v{SIDE}"/>')
        parts.append(_text(tick * SIDE, SIDE + 16, f"{tick:g}"))
        parts.append(_text(-8, SIDE - tick * SIDE + 4, f"{tick:g}", "end"))
    parts.append(_text(SIDE / 2, SIDE + 34, "confidence"))
    parts.append(f'<text transform="translate(-36 {SIDE // 2}) rotate(-90)">share that is right</text>')
    total = sum(size for _, _, size, _, _ in bins) or 1
    for start, end, size, _, right in bins:
        place = f'x="{_number(start * SIDE + 1)}" width="{_number((end - start) * SIDE - 2)}"'
        bar = f'{place} y="{_number(SIDE - right * SIDE)}" height="{_number(right * SIDE)}"'
        parts.append(
            f'<rect class="bar" {bar}><title>{start:g} to {end:g}: {size:,.0f}, {right:.1%} right</title></rect>'
        )
        parts.append(_text((start + end) / 2 * SIDE, -COUNT, _short(size), "count"))
    parts.append(f'<path class="even" d="M0 {SIDE}L{SIDE} 0"/><path class="frame" d="M0 0h{SIDE}v{SIDE}h{-SIDE}z"/>')
    for _, _, size, confidence, right in bins:
        if size:
            radius = LEAST + (LARGEST - LEAST) * (size / total) ** 0.5
            at = f'cx="{_number(confidence * SIDE)}" cy="{_number(SIDE - right * SIDE)}"'
            parts.append(f'<circle class="point" {at} r="{_number(radius)}"/>')
    return "\n".join(parts)


def _short(count: float) -> str:
    """A count in a narrow column.

    >>> _short(999), _short(1234), _short(23456), _short(0)
    ('999', '1.2k', '23k', '')
    """
    if count < 1000:
        return f"{count:.0f}" if count else ""
    return f"{count / 1000:.1f}k" if count < 9950 else f"{count / 1000:.0f}k"


def _text(x: float, y: float, text: str, name: str = "") -> str:
    return f'<text class="{name}" x="{_number(x)}" y="{_number(y)}">{escape(text)}</text>'


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
