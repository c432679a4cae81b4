"""The page in a real browser: one test for each thing that a person does. tests/slow/studio has the rest."""

from tests.support.data import DATA
from tests.support.studio import (
    DOG,
    RAIN,
    STARS,
    TREES,
    Stub,
    arc_of,
    decided,
    drag,
    focused,
    form,
    go_to,
    measured,
    press,
    reference,
    said,
    selected,
    shown_arc,
    until_arc,
    until_sentence,
)
from treefine import read_treebank


def long_sentence(most_words):
    sentences = read_treebank(DATA / "en_ewt-sample.conllu")
    return max((each for each in sentences if len(each) <= most_words), key=len).to_conllu()


def test_a_word_is_dragged_to_its_head_and_its_label_can_be_typed_at_once(studio, page):
    drag(page, 3, 2)
    page.keyboard.type("det")
    press(page, "Enter")

    until_arc(page, 3, "det of saw", is_decided=True)
    assert focused(page) == "tree"
    assert "3\ttwo\ttwo\tNUM\tCD\t_\t2\tdet\t_\tKeep=Arc\n" in studio.on_disk()


def test_clicks_only_select_until_the_person_asks_to_choose_a_head(studio, page):
    form(page, 3).click()
    form(page, 2).click()
    form(page, 4).dblclick()
    assert (selected(page), page.locator("#tree.choosing").count()) == (4, 0)
    form(page, 4).click()
    page.wait_for_selector("#tree.choosing .root-bar >> text=Choose the head of stars: click a word, or here for ROOT")
    press(page, "Escape")
    form(page, 3).click()
    assert (selected(page), page.locator("#tree.choosing").count()) == (3, 0)
    page.click("[data-do=head]")
    page.click("#text")  # work elsewhere ends the choice, too
    form(page, 5).click()
    assert (selected(page), studio.document.revision) == (5, 0)
    page.click("[data-do=head]")
    form(page, 4).click()

    until_arc(page, 5, "punct of stars", is_decided=True)
    assert focused(page) == "label"
    form(page, 4).click()
    form(page, 4).click()
    page.click("#tree .root-bar")
    until_arc(page, 4, "root of ROOT")
    assert (arc_of(studio.document, 5), arc_of(studio.document, 4)) == ((4, "punct"), (0, "root"))
    assert studio.document.revision == 2


def test_a_sentence_is_corrected_completely_without_the_mouse(open_studio):
    wrong = DOG.replace("ADJ\tJJ\tDegree=Pos\t3\tamod", "NOUN\tNN\tDegree=Pos\t7\tcompound")
    wrong = wrong.replace("Tense=Past\t0\troot", "Tense=Past\t7\tobl").replace("4\tobl\t_\tSpace", "0\troot\t_\tSpace")
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


def test_while_another_file_opens_clicks_are_for_the_sentence_on_the_screen_and_change_nothing(open_studio):
    studio = open_studio(TREES, RAIN)
    page = studio.open()
    routes = []
    page.route("**/api/queue*", lambda route: routes.append(route), times=1)
    with page.expect_request("**/api/queue*"):
        page.select_option("#file", label="b.conllu")
    form(page, 3).click()
    form(page, 4).click()
    assert selected(page) == 4
    press(page, "r", ".", "ArrowUp", "Home")
    drag(page, 3, 2)
    routes[0].continue_()

    until_sentence(page, "rain")
    page.wait_for_selector("#problem >> text=The last change was not made: another sentence is open")
    assert [document.revision for document in studio.project.documents] == [0, 0]
    drag(page, 3, 1)
    until_arc(page, 3, "punct of Rain")
    assert arc_of(studio.project.documents[1], 3) == (1, "punct")


def test_undo_and_redo_go_to_the_sentence_that_they_change_also_after_a_reload(studio, page):
    go_to(page, 3)
    press(page, "1")
    until_arc(page, 3, "nsubj of stars")
    press(page, "n")
    until_sentence(page, "dog")
    page.reload()
    page.wait_for_selector("#tree:focus")
    press(page, "Control+z")
    until_sentence(page, "stars")
    until_arc(page, 3, "nummod of stars")
    page.wait_for_selector("#undo:disabled")
    assert studio.document.content().decode() == TREES
    press(page, "n", "Control+y")

    until_sentence(page, "stars")
    until_arc(page, 3, "nsubj of stars")
    page.wait_for_selector("#redo:disabled")


def test_what_the_parser_changes_is_shown_and_refused_and_its_suggestions_are_taken(open_studio):
    stub = Stub(follows={(3, 2): [(3, 2, "obl"), (5, 4, "punct")]}, confidences={1: 0.31}, suggests={1: (4, "det")})
    studio = open_studio(partner=stub)
    page = studio.open()
    drag(page, 3, 2)
    until_arc(page, 5, "punct of stars", is_decided=False)
    moved = page.eval_on_selector_all("#tree .arc.moved", "all => all.map(({dataset}) => +dataset.word).sort()")
    assert moved == [3, 5]
    assert said(page, "#followed p") == "The parser chose the label obl. It changed 1 more arc: 5 .."
    press(page, "Backspace", "Backspace", "Delete")  # also if the key repeats
    until_arc(page, 5, "punct of saw")
    page.wait_for_selector("#followed", state="hidden")
    assert (shown_arc(page, 3), studio.document.revision) == ("nummod of saw", 3)

    page.wait_for_selector("#word-1.doubtful")
    assert said(page, "#suggestions").split("\n") == ["1 She nsubj of 2 saw, 31%", "→ det of 4 stars t"]
    press(page, "Escape", ".")
    assert selected(page) == 1
    press(page, "t")
    until_arc(page, 1, "det of stars", is_decided=True)
    assert arc_of(studio.document, 1) == (4, "det")


