"""Tags, comments and lines on the page, in a real browser: every column is edited in its place."""

import pytest

from tests.support.studio_pages import (
    RAIN,
    STARS,
    Stub,
    arc_of,
    covers,
    focused,
    form,
    go_to,
    press,
    said,
    selected,
    until_arc,
    until_sentence,
)


def cell(page, word, column):
    return page.locator(f"#word-{word} .cell.{column}")


def until_cell(page, word, column, text):
    page.wait_for_function(
        "([word, column, text]) => document.querySelector(`#word-${word} .${column}`)?.textContent === text",
        arg=[word, column, text],
    )


COLUMNS = [
    ("u", "upos", "PROPN", "PROPN"),
    ("x", "xpos", "NNPS", "NNPS"),
    ("m", "lemma", "starlet", "starlet"),
    ("f", "feats", "Number=Plur|Gender=Fem", "Fem Plur"),
    ("w", "form", "planets", "planets"),
]


@covers("upos", "xpos", "lemma", "feats", "form")
@pytest.mark.parametrize(("key", "column", "value", "shown"), COLUMNS)
def test_a_key_edits_a_column_and_enter_saves_it(studio, page, key, column, value, shown):
    go_to(page, 4)
    press(page, key)
    assert page.evaluate("document.activeElement.ariaLabel") == f"{column} of 4"
    page.keyboard.type(value)
    press(page, "Enter")

    until_cell(page, 4, column, shown)
    assert (focused(page), selected(page)) == ("tree", 4)
    values = {"form": studio.document.sentence(1).forms}.get(column) or getattr(studio.document.sentence(1), column)
    assert values[3] == ("Gender=Fem|Number=Plur" if column == "feats" else value)
    if column == "form":
        assert said(page, "#text") == "She saw two planets."
        assert "# text = She saw two planets." in studio.document.text(1)


def test_escape_leaves_a_column_as_it_is(studio, page):
    go_to(page, 4)
    press(page, "u")
    page.keyboard.type("X")
    press(page, "Escape")

    assert cell(page, 4, "upos").inner_text() == "NOUN"
    assert (focused(page), selected(page)) == ("tree", 4)
    press(page, "u", "Enter")  # nothing is typed
    assert focused(page) == "tree"
    assert studio.document.revision == 0


def test_tab_saves_a_column_and_goes_to_the_next_word(studio, page):
    go_to(page, 3)
    press(page, "x")
    page.keyboard.type("A")
    press(page, "Tab")
    page.wait_for_selector("#word-4 input")
    page.keyboard.type("B")
    press(page, "Tab")
    page.wait_for_selector("#word-5 input")
    press(page, "Shift+Tab")
    page.wait_for_selector("#word-4 input")
    page.keyboard.type("C")
    press(page, "Enter")

    until_cell(page, 4, "xpos", "C")
    assert studio.document.sentence(1).xpos == ("PRP", "VBD", "A", "C", ".")


def test_a_click_edits_a_tag_and_a_click_elsewhere_saves_it(studio, page):
    cell(page, 1, "upos").click()
    page.keyboard.type("DET")
    form(page, 3).click()

    until_cell(page, 1, "upos", "DET")
    assert selected(page) == 3
    assert studio.document.sentence(1).upos[0] == "DET"


def test_an_empty_value_is_an_underscore(studio, page):
    cell(page, 1, "feats").click()
    press(page, "Delete", "Enter")

    until_cell(page, 1, "feats", "·")
    assert studio.document.sentence(1).feats[0] == "_"


def test_a_wrong_value_is_refused_with_the_reason(studio, page):
    go_to(page, 1)
    press(page, "f")
    page.keyboard.type("Plur")
    press(page, "Enter")

    page.wait_for_selector("#problem >> text=FEATS cannot be 'Plur'. Write Name=Value")
    page.wait_for_selector("#word-1 input")
    assert page.evaluate("document.activeElement.value") == "Plur"
    assert studio.document.revision == 0
    press(page, "Home")
    page.keyboard.type("Number=")
    press(page, "Enter")

    until_cell(page, 1, "feats", "Plur")
    assert page.is_hidden("#problem")
    assert studio.document.sentence(1).feats[0] == "Number=Plur"


def test_a_refused_value_is_given_up_with_escape_or_a_click_elsewhere(studio, page):
    for give_up in (lambda: press(page, "Escape"), lambda: form(page, 3).click()):
        go_to(page, 1)
        press(page, "f")
        page.keyboard.type("Plur")
        press(page, "Tab")  # the next word is not edited
        page.wait_for_selector("#problem:not([hidden])")
        page.wait_for_selector("#word-1 input")
        give_up()
        page.wait_for_selector("#tree input", state="detached")

        assert cell(page, 1, "feats").inner_text() == "Nom"
        page.reload()
        page.wait_for_selector("#word-1")
    assert studio.document.revision == 0


