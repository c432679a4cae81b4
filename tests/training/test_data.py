"""Reading treebanks, and what they decide in a recipe."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.tiny import sample, tiny_model
from tests.support.tiny_learner import accuracy_of, blank, learn, learner_of, without_dropout
from treefine.config import COLUMNS, RelationSettings, TagSettings
from treefine.errors import ConfigError
from treefine.model.vocabulary import Vocabulary
from treefine.training.data import Data, completed, drawn_order, load_data
from treefine.training.new_model import main_treebanks
from treefine.training.recipe import (
    CardSettings,
    OptimiserSettings,
    PretrainedSettings,
    Recipe,
    RefineSettings,
    SegmenterTraining,
    TagTraining,
    TreebankSettings,
)
from treefine.treebank.conllu import CONLLX, convert, write_treebank

ROW = "{}\t{}\t_\tNOUN\t_\t_\t{}\t{}\t_\t_\n"
TREE = ROW.format(1, "a", 2, "det") + ROW.format(2, "b", 0, "root") + "\n"


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write two treebanks into the working folder."""
    monkeypatch.chdir(tmp_path)
    write_treebank(sample(12), "train.conllu")
    write_treebank(sample(20)[12:], "dev.conllu")
    return TreebankSettings(("train.conllu",), ("dev.conllu",))


def faults_of(settings):
    with pytest.raises(ConfigError) as caught:
        load_data(settings)
    return str(caught.value).splitlines()


def test_a_sample_of_the_training_set_is_evenly_spaced_over_all_files(files):
    Path("more.conllu").write_text(TREE * 12)

    data = load_data(TreebankSettings(("train.conllu", "more.conllu"), ("dev.conllu",), sentences=12))

    assert [each.forms for each in data.train] == [*(each.forms for each in sample(12)[::2]), *[("a", "b")] * 6]
    assert len(data.dev) == 8


def test_every_faulty_file_is_reported(files):
    Path("cycle.conllu").write_text(TREE.replace("0\troot", "1\troot") * 2)
    Path("cut.conllu").write_text(TREE.replace("\t_\n\n", "\n\n"))

    assert faults_of(TreebankSettings(("nowhere.conllu", "cycle.conllu", "$NO_SUCH/x"), ("cut.conllu",))) == [
        "nowhere.conllu: There is no such file.",
        "cycle.conllu:1: (sentence 1, word 1) The heads form a cycle: 1 -> 2 -> 1. Change one of these heads. "
        "3 more errors: list them with treefine validate.",
        "$NO_SUCH/x needs the environment variable NO_SUCH. Set it to a folder: NO_SUCH=FOLDER treefine train …",
        "cut.conllu:2: (sentence 1) The line must have 10 columns, not 9.",
    ]


def test_several_roots_are_a_fault_only_in_ud(files):
    Path("dev.conllu").write_text(TREE.replace("2\tdet", "0\troot"))

    assert faults_of(files) == [
        "dev.conllu:2: (sentence 1, word 2) The sentence has 2 roots: words 1, 2. Only one word may have HEAD 0."
    ]
    assert load_data(TreebankSettings(files.train, files.dev, rule="conllx")).dev


def test_too_few_sentences_are_reported_and_ten_are_enough(files):
    write_treebank(sample(9), "train.conllu")
    assert faults_of(files) == ["train.conllu: 9 sentences to train on, but at least 10 are needed."]

    write_treebank(sample(10), "train.conllu")
    assert len(load_data(files).train) == 10


@pytest.mark.parametrize(
    ("rule", "train", "dev", "named"),
    [
        ("conll18", ["det"], ["det:x", "vocative:y"], "vocative (1)"),  # UD compares labels without subtypes
        ("conllx", ["det"], ["det:x", "vocative:y"], "det:x (1), vocative:y (1)"),
        ("conll18", ["det"], [f"x{n}" for n in range(7)], "x0 (1), x1 (1), x2 (1), x3 (1), x4 (1) and 2 more"),
    ],
)
def test_labels_that_occur_only_in_dev_are_a_warning(files, rule, train, dev, named):
    Path("train.conllu").write_text("".join(TREE.replace("det", label) for label in train * 10))
    Path("dev.conllu").write_text("".join(TREE.replace("det", label) for label in dev))

    warnings = load_data(TreebankSettings(files.train, files.dev, rule=rule)).warnings

    begin = "dev.conllu: These labels are not in the training set, so they cannot be predicted: "
    assert warnings == (f"{begin}{named}.",)


SENTENCES = tuple(sample(20))
TREEBANK = TreebankSettings("train.conllu", "dev.conllu")
SYNTR = Recipe(TREEBANK, PretrainedSettings("encoder"), RelationSettings("none"))


def data_of(sentences=SENTENCES):
    return Data(sentences, sentences, {})


def blanked_columns(*columns):
    return tuple(each.with_tags(**{column: ["_"] * len(each) for column in columns}) for each in SENTENCES)


