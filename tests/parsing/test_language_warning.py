"""A Parser warns once about text that is not in the language of its model."""

import warnings
from dataclasses import replace

import pytest

from tests.segmenter.test_language import SENTENCES
from tests.support.tiny import tiny_model
from tests.support.tiny_segmenter import tiny_segmenter
from treefine.errors import LanguageWarning
from treefine.model.bundled import about, bundled_models
from treefine.parsing.parser import Parser
from treefine.segmenter.language import code_of

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


def test_pipe_checks_short_texts_together():
    english = parser(languages=["English"])

    with pytest.warns(LanguageWarning, match="looks German") as seen:
        list(english.pipe(SENTENCES["de"].split() * 3))

    assert len(seen) == 1


@pytest.mark.parametrize("languages", [(), ["German"], ["en", "de"], ["Klingon"]])
def test_text_in_a_language_of_the_model_or_an_unknown_model_gives_no_warning(languages):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        parser(languages=languages)(GERMAN)

    assert not seen


def test_a_trained_model_states_its_languages():
    model = tiny_model()
    model.settings = replace(model.settings, languages=("en", "tr"))

    with pytest.warns(LanguageWarning, match="looks German, but the model is for English and Turkish"):
        Parser(model, segmenter=tiny_segmenter())(GERMAN)


def test_a_saved_model_has_the_languages_of_its_parser(tmp_path):
    model = tiny_model()

    Parser(model, languages=["English", "Klingon"]).save(tmp_path / "model")

    assert Parser.from_pretrained(tmp_path / "model", device="cpu").languages == ("en", "Klingon")
    assert model.settings.languages == ()


@pytest.mark.parametrize("folder", bundled_models().values(), ids=bundled_models())
def test_the_languages_of_bundled_models_can_be_identified(folder):
    known = about(folder)
    languages = [each.name.partition(" (")[0] for each in known.languages.values()] or [known.language]
    assert all(code_of(each) is not None for each in languages)
