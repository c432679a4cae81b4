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


def test_a_text_knows_where_its_tokens_stand_and_where_its_sentences_end():
    found = raw_text([sentence(("I", "_"), ("go", "SpaceAfter=No"), (".", "_")), sentence(("de+l", "_"))])

    assert (found.text, found.spans) == ("I go. del", ((0, 1), (2, 4), (4, 5), (6, 9)))
    assert found.words == (("I",), ("go",), (".",), ("de", "l"))
    assert found.ends_sentence == (False, False, True, True)
    assert raw_text([]) == RawText("", (), (), ())


@pytest.mark.parametrize(
    ("sentences", "text"),
    [
        ([Sentence.of_words(["a"])], "a"),
        ([sentence(("a", "SpaceAfter=No")), sentence(("b", "_"))], "ab"),  # no space after a sentence either
        ([sentence(("de+l", "SpaceAfter=No"), ("mar", "_"))], "delmar"),  # the multiword token, not its words
        ([parsed([f"{word}{BLANKS}" for word in ("1\ta", "1.1\tx", "2\tb")])], "a b"),  # no empty node
        ([sentence(("a", "_")), sentence(("b", "_"), comments=["# newparty = 1"])], "a b"),  # no mark of a paragraph
        (
            [
                sentence(("a", r"SpacesBefore=\t|SpacesAfter=\s\s"), ("b", r"Gloss=x|SpacesAfter=\n")),
                sentence(("c", r"SpacesAfter=\u3000"), comments=["# newpar"]),
            ],
            "\ta  b\nc\u3000",  # notes of white space go before all else
        ),
    ],
)
def test_tokens_are_joined_as_their_notes_say(sentences, text):
    assert text_of(sentences) == text


@pytest.mark.parametrize("mark", ["# newdoc", "# newdoc id = 7", "# newpar", "#newpar id = 1"])
def test_a_blank_line_stands_before_a_document_and_a_paragraph(mark):
    sentences = [sentence(("a", "SpaceAfter=No"), comments=[mark]), sentence(("b", "_"), comments=["# x = 1", mark])]

    assert text_of(sentences) == "a\n\nb"


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
def test_what_is_no_escape_in_a_cell_of_another_writer_stays_as_it_is(cell):
    found = unescaped(cell)

    assert len(found) <= len(cell)
    assert found == cell or "\\" in cell
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
