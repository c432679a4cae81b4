"""The parser on the page, in a real browser: what follows from a correction, suggestions, and decisions that stay."""

from dataclasses import dataclass, field

from tests.support.studio_pages import (
    POLL,
    RAIN,
    STARS,
    TREES,
    Stub,
    arc_of,
    conllu,
    covers,
    decided,
    drag,
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
from treefine.studio.learn import LearningState
from treefine.studio.partner import Partner

FOLLOWS = {(3, 2): [(3, 2, "obl"), (5, 4, "punct")]}  # if 3 attaches to 2, it gets another label, and 5 another head
TELESCOPE = conllu("""
# sent_id = telescope
# text = I saw the man with the telescope.
1 I         I         PRON  PRP _ 2 nsubj _ _
2 saw       see       VERB  VBD _ 0 root  _ _
3 the       the       DET   DT  _ 4 det   _ _
4 man       man       NOUN  NN  _ 2 obj   _ _
5 with      with      ADP   IN  _ 7 case  _ _
6 the       the       DET   DT  _ 7 det   _ _
7 telescope telescope NOUN  NN  _ 4 nmod  _ SpaceAfter=No
8 .         .         PUNCT .   _ 2 punct _ _
""")


def moved(page):
    """Return the words whose arcs are shown as changed by the parser."""
    return page.eval_on_selector_all("#tree .arc.moved", "all => all.map(({dataset}) => +dataset.word).sort()")


def test_the_stub_has_everything_that_the_page_uses_of_a_partner():
    assert {each for each in dir(Partner) if not each.startswith("_")} <= {*dir(Stub())}


def test_what_follows_from_a_correction_is_shown(open_studio):
    studio = open_studio(partner=Stub(follows=FOLLOWS))
    page = studio.open()
    drag(page, 3, 2)

    until_arc(page, 5, "punct of stars", is_decided=False)
    assert moved(page) == [3, 5]
    assert said(page, "#followed p") == "The parser chose the label obl. It changed 1 more arc: 5 .."
    assert arc_of(studio.document, 3) == (2, "obl")
    assert arc_of(studio.document, 5) == (4, "punct")
    assert "Keep" not in studio.document.text(1).split("\n")[6]


@covers("refuse")
def test_backspace_takes_back_what_the_parser_changed_and_nothing_else(open_studio):
    studio = open_studio(partner=Stub(follows=FOLLOWS))
    page = studio.open()
    drag(page, 3, 2)
    page.wait_for_selector("#followed:not([hidden])")
    press(page, "Backspace", "Backspace", "Delete")  # also if the key repeats

    until_arc(page, 5, "punct of saw")
    page.wait_for_selector("#followed", state="hidden")
    assert moved(page) == []
    assert shown_arc(page, 3) == "nummod of saw"
    press(page, "ArrowLeft")
    assert arc_of(studio.document, 3) == (2, "nummod")
    assert studio.document.revision == 3
    press(page, "Control+z")
    until_arc(page, 3, "nummod of stars")


def test_one_undo_takes_back_a_drag_and_what_followed_and_one_redo_makes_both_again(open_studio):
    studio = open_studio(partner=Stub(follows=FOLLOWS))
    page = studio.open()
    drag(page, 3, 2)
    until_arc(page, 5, "punct of stars")
    press(page, "Control+z")
    until_arc(page, 3, "nummod of stars")
    assert shown_arc(page, 5) == "punct of saw"
    assert studio.document.text(1) == STARS
    press(page, "Control+Shift+Z")

    until_arc(page, 5, "punct of stars")
    assert shown_arc(page, 3) == "obl of saw"


def test_the_button_takes_back_what_the_parser_changed(open_studio):
    studio = open_studio(partner=Stub(follows=FOLLOWS))
    page = studio.open()
    drag(page, 3, 2)
    page.click("#refuse")

    until_arc(page, 5, "punct of saw")
    assert arc_of(studio.document, 3) == (2, "nummod")


def test_a_label_can_be_typed_while_the_parser_thinks(open_studio):
    stub = Stub(follows={(3, 2): [(5, 4, "punct")]})
    studio = open_studio(partner=stub)
    page = studio.open()
    stub.may_answer.clear()
    drag(page, 3, 2)
    page.keyboard.type("obl")
    stub.may_answer.set()
    page.wait_for_selector("#tree .arc.moved[data-word='5']")
    assert page.input_value("#label") == "obl"
    assert page.eval_on_selector_all("#labels li", "all => all.map(({dataset}) => dataset.label)") == ["obl"]
    press(page, "Enter")

    until_arc(page, 3, "obl of saw", is_decided=True)
    assert arc_of(studio.document, 3) == (2, "obl")


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


@covers("nextDoubt", "take")
def test_a_doubtful_word_is_shown_and_t_takes_the_suggestion(open_studio):
    stub = Stub(sure={3: 0.31, 5: 0.62}, suggests={3: [(2, "obl"), (5, 4, "punct")], 5: [(4, "punct")]})
    studio = open_studio(partner=stub)
    page = studio.open()
    page.wait_for_selector("#word-3.doubtful")
    assert page.text_content("#tree .arc.doubtful[data-word='3'] text") == "nummod 31%"
    assert said(page, "#suggestions").split("\n") == [
        "3 two nummod of 4 stars, 31%",
        "→ obl of 2 saw, and 1 more t",
        "5 . punct of 2 saw, 62%",
        "→ punct of 4 stars t",
    ]
    press(page, ".")
    assert selected(page) == 3
    assert said(page, "#word-sure") == "This arc is right with probability 31%."
    press(page, ".")
    assert selected(page) == 5
    press(page, ".")
    assert selected(page) == 3
    press(page, "t")

    until_arc(page, 3, "obl of saw", is_decided=True)
    assert arc_of(studio.document, 3) == (2, "obl")
    assert arc_of(studio.document, 5) == (2, "punct")
    page.wait_for_selector("#word-3:not(.doubtful)")


def test_t_takes_the_first_suggestion_if_no_word_is_selected(open_studio):
    studio = open_studio(partner=Stub(sure={5: 0.2}, suggests={5: [(4, "punct")]}))
    page = studio.open()
    page.wait_for_selector("#suggestions button.take")
    press(page, "t")

    until_arc(page, 5, "punct of stars", is_decided=True)
    assert arc_of(studio.document, 5) == (4, "punct")
    assert selected(page) == 5
    page.wait_for_selector("#suggestions-part", state="hidden")


def test_a_click_takes_a_suggestion_or_selects_its_word(open_studio):
    studio = open_studio(partner=Stub(sure={5: 0.2}, suggests={5: [(4, "punct")]}))
    page = studio.open()
    page.click("#suggestions button.link")
    assert selected(page) == 5
    page.click("#suggestions button.take")

    until_arc(page, 5, "punct of stars", is_decided=True)
    assert arc_of(studio.document, 5) == (4, "punct")


@covers("parse")
def test_p_parses_again_and_decided_arcs_stay(open_studio):
    studio = open_studio(partner=Stub(parses=((3, 2, "obl"), (4, 5, "dep"))))
    page = studio.open()
    go_to(page, 3)
    press(page, "c")
    until_arc(page, 3, "nummod of stars", is_decided=True)
    press(page, "p")

    until_arc(page, 4, "dep of .")
    assert moved(page) == [4]
    assert said(page, "#followed p") == "The parser changed 1 arc: 4 stars."
    assert arc_of(studio.document, 3) == (4, "nummod")
    press(page, "p")
    page.wait_for_selector("#problem >> text=The parser would change nothing.")
    assert studio.document.revision == 2


def test_without_a_parser_p_says_so(page):
    press(page, "p")

    page.wait_for_selector("#problem >> text=There is no parser for this file, or not yet.")


def test_reading_from_left_to_right_confirms_the_words_before_a_correction(open_studio):
    studio = open_studio(partner=Stub())
    page = studio.open()
    page.click("#confirms")
    drag(page, 4, 5)

    page.wait_for_selector("#word-3.kept")
    assert page.locator("#tree .word.kept").count() == 4
    assert decided(studio.document) == [1, 2, 3]
    page.reload()
    page.wait_for_selector("#word-3.kept")
    assert page.is_checked("#confirms")


def test_a_forbidden_head_lets_the_parser_choose_another_one(open_studio):
    studio = open_studio(partner=Stub(follows={(4, 2): [(4, 5, "dep")]}))
    page = studio.open()
    go_to(page, 4)
    page.click("[data-do=forbid-head]")
    page.wait_for_selector("#word-4 .forbidden >> text=✗ not 2")

    assert "NotHead=2" in studio.document.text(1)


def test_decisions_in_the_file_are_shown_and_can_be_removed(open_studio):
    text = STARS.replace("4\tnummod\t_\t_", "4\tnummod\t_\tKeep=Arc").replace(
        "2\tpunct\t_\t_", "2\tpunct\t_\tNotHead=3"
    )
    studio = open_studio(text, partner=Stub(sure={3: 0.1, 4: 0.1}))
    page = studio.open()
    page.wait_for_selector("#word-4.doubtful")
    assert page.locator("#word-3.kept:not(.doubtful)").count() == 1
    assert said(page, "#word-5 .forbidden") == "✗ not 3"
    form(page, 3).click()
    page.click("[data-do=confirm] >> text=Free")

    page.wait_for_selector("#word-3:not(.kept)")
    page.wait_for_selector("#word-3.doubtful")
    assert studio.on_disk() == text.replace("Keep=Arc", "_")


def test_a_parser_that_is_loaded_later_gives_advice_then(open_studio):
    stub = Stub(sure={3: 0.3}, is_ready=False)
    studio = open_studio(partner=stub)
    page = studio.open(has_clock=True)
    assert page.locator("#tree .doubtful").count() == 0
    drag(page, 5, 4)  # without the parser, everything else works
    until_arc(page, 5, "punct of stars")
    stub.is_ready = True
    page.clock.run_for(POLL)

    page.wait_for_selector("#word-3.doubtful")


def test_a_parser_that_cannot_be_loaded_is_reported(open_studio):
    studio = open_studio(partner=Stub(is_ready=False, fault="The model is damaged."))
    page = studio.open(has_clock=True)
    page.clock.run_for(POLL)

    page.wait_for_selector("#fault >> text=The model is damaged.")


@dataclass
class StubLearner:
    state: LearningState = field(default_factory=lambda: LearningState("better", "The new model has 91.0 LAS."))

    def consider(self, done):
        self.done = done

    def adopt(self, load):
        load("learned")
        self.state = LearningState()
        return "learned"

    def stop(self):
        """Return at once."""


def test_a_better_model_is_offered_and_used_if_the_person_wants_it(open_studio):
    stub = Stub()
    studio = open_studio(partner=stub, learner=StubLearner())
    page = studio.open(has_clock=True)
    page.clock.run_for(POLL)
    page.wait_for_selector("#learning >> text=The new model has 91.0 LAS.")
    page.click("#adopt")

    page.wait_for_selector("#learning", state="hidden")
    assert stub.name == "learned"


def test_opening_sentences_changes_no_byte_also_with_labels_that_the_model_does_not_know(open_studio, partner):
    text = (TREES + TELESCOPE).replace("\tobl\t", "\tobl:odd\t").replace("\tnmod\t", "\tweird\t")
    studio = open_studio(text, partner=partner)
    page = studio.open()
    for sent_id in ("dog", "rain", "telescope"):
        with page.expect_response("**/api/advice*"):
            press(page, "n")
        until_sentence(page, sent_id)
    page.wait_for_selector("#word-7.doubtful")
    assert shown_arc(page, 7) == "weird of man"

    assert studio.document.revision == 0
    assert studio.on_disk() == text
    assert not studio.document.folder.exists()


def test_the_bundled_parser_follows_a_correction_and_leaves_other_arcs_alone(open_studio, partner):
    studio = open_studio(
        TELESCOPE.replace("1\tI\tI\tPRON\tPRP\t_\t2\tnsubj", "1\tI\tI\tPRON\tPRP\t_\t2\tvocative") + RAIN,
        partner=partner,
    )
    page = studio.open()
    page.wait_for_selector("#word-1.doubtful")
    drag(page, 7, 2)

    until_arc(page, 7, "obl of saw")
    assert moved(page) == [7]
    assert said(page, "#followed p") == "The parser chose the label obl."
    assert shown_arc(page, 1) == "vocative of saw"
    assert focused(page) == "label"
    assert studio.document.sentence(1).heads == (2, 0, 4, 2, 7, 7, 2, 2)
    assert studio.document.sentence(1).labels[0] == "vocative"
