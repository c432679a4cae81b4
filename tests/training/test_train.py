"""A complete training: its progress, files, early stopping and model card."""

import hashlib
import json
import os
import re
from dataclasses import replace

import pytest
import torch

import treefine
from tests.support.trainings import CPU, SYNTR, metrics, run, weights, write_recipe
from treefine import evaluate, read_treebank
from treefine.errors import TreefineError
from treefine.parsing.parser import Parser
from treefine.training import epochs
from treefine.training.learner import Learner
from treefine.training.prepare import prepare
from treefine.training.recipe import read_recipe
from treefine.training.train import train


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Train an RNGTr with an initial parser and two folds."""
    folder = tmp_path_factory.mktemp("trained")
    write_recipe(folder, "syntr", sections=SYNTR, epochs=1)
    sections = '[initial]\nparser = "syntr.toml"\nfolds = 2\n[tags]\nsource = "none"\n'
    recipe = write_recipe(folder, "rngtr", sections=sections)
    for path in (recipe, folder / "syntr.toml"):
        path.write_text(path.read_text().replace(f'"{folder}/', '"$HERE/'))
    os.environ["HERE"] = str(folder)
    yield folder
    del os.environ["HERE"]


@pytest.fixture(scope="module")
def steps(folder):
    return run(folder / "rngtr.toml", folder / "out")


def test_progress_is_yielded_per_batch_and_the_best_epoch_is_the_one_with_the_highest_las(steps):
    own = [step for step in steps if step.stage == ""]

    assert [step.completed for step in own] == sorted(step.completed for step in own)
    assert own[-1].completed == 1.0
    assert [step.epoch for step in own if step.accuracy is not None] == [1, 2, 3]
    assert len(own) > 6  # includes batches
    assert all(step.loss > 0 and step.seconds > 0 for step in own)
    measured, state = [step.accuracy.las for step in own if step.accuracy is not None], steps[-1].state
    assert state.best.las == max(measured)
    assert state.best_epoch == measured.index(max(measured)) + 1


def test_metrics_contain_all_values_of_an_epoch(folder, steps):
    last = json.loads((folder / "out" / "metrics.jsonl").read_text().splitlines()[-1])

    assert list(last) == [
        *("epoch", "loss", "UAS", "LAS", "LAS_1", "LAS_2", "LAS_3", "learning_rate", "encoder_learning_rate"),
        *("updates", "seconds"),
    ]
    assert (last["epoch"], last["LAS"], last["LAS_3"]) == (3, steps[-1].accuracy.las, steps[-1].accuracy.las_by_step[2])
    assert last["learning_rate"] == last["encoder_learning_rate"] == 0


def test_the_folder_contains_the_model_and_the_parses_of_the_folds(folder, steps):
    out = folder / "out"

    assert not list(out.glob("**/checkpoint.safetensors"))
    assert not list(out.glob("folds/*/model"))
    assert len(list(out.glob("folds/*/parses.conllu.gz"))) == 2
    assert isinstance(Parser.from_pretrained(out / "model", device="cpu").initial, Parser)


def test_the_card_has_recipes_that_can_be_read_back(folder, steps, tmp_path):
    card = (folder / "out" / "model" / "README.md").read_text()
    written = re.findall(r"```toml\n(.*?)```", card, re.DOTALL)
    for name, text in zip(("outer", "syntr"), written, strict=True):
        (tmp_path / f"{name}.toml").write_text(text)

    prepared = prepare(folder / "rngtr.toml")
    outer = read_recipe(tmp_path / "outer.toml")
    assert outer.initial.parser == str(tmp_path / "syntr.toml")  # found in the same folder
    assert replace(outer, initial=prepared.recipe.initial) == prepared.recipe
    assert read_recipe(tmp_path / "syntr.toml") == prepared.initial


def test_the_card_has_the_data_the_settings_and_the_scores(folder, steps):
    card = (folder / "out" / "model" / "README.md").read_text()

    state = steps[-1].state
    for name in ("train", "dev"):
        digest = hashlib.sha256((folder / f"{name}.conllu").read_bytes()).hexdigest()
        assert f"{digest}  $HERE/{name}.conllu\n" in card
    assert f"treefine {treefine.__version__}, torch {torch.__version__} and seed 1 on 20 sentences" in card
    assert f"LAS {state.best.las:.2%};" in card
    assert "LAS " + ", ".join(f"{las:.2%}" for las in state.best.las_by_step) in card
    assert str(folder) not in card


def test_early_stopping_ends_a_training(tmp_path):
    recipe = write_recipe(
        tmp_path, "syntr", sections=SYNTR, epochs=30, training="patience = 1", optimiser="clip_gradient_norm = 0.5"
    )

    last = run(recipe, tmp_path / "out")[-1]

    assert last.epoch == last.state.best_epoch + 2 < 30


def test_an_interrupted_training_resumes_from_its_checkpoint_and_until_then_its_folder_is_locked(tmp_path):
    recipe = write_recipe(tmp_path, "syntr", sections=SYNTR)
    run(recipe, tmp_path / "whole")
    steps = train(prepare(recipe), tmp_path / "out", device=CPU)
    while next(steps).epoch < 2:
        pass

    message = "Another training is running in this folder. Wait until it ends or stop it, then continue with --resume."
    with pytest.raises(TreefineError, match=f"^{tmp_path}/out: {re.escape(message)}$"):
        run(recipe, tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        steps.throw(KeyboardInterrupt)

    assert (tmp_path / "out" / "checkpoint.safetensors").exists()
    assert min(step.epoch for step in run(recipe, tmp_path / "out")) == 2
    assert weights(tmp_path / "out") == weights(tmp_path / "whole")
    assert metrics(tmp_path / "out") == metrics(tmp_path / "whole")


class BrokenLearner(Learner):
    """A learner whose last update of the second epoch makes a weight NaN."""

    def epoch(self, number):
        yield from super().epoch(number)
        if number == 2:
            self.optimiser.parameters[0].data[0] = float("nan")


def test_a_nan_weight_ends_the_training_before_it_is_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(epochs, "Learner", BrokenLearner)

    with pytest.raises(TreefineError, match="In epoch 2, the loss or a weight became infinite or NaN") as raised:
        run(write_recipe(tmp_path, "syntr", sections=SYNTR), tmp_path / "out")

    assert "\n" not in str(raised.value)
    assert (tmp_path / "out" / "checkpoint.safetensors").exists()


@pytest.mark.parametrize(
    ("t", "initial", "precision"), [(3, "", "float32"), (2, '[initial]\nparser = "syntr.toml"\n', "bfloat16")]
)
def test_the_saved_model_parses_dev_with_the_reported_accuracy(tmp_path, t, initial, precision):
    """Parses with the T of the training, in the precision of the dev scores."""
    write_recipe(tmp_path, "syntr", sections=SYNTR, epochs=2)
    sections, training = f"{initial}[refine]\nmax_steps = {t}\n", f'precision = "{precision}"'
    recipe = write_recipe(tmp_path, "rngtr", sections=sections, training=training, epochs=2)

    state = run(recipe, tmp_path / "out")[-1].state

    gold = list(read_treebank(tmp_path / "dev.conllu"))
    parser = Parser.from_pretrained(tmp_path / "out" / "model", device="cpu")
    assert parser.max_steps == t
    assert evaluate(gold, parser.parse(gold))["LAS"].f1 == pytest.approx(state.best.las)
