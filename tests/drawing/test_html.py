import re
from html.parser import HTMLParser
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from tests.drawing.generated_pictures import ANY_TEXT, any_pictures
from treefine import Graph
from treefine.drawing.characters import visible
from treefine.drawing.html import page_end, page_part, page_start
from treefine.drawing.picture import Picture, step_pictures

INITIAL = Graph.of_words([0, 1], ["root", "obj"])
FINAL = Graph.of_words([2, 0], ["nsubj", "root"])


class Reader(HTMLParser):
    """The elements as a browser's parser meets them; what is left open is a fault."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: list[str] = []
        self.cells: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.names.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_startendtag(self, tag, attrs):
        self.names.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


def page(*parts: str, title: str = "Trees") -> str:
    return page_start(title) + "".join(parts) + page_end()


def test_a_sentence_has_a_heading_a_drawing_and_a_table():
    picture = Picture(("Dogs", "bark"), ("NOUN", "VERB"), FINAL, None, (0.874, 1.0))

    part = page_part([picture])
    reader = Reader(page(part))

    assert '<h2 dir="auto">Dogs bark</h2>' in part
    assert reader.names.count("section") == reader.names.count("svg") == reader.names.count("table") == 1
    assert reader.cells == [
        *("", "word", "tag", "head", "label", "confidence"),
        *("1", "Dogs", "NOUN", "2 bark", "nsubj", "0.87"),
        *("2", "bark", "VERB", "0 ROOT", "root", "1.00"),
    ]


def test_what_is_not_given_has_no_column():
    assert Reader(page_part([Picture(("Dogs",))])).cells == ["", "word", "1", "Dogs"]


def test_steps_come_after_the_last_graph_which_alone_has_no_marks():
    part = page_part(step_pictures(["Dogs", "bark"], [], [FINAL], initial=INITIAL), heading="Example 7")

    first, second = re.findall(r"<figure.*?</figure>", part, re.DOTALL)
    assert 'class="changed"' not in first
    assert "step 1" not in first
    assert first.count("<svg") == second.count("<svg") == 1
    assert "initial graph" in second
    assert "step 1: 2 arcs changed" in second
    assert 'class="changed"' in second
    assert "All 2 graphs, step by step" in part
    assert '<h2 dir="auto">Example 7</h2>' in part


@given(st.lists(st.lists(any_pictures(), min_size=1, max_size=3), max_size=2), ANY_TEXT)
def test_any_words_make_a_page_that_is_whole_and_valid(sentences, title):
    text = page(*map(page_part, sentences), title=title)

    text.encode()
    root = ElementTree.fromstring(text.replace("<!DOCTYPE html>", ""))
    reader = Reader(text)
    assert reader.open == []
    assert root.findtext("body/h1") == visible(title)
    tables = list(root.iter("table"))
    assert len(tables) == len(sentences)
    for table, pictures in zip(tables, sentences, strict=True):
        rows = [[cell.text or "" for cell in row] for row in table.iter("tr")]
        assert [row[1] for row in rows[1:]] == [visible(form) for form in pictures[-1].forms]
        assert len({len(row) for row in rows}) == 1


def test_a_page_needs_no_script_and_nothing_from_elsewhere():
    text = page(page_part([Picture(("<script>alert(1)</script>",), graph=Graph.of_words([0], ["root"]))]))

    assert not re.search(r"<script|href=|src=|url\(|@import", text)
    assert "prefers-color-scheme: dark" in text
    assert "color-scheme: light dark" in text


def test_wide_drawings_can_be_moved_with_the_keyboard():
    part = page_part([Picture(("Dogs",))])

    assert '<figure tabindex="0" role="group" aria-label="Graph">' in part
