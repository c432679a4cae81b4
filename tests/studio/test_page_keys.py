"""The keys of the page, in a real browser: each does what the help says, and a sentence needs no mouse."""

import importlib
from pathlib import Path

from tests.support.studio_pages import (
    DOG,
    RAIN,
    STARS,
    arc_of,
    conllu,
    covers,
    decided,
    drag,
    focused,
    go_to,
    press,
    said,
    selected,
    shown_arc,
    until_arc,
    until_sentence,
)


@covers("move")
def test_arrows_select_the_previous_and_the_next_word(page):
    press(page, "ArrowRight")
    assert selected(page) == 1
    press(page, "ArrowRight", "ArrowRight")
    assert selected(page) == 3
    assert page.get_attribute("#tree", "aria-activedescendant") == "word-3"
    press(page, "ArrowLeft")
    assert selected(page) == 2
    press(page, *["ArrowRight"] * 9)
    assert selected(page) == 5


def test_shift_and_arrows_select_several_words(page):
    go_to(page, 2)
    press(page, "Shift+ArrowRight", "Shift+ArrowRight")
    assert selected(page) == [2, 3, 4]
    press(page, "Shift+ArrowLeft")
    assert selected(page) == [2, 3]
    press(page, "ArrowRight")
    assert selected(page) == 3


@covers("up", "down")
def test_up_selects_the_head_and_down_the_first_dependent(page):
    go_to(page, 3)
    press(page, "ArrowUp")
    assert selected(page) == 4
    press(page, "ArrowUp")
    assert selected(page) == 2
    press(page, "ArrowUp")  # the root has no head
    assert selected(page) == 2
    press(page, "ArrowDown")
    assert selected(page) == 1


@covers("edge", "escape")
def test_home_and_end_select_the_first_and_the_last_word_and_escape_none(page):
    press(page, "End")
    assert selected(page) == 5
    press(page, "Home")
    assert selected(page) == 1
    press(page, "Escape")
    assert selected(page) is None
    assert page.is_hidden("#word-part")


@covers("head")
def test_h_and_arrows_choose_the_head(studio, page):
    go_to(page, 3)
    press(page, "h")
    assert page.get_attribute("#tree .word.target", "data-word") == "4"
    press(page, "ArrowLeft", "ArrowLeft")
    assert page.get_attribute("#tree .word.target", "data-word") == "2"
    press(page, "Enter")

    until_arc(page, 3, "nummod of saw")
    assert focused(page) == "label"
    assert page.locator("#tree .target").count() == 0
    assert arc_of(studio.document, 3) == (2, "nummod")


@covers("head", "done")
def test_h_and_a_number_choose_the_head(studio, page):
    press(page, "n")
    until_sentence(page, "dog")
    go_to(page, 2)
    press(page, "h", "7", "Enter")

    until_arc(page, 2, "amod of door")
    assert arc_of(studio.document, 2, 2) == (7, "amod")
    assert studio.document.status(2) == "open"


def test_a_head_with_two_digits_can_be_typed(open_studio):
    rows = "\n".join(
        f"{number} w{number} _ _ _ _ {0 if number == 1 else 1} {'dep' if number > 1 else 'root'} _ _"
        for number in range(1, 13)
    )
    studio = open_studio(conllu(rows))
    page = studio.open()
    go_to(page, 2)
    press(page, "h", "1", "2")
    assert page.get_attribute("#tree .word.target", "data-word") == "12"
    press(page, "3")  # there is no word 123
    assert page.get_attribute("#tree .word.target", "data-word") == "12"
    press(page, "Enter")

    until_arc(page, 2, "dep of w12")
    assert arc_of(studio.document, 2) == (12, "dep")


def test_h_can_choose_root_and_escape_cancels_it(studio, page):
    go_to(page, 4)
    press(page, "h", "Escape")
    assert page.locator("#tree .target").count() == 0
    assert selected(page) == 4
    press(page, "h", *["ArrowLeft"] * 5)
    assert page.is_visible("#tree.awaiting .root-bar.target")
    press(page, "Enter")

    until_arc(page, 4, "root of ROOT")
    assert arc_of(studio.document, 4) == (0, "root")


@covers("root")
def test_r_makes_the_word_the_root(studio, page):
    go_to(page, 4)
    press(page, "r")

    until_arc(page, 4, "root of ROOT", is_decided=True)
    assert focused(page) == "tree"
    assert arc_of(studio.document, 4) == (0, "root")


