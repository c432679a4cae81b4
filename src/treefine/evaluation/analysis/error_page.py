"""An error analysis as one self-contained page: scores, curves, confusions, and the sentences that differ most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import TypeAlias

from treefine.drawing.characters import shorten, visible
from treefine.drawing.html import page_end, page_start, tree_figure
from treefine.drawing.picture import Picture
from treefine.evaluation.analysis.charts import MOST_BANDS, PERCENT, Line, Mark, draw_lines, draw_rows, merged
from treefine.evaluation.analysis.errors import METRICS, METRICS_WITHOUT_LABELS, Analysis, Point, SentenceDifference
from treefine.evaluation.analysis.page_parts import REPORT_STYLE, chart_figure, folded, number_table, safe
from treefine.evaluation.scores import relative_error_reduction, rule_of
from treefine.evaluation.significance import Comparison
from treefine.treebank.graph import Graph
from treefine.treebank.sentence import Sentence

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


Key: TypeAlias = tuple[str, int, str]  # what tells one drawn sentence from another: treebank, number, system

SENTENCES = "Sentences that differ most"
GOLD_NAME = "gold"
SUMMARY_CELLS = 100  # of a sentence's text, in columns of letters


def report_page(analyses: Sequence[Analysis], title: str) -> Iterator[str]:
    """The page, part by part: a table of contents, then each analysis in the order given.

    A sentence that several analyses list is drawn in the last of them, that of its own treebank; the others have links.
    """
    yield page_start(title, style=REPORT_STYLE)
    yield f'{_contents(analyses)}<p class="note">{READING}</p>\n'
    names = {_key(each): f"t{n}-s{i}" for n, one in enumerate(analyses, 1) for i, each in enumerate(one.differences, 1)}
    for number, analysis in enumerate(analyses, start=1):
        yield f'<section id="t{number}">\n<h2 dir="auto">{safe(analysis.name)}</h2>\n{_summary(analysis)}'
        for name, (heading, write) in SECTIONS.items():
            yield f'<section id="t{number}-{name}">\n<h3>{heading}</h3>\n'
            yield from write(analysis)
            yield "</section>\n"
        yield f'<section id="t{number}-sentences">\n<h3>{SENTENCES}</h3>\n'
        yield from _sentences(analysis, names, f"t{number}-")
        yield "</section>\n</section>\n"
    yield page_end()


def _contents(analyses: Sequence[Analysis]) -> str:
    headings = {name: heading for name, (heading, _) in SECTIONS.items()} | {"sentences": SENTENCES}
    lines = []
    for number, analysis in enumerate(analyses, start=1):
        links = [f'<a href="#t{number}-{name}">{heading}</a>' for name, heading in headings.items()]
        lines.append(f'<li><a dir="auto" href="#t{number}">{safe(analysis.name)}</a>: {", ".join(links)}</li>')
    return '<nav aria-label="Contents">\n<ul>\n' + "\n".join(lines) + "\n</ul>\n</nav>\n"


def _summary(analysis: Analysis) -> str:
    said = f"Sentences: {analysis.n_sentences:,}. Words: {analysis.n_words:,}. Scored by the rule {analysis.rule}."
    if analysis.metric == "UAS":
        said += " A file has no labels, so heads alone are counted."
    cycles = [f"{name} {number:,}" for name, number in analysis.cycles.items() if number]
    if cycles:
        said += f" Sentences with a cycle: {', '.join(cycles)}."
    return f"<p>{safe(said)}</p>\n"


def _sentences(analysis: Analysis, names: Mapping[Key, str], ours: str) -> Iterator[str]:
    """The sentences that are drawn here, whose names begin with ours, and links to the others."""
    if not analysis.differences:
        yield '<p class="note">There is no difference to show.</p>\n'
        return
    yield (
        '<p class="note">Gold first, then the systems. Strong arcs and labels are wrong; where the head is wrong, the '
        "dashed arc is the right one. Where there is one word a line, as wide drawings are printed, a star is at what "
        "is wrong, with what gold has.</p>\n"
    )
    for heading, group in groupby(analysis.differences, key=_group):
        yield f'<h4 dir="auto">{safe(heading)}</h4>\n'
        for rank, each in enumerate(group):
            name = names[_key(each)]
            if name.startswith(ours):
                figure = tree_figure([*_pictures(each, analysis)], "Gold and systems")
                yield folded(_describe(each), f"{figure}\n", name=name, is_open=rank == 0)
            else:
                yield f'<p><a dir="auto" href="#{name}">{safe(_describe(each))}</a></p>\n'


def _key(each: SentenceDifference) -> Key:
    return each.treebank, each.number, each.other


def _group(each: SentenceDifference) -> str:
    if each.first is None:
        return f"{each.other}: the most errors"
    better, worse = (each.other, each.first) if each.difference > 0 else (each.first, each.other)
    return f"{better} is better than {worse}"


def _describe(each: SentenceDifference) -> str:
    text = each.gold.text or " ".join(each.gold.forms)
    right = ", ".join(f"{name} {correct}" for name, correct in each.correct.items())
    place = each.sent_id or f"{each.treebank}, sentence {each.number}"
    return f"{each.difference:+}: {right} of {each.n_words} words right ({place}). {shorten(text, SUMMARY_CELLS)}"


def _pictures(each: SentenceDifference, analysis: Analysis) -> Iterator[Picture]:
    gold = each.gold
    yield Picture(gold.forms, _tags(gold), gold.graph, tokens=tuple(gold.tokens()), title=GOLD_NAME)
    for name, sentences in each.trees.items():
        for sentence in sentences:
            title, right = f"{name}: {each.correct[name]} of {each.n_words} words right", None
            if sentence.forms == gold.forms:
                right = _gold_as_counted(gold.graph, sentence.graph, analysis)
            else:
                title += "; its words are not those of gold"
            tokens = tuple(sentence.tokens())
            yield Picture(sentence.forms, (), sentence.graph, right, tokens=tokens, title=title, before_name=GOLD_NAME)


def _gold_as_counted(gold: Graph, system: Graph, analysis: Analysis) -> Graph:
    """The gold graph with the system's label wherever the scorer takes the two for one, so that it is not marked."""
    is_ud = rule_of(analysis.rule).is_ud

    def counted(label: str) -> str:
        return "" if analysis.metric == "UAS" else label.partition(":")[0] if is_ud else label

    pairs = zip(gold.labels, system.labels, strict=True)
    return Graph(gold.heads, tuple([b if counted(a) == counted(b) else a for a, b in pairs]))


def _tags(sentence: Sentence) -> tuple[str, ...]:
    return sentence.upos if set(sentence.upos) != {"_"} else sentence.xpos
