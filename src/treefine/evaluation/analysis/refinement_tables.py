"""A refinement analysis as tables in the paper's layout, one column a step; as JSON values; and as rows of CSV."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from treefine.evaluation.analysis.refinement import METRICS, Costs, Refinement, StepCounts, ranked_labels

NONE = "–"
LEAST = 20  # gold words of a label that has a row
CSV_HEADER = ("treebank", "table", "kind", "t", "gold", "system", "correct", "f1", "error_reduction")


@dataclass(frozen=True, slots=True)
class Table:
    """One table, its cells ready to be shown; the first column holds names."""

    title: str
    note: str  # what it shows, with its definition
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables_of(refinement: Refinement, costs: Costs | None = None) -> list[Table]:
    """All tables: scores and REL by step, dependency types, projectivity, and what the steps took."""
    found = [by_step(refinement), by_label(refinement), by_projectivity(refinement)]
    return [*found, *([costs_table(costs)] if costs else [])]


def summary_of(refinement: Refinement) -> str:
    """How much was counted, and whether there is a t = 0."""
    n_words, steps = refinement.attachment["LAS"].gold, refinement.steps
    said = f"{refinement.n_sentences:,.0f} sentences, {n_words:,.0f} words, t = {steps[0]} to {steps[-1]}."
    if refinement.first:
        said += " The model started from no graph, so there is no t = 0: what a step corrects is told from t = 2 on."
    return said


def by_step(refinement: Refinement) -> Table:
    """Scores after each step, RELᵗ, and the share of the sentences that it left as they were."""
    rows: list[tuple[str, ...]] = []
    for metric in METRICS:
        rows.append((metric, *[f"{100 * score:.2f}" for score in refinement.attachment[metric].f1], NONE))
    for title, metric in (("REL", "LAS"), ("REL of UAS", "UAS")):
        counts = refinement.attachment[metric]
        rows.append((title, NONE, *map(percent, counts.reductions), percent(counts.total)))
    shares = [share(each, refinement.n_sentences) for each in refinement.converged]
    rows.append(("converged", NONE, *shares, NONE))
    first = "the initial parses" if refinement.first == 0 else "the trees of the first step, made from no graph,"
    note = (
        f"UAS and LAS in percent of the trees after each step; t = {refinement.first} are {first.rstrip(',')}. REL is "
        "the share of the LAS errors of the trees before that a step removed (Eq. 8), the last column the share of the "
        f"errors of {first} that all steps removed. Converged: sentences whose graph a step left as it was; they are "
        "refined no further."
    )
    if refinement.predicts_tags and refinement.first == 0:
        note += (
            " The first step also predicts the tags that are not read from the file, and the second reads them: a "
            "sentence that lacked some does not converge before t = 2, even if its graph stays as it was."
        )
    return Table("Refinement by step", note, ("", *_steps(refinement), "all steps"), tuple(rows))


def by_label(refinement: Refinement, *, least: float = LEAST, most: int | None = None) -> Table:
    """Dependency types, ranked and selected by the share of their errors that all steps removed."""
    labels = ranked_labels(refinement, least=least, most=most)
    shown = "Types" if most is None else f"The first {most} of the types"
    note = (
        "Relative reduction of the F-score error of each dependency type by each step; a word is right if head and "
        f"label are. {shown} with at least {least:g} gold words, the largest total reduction first."
    )
    return _reduction_table("Dependency types", note, refinement, {name: refinement.labels[name] for name in labels})


def by_projectivity(refinement: Refinement) -> Table:
    """Words of projective and of non-projective gold trees."""
    note = (
        "Relative reduction of the LAS error of the words in gold trees with a non-projective arc, and of those in "
        "gold trees without one."
    )
    return _reduction_table("Projectivity", note, refinement, refinement.projectivity)


def costs_table(costs: Costs) -> Table:
    """The time of each step, and what had still to be refined in it."""
    n_steps = len(costs.seconds)
    before = NONE if costs.initial_seconds is None else f"{costs.initial_seconds:.2f}"
    rates = [f"{1000 * each / n:.2f}" if n else NONE for each, n in zip(costs.seconds, costs.sentences, strict=True)]
    total = sum(costs.seconds) + (costs.initial_seconds or 0)
    initial = f" and {_millions(costs.initial_parameters)} in its initial parser" if costs.initial_parameters else ""
    note = (
        f"Every step runs the same model of {_millions(costs.parameters)} parameters{initial}, here on "
        f"{costs.device}, with a tree at every step. Sentences that have converged are refined no further."
    )
    rows = (
        ("sentences refined", NONE, *[f"{each:,}" for each in costs.sentences], f"{sum(costs.sentences):,}"),
        ("seconds", before, *[f"{each:.2f}" for each in costs.seconds], f"{total:.2f}"),
        ("milliseconds a sentence", NONE, *rates, NONE),
    )
    header = ("", "initial parses", *[f"t = {t}" for t in range(1, n_steps + 1)], "all steps")
    return Table("Run time and parameters", note, header, rows)


def _reduction_table(title: str, note: str, refinement: Refinement, kinds: dict[str, StepCounts]) -> Table:
    rows = [
        (name, f"{counts.gold:,.0f}", *map(percent, counts.reductions), percent(counts.total))
        for name, counts in kinds.items()
    ]
    return Table(title, note, ("", "gold words", *_steps(refinement)[1:], "all steps"), tuple(rows))


def _steps(refinement: Refinement) -> list[str]:
    return [f"t = {t}" for t in refinement.steps]


def percent(reduction: float | None) -> str:
    """A reduction with its sign; a dash where there were no errors to reduce.

    >>> percent(0.1234), percent(-0.00001), percent(None)
    ('+12.34 %', '+0.00 %', '–')
    """
    return NONE if reduction is None else f"{round(100 * reduction, 2) + 0.0:+.2f} %"


def share(part: float, whole: float) -> str:
    """A share in percent."""
    return f"{100 * part / whole:.1f} %" if whole else NONE


def _millions(number: int) -> str:
    return f"{number / 1e6:.1f} million"


def refinement_json(refinement: Refinement, costs: Costs | None = None) -> dict[str, Any]:
    """All that was counted, as JSON values: shares from 0 to 1, null where there were no errors to reduce."""

    def all_of(kinds: dict[str, StepCounts]) -> dict[str, Any]:
        return {name: _counts_json(counts) for name, counts in kinds.items()}

    result: dict[str, Any] = {
        "name": refinement.name,
        "t": list(refinement.steps),
        "sentences": refinement.n_sentences,
        "attachment": all_of(refinement.attachment),
        "labels": all_of(refinement.labels),
        "projectivity": all_of(refinement.projectivity),
        "converged": list(refinement.converged),
        "predicts_tags": refinement.predicts_tags,
        "corrected": [example.gold.sent_id or example.gold.number for example in refinement.corrected],
        "spoiled": [example.gold.sent_id or example.gold.number for example in refinement.spoiled],
    }
    if costs is not None:
        result["costs"] = asdict(costs)
    return result


def _counts_json(counts: StepCounts) -> dict[str, Any]:
    return {
        "gold": counts.gold,
        "system": counts.system,
        "correct": counts.correct,
        "f1": counts.f1,
        "error_reduction": counts.reductions,
        "total_error_reduction": counts.total,
    }


def csv_rows(refinement: Refinement) -> Iterator[tuple[object, ...]]:
    """One row for each kind of words and each t, under CSV_HEADER; a blank where there is no number."""
    tables = {
        "attachment": refinement.attachment,
        "label": refinement.labels,
        "projectivity": refinement.projectivity,
    }
    for table, kinds in tables.items():
        for kind, counts in kinds.items():
            columns = (counts.system, counts.correct, counts.f1, (None, *counts.reductions))
            for t, (system, *rest) in zip(refinement.steps, zip(*columns, strict=True), strict=True):
                cells = (refinement.name, table, kind, t, counts.gold, system, *rest)
                yield tuple("" if cell is None else cell for cell in cells)
    for t, number in zip(refinement.steps[1:], refinement.converged, strict=True):
        n_all = refinement.n_sentences
        yield refinement.name, "converged", "sentences", t, n_all, n_all, number, number / n_all, ""
