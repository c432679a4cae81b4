"""The studio in a real browser: the parser as a partner, the list of sentences, two annotators, safety and looks."""

import re

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
    opened,
    press,
    said,
    selected,
    until_arc,
    until_sentence,
)
from tests.support.studio_pages import Stub as Parser
from treefine.studio.project import Reference
from treefine.treebank.conllu import read_treebank

HEBREW = conllu("""
# sent_id = he
1 אני _ PRON _ _ 2 nsubj _ _
2 אוהב _ VERB _ _ 0 root _ _
3 חתולים _ NOUN _ _ 2 obj _ _
""")
ROWS = (f"{n} word{n} _ NOUN _ _ {n - 1} {'dep' if n > 1 else 'root'} _ _" for n in range(1, 68))
LONG = conllu("# sent_id = long\n" + "\n".join(ROWS))


def saved(page, *keys):
    """Press keys that change the sentence, and wait for the answer."""
    with page.expect_response("**/api/edit") as answer:
        press(page, *keys)
    return answer.value.json()


# The parser


FOLLOWS = {(3, 2): ((3, 2, "advmod"), (1, 3, "obj"))}


def test_the_changes_that_follow_from_a_correction_are_shown_and_refused_with_one_key(open_studio):
    studio = open_studio(STARS, partner=Parser(follows=FOLLOWS))
    page = studio.open()
    drag(page, 3, 2)
    page.wait_for_selector("#followed:not([hidden])")
    assert said(page, "#followed p") == "The parser chose the label advmod. It changed 1 more arc: 1 She."
    assert page.locator("#tree .arc.moved").count() == 2
    assert arc_of(studio.document, 1) == (3, "obj")

    press(page, "Backspace")
    page.wait_for_selector("#followed[hidden]", state="attached")

    assert arc_of(studio.document, 1) == (2, "nsubj")
    assert arc_of(studio.document, 3) == (2, "nummod")
    assert decided(studio.document) == []  # the label is not decided, the head is
    assert "Keep=Head" in studio.document.text(1)


def test_what_a_person_types_meanwhile_is_not_lost(open_studio):
    parser = Parser(follows=FOLLOWS)
    page = open_studio(STARS, partner=parser).open()
    parser.may_answer.clear()
    drag(page, 3, 2)
    until_arc(page, 3, "nummod of saw")
    page.keyboard.type("de")
    parser.may_answer.set()
    page.wait_for_selector("#followed:not([hidden])")

    assert page.input_value("#label") == "de"
    assert focused(page) == "label"


def test_doubtful_arcs_are_marked_and_a_suggestion_is_taken_with_one_key(open_studio):
    studio = open_studio(STARS, partner=Parser(sure={4: 0.31}, suggests={4: ((1, "appos"),)}))
    page = studio.open()
    page.wait_for_selector("#tree .arc.doubtful")
    assert page.text_content("#tree .arc.doubtful") == "obj 31%"
    assert "4 stars obj of 2 saw, 31%" in said(page, "#suggestions").replace("\n", " ")

    press(page, ".")
    assert selected(page) == 4
    press(page, "t")

    until_arc(page, 4, "appos of She", is_decided=True)


def test_a_suggestion_is_taken_with_a_click(open_studio):
    studio = open_studio(STARS, partner=Parser(sure={4: 0.31}, suggests={4: ((1, "appos"),)}))
    page = studio.open()

    page.click("#suggestions .take")

    until_arc(page, 4, "appos of She", is_decided=True)


def test_words_that_were_read_are_confirmed_if_the_person_wants_that(open_studio):
    studio = open_studio(STARS)
    page = studio.open()
    page.check("#confirms")
    drag(page, 4, 1)
    until_arc(page, 4, "obj of She")

    assert decided(studio.document) == [1, 2, 3]
    page.reload()
    page.wait_for_selector("#tree .word")
    assert page.is_checked("#confirms")


def test_p_takes_the_tree_of_the_parser_but_keeps_what_is_decided(open_studio):
    studio = open_studio(STARS, partner=Parser(parses=((4, 1, "appos"), (1, 4, "det"))))
    page = studio.open()
    go_to(page, 1)
    saved(page, "c")
    with page.expect_response("**/api/parse"):
        press(page, "p")

    until_arc(page, 4, "appos of She")
    assert arc_of(studio.document, 1) == (2, "nsubj")


