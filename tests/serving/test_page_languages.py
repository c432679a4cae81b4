"""The choice of a language on the page, in a real browser."""

import pytest

from tests.serving.conftest import SIZE, check, watched
from tests.support.pages import copied_link, open_link, parse, said, start, until_parsed
from tests.support.tiny import tiny_parser
from tests.support.tiny_app import listening, tiny_parser_of_two

SWEDISH = "Hunden sover under bordet och katten ligger på soffan."


@pytest.fixture(scope="module")
def served():
    """Return the address of a server with a model of two languages and a model of one."""
    with listening({"multi": tiny_parser_of_two(), "tiny": tiny_parser()}) as address:
        yield f"{address}/"


@pytest.fixture
def page(browser, served):
    """Return a page; after the test, check that nothing failed in it."""
    faults = []
    context = browser.new_context(viewport=SIZE)
    yield watched(context.new_page(), served, faults)
    context.close()
    check(faults)


def test_a_model_of_several_languages_offers_them_by_name_after_detect(page, served):
    start(page, served)

    assert page.locator("#language option").all_inner_texts() == ["detect", "Danish", "Swedish"]
    assert page.is_visible("#language")
    page.select_option("#model", "tiny")
    assert page.is_hidden("#language")


def test_the_detected_language_is_shown(page, served):
    parse(page, served, SWEDISH)

    assert said(page, "#language-found") == "Detected: Swedish"


def test_a_chosen_language_is_used_and_part_of_the_link(page, served):
    parse(page, served, SWEDISH)
    with page.expect_request("**/v1/steps") as sent:
        until_parsed(page, lambda: page.select_option("#language", label="Danish"))

    assert sent.value.post_data_json["language"] == "da"
    assert said(page, "#language-found") == ""
    link = copied_link(page)
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector("#drawing svg")
    assert page.input_value("#language") == "da"


def test_a_language_that_the_model_lacks_is_noted_and_detected_instead(page, served):
    open_link(page, served, SWEDISH, model="multi", initial="empty", steps=3, language="fi")

    assert said(page, "#note") == "multi has no choice of the language fi, which the link asks for."
    assert page.input_value("#language") == ""
    assert said(page, "#language-found") == "Detected: Swedish"
