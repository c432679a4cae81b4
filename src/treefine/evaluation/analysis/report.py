"""Write both analyses as text and JSON, and as one self-contained HTML page with tables, charts and drawn trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from textwrap import fill
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from treefine.drawing.html import PAGE_END, page_start, tree_figure
from treefine.drawing.picture import Picture
from treefine.errors import count, shorten, visible
from treefine.evaluation.analysis.errors import EXAMPLES, Analysis, SentenceDifference
from treefine.evaluation.analysis.plots import MOST_BANDS, curve_chart, image_of, row_chart
from treefine.evaluation.analysis.refinement import (
    STEP_METRICS,
    Costs,
    Refinement,
    Steps,
    ranked_labels,
    reductions,
    total_reduction,
)
from treefine.evaluation.pairing import compared_labels
from treefine.evaluation.properties import LOWEST, Point
from treefine.evaluation.scores import Score, rule_of
from treefine.evaluation.significance import Comparison
from treefine.evaluation.tables import (
    Line,
    Table,
    TableCell,
    comparison_json,
    comparison_table,
    confusion_table,
    scores_json,
)
from treefine.treebank.graph import Graph
from treefine.treebank.sentence import BLANK, Sentence

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
LEAST_WORDS = 20  # labels with fewer gold words have no row in the table of a refinement
MOST_ROWS = 20  # rows of a chart by label or tag; the table has all of them
MOST_CONFUSIONS = 15
_PRINTED_LABELS = 12  # the longest table in the paper
_NOTE_WIDTH = 88  # characters per line of a printed note
_SUMMARY_CELLS = 100  # of a sentence's text, in columns of letters
_NO_NUMBER = "–"


def _render(template: str, title: str, **values: Any) -> Iterator[str]:
    """Yield a page in small parts. Templates escape all text and show control characters as escapes."""
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else visible("" if value is None else str(value)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    yield page_start(title, style=environment.get_template("report.css").render())
    yield from environment.get_template(template).generate(**values)
    yield PAGE_END


def _percent(share: float) -> str:
    return f"{100 * share:.2f}"


# The errors of systems


def analysis_text(analyses: Sequence[Analysis]) -> str:
    """Return a short summary: the scores of all treebanks, and the curves and significance tests of the first."""
    parts = []
    for analysis in analyses:
        sizes = f"{count(analysis.n_sentences, 'sentence')}, {count(analysis.n_words, 'word')}"
        parts.append(f"{analysis.name}: {sizes}, rule {analysis.rule}")
        rows = [
            (system, *[_percent(scores[metric].f1) for metric in analysis.main_metrics])
            for system, scores in analysis.scores.items()
        ]
        parts.append(Table(("system", *analysis.main_metrics), tuple(rows)).to_text())
        if analysis is analyses[0]:
            if analysis.comparison:
                table = comparison_table(analysis.comparison)
                parts += [table.to_text(), table.note]
            for by in LOWEST:
                points = zip(*analysis.curves[by].values(), strict=True)
                cells = [(row[0].value, row[0].gold, *[_percent(point.f1) for point in row]) for row in points]
                header = (f"{analysis.metric} by {by}", "gold words", *analysis.systems)
                parts.append(Table(header, tuple(cells)).to_text())
    return "\n\n".join(parts)


def analysis_values(analysis: Analysis) -> dict[str, Any]:
    """Return all numbers for JSON, and the trees of the sentences with the largest differences."""

    def fields_of(value: object, *names: str) -> dict[str, Any]:
        return {name: getattr(value, name) for name in names}

    def tree(sentence: Sentence) -> dict[str, Any]:
        return {"words": sentence.forms, "tags": sentence.upos, "heads": sentence.heads, "labels": sentence.labels}

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
            by: {
                system: [
                    fields_of(point, "value", "gold", "system")
                    | {"gold_correct": point.correct}
                    | fields_of(point, "system_correct", "low", "high", "precision", "recall", "f1")
                    for point in points
                ]
                for system, points in curves.items()
            }
            for by, curves in analysis.curves.items()
        },
        "confused_labels": confused(analysis.label_confusions),
        "confused_heads": confused(analysis.head_confusions),
        "sentences_with_cycles": analysis.cycles,
        "comparison": None if analysis.comparison is None else comparison_json(analysis.comparison),
        "differences": [
            fields_of(each, "treebank", "sent_id", "number", "first", "other", "difference", "correct")
            | {"words": each.n_words, "gold": tree(each.gold)}
            | {"trees": {system: [*map(tree, trees)] for system, trees in each.trees.items()}}
            for each in analysis.differences
        ],
    }


def report_page(analyses: Sequence[Analysis], title: str) -> Iterator[str]:
    """Yield the page of an error analysis: a table of contents, then each analysis in the order of the list."""
    names = [each.name for each in analyses]
    return _render("errors.html", title, names=names, analyses=map(_error_view, analyses))


def _error_view(analysis: Analysis) -> dict[str, Any]:
    """Return the values of one analysis for the template."""
    summary = f"Sentences: {analysis.n_sentences:,}. Words: {analysis.n_words:,}. Scored by the rule {analysis.rule}."
    if analysis.metric == "UAS":
        summary += " A file has no labels, so only heads are counted."
    cycles = [f"{name} {number:,}" for name, number in analysis.cycles.items() if number]
    summary += f" Sentences with a cycle: {', '.join(cycles)}." if cycles else ""
    return {
        "name": analysis.name,
        "summary": summary,
        "scores": _scores_table(analysis),
        "more_scores": [
            *([_pairs_table(analysis.comparison)] if analysis.comparison else []),
            _metrics_table(analysis),
        ],
        "curves": [_chart(analysis, by) for by in analysis.curves if by in LOWEST],
        "kinds": [_chart(analysis, by) for by in analysis.curves if by not in LOWEST],
        "confusions": list(_confusion_tables(analysis)),
        "sentences": [
            (heading, [_entry(each, analysis) for each in group])
            for heading, group in groupby(analysis.differences, key=_heading)
        ],
    }


def _scores_table(analysis: Analysis) -> Table:
    """Return the scores of each system, starting with the compared metric and the differences from the first system."""
    rows: tuple[Line, ...] = tuple((name, _percent(of[analysis.metric].f1)) for name, of in analysis.scores.items())
    table = Table(("system", analysis.metric), rows, note="All scores are F1 in %.")
    if analysis.comparison:
        table = comparison_table(analysis.comparison)
        table = replace(table, note=table.note.replace("*", "Bold", 1))
    others = [each for each in analysis.main_metrics if each != analysis.metric]
    more = [[_percent(scores[each].f1) for each in others] for scores in analysis.scores.values()]
    rows = tuple((*row, *cells) for row, cells in zip(table.rows, more, strict=True))
    return replace(table, title="Scores", header=(*table.header, *others), rows=rows)


def _pairs_table(comparison: Comparison) -> Table:
    rows = []
    for each in comparison.differences.values():
        difference, low, high = (f"{100 * number:+.2f}" for number in (each.difference, *each.interval))
        tests = (f"{each.randomisation:.4f}", f"{each.bootstrap:.4f}")
        rows.append((each.first, each.second, difference, f"{low} to {high}", *tests))
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
    note = "Precision, recall and F1 of each system in %."
    return _by_system(analysis, ("metric",), columns, rows, f"All {len(metrics)} metrics", note)


def _by_system(
    analysis: Analysis, names: tuple[str, ...], columns: tuple[str, ...], rows: Iterable[Line], title: str, note: str
) -> Table:
    """Return a table with the same columns for each system, under its name."""
    groups = (("", len(names)), *[(name, len(columns)) for name in analysis.systems])
    return Table((*names, *columns * len(analysis.systems)), tuple(rows), title, note, groups=groups)


def _chart(analysis: Analysis, by: str) -> tuple[Markup, Table]:
    """Draw F1 in % by one property, as curves over numbers or rows of names; return the chart and its table."""
    # Without gold words there is no recall.
    curves = {system: [each for each in points if each.gold] for system, points in analysis.curves[by].items()}
    title, more = f"{analysis.metric} by {by}", ""
    if by in LOWEST:
        picture = curve_chart(title, by, curves)
        if len(curves) > MOST_BANDS:
            more = f" With more than {MOST_BANDS} systems the bands would overlap; they are in the table."
    else:
        names = [*dict.fromkeys(str(point.value) for points in curves.values() for point in points)]
        picture = row_chart(title, names[:MOST_ROWS], curves)
        if len(names) > MOST_ROWS:
            more = f" The chart shows the {MOST_ROWS} most frequent of {len(names)}."
    columns = ("words", "precision", "recall", "F1", "95% band")
    rows = []
    for points in zip(*analysis.curves[by].values(), strict=True):
        cells: list[TableCell] = []
        for point in points:
            shares = [f"{100 * share:.1f}" for share in (point.precision, point.recall, point.f1)]
            cells += [point.system, *shares, f"{100 * point.low:.1f} to {100 * point.high:.1f}"]
        rows.append((points[0].value, points[0].gold, *cells))
    note = f"{title}: {DEFINITIONS[by]}.{more}"
    table = _by_system(analysis, (by, "gold words"), columns, rows, f"By {by}", note)
    return Markup(image_of(picture, title)), table


def _confusion_tables(analysis: Analysis) -> Iterator[tuple[str, Table]]:
    labels = "The number of words with this gold label to which each system gave this other label."
    heads = (
        "The number of words attached to a wrong head, by the tag of the gold head and the tag of the system's head."
    )
    kinds = (("label", analysis.label_confusions, labels), ("head", analysis.head_confusions, heads))
    for kind, confusions, note in kinds:
        total: Counter[tuple[str, str]] = sum(confusions.values(), Counter())
        most = [pair for pair, _ in total.most_common(MOST_CONFUSIONS)]
        rows: tuple[Line, ...] = tuple((*pair, *[counted[pair] for counted in confusions.values()]) for pair in most)
        if len(total) > MOST_CONFUSIONS:
            note += f" The table shows the {MOST_CONFUSIONS} most frequent of {len(total):,} confusions."
        header = (f"gold {kind}", f"system {kind}", *confusions)
        if confusions:
            yield f"{kind.capitalize()}s", Table(header, rows, f"Confused {kind}s", note, n_names=2)


def _heading(each: SentenceDifference) -> str:
    if each.first is None:
        return f"{each.other}: sentences with the most errors"
    better, worse = (each.other, each.first) if each.difference > 0 else (each.first, each.other)
    return f"{better} is better than {worse}"


def _entry(each: SentenceDifference, analysis: Analysis) -> tuple[str, Markup]:
    """Return a description of a sentence, and drawings of its trees."""
    text = each.gold.text or " ".join(each.gold.forms)
    right = ", ".join(f"{name} {correct}" for name, correct in each.correct.items())
    place = each.sent_id or f"{each.treebank}, sentence {each.number}"
    shown = f"{each.difference:+}: {right} of {each.n_words} words right ({place}). {shorten(text, _SUMMARY_CELLS)}"
    gold = each.gold
    tags = gold.upos if set(gold.upos) != {BLANK} else gold.xpos
    pictures = [Picture(gold.forms, tags, gold.graph, tokens=tuple(gold.tokens()), title="gold")]
    for name, sentence in [(name, sentence) for name, sentences in each.trees.items() for sentence in sentences]:
        title, counted = f"{name}: {each.correct[name]} of {each.n_words} words right", None
        if sentence.forms == gold.forms:
            counted = _gold_as_counted(gold.graph, sentence.graph, analysis)
        else:
            title += "; its words differ from gold"
        tokens = tuple(sentence.tokens())
        picture = Picture(
            sentence.forms, (), sentence.graph, counted, tokens=tokens, title=title, comparison_name="gold"
        )
        pictures.append(picture)
    return shown, Markup(tree_figure(pictures, "Gold and systems"))


def _gold_as_counted(gold: Graph, system: Graph, analysis: Analysis) -> Graph:
    """Return the gold graph with the system's label wherever the scorer counts it as right."""
    compared = (compared_labels(each.labels, is_ud=rule_of(analysis.rule).is_ud) for each in (gold, system))
    labels = zip(gold.labels, system.labels, *compared, strict=True)
    return Graph(gold.heads, tuple([b if analysis.metric == "UAS" or c == d else a for a, b, c, d in labels]))