def test_the_real_parser_chooses_the_label_of_a_new_head(open_studio, partner):
    text = conllu(
        """
    # text = The librarian found an old map between the pages of a cookbook.
    1 The the DET DT _ 2 det _ _
    2 librarian librarian NOUN NN _ 3 nsubj _ _
    3 found find VERB VBD _ 0 root _ _
    4 an a DET DT _ 6 det _ _
    5 old old ADJ JJ _ 6 amod _ _
    6 map map NOUN NN _ 3 obj _ _
    7 between between ADP IN _ 9 case _ _
    8 the the DET DT _ 9 det _ _
    9 pages page NOUN NNS _ 3 obl _ _
    10 of of ADP IN _ 12 case _ _
    11 a a DET DT _ 12 det _ _
    12 cookbook cookbook NOUN NN _ 9 nmod _ SpaceAfter=No
    13 . . PUNCT . _ 3 punct _ _
    """.replace("    ", "")
    )
    studio = open_studio(text, partner=partner)
    page = studio.open()
    drag(page, 9, 6)
    page.wait_for_selector("#followed:not([hidden])")

    assert arc_of(studio.document, 9) == (6, "nmod")
    assert "The parser chose the label nmod." in said(page, "#followed")


# The list


def test_the_most_doubtful_sentence_comes_first(open_studio):
    studio = open_studio(TREES, partner=Parser(sure={7: 0.01, 8: 0.01}))
    page = studio.open()
    page.wait_for_function("() => document.getElementById('counted').textContent.includes('about')")
    page.select_option("#order", "doubt")
    until_sentence(page, "dog")

    assert page.locator(".row-text").first.inner_text() == "The old dog slept near the door."
    assert "0 of 3 done · about 2 wrong arcs left" in said(page, "#counted")


def test_enter_and_d_mark_and_continue_and_filters_show_the_marks(studio, page):
    saved(page, "Enter")
    until_sentence(page, "dog")
    saved(page, "d")
    until_sentence(page, "rain")
    assert [studio.document.status(key) for key in (1, 2, 3)] == ["done", "doubtful", "open"]
    assert "# treefine_status = done\n1\tShe" in studio.document.text(1)

    for show, text in (("done", "She saw"), ("doubtful", "The old"), ("open", "Rain")):
        page.select_option("#show", show)
        page.wait_for_selector(f".row:only-child .row-text >> text={text}")


def test_o_opens_a_sentence_again_and_n_and_page_keys_move(studio, page):
    saved(page, "Enter")
    press(page, "N")
    until_sentence(page, "stars")
    saved(page, "o")
    assert studio.document.status(1) == "open"
    for key, name in (("n", "dog"), ("PageDown", "rain"), ("PageUp", "dog")):
        press(page, key)
        until_sentence(page, name)


def test_the_list_is_used_with_the_keyboard(page):
    press(page, "q", "ArrowDown")
    until_sentence(page, "dog")
    assert focused(page) == "rows"
    press(page, "Enter")

    assert focused(page) == "tree"


def test_a_search_finds_arcs_and_marks_their_words(page):
    press(page, "/")
    page.keyboard.type("VERB -obj-> NOUN")
    press(page, "Enter")
    page.wait_for_selector("#tree .word.found")
    assert said(page, "#found") == "1 sentence"
    assert page.locator("#tree .word.found .form").all_inner_texts() == ["saw", "stars"]


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (
            "NOUN -obj-> VERB",
            "No sentence matches. The arrow goes from the head to its dependent: try VERB -obj-> NOUN",
        ),
        ("VERB -obj->", "Character 12 of the query: expected a node, not the end."),
        ("zebra", "No sentence matches."),
    ],
)
def test_a_search_without_a_result_says_why(page, query, answer):
    page.fill("#search", query)
    page.press("#search", "Enter")
    page.wait_for_function("() => !/^$|Press Enter/.test(document.getElementById('found').textContent)")

    assert said(page, "#found").startswith(answer)


def test_only_the_rows_in_view_exist(open_studio):
    page = open_studio("".join(RAIN.replace("rain", f"r{n}") for n in range(10_000))).open()
    assert page.locator(".row").count() < 60

    page.evaluate("() => { document.getElementById('rows').scrollTop = 400_000; }")
    page.wait_for_selector(".row >> text=8002")

    assert page.locator(".row").count() < 60


def test_time_and_actions_are_counted(studio, page):
    go_to(page, 4)
    saved(page, "r")
    with page.expect_response("**/api/spent"):
        press(page, "Enter")
    until_sentence(page, "dog")

    seconds, actions = studio.document.spent[1]
    assert actions == 6  # Home, three arrows, r, Enter
    assert 0 < seconds < 60


# Two annotators


def annotators(open_studio, *texts):
    references = [
        Reference(name, tuple(read_treebank(__import__("io").BytesIO(text.encode()))))
        for name, text in zip(("anna", "ben"), texts, strict=False)
    ]
    return open_studio(TREES, references=references)


