"""Work on the page, in a real browser: the list, the parser, other annotators, other tabs, and a killed server."""

import json
from types import SimpleNamespace

import pytest

from tests.slow.studio.test_command import Command
from tests.support.studio import (
    POLL,
    RAIN,
    TREES,
    Stub,
    arc_of,
    drag,
    go_to,
    press,
    said,
    shown_arc,
    until_arc,
    until_sentence,
)
from treefine.studio.learn import LearningState


def test_the_most_doubtful_sentences_come_first_and_the_arcs_that_are_left_are_counted(open_studio):
    page = open_studio(partner=Stub(confidences={3: 0.5, 7: 0.1})).open(has_clock=True)  # only one has a seventh word
    page.clock.run_for(POLL)
    page.wait_for_selector("#counted >> text=about 3 wrong arcs left")
    page.select_option("#order", "doubt")

    page.wait_for_selector(".row-note >> nth=0 >> text=2 · dog · 1.6 doubts")
    until_sentence(page, "dog")


def test_of_10000_sentences_only_a_few_dozen_rows_exist_while_scrolling(open_studio):
    texts = (RAIN.replace("sent_id = rain", f"sent_id = r{number}") for number in range(1, 10_001))
    studio = open_studio("".join(texts))
    page = studio.open()
    page.wait_for_selector("#counted >> text=0 of 10,000 done")
    page.hover("#rows")
    counts = []

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
    press(page, "n")

    until_sentence(page, f"r{number + 1}")
    assert number > 9_000
    assert max(counts) < 50


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


def test_a_parser_that_is_loaded_later_gives_advice_then_and_a_better_model_is_offered(open_studio):
    stub = Stub(confidences={3: 0.3}, is_ready=False, fault="The model is damaged.")
    learner = SimpleNamespace(state=LearningState("better", "The new model has 91.0 LAS."))
    learner.adopt = lambda load: load("learned") or setattr(learner, "state", LearningState()) or "learned"
    learner.consider = learner.stop = lambda *_: None
    studio = open_studio(partner=stub, learner=learner)
    page = studio.open(has_clock=True)
    page.clock.run_for(POLL)
    page.wait_for_selector("#fault >> text=The model is damaged.")
    assert page.locator("#tree .doubtful").count() == 0
    drag(page, 5, 4)  # without the parser, everything else works
    until_arc(page, 5, "punct of stars")
    stub.is_ready, stub.fault = True, ""
    page.clock.run_for(POLL)
    page.wait_for_selector("#word-3.doubtful")

    page.wait_for_selector("#learning >> text=The new model has 91.0 LAS.")
    page.click("#adopt")
    page.wait_for_selector("#learning", state="hidden")
    assert stub.name == "learned"


def test_two_tabs_know_of_each_other_and_a_change_in_one_appears_in_the_other(studio):
    first = studio.open(has_clock=True)
    second = studio.open(beside=first)
    says = "#tabs >> text=This file is also open in another tab."
    second.clock.run_for(POLL)
    first.clock.run_for(POLL)
    first.wait_for_selector(says)
    second.clock.run_for(POLL)
    second.wait_for_selector(says)
    drag(first, 3, 2)
    until_arc(first, 3, "nummod of saw")
    second.clock.run_for(POLL)
    until_arc(second, 3, "nummod of saw", is_decided=True)
    second.goto("about:blank")
    first.clock.run_for(POLL)

    first.wait_for_selector("#tabs", state="hidden")
    assert arc_of(studio.document, 3) == (2, "nummod")


def test_a_change_of_an_old_state_is_refused_and_the_present_one_is_shown(studio, page):
    stale = studio.open(beside=page)
    stale.route("**/api/status*", lambda route: None)  # it does not look at the state of the server
    drag(page, 3, 2)
    until_arc(page, 3, "nummod of saw")
    drag(stale, 3, 1)

    stale.wait_for_selector("#problem >> text=This sentence was changed in another tab. It is shown as it is now.")
    until_arc(stale, 3, "nummod of saw", is_decided=True)
    drag(stale, 3, 1)
    until_arc(stale, 3, "nummod of She")
    assert arc_of(studio.document, 3) == (1, "nummod")
    assert studio.document.revision == 2


def test_a_change_during_a_killed_server_arrives_once_when_it_is_back(new_page, tmp_path):
    path = tmp_path / "trees.conllu"
    path.write_text(TREES)
    with Command(path, "--model", "none", cwd=tmp_path) as first:
        page = new_page(address=first.address)
        drag(page, 3, 2)
        until_arc(page, 3, "nummod of saw")
    drag(page, 5, 4)
    page.wait_for_selector("#connection >> text=The connection to treefine annotate is lost.")
    assert shown_arc(page, 5) == "punct of saw"

    with Command(path, "--model", "none", port=first.port, cwd=tmp_path) as second:
        assert second.address == first.address
        until_arc(page, 5, "punct of stars")
        page.wait_for_selector("#connection", state="hidden")
        records = map(json.loads, (tmp_path / "trees.conllu.annotation" / "journal.jsonl").read_text().splitlines())
        assert [each["what"] for each in records if each["record"] == "change"] == ["arc", "arc"]
        second.end()
    assert path.read_text().count("Keep=Head") == 2


def test_a_change_whose_answer_is_lost_is_made_once(studio, page):
    ids = []

    def lose_the_first_answer(route):
        ids.append(route.request.post_data_json["id"])
        if len(ids) == 1:
            route.fetch()
            route.abort()
        else:
            route.continue_()

    page.route("**/api/edit", lose_the_first_answer)
    drag(page, 3, 2)

    until_arc(page, 3, "nummod of saw")
    assert len(ids) == 2
    assert len(set(ids)) == 1
    assert studio.document.revision == 1
