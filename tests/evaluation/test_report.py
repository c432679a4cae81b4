import re
import time
from collections import Counter
from dataclasses import replace
from functools import cache
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.generated_pictures import ANY_TEXT
from treefine import Graph, Sentence
from treefine.drawing.characters import visible
from treefine.evaluation.analysis import errors as error_analysis
from treefine.evaluation.analysis.curves import Point
from treefine.evaluation.analysis.errors import Analysis, SentenceDifference, analyse, read_parsed
from treefine.evaluation.analysis.pages import DEFINITIONS, MOST_CONFUSIONS, MOST_ROWS, report_page
from treefine.evaluation.breakdown import PROPERTIES
from treefine.evaluation.significance import Comparison, Difference

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    monkeypatch.setattr(error_analysis, "BAND_SAMPLES", 20)
    monkeypatch.setattr(error_analysis, "TEST_SAMPLES", 100)


def parsed(heads, labels, forms=("Dogs", "bark", "loudly")) -> Sentence:
    words = Sentence.of_words(list(forms[: len(heads)]), upos=["NOUN", "VERB", "ADV"][: len(heads)])
    return words.with_graph(Graph.of_words(heads, labels))


def parsed_words(forms, label: str) -> Sentence:
    """Return a sentence in which all words are attached to the first."""
    graph = Graph.of_words([0, *[1] * (len(forms) - 1)], ["root", *[label] * (len(forms) - 1)])
    return Sentence.of_words(list(forms)).with_graph(graph)


GOLD = parsed([2, 0, 2], ["nsubj:pass", "root", "advmod"])
SUBTYPE = parsed([2, 0, 2], ["nsubj", "root", "advmod"])
WRONG_HEAD = parsed([2, 0, 1], ["nsubj:pass", "root", "advmod"])
CYCLE = parsed([2, 1, 2], ["nsubj:pass", "root", "advmod"])


def analysed(systems, *, gold=(GOLD,), name="toy", rule="conll18") -> list[Analysis]:
    return analyse([read_parsed(name, gold, systems, rule=rule)])


def page_of(analyses, title="Report") -> ElementTree.Element:
    """Return the parsed page; it is valid XML as well as HTML."""
    return ElementTree.fromstring("".join(report_page(analyses, title)).replace("<!DOCTYPE html>", ""))


def section(page, name: str) -> ElementTree.Element:
    return next(each for each in page.iter() if each.get("id") == name)


def table_rows(element) -> list[list[str]]:
    """Return the text of all cells of the first table in an element."""
    return [["".join(cell.itertext()) for cell in row] for row in next(element.iter("table")).iter("tr")]


def marked(svg) -> list[str]:
    """Return the tooltips of the arcs that are marked as wrong."""
    return [each.findtext(SVG + "title") for each in svg.iter(SVG + "g") if each.get("class") == "changed"][::2]


def test_the_page_has_its_parts_in_order_and_no_broken_links():
    page = page_of(analysed({"A": [GOLD], "B": [WRONG_HEAD]}), "A & B")

    assert page.findtext("body/h1") == "A & B"
    headings = [each.text for each in page.iter("h3")]
    assert headings == [
        "Scores",
        "Length and depth",
        "Labels, tags and projectivity",
        "Confusions",
        "Sentences that differ most",
    ]
    names = [each.get("id") for each in page.iter() if each.get("id")]
    links = [each.get("href") for each in page.iter("a")]
    assert len(names) == len(set(names))
    assert {link.removeprefix("#") for link in links} <= set(names)
    assert links == ["#t1", "#t1-scores", "#t1-curves", "#t1-kinds", "#t1-confusions", "#t1-sentences"]


def test_a_page_needs_no_script_and_nothing_from_elsewhere():
    text = "".join(report_page(analysed({"<script>": [GOLD], "B": [WRONG_HEAD]}), "<script>"))

    assert not re.search(r"<script|src=|url\(|@import|href=\"[^#]", text)
    assert not re.search(r"https?:(?!//www\.w3\.org/2000/svg\")", text)
    assert "prefers-color-scheme: dark" in text
    assert "figure.chart svg { width: 100%;" in text  # the report's style


