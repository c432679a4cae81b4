"""The plots of docs/speed.md: what parsing costs against length, batch size, T and the number of labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from benchmarks.rows import ROWS
from benchmarks.speed_rows import DEVICES, machine_of, missing, newest
from treefine.evaluation.analysis.charts import Line, Mark, draw_lines

PLACES = {"length": 40, "batch": 1000, "T": 1, "labels": 50}  # of each curve, the point that counts as 1
FROM_ZERO = (0.0, math.inf)
TITLES = {
    "length": ("Cost of a word by length", "words in a sentence"),
    "batch": ("Cost of a word by batch size", "pieces in a batch at most"),
    "T": ("Cost of a word by T", "steps at most (T)"),
    "labels": ("Cost of a word by number of labels", "labels of the model"),
}


def draw_curve(name: str, path: Path = ROWS) -> str | None:
    """One curve, a line a device; None where nothing was measured."""
    lines = []
    for device in DEVICES:
        row = newest("speed_curves", device, path=path)
        if row is None:
            continue
        curve = row["result"][name]
        cost = dict(zip(curve["x"], curve["microseconds_a_word"], strict=True))
        one = cost.get(PLACES[name]) or next(iter(cost.values()))
        marks = tuple(Mark(f"{x:g}", each / one) for x, each in cost.items())  # names: the places are far apart
        lines.append(Line("CPU" if device == "cpu" else "GPU", marks))
    if not lines:
        return None
    title, x_title = TITLES[name]
    y_title = f"time a word; at {PLACES[name]:,} it is 1"
    return draw_lines(lines, title=title, x_title=x_title, y_title=y_title, y_format="{:.2f}", limits=FROM_ZERO)


def shown_figures(command: str, path: Path = ROWS) -> str:
    """The figures as a page shows them, and where they were measured."""
    rows = {device: newest("speed_curves", device, path=path) for device in DEVICES}
    known = [row for row in rows.values() if row is not None]
    if not known:
        return missing("cost against length, batch size, T and labels", command)
    pictures = "\n".join(f"![{title}](speed-{name}.svg)" for name, (title, _) in TITLES.items())
    costs = []
    for row in known:
        curve, config = row["result"]["length"], row["config"]
        cost = dict(zip(curve["x"], curve["microseconds_a_word"], strict=True))
        costs.append(
            f"{machine_of(row)}, {config['precision']}: a word of a sentence of {PLACES['length']} words takes "
            f"{cost[PLACES['length']]:,.1f} µs; a sentence of 2,000 words takes {row['result']['longest_peak_mib']:,} "
            "MiB, all of the process counted."
        )
    absent = [missing(f"the curves on {device}", command) for device, row in rows.items() if row is None]
    return "\n\n".join([pictures, *costs, *absent])


FIGURES: Mapping[str, Callable[[], str | None]] = {
    f"docs/speed-{name}.svg": partial(draw_curve, name) for name in TITLES
}
