"""Generate docs/reproduction.md, with the tables and figures of the paper."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache
from pathlib import Path

from benchmarks.accuracy.reproduction import TREES_FOLDER, kept_results
from benchmarks.markdown import folded
from benchmarks.options import command
from benchmarks.pages.tables import filled
from benchmarks.rows import PREDICTIONS, ROOT
from treefine.evaluation.analysis.pages import TableSection
from treefine_paper.collection import ResultCollection
from treefine_paper.report import report_sections

PAGE = "docs/reproduction.md"


@command()
def measure_reproduction_page(options: argparse.Namespace) -> None:
    """Write docs/reproduction.md and its figures from the rows and trees of `reproduction`.

    python -m benchmarks reproduction_page
    """
    page = Path(ROOT, PAGE)
    page.write_text(filled(page.read_text(), PAPER_TABLES))
    for section in sections():
        for name, svg in section.charts.items():
            Path(ROOT, "docs", f"{name}.svg").write_text(svg)


@cache
def sections() -> tuple[TableSection, ...]:
    """Return the parts of the report."""
    found = ResultCollection(tuple(kept_results()))
    return tuple(report_sections(found, PREDICTIONS / TREES_FOLDER))


def paper_tables() -> str:
    """Return all tables of the paper, with its numbers, folded."""
    parts = []
    for section in sections()[1:]:
        body = [*section.notes]
        for each in section.tables.values():
            body += [f"**{each.title}**"] if each.title != section.title else []
            body += [each.to_markdown(), each.note] if each.rows else ["There are no results."]
        body += [f"![{name.replace('-', ' ')}]({name}.svg)" for name in section.charts]
        parts.append(folded(section.title, "\n\n".join(body)))
    return "\n\n".join(parts)


PAPER_TABLES: dict[str, Callable[[], str]] = {"paper_tables": paper_tables}
