"""Write the report of a reproduction: all tables and figures of the paper with our numbers and the paper's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from treefine.evaluation.tables import Table
from treefine.treebank.files import open_output
from treefine.version import __version__
from treefine_paper import tables
from treefine_paper.results import ResultCollection, SystemResult, counted_treebanks
from treefine_paper.treebanks import TREEBANKS
from treefine_paper.trees import analyse_trees


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the report: notes, then tables, then charts by name."""

    title: str
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    charts: Mapping[str, str] = field(default_factory=dict)  # SVG


def write_report(
    results: Sequence[SystemResult], results_folder: Path, output: Path, *, warn: Callable[[str], object] = str
) -> Path:
    """Write report.md and the figures into `output`; return the path of report.md.

    `results_folder` has the saved trees. Treebanks and systems without results have dashes. If trees or gold files are
    missing, the report leaves out what needs them, says so, and calls `warn`.
    """
    sections = report_sections(ResultCollection(results), results_folder)
    for note in sections[0].notes[1:]:
        warn(note)
    output.mkdir(parents=True, exist_ok=True)
    texts = {f"{name}.svg": svg for section in sections for name, svg in section.charts.items()}
    texts["report.md"] = "\n\n".join(_markdown(sections)) + "\n"
    for name, text in texts.items():
        with open_output(output / name) as file:
            file.write(text.encode())
    return output / "report.md"


def report_sections(results: ResultCollection, results_folder: Path) -> list[Section]:
    """Return the parts of the report in the order of the paper."""
    findings = analyse_trees(results, results_folder)
    summary = (
        f"Written by treefine {__version__} from the results of "
        f"{counted_treebanks([code for code in TREEBANKS if results.of_treebank(code)])}. Lines named treefine"
        " are our results. Lines named paper are the numbers of Mohammadshahi and Henderson (2021). A dash: no result."
    )
    left_out = [f"Left out of figures and tests: {what}." for what in dict.fromkeys(findings.left_out)]
    (figure_3, note_3), (figure_4, note_4) = (tables.figures(results, findings, is_ud=is_ud) for is_ud in (True, False))
    return [
        Section("Results", (summary, *left_out)),
        _section(tables.table_1(results)),
        _section(tables.ud_table(results, findings.best, "LAS")),
        _section(tables.penn_table(results, findings.best)),
        Section("Figure 3: errors on the UD treebanks", (note_3,), charts=figure_3),
        Section("Figure 4: errors on the Chinese Penn Treebank", (note_4,), charts=figure_4),
        _section(tables.resources_table(results, findings)),
        Section("Table 5: refinement by dependency type", tables=tuple(tables.label_tables(results, findings))),
        _section(tables.projectivity_table(results, findings)),
        _section(tables.run_times_table(results)),
        _section(tables.ud_table(results, findings.best, "UAS")),
        _section(tables.dev_table(results)),
        _section(tables.equal_cost_table(results)),
    ]


def _section(table: Table) -> Section:
    return Section(table.title, tables=(table,))


def _markdown(sections: Sequence[Section]) -> Iterator[str]:
    yield "# The tables and figures of the paper"
    for section in sections:
        yield f"## {section.title}"
        yield from section.notes
        for table in section.tables:
            if table.title != section.title:
                yield f"### {table.title}"
            yield from (table.to_markdown(), table.note) if table.rows else ("There are no results yet.",)
        for name in section.charts:
            yield f"![{name.replace('-', ' ')}]({name}.svg)"
