"""The numbers of an error analysis as sections of a page: scores, curves, kinds of words, confusions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from html import escape

from treefine.drawing.axis import PERCENT, merged
from treefine.drawing.characters import visible
from treefine.drawing.chart import MOST_BANDS, Line, Mark, draw_lines, draw_rows
from treefine.drawing.report_parts import chart_figure, folded, number_table
from treefine.evaluation.analysis import METRICS, METRICS_WITHOUT_LABELS, Analysis, Point
from treefine.evaluation.conll18 import relative_error_reduction
from treefine.evaluation.significance import Comparison

DEFINITIONS = {  # by property: what it is
    "dependency length": "the distance in words between a word and its head, 1 for neighbours; ROOT for a root word",
    "distance to root": "the number of arcs from a word up to ROOT, 1 for a root word; a word of a cycle gets nowhere",
    "sentence length": "the number of words in the sentence",
    "label": "the label of the word's arc, as the scorer compares it",
    "tag": "the word's UPOS tag, or XPOS where that is blank",
    "arc direction": "whether the head stands left or right of the word, or is ROOT",
    "arc projectivity": "an arc is projective if all words between its two ends descend from the head",
    "tree projectivity": "a word counts as projective if all arcs of its sentence are; recall goes by the gold tree, "
    "precision by the system's",
}
CURVES = {"dependency length": "words", "distance to root": "arcs", "sentence length": "words"}  # with their unit
READING = (  # what holds for all charts
    "How to read the charts: F1 joins recall, over the gold words of a kind, and precision, over the words of that "
    "kind in the system's trees. Bands and thin lines hold 95 % of the bootstrap samples of sentences; n counts gold "
    "words. Kinds without gold words are in the tables alone."
)
APART = ("ROOT",)  # it has no length, so no line runs to it
MOST_ROWS = 20  # of a chart by label or tag; the table has all
MOST_CONFUSIONS = 15


def _scores(analysis: Analysis) -> Iterator[str]:
    """F1 of each system: first the metric that is compared, with what is best and how far the others are from it."""
    comparison, metric = analysis.comparison, analysis.metric
    shown = METRICS_WITHOUT_LABELS if metric == "UAS" else METRICS
    others = [each for each in shown if each != metric and each in analysis.scores[analysis.systems[0]]]
    header = ["system", metric, *(["difference", "error reduction", "p"] if comparison else []), *others]
    rows = [
        [
            name,
            _percent(analysis.scores[name][metric].f1),
            *(_against_first(comparison, name) if comparison else []),
            *[_percent(analysis.scores[name][each].f1) for each in others],
        ]
        for name in analysis.systems
    ]
    note = "All scores are F1 in %."
    bold = set()
    if comparison:
        bold = {(row, 1) for row, name in enumerate(analysis.systems) if name in comparison.best_group}
        note += (
            f" Bold: the best {metric}, and what an approximate randomisation test over sentences"
            f" ({comparison.samples:,} samples, α = {comparison.alpha:g}) does not tell from it. Compared with the"
            f" first system: the difference in {metric}, the share of its errors that are avoided, and the probability"
            f" p of as large a difference by chance."
        )
    yield number_table(header, rows, name="Scores", bold=bold) + f'<p class="note">{escape(visible(note))}</p>\n'
    if comparison:
        pairs = [
            [
                each.first,
                each.second,
                f"{100 * each.difference:+.2f}",
                f"{100 * each.interval[0]:+.2f} to {100 * each.interval[1]:+.2f}",
                f"{each.randomisation:.4f}",
                f"{each.bootstrap:.4f}",
            ]
            for each in comparison.differences.values()
        ]
        band = f"bootstrap, {100 * (1 - comparison.alpha):g} %"
        header = ["first", "second", "second − first", band, "p (randomisation)", "p (bootstrap)"]
        yield folded("Each two systems", number_table(header, pairs, name="Each two systems", n_names=2))
    columns = ["precision", "recall", "F1"]
    every = analysis.scores[analysis.systems[0]]
    rows = []
    for each in every:
        scores = [analysis.scores[name][each] for name in analysis.systems]
        rows.append([each, *[_percent(share) for one in scores for share in (one.precision, one.recall, one.f1)]])
    groups = [("", 1), *[(name, len(columns)) for name in analysis.systems]]
    table = number_table(["metric", *columns * len(analysis.systems)], rows, name="All metrics", groups=groups)
    yield folded(f"All {len(every)} metrics", table)


def _against_first(comparison: Comparison, name: str) -> list[str]:
    first = next(iter(comparison.scores))
    if name == first:
        return ["", "", ""]
    before, after = comparison.scores[first], comparison.scores[name]
    reduction = relative_error_reduction(before, after)
    share = "" if reduction is None else f"{100 * reduction:+.1f} %"
    return [f"{100 * (after - before):+.2f}", share, f"{comparison.between(first, name).randomisation:.4f}"]


def _percent(share: float) -> str:
    return f"{100 * share:.2f}"


def _curves(analysis: Analysis) -> Iterator[str]:
    hidden = f" The bands of more than {MOST_BANDS} systems hide one another: the table has them."
    yield '<div class="charts">\n'
    for by, unit in CURVES.items():
        title, y_title = f"{analysis.metric} by {by}", f"{analysis.metric}, F1 in %"
        svg = draw_lines(
            _lines(analysis, by), title=title, x_title=f"{by} ({unit})", y_title=y_title, limits=PERCENT, apart=APART
        )
        caption = _caption(analysis, by) + (hidden if len(analysis.systems) > MOST_BANDS else "")
        yield chart_figure(svg, caption, _table(analysis, by))
    yield "</div>\n"


def _kinds(analysis: Analysis) -> Iterator[str]:
    yield '<div class="charts">\n'
    for by in analysis.curves:
        if by in CURVES:
            continue
        lines = _lines(analysis, by)
        names = [*dict.fromkeys(mark.x_text for line in lines for mark in line.marks)]
        title, x_title = f"{analysis.metric} by {by}", f"{analysis.metric}, F1 in %"
        svg = draw_rows(names[:MOST_ROWS], lines, title=title, x_title=x_title, limits=PERCENT)
        caption = _caption(analysis, by)
        if len(names) > MOST_ROWS:
            caption += f" Drawn are the {MOST_ROWS} most frequent of {len(names)}."
        yield chart_figure(svg, caption, _table(analysis, by))
    yield "</div>\n"


def _lines(analysis: Analysis, by: str) -> list[Line]:
    """The curves to draw, in percent. Without gold words there is nothing to find: the table alone has such points."""
    return [
        Line(
            system,
            tuple(
                Mark(point.value, 100 * point.f1, 100 * point.low, 100 * point.high, point.gold)
                for point in points
                if point.gold
            ),
        )
        for system, points in analysis.curves[by].items()
    ]


def _caption(analysis: Analysis, by: str) -> str:
    return f"{analysis.metric} by {by}: {DEFINITIONS[by]}."


def _table(analysis: Analysis, by: str) -> str:
    """All points of one property: a row for each kind, some columns for each system."""
    columns = ["words", "precision", "recall", "F1", "95 % band"]
    points = {name: {point.value: point for point in each} for name, each in analysis.curves[by].items()}
    rows = []
    for value in merged([point.value for point in each] for each in analysis.curves[by].values()):
        found = [each.get(value) for each in points.values()]
        row = [str(value), str(next(point.gold for point in found if point))]
        for point in found:
            row += _numbers(point) if point else [""] * len(columns)
        rows.append(row)
    groups = [("", 2), *[(name, len(columns)) for name in points]]
    return number_table([by, "gold words", *columns * len(points)], rows, name=f"By {by}", groups=groups)


def _numbers(point: Point) -> list[str]:
    shares = (point.precision, point.recall, point.f1)
    band = f"{100 * point.low:.1f} to {100 * point.high:.1f}"
    return [str(point.system), *[f"{100 * share:.1f}" for share in shares], band]


def _confusions(analysis: Analysis) -> Iterator[str]:
    kinds = {
        "label": (analysis.label_confusions, "How often a word with one label in gold was given another one."),
        "head": (
            analysis.head_confusions,
            "How often a word was hung on a wrong word: the tag of the right head, and that of the head it was given.",
        ),
    }
    yield '<div class="charts tables">\n'
    for kind, (confusions, caption) in kinds.items():
        if not confusions:
            continue
        total: Counter[tuple[str, str]] = sum(confusions.values(), Counter())
        rows = [
            [*pair, *[str(confusions[system][pair]) for system in confusions]]
            for pair, _ in total.most_common(MOST_CONFUSIONS)
        ]
        table = number_table([f"gold {kind}", f"given {kind}", *confusions], rows, name=f"Confused {kind}s", n_names=2)
        shown = f" The {MOST_CONFUSIONS} most frequent of {len(total):,} kinds." if len(total) > MOST_CONFUSIONS else ""
        yield f'<div>\n<h4>{kind.capitalize()}s</h4>\n{table}<p class="note">{caption}{shown}</p>\n</div>\n'
    yield "</div>\n"


SECTIONS: Mapping[str, tuple[str, Callable[[Analysis], Iterator[str]]]] = {
    "scores": ("Scores", _scores),
    "curves": ("Length and depth", _curves),
    "kinds": ("Labels, tags and projectivity", _kinds),
    "confusions": ("Confusions", _confusions),
}
