"""The treebank decides what a recipe leaves open: tags, the segmenter, and the facts for the model card."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from treefine.training.abilities import abilities, command_for

from tests.support.tiny import sample
from treefine.config import COLUMNS, BiLSTMSettings, RelationSettings
from treefine.errors import ConfigError
from treefine.training.data import Data, completed
from treefine.training.prepare import Prepared
from treefine.training.recipe import (
    CardSettings,
    InitialSettings,
    PretrainedSettings,
    Recipe,
    SegmenterTraining,
    TagTraining,
    TrainingSettings,
    TreebankSettings,
    split_changes,
)
from treefine.treebank.formats import CONLLX, convert

SENTENCES = tuple(sample(20))
TREEBANK = TreebankSettings("train.conllu", "dev.conllu")
BIAFFINE = Recipe(TREEBANK, BiLSTMSettings(), RelationSettings("none"))


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
    found = completed(replace(BIAFFINE, tags=tags), data(blank(*blanked))).tags

    assert (found.source, found.columns) == (source, columns)


def test_given_tags_need_tags():
    recipe = replace(BIAFFINE, training=TrainingSettings(given_tags=0.4))

    with pytest.raises(ConfigError, match="given_tags is set, but no training word has a tag. Remove given_tags."):
        completed(recipe, data(blank(*COLUMNS)))


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
    recipe = replace(BIAFFINE, segmenter=SegmenterTraining(train))

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
    recipe = replace(BIAFFINE, treebank=TreebankSettings(tuple(paths), "dev.conllu"))

    assert completed(recipe, data()).card == CardSettings(language, treebank)
    own = CardSettings(("grc",), "Mine", "CC0")
    assert completed(replace(recipe, card=own), data()).card == own


@given(st.lists(st.text(st.characters(exclude_characters="\0"), min_size=1), min_size=1, max_size=3))
def test_any_name_of_a_file_can_be_read(paths):
    recipe = replace(BIAFFINE, treebank=replace(TREEBANK, train=tuple(f"./{path}" for path in paths)))

    card = completed(recipe, data(SENTENCES[:1])).card

    assert all(2 <= len(language) <= 3 for language in card.language)


def prepared(recipe, sentences=SENTENCES):
    return Prepared(completed(recipe, data(sentences)), data(sentences))


def test_the_abilities_say_why_a_model_reads_no_text():
    first, *_ = abilities(prepared(BIAFFINE, without_text()))
    assert first == ("The model will read words, not raw text: the treebank has no text (# text or SpaceAfter=No).")
    first, *_ = abilities(prepared(BIAFFINE, tuple(convert(each, CONLLX) for each in SENTENCES)))
    assert first == "The model will read words, not raw text: CoNLL-X does not mark words that follow without a space."


def test_the_abilities_name_the_sources_of_trees():
    initial = InitialSettings("files", train="a", dev="b")

    files = prepared(Recipe(TREEBANK, PretrainedSettings("x"), initial=initial))
    lines = abilities(files)
    with_test = abilities(replace(files, data=replace(files.data, test=SENTENCES)))

    assert (
        "It will refine the trees of another parser in up to 3 steps; without them it starts from an empty graph."
        in lines
    )
    assert set(with_test) - set(lines) == {
        "It will not be scored on the test set, because the files have no trees of it."
    }


@pytest.mark.parametrize(
    ("dev", "form", "arguments"),
    [
        ("my dev.conllu.xz", "", "'my dev.conllu.xz' -o parsed.conllu"),
        ("dev.conllx", "", "dev.conllx -o parsed.conllx"),
        ("dev.txt", "conll09-predicted", "--from conll09-predicted dev.txt -o parsed.conll09"),
    ],
)
def test_a_model_that_needs_tags_is_tried_on_the_dev_set(dev, form, arguments):
    treebank = TreebankSettings("train.conllu", dev, format=form)

    command = command_for(prepared(replace(BIAFFINE, treebank=treebank, tags=TagTraining("given"))), Path("m"))

    assert command == f"treefine parse --model m {arguments}"


@given(st.lists(st.text(max_size=30), max_size=4))
def test_every_change_belongs_to_one_recipe(changes):
    own, inner = split_changes([*changes, "initial.folds=2", "initial.tags.source=none"])

    assert len(own) + sum(map(len, inner.values())) == len(changes) + 2
    assert inner["initial"][-1] == "tags.source=none"
    assert own[-1] == "initial.folds=2"
