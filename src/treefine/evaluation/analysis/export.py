"""An error analysis as text, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from treefine.evaluation.analysis.errors import METRICS, METRICS_WITHOUT_LABELS
from treefine.evaluation.tables import aligned_table, comparison_json, comparison_table, count, score_json

if TYPE_CHECKING:
    from treefine.evaluation.analysis.errors import Analysis, Point, SentenceDifference
    from treefine.treebank.sentence import Sentence

_SHOWN_CURVES = ("dependency length", "distance to root", "sentence length")
CSV_HEADER = (
    "treebank",
    "table",
    "system",
    "value",
    "other",
    "gold",
    "predicted",
    "gold_correct",
    "predicted_correct",
    "precision",
    "recall",
    "f1",
    "low",
    "high",
    "times",
    "difference",
    "p_randomisation",
    "p_bootstrap",
)


def analysis_text(analyses: Sequence[Analysis]) -> str:
    """A short summary: scores of all treebanks, and the curves and significance of the first."""
    parts = []
    for analysis in analyses:
        sizes = f"{count(analysis.n_sentences, 'sentence')}, {count(analysis.n_words, 'word')}"
        parts.append(f"{analysis.name}: {sizes}, rule {analysis.rule}")
        shown = METRICS if analysis.metric == "LAS" else METRICS_WITHOUT_LABELS
        metrics = [metric for metric in shown if metric in analysis.scores[analysis.systems[0]]]
        rows = [
            [system, *[f"{100 * scores[metric].f1:.2f}" for metric in metrics]]
            for system, scores in analysis.scores.items()
        ]
        parts.append(aligned_table(["system", *metrics], rows))
        if analysis is analyses[0]:
            parts += [comparison_table(analysis.comparison)] if analysis.comparison else []
            parts += [_curve_table(analysis, by) for by in _SHOWN_CURVES]
    return "\n\n".join(parts)


def _curve_table(analysis: Analysis, by: str) -> str:
    curves = {system: {point.value: point for point in points} for system, points in analysis.curves[by].items()}
    values = dict.fromkeys(value for points in analysis.curves[by].values() for value in (p.value for p in points))
    rows = []
    for value in values:
        points = [curve.get(value) for curve in curves.values()]
        gold = next(point.gold for point in points if point is not None)
        rows.append([str(value), str(gold), *["" if point is None else f"{100 * point.f1:.2f}" for point in points]])
    return aligned_table([f"{analysis.metric} by {by}", "gold words", *curves], rows)


def analysis_json(analyses: Sequence[Analysis], title: str) -> str:
    """All numbers, and the trees of the sentences with the largest differences."""
    values = {"title": title, "treebanks": [_analysis_values(analysis) for analysis in analyses]}
    return json.dumps(values, ensure_ascii=False, indent=1) + "\n"


def _analysis_values(analysis: Analysis) -> dict[str, Any]:
    return {
        "name": analysis.name,
        "rule": analysis.rule,
        "metric": analysis.metric,
        "sentences": analysis.n_sentences,
        "words": analysis.n_words,
        "systems": list(analysis.systems),
        "scores": {
            system: {metric: score_json(score) for metric, score in scores.items()}
            for system, scores in analysis.scores.items()
        },
        "curves": {
            by: {system: [_point_values(point) for point in points] for system, points in curves.items()}
            for by, curves in analysis.curves.items()
        },
        "confused_labels": {system: _confused(each) for system, each in analysis.label_confusions.items()},
        "confused_heads": {system: _confused(each) for system, each in analysis.head_confusions.items()},
        "sentences_with_cycles": analysis.cycles,
        "comparison": None if analysis.comparison is None else comparison_json(analysis.comparison),
        "differences": [_difference_values(each) for each in analysis.differences],
    }


def _point_values(point: Point) -> dict[str, Any]:
    shares = {"precision": point.precision, "recall": point.recall, "f1": point.f1}
    return {**asdict(point), **shares}


def _confused(confusions: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"gold": gold, "system": system, "times": times} for (gold, system), times in confusions.most_common()]


def _difference_values(each: SentenceDifference) -> dict[str, Any]:
    return {
        "treebank": each.treebank,
        "sent_id": each.sent_id,
        "number": each.number,
        "first": each.first,
        "other": each.other,
        "difference": each.difference,
        "words": each.n_words,
        "correct": each.correct,
        "gold": _tree_values(each.gold),
        "trees": {system: [_tree_values(tree) for tree in trees] for system, trees in each.trees.items()},
    }


def _tree_values(sentence: Sentence) -> dict[str, Any]:
    return {"words": sentence.forms, "tags": sentence.upos, "heads": sentence.heads, "labels": sentence.labels}


def analysis_csv(analyses: Sequence[Analysis]) -> str:
    """One row a number: scores, points, confusions, significance and sentences; `table` tells which."""
    text = io.StringIO()
    rows = csv.DictWriter(text, CSV_HEADER, lineterminator="\n")
    rows.writeheader()
    for analysis in analyses:
        for row in _csv_rows(analysis):
            rows.writerow({"treebank": analysis.name, **row})
    return text.getvalue()


def _csv_rows(analysis: Analysis) -> Iterator[dict[str, Any]]:
    for system, scores in analysis.scores.items():
        for metric, score in scores.items():
            counts = {"gold": score.gold, "predicted": score.system}
            correct = {"gold_correct": score.correct, "predicted_correct": score.correct}
            shares = {"precision": score.precision, "recall": score.recall, "f1": score.f1}
            yield {"table": "score", "system": system, "value": metric, **counts, **correct, **shares}
    for by, curves in analysis.curves.items():
        for system, points in curves.items():
            for point in points:
                values = _point_values(point)
                renamed = {"predicted": values.pop("system"), "predicted_correct": values.pop("system_correct")}
                yield {"table": by, "system": system, **values, **renamed}
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
