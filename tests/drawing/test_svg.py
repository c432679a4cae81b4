"""Pictures of a sentence and of its steps, and their arcs as SVG."""

import re
import time
from dataclasses import replace
from itertools import combinations, pairwise
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.generated_pictures import any_pictures, graphs, tree_pictures
from treefine import Graph
from treefine.drawing.characters import visible
from treefine.drawing.picture import Picture, step_pictures
from treefine.drawing.svg import arcs_of, draw_frames, draw_svg, svg_and_width, text_width
from treefine.treebank.sentence import Token

SVG = "{http://www.w3.org/2000/svg}"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class Line(NamedTuple):
    """An arc as drawn: the x coordinates of its start and end, and its height."""

    start: float
    end: float
    height: float
    ground: float
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


def groups(svg: str) -> list[ElementTree.Element]:
    """Return the elements of each picture."""
    return [each for each in ElementTree.fromstring(svg).findall(SVG + "g") if each.get("transform")]


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
        end, ground = map(float, NUMBER.findall(head)[:2])
        start, first, second = map(float, NUMBER.findall(line)[:3])
        # An arrow from ROOT goes straight down; any other line goes up, with a corner.
        height = first if "q" not in line else second + float(NUMBER.findall(line)[4])
        lines.append(Line(start, end, height, ground, kind))
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
def test_lines_of_a_tree_do_not_overlap(picture):
    lines, _ = arcs_drawn(picture)

    for one, other in combinations(lines, 2):
        if one.height == other.height:
            assert one.reach[1] <= other.reach[0] or other.reach[1] <= one.reach[0]
        assert one.end != other.end


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


@given(tree_pictures())
def test_words_and_lines_are_in_order_and_inside_the_drawing(picture):
    svg = draw_svg([picture])
    width, height = (float(ElementTree.fromstring(svg).get(each)) for each in ("width", "height"))
    (drawn,) = groups(svg)
    lines, boxes = lines_and_boxes(drawn)

    assert word_places(drawn) == sorted(word_places(drawn))
    assert all(0 < line.reach[0] and line.reach[1] < width and 0 < line.height < line.ground < height for line in lines)
    assert all(0 < box.left and box.right < width and 0 < box.top for box in boxes)


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


def test_markup_in_a_word_is_text():
    svg = draw_svg([Picture(("<script>", '"&', "\x1b\x00\ufffe"), title="a < b")])

    assert "<script>" not in svg
    assert [all_text(each) for each in parts(ElementTree.fromstring(svg), "text")] == [
        "a < b",
        "<script>",
        '"&',
        r"\x1b\x00\ufffe",
    ]


def test_markup_in_an_old_or_new_label_is_text():
    before, after = Graph.of_words([0], ["<b>&"]), Graph.of_words([0], ["<i>&"])

    (box,) = arcs_drawn(Picture(("w",), graph=after, before=before))[1]

    assert box.text == "<b>& <i>&"


def test_long_tags_tokens_and_root_labels_move_words_apart():
    roots = Graph.of_words([0, 0, 0], ["a very long label"] * 3)
    tokens = (Token("a rather long token", range(1, 3), "_"), Token("a rather long token", range(3, 5), "_"))
    plain = word_places(groups(draw_svg([Picture(tuple("wxyz"))]))[0])

    boxes = arcs_drawn(Picture(tuple("xyz"), graph=roots))[1]
    tagged = word_places(groups(draw_svg([Picture(tuple("xyz"), ("a very long tag",) * 3)]))[0])
    joined = word_places(groups(draw_svg([Picture(tuple("wxyz"), tokens=tokens)]))[0])

    assert all(left.right < right.left for left, right in pairwise(sorted(boxes)))
    assert tagged[1] - tagged[0] > 80
    assert plain[1] - plain[0] < 50
    assert joined[1] - joined[0] > 100


def test_it_needs_nothing_from_elsewhere():
    svg = draw_svg([Picture(("word",), graph=Graph.of_words([0], ["root"]))])

    assert not re.search(r"url\(|href|<script|@import|<image|var\(", svg)
    assert set(re.findall(r'https?://[^"\s]+', svg)) == {"http://www.w3.org/2000/svg"}


INITIAL = Graph.of_words([2, 0, 1, 2], ["det", "root", "obj", "dep"])
REFINED = Graph.of_words([2, 0, 2, 2], ["nsubj", "root", "obj", "dep"])


