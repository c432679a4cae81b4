"""Learning from corrections: when a run starts, what is held back, which model is offered, and what survives."""

import json
import os
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.data import DATA
from treefine.errors import TreefineError
from treefine.studio.learn import (
    CorrectionLearner,
    FineTuning,
    HeldBackComparison,
    LearningSettings,
    LearningState,
    divided,
    is_learnable,
    key_of,
    sign_test,
)
from treefine.treebank.conllu import read_treebank
from treefine.treebank.graph import Graph
from treefine.treebank.sentence import Sentence

SENTENCES = [*{key_of(each): each for each in read_treebank(DATA / "en_ewt-sample.conllu")}.values()]
ROOT = Path(__file__).parents[2]
FEW = LearningSettings(least_sentences=8, again_after=4)


def tree(heads, labels):
    return Sentence.of_words([f"w{number}" for number in range(len(heads))]).with_graph(Graph.of_words(heads, labels))


class QuickTuning(FineTuning):
    """Pretends to train: the new model is better if it learned from more than six sentences."""

    def step(self):
        return 1.0

    def compared(self):
        assert "torch" not in sys.modules
        self.job.output.mkdir(exist_ok=True)
        (self.job.output / "config.json").write_text(self.job.present)
        n_words = sum(map(len, self.job.held_back))
        gained = 2 * (len(self.job.train) - 6)
        counts = (10, 10 + gained), (10, 10 + gained), max(gained, 0), max(-gained, 0)
        return HeldBackComparison(len(self.job.held_back), n_words, *counts)


class FailingTuning(QuickTuning):
    def step(self):
        raise TreefineError("There is not enough space on the disk.")


class BrokenTuning(QuickTuning):
    def step(self):
        return 1 / 0


class DyingTuning(QuickTuning):
    def step(self):
        os._exit(3)


class EndlessTuning(QuickTuning):
    def step(self):
        time.sleep(0.01)
        return 0.5


class QuickLearner(CorrectionLearner):
    work = QuickTuning


def learner_of(work, folder):
    learner = QuickLearner("en", folder, settings=FEW)
    learner.work = work
    return learner


# The comparison


def test_words_that_became_right_and_wrong_are_counted_by_head_and_whole_label():
    gold = tree([2, 0, 2, 2], ["det", "root", "nmod:poss", "punct"])
    present = tree([2, 0, 2, 2], ["det", "root", "nmod", "punct"])
    new = tree([3, 0, 2, 1], ["det", "root", "nmod:poss", "punct"])

    found = HeldBackComparison.of([gold], [present], [new])

    assert found == HeldBackComparison(1, 4, right_heads=(4, 2), right=(3, 2), became_right=1, became_wrong=2)


@pytest.mark.parametrize(
    ("right", "wrong", "kind"), [(9, 3, "better"), (4, 0, "better"), (5, 1, "not better"), (3, 9, "not better")]
)
def test_a_model_is_better_if_more_words_became_right_than_wrong_and_chance_is_unlikely(right, wrong, kind):
    found = HeldBackComparison(2, 20, (15, 16), (10, 10 + right - wrong), right, wrong)

    state = LearningState.of(found, most_p=0.2)

    assert state.kind == kind
    assert state.message.endswith(" This may be chance.") == (right == 5)


def test_the_message_names_the_scores_the_changes_and_their_probability():
    state = LearningState.of(HeldBackComparison(12, 214, (200, 204), (189, 195), 9, 3), most_p=0.2)

    assert state.message == (
        "On 12 held-back sentences (214 words) the new model has 91.1 LAS, the present one 88.3: "
        "9 words became right, 3 wrong (p = 0.15)."
    )


@given(st.integers(0, 7), st.integers(0, 7))
def test_the_sign_test_counts_all_outcomes_of_fair_coins(first, second):
    n = first + second
    outcomes = [sum(coins) for coins in product((0, 1), repeat=n)]
    as_far = [each for each in outcomes if abs(2 * each - n) >= abs(first - second)]

    assert sign_test(first, second) == pytest.approx(len(as_far) / 2**n)


# What is held back


def test_a_share_of_the_sentences_is_held_back_whatever_their_order():
    by_key = {key_of(each): each for each in SENTENCES[:20]}

    train, held_back = divided(by_key, (), (), 0.25)
    again = divided(dict(reversed(by_key.items())), (), (), 0.25)

    assert (len(train), len(held_back)) == (15, 5)
    assert {*train, *held_back} == {*by_key.values()}
    assert set(again[1]) == set(held_back)


