"""Decisions about characters and line ends become sentences, and spans such as URLs and emoji stay whole."""

import io
import textwrap
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny_segmenter import MULTIWORDS, texts
from treefine import read_treebank
from treefine.segmenter import cut
from treefine.segmenter.cut import (
    MANY_TOKENS,
    WHOLE_SPANS,
    Cuts,
    Scored,
    agreeing_rules,
    cuts_of,
    has_blank_line,
    sentences_of,
    with_whole_spans,
)
from treefine.segmenter.network import ENDS, ENDS_MULTIWORD, WITHIN
from treefine.treebank.conllu import cell_faults, text_faults
from treefine.treebank.raw_text import Multiwords, RawText, text_of


@st.composite
def cut_texts(draw):
    """Draw a text in stretches, with arbitrary decisions of a segmenter."""
    text = draw(st.one_of(texts, st.text(" ab.\n\u00a0\0")))
    token = draw(
        st.lists(st.sampled_from([WITHIN, WITHIN, ENDS, ENDS_MULTIWORD]), min_size=len(text), max_size=len(text))
    )
    ends = draw(st.lists(st.sampled_from([False, False, True]), min_size=len(text), max_size=len(text)))
    whole = Cuts(text, np.array(token, dtype=np.int64), np.array(ends, dtype=bool), np.zeros(len(text), np.float32))
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return whole, [
        Cuts(*(each[start:stop] for each in whole))
        for start, stop in zip([0, *places], [*places, len(text)], strict=True)
    ]


def decided(text, *, ends=(), multiword=(), sentences=()):
    """Return a segmenter's decisions, from the places of characters that end something."""
    token = np.zeros(len(text), dtype=np.int64)
    token[list(ends)], token[list(multiword)] = ENDS, ENDS_MULTIWORD
    is_end = np.zeros(len(text), dtype=bool)
    is_end[list(sentences)] = True
    return [Cuts(text, token, is_end, np.zeros(len(text), np.float32))]


def found(stretches, *, most_spaces=0, multiwords=MULTIWORDS):
    return list(sentences_of(stretches, multiwords, most_spaces=most_spaces))


def forms(segmented):
    return [each.sentence.forms for each in segmented]


def slow_tokens(whole, most_spaces):
    """Find the tokens of a text with a loop over its characters."""
    tokens, start, n_spaces = [], None, 0
    text = whole.text

    def is_gap(place):
        return place >= len(text) or text[place].isspace() or text[place] == "\0" or "\ud800" <= text[place] <= "\udfff"

    for place in range(len(text)):
        if start is None:
            if is_gap(place):
                continue
            start, n_spaces = place, 0
        if is_gap(place):  # a space within a token
            n_spaces += 1
            continue
        goes_on = whole.token[place] == WITHIN
        if is_gap(place + 1):
            is_space = place + 1 < len(text) and unicodedata.category(text[place + 1]) == "Zs"
            goes_on = goes_on and is_space and not is_gap(place + 2) and n_spaces < most_spaces
        if not goes_on:
            tokens.append((start, place + 1))
            start = None
    return tokens


@given(cut_texts(), st.integers(0, 2))
def test_any_text_can_be_rebuilt_from_its_conllu_file(cut, most_spaces):
    segmented = found([cut[0]], most_spaces=most_spaces)
    written = "".join(each.sentence.to_conllu() for each in segmented).encode()

    read = list(read_treebank(io.BytesIO(written))) if written else []

    assert read == [each.sentence for each in segmented]
    assert text_of(read) == cut[0].text if read else not slow_tokens(cut[0], most_spaces)


@given(cut_texts(), st.integers(0, 2))
def test_tokens_equal_a_loop_over_the_characters(cut, most_spaces):
    whole, _ = cut

    tokens = sorted({span for each in found([whole], most_spaces=most_spaces) for span in each.spans})

    assert tokens == slow_tokens(whole, most_spaces)


@given(cut_texts(), st.integers(0, 2))
def test_stretches_of_any_size_give_the_same_sentences(cut, most_spaces):
    whole, stretches = cut

    assert found(stretches, most_spaces=most_spaces) == found([whole], most_spaces=most_spaces)


@given(cut_texts(), st.integers(0, 2))
def test_every_sentence_is_valid_except_for_heads_and_its_spans_are_correct(cut, most_spaces):
    for number, each in enumerate(found([cut[0]], most_spaces=most_spaces), start=1):
        assert each.sentence.sent_id == str(number)
        assert len(each.spans) == len(each.sentence)
        assert not [*text_faults(each.sentence), *cell_faults(each.sentence)]
        for token in each.sentence.tokens():
            assert {cut[0].text[slice(*each.spans[word - 1])] for word in token.words} == {token.form}
            assert token.form == token.form.strip()
            assert len(token.form.splitlines()) == 1
            assert sum(map(str.isspace, token.form)) <= most_spaces