@covers("confirm", "confirmAll")
def test_c_confirms_an_arc_or_takes_that_back_and_shift_c_confirms_all(studio, page):
    go_to(page, 3)
    press(page, "c")
    until_arc(page, 3, "nummod of stars", is_decided=True)
    assert said(page, "#word-sure") == "You decided this arc."
    assert decided(studio.document) == [3]
    press(page, "c")
    page.wait_for_selector("#word-3:not(.kept)")
    assert decided(studio.document) == []
    press(page, "Shift+C")
    page.wait_for_selector("#word-5.kept")
    assert decided(studio.document) == [1, 2, 3, 4, 5]
    assert studio.on_disk().count("Keep=Arc") == 5


@covers("forbidHead", "forbidLabel")
def test_a_head_or_a_label_is_forbidden_and_that_is_shown_at_the_word(studio, page):
    go_to(page, 4)
    press(page, "-")
    page.wait_for_selector("#word-4 .forbidden >> text=✗ not 2")
    press(page, "_")
    page.wait_for_selector("#word-4 .forbidden >> text=✗ not obj")
    assert said(page, "#word-sure") == "Not the head 2. Not the label obj."
    assert "NotHead=2|NotLabel=obj" in studio.document.text(1)
    assert page.inner_text("[data-do=confirm]") == "Free"
    press(page, "c")

    page.wait_for_selector("#word-4:not(:has(.forbidden))")
    assert "Not" not in studio.document.text(1)


@covers("done", "open", "previous")
def test_enter_marks_the_sentence_as_done_and_o_opens_it_again(studio, page):
    press(page, "Enter")
    until_sentence(page, "dog")
    assert "# treefine_status = done" in studio.document.text(1)
    press(page, "Shift+N")
    until_sentence(page, "stars")
    assert said(page, "#place") == "1 · stars · ✓ done"
    assert page.get_attribute("#done", "aria-pressed") == "true"
    press(page, "o")

    page.wait_for_selector("#done[aria-pressed=false]")
    assert studio.document.status(1) == "open"
    assert studio.document.text(1) == STARS


@covers("doubtful")
def test_d_marks_the_sentence_as_doubtful(studio, page):
    press(page, "d")

    until_sentence(page, "dog")
    page.wait_for_selector(".row.doubtful >> text=? doubtful")
    assert studio.document.status(1) == "doubtful"
    assert "# treefine_status = doubtful" in studio.on_disk()


def test_the_last_sentence_says_so(studio, page):
    press(page, "n", "n")
    until_sentence(page, "rain")
    press(page, "Enter")

    page.wait_for_selector("#problem >> text=This was the last sentence of the list.")
    assert studio.document.status(3) == "done"


@covers("next", "previous")
def test_n_and_page_keys_go_to_the_next_and_previous_sentence(page):
    press(page, "n")
    until_sentence(page, "dog")
    press(page, "PageDown")
    until_sentence(page, "rain")
    press(page, "PageUp")
    until_sentence(page, "dog")
    press(page, "Shift+N")
    until_sentence(page, "stars")
    press(page, "n", "n")  # faster than the server
    until_sentence(page, "rain")


@covers("search", "queue")
def test_slash_goes_to_the_search_and_q_to_the_list(page):
    press(page, "/")
    assert focused(page) == "search"
    press(page, "Escape")
    assert focused(page) == "tree"
    press(page, "q")
    assert focused(page) == "rows"
    press(page, "ArrowDown")
    until_sentence(page, "dog")
    page.wait_for_selector("#rows:focus")
    press(page, "ArrowDown")
    until_sentence(page, "rain")
    page.wait_for_selector("#rows:focus")
    press(page, "ArrowUp")
    until_sentence(page, "dog")
    page.wait_for_selector("#rows:focus")
    press(page, "Enter")
    assert focused(page) == "tree"


@covers("undo", "redo")
def test_control_z_takes_back_and_control_shift_z_or_y_makes_again(studio, page):
    assert page.is_disabled("#undo")
    go_to(page, 3)
    press(page, "8")
    until_arc(page, 3, "obl of stars")
    press(page, "Control+z")
    until_arc(page, 3, "nummod of stars", is_decided=False)
    assert studio.document.text(1) == STARS
    press(page, "Control+Shift+Z")
    until_arc(page, 3, "obl of stars", is_decided=True)
    press(page, "Control+z")
    until_arc(page, 3, "nummod of stars")
    press(page, "Control+y")
    until_arc(page, 3, "obl of stars")
    page.click("#undo")
    until_arc(page, 3, "nummod of stars")
    page.click("#redo")
    until_arc(page, 3, "obl of stars")
    assert arc_of(studio.document, 3) == (4, "obl")
    assert page.is_disabled("#redo")


