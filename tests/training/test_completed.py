"""The treebank decides what a recipe leaves open: tags, the segmenter, and the facts for the model card."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tiny import sample
from treefine.config import COLUMNS, RelationSettings
from treefine.training.data import Data, completed
from treefine.training.recipe import (
    CardSettings,
    PretrainedSettings,
    Recipe,
    SegmenterTraining,
    TagTraining,
    TreebankSettings,
    split_changes,
)
from treefine.treebank.conllu import CONLLX, convert

SENTENCES = tuple(sample(20))
TREEBANK = TreebankSettings("train.conllu", "dev.conllu")
SYNTR = Recipe(TREEBANK, PretrainedSettings("encoder"), RelationSettings("none"))


def data(sentences=SENTENCES):
    return Data(sentences, sentences, {})


def blank(*columns):
    return tuple(each.with_tags(**{column: ["_"] * len(each) for column in columns}) for each in SENTENCES)


@pytest.mark.parametrize(
    ("tags", "blanked", "source", "columns"),
    [
        (TagTraining(), (), "predicted", COLUMNS),
        (TagTraining(), ("xpos",), "predicted", ("upos", "feats", "lemma")),
        (TagTraining(), ("feats", "lemma"), "predicted", ("upos", "xpos")),
        (TagTraining(), ("upos", "xpos"), "predicted", ("feats", "lemma")),
        (TagTraining(), COLUMNS, "none", ()),
        (TagTraining("given"), (), "given", ("upos",)),
        (TagTraining("predicted"), ("upos", "lemma"), "predicted", ("xpos", "feats")),
        (TagTraining(columns=("xpos",)), (), "predicted", ("xpos",)),
        (TagTraining("none"), (), "none", ("upos",)),
    ],
)
def test_the_model_predicts_the_tags_that_the_treebank_has(tags, blanked, source, columns):
    found = completed(replace(SYNTR, tags=tags), data(blank(*blanked))).tags

    assert (found.source, found.columns) == (source, columns)


def without_text():
    return tuple(replace(each, comments=()).with_misc(["_"] * len(each)) for each in SENTENCES)


@pytest.mark.parametrize(
    ("train", "sentences", "is_main", "is_trained"),
    [
        ("auto", SENTENCES, True, "always"),
        ("auto", SENTENCES, False, "never"),
        ("never", SENTENCES, True, "never"),
        ("auto", without_text(), True, "never"),
        ("always", without_text(), True, "always"),
        ("auto", tuple(convert(each, CONLLX) for each in SENTENCES), True, "never"),
    ],
    ids=["text", "of an initial parser", "unwanted", "no text", "wanted", "CoNLL-X"],
)
def test_a_segmenter_is_trained_if_the_treebank_has_text(train, sentences, is_main, is_trained):
    recipe = replace(SYNTR, segmenter=SegmenterTraining(train))

    assert completed(recipe, data(sentences), is_main=is_main).segmenter.train == is_trained


@pytest.mark.parametrize(
    ("paths", "language", "treebank"),
    [
        (["UD_English-EWT/en_ewt-ud-train.conllu"], ("en",), "UD English EWT"),
        (["UD_Welsh-CCG/train.conllu.xz"], (), "UD Welsh CCG"),
        (["x/en_ewt-ud-train.conllu", "x/en_gum-ud-train.conllu"], ("en",), "en_ewt, en_gum"),
        (["a/fro_x-ud-train.conllu", "mine.conllu"], ("fro",), "fro_x"),
        (["my_texts.conllu", "my_data/train.conllu", "no_gold/no_train.conllu"], (), ""),
    ],
)
def test_language_and_treebank_come_from_the_names_of_the_files(paths, language, treebank):
    recipe = replace(SYNTR, treebank=TreebankSettings(tuple(paths), "dev.conllu"))

    assert completed(recipe, data()).card == CardSettings(language, treebank)
    own = CardSettings(("grc",), "Mine", "CC0")
    assert completed(replace(recipe, card=own), data()).card == own


@given(st.lists(st.text(max_size=30), max_size=4))
def test_every_change_belongs_to_one_recipe(changes):
    own, inner = split_changes([*changes, "initial.folds=2", "initial.tags.source=none"])

    assert len(own) + sum(map(len, inner.values())) == len(changes) + 2
    assert inner["initial"][-1] == "tags.source=none"
    assert own[-1] == "initial.folds=2"
