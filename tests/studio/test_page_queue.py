"""The list of sentences on the page, in a real browser: orders, filters, search, progress, and large files."""

import pytest

from tests.support.studio_pages import (
    DOG,
    POLL,
    RAIN,
    STARS,
    TREES,
    Stub,
    arc_of,
    covers,
    focused,
    go_to,
    press,
    said,
    until_arc,
    until_sentence,
)


def until_rows(page, *notes):
    """Wait until the list has exactly these notes."""
    page.wait_for_function(
        "notes => [...document.querySelectorAll('.row-note')].map((each) => each.textContent).join() === notes.join()",
        arg=notes,
    )


def search(page, text):
    page.fill("#search", text)
    press(page, "Enter")


def found_words(page):
    return page.locator("#tree .word.found .form").all_inner_texts()


def test_the_rows_show_texts_numbers_and_marks_and_a_click_opens_one(studio, page):
    until_rows(page, "1 · stars", "2 · dog", "3 · rain")
    assert page.locator(".row-text").all_inner_texts() == [
        "She saw two stars.",
        "The old dog slept near the door.",
        "Rain fell.",
    ]
    page.click(".row >> nth=2")
    until_sentence(page, "rain")
    assert page.get_attribute(".row.current", "data-key") == "3"
    press(page, "Home", "3")
    until_rows(page, "1 · stars", "2 · dog", "3 · rain · ✎ changed")
    press(page, "d")
    until_rows(page, "1 · stars", "2 · dog", "3 · rain · ? doubtful")
    page.click(".row >> nth=0")
    until_sentence(page, "stars")
    page.click("#done")

    until_rows(page, "1 · stars · ✓ done", "2 · dog", "3 · rain · ? doubtful")
    until_sentence(page, "dog")
    assert [studio.document.status(key) for key in (1, 2, 3)] == ["done", "open", "doubtful"]


def test_the_most_doubtful_sentences_come_first(open_studio):
    stub = Stub(sure={3: 0.5, 7: 0.1})  # only one sentence has a seventh word
    studio = open_studio(partner=stub)
    page = studio.open(has_clock=True)
    page.clock.run_for(POLL)
    page.wait_for_selector("#counted >> text=about 3 wrong arcs left")
    page.select_option("#order", "doubt")

    until_rows(page, "2 · dog · 1.6 doubts", "1 · stars · 0.6 doubts", "3 · rain · 0.6 doubts")
    until_sentence(page, "dog")
    press(page, "Enter")
    until_sentence(page, "stars")
    until_rows(page, "2 · dog · ✓ done", "1 · stars · 0.6 doubts", "3 · rain · 0.6 doubts")
    page.clock.run_for(POLL)
    page.wait_for_selector("#counted >> text=1 of 3 done · about 1 wrong arc left")


def test_filters_show_open_done_doubtful_and_changed_sentences(studio, page):
    press(page, "Enter")
    until_sentence(page, "dog")
    press(page, "d")
    until_sentence(page, "rain")

    for show, notes, hint in (
        ("open", ["3 · rain"], "1 sentence"),
        ("done", ["1 · stars · ✓ done"], "1 sentence"),
        ("doubtful", ["2 · dog · ? doubtful"], "1 sentence"),
        ("changed", ["1 · stars · ✓ done", "2 · dog · ? doubtful"], "2 sentences"),
        ("all", ["1 · stars · ✓ done", "2 · dog · ? doubtful", "3 · rain"], ""),
    ):
        page.select_option("#show", show)
        until_rows(page, *notes)
        assert page.text_content("#found") == hint
        until_sentence(page, notes[0].split(" · ")[1])


def test_a_filter_without_a_match_leaves_the_sentence(page):
    page.select_option("#show", "done")
    page.wait_for_selector("#found >> text=No sentence matches.")

    assert page.locator(".row").count() == 0
    assert said(page, "#place") == "1 · stars"
    press(page, "n")
    assert said(page, "#place") == "1 · stars"


@covers("search")
def test_a_search_opens_the_first_match_and_highlights_its_words(page):
    for query, sent_id, words in (
        ("slept", "dog", ["slept"]),
        ("VERB -obj-> NOUN", "stars", ["saw", "stars"]),
        ("the door", "dog", ["the", "door"]),
        ("pattern { V [upos=VERB]; V -[nsubj]-> S; S [form=Rain] }", "rain", ["Rain", "fell"]),
        ("label=amod", "dog", ["old"]),
    ):
        press(page, "/", "Control+a")
        page.keyboard.type(query)
        press(page, "Enter")
        until_sentence(page, sent_id)
        assert said(page, "#found") == "1 sentence"
        assert found_words(page) == words
        assert page.locator(".row").count() == 1
        assert focused(page) == "tree"


def test_a_person_who_types_the_next_query_keeps_the_focus(studio, page):
    routes = []
    page.route("**/api/queue*", lambda route: routes.append(route))
    with page.expect_request("**/api/queue*"):
        search(page, "Rain")
    page.keyboard.type("d")
    routes[0].continue_()
    until_sentence(page, "rain")
    page.keyboard.type("o")

    assert page.input_value("#search") == "Raindo"
    assert focused(page) == "search"
    assert studio.document.revision == 0