def test_sentences_stay_on_the_side_where_an_earlier_run_had_them():
    keys = [key_of(each) for each in SENTENCES]
    first = divided(dict(zip(keys[:12], SENTENCES, strict=False)), (), (), 0.25)
    before = [[key_of(each) for each in side] for side in first]

    later = divided(dict(zip(keys[:40], SENTENCES, strict=False)), *before, 0.25)

    assert set(first[0]) <= set(later[0])
    assert set(first[1]) <= set(later[1])
    assert len(later[1]) == 10


def test_only_whole_trees_with_labels_are_learned():
    assert is_learnable(tree([2, 0], ["nsubj", "root"]))
    assert not is_learnable(Sentence.of_words(["Dogs", "bark"]))
    assert not is_learnable(tree([2, 1], ["nsubj", "root"]))
    assert not is_learnable(tree([0, 0], ["root", "root"]))
    assert not is_learnable(tree([2, 0], ["_", "root"]))
    assert not is_learnable(tree([0, *[1] * 200], ["root", *["dep"] * 200]))


# Runs


def test_a_run_starts_when_enough_different_whole_sentences_are_corrected(tmp_path):
    learner = QuickLearner("en", tmp_path, settings=FEW)
    blank = [Sentence.of_words([str(number)]) for number in range(9)]

    assert not learner.consider([*SENTENCES[:6], *SENTENCES[:6], *blank])
    assert learner.state == LearningState(message="Learning starts after 2 more corrected sentences.")
    assert not learner.consider([])
    assert learner.consider(SENTENCES[:8])
    learner.wait()
    assert not learner.consider(SENTENCES[:11])
    assert learner.consider(SENTENCES[:12])
    assert learner.wait().sentences == 9
    learner.stop()


def test_a_model_that_is_not_better_is_removed(tmp_path):
    learner = QuickLearner("en", tmp_path, settings=FEW)
    (tmp_path / ".trained.killed").mkdir()
    learner.consider(SENTENCES[:8])
    state = learner.wait()

    assert (state.kind, state.sentences, state.held_back, state.became_right) == ("not better", 6, 2, 0)
    assert learner.present == "en"
    assert [each.name for each in tmp_path.iterdir()] == ["learning.json"]  # also without left-overs
    with pytest.raises(TreefineError, match="There is no better model to adopt"):
        learner.adopt(print)


def test_a_model_that_cannot_be_loaded_is_not_adopted(tmp_path):
    learner = QuickLearner("en", tmp_path, settings=FEW)
    learner.consider(SENTENCES[:12])
    state = learner.wait()

    def load(name):
        raise TreefineError("The new model cannot be loaded.")

    with pytest.raises(TreefineError, match="The new model cannot be loaded"):
        learner.adopt(load)

    for each in (learner, QuickLearner("en", tmp_path, settings=FEW)):
        assert (each.present, each.state) == ("en", state)


def test_a_better_model_is_offered_adopted_and_kept_for_later_sessions(tmp_path):
    learner = QuickLearner("en", tmp_path, settings=FEW)
    learner.consider(SENTENCES[:12])
    state = learner.wait()

    assert (state.kind, state.model) == ("better", str(tmp_path / "new"))
    assert learner.present == "en"

    restarted = QuickLearner("en", tmp_path, settings=FEW)
    assert restarted.state == state
    loaded = []
    assert restarted.adopt(loaded.append) == restarted.present == str(tmp_path / "model")
    assert loaded == [state.model]
    assert restarted.state.message == "The model has learned from 9 corrected sentences."

    later = QuickLearner("en", tmp_path, settings=FEW)
    assert (later.present, later.state.kind) == (str(tmp_path / "model"), "idle")
    assert not later.consider(SENTENCES[:15])
    assert later.consider(SENTENCES[:16])
    assert later.wait().sentences == 12
    assert (tmp_path / "new" / "config.json").read_text() == str(tmp_path / "model")  # what it was compared with
    assert QuickLearner("en", tmp_path, language="en").present == "en"  # another choice
    assert QuickLearner("multi", tmp_path).present == "multi"


@pytest.mark.parametrize("content", ["", "[]", '{"model": "en"}', '{"model": "en", "language": "", "state": 3}'])
def test_a_damaged_record_is_ignored(tmp_path, content):
    (tmp_path / "learning.json").write_text(content)

    assert CorrectionLearner("en", tmp_path).state == LearningState()


def test_an_offer_whose_model_is_gone_is_forgotten(tmp_path):
    learner = QuickLearner("en", tmp_path, settings=FEW)
    learner.consider(SENTENCES[:12])
    learner.wait()
    (tmp_path / "new").rename(tmp_path / "elsewhere")

    assert QuickLearner("en", tmp_path).state == LearningState()


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (FailingTuning, "Learning failed: There is not enough space on the disk."),
        (BrokenTuning, "Learning failed: ZeroDivisionError: division by zero. Details are in {log}."),
        (
            DyingTuning,
            "Learning failed: A worker process has ended unexpectedly. There may not be enough memory.",
        ),
    ],
)
def test_a_run_that_fails_says_why_and_is_repeated_only_with_more_sentences(tmp_path, work, message):
    learner = learner_of(work, tmp_path)
    learner.consider(SENTENCES[:8])
    state = learner.wait()

    assert (state.kind, state.message) == ("failed", message.format(log=tmp_path / "learning.log"))
    assert not learner.consider(SENTENCES[:11])
    assert learner.consider(SENTENCES[:12])
    learner.stop()


