"""The studio in a real browser: arcs, labels, tags, words and sentences, with the mouse and with every key."""

import pytest

from tests.support.studio_pages import (
    DOG,
    RAIN,
    STARS,
    TREES,
    arc_of,
    conllu,
    decided,
    drag,
    focused,
    form,
    go_to,
    middle,
    press,
    said,
    selected,
    until_arc,
    until_sentence,
)
from tests.support.studio_pages import Stub as Parser


def saved(page, *keys):
    """Press keys that change the sentence, and wait for the answer."""
    with page.expect_response("**/api/edit") as answer:
        press(page, *keys)
    page.wait_for_function("() => true")
    return answer.value.json()


# Arcs with the mouse


def test_a_word_is_dragged_onto_its_head_and_the_label_field_waits(studio, page):
    drag(page, 3, 2)

    until_arc(page, 3, "nummod of saw", is_decided=True)
    assert focused(page) == "label"
    assert arc_of(studio.document, 3) == (2, "nummod")
    assert "3\ttwo\ttwo\tNUM\tCD\t_\t2\tnummod\t_\tKeep=Head\n" in studio.on_disk()


def test_a_word_is_dragged_onto_root(studio, page):
    drag(page, 4, 0)

    until_arc(page, 4, "root of ROOT")
    assert studio.document.sentence(1).graph.is_tree


def test_a_drop_beside_the_words_changes_nothing(studio, page):
    page.mouse.move(*middle(page, form(page, 3)))
    page.mouse.down()
    page.mouse.move(640, 700, steps=3)
    page.mouse.up()

    assert studio.document.revision == 0
    assert page.locator("#tree .drag").count() == 0


def test_clicking_a_word_and_then_its_head_attaches_it(studio, page):
    form(page, 3).click()
    assert selected(page) == 3
    form(page, 2).click()

    until_arc(page, 3, "nummod of saw")
    assert arc_of(studio.document, 3) == (2, "nummod")


def test_clicking_a_word_twice_makes_it_the_root(studio, page):
    form(page, 4).click()
    form(page, 4).click()

    until_arc(page, 4, "root of ROOT")


def test_escape_between_two_clicks_selects_the_second_word_instead(studio, page):
    form(page, 3).click()
    press(page, "Escape")
    form(page, 2).click()

    assert selected(page) == 2
    assert studio.document.revision == 0


def test_every_line_and_label_of_every_arc_opens_its_own_arc(open_studio):
    page = open_studio(DOG).open()
    places = page.evaluate(
        """() => [...document.querySelectorAll('#tree .arc')].flatMap((arc) => {
            const line = arc.querySelector('.line'), all = line.getTotalLength();
            const box = document.querySelector('#tree svg').getBoundingClientRect();
            const label = arc.querySelector('text').getBoundingClientRect();
            const points = [all / 2, all - 8].map((at) => line.getPointAtLength(at));
            const on = points.map(({x, y}) => [x + box.x, y + box.y]);
            return [...on, [label.x + label.width / 2, label.y + label.height / 2]]
                .map(([x, y]) => [+arc.dataset.word, x, y]);
        })"""
    )

    for word, x, y in places:
        page.mouse.click(x, y)
        assert selected(page) == word, (word, x, y)
        assert focused(page) == "label"
    assert len(places) == 24


def test_a_tag_is_edited_where_it_is_and_no_word_moves(studio, page):
    before = form(page, 4).bounding_box()
    page.click("#tree .word[data-word='3'] .upos")
    assert form(page, 4).bounding_box() == before
    page.keyboard.type("DET")
    press(page, "Enter")

    page.wait_for_selector("#word-3[aria-label*=DET]")
    assert studio.document.sentence(1).upos[2] == "DET"


# Labels


def test_a_label_is_completed_from_the_labels_of_the_treebank(studio, page):
    go_to(page, 4)
    press(page, "l")
    page.keyboard.type("ob")
    assert page.locator("#labels li").all_inner_texts()[:2] == ["obj", "obl"]
    press(page, "ArrowDown", "Enter")

    until_arc(page, 4, "obl of saw", is_decided=True)
    assert arc_of(studio.document, 4) == (2, "obl")


def test_tab_takes_the_first_completion(studio, page):
    go_to(page, 4)
    press(page, "l")
    page.keyboard.type("nu")
    press(page, "Tab")

    until_arc(page, 4, "nummod of saw")


@pytest.mark.parametrize("place", ["words", "label field"])
def test_digits_are_the_ten_most_frequent_labels(studio, page, place):
    frequent = page.evaluate("() => fetch('api/project').then((found) => found.json())")["files"][0]["labels"]
    third = [label for label in frequent if label != "root"][2]
    go_to(page, 4)
    if place == "label field":
        press(page, "l")
    saved(page, "3")

    until_arc(page, 4, f"{third} of saw")


def test_an_unknown_label_is_refused_once(studio, page):
    go_to(page, 4)
    press(page, "l")
    page.keyboard.type("nsbj")
    press(page, "Enter")

    page.wait_for_selector("#label-problem:not(:empty)")
    assert "No word of this treebank has the label 'nsbj'. Did you mean nsubj?" in said(page, "#label-problem")
    assert arc_of(studio.document, 4) == (2, "obj")

    press(page, "Enter")
    until_arc(page, 4, "nsbj of saw")


