"""Pictures of a sentence and of its steps, and their arcs as SVG."""

import re
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.generated import any_pictures, tree_pictures
from treefine import Graph
from treefine.drawing import svg
from treefine.drawing.picture import Picture, step_pictures
from treefine.drawing.svg import arcs_of, text_width
from treefine.errors import visible
from treefine.treebank.sentence import Token

SVG = "{http://www.w3.org/2000/svg}"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def draw_svg(pictures: list[Picture]) -> str:
    return svg.draw_svg(pictures)[0]


class Line(NamedTuple):
    """An arc as drawn: the x coordinates of its start and end, and its height."""

    start: float
    end: float
    height: float
    kind: str

    @property
    def reach(self) -> tuple[float, float]:
        return min(self.start, self.end), max(self.start, self.end)


class Box(NamedTuple):
    """The rectangle of background behind a label."""

    left: float
    top: float
    right: float
    bottom: float
    text: str


def parts(picture: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return list(picture.iter(SVG + name))


def groups(drawing: str) -> list[ElementTree.Element]:
    return [each for each in ElementTree.fromstring(drawing).findall(SVG + "g") if each.get("transform")]


def all_text(element: ElementTree.Element) -> str:
    return "".join(each.text or "" for each in [element, *element.iter(SVG + "tspan")]) + "".join(
        each.tail or "" for each in element
    )


def lines_and_boxes(picture: ElementTree.Element) -> tuple[list[Line], list[Box]]:
    lines, boxes = [], []
    for group in picture.findall(SVG + "g"):
        kind = group.get("class")
        if group.find(SVG + "rect") is not None:
            x, y, width, height = (float(group.find(SVG + "rect").get(each)) for each in ("x", "y", "width", "height"))
            boxes.append(Box(x, y, x + width, y + height, all_text(group.find(SVG + "text"))))
            continue
        line, head = (path.get("d") for path in group.findall(SVG + "path"))
        end = float(NUMBER.findall(head)[0])
        start, first, second = map(float, NUMBER.findall(line)[:3])
        # An arrow from ROOT goes straight down; any other line goes up, with a corner.
        height = first if "q" not in line else second + float(NUMBER.findall(line)[4])
        lines.append(Line(start, end, height, kind))
    return lines, boxes


def arcs_drawn(picture: Picture) -> tuple[list[Line], list[Box]]:
    return lines_and_boxes(groups(draw_svg([picture]))[0])


def word_places(picture: ElementTree.Element) -> list[float]:
    return [float(each.get("x")) for each in parts(picture, "text") if each.get("class") == "form"]


@given(tree_pictures())
def test_the_heads_of_every_tree_can_be_read_back_from_the_lines(picture):
    (drawn,) = groups(draw_svg([picture]))
    places = word_places(drawn)
    lines, _ = lines_and_boxes(drawn)

    def nearest(x: float) -> int:
        return 1 + min(range(len(places)), key=lambda index: abs(places[index] - x))

    read = {nearest(line.end): 0 if line.start == line.end else nearest(line.start) for line in lines}
    assert [read[word] for word in range(1, len(places) + 1)] == list(picture.graph.arcs.heads)


@given(tree_pictures())
def test_in_a_projective_tree_no_line_and_no_label_touches_another_label(picture):
    assume(picture.graph.is_projective)
    lines, boxes = arcs_drawn(picture)

    for one, other in combinations(boxes, 2):
        apart = one.right <= other.left or other.right <= one.left or one.bottom <= other.top or other.bottom <= one.top
        assert apart
    for line in lines:
        for box in boxes:
            is_own = abs((box.left + box.right) - (line.start + line.end)) < 0.5 and box.top < line.height < box.bottom
            runs_through = box.top < line.height < box.bottom and line.reach[0] < box.right and box.left < line.reach[1]
            stands_in = box.bottom > line.height and (
                box.left < line.start < box.right or box.left < line.end < box.right
            )
            assert is_own or not (runs_through or stands_in)


@given(st.lists(any_pictures(), min_size=1, max_size=3))
def test_any_words_and_labels_make_valid_xml_that_contains_them(pictures):
    root = ElementTree.fromstring(draw_svg(pictures).encode())

    drawn = [all_text(each) for each in parts(root, "text")]
    for picture in pictures:
        expected = [*picture.forms, *picture.tags, *(picture.graph.arcs.labels if picture.graph else [])]
        expected += [token.form for token in picture.multiword_tokens] + [picture.title] * bool(picture.title)
        for text in expected:
            # If only the label has changed, it comes after the old one.
            assert any(each == visible(text) or each.endswith(f" {visible(text)}") for each in drawn)


INITIAL = Graph.of_words([2, 0, 1, 2], ["det", "root", "obj", "dep"])
REFINED = Graph.of_words([2, 0, 2, 2], ["nsubj", "root", "obj", "dep"])


def test_a_new_head_shows_both_arcs_and_a_new_label_shows_both_labels():
    drawing = draw_svg([Picture(tuple("wxyz"), graph=REFINED, before=INITIAL)])
    (drawn,) = groups(drawing)
    lines, boxes = lines_and_boxes(drawn)
    places = word_places(drawn)

    assert sorted(line.kind for line in lines) == ["changed", "changed", "old", "same", "same"]
    (old,) = [line for line in lines if line.kind == "old"]
    assert places[0] < old.start < places[1] < old.end
    assert old.end != places[2]  # next to the new arc
    assert abs(old.end - places[2]) < 10
    assert sorted(box.text for box in boxes) == ["dep", "det nsubj", "obj", "obj", "root"]
    assert [each.text for each in parts(drawn, "tspan")] == ["det"]


def test_steps_are_below_each_other_with_words_in_the_same_places():
    drawing = draw_svg(step_pictures(Picture(tuple("wxyz"), tuple("ABCD")), [REFINED, REFINED], initial=INITIAL))
    drawn, height = groups(drawing), float(ElementTree.fromstring(drawing).get("height"))
    tops = [float(NUMBER.findall(each.get("transform"))[1]) for each in drawn]

    assert len({tuple(word_places(each)) for each in drawn}) == 1
    assert tops[0] == 0
    for top, bottom, each in zip(tops, [*tops[1:], height], drawn, strict=True):
        assert all(0 < float(text.get("y")) < bottom - top for text in parts(each, "text"))


def test_right_to_left_words_run_from_the_right():
    (drawn,) = groups(draw_svg([Picture(("אני", "אוהב", "cats"))]))

    assert word_places(drawn) == sorted(word_places(drawn), reverse=True)


def test_a_long_word_is_cut_off_and_has_a_tooltip():
    root = ElementTree.fromstring(draw_svg([Picture(("x" * 10_000, "y"))]))

    assert float(root.get("width")) < 600
    first = parts(root, "text")[0]
    assert first.text == "x" * 39 + "…"
    assert first.find(SVG + "title").text == "x" * 10_000


def test_multiword_tokens_are_below_their_words():
    picture = Picture(("do", "n't", "go"), tokens=(Token("don't", range(1, 3), "_"), Token("go", range(3, 4), "_")))
    (drawn,) = groups(draw_svg([picture]))
    (token,) = [each for each in parts(drawn, "text") if each.get("class") == "token"]

    assert token.text == "don't"
    assert float(token.get("x")) == pytest.approx(sum(word_places(drawn)[:2]) / 2, abs=0.1)
    assert picture.text == "don't go"


@given(any_pictures())
def test_each_line_and_label_identifies_its_arc(picture):
    root = ElementTree.fromstring(draw_svg([picture]).encode())

    found = [(each.get("data-word"), each.get("data-head")) for each in root.iter(SVG + "g") if each.get("data-word")]

    assert sorted(found) == sorted([(str(arc.word), str(arc.head)) for arc in arcs_of(picture)] * 2)


def test_confidence_follows_the_label_on_request_with_a_question_mark_if_low():
    graph = Graph.of_words([2, 0], ["nsubj", "root"])
    picture = Picture(("Dogs", "bark"), graph=graph, confidence=(0.41, 0.8), shows_confidence=True)

    (drawn,) = groups(draw_svg([picture]))

    boxes = lines_and_boxes(drawn)[1]
    assert sorted(box.text for box in boxes) == ["nsubj 0.41?", "root 0.80"]
    plain = arcs_drawn(replace(picture, shows_confidence=False))[1]
    assert sorted(box.text for box in plain) == ["nsubj", "root"]
    assert min(box.right - box.left for box in boxes) > max(box.right - box.left for box in plain)


def test_an_unattached_word_has_no_arc():
    assert len(arcs_drawn(Picture(tuple("wxyz"), graph=REFINED, unattached=frozenset({1, 3})))[0]) == 2


# Pictures and steps


FORMS = ("The", "old", "man")
START = Graph.of_words([3, 3, 0], ["det", "amod", "root"])
FIRST = Graph.of_words([2, 3, 0], ["det", "nsubj", "root"])
SECOND = Graph.of_words([2, 3, 0], ["det", "obj", "root"])


def test_each_step_is_compared_with_the_one_before():
    pictures = step_pictures(Picture(FORMS), [FIRST, SECOND, SECOND], initial=START)

    assert [each.graph for each in pictures] == [START, FIRST, SECOND, SECOND]
    assert [each.before for each in pictures] == [None, START, FIRST, SECOND]
    assert [set(each.changed) for each in pictures] == [set(), {1, 2}, {2}, set()]
    titles = ["initial graph", "step 1: 2 arcs changed", "step 2: 1 arc changed", "step 3: no arc changed"]
    assert [each.title for each in pictures] == titles


@given(text=st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=200))
@settings(max_examples=30)
def test_a_caption_is_drawn_in_lines_that_fit_the_picture(text):
    root = ElementTree.fromstring(draw_svg([Picture(("Dogs", "bark"), caption=text)]).encode())

    lines = [each for each in root.iter() if each.get("class") == "caption"]
    drawn = "".join("".join(line.itertext()) for line in lines)
    assert drawn.replace(" ", "") == visible(text).replace(" ", "")
    assert all(float(line.get("y")) < float(root.get("height")) for line in lines)
    assert all(text_width("".join(line.itertext()), 14) <= float(root.get("width")) for line in lines)