@pytest.mark.parametrize(
    ("tags", "blanked", "source", "columns"),
    [
        (TagTraining(), (), "predicted", COLUMNS),
        (TagTraining(), ("xpos",), "predicted", ("upos", "feats", "lemma")),
        (TagTraining(), COLUMNS, "none", ()),
        (TagTraining("given"), (), "given", ("upos",)),
        (TagTraining("predicted"), ("upos", "lemma"), "predicted", ("xpos", "feats")),
    ],
)
def test_the_model_predicts_the_tags_that_the_treebank_has(tags, blanked, source, columns):
    found = completed(replace(SYNTR, tags=tags), data_of(blanked_columns(*blanked))).tags

    assert (found.source, found.columns) == (source, columns)


def without_text():
    return tuple(replace(each, comments=()).with_misc(["_"] * len(each)) for each in SENTENCES)


@pytest.mark.parametrize(
    ("train", "sentences", "is_main", "is_trained"),
    [
        ("auto", SENTENCES, True, "always"),
        ("auto", SENTENCES, False, "never"),
        ("auto", without_text(), True, "never"),
        ("auto", tuple(convert(each, CONLLX) for each in SENTENCES), True, "never"),
    ],
    ids=["text", "of an initial parser", "no text", "CoNLL-X"],
)
def test_a_segmenter_is_trained_if_the_treebank_has_text(train, sentences, is_main, is_trained):
    recipe = replace(SYNTR, segmenter=SegmenterTraining(train))

    assert completed(recipe, data_of(sentences), is_main=is_main).segmenter.train == is_trained


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

    assert completed(recipe, data_of()).card == CardSettings(language, treebank)
    own = CardSettings(("grc",), "Mine", "CC0")
    assert completed(replace(recipe, card=own), data_of()).card == own


SIX = [each for each in sample() if 3 < len(each) < 10][:6]


def in_treebank(code, sentences, **labels):
    """Return the sentences as those of a treebank that calls some labels differently."""
    renamed = [
        each.with_arcs(each.arcs._replace(labels=tuple(labels.get(name, name) for name in each.labels)))
        for each in sentences
    ]
    return [replace(each, treebank=code) for each in renamed]


def test_a_lower_balance_draws_small_treebanks_more_often_and_keeps_the_number_of_words():
    codes, sizes = ["small"] * 10 + ["large"] * 90, [10] * 100

    order = drawn_order(codes, sizes, 0.5, np.random.default_rng(1))

    counts = Counter(codes[each] for each in order)
    assert counts == {"small": 25, "large": 75}
    assert set(range(10)) <= set(order)
    assert max(Counter(each for each in order if codes[each] == "small").values()) <= 3


def test_sentences_have_the_codes_of_their_treebanks_and_the_main_one_must_be_among_them(tmp_path):
    path = tmp_path / "sv_one" / "train.conllu"
    path.parent.mkdir()
    write_treebank(sample(12), path)

    data = load_data(TreebankSettings((str(path),), (str(path),), by_treebank=True, dev_sentences=4))

    assert len(data.dev) == 4
    assert {each.treebank for each in (*data.train, *data.dev)} == {"sv_one"}
    with pytest.raises(ConfigError, match=r"\[treebank\] main names sv_on, which is not in train\."):
        load_data(TreebankSettings((str(path),), (str(path),), by_treebank=True, main=("sv_on",)))


def test_the_largest_treebank_stands_for_its_language_unless_another_is_chosen():
    sentences = [*in_treebank("fr_large", SIX), *in_treebank("fr_small", SIX[:1]), *in_treebank("de_one", SIX[:1])]

    assert main_treebanks(sentences, ()) == ("de_one", "fr_large")
    assert main_treebanks(sentences, ("fr_small",)) == ("de_one", "fr_small")


def test_a_model_learns_the_habits_of_each_treebank():
    one, other = in_treebank("xx_one", SIX), in_treebank("xx_other", SIX, nsubj="obj", det="amod")
    model = without_dropout(
        tiny_model(
            relations=RelationSettings("none"), tags=TagSettings("none"), treebanks=("xx_one", "xx_other"), scale=0.5
        )
    )
    optimiser = OptimiserSettings(learning_rate=0.01, encoder_learning_rate=0.003, warmup=0.1)
    learner = learner_of(model, [*one, *other], refine=RefineSettings(1), optimiser=optimiser)
    learner.recipe = replace(learner.recipe, treebank=replace(learner.recipe.treebank, unnamed=0.0))

    learn(learner, epochs=60)

    for sentences in (one, other):
        assert accuracy_of(learner, sentences, blank(sentences)).las > 0.9


def test_rare_features_and_lemma_scripts_are_left_out_and_rules_are_those_of_each_language():
    sentences = in_treebank("de_one", sample(40))

    every, some = (Vocabulary.of_treebank(sentences, fewest=fewest) for fewest in (1, 4))

    assert set(some.feats) < set(every.feats)
    assert set(some.lemma) < set(every.lemma)
    assert some.treebanks == ("de_one",)
    assert all(rule.startswith("de ") for rule in some.lemma_rules)
