"""Learning from corrections: when a run starts, what is held back, which model is offered, and what survives."""

import json
import os
import re
import sys

import pytest

from tests.support.data import DATA
from treefine.errors import TreefineError
from treefine.studio.learn import (
    CorrectionLearner,
    LearningSettings,
    LearningState,
    compared,
    is_learnable,
    key_of,
)
from treefine.treebank.conllu import read_treebank
from treefine.treebank.graph import Graph
from treefine.treebank.sentence import Sentence

SENTENCES = [*{key_of(each): each for each in read_treebank(DATA / "en_ewt-sample.conllu")}.values()]
FEW = LearningSettings(every=8, most_p=1.0)


def tree(heads, labels):
    return Sentence.of_words([f"w{number}" for number in range(len(heads))]).with_graph(Graph.of_words(heads, labels))


class QuickTuner:
    """Pretends to train: the new model is better if it learned from more than six sentences."""

    def __init__(self, request):
        self.request = request

    def epoch(self):
        assert "torch" not in sys.modules
        return 1.0

    def compared(self):
        self.request.output.mkdir(exist_ok=True)
        (self.request.output / "config.json").write_text(self.request.present)
        return LearningState("better" if len(self.request.train) > 6 else "not better", "It is compared.")


class BrokenTuner(QuickTuner):
    def epoch(self):
        return 1 / 0


class DyingTuner(QuickTuner):
    def epoch(self):
        os._exit(3)


def learner_of(folder, create=QuickTuner, **options):
    return CorrectionLearner("en", folder, settings=FEW, create=create, **options)


class NotingTuner(QuickTuner):
    def compared(self):
        sides = [[key_of(each) for each in side] for side in (self.request.train, self.request.held_back)]
        return LearningState("not better", json.dumps(sides))


# The comparison


def forest(*n_right):
    """Return sentences of 20 words, of which so many have the right head and label; the last label is a subtype."""
    return [tree([0, *[1] * 19], ["root", *["dep"] * (n - 1), *["det"] * (19 - n), "nmod"]) for n in n_right]


GOLD = [tree([0, *[1] * 19], ["root", *["dep"] * 18, "nmod:poss"])] * 6


def test_nine_words_that_became_right_in_one_sentence_may_be_chance():
    """The words of a sentence depend on each other, so what counts are the sentences."""
    one = compared(GOLD, forest(*[10] * 6), forest(19, *[10] * 5), most_p=0.1)
    all_six = compared(GOLD, forest(*[10] * 6), forest(*[12] * 6), most_p=0.1)
    worse = compared(GOLD, forest(*[12] * 6), forest(*[10] * 6), most_p=0.1)

    assert [state.kind for state in (one, all_six, worse)] == ["not better", "better", "not better"]
    assert one.message.endswith("9 words became right, 0 wrong (p = 1). This may be chance.")
    assert re.fullmatch(
        r"On 6 held-back sentences \(120 words\) the new model has 60\.0 LAS, the present one 50\.0: "
        r"12 words became right, 0 wrong \(p = 0\.03\d?\)\.",
        all_six.message,
    )


# What is held back


def test_sentences_stay_on_the_side_where_an_earlier_run_had_them(tmp_path):
    first, later = (
        [set(side) for side in json.loads(_result_of(learner_of(tmp_path, NotingTuner), some).message)]
        for some in (SENTENCES[:12], SENTENCES[39::-1])
    )

    assert [len(side) for side in (*first, *later)] == [9, 3, 30, 10]
    assert first[0] < later[0]
    assert first[1] < later[1]


def _result_of(learner, sentences):
    assert learner.consider(sentences)
    return learner.wait()


def test_only_whole_trees_with_labels_are_learned():
    assert is_learnable(tree([2, 0], ["nsubj", "root"]))
    assert not is_learnable(tree([2, 1], ["nsubj", "root"]))
    assert not is_learnable(tree([0, 0], ["root", "root"]))
    assert not is_learnable(tree([2, 0], ["_", "root"]))
    assert not is_learnable(tree([0, *[1] * 200], ["root", *["dep"] * 200]))


# Runs


def test_a_run_starts_when_enough_different_whole_sentences_are_corrected(tmp_path):
    learner = learner_of(tmp_path)
    blank = [Sentence.of_words([str(number)]) for number in range(9)]

    assert not learner.consider([*SENTENCES[:6], *SENTENCES[:6], *blank])
    assert learner.consider(SENTENCES[:8])
    state = learner.wait()
    assert (state.kind, learner.present) == ("not better", "en")
    assert [each.name for each in tmp_path.iterdir()] == ["learning.json"]  # the model that is not better is removed
    with pytest.raises(TreefineError, match="There is no better model to adopt"):
        learner.adopt(print)
    assert not learner.consider(SENTENCES[:15])
    assert learner.consider(SENTENCES[:16])
    learner.stop()


def test_a_better_model_is_offered_adopted_and_kept_for_later_sessions(tmp_path):
    learner = learner_of(tmp_path)
    learner.consider(SENTENCES[:12])
    state = learner.wait()
    assert (state.kind, learner.present) == ("better", "en")

    def fail(name):
        raise TreefineError("The new model cannot be loaded.")

    with pytest.raises(TreefineError, match="The new model cannot be loaded"):
        learner.adopt(fail)
    restarted, loaded = learner_of(tmp_path), []
    assert (restarted.present, restarted.state) == ("en", state)
    assert restarted.adopt(loaded.append) == restarted.present == str(tmp_path / "model")
    assert loaded == [str(tmp_path / "new")]

    later = learner_of(tmp_path)
    assert (later.present, later.state) == (str(tmp_path / "model"), LearningState())
    assert not later.consider(SENTENCES[:19])
    assert later.consider(SENTENCES[:20])
    later.wait()
    assert (tmp_path / "new" / "config.json").read_text() == str(tmp_path / "model")  # what it was compared with
    assert learner_of(tmp_path, language="en").present == "en"  # another choice


@pytest.mark.parametrize("content", ["", "[]", '{"model": "en", "language": "", "state": 3}'])
def test_a_damaged_record_is_ignored(tmp_path, content):
    (tmp_path / "learning.json").write_text(content)

    assert learner_of(tmp_path).state == LearningState()


@pytest.mark.parametrize(
    ("create", "message"),
    [
        (BrokenTuner, "Learning failed: ZeroDivisionError: division by zero Details are in {log}."),
        (DyingTuner, "Learning failed: A worker process has ended unexpectedly. There may not be enough memory. Det"),
    ],
)
def test_a_run_that_fails_says_why_and_is_repeated_only_with_more_sentences(tmp_path, create, message):
    learner = learner_of(tmp_path, create)
    learner.consider(SENTENCES[:8])
    state = learner.wait()

    assert state.kind == "failed"
    assert state.message.startswith(message.format(log=tmp_path / "learning.log"))
    assert not learner.consider(SENTENCES[:15])
    assert learner.consider(SENTENCES[:16])
    learner.stop()


def test_the_sentences_of_a_run_that_failed_are_new_in_the_next_session(tmp_path):
    learner = learner_of(tmp_path, QuickTuner)
    assert _result_of(learner, SENTENCES[:12]).kind == "better"
    learner.adopt(lambda name: None)
    learner._create = BrokenTuner
    assert _result_of(learner, SENTENCES[:20]).kind == "failed"

    learner._keep(LearningState())  # as for a model that is adopted

    later = learner_of(tmp_path)
    assert later.consider(SENTENCES[:20])
    later.stop()
