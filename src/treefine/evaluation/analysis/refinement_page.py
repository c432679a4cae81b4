"""A refinement analysis as one page that stands alone: tables, charts over the steps, and examples, drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from treefine.drawing.html import page_end, page_start, tree_figure
from treefine.drawing.picture import Picture
from treefine.evaluation.analysis.charts import PERCENT, Line, Mark, draw_rows, draw_steps
from treefine.evaluation.analysis.page_parts import REPORT_STYLE, number_table, safe
from treefine.evaluation.analysis.refinement import Costs, Example, Refinement, ranked_labels
from treefine.evaluation.analysis.refinement_tables import (
    LEAST,
    Table,
    by_label,
    by_projectivity,
    by_step,
    costs_table,
    summary_of,
)
from treefine.treebank.graph import Arcs, Graph
from treefine.treebank.sentence import BLANK

EXAMPLES = 10  # of each kind that are drawn
LABELS = 20  # in the chart; the table has all


def refinement_page(
    found: Sequence[tuple[Refinement, Costs]], title: str, *, examples: int = EXAMPLES
) -> Iterator[str]:
    """The page, part by part: all treebanks together first if there are several, then each.

    `examples` is how many corrected sentences are drawn, and how many spoiled ones.
    """
    yield page_start(title, style=REPORT_STYLE)
    if len(found) > 1:
        names = [safe(refinement.name) for refinement, _ in found]
        links = [f'<li><a dir="auto" href="#t{number}">{name}</a></li>' for number, name in enumerate(names, start=1)]
        yield '<nav aria-label="Contents">\n<ul>\n' + "\n".join(links) + "\n</ul>\n</nav>\n"
    for number, (refinement, costs) in enumerate(found, start=1):
        yield f'<section id="t{number}">\n<h2 dir="auto">{safe(refinement.name)}</h2>\n'
        yield f"<p>{safe(summary_of(refinement))}</p>\n"
        yield _part(by_step(refinement), steps_chart(refinement))
        yield _part(by_label(refinement), labels_chart(refinement))
        yield _part(by_projectivity(refinement))
        yield _part(costs_table(costs))
        yield from _examples(refinement, examples, is_corrected=True)
        yield from _examples(refinement, examples, is_corrected=False)
        yield "</section>\n"
    yield page_end()


def _part(table: Table, chart: str = "") -> str:
    """A table under its title, with a chart if there is one."""
    drawn = f'<figure class="chart">\n{chart}</figure>\n' if chart else ""
    said = f'<p class="note">{safe(table.note)}</p>\n'
    numbers = number_table(table.header, table.rows, name=table.title)
    return f"<section>\n<h3>{safe(table.title)}</h3>\n{said}{drawn}{numbers}</section>\n"


def steps_chart(refinement: Refinement) -> str:
    """UAS and LAS after each step."""
    lines = [
        Line(metric, tuple(Mark(t, 100 * score) for t, score in zip(refinement.steps, counts.f1, strict=True)))
        for metric, counts in sorted(refinement.attachment.items(), reverse=True)
    ]
    title = "UAS and LAS after each step"
    return draw_steps(lines, title=title, y_title="F1 in %", y_format="{:.2f}", limits=PERCENT)


def labels_chart(refinement: Refinement) -> str:
    """The F-score of the most frequent labels in the first and the last trees; nothing where no label has errors."""
    labels = ranked_labels(refinement, least=LEAST)
    frequent = sorted(labels, key=lambda label: -refinement.labels[label].gold)[:LABELS]
    counted = {label: refinement.labels[label] for label in frequent}
    lines = [
        Line(
            f"t = {refinement.steps[tree]}",
            tuple(Mark(label, 100 * each.f1[tree], count=round(each.gold)) for label, each in counted.items()),
        )
        for tree in (0, -1)
    ]
    title = "Most frequent types, before and after"
    return draw_rows(frequent, lines, title=title, x_title="F1 in %", limits=PERCENT) if frequent else ""


def _examples(refinement: Refinement, most: int, *, is_corrected: bool) -> Iterator[str]:
    """Some sentences, the shortest first, each drawn as it was and as it became."""
    examples = refinement.corrected if is_corrected else refinement.spoiled
    title = "Corrected sentences" if is_corrected else "Spoiled sentences"
    states = ("wrong in the first tree and all right in the last", "all right in the first tree and wrong in the last")
    said = f"{len(examples):,} of {refinement.n_sentences:,.0f} are {states[0] if is_corrected else states[1]}."
    if examples[:most]:
        said += " The shortest are drawn: both trees, and what changed between them."
    yield f'<section>\n<h3>{title}</h3>\n<p class="note">{said}</p>\n'
    for example in examples[:most]:
        pictures = example_pictures(example, refinement.steps, is_corrected=is_corrected)
        name = example.gold.sent_id or f"sentence {example.gold.number}"
        yield tree_figure(pictures, name, caption=name) + "\n"
    yield "</section>\n"


def example_pictures(example: Example, steps: range, *, is_corrected: bool) -> list[Picture]:
    """A sentence in its first and its last tree, with what changed; one of the two is the gold tree."""
    sentence = example.gold
    wrong = f"{example.n_wrong} of {len(sentence)} words wrong"
    said = [wrong, "right, as gold"] if is_corrected else ["right, as gold", wrong]
    places = ["initial parse" if steps[0] == 0 else f"step {steps[0]}", f"step {steps[-1]}"]
    titles = [f"{place}: {each}" for place, each in zip(places, said, strict=True)]
    first, last = _graph(example.first), _graph(example.last)
    tags = () if set(sentence.upos) == {BLANK} else sentence.upos
    tokens = tuple(sentence.tokens())
    return [
        Picture(sentence.forms, tags, first, tokens=tokens, title=titles[0]),
        Picture(sentence.forms, tags, last, before=first, tokens=tokens, title=titles[1]),
    ]


def _graph(arcs: Arcs) -> Graph:
    """The arcs as they can be drawn: a word without a head hangs on ROOT, its label blank."""
    return Graph.of_words([head or 0 for head in arcs.heads], arcs.labels)
