"""`tags.given`: columns that a model always reads from its input, while it predicts the others."""

import pytest
import torch

from tests.support.tiny import tiny_model
from tests.support.tiny_learner import accuracy_of, blank, learn, learner_of, weights_of
from tests.support.trainings import CPU, write_recipe
from tests.training.test_learner import SHORT, watch_first_steps
from treefine.config import COLUMNS, TagSettings
from treefine.errors import ConfigError
from treefine.evaluation.scores import evaluate
from treefine.model.vocabulary import Vocabulary
from treefine.parsing.parser import Parser
from treefine.training.prepare import prepare
from treefine.training.recipe import TrainingSettings
from treefine.training.steps import input_tags
from treefine.treebank.conllu import read_treebank, write_treebank
from treefine.treebank.sentence import BLANK, Sentence

READS_UPOS = TagSettings("predicted", COLUMNS, given=("upos",))
PREDICTED = ("xpos", "feats", "lemma")


def without(sentences, *columns):
    return [each.with_tags(**{name: [BLANK] * len(each) for name in columns}) for each in sentences]


# Training


def test_every_batch_reads_the_given_column_and_learns_only_the_others(monkeypatch):
    learner = learner_of(tiny_model(tags=READS_UPOS), SHORT, training=TrainingSettings(epochs=10, batch_pieces=60))
    seen = watch_first_steps(learner, monkeypatch)

    learn(learner, epochs=2)

    assert len(seen) > 4
    for read, learned in seen:
        is_word = learned[..., 1] > 0  # each word has an XPOS tag
        assert torch.equal(read[..., 0] > 0, is_word)
        assert not read[..., 1:].any()
        assert not learned[..., 0].any()
        assert (learned > 0).any(1)[:, [1, 3]].all()  # some sentences have no features


def test_given_columns_have_no_weights_in_the_tagger():
    model = tiny_model(tags=READS_UPOS)
    before = weights_of(model.tagger)

    learn(learner_of(model, SHORT), epochs=1)

    assert {name.split(".")[1] for name in before} == {"1", "2", "3"}  # not of UPOS, which would not be trained
    assert not any(torch.equal(weights_of(model.tagger)[name], before[name]) for name in before)


# Scores and calibration


@pytest.fixture(scope="module")
def trained():
    """Return a learner whose model reads UPOS."""
    learner = learner_of(tiny_model(tags=READS_UPOS), SHORT)
    learn(learner, epochs=2)
    learner.model.eval()
    return learner


def test_dev_is_scored_with_the_given_column_only(trained):
    read = input_tags(trained.model, SHORT, CPU)
    accuracy = accuracy_of(trained, SHORT, blank(SHORT))

    assert torch.equal(read[..., :1], trained.model.given_tags(SHORT)[..., :1])
    assert not read[..., 1:].any()
    assert list(accuracy.tags) == ["XPOS", "FEATS", "LEMMA"]
    parsed = Parser(trained.model, max_steps=3, keep="nothing", device="cpu").parse(without(SHORT, *PREDICTED))
    assert evaluate(SHORT, parsed)["LAS"].f1 == pytest.approx(accuracy.las)


# Parsing


def test_the_parser_reads_given_columns_keeps_all_values_and_predicts_blank_ones(trained):
    parser = Parser(trained.model, device="cpu")
    asked = without(SHORT, *PREDICTED)

    parses, of_gold = parser.parse(asked), parser.parse(SHORT)

    assert parser.tags == "predicted"
    for parse, other, gold in zip(parses, of_gold, SHORT, strict=True):
        assert parse.tree == other.tree  # the other columns are not read
        assert parse.upos == other.upos == gold.upos
        assert BLANK not in parse.xpos
        assert other.xpos == gold.xpos


def test_a_sentence_without_the_given_column_is_parsed(trained):
    words = Sentence.of_words(["A", "dog", "barks"], upos=["DET", "_", "_"])

    parse = Parser(trained.model, device="cpu").parse(words)

    assert parse.tree.is_tree
    assert parse.upos == ("DET", "_", "_")  # the model has not learned to predict UPOS
    assert "_" not in parse.xpos
    assert parse.tag_confidences["upos"] == (1, 1, 1)


def test_lemma_rules_do_not_depend_on_given_tags():
    columns = ("upos", "feats", "lemma")

    assert Vocabulary.of_treebank(SHORT, columns=columns).lemma_rules
    assert not Vocabulary.of_treebank(SHORT, columns=columns, given=("upos",)).lemma_rules
    assert Vocabulary.of_treebank(SHORT, given=("upos",)).lemma_rules == Vocabulary.of_treebank(SHORT).lemma_rules


# Recipes


def test_a_given_column_without_values_is_reported(tmp_path):
    path = write_recipe(tmp_path, "recipe", sections='[tags]\ngiven = ["upos", "xpos"]\n')
    write_treebank(without(read_treebank(tmp_path / "train.conllu"), "upos"), tmp_path / "train2.conllu")
    path.write_text(path.read_text().replace("train.conllu", "train2.conllu"))

    with pytest.raises(ConfigError) as caught:
        prepare(path)

    assert str(caught.value) == '[tags] given: No training word has a value in UPOS. Set tags.given=["xpos"].'
