"""Tokens and sentences on the page, in a real browser: they are split, joined, and made of several words."""

from tests.support.studio_pages import (
    DOG,
    RAIN,
    STARS,
    conllu,
    covers,
    focused,
    form,
    go_to,
    press,
    said,
    selected,
    until_arc,
    until_sentence,
)

MULTIWORD = conllu("""
# sent_id = vamos
# text = vámonos al mar
1-2 vámonos _     _    _ _ _ _     _ _
1   vamos   ir    VERB _ _ 0 root  _ _
2   nos     yo    PRON _ _ 1 obj   _ _
3-4 al      _     _    _ _ _ _     _ _
3   a       a     ADP  _ _ 5 case  _ _
4   el      el    DET  _ _ 5 det   _ _
5   mar     mar   NOUN _ _ 1 obl   _ _
5.1 _       _     _    _ _ _ _     _ _
""")


def forms(page):
    return page.locator("#tree .form").all_inner_texts()


def until_forms(page, *wanted):
    page.wait_for_function(
        "wanted => [...document.querySelectorAll('#tree .form')].map((each) => each.textContent).join() === wanted",
        arg=",".join(wanted),
    )


@covers("split")
def test_s_splits_a_word_into_tokens(studio, page):
    go_to(page, 4)
    press(page, "s")
    assert focused(page) == "split"
    assert page.input_value("#split") == "stars"
    press(page, "Home", *["ArrowRight"] * 4, "|", "Enter")

    until_forms(page, "She", "saw", "two", "star", "s", ".")
    assert focused(page) == "tree"
    assert page.is_hidden("#split-form")
    assert studio.document.sentence(1).heads == (2, 0, 4, 2, 4, 2)
    assert [len(each.words) for each in studio.document.sentence(1).tokens()] == [1] * 6


def test_s_and_shift_enter_split_a_word_into_words_of_one_token(studio, page):
    go_to(page, 4)
    press(page, "s")
    page.fill("#split", "star | z")
    press(page, "Shift+Enter")

    until_forms(page, "She", "saw", "two", "star", "z", ".")
    assert page.locator("#tree .in-token").count() == 2
    assert said(page, "#word-4 .token") == "stars"
    assert "4-5\tstars\t" in studio.document.text(1)


def test_a_split_that_does_not_spell_the_word_is_refused_and_escape_closes_the_form(studio, page):
    go_to(page, 4)
    press(page, "s")
    page.fill("#split", "st|x")
    press(page, "Enter")
    page.wait_for_selector("#problem >> text=The new forms do not spell 'stars'.")
    press(page, "s", "Escape")

    assert page.is_hidden("#split-form")
    assert focused(page) == "tree"
    assert studio.document.revision == 0


@covers("join")
def test_g_joins_a_word_with_the_next_one_or_the_selected_words(studio, page):
    go_to(page, 3)
    press(page, "g")
    until_forms(page, "She", "saw", "two stars", ".")
    assert studio.document.sentence(1).forms == ("She", "saw", "two stars", ".")
    press(page, "Control+z")
    until_forms(page, "She", "saw", "two", "stars", ".")
    form(page, 2).click()
    form(page, 4).click(modifiers=["Shift"])
    assert selected(page) == [2, 3, 4]
    press(page, "g")

    until_forms(page, "She", "saw two stars", ".")
    assert studio.document.sentence(1).heads == (2, 0, 2)


@covers("multiword")
def test_shift_g_makes_a_multiword_token_or_removes_it(studio, page):
    go_to(page, 3)
    press(page, "Shift+ArrowRight", "Shift+G")
    page.wait_for_selector("#word-4.in-token")
    assert said(page, "#word-3 .token") == "two stars"
    assert "3-4\ttwo stars\t" in studio.document.text(1)
    assert page.inner_text("[data-do=multiword]") == "Remove multiword token"
    press(page, "Shift+G")

    page.wait_for_selector("#word-4:not(.in-token)")
    assert "3-4" not in studio.document.text(1)


def test_multiword_tokens_and_empty_nodes_are_shown(open_studio):
    page = open_studio(MULTIWORD).open()

    assert forms(page) == ["vamos", "nos", "a", "el", "mar"]
    assert page.locator("#tree .in-token .token").all_inner_texts()[::2] == ["vámonos", "al"]
    assert page.locator("#tree .in-token").count() == 4
    assert said(page, "#word-5 .empty-node") == "5.1 _"
    assert said(page, "#text") == "vámonos al mar"


@covers("splitSentence", "joinSentence")
def test_shift_s_starts_a_sentence_and_shift_j_joins_it_again(studio, page):
    press(page, "n")
    until_sentence(page, "dog")
    go_to(page, 5)
    press(page, "Shift+S")
    until_forms(page, "The", "old", "dog", "slept")
    page.wait_for_selector("#rows >> text=near the door.")
    page.wait_for_selector("#context .card >> nth=0 >> text=near")
    assert len(studio.document) == 4
    press(page, "Shift+J")

    until_forms(page, "The", "old", "dog", "slept", "near", "the", "door", ".")
    page.wait_for_selector("#context .card >> nth=0 >> text=Rain")
    assert len(studio.document) == 3
    press(page, "Control+z", "Control+z")
    until_arc(page, 7, "obl of slept")
    assert studio.on_disk() == STARS + DOG + RAIN
