"""Learning from corrections: when a run starts, what is held back, which model is offered, and what survives."""

import os
import sys

import pytest

from tests.support.data import DATA
from treefine.errors import TreefineError
from treefine.studio.learn import (
    CorrectionLearner,
    HeldBackComparison,
    LearningSettings,
    LearningState,
    divided,
    is_learnable,
    key_of,
)
from treefine.treebank.conllu import read_treebank
from treefine.treebank.graph import Graph
from treefine.treebank.sentence import Sentence

SENTENCES = [*{key_of(each): each for each in read_treebank(DATA / "en_ewt-sample.conllu")}.values()]
FEW = LearningSettings(least_sentences=8, again_after=4, most_p=1.0)


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
        n_words, gained = tuple(map(len, self.request.held_back)), len(self.request.train) - 6
        right = [2] * len(n_words)
        return HeldBackComparison(n_words, tuple(right), (2 + gained, *right[1:]), max(gained, 0), max(-gained, 0))


class BrokenTuner(QuickTuner):
    def epoch(self):
        return 1 / 0


class DyingTuner(QuickTuner):
    def epoch(self):
        os._exit(3)


def learner_of(folder, create=QuickTuner, **options):
    return CorrectionLearner("en", folder, settings=FEW, create=create, **options)


# The comparison


def test_words_that_became_right_and_wrong_are_counted_by_head_and_whole_label():
    gold = tree([2, 0, 2, 2], ["det", "root", "nmod:poss", "punct"])
    present = tree([2, 0, 2, 2], ["det", "root", "nmod", "punct"])
    new = tree([3, 0, 2, 1], ["det", "root", "nmod:poss", "punct"])

    found = HeldBackComparison.of([gold, gold], [present, gold], [new, gold])

    assert found == HeldBackComparison((4, 4), present=(3, 4), new=(2, 4), became_right=1, became_wrong=2)


def test_nine_words_that_became_right_in_one_sentence_may_be_chance():
    """The words of a sentence depend on each other, so what counts are the sentences."""
    one = HeldBackComparison((20,) * 6, (10,) * 6, (19, *(10,) * 5), 9, 0).state(most_p=0.1)
    all_six = HeldBackComparison((20,) * 6, (10,) * 6, (12,) * 6, 12, 0).state(most_p=0.1)

    assert (one.kind, all_six.kind) == ("not better", "better")
    assert one.message.endswith("9 words became right, 0 wrong (p = 1). This may be chance.")
    assert all_six.message.startswith(
        "On 6 held-back sentences (120 words) the new model has 60.0 LAS, the present one 50.0: 12 words became right, "
        "0 wrong (p = 0.03"
    )


def test_a_model_with_more_errors_is_not_better_however_certain_that_is():
    assert HeldBackComparison((20,) * 9, (12,) * 9, (10,) * 9, 0, 18).state(most_p=0.1).kind == "not better"


# What is held back


def test_sentences_stay_on_the_side_where_an_earlier_run_had_them():
    keys = [key_of(each) for each in SENTENCES]
    first = divided(dict(zip(keys[:12], SENTENCES, strict=False)), (), (), 0.25)
    before = [[key_of(each) for each in side] for side in first]

    later = divided(dict(reversed([*zip(keys[:40], SENTENCES, strict=False)])), *before, 0.25)

    assert [len(side) for side in first] == [9, 3]
    assert set(first[0]) <= set(later[0])
    assert set(first[1]) <= set(later[1])
    assert len(later[1]) == 10


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
    assert not learner.consider(SENTENCES[:11])
    assert learner.consider(SENTENCES[:12])
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
    assert not later.consider(SENTENCES[:15])
    assert later.consider(SENTENCES[:16])
    later.wait()
    assert (tmp_path / "new" / "config.json").read_text() == str(tmp_path / "model")  # what it was compared with
    assert learner_of(tmp_path, language="en").present == "en"  # another choice


@pytest.mark.parametrize("content", ["", "[]", '{"model": "en"}', '{"model": "en", "language": "", "state": 3}'])
def test_a_damaged_record_is_ignored(tmp_path, content):
    (tmp_path / "learning.json").write_text(content)

    assert learner_of(tmp_path).state == LearningState()


def test_an_offer_whose_model_is_gone_is_forgotten(tmp_path):
    learner = learner_of(tmp_path)
    learner.consider(SENTENCES[:12])
    learner.wait()
    (tmp_path / "new").rename(tmp_path / "elsewhere")

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
    assert not learner.consider(SENTENCES[:11])
    assert learner.consider(SENTENCES[:12])
    learner.stop()