# Words with the keyboard


def test_arrows_home_and_end_move_between_words_and_arcs(page):
    press(page, "Home")
    assert selected(page) == 1
    press(page, "ArrowRight", "ArrowRight")
    assert selected(page) == 3
    press(page, "ArrowUp")
    assert selected(page) == 4
    press(page, "ArrowDown")
    assert selected(page) == 3
    press(page, "End", "ArrowLeft")
    assert selected(page) == 4
    press(page, "Escape")
    assert selected(page) is None


@pytest.mark.parametrize("keys", [("ArrowLeft", "ArrowLeft"), ("2",)])
def test_h_chooses_the_head_with_arrows_or_its_number(studio, page, keys):
    go_to(page, 3)
    press(page, "h", *keys, "Enter")

    until_arc(page, 3, "nummod of saw")


def test_r_makes_a_word_the_root(studio, page):
    go_to(page, 4)
    saved(page, "r")

    until_arc(page, 4, "root of ROOT")


def test_c_confirms_and_frees_and_capital_c_confirms_all(studio, page):
    go_to(page, 1)
    saved(page, "c")
    assert decided(studio.document) == [1]
    saved(page, "c")
    assert decided(studio.document) == []
    saved(page, "C")
    assert decided(studio.document) == [1, 2, 3, 4, 5]


def test_forbidden_heads_and_labels_are_shown_at_the_word(studio, page):
    go_to(page, 4)
    saved(page, "-")
    saved(page, "_")

    assert page.locator("#word-4 .forbidden").all_inner_texts() == ["✗ not 2", "✗ not obj"]
    assert "NotHead=2|NotLabel=obj" in studio.on_disk()


def test_marks_of_the_file_are_shown_and_removed(open_studio):
    studio = open_studio(STARS.replace("2\tobj\t_\tSpaceAfter=No", "2\tobj\t_\tSpaceAfter=No|Keep=Arc|NotHead=1"))
    page = studio.open()
    until_arc(page, 4, "obj of saw", is_decided=True)
    assert page.inner_text("#word-4 .forbidden") == "✗ not 1"

    go_to(page, 4)
    saved(page, "c")

    assert studio.on_disk() == STARS


@pytest.mark.parametrize(
    ("key", "column", "value", "stored"),
    [
        ("u", "upos", "DET", "DET"),
        ("x", "xpos", "JJ", "JJ"),
        ("m", "lemma", "two_", "two_"),
        ("f", "feats", "NumType=Card|Case=Nom", "Case=Nom|NumType=Card"),
        ("w", "form", "ten", "ten"),
    ],
)
def test_keys_edit_the_columns_under_the_word(studio, page, key, column, value, stored):
    go_to(page, 3)
    press(page, key)
    page.keyboard.press("Control+a")
    page.keyboard.type(value)
    saved(page, "Enter")

    sentence = studio.document.sentence(1)
    assert getattr(sentence[2], column) == stored
    assert sentence.text == ("She saw ten stars." if key == "w" else "She saw two stars.")


def test_escape_leaves_a_column_as_it_is_and_tab_goes_to_the_next_word(studio, page):
    go_to(page, 3)
    press(page, "u")
    page.keyboard.type("X")
    press(page, "Escape")
    assert studio.document.revision == 0

    press(page, "u")
    page.keyboard.type("X")
    saved(page, "Tab")
    page.wait_for_selector("#word-4 .in-place")
    press(page, "Escape")

    assert studio.document.sentence(1).upos == ("PRON", "VERB", "X", "NOUN", "PUNCT")


def test_wrong_features_are_refused_with_a_reason(studio, page):
    go_to(page, 3)
    press(page, "f")
    page.keyboard.type("plural")
    press(page, "Enter")

    page.wait_for_selector("#problem:not([hidden])")
    assert "Name=Value" in said(page, "#problem")
    assert studio.document.revision == 0


def test_s_splits_a_word_and_g_joins_it_again(studio, page):
    go_to(page, 4)
    press(page, "s", "End", "ArrowLeft")
    page.keyboard.type("|")
    saved(page, "Enter")
    assert studio.document.sentence(1).forms == ("She", "saw", "two", "star", "s", ".")

    go_to(page, 4)
    saved(page, "g")
    assert studio.on_disk() == TREES


def test_shift_enter_splits_into_the_words_of_one_token(studio, page):
    go_to(page, 4)
    press(page, "s", "End", "ArrowLeft")
    page.keyboard.type("|")
    saved(page, "Shift+Enter")

    page.wait_for_selector("#word-4 .token")
    assert "4-5\tstars\t" in studio.on_disk()


def test_capital_g_makes_and_removes_a_multiword_token_of_the_selected_words(studio, page):
    go_to(page, 1)
    press(page, "Shift+ArrowRight", "Shift+ArrowRight")
    assert selected(page) == [1, 2, 3]
    saved(page, "G")
    assert [len(each.words) for each in studio.document.sentence(1).tokens()] == [3, 1, 1]

    go_to(page, 2)
    saved(page, "G")
    assert [len(each.words) for each in studio.document.sentence(1).tokens()] == [1] * 5


