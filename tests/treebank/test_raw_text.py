from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.data import ud_files
from tests.treebank.test_conllu import parsed
from treefine import Sentence, read_treebank
from treefine.treebank.raw_text import (
    RawText,
    documents,
    escaped,
    gap_of,
    misc_of,
    raw_sentences,
    raw_text,
    text_of,
    unescaped,
)

BLANKS = "\t_" * 8
GAPS = st.text(st.sampled_from(" \t\r\n|\\\u00a0\u3000\x00\ud800\x85su0p"))


def sentence(*tokens, comments=()):
    """A sentence of (form, MISC) pairs; a form with + in it is a multiword token."""
    rows, number = [], 0
    for form, misc in tokens:
        words = form.split("+")
        if len(words) > 1:
            rows.append((f"{number + 1}-{number + len(words)}", "".join(words), misc))
            misc = "_"
        for word in words:
            number += 1
            rows.append((str(number), word, misc))
    return parsed([*comments, *("\t".join([a, b, *["_"] * 7, c]) for a, b, c in rows)])


def test_tokens_are_joined_as_space_after_says_and_sentences_by_a_space():
    found = raw_text([sentence(("I", "_"), ("go", "SpaceAfter=No"), (".", "_")), sentence(("Bye", "_"))])

    assert found == RawText(
        "I go. Bye", ((0, 1), (2, 4), (4, 5), (6, 9)), (("I",), ("go",), (".",), ("Bye",)), (False, False, True, True)
    )


def test_no_space_stands_between_sentences_where_the_last_token_has_none_after_it():
    assert text_of([sentence(("a", "SpaceAfter=No")), sentence(("b", "_"))]) == "ab"


def test_a_multiword_token_stands_in_the_text_and_its_words_do_not():
    found = raw_text([sentence(("de+l", "SpaceAfter=No"), ("mar", "_"))])

    assert found.text == "delmar"
    assert found.words == (("de", "l"), ("mar",))


@pytest.mark.parametrize("mark", ["# newdoc", "# newdoc id = 7", "# newpar", "#newpar id = 1"])
def test_a_blank_line_stands_before_a_document_and_a_paragraph(mark):
    sentences = [sentence(("a", "SpaceAfter=No"), comments=[mark]), sentence(("b", "_"), comments=["# x = 1", mark])]

    assert text_of(sentences) == "a\n\nb"


def test_a_comment_that_only_begins_like_a_mark_is_none():
    assert text_of([sentence(("a", "_")), sentence(("b", "_"), comments=["# newparty = 1"])]) == "a b"


def test_notes_of_white_space_are_followed_to_the_character():
    first = sentence(("a", r"SpacesBefore=\t|SpacesAfter=\s\s"), ("b", r"Gloss=x|SpacesAfter=\n"))
    last = sentence(("c", r"SpacesAfter=\u3000"), comments=["# newpar"])

    assert text_of([first, last]) == "\ta  b\nc\u3000"


def test_an_empty_node_is_no_part_of_the_text():
    assert text_of([parsed([f"{word}{BLANKS}" for word in ("1\ta", "1.1\tx", "2\tb")])]) == "a b"


def test_sentences_belong_together_from_mark_to_mark():
    marked, plain = sentence(("a", "_"), comments=["# newdoc"]), sentence(("a", "_"))

    assert list(documents([plain, marked, plain, plain, marked])) == [range(0, 1), range(1, 4), range(4, 5)]
    assert list(documents([plain, plain])) == [range(0, 2)]


@given(GAPS)
def test_any_gap_can_be_written_into_a_cell_and_read_back(gap):
    cell = escaped(gap)

    assert cell.isascii()
    assert not set(cell) & set(" \t\r\n|\0")
    assert unescaped(cell) == gap


@given(st.text(st.sampled_from("\\sntrpu0aF ")))
def test_a_cell_of_another_writer_can_be_read_whatever_stands_in_it(cell):
    assert isinstance(unescaped(cell), str)


def test_an_escape_that_is_none_stays_as_it_is():
    assert unescaped(r"\q\u12\\n") == r"\q\u12\n"


@given(GAPS, GAPS, st.booleans())
def test_misc_says_which_gap_follows(gap, before, is_last):
    misc = misc_of(gap, before=before, is_last=is_last)

    assert gap_of(misc) == gap
    assert raw_sentences([sentence(("a", misc))])[0] == before


@pytest.mark.parametrize("path", ud_files("*/dev.conllu.xz"))
def test_the_text_of_a_treebank_has_the_text_of_each_sentence_in_its_order(path):
    sentences = list(read_treebank(path))[:200]
    spaced = [each for each in sentences if each.text is not None]

    text, position = text_of(sentences), 0

    for each in spaced:
        wanted = text_of([replace(each, comments=())])
        position = text.index(wanted, position) + len(wanted)
        assert " ".join(wanted.split()) == " ".join(each.text.split())
    assert position == len(text)


def test_no_sentences_have_no_text():
    assert raw_text([]) == RawText("", (), (), ())
    assert text_of([Sentence.of_words(["a"])]) == "a"
