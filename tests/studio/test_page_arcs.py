"""Arcs with the mouse, in a real browser: words are dragged or clicked, and every arc can be hit."""

import pytest

from tests.support.data import DATA
from tests.support.pages import HEBREW
from tests.support.pages import conllu as conllu_of
from tests.support.studio_pages import (
    arc_of,
    decided,
    drag,
    focused,
    form,
    measured,
    middle,
    press,
    said,
    selected,
    shown_arc,
    until_arc,
    until_sentence,
)
from treefine import read_treebank


def distance(place, box):
    """Return how far a place is from a line or a box."""
    (x, y), (x1, y1, x2, y2) = place, box
    aside = max(min(x1, x2) - x, 0, x - max(x1, x2))
    above = max(min(y1, y2) - y, 0, y - max(y1, y2))
    return (aside**2 + above**2) ** 0.5


def clearest_place(part, parts):
    """Return the place on a part of an arc that is farthest from all other arcs, and its distance from them."""
    x1, y1, x2, y2 = part["box"]
    places = [(x1 + (x2 - x1) * share / 40, y1 + (y2 - y1) * share / 40) for share in range(1, 40)]
    if part["kind"] == "label":
        places = [(x, (y1 + y2) / 2) for x, _ in places]
    foreign = [each["box"] for each in parts if each["word"] != part["word"]]
    return max((min(distance(place, box) for box in foreign), place) for place in places)


def test_a_word_is_dragged_to_its_head_and_its_label_can_be_typed_at_once(studio, page):
    drag(page, 3, 2)
    page.keyboard.type("det")
    press(page, "Enter")

    until_arc(page, 3, "det of saw", is_decided=True)
    assert focused(page) == "tree"
    assert arc_of(studio.document, 3) == (2, "det")
    assert "3\ttwo\ttwo\tNUM\tCD\t_\t2\tdet\t_\tKeep=Arc\n" in studio.on_disk()


def test_a_word_that_is_dragged_to_root_replaces_the_root(studio, page):
    drag(page, 4, 0)

    until_arc(page, 4, "root of ROOT", is_decided=True)
    assert shown_arc(page, 2) == "dep of stars"
    assert arc_of(studio.document, 4) == (0, "root")
    assert arc_of(studio.document, 2) == (4, "dep")
    assert focused(page) == "tree"


def test_a_drop_outside_of_another_word_changes_nothing(studio, page):
    for place in ("#tree svg", "#panel", "#text", "#word-3 .form"):
        page.mouse.move(*middle(page, form(page, 3)))
        page.mouse.down()
        page.mouse.move(*middle(page, form(page, 2)), steps=2)
        assert page.locator("#tree.dragging svg .drag").count() == 1
        assert page.get_attribute("#word-2", "class") == "word target"
        page.mouse.move(*middle(page, page.locator(place)), steps=2)
        assert page.locator("#tree .target").count() == 0
        page.mouse.up()
        assert page.locator("#tree.dragging, #tree .drag").count() == 0
        assert selected(page) is None

    press(page, "End", "3")  # a later change comes after any change that a drop had caused
    until_arc(page, 5, "det of saw")
    assert studio.document.revision == 1
    assert shown_arc(page, 3) == "nummod of stars"


def test_a_click_on_a_word_and_a_click_on_its_head_attach_it(studio, page):
    form(page, 3).click()
    assert selected(page) == 3
    assert said(page, "#word-title") == "3 two"
    assert page.is_visible("#tree.awaiting .root-bar")
    form(page, 2).click()

    until_arc(page, 3, "nummod of saw", is_decided=True)
    assert focused(page) == "label"
    assert arc_of(studio.document, 3) == (2, "nummod")
    assert page.locator("#tree.awaiting").count() == 0


def test_a_second_click_on_the_same_word_makes_it_the_root(studio, page):
    form(page, 4).click()
    form(page, 4).click()

    until_arc(page, 4, "root of ROOT")
    assert arc_of(studio.document, 4) == (0, "root")


def test_a_click_on_a_word_and_a_click_on_root_make_it_the_root(studio, page):
    form(page, 1).click()
    page.click("#tree .root-bar")

    until_arc(page, 1, "root of ROOT")
    assert arc_of(studio.document, 1) == (0, "root")
    assert arc_of(studio.document, 2) == (1, "dep")


