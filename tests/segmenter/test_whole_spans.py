"""Spans that stay whole, such as URLs and emoji, and the choice of rules for a treebank."""

import pytest

from treefine.segmenter.cut import WHOLE_SPANS, agreeing_rules, is_inside
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
