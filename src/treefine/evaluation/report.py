"""An error analysis as one page that stands alone: scores, curves, confusions, and the sentences that differ most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

from treefine.drawing.characters import shorten
from treefine.drawing.html import page_end, page_start, tree_figure
from treefine.drawing.picture import Picture
from treefine.drawing.report_parts import REPORT_STYLE, folded, safe
from treefine.evaluation.analysis import Analysis, SentenceDifference
from treefine.evaluation.conll18 import rule_of
from treefine.evaluation.report_sections import READING, SECTIONS
from treefine.treebank.graph import Graph
from treefine.treebank.sentence import Sentence

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