BEN = TREES.replace("2\tobj\t", "1\tappos\t").replace("3\tamod", "3\tdet")


def test_two_annotators_are_shown_side_by_side_and_decided_with_keys(open_studio):
    studio = annotators(open_studio, TREES, BEN)
    page = studio.open()
    page.wait_for_selector("#others .card >> nth=1")
    left, right = page.locator("#others .card").all()
    assert left.bounding_box()["y"] == right.bounding_box()["y"]
    assert right.locator(".arc.differs text").all_text_contents() == ["appos"]
    assert page.locator(".row").count() == 2  # only sentences that differ
    assert "LAS" in said(page, "#agreement")

    go_to(page, 4)
    saved(page, "b")
    until_arc(page, 4, "appos of She", is_decided=True)
    saved(page, "a")
    until_arc(page, 4, "obj of saw", is_decided=True)


def test_the_whole_tree_of_an_annotator_is_taken(open_studio):
    studio = annotators(open_studio, TREES, BEN)
    page = studio.open()
    page.wait_for_selector("#others .card >> nth=1")
    saved(page, "B")
    assert arc_of(studio.document, 4) == (1, "appos")
    saved(page, "A")
    assert arc_of(studio.document, 4) == (2, "obj")


def test_a_file_is_compared_with_one_other(open_studio):
    studio = annotators(open_studio, BEN)
    page = studio.open()
    page.wait_for_selector("#others .card")

    assert page.locator("#tree .word.disputed .form").all_inner_texts() == ["stars"]


# Safety


def test_a_reload_keeps_the_sentence_the_changes_and_undo(studio, page):
    press(page, "n")
    until_sentence(page, "dog")
    go_to(page, 1)
    saved(page, "c")
    page.reload()
    until_sentence(page, "dog")
    page.wait_for_selector("#word-1.kept")

    press(page, "Control+z")
    page.wait_for_selector("#word-1:not(.kept)")


def test_a_change_made_while_the_server_is_gone_arrives_once_when_it_is_back(tmp_path, browser):
    path = tmp_path / "a.conllu"
    path.write_text(TREES)
    with opened(path) as (address, _):
        page = browser.new_context().new_page()
        page.goto(address)
        page.wait_for_selector("#tree .word")
        go_to(page, 4)
    press(page, "r")
    page.wait_for_selector("#connection:not([hidden])")
    with opened(path, port=int(address.rstrip("/").rpartition(":")[2])) as (_, project):
        until_arc(page, 4, "root of ROOT")
        page.wait_for_selector("#connection[hidden]", state="attached")
        assert project.documents[0].revision == 1
        page.close()


def test_a_second_tab_is_reported_and_sees_the_changes_of_the_first(studio, page):
    other = studio.open_beside(page)
    other.wait_for_selector("#tabs:not([hidden])")
    assert "also open in another tab" in said(other, "#tabs")
    go_to(page, 4)
    saved(page, "r")

    until_arc(other, 4, "root of ROOT")


def test_a_change_of_an_old_version_is_refused_and_the_new_one_is_shown(studio, page):
    go_to(page, 4)
    document = studio.document
    document.replace([1], [document.sentence(1).with_tags(upos=["X"] * 5)], what="cell", id="elsewhere")
    press(page, "c")
    page.wait_for_selector("#problem:not([hidden])")

    assert "This sentence was changed in another tab." in said(page, "#problem")
    page.wait_for_selector("#word-1[aria-label*=', X,']")
    assert decided(document) == []


def test_a_file_that_another_program_changed_is_not_overwritten(studio, page):
    studio.document.path.write_text(RAIN)
    go_to(page, 4)
    press(page, "c")
    page.wait_for_selector("#fault:not([hidden]), #problem:not([hidden])")

    assert "Another program has changed a.conllu" in said(page, "#messages")
    assert studio.on_disk() == RAIN


def test_downloads_have_marks_or_not(studio, page):
    go_to(page, 4)
    saved(page, "c")
    saved(page, "Enter")
    texts = []
    page.click("#save")
    for name in ("marks", "plain"):
        with page.expect_download() as download:
            page.click(f"#export-{name}")
        texts.append(download.value.path().read_text())

    assert "Keep=Arc" in texts[0]
    assert "# treefine_status = done" in texts[0]
    assert texts[1] == TREES


def test_the_page_forbids_other_sources(studio, page):
    answer = page.goto(studio.address)

    assert "default-src 'none'; script-src 'self'; style-src 'self'" in answer.headers["content-security-policy"]


