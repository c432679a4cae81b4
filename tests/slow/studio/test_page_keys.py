"""Keys, fields and looks of the page, in a real browser: each key does what the help says, and every arc can be hit."""

import pytest

from tests.studio.test_page import long_sentence
from tests.support.pages import HEBREW
from tests.support.pages import conllu as conllu_of
from tests.support.studio import (
    DOG,
    RAIN,
    STARS,
    TREES,
    Stub,
    arc_of,
    focused,
    form,
    go_to,
    measured,
    press,
    reference,
    said,
    selected,
    until,
    until_arc,
    until_done,
    until_sentence,
)

# Of B, the word "two" has another head, label and lemma, and the full stop another head.
OF_B = STARS.replace("two\ttwo", "two\t2").replace("4\tnummod", "2\tobl").replace("2\tpunct", "4\tpunct") + DOG + RAIN
PHONE = {"width": 390, "height": 844}
SELECTS = [
    ("ArrowRight ArrowRight ArrowRight ArrowLeft", 2),
    ("End Home ArrowLeft", 1),
    ("End ArrowUp ArrowUp ArrowDown", 1),
    ("Home Escape", None),
    ("Home Shift+ArrowRight Shift+ArrowRight Shift+ArrowLeft", [1, 2]),
    (". . .", 3),
]
CHANGES = [  # a word, keys (or a text in quotation marks), and what the file has afterwards
    (3, "h ArrowLeft ArrowLeft Enter", "two\ttwo\tNUM\tCD\t_\t2\tnummod\t_\tKeep=Head"),
    (4, "h ArrowLeft ArrowLeft ArrowLeft ArrowLeft Enter", "Number=Plur\t0\troot\t_\tSpaceAfter=No|Keep=Head"),
    (3, "l 'vo' Tab", "_\t4\tvocative"),
    (3, "l ArrowUp Enter", "_\t4\tadvcl"),
    (3, "l 8", "_\t4\tobl"),
    (3, "0", "_\t4\tadvcl"),
    (3, "c ArrowLeft c ArrowRight c", "_\t4\tnummod\t_\t_"),
    (0, "Shift+C", "2\tpunct\t_\tKeep=Arc"),
    (4, "-", "NotHead=2"),
    (4, "_", "NotLabel=obj"),
    (0, "p", "Number=Plur\t1\tdep"),
    (0, "t", "_\t2\tobl\t_\tKeep=Arc"),
    (4, "m 'starlet' Enter", "stars\tstarlet"),
    (4, "f 'Number=Plur|Gender=Fem' Enter", "Gender=Fem|Number=Plur"),
    (4, "w 'planets' Enter", "# text = She saw two planets."),
    (4, "s Home ArrowRight ArrowRight ArrowRight ArrowRight | Enter", "4\tstar\tstar"),
    (4, "s Home ArrowRight ArrowRight ArrowRight ArrowRight | Shift+Enter", "4-5\tstars"),
    (3, "g", "3\ttwo stars"),
    (2, "Shift+ArrowRight Shift+ArrowRight g", "2\tsaw two stars"),
    (3, "Shift+ArrowRight Shift+G", "3-4\ttwo stars"),
    (3, "Shift+S", "# text = two stars."),
    (0, "Shift+J", "# text = She saw two stars. The old dog slept near the door."),
    (0, "# Control+End '\n# note = seen' Escape", "# text = She saw two stars.\n# note = seen\n1\tShe"),
    (0, "Enter Shift+N o n Enter", "slept near the door.\n# treefine_status = done"),
    (0, "q ArrowDown ArrowDown Enter d", "Rain fell.\n# treefine_status = doubtful"),
    (0, "/ 'dog' Enter PageDown PageUp d", "near the door.\n# treefine_status = doubtful"),
    (3, "8 Control+z Control+Shift+Z", "_\t4\tobl"),
    (3, "b a", "two\ttwo\tNUM\tCD\t_\t4\tnummod\t_\tKeep=Arc"),
    (3, "b", "two\t2\tNUM\tCD\t_\t2\tobl\t_\tKeep=Arc"),
    (0, "Shift+A Shift+B", "4\tpunct\t_\tKeep=Arc"),
]


@pytest.fixture
def studio(open_studio):
    """Return a studio with a parser and two annotators."""
    stub = Stub(confidences={3: 0.3, 5: 0.4}, suggests={3: (2, "obl")}, parses=((4, 1, "dep"),))
    return open_studio(TREES, partner=stub, references=[reference(TREES, "A.conllu"), reference(OF_B, "B.conllu")])


def do(page, keys):
    """Press keys, each after what the one before has caused; a text in quotation marks is typed."""
    for key in keys.split(" ") if "'" not in keys else pieces(keys):
        if key.startswith("'"):
            page.keyboard.type(key.strip("'"))
        else:
            page.keyboard.press(key)
        until_done(page)


