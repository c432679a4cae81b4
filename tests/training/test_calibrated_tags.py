"""Temperatures of tags: each column has one, fitted to the scores of the step that the output has."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.tiny import ALL_TAGS, short, tiny_model
from treefine.config import COLUMNS, ConfidenceSettings, TagSettings
from treefine.model.vocabulary import flat_tags
from treefine.parsing.parser import Parser
from treefine.training.dev import calibrated, fitted_temperature

DEV = short(8)


def without_rules(model):
    """Return a model whose network chooses all lemmas."""
    model.vocabulary = replace(model.vocabulary, lemma_rules=())
    return model


@pytest.mark.parametrize("refined", [True, False], ids=["last step", "first step"])
def test_each_column_of_tags_gets_the_temperature_of_its_scores(refined):
    parser = Parser(without_rules(tiny_model(tags=replace(ALL_TAGS, refined=refined))), device="cpu")

    settings = calibrated(parser, DEV)

    for place, column in enumerate(COLUMNS):
        found = []
        for sentence in DEV:
            scores = parser.steps(sentence)[-1 if refined else 0].tag_scores[place][1:]
            right = flat_tags([sentence], parser.model.vocabulary, [column])[:, 0] - 1
            found.append((scores[right >= 0], right[right >= 0]))
        assert settings.tag_temperature(column) == pytest.approx(fitted_temperature(found), rel=1e-3)
        assert settings.tag_temperature(column) > 1.2  # a random model is too sure


@pytest.mark.parametrize(
    "tags", [TagSettings("given"), TagSettings("none"), TagSettings("predicted", ("xpos",))], ids=str
)
def test_a_column_that_is_not_predicted_keeps_the_temperature_1(tags):
    settings = calibrated(Parser(tiny_model(tags=tags), device="cpu"), DEV)

    predicted = tags.columns if tags.source == "predicted" else ()
    assert {column for column in COLUMNS if settings.tag_temperature(column) != 1} == set(predicted)


def test_calibrated_confidences_are_closer_to_the_share_of_correct_tags():
    model = without_rules(tiny_model(tags=ALL_TAGS))
    parser = Parser(model, device="cpu")

    def gap(confidence):
        model.settings = replace(model.settings, confidence=confidence)
        blank = [each.with_tags(**{name: ["_"] * len(each) for name in COLUMNS}) for each in DEV]
        parses = parser.parse(blank)
        for name in ("upos", "xpos", "feats"):  # rare lemmas are unknown, so they are always wrong
            sure = np.concatenate([parse.tag_confidences[name] for parse in parses])
            pairs = zip(parses, DEV, strict=True)
            right = np.concatenate(
                [np.equal(getattr(parse.sentence, name), getattr(gold, name)) for parse, gold in pairs]
            )
            yield abs(sure.mean() - right.mean())

    fitted = calibrated(parser, DEV)

    assert all(after < before for after, before in zip(gap(fitted), list(gap(ConfidenceSettings())), strict=True))
