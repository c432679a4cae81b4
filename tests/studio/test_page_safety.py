"""Nothing is lost on the page, in a real browser: undo, reloads, restarts, and a killed server."""

import json
import os
import re
import signal
import socket
import subprocess
import sys

from tests.support.studio_pages import (
    DOG,
    POLL,
    RAIN,
    STARS,
    TREES,
    arc_of,
    drag,
    form,
    go_to,
    press,
    said,
    shown_arc,
    until_arc,
    until_sentence,
)
from treefine.studio.app import create_studio
from treefine.studio.document import Document
from treefine.studio.project import Project


def change_three_sentences(page):
    """Change a label in each of the three sentences."""
    go_to(page, 3)
    press(page, "1")
    until_arc(page, 3, "nsubj of stars")
    press(page, "n")
    until_sentence(page, "dog")
    go_to(page, 2)
    press(page, "3")
    until_arc(page, 2, "det of dog")
    press(page, "n")
    until_sentence(page, "rain")
    go_to(page, 1)
    press(page, "2")
    until_arc(page, 1, "punct of fell")


def take_back_three_changes(page):
    press(page, "Control+z")
    until_arc(page, 1, "nsubj of fell")
    press(page, "Control+z")
    until_sentence(page, "dog")
    until_arc(page, 2, "amod of dog")
    press(page, "Control+z")
    until_sentence(page, "stars")
    until_arc(page, 3, "nummod of stars")
    page.wait_for_selector("#undo:disabled")


def test_undo_goes_back_through_several_sentences_and_redo_forward(studio, page):
    change_three_sentences(page)
    changed = studio.document.content()
    take_back_three_changes(page)
    assert studio.document.content().decode() == TREES
    press(page, "Control+Shift+Z")
    until_arc(page, 3, "nsubj of stars")
    press(page, "Control+Shift+Z")
    until_sentence(page, "dog")
    press(page, "Control+Shift+Z")
    until_sentence(page, "rain")
    until_arc(page, 1, "punct of fell")

    assert studio.document.content() == changed
    assert studio.on_disk() == changed.decode()


def test_a_reload_keeps_the_sentence_all_changes_and_undo(studio, page):
    change_three_sentences(page)
    page.reload()

    until_sentence(page, "rain")
    assert shown_arc(page, 1) == "punct of fell"
    page.wait_for_selector("#tree:focus")
    take_back_three_changes(page)
    assert studio.on_disk() == TREES


def test_a_restart_of_the_server_keeps_all_changes_and_undo(studio, page, desk):
    change_three_sentences(page)
    studio.project.close()
    project = Project([Document(studio.document.path)])
    desk[1].app = create_studio(project)
    try:
        take_back_three_changes(page)  # without a reload
        press(page, "Control+y")
        until_arc(page, 3, "nsubj of stars")
        page.reload()
        until_sentence(page, "stars")
        assert shown_arc(page, 3) == "nsubj of stars"
        press(page, "Control+z")
        until_arc(page, 3, "nummod of stars")
        assert project.documents[0].content().decode() == TREES
    finally:
        project.close()
    assert studio.document.path.read_text() == TREES


def start_command(path, port):
    """Start the real command, and return its process and the address that it prints."""
    command = [
        sys.executable,
        "-m",
        "treefine",
        "annotate",
        path,
        "--model",
        "none",
        "--no-browser",
        "--port",
        str(port),
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    for line in process.stderr:
        if found := re.search(r"http://\S+/", line):
            return process, found[0]
    raise AssertionError(f"The command ended with {process.wait()}.")


def test_a_change_during_a_killed_server_arrives_once_when_it_is_back(pages, tmp_path):
    path = tmp_path / "trees.conllu"
    path.write_text(TREES)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process, address = start_command(path, port)
    try:
        page = pages.watch(pages.new().context.new_page(), address)
        page.goto(address)
        page.wait_for_selector("#word-3")
        drag(page, 3, 2)
        until_arc(page, 3, "nummod of saw")
        process.send_signal(signal.SIGKILL)
        process.wait()
        drag(page, 5, 4)
        page.wait_for_selector("#connection >> text=The connection to treefine annotate is lost.")
        assert shown_arc(page, 5) == "punct of saw"
        process.stderr.close()
        process, again = start_command(path, port)
        assert again == address

        until_arc(page, 5, "punct of stars")
        page.wait_for_selector("#connection", state="hidden")
        assert shown_arc(page, 3) == "nummod of saw"
        records = map(json.loads, (tmp_path / "trees.conllu.annotation" / "journal.jsonl").read_text().splitlines())
        assert [each["what"] for each in records if each["record"] == "change"] == ["arc", "arc"]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
        process.stderr.close()
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


def test_an_internal_error_is_shown_and_the_page_still_works(studio, page):
    page.route("**/api/edit", lambda route: route.fulfill(status=500, body="{}"), times=1)
    drag(page, 3, 2)
    page.wait_for_selector("#problem >> text=Error 500.")
    drag(page, 3, 2)

    until_arc(page, 3, "nummod of saw")
    assert page.is_hidden("#problem")
    assert studio.document.revision == 1


def test_a_file_that_another_program_changed_is_left_alone_and_the_page_says_so(studio):
    page = studio.open(has_clock=True)
    drag(page, 3, 2)
    until_arc(page, 3, "nummod of saw")
    studio.document.save()
    studio.document.path.write_text(RAIN)
    drag(page, 5, 4)
    until_arc(page, 5, "punct of stars")
    studio.document.save()
    page.clock.run_for(POLL)

    page.wait_for_selector("#fault >> text=Another program has changed a.conllu, so it is not written any more.")
    assert studio.on_disk() == RAIN
    assert arc_of(studio.document, 5) == (4, "punct")


def test_the_first_change_of_a_file_that_another_program_changed_is_refused(studio, page):
    studio.document.path.write_text(RAIN)
    drag(page, 3, 2)

    page.wait_for_selector("#problem >> text=Another program has changed a.conllu since it was opened.")
    assert shown_arc(page, 3) == "nummod of stars"
    assert studio.document.revision == 0
    assert studio.on_disk() == RAIN


def test_a_file_that_was_changed_before_the_start_is_opened_as_it_is_with_a_notice(open_studio):
    first = open_studio(TREES)
    page = first.open()
    drag(page, 3, 2)
    until_arc(page, 3, "nummod of saw")
    first.project.close()
    studio = open_studio(STARS + RAIN)  # the same path
    page = studio.open()

    assert "a.conllu was changed by another program since it was last annotated." in said(page, "#notice")
    assert page.locator(".row").count() == 2
    page.click("#notice button")
    assert page.is_hidden("#notice")
    assert (studio.document.folder / "earlier-1").is_dir()


def test_typed_comments_are_saved_when_another_sentence_or_word_is_chosen(studio, page):
    press(page, "#", "Control+End")
    page.keyboard.type("\n# one")
    page.click(".row >> nth=1")
    until_sentence(page, "dog")
    press(page, "#", "Control+End")
    page.keyboard.type("\n# two")
    form(page, 1).click()
    page.wait_for_selector("#place >> text=changed")

    assert "# one\n" in studio.document.text(1)
    assert studio.document.text(2).startswith(DOG[: DOG.index("1\t")] + "# two\n")