def test_capital_s_splits_a_sentence_and_capital_j_joins_it_again(studio, page):
    go_to(page, 3)
    saved(page, "S")
    page.wait_for_function("() => document.querySelectorAll('.row').length === 4")
    assert [each.forms for _, each in studio.document.sentences()][:2] == [("She", "saw"), ("two", "stars", ".")]

    saved(page, "J")
    page.wait_for_function("() => document.querySelectorAll('.row').length === 3")
    assert studio.document.sentence(1).text == "She saw two stars."


def test_comments_are_edited(studio, page):
    press(page, "#", "Control+End")
    page.keyboard.type("\n# note = shining")
    saved(page, "Escape")

    assert studio.document.sentence(1).comments[-1] == "# note = shining"


def test_the_lines_of_a_sentence_are_edited_and_wrong_lines_are_refused(studio, page):
    press(page, "e")
    lines = page.input_value("#lines")
    page.fill("#lines", lines.replace("\t2\tobj\t", "\t9\tobj\t"))
    page.click("#lines-form >> text=Apply")
    page.wait_for_selector("#problem:not([hidden])")
    assert "Line 6: HEAD is 9 but the sentence has 5 words." in said(page, "#problem")

    page.fill("#lines", lines.replace("\t2\tobj\t", "\t1\tobj\t"))
    page.click("#lines-form >> text=Apply")
    until_arc(page, 4, "obj of She")


def test_lines_that_are_not_a_sentence_open_as_text_and_can_be_corrected(open_studio):
    studio = open_studio(STARS.replace("5\t.", "7\t.") + RAIN)
    page = studio.open()
    page.wait_for_selector("#lines-form:not([hidden])")
    assert "ID 7 does not fit here" in said(page, "#faults")

    page.fill("#lines", page.input_value("#lines").replace("7\t.", "5\t."))
    page.click("#lines-form >> text=Apply")

    until_arc(page, 4, "obj of saw")
    assert studio.on_disk() == STARS + RAIN


def test_a_sentence_is_corrected_without_the_mouse(open_studio):
    studio = open_studio(DOG.replace("\t4\tobl\t", "\t3\tnmod\t").replace("\t3\tamod\t", "\t3\tdet\t"))
    page = studio.open()
    go_to(page, 2)
    press(page, "l")
    page.keyboard.type("am")
    saved(page, "Enter")
    go_to(page, 7)
    saved(page, "h", "4", "Enter")
    page.keyboard.type("obl")
    saved(page, "Enter")
    saved(page, "Enter")

    assert studio.document.status(1) == "done"
    assert [each for each in studio.document.sentence(1).arcs] == [
        (3, 3, 4, 0, 7, 7, 4, 4),
        ("det", "amod", "nsubj", "root", "case", "det", "obl", "punct"),
    ]


def test_undo_and_redo_go_back_through_sentences(studio, page):
    go_to(page, 4)
    saved(page, "r")
    saved(page, "Enter")
    until_sentence(page, "dog")
    go_to(page, 1)
    saved(page, "c")

    press(page, "Control+z", "Control+z", "Control+z")
    until_sentence(page, "stars")
    until_arc(page, 4, "obj of saw")
    assert studio.document.content().decode() == TREES
    press(page, "Control+Shift+Z")
    until_arc(page, 4, "root of ROOT")
    page.click("#redo")
    page.wait_for_function("() => document.getElementById('place').textContent.includes('done')")


def test_a_problem_that_the_checks_find_is_shown_and_leads_to_its_word(studio, page):
    go_to(page, 4)
    press(page, "h", "5", "Enter")
    page.wait_for_selector("#faults-part:not([hidden])")
    press(page, "Escape", "Escape")

    page.locator("#faults button.link").first.click()

    assert selected(page) is not None
    assert page.locator("#tree .word.wrong, #tree .word.odd").count() > 0


def test_multiword_tokens_and_empty_nodes_are_drawn(open_studio):
    page = open_studio(
        conllu("""
        # text = Don't go
        1-2 Don't _ _ _ _ _ _ _ _
        1 Do do AUX _ _ 3 aux 3:aux _
        2 n't not PART _ _ 3 advmod 3:advmod _
        3 go go VERB _ _ 0 root 0:root _
        3.1 there there ADV _ _ _ _ 3:advmod _
        """).replace("        ", "")
    ).open()

    assert page.inner_text("#word-1 .token") == "Don't"
    assert page.inner_text("#word-3 .empty-node") == "3.1 there"


def test_nothing_is_parsed_or_changed_when_a_file_is_opened(open_studio):
    odd = STARS.replace("\tobj\t", "\tobl:recipient\t")
    studio = open_studio(odd, partner=Parser(parses=((4, 1, "nsubj"),)))
    page = studio.open()
    until_arc(page, 4, "obl:recipient of saw")
    page.wait_for_selector("#counted:not(:empty)")

    assert studio.on_disk() == odd
    assert not (studio.document.folder).exists()