# The steps of a refinement


def refinement_text(refinements: Sequence[tuple[Refinement, Costs]]) -> str:
    """Return the tables of each treebank, with only the first labels; notes follow the tables of the first treebank."""
    parts = []
    for number, (refinement, costs) in enumerate(refinements):
        parts.append(f"{visible(refinement.name)}: {_summary(refinement)}")
        for table in step_tables(refinement, costs, most=_PRINTED_LABELS):
            if table.rows:
                parts.append(replace(table, header=(table.title, *table.header[1:])).to_text())
                parts += [] if number else [fill(table.note, _NOTE_WIDTH)]
    return "\n\n".join(parts)


def _summary(refinement: Refinement) -> str:
    """Return the number of sentences, words and steps, and a note if there is no t = 0."""
    n_words, steps = refinement.attachment["LAS"][0].gold, refinement.steps
    summary = f"{refinement.n_sentences:,} sentences, {n_words:,} words, t = {steps[0]} to {steps[-1]}."
    if refinement.first:
        summary += " The model started without a graph, so there is no t = 0, and corrections are counted from t = 2."
    return summary


def step_tables(
    refinement: Refinement, costs: Costs, *, least: float = LEAST_WORDS, most: int | None = None
) -> list[Table]:
    """Return the tables of a refinement: its steps, labels (see `ranked_labels`), projectivity, and run time."""
    labels = ranked_labels(refinement, least=least, most=most)
    shown = "All labels" if most is None else f"The first {most} labels"
    of_labels = (
        "The share of the F1 error of each label that each step removed; a word is right if its head and label are "
        f"right. {shown} with at least {least:g} gold words, largest total reduction first."
    )
    of_trees = (
        "The share of the LAS errors that each step removed: for words in gold trees with a non-projective arc, and "
        "for words in projective gold trees."
    )
    return [
        _attachment_table(refinement),
        _reduction_table("Labels", of_labels, refinement, {name: refinement.labels[name] for name in labels}),
        _reduction_table("Projectivity", of_trees, refinement, refinement.projectivity),
        _costs_table(costs),
    ]