def test_an_unknown_label_is_refused_with_the_nearest_one_and_a_second_enter_takes_it(studio, page):
    go_to(page, 4)
    press(page, "l")
    page.keyboard.type("objj")
    press(page, "Enter")
    page.wait_for_selector("#label-problem:not(:empty)")
    assert said(page, "#label-problem") == (
        "No word of this treebank has the label 'objj'. Did you mean obj? Press Enter again to use it."
    )
    assert (focused(page), studio.document.revision) == ("label", 0)
    press(page, "Enter")

    until_arc(page, 4, "objj of saw")
    assert arc_of(studio.document, 4) == (2, "objj")


def test_a_cell_is_edited_in_its_place_and_a_wrong_value_is_refused(studio, page):
    page.click("#word-1 .cell.feats")
    page.keyboard.type("Plur")
    press(page, "Enter")
    page.wait_for_selector("#problem >> text=FEATS cannot be 'Plur'. Write Name=Value")
    page.wait_for_selector("#word-1 input")
    press(page, "Home")
    page.keyboard.type("Number=")
    press(page, "Tab")  # to the next word
    page.wait_for_selector("#word-2 input")
    press(page, "Delete")
    form(page, 3).click()  # saves, too

    page.wait_for_selector("#word-2 .feats >> text=·")
    assert page.inner_text("#word-1 .feats") == "Plur"
    assert studio.document.sentence(1).feats[:2] == ("Number=Plur", "_")


def test_a_search_highlights_its_words_and_a_wrong_query_says_what_is_wrong(page):
    page.fill("#search", "VERB -obj NOUN ->")
    press(page, "Enter")
    page.wait_for_selector("#found.fault >> text=Write HEAD -label-> DEPENDENT")
    assert (said(page, "#place"), page.locator(".row").count()) == ("1 · stars", 3)
    page.fill("#search", "the door")
    press(page, "Enter")

    until_sentence(page, "dog")
    assert (said(page, "#found"), page.locator(".row").count()) == ("1 sentence", 1)
    assert page.locator("#tree .word.found .form").all_inner_texts() == ["the", "door"]
    page.fill("#search", "NOUN -obj-> VERB")
    press(page, "Enter")
    page.wait_for_selector("#found >> text=The arrow goes from the head to its dependent: try VERB -obj-> NOUN")


def test_two_annotators_are_compared_and_a_person_takes_arcs_of_one(open_studio):
    of_b = DOG + STARS.replace("4\tnummod", "2\tobl").replace("2\tpunct", "4\tpunct") + RAIN
    annotators = [reference(DOG + STARS + RAIN, "A.conllu"), reference(of_b, "B.conllu")]
    studio = open_studio(DOG + STARS + RAIN, references=annotators)
    page = studio.open()
    until_sentence(page, "stars")  # the one with the most differences comes first
    assert [each.split("\n")[0].strip() for each in page.locator("#others .card").all_inner_texts()] == [
        "A A.conllu as below",
        "B B.conllu 2 words differ Take all B",
    ]
    go_to(page, 3)
    assert said(page, "#other-arcs") == "B.conllu: obl of 2 saw b"
    press(page, "b")
    until_arc(page, 3, "obl of saw", is_decided=True)
    press(page, "Shift+A")

    until_arc(page, 3, "nummod of stars")
    assert decided(studio.document, 2) == [1, 2, 3, 4, 5]
    assert page.locator("#rows .row").count() == 3


def test_identical_trees_are_shown_and_nothing_differs(open_studio):
    page = open_studio(TREES, references=[reference(TREES, "A.conllu"), reference(TREES, "B.conllu")]).open()

    page.wait_for_selector("#found >> text=Nothing differs.")
    assert page.locator("#rows .row").count() == 3
    assert said(page, "#place") == "1 · stars"


def test_a_long_sentence_wraps_into_lines_and_nothing_is_wider_than_the_view(open_studio):
    page = open_studio(long_sentence(49)).open()
    n_words = page.locator("#tree .word").count()

    for font in ("sans-serif", "serif", "monospace"):  # whichever fonts the machine has
        page.evaluate("font => { document.body.style.fontFamily = font }", font)
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 800})
            page.wait_for_function("width => innerWidth === width", arg=width)
            page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            tops = page.eval_on_selector_all("#tree .word", "all => all.map(({offsetTop}) => offsetTop)")
            assert len({*tops}) > 3
            assert measured(page, "tooWide") == []
            assert measured(page, "overlaps") == []
            arcs = page.eval_on_selector_all(
                "#tree svg .head", "all => all.map((each) => each.parentNode.dataset.word)"
            )
            assert len(arcs) == len(set(arcs)) == n_words