@covers("wrap", "zoom")
def test_z_changes_the_lines_and_angle_brackets_the_size(page):
    for mode in ("fits", "scrolls", "wraps"):
        press(page, "z")
        assert mode in page.get_attribute("#tree", "class").split()
    width = page.locator("#word-2").bounding_box()["width"]
    press(page, ">", ">")
    assert page.locator("#word-2").bounding_box()["width"] > 1.1 * width
    press(page, "<", "<", "<")
    assert page.locator("#word-2").bounding_box()["width"] < width


@covers("help")
def test_the_help_lists_all_keys_and_takes_all_keys_until_it_is_closed(studio, page):
    press(page, "?")
    page.wait_for_selector("#help[open]")
    shown = page.locator("#keys kbd").all_inner_texts()
    keys = page.evaluate(
        "import('./page/keys.js').then(({KEYS}) => KEYS.flatMap(([, keys]) => keys.map(([, name]) => name)))"
    )
    assert [each for each in shown if each in keys] == keys
    press(page, "r", "Enter", "o")
    press(page, "Escape")
    assert page.is_hidden("#help")

    page.click("#show-help")
    page.click("#close-help")
    assert page.is_hidden("#help")
    assert studio.document.revision == 0
    assert said(page, "#place") == "1 · stars"


def test_a_key_for_a_word_says_that_none_is_selected(studio, page):
    press(page, "r")
    page.wait_for_selector("#problem >> text=Select a word first, with a click or the arrow keys.")
    press(page, "ArrowRight", "r")

    until_arc(page, 1, "root of ROOT")
    assert page.is_hidden("#problem")
    assert studio.document.revision == 1


def test_a_tree_with_two_roots_is_done_only_after_a_second_enter(open_studio):
    studio = open_studio(RAIN.replace("2\tnsubj", "0\troot") + STARS)
    page = studio.open()
    press(page, "Enter")
    page.wait_for_selector("#problem >> text=This is not a valid tree yet: The sentence has 2 roots")
    assert studio.document.status(1) == "open"
    press(page, "Enter")

    until_sentence(page, "stars")
    assert studio.document.status(1) == "done"


def test_two_presses_of_enter_do_not_mark_a_sentence_that_nobody_has_seen(studio, page):
    press(page, "Enter", "Enter")
    until_sentence(page, "dog")
    drag(page, 2, 7)
    until_arc(page, 2, "amod of door")

    assert [studio.document.status(key) for key in (1, 2, 3)] == ["done", "open", "open"]


def test_a_sentence_is_corrected_completely_without_the_mouse(open_studio):
    wrong = DOG.replace("2\told\told\tADJ\tJJ\tDegree=Pos\t3\tamod", "2\told\told\tNOUN\tNN\tDegree=Pos\t7\tcompound")
    wrong = wrong.replace(
        "4\tslept\tsleep\tVERB\tVBD\tTense=Past\t0\troot", "4\tslept\tsleep\tVERB\tVBD\tTense=Past\t7\tobl"
    )
    wrong = wrong.replace(
        "7\tdoor\tdoor\tNOUN\tNN\tNumber=Sing\t4\tobl", "7\tdoor\tdoor\tNOUN\tNN\tNumber=Sing\t0\troot"
    )
    studio = open_studio(wrong)
    page = studio.open()

    go_to(page, 4)
    press(page, "r")
    until_arc(page, 7, "dep of slept")
    go_to(page, 7)
    press(page, "l")
    page.keyboard.type("obl")
    press(page, "Enter")
    until_arc(page, 7, "obl of slept")
    go_to(page, 2)
    press(page, "h", "3", "Enter")
    until_arc(page, 2, "compound of dog")
    page.keyboard.type("amod")
    press(page, "Enter")
    until_arc(page, 2, "amod of dog")
    press(page, "u")
    page.keyboard.type("ADJ")
    press(page, "Enter", "x")
    page.keyboard.type("JJ")
    press(page, "Enter", "Enter")
    page.wait_for_selector(".row.done")

    assert studio.document.content(has_marks=False).decode() == DOG
    assert "# treefine_status = done\n" in studio.on_disk()
    assert shown_arc(page, 4) == "root of ROOT"


def test_every_command_of_the_page_is_tested(page):
    modules = [
        importlib.import_module(f"tests.studio.{each.stem}") for each in Path(__file__).parent.glob("test_page_*.py")
    ]
    tested = {command for each in modules for test in vars(each).values() for command in getattr(test, "commands", ())}
    commands = page.evaluate(
        "import('./page/keys.js').then(({KEYS}) => KEYS.flatMap(([, keys]) => keys.map(([, , , name]) => name)))"
    )

    assert set(commands) == tested
