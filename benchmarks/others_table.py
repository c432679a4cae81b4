"""The table of other parsers' trees before and after refinement, from the newest rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.markdown import table
from benchmarks.rows import read_rows

Row = dict[str, Any]
HEAD = (
    "initial parse by",
    "refined by",
    "LAS before",
    "after each step",
    "difference",
    "p",
    "heads, labels changed",
    "words corrected, spoiled",
    "the model from nothing",
    "refined minus that",
    "p",
)


def others() -> str:
    """What refining gives each parser, by each model; and how the parsers were made."""
    return others_of(read_rows("others"), read_rows("others_made"))


def others_of(refined: Sequence[Row], made: Sequence[Row]) -> str:
    """The same of these rows: the newest of each parser, model and source of tags."""
    if not refined:
        return "Not measured yet."
    newest = {tuple(row["config"][name] for name in ("model", "tags", "parser")): row for row in refined}
    rows = [newest[key] for key in sorted(newest)]
    makers = {row["config"]["parser"]: row for row in made}
    lines = [_made(makers[name]) for name in sorted({row["config"]["parser"] for row in rows}) if name in makers]
    last = rows[-1]
    origin = (
        f"LAS on {last['config']['treebank']} dev, {last['config']['sentences']:,} sentences; p: approximate "
        f"randomisation over sentences. `python -m benchmarks others refine`, {last['when'][:10]}, "
        f"commit {last['commit']}."
    )
    return "\n\n".join([table(HEAD, *map(_cells, rows)), *(["\n".join(lines)] if lines else []), origin])


def _cells(row: Row) -> tuple[str, ...]:
    config, result = row["config"], row["result"]
    before, *after = result["LAS_by_step"]
    gain, over = result["after minus before"], result["after minus nothing"]
    return (
        config["parser"],
        f"{config['model']}, tags {config['tags']}",
        _percent(before),
        ", ".join(map(_percent, after)),
        *_tested(gain),
        f"{result['heads_changed']:,}, {result['labels_changed']:,}",
        f"{result['corrected']:,}, {result['spoiled']:,}",
        _percent(result["nothing"]["LAS"]),
        *_tested(over),
    )


def _tested(found: Mapping[str, float]) -> tuple[str, str]:
    return f"{100 * found['difference']:+.2f}", f"{found['randomisation']:.4f}"


def _percent(share: float) -> str:
    return f"{100 * share:.2f}"


def _made(row: Row) -> str:
    config, result = row["config"], row["result"]
    places = {"dev": "on dev", "train": f"on train in {config['folds']} folds"}
    scores = [f"LAS {_percent(result[f'LAS, {split}'])} {place}" for split, place in places.items()]
    return (
        f"- {config['parser']}: {config['package']}, a small one trained for this on {config['sentences']:,} sentences "
        f"of {config['treebank']} with gold tags, not the published one; {', '.join(scores)}."
    )


OTHER_PARSERS: dict[str, Callable[[], str]] = {"others": others}
