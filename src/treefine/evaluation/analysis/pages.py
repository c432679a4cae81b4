"""Render analyses as one self-contained HTML page: tables, charts and drawn trees, from `templates/`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from treefine.drawing.characters import shorten, visible
from treefine.drawing.html import page_end, page_start, tree_figure
from treefine.drawing.picture import Picture
from treefine.evaluation.analysis.charts import (
    MOST_BANDS,
    PERCENT,
    Line,
    Mark,
    draw_lines,
    draw_rows,
    draw_steps,
)
from treefine.evaluation.analysis.errors import EXAMPLES, Analysis, SentenceDifference
from treefine.evaluation.analysis.export import (
    LEAST_WORDS,
    by_label,
    by_projectivity,
    by_step,
    costs_table,
    summary_of,
)
from treefine.evaluation.analysis.refinement import Costs, Example, Refinement, ranked_labels
from treefine.evaluation.scores import rule_of
from treefine.evaluation.significance import Comparison
from treefine.evaluation.tables import Table, TableCell, comparison_table
from treefine.treebank.graph import Arcs, Graph
from treefine.treebank.sentence import BLANK

DEFINITIONS = {  # of each property
    "dependency length": "the distance in words between a word and its head; neighbours have 1, root words have ROOT",
    "distance to root": "the number of arcs from a word up to ROOT; root words have 1, words that never reach ROOT "
    "have cycle",
    "sentence length": "the number of words in the sentence",
    "label": "the label of the word, as the scorer compares it",
    "tag": "the UPOS tag of the word, or XPOS if UPOS is blank",
    "arc direction": "whether the head is to the left or right of the word, or is ROOT",
    "arc projectivity": "an arc is projective if all words between its two ends descend from the head",
    "tree projectivity": "a word counts as projective if all arcs of its sentence are projective; recall uses the gold "
    "tree, precision the system's tree",
}
APART = ("ROOT",)  # ROOT has no length, so the curve does not connect to it
MOST_ROWS = 20  # rows of a chart by label or tag; the table has all of them
MOST_CONFUSIONS = 15
_CURVE_UNITS = {"dependency length": "words", "distance to root": "arcs", "sentence length": "words"}
_SUMMARY_CELLS = 100  # of a sentence's text, in columns of letters


@cache
def _templates() -> Environment:
    """Return the templates. They escape all text and show control characters as escapes."""
    return Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else visible("" if value is None else str(value)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _page(template: str, title: str, **values: Any) -> Iterator[str]:
    """Yield a page in small parts, so that it is never in memory as a whole."""
    yield page_start(title, style=_templates().get_template("report.css").render())
    yield from _templates().get_template(template).generate(**values)
    yield page_end()


def report_page(analyses: Sequence[Analysis], title: str) -> Iterator[str]:
    """Yield the page of an error analysis: a table of contents, then each analysis in the given order.

    A sentence that several analyses list is drawn once, in the analysis of its own treebank; the others link to it.
    """
    ids = {_key(each): f"t{n}-s{i}" for n, one in enumerate(analyses, 1) for i, each in enumerate(one.differences, 1)}
    views = (_error_view(each, ids, f"t{number}-") for number, each in enumerate(analyses, start=1))
    return _page("errors.html", title, names=[each.name for each in analyses], analyses=views)


def _error_view(analysis: Analysis, ids: Mapping[tuple[str, int, str], str], own_ids: str) -> dict[str, Any]:
    """Return the values of one analysis for the template."""
    pairs = [_pairs_table(analysis.comparison)] if analysis.comparison else []
    return {
        "name": analysis.name,
        "summary": _summary(analysis),
        "scores": _scores_table(analysis),
        "more_scores": [*pairs, _metrics_table(analysis)],
        "curves": [_chart(analysis, by) for by in analysis.curves if by in _CURVE_UNITS],
        "kinds": [_chart(analysis, by) for by in analysis.curves if by not in _CURVE_UNITS],
        "confusions": list(_confusion_tables(analysis)),
        "sentences": [
            (heading, [_entry(each, analysis, ids[_key(each)], own_ids) for each in group])
            for heading, group in groupby(analysis.differences, key=_heading)
        ],
    }


def _summary(analysis: Analysis) -> str:
    said = f"Sentences: {analysis.n_sentences:,}. Words: {analysis.n_words:,}. Scored by the rule {analysis.rule}."
    if analysis.metric == "UAS":
        said += " A file has no labels, so only heads are counted."
    cycles = [f"{name} {number:,}" for name, number in analysis.cycles.items() if number]
    return said + (f" Sentences with a cycle: {', '.join(cycles)}." if cycles else "")


def _scores_table(analysis: Analysis) -> Table:
    """Return the scores of each system, starting with the compared metric and the differences from the first system."""
    metric, note, bold = analysis.metric, "All scores are F1 in %.", frozenset[tuple[int, int]]()
    header: tuple[str, ...] = ("system", metric)
    rows: list[tuple[TableCell, ...]]
    rows = [(name, _percent(scores[metric].f1)) for name, scores in analysis.scores.items()]
    if comparison := analysis.comparison:
        compared = comparison_table(comparison, digits=1)
        header += ("difference", "error reduction", "p")
        rows, bold = [row[: len(header)] for row in compared.rows], compared.bold
        note += (
            f" Bold: the best {metric} and all that do not differ significantly from it (approximate randomisation over"
            f" sentences, {comparison.samples:,} samples, α = {comparison.alpha:g}). Each system is compared with the"
            f" first: difference in {metric}, share of the first system's errors removed, and the probability p of a"
            " difference this large by chance."
        )
    others = [each for each in analysis.main_metrics if each != metric]
    more = [[_percent(scores[each].f1) for each in others] for scores in analysis.scores.values()]
    rows = [(*row, *cells) for row, cells in zip(rows, more, strict=True)]
    return Table((*header, *others), tuple(rows), "Scores", note, bold=bold)


def _percent(share: float) -> str:
    return f"{100 * share:.2f}"


def _pairs_table(comparison: Comparison) -> Table:
    rows = [
        (
            each.first,
            each.second,
            f"{100 * each.difference:+.2f}",
            f"{100 * each.interval[0]:+.2f} to {100 * each.interval[1]:+.2f}",
            f"{each.randomisation:.4f}",
            f"{each.bootstrap:.4f}",
        )
        for each in comparison.differences.values()
    ]
    band = f"{100 * (1 - comparison.alpha):g}% interval (bootstrap)"
    header = ("first", "second", "second − first", band, "p (randomisation)", "p (bootstrap)")
    note = (
        f"Each row compares two systems: the difference in {comparison.metric} with its confidence interval, and the"
        " probability p of a difference this large by chance, from two tests."
    )
    return Table(header, tuple(rows), "Differences between all pairs of systems", note, n_names=2)


def _metrics_table(analysis: Analysis) -> Table:
    columns = ("precision", "recall", "F1")
    metrics = analysis.scores[analysis.systems[0]]
    rows = []
    for metric in metrics:
        scores = [analysis.scores[name][metric] for name in analysis.systems]
        rows.append((metric, *[_percent(share) for one in scores for share in (one.precision, one.recall, one.f1)]))
    header = ("metric", *columns * len(analysis.systems))
    groups = (("", 1), *[(name, len(columns)) for name in analysis.systems])
    note = "Precision, recall and F1 of each system in %."
    return Table(header, tuple(rows), f"All {len(metrics)} metrics", note, groups=groups)


def _chart(analysis: Analysis, by: str) -> tuple[Markup, Table]:
    """Draw F1 in % by one property, as lines over numbers or rows of names; return the chart and its table."""
    lines = []
    for system, points in analysis.curves[by].items():
        found = [point for point in points if point.gold]  # without gold words there is no recall
        marks = [Mark(each.value, 100 * each.f1, 100 * each.low, 100 * each.high, each.gold) for each in found]
        lines.append(Line(system, tuple(marks)))
    title, f1, more = f"{analysis.metric} by {by}", f"{analysis.metric}, F1 in %", ""
    if unit := _CURVE_UNITS.get(by):
        svg = draw_lines(lines, title=title, x_title=f"{by} ({unit})", y_title=f1, limits=PERCENT, apart=APART)
        if len(lines) > MOST_BANDS:
            more = f" With more than {MOST_BANDS} systems the bands would overlap; they are in the table."
    else:
        names = [*dict.fromkeys(mark.x_text for line in lines for mark in line.marks)]
        svg = draw_rows(names[:MOST_ROWS], lines, title=title, x_title=f1, limits=PERCENT)
        if len(names) > MOST_ROWS:
            more = f" The chart shows the {MOST_ROWS} most frequent of {len(names)}."
    return Markup(svg), _points_table(analysis, by, more)


def _points_table(analysis: Analysis, by: str, more: str) -> Table:
    """Return all points of one property: one row per value, with a group of columns per system."""
    columns = ("words", "precision", "recall", "F1", "95% band")
    rows = []
    for value, points in analysis.points_by_value(by).items():
        cells: list[TableCell] = []
        for point in points:
            if point:
                shares = [f"{100 * share:.1f}" for share in (point.precision, point.recall, point.f1)]
                cells += [point.system, *shares, f"{100 * point.low:.1f} to {100 * point.high:.1f}"]
            else:
                cells += [None] * len(columns)
        rows.append((value, next(point.gold for point in points if point), *cells))
    return Table(
        (by, "gold words", *columns * len(analysis.systems)),
        tuple(rows),
        f"By {by}",
        f"{analysis.metric} by {by}: {DEFINITIONS[by]}.{more}",
        groups=(("", 2), *[(name, len(columns)) for name in analysis.systems]),
    )


def _confusion_tables(analysis: Analysis) -> Iterator[tuple[str, Table]]:
    labels = "The number of words with this gold label to which each system gave this other label."
    heads = (
        "The number of words attached to a wrong head, by the tag of the gold head and the tag of the system's head."
    )
    kinds = (("label", analysis.label_confusions, labels), ("head", analysis.head_confusions, heads))
    for kind, confusions, note in kinds:
        total: Counter[tuple[str, str]] = sum(confusions.values(), Counter())
        most = [pair for pair, _ in total.most_common(MOST_CONFUSIONS)]
        rows: tuple[tuple[TableCell, ...], ...]
        rows = tuple((*pair, *[counted[pair] for counted in confusions.values()]) for pair in most)
        if len(total) > MOST_CONFUSIONS:
            note += f" The table shows the {MOST_CONFUSIONS} most frequent of {len(total):,} confusions."
        header = (f"gold {kind}", f"system {kind}", *confusions)
        if confusions:
            yield f"{kind.capitalize()}s", Table(header, rows, f"Confused {kind}s", note, n_names=2)


def _key(each: SentenceDifference) -> tuple[str, int, str]:
    return each.treebank, each.number, each.other


def _heading(each: SentenceDifference) -> str:
    if each.first is None:
        return f"{each.other}: sentences with the most errors"
    better, worse = (each.other, each.first) if each.difference > 0 else (each.first, each.other)
    return f"{better} is better than {worse}"


def _entry(each: SentenceDifference, analysis: Analysis, id: str, own_ids: str) -> dict[str, Any]:
    """Return a sentence with its figure, or without a figure if it is drawn elsewhere on the page."""
    text = each.gold.text or " ".join(each.gold.forms)
    right = ", ".join(f"{name} {correct}" for name, correct in each.correct.items())
    place = each.sent_id or f"{each.treebank}, sentence {each.number}"
    shown = f"{each.difference:+}: {right} of {each.n_words} words right ({place}). {shorten(text, _SUMMARY_CELLS)}"
    figure = _difference_figure(each, analysis) if id.startswith(own_ids) else None
    return {"id": id, "description": shown, "figure": figure}


def _difference_figure(each: SentenceDifference, analysis: Analysis) -> Markup:
    """Draw the gold tree, then the systems' trees with their errors marked."""
    gold = each.gold
    tags = gold.upos if set(gold.upos) != {BLANK} else gold.xpos
    pictures = [Picture(gold.forms, tags, gold.graph, tokens=tuple(gold.tokens()), title="gold")]
    for name, sentences in each.trees.items():
        for sentence in sentences:
            title, right = f"{name}: {each.correct[name]} of {each.n_words} words right", None
            if sentence.forms == gold.forms:
                right = _gold_as_counted(gold.graph, sentence.graph, analysis)
            else:
                title += "; its words differ from gold"
            tokens = tuple(sentence.tokens())
            pictures.append(
                Picture(sentence.forms, (), sentence.graph, right, tokens=tokens, title=title, before_name="gold")
            )
    return Markup(tree_figure(pictures, "Gold and systems"))


