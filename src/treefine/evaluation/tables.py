"""Scores and comparisons as text, Markdown and JSON values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from treefine.errors import TreefineError
from treefine.evaluation.scores import Score, relative_error_reduction

if TYPE_CHECKING:
    from treefine.evaluation.significance import Comparison, Difference  # which loads numpy


def score_table(scores: Mapping[str, Score], *, title: str = "Metric") -> str:
    """Scores in the layout of the official CoNLL 2018 scorer."""
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


def confusion_table(confusions: Counter[tuple[str, str]], *, kind: str, most: int) -> str:
    """The most frequent confusions of labels or heads."""
    rows = [[gold, system, str(count)] for (gold, system), count in confusions.most_common(most)]
    return aligned_table([f"gold {kind}", f"system {kind}", "times"], rows)


def comparison_table(comparison: Comparison, *, markdown: bool = False, is_terminal: bool = False) -> str:
    """One row a system, compared with the first; the best and what is not significantly different from it in bold.

    In plain text, where nothing is bold, those are marked with a star.
    """
    first = next(iter(comparison.scores))
    header = ["system", comparison.metric, "difference", "RER", "p (rand.)", "p (boot.)"]
    rows = []
    for name, score in comparison.scores.items():
        number = f"{100 * score:.2f}"
        if name in comparison.best_group:
            number = f"**{number}**" if markdown else f"\x1b[1m{number}\x1b[0m*" if is_terminal else f"{number}*"
        cells = [name, number]
        if name != first:
            difference = comparison.between(first, name)
            reduction = relative_error_reduction(comparison.scores[first], score)
            cells += [f"{100 * (score - comparison.scores[first]):+.2f}"]
            cells += ["" if reduction is None else f"{100 * reduction:+.2f} %"]
            cells += [f"{difference.randomisation:.4f}", f"{difference.bootstrap:.4f}"]
        rows.append(cells + [""] * (len(header) - len(cells)))
    if markdown:
        lines = [header, ["---"] * len(header), *rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)
    note = (
        f"*: best, or not significantly different from it (alpha = {comparison.alpha:g}, approximate randomisation).\n"
        f"Compared with {first}: difference in {comparison.metric}, relative error reduction, and the probability of\n"
        f"as much by chance over {comparison.samples:,} samples of sentences, seed {comparison.seed}."
    )
    return f"{aligned_table(header, rows)}\n\n{note}"


def aligned_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell: the first to the left, numbers to the right."""
    widths = [max(_visible_width(row[column]) for row in (header, *rows)) for column in range(len(header))]
    lines = []
    for row in (header, ["-" * width for width in widths], *rows):
        cells = [
            cell + " " * (width - _visible_width(cell)) if column == 0 else " " * (width - _visible_width(cell)) + cell
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _visible_width(cell: str) -> int:
    return len(cell.replace("\x1b[1m", "").replace("\x1b[0m", ""))


def score_json(score: Score) -> dict[str, Any]:
    """A score with its counts and shares."""
    return {
        "precision": score.precision,
        "recall": score.recall,
        "f1": score.f1,
        "aligned_accuracy": score.aligned_accuracy,
        "gold": score.gold,
        "system": score.system,
        "correct": score.correct,
        "aligned": score.aligned,
    }


def evaluation_json(
    scores: Mapping[str, Score],
    labels: Mapping[str, Score] | None,
    confusions: Mapping[str, Counter[tuple[str, str]]],
    *,
    most: int,
) -> dict[str, Any]:
    """Scores, and scores of labels and confusions if there are any."""
    result: dict[str, Any] = {"scores": {name: score_json(score) for name, score in scores.items()}}
    if labels is not None:
        result["labels"] = {name: score_json(score) for name, score in labels.items()}
    for kind, counted in confusions.items():
        rows = [{"gold": ours, "system": theirs, "times": n} for (ours, theirs), n in counted.most_common(most)]
        result[f"confused_{kind}s"] = rows
    return result


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """A comparison with the difference of each two systems."""

    def difference_json(difference: Difference) -> dict[str, Any]:
        before, after = comparison.scores[difference.first], comparison.scores[difference.second]
        return {
            "systems": [difference.first, difference.second],
            "difference": difference.difference,
            "relative_error_reduction": relative_error_reduction(before, after),
            "p_randomisation": difference.randomisation,
            "p_bootstrap": difference.bootstrap,
            "interval": list(difference.interval),
        }

    return {
        "metric": comparison.metric,
        "alpha": comparison.alpha,
        "samples": comparison.samples,
        "seed": comparison.seed,
        "scores": comparison.scores,
        "best": comparison.best,
        "not_significantly_different_from_best": sorted(comparison.best_group),
        "differences": [difference_json(each) for each in comparison.differences.values()],
    }


def error_json(error: TreefineError) -> dict[str, Any]:
    """An error with its place."""
    return {
        "path": error.path,
        "line": error.line,
        "sent_id": error.sent_id,
        "sentence": error.sentence,
        "word": error.word,
        "message": error.message,
        "hint": error.hint,
    }


def losses_line(lost: Mapping[str, int], title: str) -> str:
    """What a format has no place for, and how much of it there was."""
    return f"{title} has no place for: {', '.join(count(number, kind) for kind, number in lost.items())}"


def count(number: int, thing: str) -> str:
    """The number and the thing, in the plural unless it is one.

    >>> count(2000, "sentence"), count(1, "word"), count(3, "DEPS")
    ('2,000 sentences', '1 word', '3 DEPS')
    """
    return f"{number:,} {thing}{'s' if number != 1 and thing.islower() else ''}"
