"""Several tabs with the same file, in a real browser: each shows what the others changed."""

import pytest

from tests.support.studio_pages import (
    POLL,
    SAYS_OTHER_TAB,
    Stub,
    arc_of,
    drag,
    go_to,
    press,
    until_arc,
    until_sentence,
)


def test_two_tabs_know_of_each_other_and_a_change_in_one_appears_in_the_other(studio):
    first = studio.open(has_clock=True)
    second = studio.open_beside(first)
    second.clock.run_for(POLL)
    first.clock.run_for(POLL)
    first.wait_for_selector(f"#tabs >> text={SAYS_OTHER_TAB}")
    second.clock.run_for(POLL)
    second.wait_for_selector(f"#tabs >> text={SAYS_OTHER_TAB}")
    drag(first, 3, 2)
    until_arc(first, 3, "nummod of saw")
    second.clock.run_for(POLL)
    until_arc(second, 3, "nummod of saw", is_decided=True)
    second.goto("about:blank")
    first.clock.run_for(POLL)

    first.wait_for_selector("#tabs", state="hidden")
    assert arc_of(studio.document, 3) == (2, "nummod")


def test_a_reload_is_not_taken_for_another_tab(studio):
    page = studio.open(has_clock=True)
    page.clock.run_for(POLL)
    page.reload()
    page.wait_for_selector("#tree .word")
    with page.expect_response("**/api/status*") as answer:
        page.clock.run_for(POLL)

    assert answer.value.json()["other_tabs"] == 0
    assert page.is_hidden("#tabs")


@pytest.fixture
def stale(studio, page):
    """Return a second tab that does not look at the state of the server."""
    second = studio.open_beside(page)
    second.route("**/api/status*", lambda route: None)
    return second


def test_a_change_of_an_old_state_is_refused_and_the_present_one_is_shown(studio, page, stale):
    drag(page, 3, 2)
    until_arc(page, 3, "nummod of saw")
    drag(stale, 3, 1)

    stale.wait_for_selector("#problem >> text=This sentence was changed in another tab. It is shown as it is now.")
    until_arc(stale, 3, "nummod of saw", is_decided=True)
    drag(stale, 3, 1)
    until_arc(stale, 3, "nummod of She")
    assert arc_of(studio.document, 3) == (1, "nummod")
    assert studio.document.revision == 2


def test_a_change_of_a_sentence_that_was_joined_away_is_refused_and_the_page_still_works(studio, page, stale):
    press(stale, "n")
    until_sentence(stale, "dog")
    press(page, "Shift+J")
    page.wait_for_selector("#word-13")
    drag(stale, 2, 7)

    stale.wait_for_selector("#problem >> text=This sentence does not exist any more.")
    stale.wait_for_selector("#word-13")
    assert len(studio.document) == 2
    drag(stale, 3, 2)
    until_arc(stale, 3, "nummod of saw")
    assert arc_of(studio.document, 3) == (2, "nummod")


def test_undo_in_one_tab_does_not_take_back_a_change_that_only_another_tab_shows(studio, page, stale):
    drag(stale, 5, 4)
    until_arc(stale, 5, "punct of stars")
    page.wait_for_selector("#word-5[aria-label*='punct of stars']")
    drag(page, 3, 2)
    until_arc(page, 3, "nummod of saw")
    press(stale, "Escape", "Control+z")

    stale.wait_for_selector("#problem:not([hidden])")
    until_arc(stale, 3, "nummod of saw")
    assert arc_of(studio.document, 3) == (2, "nummod")
    press(stale, "Control+z")
    until_arc(stale, 3, "nummod of stars")


def test_what_a_person_types_stays_when_another_tab_changes_the_sentence(studio):
    page = studio.open(has_clock=True)
    other = studio.open_beside(page)
    go_to(page, 4)
    press(page, "l")
    page.keyboard.type("ob")
    drag(other, 3, 2)
    until_arc(other, 3, "nummod of saw")
    page.clock.run_for(POLL)
    until_arc(page, 3, "nummod of saw")
    page.keyboard.type("l")
    press(page, "Enter")

    until_arc(page, 4, "obl of saw")
    assert studio.document.sentence(1).labels == ("nsubj", "root", "nummod", "obl", "punct")


def test_backspace_does_not_take_back_a_change_of_another_tab(open_studio):
    studio = open_studio(partner=Stub(follows={(3, 2): [(5, 4, "punct")]}))
    page = studio.open(has_clock=True)
    other = studio.open_beside(page)
    drag(page, 3, 2)
    until_arc(page, 5, "punct of stars")
    press(page, "Escape", "Escape")
    press(other, "n")
    until_sentence(other, "dog")
    go_to(other, 2)
    press(other, "3")
    until_arc(other, 2, "det of dog")
    page.clock.run_for(POLL)
    page.wait_for_selector("#followed", state="hidden")
    press(page, "Backspace", "ArrowRight")

    assert arc_of(studio.document, 2, 2) == (3, "det")
    assert arc_of(studio.document, 5) == (4, "punct")