@given(cut_texts())
def test_no_sentence_continues_after_a_blank_line(cut):
    segmented = found([cut[0]])

    for each in segmented:
        spans = sorted(set(each.spans))
        assert not any(has_blank_line(cut[0].text[a[1] : b[0]]) for a, b in zip(spans, spans[1:], strict=False))
    for one, other in zip(segmented, segmented[1:], strict=False):
        gap = cut[0].text[one.spans[-1][1] : other.spans[0][0]]
        assert ("# newpar" in other.sentence.comments) == has_blank_line(gap)


def test_multiword_tokens_are_split_and_their_words_share_a_span():
    (segmented,) = found(decided("lo del  mar", multiword=[5]))

    assert segmented.sentence.columns[0] == ("1", "2-3", "2", "3", "4")
    assert segmented.sentence.forms == ("lo", "de", "el", "mar")
    assert segmented.sentence.columns[9] == ("_", r"SpacesAfter=\s\s", "_", "_", "SpaceAfter=No")
    assert segmented.spans == ((0, 2), (3, 6), (3, 6), (8, 11))


@pytest.mark.parametrize("text", ["", " ", "\n\n \t", "\x00", "\ud800 \x00"])
def test_text_without_a_token_has_no_sentence(text):
    assert found(decided(text)) == []


# Spans that stay whole

WHOLE = (
    "👨‍👩‍👧‍👦 👍🏽 🇫🇷 sales@example.com https://example.com/a-b?c=1 www.example.com/ @user <3 555-1234 713-853-3989 "
    "w/o O'Brien L'Oréal ## 😀😂😂 2024-05-01 C++ C# Q&A"
).split()


@pytest.mark.parametrize("span", WHOLE)
@pytest.mark.parametrize("text", ["{}", "Is it {} or\n{}"])
def test_no_token_ends_within_a_span(span, text):
    whole = text.format(span, span)

    token = with_whole_spans(np.full(len(whole), ENDS), whole, WHOLE_SPANS)

    places = [place for place in range(len(whole)) if whole.startswith(span, place)]
    inside = {place + offset for place in places for offset in range(len(span) - 1)}
    assert {*(token == WITHIN).nonzero()[0].tolist()} == inside


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ('I asked Tom. "Home," he said.', True),
        ("They purr.", True),
        ("Ask Tom. He knows!", False),  # the network decides
        ('Ask Mrs. "X"', False),
        ("Apples etc.", False),
        ('the U.S. "Home" page', False),
    ],
)
def test_a_word_before_a_period_is_a_token_before_a_quotation_and_at_the_end_of_a_text(text, cut):
    token = with_whole_spans(np.full(len(text), WITHIN), text, WHOLE_SPANS)

    assert (token == ENDS).any() == cut


def test_a_rule_that_contradicts_the_treebank_is_left_out():
    def raw(spans):
        return RawText("Call 555-1234 @ab", spans, (("",),) * len(spans), (False,) * len(spans))

    agrees, contradicts = raw(((0, 4), (5, 13), (14, 17))), raw(((0, 4), (5, 8), (8, 9), (9, 13), (14, 17)))

    assert agreeing_rules(agrees) == tuple(WHOLE_SPANS)
    assert agreeing_rules(contradicts) == tuple(each for each in WHOLE_SPANS if each != "phone")


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("我的邮箱是abc@x.com吗", "abc@x.com"),
        ("看http://x.com/a，很好", "http://x.com/a"),
        ("ดูที่www.x.co.thนะ", "www.x.co.th"),
        ("@anna说你好", "@anna"),
        ("a@x.com", "a@x.com"),
    ],
)
def test_a_span_does_not_include_letters_of_a_script_without_spaces(text, whole):
    start = text.index(whole)

    token = with_whole_spans(np.full(len(text), ENDS), text, WHOLE_SPANS)

    assert (token == WITHIN).nonzero()[0].tolist() == list(range(start, start + len(whole) - 1))


# Line ends as sentence boundaries: in lists, tables and verse, and not in wrapped text


PROSE = (
    "The committee will meet again on Tuesday afternoon because several members could not attend and nobody wants to "
    "decide about the new bridge without them, although the builders are waiting for an answer - they have waited "
    "since 1. May and would like to start before the first frost makes the ground too hard to dig."
)
NOT_RULED_OUT, RULED_OUT = -4.0, -9.0


