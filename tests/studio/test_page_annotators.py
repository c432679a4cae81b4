"""Two annotators on the page, in a real browser: their trees, what differs, and the agreement."""

import io

import pytest

from tests.support.studio_pages import (
    DOG,
    RAIN,
    STARS,
    TREES,
    arc_of,
    covers,
    decided,
    go_to,
    press,
    said,
    selected,
    shown_arc,
    until_arc,
    until_sentence,
)
from treefine import read_treebank
from treefine.studio.project import Reference

# B has other heads for two (3) and the full stop (5), and one other label in the second sentence.
OF_B = (
    STARS.replace("4\tnummod", "2\tobl").replace("2\tpunct", "4\tpunct") + DOG.replace("3\tamod", "3\tcompound") + RAIN
)


def reference(text, name):
    return Reference(name, tuple(read_treebank(io.BytesIO(text.encode()))))


@pytest.fixture
def studio(open_studio):
    """Return a studio that decides between two annotators; the file is that of A."""
    return open_studio(TREES, references=[reference(TREES, "A.conllu"), reference(OF_B, "B.conllu")])


def differing(page, index):
    """Return the words that are highlighted in the tree of an annotator."""
    return page.eval_on_selector_all(
        f"#others .card:nth-child({index}) .arc.differs", "all => all.map(({dataset}) => +dataset.word).sort()"
    )


def until_tags(page, n):
    """Wait until this many tags of B differ."""
    page.wait_for_function(
        "n => document.querySelectorAll('#others .card:nth-child(2) .other-tag').length === n", arg=n
    )


def test_both_trees_are_shown_and_their_differences_highlighted(page):
    assert [each.split("\n")[0].strip() for each in page.locator("#others .card").all_inner_texts()] == [
        "A A.conllu as below",
        "B B.conllu 2 words differ Take all B",
    ]
    assert (differing(page, 1), differing(page, 2)) == ([], [3, 5])
    assert page.locator("#others svg").count() == 2
    disputed = page.eval_on_selector_all("#tree .disputed", "all => all.map(({dataset}) => dataset.word)")
    assert [each for each in disputed if each] == ["3", "5"] * (len(disputed) // 2)


def test_the_sentences_with_most_differences_come_first_and_equal_ones_are_left_out(page):
    page.wait_for_selector(".row-note >> text=2 differ")

    assert page.input_value("#order") == "difference"
    assert page.locator(".row-note").all_inner_texts() == ["1 · stars · 2 differ", "2 · dog · 1 differ"]


def test_the_agreement_is_shown(page):
    shown = dict(
        zip(
            page.locator("#agreement dt").all_inner_texts(),
            page.locator("#agreement dd").all_inner_texts(),
            strict=True,
        )
    )

    assert shown["heads (UAS)"] == "87.5%"  # 14 of 16 words
    assert shown["heads and labels (LAS)"] == "81.3%"
    assert shown["whole trees"] == "33.3%"
    assert float(shown["kappa of labels"]) < 1


@covers("takeA", "takeB")
def test_a_and_b_take_an_arc(studio, page):
    go_to(page, 3)
    assert said(page, "#other-arcs") == "B.conllu: obl of 2 saw b"
    press(page, "b")
    until_arc(page, 3, "obl of saw", is_decided=True)
    assert (differing(page, 1), differing(page, 2)) == ([3], [5])
    assert arc_of(studio.document, 3) == (2, "obl")
    press(page, "a")

    until_arc(page, 3, "nummod of stars", is_decided=True)
    assert arc_of(studio.document, 3) == (4, "nummod")
    page.click("#other-arcs button")
    until_arc(page, 3, "obl of saw")
    assert selected(page) == 3


@covers("treeA", "treeB")
def test_shift_a_and_shift_b_take_a_whole_tree(studio, page):
    press(page, "Shift+B")
    until_arc(page, 5, "punct of stars", is_decided=True)
    assert shown_arc(page, 3) == "obl of saw"
    assert studio.document.sentence(1).heads == (2, 0, 2, 2, 4)
    assert decided(studio.document) == [1, 2, 3, 4, 5]
    press(page, "Shift+A")

    until_arc(page, 5, "punct of saw")
    assert studio.document.sentence(1).heads == (2, 0, 4, 2, 2)
    page.click("#others button")
    until_arc(page, 5, "punct of stars")
    press(page, "Enter")
    until_sentence(page, "dog")
    assert said(page, "#others .card >> nth=1").startswith("B B.conllu 1 word differs")


def test_tags_that_differ_are_shown_and_taken(open_studio):
    of_b = STARS.replace("saw\tsee\tVERB\tVBD", "saw\tsaw\tNOUN\tVBD").replace("NNS\tNumber=Plur", "NN\tNumber=Sing")
    studio = open_studio(TREES, references=[reference(TREES, "A.conllu"), reference(of_b + DOG + RAIN, "B.conllu")])
    page = studio.open()
    assert said(page, "#others .card >> nth=1").startswith("B B.conllu 2 words differ")
    assert page.locator("#others .card >> nth=1 >> .other-tag").all_inner_texts() == [
        "2 saw: UPOS NOUN",
        "2 saw: lemma saw",
        "4 stars: XPOS NN",
        "4 stars: FEATS Number=Sing",
    ]
    go_to(page, 2)
    assert said(page, "#other-arcs") == "B.conllu: UPOS NOUN, lemma saw b"
    press(page, "b")
    until_arc(page, 2, "root of ROOT", is_decided=True)
    word = studio.document.sentence(1).words[1]
    assert (word.upos, word.lemma, word.xpos) == ("NOUN", "saw", "VBD")
    press(page, "Shift+B")

    until_tags(page, 0)
    assert studio.document.sentence(1).feats == reference(of_b, "B").sentences[0].feats
    assert said(page, "#others .card >> nth=0").startswith("A A.conllu 2 words differ")
    press(page, "Control+z")
    until_tags(page, 2)
    press(page, "Control+z")
    until_tags(page, 4)


def test_one_other_file_is_compared_with_the_own_one(open_studio):
    studio = open_studio(TREES, references=[reference(OF_B, "B.conllu")])
    page = studio.open()
    assert page.locator("#others .card").count() == 1
    assert differing(page, 1) == [3, 5]
    go_to(page, 5)
    press(page, "a")

    until_arc(page, 5, "punct of stars")
    assert differing(page, 1) == [3]


def test_an_annotator_with_other_words_can_still_be_taken(open_studio):
    other = STARS.replace("3\ttwo\t", "3\tthree\t").replace("two stars", "three stars")
    studio = open_studio(STARS, references=[reference(STARS, "A.conllu"), reference(other, "B.conllu")])
    page = studio.open()
    assert "has other words" in said(page, "#others .card >> nth=1")
    press(page, "Shift+B")

    page.wait_for_selector("#text >> text=She saw three stars.")
    assert studio.document.text(1) == other


def test_a_sentence_that_an_annotator_does_not_have_says_so(open_studio):
    studio = open_studio(STARS, references=[reference(STARS, "A.conllu"), reference(RAIN, "B.conllu")])
    page = studio.open()

    assert "does not have this sentence" in said(page, "#others .card >> nth=1")
    press(page, "b", "Shift+B", "ArrowRight")
    assert selected(page) == 1
    assert studio.document.revision == 0