def _attachment_table(refinement: Refinement) -> Table:
    """Return the scores after each step, RELᵗ, and the share of sentences that the step did not change."""
    rows: list[tuple[str, ...]] = []
    for metric in STEP_METRICS:
        rows.append((metric, *[_percent(score.f1) for score in refinement.attachment[metric]], _NO_NUMBER))
    for title, metric in (("REL", "LAS"), ("REL of UAS", "UAS")):
        rows.append((title, _NO_NUMBER, *_reduction_cells(refinement.attachment[metric])))
    n_sentences = refinement.n_sentences
    shares = [f"{100 * each / n_sentences:.1f}%" if n_sentences else _NO_NUMBER for each in refinement.converged]
    rows.append(("converged", _NO_NUMBER, *shares, _NO_NUMBER))
    first = (
        "the initial parses" if refinement.first == 0 else "the trees of the first step, which starts without a graph"
    )
    note = (
        f"UAS and LAS in % after each step; t = {refinement.first}: {first}. REL is the share of the previous LAS "
        f"errors that a step removed (Eq. 8); the last column is the share of the errors at t = {refinement.first} "
        "that all steps removed. A sentence has converged when a step leaves its graph unchanged; later steps skip it. "
        "If t = 1 predicts tags, t = 2 reads them, so a sentence without tags cannot converge before t = 2."
    )
    return Table(("", *_step_names(refinement), "all steps"), tuple(rows), "Refinement by step", note)


