"""Labels on the page, in a real browser: typing with completion, digits, and labels that the treebank does not have."""

from tests.support.studio_pages import (
    STARS,
    arc_of,
    covers,
    decided,
    focused,
    form,
    go_to,
    press,
    said,
    selected,
    shown_arc,
    until_arc,
    until_sentence,
)

LABELS = "nsubj punct det nummod obj amod case obl acl advcl".split()  # by frequency, then those of UD by alphabet


def options(page):
    """Return the labels that are offered, and the one that is marked."""
    offered = page.eval_on_selector_all("#labels li", "all => all.map(({dataset}) => dataset.label)")
    marked = page.eval_on_selector_all("#labels li.marked", "all => all.map(({dataset}) => dataset.label)")
    return offered, marked[0] if marked else None


@covers("label")
def test_a_typed_label_is_completed_and_enter_takes_it(studio, page):
    go_to(page, 4)
    press(page, "l")
    assert focused(page) == "label"
    assert page.get_attribute("#label", "placeholder") == "obj"
    assert options(page) == (LABELS, None)
    page.keyboard.type("ob")
    assert options(page) == (["obj", "obl", "iobj", "ob"], "obj")  # the last one is as it was typed
    assert page.get_attribute("#label", "aria-expanded") == "true"
    page.keyboard.type("l")
    press(page, "Enter")

    until_arc(page, 4, "obl of saw", is_decided=True)
    assert arc_of(studio.document, 4) == (2, "obl")
    assert focused(page) == "tree"
    assert selected(page) == 4
    assert page.input_value("#label") == ""


def test_a_label_is_completed_wherever_the_typed_letters_are_in_it_and_in_any_case(page):
    go_to(page, 4)
    press(page, "l")
    page.keyboard.type("MOD")
    assert options(page) == (["nummod", "amod", "advmod", "nmod", "MOD"], "nummod")
    press(page, *["Backspace"] * 3)
    page.keyboard.type("nmod")
    assert options(page) == (["nmod"], "nmod")


def test_the_typed_label_itself_comes_before_longer_ones_also_in_capitals(open_studio):
    studio = open_studio(STARS.replace("nummod", "NMOD-X").replace("nsubj", "NMOD-X").replace("obj", "NMOD"))
    page = studio.open()
    go_to(page, 5)
    press(page, "l")
    page.keyboard.type("NMOD")
    assert options(page) == (["NMOD", "nmod", "NMOD-X"], "NMOD")
    press(page, "Enter")

    until_arc(page, 5, "NMOD of saw", is_decided=True)
    assert arc_of(studio.document, 5) == (2, "NMOD")


def test_tab_takes_the_first_completion(studio, page):
    go_to(page, 4)
    press(page, "l")
    page.keyboard.type("vo")
    press(page, "Tab")

    until_arc(page, 4, "vocative of saw")
    assert arc_of(studio.document, 4) == (2, "vocative")


def test_arrows_choose_a_completion(studio, page):
    go_to(page, 4)
    press(page, "l", "o")
    assert options(page)[0][:3] == ["obj", "obl", "orphan"]
    press(page, "ArrowDown", "ArrowDown", "ArrowUp")
    assert options(page)[1] == "obl"
    assert page.get_attribute("#label", "aria-activedescendant") == "label-1"
    press(page, "Enter")

    until_arc(page, 4, "obl of saw")
    assert arc_of(studio.document, 4) == (2, "obl")


def test_arrows_choose_a_label_without_typing_a_letter(studio, page):
    go_to(page, 4)
    press(page, "l", "ArrowUp")
    assert options(page)[1] == LABELS[-1]
    press(page, "ArrowDown", "ArrowDown", "Enter")

    until_arc(page, 4, "punct of saw")
    assert arc_of(studio.document, 4) == (2, "punct")


