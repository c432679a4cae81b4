"""The axes of a chart: where values stand, which of them are written, and which labels fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias, TypeVar

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