def test_a_new_head_shows_both_arcs_and_a_new_label_shows_both_labels():
    svg = draw_svg([Picture(tuple("wxyz"), graph=REFINED, before=INITIAL)])
    (drawn,) = groups(svg)
    lines, boxes = lines_and_boxes(drawn)
    places = word_places(drawn)

    assert sorted(line.kind for line in lines) == ["changed", "changed", "old", "same", "same"]
    (old,) = [line for line in lines if line.kind == "old"]
    assert places[0] < old.start < places[1] < old.end
    assert old.end != places[2]  # next to the new arc
    assert abs(old.end - places[2]) < 10
    assert sorted(box.text for box in boxes) == ["dep", "det nsubj", "obj", "obj", "root"]
    assert [each.text for each in parts(drawn, "tspan")] == ["det"]


@pytest.mark.parametrize("new_head", [0, 1, 2, 4, 5])
@pytest.mark.parametrize("old_head", [0, 1, 2, 4, 5])
def test_the_old_arc_of_a_word_does_not_cross_the_new_one(old_head, new_head):
    def over(head: int) -> Graph:
        return Graph.of_words([0, 0, head, 0, 0], ["x"] * 5)

    picture = Picture(tuple("vwxyz"), graph=over(new_head), before=over(old_head))
    lines, _ = arcs_drawn(picture)

    pair = [line for line in lines if line.kind != "same"]
    assert len(pair) == 2 * (old_head != new_head)
    for line in pair:
        for other in pair:
            for upright in (other.start, other.end):
                assert not (line.reach[0] < upright < line.reach[1] and other.height < line.height)


def test_arcs_of_the_first_picture_are_not_marked():
    lines, _ = arcs_drawn(Picture(tuple("wxyz"), graph=REFINED))

    assert {line.kind for line in lines} == {"same"}


def test_steps_are_below_each_other_with_words_in_the_same_places():
    pictures = step_pictures("wxyz", ["A", "B", "C", "D"], [REFINED, REFINED], initial=INITIAL)
    svg = draw_svg(pictures)
    drawn = groups(svg)
    tops = [float(NUMBER.findall(each.get("transform"))[1]) for each in drawn]

    assert len({tuple(word_places(each)) for each in drawn}) == 1
    assert tops[0] == 0
    for top, bottom, each in zip(
        tops, [*tops[1:], float(ElementTree.fromstring(svg).get("height"))], drawn, strict=True
    ):
        assert all(0 < float(text.get("y")) < bottom - top for text in parts(each, "text"))


def test_right_to_left_words_run_from_the_right():
    hebrew = Picture(("אני", "אוהב", "cats"), graph=Graph.of_words([2, 0, 2], ["nsubj", "root", "obj"]))
    (drawn,) = groups(draw_svg([hebrew]))
    places = word_places(drawn)

    assert places == sorted(places, reverse=True)
    assert "unicode-bidi: plaintext" in draw_svg([hebrew])


def test_a_long_word_is_cut_off_and_has_a_tooltip():
    root = ElementTree.fromstring(draw_svg([Picture(("x" * 10_000, "y"))]))

    assert float(root.get("width")) < 600
    first = parts(root, "text")[0]
    assert first.text == "x" * 39 + "…"
    assert first.find(SVG + "title").text == "x" * 10_000


def test_a_long_title_makes_the_drawing_wider():
    root = ElementTree.fromstring(draw_svg([Picture(("y",), title="word " * 20)]))

    assert float(root.get("width")) > 600


def test_tooltips_name_the_other_graph():
    after, gold = Graph.of_words([2, 0], ["nsubj", "root"]), Graph.of_words([0, 0], ["root", "top"])

    svg = draw_svg([Picture(("Dogs", "bark"), graph=after, before=gold, before_name="gold")])

    assert "Dogs ← ROOT: root (gold)" in svg
    assert "bark ← ROOT: root (gold: top)" in svg
    assert "before" not in svg


def test_the_returned_width_is_that_of_the_drawing():
    svg, width = svg_and_width([Picture(("Dogs", "bark"), title="a title much wider than the words are")])

    assert float(ElementTree.fromstring(svg).get("width")) == pytest.approx(width, abs=0.05)
    assert width > 200


