"""Learning in a process of its own: it ends with the studio, and a tiny model learns what people corrected."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import torch

from tests.studio.test_learn import SENTENCES, QuickTuner, learner_of
from tests.support.studio import until
from tests.support.tiny import ALL_TAGS, tiny_model
from tests.support.tiny_segmenter import tiny_segmenter
from treefine.config import RelationSettings
from treefine.parsing.parser import Parser
from treefine.studio.learn import CorrectionLearner, LearningSettings, LearningState
from treefine.treebank.graph import Graph

ROOT = Path(__file__).parents[3]
START = """
import os, sys, time
from pathlib import Path
from tests.slow.studio.test_learning import EndlessTuner, SENTENCES, learner_of
learner = learner_of(Path(sys.argv[1]), EndlessTuner)
learner.consider(SENTENCES[:8])
while "50%" not in learner.state.message: time.sleep(0.01)
print(learner._worker.process.pid, flush=True)
os._exit(0)
"""


class EndlessTuner(QuickTuner):
    def epoch(self):
        time.sleep(0.01)
        return 0.5


def test_stopping_kills_the_process_and_starts_no_other(tmp_path):
    learner = learner_of(tmp_path, EndlessTuner)
    learner.consider(SENTENCES[:8])
    until(lambda: learner.state.message == "Learning from 6 corrected sentences: 50%.")
    assert not learner.consider(SENTENCES)  # one at a time
    process = learner._worker.process

    learner.stop()

    assert process.poll() is not None
    assert learner.state == LearningState()
    assert not learner.consider(SENTENCES)


def test_the_process_ends_with_the_one_that_started_it(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    command = [sys.executable, "-c", START, tmp_path]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)

    until(lambda: not Path("/proc", found.stdout.strip()).exists())


def test_a_tiny_model_learns_new_labels_and_keeps_the_rest(tmp_path):
    model = tiny_model(relations=RelationSettings(decided=True), tags=ALL_TAGS, sentence_layers=1, scale=1.0)
    Parser(model, segmenter=tiny_segmenter(), device="cpu", languages=["en"]).save(tmp_path / "start")
    short = [_below_first_word(each) for each in SENTENCES if 3 < len(each) < 20][:24]
    rates = {"learning_rate": 1e-2, "encoder_learning_rate": 1e-3}
    settings = LearningSettings(epochs=14, **rates, batch_pieces=100, most_p=1.0)
    learner = CorrectionLearner(str(tmp_path / "start"), tmp_path / "work", settings=settings)

    assert learner.consider(short)
    state = learner.wait()
    assert state.kind == "better", state.message

    start, new = (Parser.from_pretrained(each, device="cpu") for each in (tmp_path / "start", learner.adopt(str)))
    assert {*new.model.vocabulary.labels} == {*start.model.vocabulary.labels, "obj:new"}
    assert new.model.vocabulary.lemma_rules == start.model.vocabulary.lemma_rules
    assert new.model.settings.languages == ("en",)
    text = "The dog barks. It is loud! Is it?"
    old_words, new_words = ([each.sentence.forms for each in parser.segment([text])] for parser in (start, new))
    assert new_words == old_words
    old, weights = start.model.state_dict(), new.model.state_dict()
    same = [name for name in old if torch.equal(old[name].half(), weights[name].half())]
    assert {"encoder.pieces.weight", "encoder.layers.0.inner.weight"} < {*same}
    assert "encoder.layers.1.inner.weight" not in same
    assert json.loads((tmp_path / "work" / "learning.json").read_text())["model"] == str(tmp_path / "start")


def _below_first_word(sentence):
    """Return a tree that is easy to learn, with a label that no model knows."""
    n_others = len(sentence) - 1
    return sentence.with_graph(Graph.of_words([0, *[1] * n_others], ["root", *["obj:new"] * n_others]))
