"""The model `multi` reads text in ten scripts, identifies its language, and loses no character."""

import warnings
from functools import cache

import pytest

from treefine.errors import LanguageWarning
from treefine.model.bundled import bundled_models
from treefine.parsing.parser import Parser
from treefine.treebank.raw_text import text_of

pytestmark = pytest.mark.skipif("multi" not in bundled_models(), reason="needs the package treefine-multi")

TEXTS = {  # by language, in the script in its comment
    "sv": "Hunden sover under bordet i köket. Den drömmer om en katt.",  # Latin
    "vi": "Tôi đọc một quyển sách về lịch sử Việt Nam. Nó rất hay.",  # Latin with tone marks
    "ru": "Моя сестра читает новую книгу. Она живёт в большом городе.",  # Cyrillic
    "hy": "Իմ քույրը նոր գիրք է կարդում։ Նա ապրում է մեծ քաղաքում։",  # Armenian
    "fa": "برادر من کتاب تازه‌ای می‌خواند. او در شهر بزرگی زندگی می‌کند.",  # Arabic
    "ug": "مەن كىتاب ئوقۇيمەن. ئۇ شەھەردە تۇرىدۇ.",  # Arabic with vowels
    "th": "แมวนอนอยู่บนโต๊ะ ฉันอ่านหนังสือ",  # Thai
    "zh": "我的朋友住在一个大城市。他喜欢看书。",  # Han
    "ja": "昨日、東京で友達に会いました。とても楽しかったです。",  # kana and Han
    "ko": "나는 어제 친구를 만났다. 우리는 함께 책을 읽었다.",  # Hangul
}


@cache
def multi():
    return Parser.from_pretrained("multi", device="cpu")


def parsed(text, parser=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LanguageWarning)  # short texts may be in doubt
        return (parser or multi())(text)


@pytest.mark.parametrize(("code", "text"), TEXTS.items(), ids=TEXTS)
def test_a_text_in_each_script_is_identified_and_parsed_without_losing_a_character(code, text):
    parses = parsed(text)

    assert {each.language for each in parses} == {code}
    assert text_of(each.sentence for each in parses) == text
    assert all(each.tree.heads[1:].count(0) == 1 for each in parses)
    assert all(word.upos != "_" and word.label != "_" for each in parses for word in each.words)


def test_a_simple_sentence_has_the_right_tree():
    (parse,) = parsed("Hunden sover under bordet.", multi().using(language="sv"))

    assert parse.tree.heads[1:] == (2, 0, 4, 2, 2)
    assert parse.tree.labels[1:] == ("nsubj", "root", "case", "obl", "punct")
    assert parse.lemma == ("hund", "sova", "under", "bord", ".")
