"""A segmenter as a stage of a training, and one of several treebanks."""

import json
import shutil
from dataclasses import replace

from tests.support.tiny_segmenter import ANY_TREEBANK, same_weights
from tests.support.trainings import metrics, run, weights, write_recipe
from tests.training.test_segmenter import SMALL, easy_treebank, of_treebanks, with_tree
from tests.treebank.test_raw_text import sentence
from treefine.parsing.parser import Parser
from treefine.segmenter.segmenter import Segmenter
from treefine.training.segmenter import RunningText, SegmenterLearner

SECTION = """
[segmenter]
encoder_layers = 1
epochs = 2
window = 100
batch_windows = 4
[segmenter.network]
char_hidden = 6
run_hidden = 6
n_hashes = 20
"""


def test_a_trained_segmenter_is_saved_with_the_model_and_an_interrupted_one_starts_again(tmp_path):
    recipe, whole = write_recipe(tmp_path, "with", sections=SECTION, epochs=1), tmp_path / "whole"

    stage = [step for step in run(recipe, whole) if step.stage == "segmenter"]

    parser = Parser.from_pretrained(whole / "model", device="cpu")
    assert [step.epoch for step in stage] == [1, 2]
    assert same_weights(parser.segmenter.network, Segmenter.from_folder(whole / "segmenter" / "model").network)
    lines = [json.loads(line) for line in (whole / "segmenter/metrics.jsonl").read_text().splitlines()]
    assert [set(line) for line in lines] == [{"epoch", "loss", "Tokens", "Sentences", "Words", "seconds"}] * 2
    assert stage[1].segmentation["Words"] == lines[1]["Words"]
    assert parser.model.finds_sentences  # and reads no case, and one treebank: only gaps
    assert "Sentences" in json.loads((whole / "metrics.jsonl").read_text())
    shutil.copytree(whole / "segmenter", tmp_path / "later" / "segmenter")
    (tmp_path / "cut" / "segmenter").mkdir(parents=True)
    (tmp_path / "cut" / "segmenter" / "metrics.jsonl").write_text('{"epoch": 1, "loss": 9}\n')
    assert not [step for step in run(recipe, tmp_path / "later") if step.stage == "segmenter"]
    assert [step for step in run(recipe, tmp_path / "cut") if step.stage == "segmenter"]
    assert weights(whole) == weights(tmp_path / "later") == weights(tmp_path / "cut")
    assert metrics(whole) == metrics(tmp_path / "cut")


def two_treebanks(n_sentences, seed):
    """Return an easy treebank, and one in which the same text has no multiword tokens and "Mr." is two tokens."""
    easy, other = easy_treebank(n_sentences, seed), []
    for each in easy_treebank(n_sentences, seed + 10):
        tokens = []
        for token in each.tokens():
            parts = [("Mr", "SpaceAfter=No"), (".", token.misc)] if token.form == "Mr." else [(token.form, token.misc)]
            tokens += parts
        other.append(with_tree(sentence(*tokens)))
    return of_treebanks(aa_one=easy, bb_two=other)


def test_two_treebanks_are_learned_together_and_each_keeps_its_rules():
    settings = replace(SMALL, learning_rate=1e-2, window=80, batch_windows=2, epochs=10, dev_every=4)
    learner = SegmenterLearner(
        RunningText(two_treebanks(120, 1), settings, replace(ANY_TREEBANK, balance=0.5)), two_treebanks(30, 2)
    )

    epochs = list(learner.epochs())

    assert [epoch for epoch, _, _ in epochs] == [4, 8, 10]  # and the last
    assert {name: round(f1, 1) for name, f1 in epochs[-1][2].items()} == {"Tokens": 1, "Sentences": 1, "Words": 1}
    forms = [
        [token.form for each in segmenter.segment("cat Mr. sat.") for token in each.sentence.tokens()]
        for segmenter in map(learner.segmenter.for_treebank, ("aa_one", "bb_two"))
    ]
    assert forms == [["cat", "Mr.", "sat", "."], ["cat", "Mr", ".", "sat", "."]]