def test_scores_start_with_the_metric_and_the_best_group_is_bold():
    gold = [GOLD] * 30
    page = page_of(analysed({"A": [WRONG_HEAD] * 30, "B": gold, "C": [SUBTYPE] * 30}, gold=gold))

    scores = section(page, "t1-scores")
    header, *rows = table_rows(scores)
    assert header[:6] == ["system", "LAS", "difference", "error reduction", "p", "UAS"]
    assert rows[0][:6] == ["A", "66.67", "", "", "", "66.67"]
    assert rows[1][:4] == ["B", "100.00", "+33.33", "+100.0%"]
    assert float(rows[1][4]) < 0.01
    table = next(scores.iter("table"))
    assert [row.find("th").text for row in table.find("tbody") if row.find("td/strong") is not None] == ["B", "C"]
    assert [each.text for each in table.iter("strong")] == ["100.00", "100.00"]
    pairs = table_rows(
        next(
            each
            for each in scores.iter("details")
            if each.findtext("summary") == "Differences between all pairs of systems"
        )
    )
    assert [row[:3] for row in pairs[1:]] == [["A", "B", "+33.33"], ["A", "C", "+33.33"], ["B", "C", "+0.00"]]


def test_tables_have_all_points_and_charts_have_all_points_with_gold_words():
    (analysis,) = analysed({"A": [GOLD, WRONG_HEAD], "B": [CYCLE, GOLD]}, gold=(GOLD, GOLD))
    page = page_of([analysis])

    figures = dict(zip(analysis.curves, page.iter("figure"), strict=False))  # the figures of sentences follow
    for by, systems in analysis.curves.items():
        rows = {row[0]: row[1:] for row in table_rows(figures[by])[2:]}
        said = [each.text for each in figures[by].iter(SVG + "title")]
        for column, (system, points) in enumerate(systems.items()):
            for point in points:
                cells = rows[str(point.value)]
                shares = [f"{100 * share:.1f}" for share in (point.precision, point.recall, point.f1)]
                band = f"{100 * point.low:.1f} to {100 * point.high:.1f}"
                assert cells[0] == str(point.gold)
                assert cells[1 + 5 * column : 6 + 5 * column] == [str(point.system), *shares, band]
                mine = [each for each in said if each.startswith(f"{system}, ") and f"{point.value}: " in each]
                numbers = f"{shares[2]} ({band}), n = {point.gold}"
                assert [numbers in each for each in mine] == ([True] if point.gold else [])
    assert any(point.value == "cycle" and not point.gold for point in analysis.curves["distance to root"]["B"])


def test_each_figure_has_a_caption():
    (analysis,) = analysed({"A": [GOLD]})

    captions = [each.text for each in page_of([analysis]).iter("figcaption")]

    assert captions == [f"LAS by {by}: {DEFINITIONS[by]}." for by in analysis.curves]
    assert set(DEFINITIONS) == set(PROPERTIES)


def test_the_page_explains_the_charts_once():
    banks = [read_parsed(name, [GOLD], {"A": [GOLD], "B": [WRONG_HEAD]}) for name in ("one", "two")]

    text = "".join(report_page(analyse(banks), "Report"))

    assert text.count("How to read the charts: ") == 1
    assert text.index("How to read the charts: ") < text.index("<svg")


def test_bands_of_more_than_three_systems_are_only_in_the_tables():
    systems = {name: [GOLD, WRONG_HEAD] for name in "ABCD"}
    three, four = (page_of(analysed(dict([*systems.items()][:n]), gold=[GOLD] * 2)) for n in (3, 4))

    captions = [[each.text for each in section(page, "t1-curves").iter("figcaption")] for page in (three, four)]
    said = " With more than 3 systems the bands would overlap; they are in the table."
    assert captions[1] == [caption + said for caption in captions[0]]
    for kind in ("band faint", "line reach"):
        drawn = [
            [each for each in section(page, "t1-curves").iter(SVG + "path") if each.get("class") == kind]
            for page in (three, four)
        ]
        assert drawn[0]
        assert drawn[1] == []
    rows = [each for each in section(four, "t1-kinds").iter(SVG + "path") if each.get("class") == "line reach"]
    assert rows  # in these charts each system has a separate lane