def _gold_as_counted(gold: Graph, system: Graph, analysis: Analysis) -> Graph:
    """Return the gold graph with the system's label wherever the scorer counts it as right."""
    is_ud = rule_of(analysis.rule).is_ud

    def counted(label: str) -> str:
        return "" if analysis.metric == "UAS" else label.partition(":")[0] if is_ud else label

    pairs = zip(gold.labels, system.labels, strict=True)
    return Graph(gold.heads, tuple([b if counted(a) == counted(b) else a for a, b in pairs]))


def refinement_page(
    found: Sequence[tuple[Refinement, Costs]], title: str, *, examples: int = EXAMPLES
) -> Iterator[str]:
    """Yield the page of a refinement analysis: all treebanks together if there are several, then each.

    `examples` is the number of corrected sentences to draw, and of spoiled ones.
    """
    views = (_refinement_view(refinement, costs, examples) for refinement, costs in found)
    return _page("refinement.html", title, names=[refinement.name for refinement, _ in found], refinements=views)


def _refinement_view(refinement: Refinement, costs: Costs, examples: int) -> dict[str, Any]:
    """Return the values of one refinement for the template."""
    return {
        "name": refinement.name,
        "summary": summary_of(refinement),
        "tables": [
            (by_step(refinement), Markup(steps_chart(refinement))),
            (by_label(refinement), Markup(labels_chart(refinement))),
            (by_projectivity(refinement), ""),
            (costs_table(costs), ""),
        ],
        "examples": [_examples(refinement, examples, is_corrected=is_corrected) for is_corrected in (True, False)],
    }