def test_a_click_takes_a_completion(studio, page):
    form(page, 4).click()
    page.click("#label")
    page.keyboard.type("ob")
    page.click("#labels >> text=iobj")

    until_arc(page, 4, "iobj of saw")
    assert arc_of(studio.document, 4) == (2, "iobj")


def test_escape_leaves_the_label_as_it_is(studio, page):
    go_to(page, 4)
    press(page, "l", "o", "Escape")

    assert focused(page) == "tree"
    assert selected(page) == 4
    press(page, "ArrowRight", "l")
    assert page.input_value("#label") == ""
    assert studio.document.revision == 0


@covers("digit")
def test_digits_set_the_ten_most_frequent_labels(studio, page):
    go_to(page, 4)

    for digit, label in zip("1234567890", LABELS, strict=True):
        press(page, digit)
        until_arc(page, 4, f"{label} of saw", is_decided=True)
        assert arc_of(studio.document, 4) == (2, label)

    assert decided(studio.document) == [4]


def test_digits_work_in_the_empty_label_field_and_are_shown_there(studio, page):
    go_to(page, 4)
    press(page, "l")
    assert [each.split() for each in page.locator("#labels li").all_inner_texts()] == [
        [label, digit] for label, digit in zip(LABELS, "1234567890", strict=True)
    ]
    press(page, "8")

    until_arc(page, 4, "obl of saw")
    assert arc_of(studio.document, 4) == (2, "obl")


def test_an_unknown_label_is_refused_with_the_nearest_one_and_a_second_enter_takes_it(studio, page):
    go_to(page, 4)
    press(page, "l")
    page.keyboard.type("objj")
    press(page, "Enter")
    page.wait_for_selector("#label-problem:not(:empty)")
    assert said(page, "#label-problem") == (
        "No word of this treebank has the label 'objj'. Did you mean obj? Press Enter again to use it."
    )
    assert focused(page) == "label"
    assert studio.document.revision == 0
    press(page, "Enter")

    until_arc(page, 4, "objj of saw")
    assert said(page, "#label-problem") == ""
    press(page, "ArrowLeft", "l")
    page.keyboard.type("objj")
    press(page, "Enter")  # now the treebank has it
    until_arc(page, 3, "objj of stars")
    assert arc_of(studio.document, 3) == (4, "objj")


def test_a_refused_label_can_be_corrected(studio, page):
    go_to(page, 4)
    press(page, "l")
    page.keyboard.type("oblx")
    press(page, "Enter")
    page.wait_for_selector("#label-problem:not(:empty)")
    press(page, "Backspace", "Enter")

    until_arc(page, 4, "obl of saw")
    assert arc_of(studio.document, 4) == (2, "obl")


def test_in_the_empty_label_field_enter_is_done_and_arrows_go_to_other_words(studio, page):
    go_to(page, 4)
    press(page, "l", "ArrowLeft")
    assert (selected(page), focused(page)) == (3, "tree")
    press(page, "l", "ArrowRight")
    assert (selected(page), focused(page)) == (4, "tree")
    press(page, "l", "Enter")

    until_sentence(page, "dog")
    assert studio.document.status(1) == "done"


def test_the_label_of_one_word_is_never_given_to_another_one(studio, page):
    """Keys may be faster than the server; each one is for the word that was selected when it was pressed."""
    go_to(page, 1)
    press(page, "3", "ArrowRight", "ArrowRight", "4", "ArrowRight", "7", "ArrowRight", "2")

    until_arc(page, 5, "punct of saw", is_decided=True)
    assert studio.document.sentence(1).labels == ("det", "root", "nummod", "case", "punct")
    assert selected(page) == 5
    assert shown_arc(page, 4) == "case of saw"


def test_undo_works_in_the_empty_label_field(studio, page):
    go_to(page, 4)
    press(page, "8", "l")
    until_arc(page, 4, "obl of saw")
    press(page, "Control+z")

    until_arc(page, 4, "obj of saw")
    assert arc_of(studio.document, 4) == (2, "obj")