def test_root_is_not_connected_to_the_curve_of_dependency_length():
    page = page_of(analysed({"A": [GOLD]}, gold=[parsed([2, 0, 1], ["nsubj", "root", "advmod"])]))

    lines = [each.get("d") for each in section(page, "t1-curves").iter(SVG + "path") if each.get("class") == "line"]
    assert lines[0].count("L") == 0  # ROOT
    assert lines[1].count("L") == 1  # from 1 to 2


def test_percentage_axes_stay_within_0_and_100():
    page = page_of(analysed({"A": [GOLD]}))

    for name in ("t1-curves", "t1-kinds"):
        for svg in section(page, name).iter(SVG + "svg"):
            ticks = [each.text for each in svg.iter(SVG + "text") if each.text.isdecimal()]
            assert "100" in ticks
            assert "110" not in ticks


def test_a_chart_has_the_most_frequent_labels_and_its_table_has_all_labels():
    (analysis,) = analysed({"A": [GOLD]})
    points = tuple(Point(f"label{number}", 50 - number, 50, 10, 10, 0.1, 0.3) for number in range(MOST_ROWS + 2))
    analysis = replace(analysis, curves=analysis.curves | {"label": {"A": points}})

    figure = next(
        each for each in page_of([analysis]).iter("figure") if "LAS by label" in (each.findtext("figcaption") or "")
    )

    names = [each.text for each in figure.iter(SVG + "text") if each.get("class") == "name end"]
    assert names == [point.value for point in points[:MOST_ROWS]]
    assert [row[0] for row in table_rows(figure)[2:]] == [point.value for point in points]
    assert f"the {MOST_ROWS} most frequent of {MOST_ROWS + 2}" in figure.findtext("figcaption")


def test_confusions_of_all_systems_are_side_by_side_with_the_most_frequent_first():
    (analysis,) = analysed({"A": [GOLD], "B": [GOLD]})
    first = Counter({("obj", "obl"): 3, ("det", "amod"): 1} | {("x", str(n)): 1 for n in range(MOST_CONFUSIONS)})
    analysis = replace(analysis, label_confusions={"A": first, "B": Counter({("det", "amod"): 7})})

    confusions = section(page_of([analysis]), "t1-confusions")

    rows = table_rows(confusions)
    assert rows[:3] == [["gold label", "system label", "A", "B"], ["det", "amod", "1", "7"], ["obj", "obl", "3", "0"]]
    assert len(rows) == 1 + MOST_CONFUSIONS
    assert f"the {MOST_CONFUSIONS} most frequent of {MOST_CONFUSIONS + 2} confusions." in confusions.findtext(".//p")


def test_sentences_are_drawn_with_gold_first_and_wrong_arcs_marked():
    page = page_of(analysed({"A": [GOLD], "B": [WRONG_HEAD]}))

    sentences = section(page, "t1-sentences")
    assert sentences.findtext("h4") == "A is better than B"
    (details,) = sentences.iter("details")
    assert details.findtext("summary") == "-1: A 3, B 2 of 3 words right (toy, sentence 1). Dogs bark loudly"
    (svg,) = details.iter(SVG + "svg")
    titles = [each.text for each in svg.iter(SVG + "text") if each.get("class") == "title"]
    assert titles == ["gold", "A: 3 of 3 words right", "B: 2 of 3 words right"]
    assert marked(svg) == ["loudly ← Dogs: advmod"]


def test_a_subtype_that_the_scorer_does_not_compare_is_not_marked():
    both = parsed([2, 0, 1], ["nsubj", "root", "advmod"])

    ud, other = (
        next(section(page_of(analysed({"A": [GOLD], "B": [both]}, rule=rule)), "t1-sentences").iter(SVG + "svg"))
        for rule in ("conll18", "conll09")
    )

    assert len(marked(ud)) == 1
    assert len(marked(other)) == 2