def _reduction_table(title: str, note: str, refinement: Refinement, kinds: Mapping[str, Steps]) -> Table:
    rows = [(name, f"{scores[0].gold:,}", *_reduction_cells(scores)) for name, scores in kinds.items()]
    return Table(("", "gold words", *_step_names(refinement)[1:], "all steps"), tuple(rows), title, note)


def _reduction_cells(scores: Steps) -> list[str]:
    return [reduction_text(each) for each in (*reductions(scores), total_reduction(scores))]


def _costs_table(costs: Costs) -> Table:
    """Return the time of each step and the number of sentences it refined."""

    def millions(number: int) -> str:
        return f"{number / 1e6:.1f} million"

    before = _NO_NUMBER if costs.initial_seconds is None else f"{costs.initial_seconds:.2f}"
    steps = zip(costs.seconds, costs.sentences, strict=True)
    rates = [f"{1000 * seconds / n:.2f}" if n else _NO_NUMBER for seconds, n in steps]
    total = sum(costs.seconds) + (costs.initial_seconds or 0)
    initial = f" and {millions(costs.initial_parameters)} in its initial parser" if costs.initial_parameters else ""
    note = (
        f"Run time of each step on {costs.device}, including the tree after every step. The model has "
        f"{millions(costs.parameters)} parameters{initial}; all steps run the same model and skip converged sentences."
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


def refinement_values(refinement: Refinement, costs: Costs) -> dict[str, Any]:
    """Return all counts for JSON; shares are from 0 to 1, or null if there were no errors to reduce."""

    def values(scores: Steps) -> dict[str, Any]:
        counts = {name: [getattr(score, name) for score in scores] for name in ("system", "correct", "f1")}
        errors = {"error_reduction": reductions(scores), "total_error_reduction": total_reduction(scores)}
        return {"gold": scores[0].gold} | counts | errors

    kinds = ("attachment", "labels", "projectivity")
    counted = {name: {kind: values(each) for kind, each in getattr(refinement, name).items()} for name in kinds}
    return {
        "name": refinement.name,
        "t": list(refinement.steps),
        "sentences": refinement.n_sentences,
        **counted,
        "converged": list(refinement.converged),
        "corrected": [example.gold.sent_id or example.gold.number for example in refinement.corrected],
        "spoiled": [example.gold.sent_id or example.gold.number for example in refinement.spoiled],
        "costs": asdict(costs),
    }


def refinement_page(
    refinements: Sequence[tuple[Refinement, Costs]], title: str, *, examples: int = EXAMPLES
) -> Iterator[str]:
    """Yield the page of each refinement, with up to `examples` drawings of corrected, and of spoiled sentences."""
    views = (
        {
            "name": refinement.name,
            "summary": _summary(refinement),
            "tables": [*zip(step_tables(refinement, costs), _step_charts(refinement), strict=True)],
            "examples": [_examples(refinement, examples, is_corrected=is_corrected) for is_corrected in (True, False)],
        }
        for refinement, costs in refinements
    )
    names = [refinement.name for refinement, _ in refinements]
    return _render("refinement.html", title, names=names, refinements=views)


def _step_charts(refinement: Refinement) -> list[Markup]:
    """Draw UAS and LAS after each step, and F1 of the most frequent labels in the first and last trees."""
    attachment = {
        metric: [_point(t, score) for t, score in zip(refinement.steps, scores, strict=True)]
        for metric, scores in refinement.attachment.items()
    }
    labels = ranked_labels(refinement, least=LEAST_WORDS)
    frequent = sorted(labels, key=lambda label: -refinement.labels[label][0].gold)[:MOST_ROWS]
    ends = {
        f"t = {refinement.steps[tree]}": [_point(label, refinement.labels[label][tree]) for label in frequent]
        for tree in (0, -1)
    }
    steps, labels_title = "UAS and LAS after each step", "Most frequent labels, before and after"
    charts = [image_of(curve_chart(steps, "step t", attachment), steps)]
    charts.append(image_of(row_chart(labels_title, frequent, ends), labels_title) if frequent else "")
    return [Markup(each) for each in (*charts, "", "")]


def _point(value: int | str, score: Score) -> Point:
    return Point(score.gold, score.system, score.correct, value=value, low=score.f1, high=score.f1)


def _examples(refinement: Refinement, most: int, *, is_corrected: bool) -> dict[str, Any]:
    """Return some sentences, the shortest first, each with its first and last tree; one of the two is the gold tree."""
    if is_corrected:
        title, examples = "Corrected sentences", refinement.corrected
        state = "wrong in the first tree and completely right in the last"
    else:
        title, examples = "Spoiled sentences", refinement.spoiled
        state = "completely right in the first tree and wrong in the last"
    note = f"{len(examples):,} of {refinement.n_sentences:,} sentences are {state}."
    if examples[:most]:
        note += " The shortest are drawn: both trees, with the changes between them marked."
    steps, figures = refinement.steps, []
    places = ("initial parse" if steps[0] == 0 else f"step {steps[0]}", f"step {steps[-1]}")
    for example in examples[:most]:
        sentence, before, pictures = example.gold, None, []
        states = (f"{example.n_wrong} of {len(sentence)} words wrong", "all words right")
        for place, words, arcs in zip(
            places, states if is_corrected else states[::-1], (example.first, example.last), strict=True
        ):
            # A word without a head is attached to ROOT so that it can be drawn.
            graph = Graph.of_words([head or 0 for head in arcs.heads], arcs.labels)
            tags = () if set(sentence.upos) == {BLANK} else sentence.upos
            tokens, caption = tuple(sentence.tokens()), f"{place}: {words}"
            pictures.append(Picture(sentence.forms, tags, graph, before=before, tokens=tokens, title=caption))
            before = graph
        name = sentence.sent_id or f"sentence {sentence.number}"
        figures.append(Markup(tree_figure(pictures, name, caption=name)))
    return {"title": title, "note": note, "figures": figures}
