"""Line ends as sentence boundaries: in lists, tables and verse, and not in wrapped text."""

import textwrap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treefine.segmenter import line_ends
from treefine.segmenter.cut import MANY_TOKENS, sentences_of
from treefine.segmenter.line_ends import Scored, cuts_of
from treefine.segmenter.network import WITHIN
from treefine.treebank.raw_text import Multiwords

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


@pytest.mark.parametrize("name", ["bullets", "tabs", "bars", "commas", "numbers", "words"])
def test_marks_and_cells_outweigh_the_network(name):
    assert len(sentences(LISTS[name], RULED_OUT)) == len(LISTS[name].split("\n"))


@pytest.mark.parametrize("name", ["headlines", "verse"])
def test_the_network_can_rule_out_a_line_end(name):
    assert len(sentences(LISTS[name], RULED_OUT)) == 1


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
            patch.setattr(line_ends, name, size)

        assert joined(cuts_of(parts)) == joined(cuts_of([whole])) == slow(whole, reach=2)


def joined(cuts):
    cuts = list(cuts)
    return "".join(each.text for each in cuts), [int(end) for each in cuts for end in each.ends_sentence]


def slow(whole, *, reach):
    """Decide about each line end from all lines at once."""
    lines = [each for found, _ in line_ends._in_lines([whole]) for each in found]
    ends, start, is_start = [int(score > 0) for score in whole.sentence], 0, True
    for place, line in enumerate(lines):
        if is_start and (item := line_ends._ITEM.match(line.text)):
            ends[start + item.start(1) : start + item.end(1)] = [0] * len(item[1])
        last, is_start = start + len(line.text.rstrip()) - 1, not line.width
        if line.text.strip():
            first = max(0, place - reach)
            ends[last] = ends[last] or line_ends._decision(lines[first : place + reach + 1], place - first)
            is_start = ends[last] == 1
        start += len(line.text)
    return whole.text, ends
