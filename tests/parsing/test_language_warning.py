"""A Parser warns once about text that is not in the language of its model."""

import warnings

import pytest

from tests.segmenter.test_language import SENTENCES
from tests.support.tiny import tiny_model
from tests.support.tiny_segmenter import tiny_segmenter
from treefine.errors import LanguageWarning
from treefine.parsing.parser import Parser

GERMAN = SENTENCES["de"] * 2


def parser(**options):
    return Parser(tiny_model(), segmenter=tiny_segmenter(), **options)


def test_text_in_another_language_gives_one_warning():
    english = parser(languages=["English"])

    with pytest.warns(LanguageWarning, match="The text looks German, but the model is for English") as seen:
        english(GERMAN)
    english(GERMAN)  # warnings are errors in tests
    english.using(k=2)(GERMAN)

    assert len(seen) == 1
    assert seen[0].filename == __file__


@pytest.mark.parametrize("languages", [(), ["German"], ["en", "de"], ["Klingon"]])
def test_text_in_a_language_of_the_model_or_an_unknown_model_gives_no_warning(languages):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        parser(languages=languages)(GERMAN)

    assert not seen
