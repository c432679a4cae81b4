"""Write both analyses as text, JSON and CSV, and build the tables of a refinement analysis in the paper's layout."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from textwrap import fill
from typing import TYPE_CHECKING, Any

from treefine.drawing.characters import visible
from treefine.evaluation.analysis.refinement import (
    STEP_METRICS,
    Costs,
    Refinement,
    StepCounts,
    ranked_labels,
)
from treefine.evaluation.tables import (
    Table,
    TableCell,
    comparison_json,
    comparison_table,
    confusion_table,
    score_json,
    scores_json,
)
from treefine.wording import count

if TYPE_CHECKING:
    from treefine.evaluation.analysis.curves import Point
    from treefine.evaluation.analysis.errors import Analysis, SentenceDifference
    from treefine.treebank.sentence import Sentence

LEAST_WORDS = 20  # labels with fewer gold words have no row
_PRINTED_CURVES = ("dependency length", "distance to root", "sentence length")
_PRINTED_LABELS = 12  # the longest table in the paper
_NOTE_WIDTH = 88  # characters per line of a printed note
_NO_NUMBER = "–"
_ERROR_COLUMNS = (
    *("treebank", "table", "system", "value", "other", "gold", "predicted", "gold_correct", "predicted_correct"),
    *("precision", "recall", "f1", "low", "high", "times", "difference", "p_randomisation", "p_bootstrap"),
)
_REFINEMENT_COLUMNS = ("treebank", "table", "kind", "t", "gold", "system", "correct", "f1", "error_reduction")


def analysis_text(analyses: Sequence[Analysis]) -> str:
    """Return a short summary: the scores of all treebanks, and the curves and significance tests of the first."""
    parts = []
    for analysis in analyses:
        sizes = f"{count(analysis.n_sentences, 'sentence')}, {count(analysis.n_words, 'word')}"
        parts.append(f"{analysis.name}: {sizes}, rule {analysis.rule}")
        rows = [
            (system, *[f"{100 * scores[metric].f1:.2f}" for metric in analysis.main_metrics])
            for system, scores in analysis.scores.items()
        ]
        parts.append(Table(("system", *analysis.main_metrics), tuple(rows)).to_text())
        if analysis is analyses[0]:
            if analysis.comparison:
                table = comparison_table(analysis.comparison)
                parts += [table.to_text(), table.note]
            parts += [_curve_table(analysis, by).to_text() for by in _PRINTED_CURVES]
    return "\n\n".join(parts)


def _curve_table(analysis: Analysis, by: str) -> Table:
    rows = []
    for value, points in analysis.points_by_value(by).items():
        gold = next(point.gold for point in points if point)
        rows.append((value, gold, *[f"{100 * point.f1:.2f}" if point else None for point in points]))
    return Table((f"{analysis.metric} by {by}", "gold words", *analysis.systems), tuple(rows))


def analysis_json(analyses: Sequence[Analysis], title: str) -> str:
    """Return all numbers, and the trees of the sentences with the largest differences."""
    return _report_json(title, [_analysis_values(analysis) for analysis in analyses])


def _report_json(title: str, treebanks: Sequence[dict[str, Any]]) -> str:
    return json.dumps({"title": title, "treebanks": treebanks}, ensure_ascii=False, indent=1) + "\n"


def _analysis_values(analysis: Analysis) -> dict[str, Any]:
    def confused(confusions: Mapping[str, Counter[tuple[str, str]]]) -> dict[str, Any]:
        return {system: confusion_table(each).to_records() for system, each in confusions.items()}

    return {
        "name": analysis.name,
        "rule": analysis.rule,
        "metric": analysis.metric,
        "sentences": analysis.n_sentences,
        "words": analysis.n_words,
        "systems": list(analysis.systems),
        "scores": {system: scores_json(scores) for system, scores in analysis.scores.items()},
        "curves": {
            by: {system: [_point_values(point) for point in points] for system, points in curves.items()}
            for by, curves in analysis.curves.items()
        },
        "confused_labels": confused(analysis.label_confusions),
        "confused_heads": confused(analysis.head_confusions),
        "sentences_with_cycles": analysis.cycles,
        "comparison": None if analysis.comparison is None else comparison_json(analysis.comparison),
        "differences": [_difference_values(each) for each in analysis.differences],
    }


def _point_values(point: Point) -> dict[str, Any]:
    return asdict(point) | {"precision": point.precision, "recall": point.recall, "f1": point.f1}


def _difference_values(each: SentenceDifference) -> dict[str, Any]:
    names = ("treebank", "sent_id", "number", "first", "other", "difference", "correct")
    trees = {system: [_tree_values(tree) for tree in trees] for system, trees in each.trees.items()}
    own = {name: getattr(each, name) for name in names}
    return own | {"words": each.n_words, "gold": _tree_values(each.gold), "trees": trees}


def _tree_values(sentence: Sentence) -> dict[str, Any]:
    return {"words": sentence.forms, "tags": sentence.upos, "heads": sentence.heads, "labels": sentence.labels}


def analysis_csv(analyses: Sequence[Analysis]) -> str:
    """Return one row per score, point, confusion, pair of systems and sentence; the column `table` gives the kind."""
    records = ({"treebank": analysis.name, **row} for analysis in analyses for row in _error_rows(analysis))
    return Table(_ERROR_COLUMNS, tuple([tuple(map(row.get, _ERROR_COLUMNS)) for row in records])).to_csv()


def _error_rows(analysis: Analysis) -> Iterator[dict[str, TableCell]]:
    for system, scores in analysis.scores.items():
        for metric, score in scores.items():
            counts = {"predicted": score.system, "gold_correct": score.correct, "predicted_correct": score.correct}
            yield score_json(score) | counts | {"table": "score", "system": system, "value": metric}
    for by, curves in analysis.curves.items():
        for system, points in curves.items():
            for point in points:
                renamed = {"predicted": point.system, "predicted_correct": point.system_correct}
                yield _point_values(point) | renamed | {"table": by, "system": system}
    for kind, confused in (("label", analysis.label_confusions), ("head", analysis.head_confusions)):
        for system, confusions in confused.items():
            for (gold, given), times in confusions.most_common():
                yield {"table": f"confused {kind}", "system": system, "value": gold, "other": given, "times": times}
    for difference in analysis.comparison.differences.values() if analysis.comparison else ():
        low, high = difference.interval
        yield {
            "table": "significance",
            "system": difference.first,
            "value": analysis.metric,
            "other": difference.second,
            "low": low,
            "high": high,
            "difference": difference.difference,
            "p_randomisation": difference.randomisation,
            "p_bootstrap": difference.bootstrap,
        }
    for each in analysis.differences:
        yield {
            "table": "sentence",
            "system": each.first,
            "value": each.sent_id or each.number,
            "other": each.other,
            "gold": each.n_words,
            "difference": each.difference,
        }


def refinement_text(found: Sequence[tuple[Refinement, Costs]]) -> str:
    """Return the tables of each treebank, with only the first labels; notes follow the tables of the first treebank."""
    parts = []
    for number, (refinement, costs) in enumerate(found):
        parts.append(f"{visible(refinement.name)}: {summary_of(refinement)}")
        labels = by_label(refinement, most=_PRINTED_LABELS)
        for table in (by_step(refinement), labels, by_projectivity(refinement), costs_table(costs)):
            if table.rows:
                parts.append(replace(table, header=(table.title, *table.header[1:])).to_text())
                parts += [] if number else [fill(table.note, _NOTE_WIDTH)]
    return "\n\n".join(parts)


def summary_of(refinement: Refinement) -> str:
    """Return the number of sentences, words and steps, and a note if there is no t = 0."""
    n_words, steps = refinement.attachment["LAS"].gold, refinement.steps
    said = f"{refinement.n_sentences:,.0f} sentences, {n_words:,.0f} words, t = {steps[0]} to {steps[-1]}."
    if refinement.first:
        said += " The model started without a graph, so there is no t = 0, and corrections are counted from t = 2."
    return said


def by_step(refinement: Refinement) -> Table:
    """Return the scores after each step, RELᵗ, and the share of sentences that the step did not change."""
    rows: list[tuple[str, ...]] = []
    for metric in STEP_METRICS:
        rows.append((metric, *[f"{100 * score:.2f}" for score in refinement.attachment[metric].f1], _NO_NUMBER))
    for title, metric in (("REL", "LAS"), ("REL of UAS", "UAS")):
        counts = refinement.attachment[metric]
        rows.append((title, _NO_NUMBER, *map(reduction_text, counts.reductions), reduction_text(counts.total)))
    shares = [share_text(each, refinement.n_sentences) for each in refinement.converged]
    rows.append(("converged", _NO_NUMBER, *shares, _NO_NUMBER))
    first = (
        "the initial parses" if refinement.first == 0 else "the trees of the first step, which starts without a graph"
    )
    note = (
        f"UAS and LAS in % after each step; t = {refinement.first}: {first}. REL is the share of the previous LAS "
        f"errors that a step removed (Eq. 8); the last column is the share of the errors at t = {refinement.first} "
        "that all steps removed. A sentence has converged when a step leaves its graph unchanged; later steps skip it."
    )
    if refinement.predicts_tags and refinement.first == 0:
        note += (
            " The first step also predicts the tags that the file does not give, and the second step reads them. A "
            "sentence with predicted tags cannot converge before t = 2, even if its graph stays unchanged."
        )
    return Table(("", *_step_names(refinement), "all steps"), tuple(rows), "Refinement by step", note)


def by_label(refinement: Refinement, *, least: float = LEAST_WORDS, most: int | None = None) -> Table:
    """Return the labels, ranked by the share of their errors that all steps removed."""
    labels = ranked_labels(refinement, least=least, most=most)
    shown = "All labels" if most is None else f"The first {most} labels"
    note = (
        "The share of the F1 error of each label that each step removed; a word is right if its head and label are "
        f"right. {shown} with at least {least:g} gold words, largest total reduction first."
    )
    return _reduction_table("Labels", note, refinement, {name: refinement.labels[name] for name in labels})


def by_projectivity(refinement: Refinement) -> Table:
    """Return the error reductions over the words of non-projective and of projective gold trees."""
    note = (
        "The share of the LAS errors that each step removed: for words in gold trees with a non-projective arc, and "
        "for words in projective gold trees."
    )
    return _reduction_table("Projectivity", note, refinement, refinement.projectivity)


def _reduction_table(title: str, note: str, refinement: Refinement, kinds: Mapping[str, StepCounts]) -> Table:
    rows = [
        (name, f"{counts.gold:,.0f}", *map(reduction_text, counts.reductions), reduction_text(counts.total))
        for name, counts in kinds.items()
    ]
    return Table(("", "gold words", *_step_names(refinement)[1:], "all steps"), tuple(rows), title, note)


def costs_table(costs: Costs) -> Table:
    """Return the time of each step and the number of sentences it refined."""
    before = _NO_NUMBER if costs.initial_seconds is None else f"{costs.initial_seconds:.2f}"
    steps = zip(costs.seconds, costs.sentences, strict=True)
    rates = [f"{1000 * seconds / n:.2f}" if n else _NO_NUMBER for seconds, n in steps]
    total = sum(costs.seconds) + (costs.initial_seconds or 0)
    initial = f" and {_millions(costs.initial_parameters)} in its initial parser" if costs.initial_parameters else ""
    note = (
        f"Run time of each step on {costs.device}, including the tree after every step. The model has "
        f"{_millions(costs.parameters)} parameters{initial}; all steps run the same model and skip converged sentences."
    )
    rows = (
        ("sentences refined", _NO_NUMBER, *[f"{each:,}" for each in costs.sentences], f"{sum(costs.sentences):,}"),
        ("seconds", before, *[f"{each:.2f}" for each in costs.seconds], f"{total:.2f}"),
        ("milliseconds per sentence", _NO_NUMBER, *rates, _NO_NUMBER),
    )
    header = ("", "initial parses", *[f"t = {t}" for t in range(1, len(costs.seconds) + 1)], "all steps")
    return Table(header, rows, "Run time and parameters", note)


def _step_names(refinement: Refinement) -> list[str]:
    return [f"t = {t}" for t in refinement.steps]


def reduction_text(reduction: float | None) -> str:
    """Return a reduction with its sign, or a dash if there were no errors to reduce.

    >>> reduction_text(0.1234), reduction_text(-0.00001), reduction_text(None)
    ('+12.34%', '+0.00%', '–')
    """
    return _NO_NUMBER if reduction is None else f"{round(100 * reduction, 2) + 0.0:+.2f}%"


def share_text(part: float, whole: float) -> str:
    """Return a share as a percentage, or a dash if there is nothing to divide by."""
    return f"{100 * part / whole:.1f}%" if whole else _NO_NUMBER


def _millions(number: int) -> str:
    return f"{number / 1e6:.1f} million"


def refinement_json(found: Sequence[tuple[Refinement, Costs]], title: str) -> str:
    """Return all counts; shares are from 0 to 1, or null if there were no errors to reduce."""
    return _report_json(title, [_refinement_values(refinement, costs) for refinement, costs in found])


def _refinement_values(refinement: Refinement, costs: Costs) -> dict[str, Any]:
    def all_of(kinds: Mapping[str, StepCounts]) -> dict[str, Any]:
        return {
            name: asdict(counts)
            | {"f1": counts.f1, "error_reduction": counts.reductions, "total_error_reduction": counts.total}
            for name, counts in kinds.items()
        }

    return {
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
        "costs": asdict(costs),
    }


def refinement_csv(found: Sequence[tuple[Refinement, Costs]]) -> str:
    """Return one row per kind of word and t, and one row per t with the converged sentences."""
    rows = tuple(row for refinement, _ in found for row in _refinement_rows(refinement))
    return Table(_REFINEMENT_COLUMNS, rows).to_csv()


def _refinement_rows(refinement: Refinement) -> Iterator[tuple[TableCell, ...]]:
    tables = {"attachment": refinement.attachment, "label": refinement.labels, "projectivity": refinement.projectivity}
    for table, kinds in tables.items():
        for kind, counts in kinds.items():
            columns = (refinement.steps, counts.system, counts.correct, counts.f1, (None, *counts.reductions))
            for t, *rest in zip(*columns, strict=True):
                yield refinement.name, table, kind, t, counts.gold, *rest
    for t, number in zip(refinement.steps[1:], refinement.converged, strict=True):
        n_all = refinement.n_sentences
        yield refinement.name, "converged", "sentences", t, n_all, n_all, number, number / n_all, None
