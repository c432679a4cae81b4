"""Spans that stay whole, such as URLs and emoji, and the choice of rules for a treebank."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.tiny_segmenter import texts, tiny_network
from treefine.segmenter.cut import WHOLE_SPANS, agreeing_rules, is_inside
from treefine.segmenter.network import Alphabet
from treefine.segmenter.segmenter import Segmenter, TokenizationRules
from treefine.treebank.raw_text import RawText

WHOLE = [
    "👨‍👩‍👧‍👦",
    "👍🏽",
    "🇫🇷",
    "sales@example.com",
    "https://example.com/a-b?c=1",
    "www.example.com/",
    "@user",
    "<3",
    "555-1234",
    "713-853-3989",
    "w/o",
    "O'Brien",
    "L'Oréal",
    "##",
]


@pytest.mark.parametrize("span", WHOLE)
@pytest.mark.parametrize("text", ["{}", "Is it {} or\n{}"])
def test_no_token_ends_within_a_span(span, text):
    whole = text.format(span, span)

    mask = is_inside(whole, WHOLE_SPANS)

    places = [place for place in range(len(whole)) if whole.startswith(span, place)]
    inside = {place + offset for place in places for offset in range(len(span) - 1)}
    assert {*mask.nonzero()[0].tolist()} == inside


def test_a_rule_that_contradicts_the_treebank_is_left_out():
    def raw(spans):
        return RawText("Call 555-1234 @ab", spans, (("",),) * len(spans), (False,) * len(spans))

    agrees, contradicts = raw(((0, 4), (5, 13), (14, 17))), raw(((0, 4), (5, 8), (8, 9), (9, 13), (14, 17)))

    assert agreeing_rules(agrees) == tuple(WHOLE_SPANS)
    assert agreeing_rules(contradicts) == tuple(each for each in WHOLE_SPANS if each != "phone")


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(st.sampled_from(WHOLE), texts), max_size=5), st.integers(0, 60))
def test_chunks_and_batches_make_no_difference(parts, mark):
    text = " ".join(parts)
    segmenter = Segmenter(
        tiny_network(), Alphabet("ab .'\n12é中", 50), {"": TokenizationRules(whole_spans=tuple(WHOLE_SPANS))}
    )

    whole = segmenter.segment(text)

    assert list(segmenter.stream([text[:mark], text[mark:]])) == whole == segmenter.segment_all([text])[0]
    inside = is_inside(text, WHOLE_SPANS) if "\r\n" not in text else []
    assert not any(inside[end - 1] for each in whole for _, end in each.spans if len(inside))


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

    assert is_inside(text, WHOLE_SPANS).nonzero()[0].tolist() == list(range(start, start + len(whole) - 1))
