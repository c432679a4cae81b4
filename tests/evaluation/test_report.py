"""Reports of both analyses: the page, the tables and JSON."""

import re
from collections import Counter
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.evaluation.test_refinement import EVEN, GOLD, STEPS, arcs, sentence
from tests.support.generated import ANY_TEXT
from treefine import Graph, Sentence, TreefineError
from treefine.errors import visible
from treefine.evaluation.analysis import errors as error_analysis
from treefine.evaluation.analysis.errors import analyse, read_parsed
from treefine.evaluation.analysis.plots import curve_chart, matplotlib_figure, row_chart
from treefine.evaluation.analysis.refinement import Costs, refinement_of
from treefine.evaluation.analysis.report import DEFINITIONS, MOST_CONFUSIONS, refinement_page, report_page, step_tables
from treefine.evaluation.properties import PROPERTIES, Point

SVG = "{http://www.w3.org/2000/svg}"
COSTS = Costs("cpu", 34_600_000, 28_000_000, 1.5, (4.0, 1.0), (2, 1))


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    monkeypatch.setattr(error_analysis, "BAND_SAMPLES", 20)
    monkeypatch.setattr(error_analysis, "SAMPLES", 100)


def parsed(heads, labels, forms=("Dogs", "bark", "loudly")) -> Sentence:
    words = Sentence.of_words(list(forms[: len(heads)]), upos=["NOUN", "VERB", "ADV"][: len(heads)])
    return words.with_graph(Graph.of_words(heads, labels))


RIGHT = parsed([2, 0, 2], ["nsubj:pass", "root", "advmod"])
SUBTYPE = parsed([2, 0, 2], ["nsubj", "root", "advmod"])
WRONG_HEAD = parsed([2, 0, 1], ["nsubj:pass", "root", "advmod"])
CYCLE = parsed([2, 1, 2], ["nsubj:pass", "root", "advmod"])


def analysed(systems, *, gold=(RIGHT,), rule="conll18"):
    return analyse([read_parsed("toy", gold, systems, rule=rule)])


def page_of(parts) -> ElementTree.Element:
    """Return the parsed page; it is valid XML as well as HTML."""
    return ElementTree.fromstring("".join(parts).replace("<!DOCTYPE html>", ""))


def tables(element) -> list[list[list[str]]]:
    """Return the text of all cells of the tables in an element."""
    return [[["".join(cell.itertext()) for cell in row] for row in table.iter("tr")] for table in element.iter("table")]


def marked(svg) -> list[str]:
    """Return the tooltips of the arcs that are marked as wrong."""
    return [each.findtext(SVG + "title") for each in svg.iter(SVG + "g") if each.get("class") == "changed"][::2]


# The errors of systems


def test_the_page_has_its_parts_in_order_and_needs_nothing_from_elsewhere():
    text = "".join(report_page(analysed({"A": [RIGHT], "<script>": [WRONG_HEAD]}), "A & B"))
    page = page_of(text)

    assert page.findtext("body/h1") == "A & B"
    assert [each.text for each in page.iter("h3")] == [
        "Scores",
        "Length and depth",
        "Labels, tags and projectivity",
        "Confusions",
        "Sentences that differ most",
    ]
    names = [each.get("id") for each in page.iter() if each.get("id")]
    assert len(names) == len(set(names))
    assert {each.get("href").removeprefix("#") for each in page.iter("a")} <= set(names)
    assert not re.search(r"<script|src=\"(?!data:)|@import|href=\"[^#]", text)
    assert [each.text for each in page.iter("figcaption")] == [f"LAS by {by}: {DEFINITIONS[by]}." for by in PROPERTIES]


def test_scores_start_with_the_metric_and_the_best_group_is_bold():
    gold = [RIGHT] * 30

    page = page_of(report_page(analysed({"A": [WRONG_HEAD] * 30, "B": gold, "C": [SUBTYPE] * 30}, gold=gold), "x"))

    (header, *rows), pairs, *_ = tables(page)
    assert header[:7] == ["system", "LAS", "difference", "RER", "p (rand.)", "p (boot.)", "UAS"]
    assert rows[0][:7] == ["A", "66.67", "", "", "", "", "66.67"]
    assert rows[1][:4] == ["B", "100.00", "+33.33", "+100.00%"]
    assert float(rows[1][4]) < 0.01
    scores = next(page.iter("table"))
    assert [row.find("th").text for row in scores.find("tbody") if row.find("td/strong") is not None] == ["B", "C"]
    assert [row[:3] for row in pairs[1:]] == [["A", "B", "+33.33"], ["A", "C", "+33.33"], ["B", "C", "+0.00"]]


def test_tables_have_the_most_frequent_confusions():
    (analysis,) = analysed({"A": [RIGHT], "B": [CYCLE]})
    confused = Counter({("obj", "obl"): 3, ("det", "amod"): 8} | {("x", str(n)): 1 for n in range(MOST_CONFUSIONS)})
    analysis = replace(analysis, label_confusions={"A": confused, "B": Counter()})

    (confusions,) = [table for table in tables(page_of(report_page([analysis], "x"))) if table[0][0] == "gold label"]

    assert confusions[0] == ["gold label", "system label", "A", "B"]
    assert confusions[1:3] == [["det", "amod", "8", "0"], ["obj", "obl", "3", "0"]]
    assert len(confusions) == 1 + MOST_CONFUSIONS