def test_a_column_whose_row_is_not_shown_can_be_edited(studio, page):
    page.click("#view")
    page.click("#cells >> text=lemma")
    page.keyboard.press("Escape")
    assert page.locator("#tree .cell.lemma").count() == 0
    go_to(page, 1)
    press(page, "m")
    page.keyboard.type("SHE")
    press(page, "Enter")
    page.wait_for_selector("#place >> text=changed")

    assert studio.document.sentence(1).lemma[0] == "SHE"


def test_the_answer_of_the_parser_does_not_disturb_a_person_who_types(open_studio):
    stub = Stub(sure={3: 0.2})
    studio = open_studio(partner=stub)
    stub.may_answer.clear()
    page = studio.open()
    go_to(page, 4)
    press(page, "u")
    page.keyboard.type("PRO")
    with page.expect_response("**/api/advice*"):
        stub.may_answer.set()
    page.keyboard.type("PN")
    assert page.evaluate("document.activeElement.value") == "PROPN"
    press(page, "Enter")

    until_cell(page, 4, "upos", "PROPN")
    page.wait_for_selector("#word-3.doubtful")
    assert studio.document.sentence(1).upos[3] == "PROPN"
    assert studio.document.revision == 1


def test_all_columns_can_be_edited_in_the_panel(studio, page):
    go_to(page, 4)
    page.click("#columns summary")
    page.click("#column-fields [data-column=deps]")
    page.keyboard.type("2:obj")
    press(page, "Tab")
    assert page.evaluate("document.activeElement.dataset.column") == "misc"
    page.wait_for_selector("#place >> text=changed")
    assert page.evaluate("document.activeElement.dataset.column") == "misc"
    press(page, "End")
    page.keyboard.type("|Gloss=étoile")
    with page.expect_response("**/api/edit"):
        press(page, "Enter")

    sentence = studio.document.sentence(1)
    assert (sentence[3].deps, sentence[3].misc) == ("2:obj", "SpaceAfter=No|Gloss=étoile")
    assert "\t2:obj\tSpaceAfter=No|Gloss=étoile\n" in studio.on_disk()


@covers("comments")
def test_comments_are_edited(studio, page):
    press(page, "#")
    assert focused(page) == "comments"
    assert page.input_value("#comments") == "# sent_id = stars\n# text = She saw two stars."
    press(page, "Control+End")
    page.keyboard.type("\n# note = seen twice")
    press(page, "Escape")

    page.wait_for_selector("#place >> text=changed")
    assert focused(page) == "tree"
    assert "# text = She saw two stars.\n# note = seen twice\n1\tShe" in studio.on_disk()


@covers("lines")
def test_the_lines_are_edited(studio, page):
    press(page, "e")
    assert focused(page) == "lines"
    text = page.input_value("#lines")
    assert text == STARS.strip()
    page.fill("#lines", text.replace("4\tnummod", "2\tobl").replace("\tNUM\t", "\tADJ\t"))
    page.click("text=Apply")

    until_arc(page, 3, "obl of saw")
    assert page.is_hidden("#lines-form")
    assert arc_of(studio.document, 3) == (2, "obl")
    press(page, "e")
    page.fill("#lines", "1\tnonsense")
    page.click("text=Apply")
    page.wait_for_selector("#problem >> text=Line 1:")
    assert page.input_value("#lines") == "1\tnonsense"
    press(page, "Escape")
    page.click("#lines")
    press(page, "Escape")
    assert page.is_hidden("#lines-form")
    assert studio.document.revision == 1


def test_an_invalid_block_is_corrected_in_its_lines(open_studio):
    broken = STARS.replace("\t4\tnummod", "\t9\tnummod")
    studio = open_studio(broken + RAIN)
    page = studio.open()
    assert page.is_hidden("#tree")
    assert said(page, "#faults").startswith("line 5: ")
    assert page.input_value("#lines") == broken.strip()
    press(page, "r", "Enter", "n")  # keys for words do nothing here
    until_sentence(page, "rain")
    press(page, "Shift+N")
    until_sentence(page, "stars")
    assert page.is_visible("#lines")
    page.fill("#lines", STARS.strip())
    page.click("text=Apply")

    until_arc(page, 3, "nummod of stars")
    assert page.is_hidden("#lines-form")
    assert page.is_visible("#tree")
    assert studio.on_disk() == STARS + RAIN


def test_problems_are_shown_while_editing_and_a_click_selects_the_word(studio, page):
    go_to(page, 3)
    press(page, "u")
    page.keyboard.type("NUMERAL")
    press(page, "Enter")
    page.wait_for_selector("#word-3.wrong")
    problem = page.locator("#faults li.fault", has_text="NUMERAL")
    assert "Word 3" in problem.inner_text()
    press(page, "Escape")
    problem.locator("button").click()
    assert selected(page) == 3
    press(page, "Control+z")

    page.wait_for_selector("#word-3:not(.wrong)")
    assert page.locator("#faults li.fault").count() == 0
    assert studio.document.text(1) == STARS
