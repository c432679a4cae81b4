from itertools import pairwise

import pytest

from benchmarks.pages.english import ENGLISH_EWT, Published


@pytest.mark.parametrize("line", ENGLISH_EWT, ids=lambda line: f"{line.system}, UD {line.ud}, {line.given}")
def test_a_published_line_is_in_percent_and_no_arc_is_right_without_its_word(line: Published):
    limits = [each for each in (100.0, line.tokens, line.words, line.uas, line.las) if each is not None]

    assert all(lower <= higher for higher, lower in pairwise(limits))
    assert line.las > 50  # a share of 1 where a percentage belongs
    assert line.upos is None or line.las < line.upos <= limits[-3]
    assert line.sentences is None or 50 < line.sentences <= 100


def test_each_line_is_told_with_the_page_it_stands_on():
    assert all(line.source.startswith("https://") and line.version for line in ENGLISH_EWT)


def test_no_two_lines_tell_the_same():
    told = [(line.system, line.ud, line.given) for line in ENGLISH_EWT]

    assert len(set(told)) == len(told)


def test_every_peer_is_there_from_raw_text():
    systems = {line.system for line in ENGLISH_EWT if line.given == "raw text"}

    assert systems == {"Stanza", "UDPipe 1", "UDPipe 2", "Trankit base", "Trankit large"}