def test_tooltips_show_the_confidence():
    svg = draw_svg([Picture(("Dogs", "bark"), (), Graph.of_words([2, 0], ["nsubj", "root"]), None, (0.874, 1.0))])

    assert "<title>Dogs ← bark: nsubj, 0.87</title>" in svg
    assert "<title>bark ← ROOT: root, 1.00</title>" in svg


def test_multiword_tokens_are_below_their_words():
    picture = Picture(("do", "n't", "go"), tokens=(Token("don't", range(1, 3), "_"), Token("go", range(3, 4), "_")))
    (drawn,) = groups(draw_svg([picture]))
    (token,) = [each for each in parts(drawn, "text") if each.get("class") == "token"]
    first, second, _ = word_places(drawn)

    assert token.text == "don't"
    assert float(token.get("y")) < float(ElementTree.fromstring(draw_svg([picture])).get("height"))
    assert float(token.get("x")) == pytest.approx((first + second) / 2, abs=0.1)


@given(st.integers(1, 7).flatmap(graphs))
def test_any_graph_has_a_line_and_an_arrow_for_each_word(graph):
    lines, boxes = arcs_drawn(Picture(("w",) * len(graph), graph=graph))

    assert len(lines) == len(boxes) == len(graph)
    assert all(line.height < line.ground for line in lines)
    assert len({(line.height, line.reach) for line in lines}) == len(graph)


def test_no_pictures_make_an_empty_drawing():
    assert groups(draw_svg([])) == []
    assert len(groups(draw_svg([Picture(())]))) == 1


def test_thousands_of_words_are_drawn_in_a_second():
    heads = [0, *[1 + word * 7919 % word for word in range(1, 5000)]]
    picture = Picture(("word",) * 5000, ("X",) * 5000, Graph.of_words(heads, ["label"] * 5000))

    started = time.process_time()
    svg = draw_svg([picture])

    assert time.process_time() - started < 3  # a tenth of that is normal
    assert svg.count('class="form"') == 5000


@given(any_pictures())
def test_each_line_and_label_identifies_its_arc(picture):
    root = ElementTree.fromstring(draw_svg([picture]).encode())

    found = [
        (int(each.get("data-word")), int(each.get("data-head")), each.get("data-label"), each.get("class"))
        for each in root.iter(SVG + "g")
        if each.get("data-word")
    ]

    expected = [(arc.word, arc.head, attribute_text(arc.label), arc.kind) for arc in arcs_of(picture)]
    assert sorted(found) == sorted(expected * 2)
    forms = [each for each in parts(root, "text") if each.get("class") == "form"]
    assert [each.get("data-word") for each in forms] == [str(word) for word in range(1, len(picture.forms) + 1)]


def attribute_text(text: str) -> str:
    """Return a text as XML reads it back from an attribute."""
    return re.sub(r"[\t\n\r]", " ", visible(text))


def test_confidence_follows_the_label_on_request_with_a_question_mark_if_low():
    graph = Graph.of_words([2, 0], ["nsubj", "root"])
    picture = Picture(("Dogs", "bark"), graph=graph, confidence=(0.41, 0.8), shows_confidence=True)

    (drawn,) = groups(draw_svg([picture]))

    boxes = lines_and_boxes(drawn)[1]
    assert sorted(box.text for box in boxes) == ["nsubj 0.41?", "root 0.80"]
    assert [each.get("class") for each in parts(drawn, "tspan")] == ["sure unsure", "sure"]
    plain = arcs_drawn(replace(picture, shows_confidence=False))[1]
    assert sorted(box.text for box in plain) == ["nsubj", "root"]
    assert min(box.right - box.left for box in boxes) > max(box.right - box.left for box in plain)


def test_an_unattached_word_has_no_arc():
    picture = Picture(tuple("wxyz"), graph=REFINED, unattached=frozenset({1, 3}))

    lines, boxes = arcs_drawn(picture)

    assert len(lines) == len(boxes) == 2


def test_frames_have_the_same_size_and_word_places_and_no_titles():
    pictures = step_pictures("wxyz", ["A", "B", "C", "D"], [REFINED, REFINED], initial=INITIAL)
    bare = Picture(tuple("wxyz"), ("A", "B", "C", "D"), title="nothing yet")

    frames = [ElementTree.fromstring(svg) for svg in draw_frames([bare, *pictures])]

    def words(root):
        return [(each.get("x"), each.get("y")) for each in parts(root, "text") if each.get("class") == "form"]

    assert len(frames) == 4
    assert len({(each.get("width"), each.get("height")) for each in frames}) == 1
    assert all(0 < line.height for frame in frames for line in lines_and_boxes(frame)[0])
    assert all(words(each) == words(frames[0]) for each in frames)
    assert not any(each.get("class") == "title" for frame in frames for each in parts(frame, "text"))
    assert [sum(1 for each in frame.iter(SVG + "g") if each.get("class") == "old") for frame in frames] == [0, 0, 2, 0]


