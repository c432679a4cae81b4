"""The parts of a report page: charts with a caption, tables of numbers, and the style they share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape

from treefine.drawing.characters import visible

# Charts stand side by side where there is room; a phone shows one at a time, as wide as its screen. A chart whose table
# is open has a row of its own. On paper there are the tables that were open.
REPORT_STYLE = """
h1, h3, h4, p, li, summary, figcaption { overflow-wrap: anywhere; }
h2 { font-size: 1.3rem; border-top: 2px solid #81818155; padding-top: 1rem; }
h2::before { counter-increment: none; content: none; }
h3 { font-size: 1.1rem; }
h4 { font-size: 1rem; margin: 1rem 0 0.3rem; }
nav ul { margin: 0.3rem 0; padding-left: 1.2rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 1rem; }
.charts > * { min-width: 0; }
figure.chart { border: none; overflow: visible; background: none; }
figure.chart svg { width: 100%; max-width: 30rem; height: auto; }
figure.chart:has(details[open]) { grid-column: 1 / -1; }
figcaption, .note { font-size: 0.9rem; margin: 0.4rem 0; max-width: 45rem; }
.scroll table { white-space: nowrap; }
th[scope="row"] { font-weight: 400; }
thead th { vertical-align: bottom; }
th.number { text-align: end; }
details { margin: 0.4rem 0; }
details:target::details-content { content-visibility: visible; block-size: auto; }
@media (max-width: 30rem) { body { padding: 0.5rem; } th, td { padding: 0.1rem 0.4rem; } }
@media print {
  .charts { grid-template-columns: 1fr 1fr; }
  .charts.tables { grid-template-columns: 1fr; }
  figure.chart details:not([open]), nav { display: none; }
  .scroll table { white-space: normal; }
  th, td { padding: 0.1rem 0.4rem; }
  h3, h4, summary, .note { break-after: avoid; break-inside: avoid; }
}
"""


def chart_figure(svg: str, caption: str, table: str) -> str:
    """A chart, what it shows, and its numbers, which a reader may open."""
    return (
        f'<figure class="chart">\n{svg}<figcaption>{escape(visible(caption))}</figcaption>\n'
        f"{folded('Table of numbers', table)}</figure>\n"
    )


def folded(summary: str, inside: str, *, name: str = "", is_open: bool = False) -> str:
    """What a reader may open; in print it is. A link can lead to its name."""
    named, opened = f' id="{name}"' if name else "", ' open=""' if is_open else ""
    return f'<details{named}{opened}>\n<summary dir="auto">{escape(visible(summary))}</summary>\n{inside}</details>\n'


def number_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    name: str,
    n_names: int = 1,
    groups: Sequence[tuple[str, int]] = (),
    bold: Collection[tuple[int, int]] = (),
) -> str:
    """A table with `n_names` columns of names and then numbers; it can be moved sideways where it is too wide.

    `groups` are headings over several columns, with how many; `bold` are rows and columns, from 0. A heading that is
    empty is an empty cell.
    """
    over = "".join(f'<th scope="colgroup" colspan="{width}">{safe(group)}</th>' for group, width in groups)
    lines = [f"<tr>{over}</tr>"] if groups else []
    classes = ["" if column < n_names else ' class="number"' for column in range(len(header))]
    lines.append(
        "<tr>"
        + "".join(f'<th scope="col"{kind}>{safe(cell)}</th>' for kind, cell in zip(classes, header, strict=True))
        + "</tr>"
    )
    lines = [f"<thead>{''.join(lines)}</thead>", "<tbody>"]
    for row, cells in enumerate(rows):
        line = ""
        for column, cell in enumerate(cells):
            said = f"<strong>{safe(cell)}</strong>" if (row, column) in bold else safe(cell)
            if column < n_names:
                line += f'<th scope="row" dir="auto">{said}</th>'
            else:
                line += f'<td class="number">{said}</td>'
        lines.append(f"<tr>{line}</tr>")
    table = "\n".join([*lines, "</tbody>"])
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{safe(name)}"><table>\n{table}\n</table></div>\n'


def safe(text: str) -> str:
    """The text as it may stand in a page: nothing in it acts."""
    return escape(visible(text))