def pieces(keys):
    before, text, after = keys.split("'")
    return [*before.split(), f"'{text}'", *after.split()]


@pytest.mark.parametrize(("keys", "words"), SELECTS, ids=[keys for keys, _ in SELECTS])
def test_a_key_selects_words(page, keys, words):
    page.wait_for_selector("#word-3.doubtful")
    do(page, keys)

    assert selected(page) == words


@pytest.mark.parametrize(("word", "keys", "content"), CHANGES, ids=[f"{word} {keys}" for word, keys, _ in CHANGES])
def test_a_key_changes_the_file(studio, page, word, keys, content):
    page.wait_for_selector("#word-3.doubtful")
    if word:
        go_to(page, word)
    do(page, keys)

    until(lambda: content in studio.document.content().decode())


def test_the_help_lists_all_keys_and_takes_all_keys_until_it_is_closed(studio, page):
    press(page, "?")
    page.wait_for_selector("#help[open] >> text=make the word the root")
    press(page, "d", "Shift+C")
    press(page, "Escape")

    assert page.is_hidden("#help")
    assert (studio.document.revision, said(page, "#place")) == (0, "1 · stars")


def test_a_tree_with_two_roots_is_done_only_after_a_second_enter(open_studio):
    studio = open_studio(RAIN.replace("2\tnsubj", "0\troot") + STARS)
    page = studio.open()
    press(page, "Enter")
    page.wait_for_selector("#problem >> text=This is not a valid tree yet: The sentence has 2 roots")
    assert studio.document.status(1) == "open"
    press(page, "Enter")

    until_sentence(page, "stars")
    assert studio.document.status(1) == "done"


def test_keys_are_for_the_words_on_which_they_were_pressed_also_while_the_parser_thinks(open_studio):
    stub = Stub()
    studio = open_studio(partner=stub)
    page = studio.open()
    stub.may_answer.clear()
    go_to(page, 1)
    press(page, "3", "ArrowRight", "ArrowRight", "2", "ArrowRight", "r", "ArrowRight")
    stub.may_answer.set()

    until_arc(page, 4, "root of ROOT")
    assert studio.document.sentence(1).labels == ("det", "dep", "punct", "root", "punct")
    assert selected(page) == 5


def test_the_answer_of_the_parser_does_not_disturb_a_person_who_types(open_studio):
    stub = Stub(confidences={3: 0.2})
    studio = open_studio(partner=stub)
    stub.may_answer.clear()
    page = studio.open()
    go_to(page, 4)
    press(page, "u")
    page.keyboard.type("PRO")
    with page.expect_response("**/api/advice*"):
        stub.may_answer.set()
    page.keyboard.type("PN")
    press(page, "Enter")

    until(lambda: studio.document.sentence(1).upos[3] == "PROPN")
    page.wait_for_selector("#word-3.doubtful")


def test_an_invalid_block_is_corrected_in_its_lines(open_studio):
    broken = STARS.replace("\t4\tnummod", "\t9\tnummod")
    studio = open_studio(broken + RAIN)
    page = studio.open()
    assert page.is_hidden("#tree")
    assert said(page, "#faults").startswith("line 5: ")
    press(page, "r", "Enter", "n", "Shift+N")  # keys for words do nothing here
    until_done(page)
    until_sentence(page, "stars")
    assert page.input_value("#lines") == broken.strip()
    page.fill("#lines", "1\tnonsense")
    page.click("text=Apply")
    page.wait_for_selector("#problem >> text=Line 1:")
    page.fill("#lines", STARS.strip())
    page.click("text=Apply")

    until_arc(page, 3, "nummod of stars")
    press(page, "e")
    assert focused(page) == "lines"
    press(page, "Escape")
    assert page.is_hidden("#lines-form")
    assert studio.on_disk() == STARS + RAIN


def test_the_head_and_all_columns_can_be_edited_in_the_panel(studio, page):
    go_to(page, 3)
    page.fill("#head", "9")
    press(page, "Enter")
    page.wait_for_selector("#problem >> text=The head must be another word, from 1 to 5, or 0 for ROOT.")
    page.fill("#head", "2")
    press(page, "Enter")
    until_arc(page, 3, "nummod of saw")
    page.click("#columns summary")
    page.fill("#column-fields [data-column=misc]", "Gloss=étoile")
    press(page, "Enter")

    until(lambda: studio.document.sentence(1)[2].misc == "Gloss=étoile")