# Looks


def test_the_introduction_is_shown_first_and_closed_for_ever(studio):
    page = studio.open(is_welcomed=False)
    assert "Drag a word onto its head" in said(page, "#welcome")
    assert page.locator("#welcome-tree .arc").count() == 6
    page.click("#close-welcome")
    page.reload()
    page.wait_for_selector("#tree .word")

    assert page.is_hidden("#welcome")


def test_a_long_sentence_wraps_fits_or_scrolls(open_studio):
    page = open_studio(LONG).open()
    width = "() => [document.getElementById('tree').scrollWidth, document.getElementById('tree').clientWidth]"
    tops = "() => new Set([...document.querySelectorAll('#tree .word')].map((each) => each.offsetTop)).size"
    inner, outer = page.evaluate(width)
    assert inner <= outer
    assert page.evaluate(tops) > 2

    press(page, "z")
    assert page.evaluate(tops) == 1
    fitted = page.evaluate(width)[0]
    press(page, "z")
    assert page.evaluate(width)[0] > 1.5 * fitted
    press(page, "z", "<")
    assert page.evaluate("() => document.getElementById('tree').style.fontSize") == "0.9rem"


def test_the_panel_never_covers_the_tree(page):
    for width in (1280, 1000, 390):
        page.set_viewport_size({"width": width, "height": 800})
        tree, panel = page.locator("#tree").bounding_box(), page.locator("#panel").bounding_box()
        is_beside = panel["x"] >= tree["x"] + tree["width"] or panel["y"] >= tree["y"] + tree["height"]
        assert is_beside, width


def test_a_phone_shows_everything_without_scrolling_sideways(open_studio):
    page = open_studio(DOG + LONG).open(viewport={"width": 390, "height": 800})

    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    assert form(page, 1).bounding_box()["height"] >= 16


def test_right_to_left_sentences_run_from_the_right(open_studio):
    studio = open_studio(HEBREW)
    page = studio.open()
    assert form(page, 1).bounding_box()["x"] > form(page, 3).bounding_box()["x"]
    press(page, "Home", "ArrowLeft")
    assert selected(page) == 2

    drag(page, 3, 1)
    until_arc(page, 3, "obj of אני")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast_in_both_colour_schemes(studio, scheme):
    page = studio.open(color_scheme=scheme)
    go_to(page, 1)
    script = """() => {
        const light = (text) => {
            const [r, g, b] = text.match(/[0-9.]+/g).slice(0, 3).map((each) => each / 255)
                .map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const behind = (element) => {
            for (let each = element; each; each = each.parentElement) {
                const { backgroundColor } = getComputedStyle(each);
                if (!/, 0\\)$|transparent/.test(backgroundColor)) return backgroundColor;
            }
            return "rgb(255, 255, 255)";
        };
        const texts = '#tree .form, #tree .cell, .hint, button:enabled, .row-text, .row-note, #text, #place, label';
        const isShown = (each) => each.checkVisibility() && each.textContent.trim();
        return [...document.querySelectorAll(texts)].filter(isShown).map((each) => {
                const [a, b] = [light(getComputedStyle(each).color), light(behind(each))].sort((x, y) => y - x);
                return [each.className || each.id || each.tagName, (a + 0.05) / (b + 0.05)];
            });
    }"""

    found = page.evaluate(script)

    assert len(found) > 40
    assert [each for each in found if each[1] < 4.5] == []


def test_the_view_menu_chooses_colours_and_rows(page):
    page.click("#view")
    page.check("input[name=colours][value=dark]")
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(21, 25, 31)"
    page.uncheck("#cells input[value=feats]")

    assert page.locator("#tree .cell.feats").count() == 0


def test_the_help_lists_every_key(page):
    press(page, "?")
    page.wait_for_selector("#help[open]")
    listed = page.locator("#keys kbd").all_inner_texts()
    press(page, "Escape")

    assert len(listed) > 45
    assert not page.is_visible("#help")
    assert re.search("drag", " ".join(listed))


def test_controls_have_names_and_can_be_hit(page):
    go_to(page, 1)
    script = """all => all.filter((each) => each.checkVisibility()).map((each) => [
        each.outerHTML.slice(0, 80),
        each.getAttribute('aria-label') || each.labels?.[0]?.textContent || each.textContent || each.title,
        each.getBoundingClientRect().height])"""
    controls = page.eval_on_selector_all("button, select, input, textarea", script)

    assert len(controls) > 25
    for control, name, height in controls:
        assert name.strip(), control
        assert height >= 13 if "checkbox" in control else height >= 24, control