def test_a_folder_that_cannot_be_written_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    learner = QuickLearner("en", tmp_path / "file", settings=FEW)
    learner.consider(SENTENCES[:8])

    assert learner.wait().kind == "failed"
    assert "file" in learner.state.message


def test_stopping_kills_the_process_and_starts_no_other(tmp_path):
    learner = learner_of(EndlessTuning, tmp_path)
    learner.consider(SENTENCES[:8])
    while learner.state.kind == "training" and not learner.state.progress:
        time.sleep(0.01)
    assert learner.state.message == "Learning from 6 corrected sentences: 50%."
    assert not learner.consider(SENTENCES)  # one at a time
    process = learner._worker.process

    learner.stop()

    assert process.poll() is not None
    assert learner.state == LearningState()
    assert not learner.consider(SENTENCES)
    assert not learner.wait().message


def test_the_process_ends_with_the_one_that_started_it(tmp_path):
    code = (
        "import os, sys, time\n"
        "from tests.studio.test_learn import EndlessTuning, SENTENCES, learner_of\n"
        "learner = learner_of(EndlessTuning, sys.argv[1])\n"
        "learner.consider(SENTENCES[:8])\n"
        "while learner.state.kind == 'training' and not learner.state.progress: time.sleep(0.01)\n"
        "print(learner._worker.process.pid, learner.state.kind, flush=True)\n"
        "os._exit(0)\n"
    )
    paths = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True, env=paths
    )

    pid, kind = found.stdout.split()
    assert kind == "training"
    deadline = time.monotonic() + 30
    while _is_running(int(pid)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _is_running(int(pid))


def _is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_importing_and_considering_does_not_load_torch(tmp_path):
    code = (
        "import sys\n"
        "from treefine.studio.learn import CorrectionLearner\n"
        "CorrectionLearner('en', sys.argv[1]).consider([])\n"
        "print('torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)

    assert found.stdout == "False\n"


# A real run


def test_a_tiny_model_learns_new_labels_and_keeps_the_rest(tmp_path):
    import torch

    from tests.support.tiny import ALL_TAGS, tiny_model
    from tests.support.tiny_segmenter import tiny_segmenter
    from treefine.config import RelationSettings
    from treefine.parsing.parser import Parser

    model = tiny_model(relations=RelationSettings(decided=True), tags=ALL_TAGS, sentence_layers=1, scale=1.0)
    Parser(model, segmenter=tiny_segmenter(), device="cpu", languages=["en"]).save(tmp_path / "start")
    short = [_below_first_word(each) for each in SENTENCES if 3 < len(each) < 20][:16]
    rates = {"learning_rate": 1e-2, "encoder_learning_rate": 1e-3}
    settings = LearningSettings(least_sentences=16, epochs=8, **rates, batch_pieces=100, niceness=0)
    learner = CorrectionLearner(str(tmp_path / "start"), tmp_path / "work", settings=settings)

    assert learner.consider(short)
    state = learner.wait()
    assert state.kind == "better", state.message
    assert (state.sentences, state.held_back) == (12, 4)

    start, new = (Parser.from_pretrained(each, device="cpu") for each in (tmp_path / "start", learner.adopt(str)))
    assert {*new.model.vocabulary.labels} == {*start.model.vocabulary.labels, "obj:new"}
    assert new.model.vocabulary.lemma_rules == start.model.vocabulary.lemma_rules
    assert new.model.settings.languages == ("en",)
    text = "The dog barks. It is loud! Is it?"
    assert [each.sentence.forms for each in new.segment([text])] == [
        each.sentence.forms for each in start.segment([text])
    ]
    weights = start.model.state_dict(), new.model.state_dict()
    same = [name for name in weights[0] if torch.equal(weights[0][name].half(), weights[1][name].half())]
    assert "encoder.pieces.weight" in same
    assert "encoder.layers.0.inner.weight" in same
    assert "encoder.layers.1.inner.weight" not in same
    record = json.loads((tmp_path / "work" / "learning.json").read_text())
    assert record["model"] == str(tmp_path / "start")


def _below_first_word(sentence):
    """Return a tree that is easy to learn, with a label that no model knows."""
    n_others = len(sentence) - 1
    return sentence.with_graph(Graph.of_words([0, *[1] * n_others], ["root", *["obj:new"] * n_others]))
