"""The text of a treebank, and its multiword tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.treebank.test_conllu import parsed
from treefine.treebank.raw_text import (
    escaped,
    gap_of,
    learn_multiwords,
    misc_of,
    raw_sentences,
    raw_text,
    text_of,
    unescaped,
)

BLANKS = "\t_" * 8
GAPS = st.text(st.sampled_from(" \t\r\n|\\\u00a0\u3000\x00\ud800\x85su0p"))


def sentence(*tokens, comments=()):
    """Return a sentence of (form, MISC) pairs; a form with + in it is a multiword token."""
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


def test_a_raw_text_has_token_spans_and_sentence_ends():
    found = raw_text([sentence(("I", "_"), ("go", "SpaceAfter=No"), (".", "_")), sentence(("de+l", "_"))])

    assert (found.text, found.spans) == ("I go. del", ((0, 1), (2, 4), (4, 5), (6, 9)))
    assert found.words == (("I",), ("go",), (".",), ("de", "l"))
    assert found.ends_sentence == (False, False, True, True)


@pytest.mark.parametrize(
    ("sentences", "text"),
    [
        ([sentence(("a", "SpaceAfter=No")), sentence(("b", "_"))], "ab"),  # no space after a sentence either
        ([sentence(("de+l", "SpaceAfter=No"), ("mar", "_"))], "delmar"),  # the multiword token, not its words
        ([parsed([f"{word}{BLANKS}" for word in ("1\ta", "1.1\tx", "2\tb")])], "a b"),  # no empty node
        ([sentence(("a", "_")), sentence(("b", "_"), comments=["# newparty = 1"])], "a b"),  # not a paragraph mark
        (
            [
                sentence(("a", r"SpacesBefore=\t|SpacesAfter=\s\s"), ("b", r"Gloss=x|SpacesAfter=\n")),
                sentence(("c", r"SpacesAfter=\u3000"), comments=["# newpar"]),
            ],
            "\ta  b\nc\u3000",  # whitespace in MISC has priority
        ),
    ],
)
def test_tokens_are_joined_as_misc_says(sentences, text):
    assert text_of(sentences) == text


@pytest.mark.parametrize("mark", ["# newdoc", "#newpar id = 1"])
def test_documents_and_paragraphs_start_after_a_blank_line(mark):
    sentences = [sentence(("a", "SpaceAfter=No"), comments=[mark]), sentence(("b", "_"), comments=["# x = 1", mark])]

    assert text_of(sentences) == "a\n\nb"


@given(GAPS)
def test_any_gap_can_be_written_into_a_cell_and_read_back(gap):
    cell = escaped(gap)

    assert cell.isascii()
    assert not set(cell) & set(" \t\r\n|\0")
    assert unescaped(cell) == gap


@given(GAPS, GAPS, st.booleans())
def test_misc_records_the_gaps_around_a_token(gap, before, is_last):
    misc = misc_of(gap, before=before, is_last=is_last)

    assert gap_of(misc) == gap
    assert raw_sentences([sentence(("a", misc))])[0] == before


# Multiword tokens: splitting a form into words


def learned(*tokens):
    return learn_multiwords([sentence((token, "_")) for token in tokens])


def multiword(form, *words):
    plain = sentence(("+".join(words), "_"))
    forms = (form, *plain.columns[1][1:])
    return type(plain)(plain.comments, (plain.columns[0], forms, *plain.columns[2:]), plain.word_lines)


@pytest.mark.parametrize(
    ("tokens", "form", "words"),
    [
        (["evde+ki", "okulda+ki", "güzel+dir"], "bahçedeki", ("bahçede", "ki")),  # the longest known ending
        (["evde+ki", "okulda+ki", "güzel+dir"], "iyidir", ("iyi", "dir")),
        (["ב+בית", "ב+ספר", "ל+עבודה", "ב+מכונית"], "בשולחן", ("ב", "שולחן")),  # a beginning, as in Hebrew
        ([], "okul", ("okul",)),
        (["evde+ki"], "ki", ("ki",)),  # no word becomes empty
    ],
)
def test_an_unknown_form_is_split_like_similar_known_forms(tokens, form, words):
    assert learned(*tokens).split(form) == words


@pytest.mark.parametrize(
    ("form", "words"),
    [("Della", ("Di", "la")), ("DELLA", ("DI", "LA")), ("CanNot", ("Can", "Not")), ("Evdeki", ("Evde", "ki"))],
)
def test_words_have_the_case_of_their_token(form, words):
    known = learn_multiwords(
        [multiword("della", "di", "la"), multiword("cannot", "can", "not"), multiword("odaki", "oda", "ki")]
    )

    assert known.split(form) == words


@given(
    st.lists(st.tuples(st.text("abİßI'", min_size=1, max_size=4), st.text("abıI", min_size=1, max_size=3)), max_size=6),
    st.text(),
)
def test_no_word_of_a_split_token_is_empty(tokens, form):
    known = learned(*[f"{a}+{b}" for a, b in tokens])

    words = known.split(form)

    assert words == (form,) or (len(words) > 1 and all(words))
    for a, b in tokens:
        assert "".join(known.split(a + b)) == a + b