def test_no_label_covers_a_line_that_starts_next_to_it():
    graph = Graph.of_words([2, 0, 1], ["a rather long label", "root", "dep"])

    lines, boxes = arcs_drawn(Picture(tuple("xyz"), graph=graph))

    (box,) = [box for box in boxes if box.text == "a rather long label"]
    (line,) = [line for line in lines if line.reach[1] - line.reach[0] > box.right - box.left + 40]
    assert line.height < box.top  # it goes up next to the label
    assert line.start < box.left - 1


# Pictures and steps


FORMS = ("The", "old", "man")
START = Graph.of_words([3, 3, 0], ["det", "amod", "root"])
FIRST = Graph.of_words([2, 3, 0], ["det", "nsubj", "root"])
SECOND = Graph.of_words([2, 3, 0], ["det", "obj", "root"])


def test_each_step_is_compared_with_the_one_before():
    initial, first, second, third = step_pictures(FORMS, [], [FIRST, SECOND, SECOND], initial=START)

    assert (initial.graph, initial.before, initial.changed) == (START, None, frozenset())
    assert (first.graph, first.before, first.changed) == (FIRST, START, frozenset({1, 2}))
    assert (second.graph, second.before, second.changed) == (SECOND, FIRST, frozenset({2}))
    assert (third.graph, third.before, third.changed) == (SECOND, SECOND, frozenset())


def test_titles_give_the_number_of_changes():
    pictures = step_pictures(FORMS, [], [FIRST, SECOND, SECOND], initial=START)

    assert [picture.title for picture in pictures] == [
        "initial graph",
        "step 1: 2 arcs changed",
        "step 2: 1 arc changed",
        "step 3: no arc changed",
    ]


def test_without_an_initial_graph_the_first_step_has_no_changes():
    first, second = step_pictures(FORMS, ["DET", "ADJ", "NOUN"], [FIRST, SECOND])

    assert (first.title, first.changed, first.tags) == ("step 1", frozenset(), ("DET", "ADJ", "NOUN"))
    assert second.changed == {2}


def test_the_text_has_multiword_tokens_in_place_of_their_words():
    tokens = (Token("I", range(1, 2), "_"), Token("don't", range(2, 4), "_"), Token("know", range(4, 5), "_"))
    picture = Picture(("I", "do", "n't", "know"), tokens=tokens)

    assert picture.text == "I don't know"
    assert picture.multiword_tokens == (tokens[1],)
    assert Picture(("I", "know")).text == "I know"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tags": ("DET",)}, "tags: 1 values for 3 words"),
        ({"graph": Graph.of_words([0], ["root"])}, "graph: 1 values for 3 words"),
        ({"before": Graph.of_words([0], ["root"])}, "before: 1 values for 3 words"),
        ({"confidence": (0.5, 0.5)}, "confidence: 2 values for 3 words"),
        ({"tokens": (Token("x", range(0, 2), "_"),)}, r"words must be in 1\.\.3"),
        ({"tokens": (Token("x", range(3, 5), "_"),)}, r"words must be in 1\.\.3"),
    ],
)
def test_values_that_do_not_match_the_words_are_an_error(given, message):
    with pytest.raises(ValueError, match=message):
        Picture(FORMS, **given)


@given(text=st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=200))
@settings(max_examples=30)
def test_a_caption_is_drawn_in_lines_that_fit_the_picture(text):
    root = ElementTree.fromstring(draw_svg([Picture(("Dogs", "bark"), caption=text)]).encode())

    lines = [each for each in root.iter() if each.get("class") == "caption"]
    drawn = "".join("".join(line.itertext()) for line in lines)
    assert drawn.replace(" ", "") == visible(text).replace(" ", "")
    assert all(float(line.get("y")) < float(root.get("height")) for line in lines)
    assert all(text_width("".join(line.itertext()), 14) <= float(root.get("width")) for line in lines)