def test_a_key_between_two_clicks_ends_the_wait_for_a_head(studio, page):
    form(page, 3).click()
    press(page, "3")  # det is the third most frequent label
    until_arc(page, 3, "det of stars")
    form(page, 1).click()
    assert selected(page) == 1
    press(page, "3")

    until_arc(page, 1, "det of saw")
    assert arc_of(studio.document, 3) == (4, "det")
    assert arc_of(studio.document, 1) == (2, "det")


def test_attaching_a_word_below_itself_keeps_the_tree_a_tree(studio, page):
    drag(page, 2, 3)

    until_arc(page, 2, "dep of two")
    assert studio.document.sentence(1).heads == (2, 3, 4, 0, 2)
    assert shown_arc(page, 4) == "root of ROOT"


def test_the_same_head_again_confirms_the_arc(studio, page):
    drag(page, 3, 4)

    until_arc(page, 3, "nummod of stars", is_decided=True)
    assert decided(studio.document) == [3]


def test_the_head_can_be_typed_as_a_number(studio, page):
    form(page, 3).click()
    page.fill("#head", "2")
    page.keyboard.press("Enter")
    until_arc(page, 3, "nummod of saw")
    for wrong in ("9", "3", "x"):
        page.fill("#head", wrong)
        page.keyboard.press("Enter")
        page.wait_for_selector("#problem >> text=The head must be another word, from 1 to 5, or 0 for ROOT.")
        page.click("#problem button")
        assert page.is_hidden("#problem")

    assert arc_of(studio.document, 3) == (2, "nummod")
    assert studio.document.revision == 1


def test_a_click_beside_all_arcs_selects_nothing(studio, page):
    form(page, 3).click()
    box = page.locator("#tree").bounding_box()
    page.mouse.click(box["x"] + box["width"] - 20, box["y"] + 60)

    assert selected(page) is None
    assert page.is_hidden("#word-part")


def test_the_arc_under_the_mouse_is_highlighted(page):
    parts = measured(page, "parts")
    (part,) = [each for each in parts if (each["word"], each["kind"]) == (5, "flat")]
    _, place = clearest_place(part, parts)
    page.mouse.move(*measured(page, "inView", place))

    assert page.eval_on_selector_all("#tree .hover", "all => all.map(({dataset}) => dataset.word)") == ["5"]
    page.mouse.move(*middle(page, form(page, 1)))
    assert page.locator("#tree .hover").count() == 0


def long_sentence(n_words):
    sentences = read_treebank(DATA / "en_ewt-sample.conllu")
    return max((each for each in sentences if len(each) <= n_words), key=len).to_conllu()


def right_to_left(n_words):
    """Return a sentence in Hebrew with arcs of all lengths."""
    forms = [form for form, _, _ in HEBREW * n_words][:n_words]
    heads = [0, *(number // 2 if number % 3 else max(1, number - 1) for number in range(2, n_words + 1))]
    return conllu_of([(form, head, "nmod" if head else "root") for form, head in zip(forms, heads, strict=True)])


@pytest.mark.parametrize("mode", ["wraps", "scrolls", "right to left"])
def test_a_click_on_any_line_or_label_of_a_long_sentence_selects_its_arc(open_studio, mode):
    studio = open_studio(right_to_left(18) if mode == "right to left" else long_sentence(23 if mode == "wraps" else 18))
    page = studio.open()
    page.set_viewport_size({"width": 1280, "height": 2000})
    if mode == "scrolls":
        press(page, "z", "z")
        assert "scrolls" in page.get_attribute("#tree", "class").split()
    parts = measured(page, "parts")
    places = [(each["word"], each["kind"], *clearest_place(each, parts)) for each in parts]
    clicked = []

    for word, kind, room, place in places:
        if room > 1:
            page.mouse.click(*measured(page, "inView", place))
            clicked.append((word, kind, place, measured(page, "chosen")))

    assert [each for each in clicked if each[3] != [each[0], "label"]] == []
    n_words = len(studio.document.sentence(1))
    for kind in ("label", "upright"):
        assert {each[0] for each in clicked if each[1] == kind} == set(range(1, n_words + 1))
    assert len([each for each in clicked if each[1] == "flat"]) > 0.7 * n_words  # short ones are behind their labels
    assert studio.document.revision == 0


def test_a_click_on_one_of_the_next_sentences_opens_it(page):
    page.click("#context .card >> nth=1")

    until_sentence(page, "rain")
    assert page.locator("#context .card").count() == 0
