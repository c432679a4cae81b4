"""Training on several treebanks: small ones count, and the model learns the habits of each."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tests.support.tiny import sample, tiny_model
from tests.support.tiny_learner import accuracy_of, blank, learn, learner_of, without_dropout
from treefine.config import RelationSettings, TagSettings
from treefine.errors import ConfigError
from treefine.model.vocabulary import Vocabulary
from treefine.training.data import drawn_order, load_data
from treefine.training.new_model import main_treebanks
from treefine.training.recipe import OptimiserSettings, RefineSettings, TreebankSettings
from treefine.treebank.conllu import write_treebank

SHORT = [each for each in sample() if 3 < len(each) < 10][:6]


def in_treebank(code, sentences, **labels):
    """Return the sentences as those of a treebank that calls some labels differently."""
    renamed = [
        each.with_arcs(each.arcs._replace(labels=tuple(labels.get(name, name) for name in each.labels)))
        for each in sentences
    ]
    return [replace(each, treebank=code) for each in renamed]


def test_with_a_balance_of_one_each_sentence_is_drawn_once():
    order = drawn_order(["a", "b", "b"], [3, 5, 5], 1.0, np.random.default_rng(1))

    assert sorted(order) == [0, 1, 2]


def test_a_lower_balance_draws_small_treebanks_more_often_and_keeps_the_number_of_words():
    codes, sizes = ["small"] * 10 + ["large"] * 90, [10] * 100

    order = drawn_order(codes, sizes, 0.5, np.random.default_rng(1))

    counts = Counter(codes[each] for each in order)
    assert counts == {"small": 25, "large": 75}
    assert set(range(10)) <= set(order)
    assert max(Counter(each for each in order if codes[each] == "small").values()) <= 3


def test_a_main_treebank_must_be_among_those_to_train_on(tmp_path):
    path = tmp_path / "sv_one" / "train.conllu"
    path.parent.mkdir()
    write_treebank(sample(12), path)

    with pytest.raises(ConfigError, match=r"\[treebank\] main names sv_on, which is not in train\."):
        load_data(TreebankSettings((str(path),), (str(path),), by_treebank=True, main=("sv_on",)))


def test_the_dev_set_can_be_a_sample(tmp_path):
    path = tmp_path / "sv_one" / "train.conllu"
    path.parent.mkdir()
    write_treebank(sample(12), path)

    data = load_data(TreebankSettings((str(path),), (str(path),), by_treebank=True, dev_sentences=4))

    assert len(data.dev) == 4
    assert {each.treebank for each in (*data.train, *data.dev)} == {"sv_one"}


def test_the_largest_treebank_stands_for_its_language_unless_another_is_chosen():
    sentences = [
        *in_treebank("fr_large", SHORT),
        *in_treebank("fr_small", SHORT[:1]),
        *in_treebank("de_one", SHORT[:1]),
    ]

    assert main_treebanks(sentences, ()) == ("de_one", "fr_large")
    assert main_treebanks(sentences, ("fr_small",)) == ("de_one", "fr_small")


def test_a_model_learns_the_habits_of_each_treebank():
    one, other = in_treebank("xx_one", SHORT), in_treebank("xx_other", SHORT, nsubj="obj", det="amod")
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