def steps_chart(refinement: Refinement) -> str:
    """Draw UAS and LAS after each step."""
    lines = [
        Line(metric, tuple(Mark(t, 100 * score) for t, score in zip(refinement.steps, counts.f1, strict=True)))
        for metric, counts in sorted(refinement.attachment.items(), reverse=True)
    ]
    title = "UAS and LAS after each step"
    return draw_steps(lines, title=title, y_title="F1 in %", y_format="{:.2f}", limits=PERCENT)


def labels_chart(refinement: Refinement) -> str:
    """Draw F1 of the most frequent labels in the first and last trees; return "" if no label has errors."""
    labels = ranked_labels(refinement, least=LEAST_WORDS)
    frequent = sorted(labels, key=lambda label: -refinement.labels[label].gold)[:MOST_ROWS]
    counted = {label: refinement.labels[label] for label in frequent}
    lines = [
        Line(
            f"t = {refinement.steps[tree]}",
            tuple(Mark(label, 100 * each.f1[tree], count=round(each.gold)) for label, each in counted.items()),
        )
        for tree in (0, -1)
    ]
    title = "Most frequent labels, before and after"
    return draw_rows(frequent, lines, title=title, x_title="F1 in %", limits=PERCENT) if frequent else ""


def _examples(refinement: Refinement, most: int, *, is_corrected: bool) -> dict[str, Any]:
    """Return some sentences, the shortest first, each with its first and last tree."""
    if is_corrected:
        title, examples = "Corrected sentences", refinement.corrected
        state = "wrong in the first tree and completely right in the last"
    else:
        title, examples = "Spoiled sentences", refinement.spoiled
        state = "completely right in the first tree and wrong in the last"
    note = f"{len(examples):,} of {refinement.n_sentences:,.0f} sentences are {state}."
    if examples[:most]:
        note += " The shortest are drawn: both trees, with the changes between them marked."
    figures = []
    for example in examples[:most]:
        name = example.gold.sent_id or f"sentence {example.gold.number}"
        pictures = example_pictures(example, refinement.steps, is_corrected=is_corrected)
        figures.append(Markup(tree_figure(pictures, name, caption=name)))
    return {"title": title, "note": note, "figures": figures}


