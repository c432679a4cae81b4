"""The paper's analyses of errors and refinement on the dev sets: Figures 3 and 4, Tables 4 to 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from treefine.evaluation.analysis.plots import curve_chart
from treefine.evaluation.analysis.refinement import (
    Refinement,
    Steps,
    ranked_labels,
    reductions,
    together,
    total_reduction,
)
from treefine.evaluation.analysis.report import reduction_text
from treefine.evaluation.properties import draw_curves, join
from treefine.evaluation.tables import Table, TableCell
from treefine_paper import paper
from treefine_paper.collection import DASH, SYSTEM_TITLES, UD, ResultCollection, counted_treebanks
from treefine_paper.score_tables import OURS, PAPER, Row
from treefine_paper.tree_analysis import CURVES, DRAWN, DRAWN_CTB, REFINING, TreeFindings
from treefine_paper.treebanks import in_words

LARGE = 10_000  # sentences: a training set with more is "high-resource" in the paper
LEAST_GOLD, MOST = 100, 12  # gold words of a ranked dependency type, and number of types shown
_STEPS = 3  # in the tables of the paper
_UNITS = {"dependency length": "words", "distance to root": "arcs", "sentence length": "words"}
_SAMPLES = 200  # of the bands


def ud_figures(results: ResultCollection, findings: TreeFindings) -> tuple[dict[str, str], str]:
    """Return the plots of Figure 3 by name, and their note."""
    systems, codes = results.shared(DRAWN, "dev")
    systems = [system for system in systems if any((code, system) in findings.curves for code in codes)]
    codes = [code for code in codes if all((code, system) in findings.curves for system in systems)]
    return _figures(
        "figure-3", f"concatenated dev sets of {counted_treebanks(codes)}", results, findings, systems, codes
    )


def ctb_figures(results: ResultCollection, findings: TreeFindings) -> tuple[dict[str, str], str]:
    """Return the plots of Figure 4 by name, and their note."""
    drawn = [system for system in DRAWN_CTB if ("ctb", system) in findings.curves]
    return _figures("figure-4", "dev set of CTB", results, findings, drawn, ["ctb"])


def _figures(
    name: str, what: str, results: ResultCollection, findings: TreeFindings, systems: list[str], codes: list[str]
) -> tuple[dict[str, str], str]:
    if not systems or not codes:
        return {}, "There are no trees of the same dev sets to draw."
    plots = {}
    for by in CURVES if name == "figure-3" else CURVES[:2]:
        tallies = {system: join([findings.curves[code, system][by] for code in codes]) for system in systems}
        curves = draw_curves({by: tallies}, samples=_SAMPLES, seed=1)[by]
        shown = {SYSTEM_TITLES[system]: [point for point in points if point.gold] for system, points in curves.items()}
        x_title = f"{by} ({_UNITS[by]})"
        plots[f"{name}-{by.replace(' ', '-')}"] = curve_chart(f"LAS by {by}", x_title, shown, y_title="LAS (F1, %)")
    note = f"LAS (F1) on the {what}. Each line is the chosen seed of a system. {results.note(codes, systems, 'dev')}"
    return plots, note


def resources_table(results: ResultCollection, findings: TreeFindings) -> Table:
    """Return REL^t by the size of the training set (Table 4, Appendix D)."""
    rows: list[Row] = []
    for system in _shown(findings):
        for size in (paper.LOW, paper.HIGH):
            codes = [
                code
                for code in _codes(results, findings, system)
                if ((results.train_sentences(code) or 0) > LARGE) == (size == paper.HIGH)
            ]
            counts = _together(findings, system, codes).attachment["LAS"] if codes else None
            rows.append((SYSTEM_TITLES[system], size, OURS, ", ".join(codes) or DASH, *_cells(counts)))
            rows.append((REFINING[system], size, PAPER, DASH, *_reported(paper.RESOURCES, system, size)))
    note = (
        f"The share of the LAS errors that each step removes (REL, Eq. 8), dev sets together, mean of the seeds. "
        f"{paper.HIGH} treebanks have more than {LARGE:,} training sentences. {_sources(results, findings)}"
    )
    header = ("model", "dataset type", "source", "treebanks", *_header())
    return Table(header, tuple(rows), "Table 4: refinement by the size of the training set", note, n_names=4)


def label_tables(results: ResultCollection, findings: TreeFindings) -> dict[str, Table]:
    """Return the error reduction of dependency types by step, one table per system (Table 5, Appendix D)."""
    tables = {}
    for system in _shown(findings):
        codes = _codes(results, findings, system)
        counts = _together(findings, system, codes).labels if codes else {}
        ranked = ranked_labels(_together(findings, system, codes), least=LEAST_GOLD, most=MOST) if codes else []
        rows: list[tuple[TableCell, ...]] = []
        for label in dict.fromkeys((*ranked, *paper.DEPENDENCY_TYPES[REFINING[system]])):
            theirs = _reported(paper.DEPENDENCY_TYPES, system, label)[:_STEPS]
            rows.append((label, _gold(counts.get(label)), *_cells(counts.get(label)), *theirs))
        note = (
            f"{SYSTEM_TITLES[system]}, next to the paper's {REFINING[system]}: the share of the F-score errors that "
            f"each step removes, mean of the seeds, on the dev sets of {counted_treebanks(codes)} together. First up "
            f"to {MOST} types with at least {LEAST_GOLD} gold words, ranked by all steps; then the other types of the "
            f"paper's table. {results.note(codes, [system], 'dev')}"
        )
        header = ("dependency type", "gold words", *_header(), *(f"paper {step}" for step in _header()[:_STEPS]))
        title = f"Table 5: refinement by dependency type, {SYSTEM_TITLES[system]}"
        tables[f"table-5-{system}"] = Table(header, tuple(rows), title, note)
    return tables


def projectivity_table(results: ResultCollection, findings: TreeFindings) -> Table:
    """Return the error reduction in projective and non-projective trees by step (Table 6, Appendix D)."""
    rows: list[Row] = []
    for system in _shown(findings):
        codes = _codes(results, findings, system)
        counts = _together(findings, system, codes).projectivity if codes else {}
        for kind in ("non-projective", "projective"):
            rows.append((SYSTEM_TITLES[system], kind, OURS, _gold(counts.get(kind)), *_cells(counts.get(kind))))
            rows.append((REFINING[system], kind, PAPER, DASH, *_reported(paper.PROJECTIVITY, system, kind)))
    note = (
        "The share of the F-score errors that each step removes in words of projective and non-projective gold trees, "
        f"dev sets together, mean of the seeds. {_sources(results, findings)}"
    )
    header = ("model", "tree type", "source", "gold words", *_header())
    return Table(header, tuple(rows), "Table 6: refinement by projectivity", note, n_names=3)


def _shown(findings: TreeFindings) -> list[str]:
    """Return the systems to show: SynTr+RNGTr, and those with the role of UDify+RNGTr that have trees, or Multi."""
    have = {system for _, system in findings.refinements}
    *in_udifys_role, refined = REFINING
    return [*([system for system in in_udifys_role if system in have] or in_udifys_role[:1]), refined]


def _codes(results: ResultCollection, findings: TreeFindings, system: str) -> list[str]:
    return [code for code in results.pooled() if (code, system) in findings.refinements]


def _together(findings: TreeFindings, system: str, codes: Sequence[str]) -> Refinement:
    return together([findings.refinements[code, system] for code in codes], name=SYSTEM_TITLES[system])


def _sources(results: ResultCollection, findings: TreeFindings) -> str:
    """Say which treebanks each system has, and where the numbers come from."""
    shown = _shown(findings)
    systems = [f"{SYSTEM_TITLES[system]}: {counted_treebanks(_codes(results, findings, system))}" for system in shown]
    left_out = [code for code in UD if results.of_treebank(code) and code not in results.pooled()]
    apart = f" Left out, because they are of another release: {in_words(left_out)}." if left_out else ""
    return f"{'; '.join(systems)}.{apart} {results.note(results.pooled(), shown, 'dev')}"


def _header() -> tuple[str, ...]:
    return (*(f"t = {t}" for t in range(1, _STEPS + 1)), "all steps")


def _gold(counts: Steps | None) -> str:
    return DASH if counts is None else f"{counts[0].gold:,.0f}"


def _cells(counts: Steps | None) -> tuple[str, ...]:
    """Return the reduction of each step and of all steps together."""
    if counts is None:
        return (DASH,) * (_STEPS + 1)
    steps = [*map(reduction_text, reductions(counts)[:_STEPS])]
    return (*steps, *[DASH] * (_STEPS - len(steps)), reduction_text(total_reduction(counts)))


def _reported(numbers: Mapping[str, Mapping[str, tuple[float, ...]]], system: str, kind: str) -> tuple[str, ...]:
    """Return the paper's numbers of each step; it has none for all steps together."""
    reported = numbers[REFINING[system]].get(kind)
    return (DASH,) * (_STEPS + 1) if reported is None else (*(f"{number:+.2f}%" for number in reported), DASH)