@pytest.mark.parametrize("mode", ["wraps", "scrolls"])
def test_the_line_and_the_label_of_each_arc_of_a_long_sentence_can_be_clicked(open_studio, mode):
    width, n_words = (1280, 23) if mode == "wraps" else (2600, 18)
    page = open_studio(long_sentence(n_words)).open(viewport={"width": width, "height": 2000})
    if mode == "scrolls":
        press(page, "z", "z")
        page.wait_for_selector("#tree.scrolls")

    places = measured(page, "places")

    assert {each["word"] for each in places} == {*range(1, page.locator("#tree .word").count() + 1)}
    for each in places:
        press(page, "Escape")
        page.mouse.click(*each["place"])
        assert (each, selected(page), focused(page)) == (each, each["word"], "label")
        press(page, "Escape")


# Looks


def lines(page):
    """Return the number of lines of words."""
    return page.evaluate("new Set([...document.querySelectorAll('#tree .word')].map((each) => each.offsetTop)).size")


def test_a_long_sentence_fits_the_width_or_scrolls(open_studio):
    page = open_studio(long_sentence(49)).open()
    page.set_viewport_size({"width": 1900, "height": 800})
    press(page, "z")
    assert lines(page) == 1
    assert page.evaluate("document.querySelector('#tree').scrollWidth <= document.querySelector('#tree').clientWidth")
    press(page, "z")
    assert lines(page) == 1
    assert page.evaluate("document.querySelector('#tree').scrollWidth > document.querySelector('#tree').clientWidth")
    press(page, "End")

    tree, last = page.locator("#tree").bounding_box(), page.locator("#tree .word.selected").bounding_box()
    assert last["x"] + last["width"] <= tree["x"] + tree["width"] + 1
    page.reload()
    page.wait_for_selector("#tree.scrolls .word")


def test_choices_of_the_view_menu_are_remembered(page):
    width = page.eval_on_selector("#word-2", "word => word.offsetWidth")
    page.focus("#view")
    press(page, "Enter", "Tab", "Tab", "ArrowRight", "ArrowRight", "Tab", "Space", "Escape")
    assert (page.is_hidden("#view-menu"), focused(page), selected(page)) == (True, "view", None)
    page.reload()
    page.wait_for_selector("#tree .word")

    assert page.input_value("#zoom") == "120"
    assert page.locator("#tree .cell.upos").count() == 0
    assert page.eval_on_selector("#word-2", "word => word.offsetWidth") > 1.1 * width


def test_a_sentence_from_right_to_left_starts_at_the_right(open_studio):
    studio = open_studio(conllu_of(HEBREW))
    page = studio.open()
    first, last = form(page, 1).bounding_box(), form(page, 3).bounding_box()
    assert first["x"] > last["x"]
    press(page, "Home", "ArrowLeft", "ArrowLeft")
    assert selected(page) == 3
    press(page, "h", "ArrowRight", "Enter")

    until_arc(page, 3, "obj of אני")
    assert arc_of(studio.document, 3) == (1, "obj")
    assert measured(page, "tooWide") == []


def test_on_a_phone_the_page_is_not_wider_than_the_screen_and_taps_attach_a_word(open_studio):
    studio = open_studio(TREES, partner=Stub(confidences={3: 0.2}, suggests={3: (2, "obl")}))
    page = studio.open(viewport=PHONE, has_touch=True, is_mobile=True)
    page.wait_for_selector("#suggestions .take")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    size = page.evaluate("parseFloat(getComputedStyle(document.querySelector('#tree .form')).fontSize)")
    assert size >= 14
    form(page, 3).tap()
    assert selected(page) == 3
    page.tap("[data-do=head]")
    form(page, 2).tap()
    until_arc(page, 3, "nummod of saw")

    tree, panel = page.locator("#tree").bounding_box(), page.locator("#panel").bounding_box()
    assert tree["y"] + tree["height"] <= panel["y"]
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert measured(page, "tooWide") == []
    assert arc_of(studio.document, 3) == (2, "nummod")


def test_all_controls_have_names_and_are_at_least_24_pixels_high(open_studio):
    page = open_studio(TREES, RAIN, partner=Stub(confidences={4: 0.2}, suggests={4: (3, "obl")})).open()
    page.wait_for_selector("#suggestions .take")
    go_to(page, 3)
    press(page, "s")
    page.click("#columns summary")
    page.evaluate(
        "for (const each of document.querySelectorAll('#lines-form, #welcome, #messages p')) each.hidden = false"
    )
    page.evaluate(
        "for (const each of document.querySelectorAll('.menu')) { each.popover = 'manual'; each.showPopover(); }"
        "document.querySelector('#help').show()"
    )
    page.focus("#label")

    found = measured(page, "controls")
    assert len(found) > 60
    assert [each["html"] for each in found if not each["name"] or each["height"] < 24] == []