def example_pictures(example: Example, steps: range, *, is_corrected: bool) -> list[Picture]:
    """Return pictures of the first and last tree of a sentence, with the changes; one of the two is the gold tree."""
    sentence = example.gold
    wrong = f"{example.n_wrong} of {len(sentence)} words wrong"
    states = [wrong, "all words right"] if is_corrected else ["all words right", wrong]
    places = ["initial parse" if steps[0] == 0 else f"step {steps[0]}", f"step {steps[-1]}"]
    titles = [f"{place}: {state}" for place, state in zip(places, states, strict=True)]
    first, last = _graph(example.first), _graph(example.last)
    tags = () if set(sentence.upos) == {BLANK} else sentence.upos
    tokens = tuple(sentence.tokens())
    return [
        Picture(sentence.forms, tags, first, tokens=tokens, title=titles[0]),
        Picture(sentence.forms, tags, last, before=first, tokens=tokens, title=titles[1]),
    ]


def _graph(arcs: Arcs) -> Graph:
    """Return the arcs as a graph; a word without a head is attached to ROOT so that it can be drawn."""
    return Graph.of_words([head or 0 for head in arcs.heads], arcs.labels)


@dataclass(frozen=True, slots=True)
class TableSection:
    """A section of a page of tables: notes, then tables, then charts, each by a short key."""

    title: str
    notes: tuple[str, ...] = ()
    tables: Mapping[str, Table] = field(default_factory=dict)
    charts: Mapping[str, str] = field(default_factory=dict)  # SVG


def tables_page(sections: Sequence[TableSection], title: str) -> Iterator[str]:
    """Yield a page of tables and charts, after a table of contents."""
    return _page("tables.html", title, sections=sections)