def test_sentences_are_drawn_with_gold_first_and_wrong_arcs_marked():
    page = page_of(report_page(analysed({"A": [RIGHT], "B": [WRONG_HEAD]}), "x"))

    (details,) = [each for each in page.iter("details") if each.get("class")]
    assert details.findtext("summary") == "-1: A 3, B 2 of 3 words right (toy, sentence 1). Dogs bark loudly"
    (svg,) = details.iter(SVG + "svg")
    titles = [each.text for each in svg.iter(SVG + "text") if each.get("class") == "title"]
    assert titles == ["gold", "A: 3 of 3 words right", "B: 2 of 3 words right"]
    assert marked(svg) == ["loudly ← Dogs: advmod"]
    assert "A is better than B" in [each.text for each in page.iter("h4")]


def test_a_subtype_that_the_scorer_does_not_compare_is_not_marked():
    both = parsed([2, 0, 1], ["nsubj", "root", "advmod"])

    ud, other = (
        next(page_of(report_page(analysed({"A": [RIGHT], "B": [both]}, rule=rule), "x")).iter(SVG + "svg"))
        for rule in ("conll18", "conll09")
    )

    assert len(marked(ud)) == 1
    assert len(marked(other)) == 2


@settings(max_examples=2)
@given(st.lists(ANY_TEXT, min_size=3, max_size=3, unique=True), ANY_TEXT)
def test_any_names_make_a_valid_page(names, title):
    systems, name = names[:2], names[2]
    (analysis,) = analyse([read_parsed(name, [RIGHT], {systems[0]: [RIGHT], systems[1]: [WRONG_HEAD]})])
    confused = {system: Counter({(name, title): 1}) for system in systems}
    point = Point(2, 2, 1, system_correct=1, value=name, low=0.2, high=0.7)
    curves = analysis.curves | {by: {system: (point,) for system in systems} for by in ("label", "tag")}

    page = page_of(report_page([replace(analysis, label_confusions=confused, curves=curves)], title))

    assert page.findtext("body/h1") == visible(title)
    assert [each.text or "" for each in page.iter("h2")] == [visible(name)]
    for table in page.iter("table"):
        assert len({sum(int(cell.get("colspan", "1")) for cell in row) for row in table.iter("tr")}) == 1


# The steps of a refinement


@pytest.fixture
def counted():
    return refinement_of(GOLD, STEPS, first=0, name="tiny")


def test_the_tables_have_the_layout_of_the_paper(counted):
    steps, labels, projectivity, costs = step_tables(counted, COSTS, least=1, most=2)

    assert steps.header == ("", "t = 0", "t = 1", "t = 2", "all steps")
    assert [tuple(row) for row in steps.rows] == [
        ("UAS", "75.00", "75.00", "87.50", "–"),
        ("LAS", "50.00", "75.00", "87.50", "–"),
        ("REL", "–", "+50.00%", "+50.00%", "+75.00%"),
        ("REL of UAS", "–", "+0.00%", "+50.00%", "+50.00%"),
        ("converged", "–", "0.0%", "50.0%", "–"),
    ]
    assert labels.rows == (("det", "2", "+0.00%", "+100.00%", "+100.00%"), ("nsubj", "1", "+100.00%", "–", "+100.00%"))
    assert projectivity.rows == (
        ("non-projective", "4", "+50.00%", "+0.00%", "+50.00%"),
        ("projective", "4", "+50.00%", "+100.00%", "+100.00%"),
    )
    assert costs.rows == (
        ("sentences refined", "–", "2", "1", "3"),
        ("seconds", "1.50", "4.00", "1.00", "6.50"),
        ("milliseconds per sentence", "–", "2000.00", "1000.00", "–"),
    )
    assert "34.6 million parameters and 28.0 million in its initial parser" in costs.note


def test_the_page_shows_all_numbers_and_draws_the_examples(counted):
    text = "".join(refinement_page([(counted, COSTS), (replace(counted, name="x & y"), COSTS)], "Refinement"))
    page = page_of(text)

    shown = {cell for table in tables(page) for row in table for cell in row}
    for table in step_tables(counted, COSTS):
        assert {cell for row in table.rows for cell in row} <= shown
    assert "1 of 2 sentences are wrong in the first tree and completely right in the last." in text
    assert "initial parse: 2 of 4 words wrong" in text
    assert "step 2: all words right" in text
    assert {link.get("href"): link.text for link in page.iter("a")} == {"#t1": "tiny", "#t2": "x & y"}


def test_an_initial_parse_with_missing_heads_can_be_drawn():
    found = refinement_of([sentence(EVEN)], [[arcs("- _", "3 nsubj", "0 root", "3 obj")], [EVEN]], first=0)

    assert "initial parse: 1 of 4 words wrong" in "".join(refinement_page([(found, COSTS)], "blank"))


# Charts


def test_charts_have_the_names_and_values_of_all_lines():
    curves = {
        name: [Point(9, 9, 9 - n, value=value, low=0.1, high=1.0) for n, value in enumerate(("ROOT", 1, "11-15"))]
        for name in ("first", "se$c$ond")
    }

    lines, rows = curve_chart("LAS", "length", curves), row_chart("LAS", ["ROOT", "1"], curves)

    for svg in (lines, rows):
        assert {"first", "se$c$ond", "ROOT"} <= {each.strip() for each in ElementTree.fromstring(svg).itertext()}
    assert "11-15" in lines
    assert "11-15" not in rows
    assert curve_chart("LAS", "length", curves) == lines  # the same picture every time


def test_a_missing_matplotlib_is_reported_with_the_way_to_install_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)

    with pytest.raises(
        TreefineError, match=r"need the package matplotlib. Install it: pip install 'treefine\[plots\]'"
    ):
        matplotlib_figure()