def test_an_empty_search_shows_all_sentences_again(page):
    search(page, "Rain")
    until_rows(page, "3 · rain")
    search(page, "")

    until_rows(page, "1 · stars", "2 · dog", "3 · rain")
    until_sentence(page, "stars")
    assert found_words(page) == []


def test_a_wrong_query_shows_what_is_wrong_and_everything_else_stays(page):
    press(page, "n")
    until_sentence(page, "dog")
    search(page, "VERB -obj NOUN ->")

    page.wait_for_selector("#found.fault:not(:empty)")
    assert "Write HEAD -label-> DEPENDENT" in said(page, "#found")
    assert said(page, "#place") == "2 · dog"
    assert page.locator(".row").count() == 3
    assert focused(page) == "search"


def test_a_reversed_arrow_without_a_match_gets_a_hint(page):
    search(page, "NOUN -obj-> VERB")

    page.wait_for_selector("#found >> text=No sentence matches.")
    assert said(page, "#found") == (
        "No sentence matches. The arrow goes from the head to its dependent: try VERB -obj-> NOUN"
    )
    search(page, "VERB -obj-> NOUN")
    page.wait_for_selector("#found >> text=1 sentence")


def test_of_10000_sentences_only_a_few_dozen_rows_exist_while_scrolling(open_studio):
    texts = (RAIN.replace("sent_id = rain", f"sent_id = r{number}") for number in range(1, 10_001))
    studio = open_studio("".join(texts))
    page = studio.open()
    page.wait_for_selector("#counted >> text=0 of 10,000 done")
    page.hover("#rows")
    counts, n_requests = [], []
    page.on("request", lambda request: n_requests.append(request.url) if "/rows" in request.url else None)

    for place in (40, 3_000, 6_500):
        page.mouse.wheel(0, 50 * place)
        page.wait_for_function(
            "() => { const top = document.getElementById('rows').scrollTop; const place = Math.floor(top / 50) + 1;"
            " const row = document.querySelector(`.row[aria-posinset='${place}'] .row-note`);"
            " return top > 0 && row?.textContent.startsWith(`${place} · r${place}`); }"
        )
        counts.append(page.locator(".row").count())
    page.click(".row >> nth=20")
    page.wait_for_selector(".row.current")
    number = int(said(page, "#place").split(" · ")[0])
    assert number > 9_000
    press(page, "n")

    until_sentence(page, f"r{number + 1}")
    assert max(counts) < 50
    assert len(n_requests) < 60
    assert page.get_attribute(".row >> nth=0", "aria-setsize") == "10000"


def test_progress_time_and_actions_are_counted(studio):
    page = studio.open(has_clock=True)
    page.wait_for_selector("#counted >> text=0 of 3 done")
    page.clock.fast_forward(10_000)
    go_to(page, 3)  # three keys
    page.clock.fast_forward(20_000)
    press(page, "3")
    until_arc(page, 3, "det of stars")
    page.clock.fast_forward(600_000)  # of a long pause, only one minute counts
    press(page, "Enter")
    until_sentence(page, "dog")
    page.clock.run_for(POLL)

    page.wait_for_selector("#counted >> text=/1 of 3 done · 9[0-9] s and 5.0 actions per sentence/")
    assert studio.document.spent[1] == (pytest.approx(90, abs=10), 5)
    assert page.evaluate("document.getElementById('bar').value") == pytest.approx(1 / 3)


def test_several_files_can_be_chosen(open_studio):
    studio = open_studio(TREES, RAIN + DOG)
    page = studio.open()
    assert page.locator("#file option").all_inner_texts() == ["a.conllu", "b.conllu"]
    page.select_option("#file", label="b.conllu")
    until_rows(page, "1 · rain", "2 · dog")
    until_sentence(page, "rain")
    page.keyboard.press("Escape")
    page.click("#tree .form >> nth=0")
    press(page, "2")
    until_arc(page, 1, "punct of fell")

    second = studio.project.documents[1]
    assert arc_of(second, 1) == (2, "punct")
    assert studio.on_disk() == TREES
    assert second.path.read_text() != RAIN + DOG


def test_a_file_of_one_sentence_has_no_file_menu_and_shows_its_name(open_studio):
    page = open_studio(STARS).open()

    assert page.is_hidden("#file")
    assert said(page, "#file-name") == "a.conllu"
    press(page, "n", "Shift+N", "PageDown")
    assert said(page, "#place") == "1 · stars"


def test_actions_before_a_reload_are_counted_and_looking_at_the_server_is_no_action(studio):
    page = studio.open(has_clock=True)
    go_to(page, 2)  # two keys
    page.clock.run_for(3 * POLL)
    page.reload()
    page.wait_for_selector("#tree:focus .word")
    press(page, "Enter")
    until_sentence(page, "dog")
    page.clock.run_for(POLL)

    page.wait_for_selector("#counted >> text=3.0 actions per sentence")
    assert studio.document.spent[1][1] == 3
