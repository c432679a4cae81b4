import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generated import ANY_TEXT, any_pictures
from treefine import Graph
from treefine.drawing.html import LONG, PRINTED, html_of, page_part, tree_figure
from treefine.drawing.picture import Drawing, Picture, step_pictures
from treefine.drawing.text import draw_text
from treefine.errors import visible

INITIAL = Graph.of_words([0, 1], ["root", "obj"])
FINAL = Graph.of_words([2, 0], ["nsubj", "root"])
SVG = "{http://www.w3.org/2000/svg}svg"


def chain(n_words: int, *, label: str = "dep") -> Graph:
    return Graph.of_words(range(n_words), ["root", *[label] * (n_words - 1)])


def drawing(*pictures: Picture, text: str = "", is_ranked: bool = False) -> Drawing:
    return Drawing("", text, pictures, is_ranked=is_ranked)


def test_a_sentence_has_a_heading_a_drawing_and_a_table():
    picture = Picture(("Dogs", "bark"), ("NOUN", "VERB"), FINAL, None, (0.874, 1.0))

    section = ElementTree.fromstring(page_part(drawing(picture)))

    assert section.findtext("h2") == "Dogs bark"
    assert [section.find(f".//{name}") is not None for name in (SVG, "table")] == [True, True]
    assert [[cell.text or "" for cell in row] for row in section.iter("tr")] == [
        ["", "word", "tag", "head", "label", "confidence"],
        ["1", "Dogs", "NOUN", "2 bark", "nsubj", "0.87"],
        ["2", "bark", "VERB", "0 ROOT", "root", "1.00"],
    ]


def test_the_last_graph_comes_first_without_marks_and_then_all_steps():
    part = page_part(drawing(*step_pictures(Picture(("Dogs", "bark")), [FINAL], initial=INITIAL), text="Example 7"))

    first, second = re.findall(r"<figure.*?</figure>", part, re.DOTALL)
    assert 'class="changed"' not in first
    assert "step 1" not in first
    assert [each in second for each in ("initial graph", "step 1: 2 arcs changed", 'class="changed"')] == [True] * 3
    assert "All 2 graphs, step by step" in part
    assert '<h2 dir="auto">Example 7</h2>' in part


@given(st.lists(st.lists(any_pictures(), min_size=1, max_size=3), max_size=2), ANY_TEXT)
def test_any_words_make_a_valid_page(sentences, title):
    text = "".join(html_of([drawing(*pictures) for pictures in sentences], title))

    text.encode()
    root = ElementTree.fromstring(text.replace("<!DOCTYPE html>", ""))
    assert root.findtext("body/h1") == visible(title)
    tables = list(root.iter("table"))
    assert len(tables) == len(sentences)
    for table, pictures in zip(tables, sentences, strict=True):
        rows = [[cell.text or "" for cell in row] for row in table.iter("tr")]
        assert [row[1] for row in rows[1:]] == [visible(form) for form in pictures[-1].forms]
        assert len({len(row) for row in rows}) == 1


def test_the_first_of_several_trees_is_the_graph_and_the_others_follow():
    pictures = [Picture(("Dogs", "bark"), graph=graph) for graph in (FINAL, INITIAL, INITIAL)]

    part = page_part(drawing(*pictures, is_ranked=True))

    first, others = re.findall(r"<figure.*?</figure>", part, re.DOTALL)
    assert [each.count("nsubj") > 0 for each in (first, others)] == [True, False]
    assert "Next best trees (2)" in part


def test_wide_drawings_also_have_a_version_with_one_word_per_line():
    narrow, wide = (Picture(("words",) * n_words, graph=chain(n_words)) for n_words in (8, 30))

    assert "<pre>" not in tree_figure([narrow], "Graph")
    figure = ElementTree.fromstring(tree_figure([narrow, wide], "Graphs"))

    assert figure.get("class") == "wide"
    assert float(figure.find(SVG).get("width")) > PRINTED
    assert [each.text for each in figure.findall("pre")] == [draw_text(narrow), draw_text(wide)]


@pytest.mark.parametrize(("n_words", "is_long"), [(LONG, False), (LONG + 1, True)])
def test_a_long_sentence_has_one_word_per_line_on_screen_and_says_so(n_words, is_long):
    graph, before = chain(n_words), chain(n_words, label="obj")
    pictures = [Picture(("w",) * n_words, graph=before), Picture(("w",) * n_words, graph=graph, before=before)]

    figure = ElementTree.fromstring(tree_figure(pictures, "Steps", caption="A & B"))

    assert (figure.get("class"), figure.find(SVG) is None) == (("long", True) if is_long else ("wide", False))
    said = "Drawn with one word per line, because the sentence has 201 words."
    assert [each.text for each in figure.findall("p")] == ([said] if is_long else [])
    assert "* was: 1 obj" in figure.findall("pre")[1].text
    assert figure[-1].text == "A & B"