def scored(text, score=NOT_RULED_OUT):
    return Scored(text, np.full(len(text), WITHIN, np.int8), np.full(len(text), score, np.float32))


def sentences(text, score=NOT_RULED_OUT):
    return [each.sentence.text for each in sentences_of(cuts_of([scored(text, score)]), Multiwords())]


LISTS = {
    "headlines": "Storm batters coast\nMinister calls early election after row\nShares fall\nRail strike continues",
    "bullets": "Shopping list:\n- two bottles of milk\n* a loaf of bread\n1. eggs and ham",
    "Markdown": "# Getting started\nInstall the package\n## Usage of it\nRun the command",
    "tabs": "red apples\t12\ngreen apples\t7\nyellow pears\t31",
    "bars": "| fruit | number |\n| --- | --- |\n| red apples | 12 |",
    "commas": "red apples,12,yes\ngreen apples,7,no\nyellow pears,31,yes",
    "numbers": "12 7.5 31\n8 44 19\n3 1 7",
    "words": "apple\nbanana\ncherry",
    "verse": "In what distant deeps or skies\nBurnt the fire of thine eyes",
}


@pytest.mark.parametrize("text", LISTS.values(), ids=LISTS)
def test_each_line_of_a_list_is_a_sentence(text):
    assert sentences(text) == [" ".join(line.split()) for line in text.split("\n")]


@pytest.mark.parametrize("name", [each for each in LISTS if each != "Markdown"])
def test_the_network_can_rule_out_a_line_end_but_marks_and_cells_outweigh_it(name):
    n_lines = 1 if name in ("headlines", "verse") else len(LISTS[name].split("\n"))

    assert len(sentences(LISTS[name], RULED_OUT)) == n_lines


@given(st.integers(40, 120))
def test_wrapped_text_is_cut_as_if_it_were_on_one_line(width):
    assert sentences(textwrap.fill(PROSE, width)) == [PROSE]


def test_a_mark_is_part_of_its_item_even_if_the_network_ends_a_sentence_there():
    text = "1. Open the box\n2. Remove it"
    found = scored(text, RULED_OUT)
    found.sentence[[1, 17]] = 5.0

    assert [each.sentence.text for each in sentences_of(cuts_of([found]), Multiwords())] == text.split("\n")


def test_a_long_sentence_ends_at_the_end_of_a_line_that_was_not_wrapped():
    text = "\n".join(["red and green"] * MANY_TOKENS)

    lengths = [len(each.split()) for each in sentences(text, RULED_OUT)]

    assert set(lengths[:-1]) == {MANY_TOKENS + 2}  # at the first line end after MANY_TOKENS tokens
    assert sum(lengths) == 3 * MANY_TOKENS


LINES = st.lists(
    st.sampled_from(["", " ", "a", "- b", "12\t7", "a b c", "x" * 14, "# a b", "a " * 6, "\x00", "b " * 25]), max_size=9
)


@given(LINES, st.lists(st.integers(0, 99), max_size=4), st.randoms(use_true_random=False))
def test_decisions_do_not_depend_on_the_stretches(lines, places, random):
    text = "\n".join(lines)
    whole = scored(text)._replace(
        sentence=np.array([random.choice([-9, -6, -4, -1, 2]) for _ in text], dtype=np.float32)
    )
    marks = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    parts = [Scored(*(each[a:b] for each in whole)) for a, b in zip(marks, marks[1:], strict=False)]
    with pytest.MonkeyPatch.context() as patch:
        for name, size in (("REACH", 2), ("LONGEST_LINE", 12), ("NARROW_LINE", 8)):
            patch.setattr(cut, name, size)

        assert joined(cuts_of(parts)) == joined(cuts_of([whole])) == slow(whole, reach=2)


def joined(cuts):
    cuts = list(cuts)
    return "".join(each.text for each in cuts), [int(end) for each in cuts for end in each.ends_sentence]


def slow(whole, *, reach):
    """Decide about each line end from all lines at once."""
    lines = [each for found, _ in cut._in_lines([whole]) for each in found]
    ends, start, is_start = [int(score > 0) for score in whole.sentence], 0, True
    for place, line in enumerate(lines):
        if is_start and (item := cut._ITEM.match(line.text)):
            ends[start + item.start(1) : start + item.end(1)] = [0] * len(item[1])
        last, is_start = start + len(line.text.rstrip()) - 1, not line.width
        if line.text.strip():
            first = max(0, place - reach)
            ends[last] = ends[last] or cut._decision(lines[first : place + reach + 1], place - first)
            is_start = ends[last] == 1
        start += len(line.text)
    return whole.text, ends
