"""The looks of the page, in a real browser: writing directions, sizes, colours and accessibility."""

import pytest

from tests.support.data import DATA
from tests.support.pages import HEBREW
from tests.support.pages import conllu as conllu_of
from tests.support.studio_pages import (
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
    selected,
    until_arc,
)
from treefine import read_treebank

PHONE = {"width": 390, "height": 844}


TEXTS = """
    body|h1 span|#counted|#file-name|#place|#text|.row-text|.row-note|.row.current .row-note|#undo:not(:disabled)|#done
    #doubtful|#search::placeholder|#label::placeholder|#word-1 .form|#word-3.selected .form|#word-1 .upos|#word-1 .xpos
    #word-1 .lemma|#word-1 .feats|#word-5 .forbidden|#tree .token|.arc text|.arc.kept text|.arc.doubtful text
    .arc.moved text|#followed p|#refuse kbd|#word-sure|#panel .field > label|#labels li|#labels li.marked|#comments
    #suggestions .link|#suggestions .hint|#suggestions .take|#faults li|#problem|#fault|#tabs|#notice|#connection
    #context .link|#context .form|#context text|#keys dd|#keys kbd|#view-menu legend
"""


def long_sentence():
    sentences = read_treebank(DATA / "en_ewt-sample.conllu")
    return max((each for each in sentences if len(each) < 50), key=len).to_conllu()


def lines(page):
    """Return the number of lines of words."""
    return page.evaluate("new Set([...document.querySelectorAll('#tree .word')].map((each) => each.offsetTop)).size")


def test_a_long_sentence_fits_the_width_or_scrolls(open_studio):
    page = open_studio(long_sentence()).open()
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


def test_the_view_menu_works_with_the_keyboard_and_its_choices_are_remembered(page):
    width = page.locator("#word-2").bounding_box()["width"]
    page.focus("#view")
    press(page, "Enter", "Tab", "ArrowDown", "ArrowDown")
    assert page.is_checked("[name=wrap][value=scrolls]")
    press(page, "Tab", "ArrowRight", "ArrowRight")
    assert page.input_value("#zoom") == "120"
    press(page, "Tab", "Space")
    assert page.locator("#tree .cell.upos").count() == 0
    press(page, "Escape")
    assert page.is_hidden("#view-menu")
    assert focused(page) == "view"
    assert selected(page) is None
    page.reload()
    page.wait_for_selector("#tree.scrolls .word")

    assert page.locator("#tree .cell.upos").count() == 0
    assert page.locator("#word-2").bounding_box()["width"] > 1.1 * width
    page.click("#view")
    page.click("#text")
    assert page.is_hidden("#view-menu")


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
    studio = open_studio(TREES, partner=Stub(sure={3: 0.2}, suggests={3: [(2, "obl")]}))
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


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_all_texts_have_a_contrast_of_at_least_4_5(open_studio, colours):
    text = STARS.replace("2\tpunct\t_\t_", "2\tpunct\t_\tNotHead=3").replace("2\tnsubj\t_\t_", "2\tnsubj\t_\tKeep=Arc")
    text = (
        text.replace("\tNUM\t", "\tNUMBER\t")
        .replace("3\ttwo", "3-4\ttwostars\t_\t_\t_\t_\t_\t_\t_\t_\n3\ttwo")
        .replace("two stars.", "twostars.")
    )
    stub = Stub(sure={4: 0.2, 5: 0.3}, suggests={4: [(3, "obl")]}, follows={(3, 2): [(2, 3, "dep")]})
    page = open_studio(text + RAIN, partner=stub).open(color_scheme=colours)
    go_to(page, 3)
    press(page, "h", "2", "Enter")
    page.wait_for_selector(".arc.moved")
    page.wait_for_selector(".arc.doubtful")
    page.keyboard.type("o")
    # Messages that appear only if something fails, and what is behind a menu.
    page.evaluate("for (const each of document.querySelectorAll('#messages p, #faults-part')) each.hidden = false")
    page.evaluate("document.querySelector('#view-menu').showPopover()")

    found = measured(page, "contrasts", [each.strip() for each in TEXTS.strip().replace("\n", "|").split("|")])
    assert {name: contrast for name, contrast in found.items() if contrast < 4.5} == {}


def test_all_controls_have_names_and_are_at_least_24_pixels_high(open_studio):
    page = open_studio(TREES, RAIN, partner=Stub(sure={4: 0.2}, suggests={4: [(3, "obl")]})).open()
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
