"""The `Table` type, which renders as text or Markdown, and the tables and JSON values of scores and comparisons.

Report pages render the same tables as HTML (`analysis/templates/parts.html`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from treefine.evaluation.scores import Score, relative_error_reduction

if TYPE_CHECKING:
    from treefine.evaluation.significance import Comparison  # imports numpy

TableCell: TypeAlias = "str | int | float | None"  # None is an empty cell
Line: TypeAlias = "tuple[TableCell, ...]"


@dataclass(frozen=True, slots=True)
class Table:
    """A header and rows of cells; the first columns hold names, which are aligned left, the others numbers.

    >>> table = Table(("system", "LAS"), (("first", "81.25"), ("second", "93.75")), bold=frozenset({(1, 1)}))
    >>> print(table.to_text())
    system     LAS
    ------  ------
    first    81.25
    second  93.75*
    >>> table.to_records()[0]
    {'system': 'first', 'LAS': '81.25'}
    """

    header: tuple[str, ...]
    rows: tuple[Line, ...]
    title: str = ""
    note: str = ""  # how to read the table
    n_names: int = 1  # columns of names
    groups: tuple[tuple[str, int], ...] = ()  # on a page: headings over several columns, each with its width
    bold: frozenset[tuple[int, int]] = frozenset()  # row and column of each bold cell, from 0

    def to_text(self) -> str:
        """Return aligned columns, with a star after each bold cell."""
        rows = self._shown_rows("{}*".format)
        widths = [max(map(len, column)) for column in zip(self.header, *rows, strict=True)]
        aligned = ["<" if column < self.n_names else ">" for column in range(len(widths))]
        lines = [self.header, ["-" * width for width in widths], *rows]
        return "\n".join("  ".join(map("{:{}{}}".format, line, aligned, widths)).rstrip() for line in lines)

    def to_markdown(self) -> str:
        """Return a Markdown table."""
        lines = [self.header, ["---"] * len(self.header), *self._shown_rows("**{}**".format)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def _shown_rows(self, mark: Callable[[str], str]) -> list[list[str]]:
        """Return the cells as text, with the bold ones marked."""
        texts = [["" if cell is None else str(cell) for cell in cells] for cells in self.rows]
        for row, column in self.bold:
            texts[row][column] = mark(texts[row][column])
        return texts

    def to_records(self) -> list[dict[str, TableCell]]:
        """Return each row as a JSON value."""
        return [dict(zip(self.header, row, strict=True)) for row in self.rows]


def score_table(scores: Mapping[str, Score], *, title: str = "Metric") -> str:
    """Return the scores in the layout of the official CoNLL 2018 scorer."""
    width = max(10, *map(len, scores))
    lines = [
        f"{title:{width}} | Precision |    Recall |  F1 Score | AligndAcc",
        f"{'-' * width}-+-----------+-----------+-----------+-----------",
    ]
    for name, score in scores.items():
        aligned = score.aligned_accuracy
        last = "" if aligned is None else f"{100 * aligned:10.2f}"
        cells = "".join(f"|{100 * value:10.2f} " for value in (score.precision, score.recall, score.f1))
        lines.append(f"{name:{width}} {cells}|{last}")
    return "\n".join(lines)


def confusion_table(confusions: Counter[tuple[str, str]], *, kind: str = "", most: int | None = None) -> Table:
    """Return the most frequent confusions of labels or heads, or all of them."""
    rows = tuple((gold, system, times) for (gold, system), times in confusions.most_common(most))
    return Table((f"gold {kind}".rstrip(), f"system {kind}".rstrip(), "times"), rows)


def comparison_table(comparison: Comparison) -> Table:
    """Return one row per system, compared with the first; the systems that tie for the best score are bold."""
    first = next(iter(comparison.scores))
    rows: list[Line] = []
    for name, score in comparison.scores.items():
        cells: Line = (None,) * 4
        if name != first:
            before, difference = comparison.scores[first], comparison.between(first, name)
            reduction = relative_error_reduction(before, score)
            cells = (
                f"{100 * (score - before):+.2f}",
                None if reduction is None else f"{100 * reduction:+.2f}%",
                f"{difference.randomisation:.4f}",
                f"{difference.bootstrap:.4f}",
            )
        rows.append((name, f"{100 * score:.2f}", *cells))
    note = (
        f"*: best, or not significantly different from it (alpha = {comparison.alpha:g}, approximate randomisation).\n"
        f"Compared with {first}: difference in {comparison.metric}, relative error reduction (RER), and probability p\n"
        f"of a difference this large by chance ({comparison.samples:,} samples of sentences, seed {comparison.seed})."
    )
    header = ("system", comparison.metric, "difference", "RER", "p (rand.)", "p (boot.)")
    bold = frozenset((row, 1) for row, name in enumerate(comparison.scores) if name in comparison.best_group)
    return Table(header, tuple(rows), note=note, bold=bold)


def scores_json(scores: Mapping[str, Score]) -> dict[str, Any]:
    """Return the shares and counts of each score."""
    names = ("precision", "recall", "f1", "aligned_accuracy", "gold", "system", "correct", "aligned")
    return {metric: {name: getattr(score, name) for name in names} for metric, score in scores.items()}


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison with the difference of every pair of systems."""
    differences = [
        {
            "systems": [each.first, each.second],
            "difference": each.difference,
            "relative_error_reduction": relative_error_reduction(
                comparison.scores[each.first], comparison.scores[each.second]
            ),
            "p_randomisation": each.randomisation,
            "p_bootstrap": each.bootstrap,
            "interval": list(each.interval),
        }
        for each in comparison.differences.values()
    ]
    return {
        **{name: getattr(comparison, name) for name in ("metric", "alpha", "samples", "seed", "scores", "best")},
        "not_significantly_different_from_best": sorted(comparison.best_group),
        "differences": differences,
    }