def test_drawings_with_one_word_per_line_show_gold_next_to_errors():
    forms = ["word"] * 30
    gold, wrong = (parsed_words(forms, label) for label in ("obj", "obl"))

    page = page_of(analysed({"A": [wrong]}, gold=[gold]))

    (figure,) = section(page, "t1-sentences").iter("figure")
    first, second = figure.findall("pre")
    assert first.text.startswith("gold\n")
    assert second.text.startswith("A: 1 of 30 words right\n")
    assert second.text.count("* gold: 1 obj") == 29
    assert "word ← word: obl (gold: obj)" in [each.text for each in figure.iter(SVG + "title")]


@pytest.mark.parametrize("forms", [["Dogsbarkloudly"], ["Do", "gsbark", "loudly"]])
def test_a_sentence_with_different_words_is_drawn_without_marks_and_says_so(forms):
    other = parsed([0, 1, 1][: len(forms)], ["root", "obj", "obj"][: len(forms)], forms=forms)

    page = page_of(analysed({"A": [GOLD], "B": [other]}))

    (svg,) = section(page, "t1-sentences").iter(SVG + "svg")
    titles = [each.text for each in svg.iter(SVG + "text") if each.get("class") == "title"]
    assert titles[2] == "B: 0 of 3 words right; its words differ from gold"
    assert marked(svg) == []


def test_the_largest_difference_is_open_and_named_by_its_sent_id():
    gold = replace(GOLD, comments=("# sent_id = weblog-7",))
    page = page_of(analysed({"A": [gold] * 2, "B": [WRONG_HEAD, CYCLE]}, gold=[gold] * 2))

    first, second = section(page, "t1-sentences").iter("details")
    assert first.get("open") is not None
    assert second.get("open") is None
    assert "(weblog-7)" in first.findtext("summary")


def test_xpos_is_drawn_if_upos_is_blank():
    gold = Sentence.of_words(["Dogs", "bark"], xpos=["NNS", "VBP"]).with_graph(Graph.of_words([2, 0], ["x", "root"]))
    wrong = gold.with_graph(Graph.of_words([2, 0], ["y", "root"]))

    (svg,) = section(page_of(analysed({"A": [wrong]}, gold=[gold])), "t1-sentences").iter(SVG + "svg")

    assert [each.text for each in svg.iter(SVG + "text") if each.get("class") == "tag"] == ["NNS", "VBP"]


def test_all_treebanks_together_come_first_and_each_sentence_is_drawn_once():
    banks = [
        read_parsed("one", [GOLD], {"A": [GOLD], "B": [WRONG_HEAD]}),
        read_parsed("two", [GOLD, GOLD], {"A": [GOLD, CYCLE], "B": [GOLD, GOLD]}),
    ]

    page = page_of(analyse(banks))

    assert [each.text for each in page.iter("h2")] == ["all together", "one", "two"]
    whole = section(page, "t1-sentences")
    assert [*whole.iter("details")] == []
    links = {each.get("href"): each.text for each in whole.iter("a")}
    assert list(links) == ["#t3-s1", "#t2-s1"]
    for link, text in links.items():
        target = section(page, link.removeprefix("#"))
        assert target.tag == "details"
        assert target.findtext("summary") == text
        assert len([*target.iter(SVG + "svg")]) == 1


def test_a_single_system_has_no_comparison_and_shows_its_errors():
    page = page_of(analysed({"A": [WRONG_HEAD]}))

    assert table_rows(section(page, "t1-scores"))[0][:3] == ["system", "LAS", "UAS"]
    assert section(page, "t1-sentences").findtext("h4") == "A: sentences with the most errors"
    assert "strong" not in {each.tag for each in section(page, "t1-scores").iter()}


def test_equal_systems_have_no_sentences_to_show():
    page = page_of(analysed({"A": [GOLD], "B": [GOLD]}))

    assert section(page, "t1-sentences").findtext("p") == "There are no differences to show."


