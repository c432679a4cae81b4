"""Write the report of a reproduction: all tables and figures of the paper with our numbers and the paper's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from treefine.evaluation.tables import Table
from treefine.treebank.files import open_output
from treefine.version import __version__
from treefine_paper import analysis_tables, score_tables
from treefine_paper.collection import ResultCollection, counted_treebanks
from treefine_paper.results import SystemResult
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
    """Write report.md, tables.json and the figures into `output`; return the path of report.md.

    `results_folder` has the saved trees. Treebanks and systems without results have dashes. If trees or gold files are
    missing, the report leaves out what needs them, says so, and calls `warn`.
    """
    sections = report_sections(ResultCollection(tuple(results)), results_folder)
    if warn is not None:
        for note in sections[0].notes[1:]:
            warn(note)
    output.mkdir(parents=True, exist_ok=True)
    tables = {key: table for section in sections for key, table in section.tables.items()}
    records = {
        key: {
            "title": table.title,
            "note": table.note,
            "records": table.to_records(),
            "bold": [{"row": row, "column": table.header[column]} for row, column in sorted(table.bold)],
        }
        for key, table in tables.items()
    }
    texts = {f"{name}.svg": svg for section in sections for name, svg in section.charts.items()}
    texts["tables.json"] = json.dumps(records, indent=1, ensure_ascii=False) + "\n"
    texts["report.md"] = "\n\n".join(_markdown(sections)) + "\n"
    for name, text in texts.items():
        with open_output(output / name) as file:
            file.write(text.encode())
    return output / "report.md"


def report_sections(results: ResultCollection, results_folder: Path) -> list[TableSection]:
    """Return the parts of the report in the order of the paper."""
    findings = analyse_trees(results, results_folder)
    figure_3, note_3 = analysis_tables.ud_figures(results, findings)
    figure_4, note_4 = analysis_tables.ctb_figures(results, findings)
    with_results = [code for code in TREEBANKS if results.of_treebank(code)]
    summary = (
        f"Written by treefine {__version__} from the results of {counted_treebanks(with_results)}. Lines named treefine"
        " are our results. Lines named paper are the numbers of Mohammadshahi and Henderson (2021). A dash: no result."
    )
    left_out = [f"Left out of figures and tests: {what}." for what in dict.fromkeys(findings.left_out)]
    label_tables = analysis_tables.label_tables(results, findings)
    return [
        TableSection("Results", (summary, *left_out)),
        _section("table-1", score_tables.table_1(results)),
        _section("table-2", score_tables.ud_table(results, findings.best, "LAS")),
        _section("table-3", score_tables.penn_table(results, findings.best)),
        TableSection("Figure 3: errors on the UD treebanks", (note_3,), charts=figure_3),
        TableSection("Figure 4: errors on the Chinese Penn Treebank", (note_4,), charts=figure_4),
        _section("table-4", analysis_tables.resources_table(results, findings)),
        TableSection("Table 5: refinement by dependency type", tables=label_tables),
        _section("table-6", analysis_tables.projectivity_table(results, findings)),
        _section("appendix-b", score_tables.run_times_table(results)),
        _section("appendix-c", score_tables.ud_table(results, findings.best, "UAS")),
        _section("dev-scores", score_tables.dev_table(results)),
        _section("equal-cost", score_tables.equal_cost_table(results)),
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
            yield from (table.to_markdown(), table.note) if table.rows else ("There are no results yet.",)
        for name in section.charts:
            yield f"![{name.replace('-', ' ')}]({name}.svg)"
