"""Write the report of a reproduction: all tables and figures of the paper with our numbers and the paper's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treefine.evaluation.analysis.report import render_page
from treefine.evaluation.tables import Table
from treefine.treebank.files import open_output
from treefine.version import __version__
from treefine_paper.analysis_tables import (
    ctb_figures,
    label_tables,
    projectivity_table,
    resources_table,
    ud_figures,
)
from treefine_paper.collection import ResultCollection, counted_treebanks
from treefine_paper.results import SystemResult
from treefine_paper.score_tables import (
    dev_table,
    equal_cost_table,
    penn_table,
    run_times_table,
    table_1,
    ud_table,
)
from treefine_paper.tree_analysis import analyse_trees
from treefine_paper.treebanks import TREEBANKS

TITLE = "The tables and figures of the paper"


@dataclass(frozen=True, slots=True)
class TableSection:
    """A section of the report: notes, then tables, then charts, each by a short key."""

    title: str
    notes: tuple[str, ...] = ()
    tables: Mapping[str, Table] = field(default_factory=dict)
    charts: Mapping[str, str] = field(default_factory=dict)  # SVG


def write_report(
    results: Sequence[SystemResult], results_folder: Path, output: Path, *, warn: Callable[[str], None] | None = None
) -> Path:
    """Write report.md, report.html, tables.json and the figures into `output`; return the path of report.md.

    `results_folder` has the saved trees. Treebanks and systems without results have dashes. If trees or gold files are
    missing, the report leaves out what needs them, says so, and calls `warn`.
    """
    found = ResultCollection(tuple(results))
    sections = report_sections(found, results_folder)
    if warn is not None:
        for note in sections[0].notes[1:]:
            warn(note)
    output.mkdir(parents=True, exist_ok=True)
    for section in sections:
        for name, svg in section.charts.items():
            _write(output / f"{name}.svg", svg)
    _write(output / "tables.json", json.dumps(_tables_json(sections), indent=1, ensure_ascii=False) + "\n")
    with open_output(output / "report.html") as file:
        for part in render_page("tables.html", TITLE, package="treefine_paper", sections=sections):
            file.write(part.encode())
    path = output / "report.md"
    _write(path, "\n\n".join(_markdown(sections)) + "\n")
    return path


def report_sections(found: ResultCollection, results_folder: Path) -> list[TableSection]:
    """Return the parts of the report in the order of the paper."""
    findings = analyse_trees(found, results_folder)
    figure_3, note_3 = ud_figures(found, findings)
    figure_4, note_4 = ctb_figures(found, findings)
    with_results = [code for code in TREEBANKS if found.of_treebank(code)]
    summary = (
        f"Written by treefine {__version__} from the results of {counted_treebanks(with_results)}. Lines named treefine"
        " are our results. Lines named paper are the numbers of Mohammadshahi and Henderson (2021). A dash: no result."
    )
    left_out = [f"Left out of figures and tests: {each}." for each in dict.fromkeys(findings.left_out)]
    return [
        TableSection("Results", (summary, *left_out)),
        _section("table-1", table_1(found)),
        _section("table-2", ud_table(found, findings.best, "LAS")),
        _section("table-3", penn_table(found, findings.best)),
        TableSection("Figure 3: errors on the UD treebanks", (note_3,), charts=figure_3),
        TableSection("Figure 4: errors on the Chinese Penn Treebank", (note_4,), charts=figure_4),
        _section("table-4", resources_table(found, findings)),
        TableSection("Table 5: refinement by dependency type", tables=label_tables(found, findings)),
        _section("table-6", projectivity_table(found, findings)),
        _section("appendix-b", run_times_table(found)),
        _section("appendix-c", ud_table(found, findings.best, "UAS")),
        _section("dev-scores", dev_table(found)),
        _section("equal-cost", equal_cost_table(found)),
    ]


def _section(key: str, table: Table) -> TableSection:
    return TableSection(table.title, tables={key: table})


def _markdown(sections: Sequence[TableSection]) -> Iterator[str]:
    yield f"# {TITLE}"
    for section in sections:
        yield f"## {section.title}"
        yield from section.notes
        for table in section.tables.values():
            if table.title != section.title:
                yield f"### {table.title}"
            yield table.to_markdown() if table.rows else "There are no results yet."
            if table.rows:
                yield table.note
        for name in section.charts:
            yield f"![{name.replace('-', ' ')}]({name}.svg)"


def _tables_json(sections: Sequence[TableSection]) -> dict[str, Any]:
    """Return every table by its key: its title, its note, a record per row, and the place of each bold cell."""
    tables = {key: table for section in sections for key, table in section.tables.items()}
    return {
        key: {
            "title": table.title,
            "note": table.note,
            "records": table.to_records(),
            "bold": [{"row": row, "column": table.header[column]} for row, column in sorted(table.bold)],
        }
        for key, table in tables.items()
    }


def _write(path: Path, text: str) -> None:
    with open_output(path) as file:
        file.write(text.encode())