def test_without_labels_the_page_says_so_and_omits_them():
    blank = parsed([2, 0, 1], ["_", "_", "_"])

    page = page_of(analysed({"A": [blank], "B": [GOLD]}))

    assert "only heads are counted" in section(page, "t1").findtext("p")
    assert table_rows(section(page, "t1-scores"))[0] == ["system", "UAS", "difference", "error reduction", "p", "UEM"]
    assert "gold label" not in "".join(section(page, "t1-confusions").itertext())
    (svg,) = section(page, "t1-sentences").iter(SVG + "svg")
    assert marked(svg) == ["loudly ← Dogs: _"]


def test_the_summary_counts_cycles():
    page = page_of(analysed({"A": [GOLD], "B": [CYCLE]}))

    assert section(page, "t1").findtext("p").endswith("Sentences with a cycle: B 1.")


@cache
def plain_analysis() -> Analysis:
    (analysis,) = analysed({"A": [GOLD]})
    return analysis


@st.composite
def analyses(draw) -> Analysis:
    """Draw an analysis with any names and numbers."""
    systems = tuple(draw(st.lists(ANY_TEXT, min_size=1, max_size=3, unique=True)))
    shares = st.floats(0, 1)
    values = st.integers(0, 99) | ANY_TEXT.filter(lambda text: not text.isdecimal())

    def points() -> tuple[Point, ...]:
        return tuple(
            Point(value, *draw(st.tuples(*[st.integers(0, 9)] * 2)), 0, 0, *sorted(draw(st.tuples(shares, shares))))
            for value in draw(st.lists(values, max_size=4, unique=True))
        )

    differences = {(a, b): Difference(a, b, 0.1, 0.5, 0.5, (0.0, 0.2)) for a in systems for b in systems if a < b}
    scores = {name: draw(shares) for name in systems}
    confusions = {name: draw(st.dictionaries(st.tuples(ANY_TEXT, ANY_TEXT), st.integers(1, 9))) for name in systems}
    base = plain_analysis()
    return replace(
        base,
        name=draw(ANY_TEXT),
        systems=systems,
        scores={name: base.scores["A"] for name in systems},
        curves={by: {name: points() for name in systems} for by in base.curves},
        label_confusions={name: Counter(each) for name, each in confusions.items()},
        head_confusions={name: Counter(each) for name, each in confusions.items()},
        cycles={name: draw(st.integers(0, 2)) for name in systems},
        comparison=Comparison("LAS", 0.01, 100, 1, scores, differences) if len(systems) > 1 else None,
    )


@settings(max_examples=30)
@given(st.lists(analyses(), max_size=2), ANY_TEXT)
def test_any_names_make_a_valid_page(found, title):
    text = "".join(report_page(found, title))

    text.encode()
    page = ElementTree.fromstring(text.replace("<!DOCTYPE html>", ""))
    assert page.findtext("body/h1") == visible(title)
    assert [each.text or "" for each in page.iter("h2")] == [visible(each.name) for each in found]
    for table in page.iter("table"):
        widths = {sum(int(cell.get("colspan", "1")) for cell in row) for row in table.iter("tr")}
        assert len(widths) == 1


def test_a_page_with_many_long_sentences_is_small_and_written_quickly():
    n_words = 40
    heads = [number + 1 if number % 3 else max(0, number - 4) for number in range(n_words - 1)] + [0]
    words = Sentence.of_words([f"word{number}" for number in range(n_words)], upos=["NOUN"] * n_words)
    gold = words.with_graph(Graph.of_words(heads, ["nsubj"] * n_words))
    wrong = words.with_graph(Graph.of_words([min(n_words, head + 2) for head in heads], ["obj"] * n_words))
    (base,) = analysed({"A": [GOLD], "B": [WRONG_HEAD]})
    each = SentenceDifference("", 1, "toy", "A", "B", gold, {"A": (gold,), "B": (wrong,)}, {"A": 40, "B": 0}, 40)
    analysis = replace(base, differences=tuple(replace(each, number=number) for number in range(20)))

    start = time.process_time()
    text = "".join(report_page([analysis], "Report"))

    assert time.process_time() - start < 5  # about 0.2 s on an idle machine
    assert len(text.encode()) < 3_000_000
