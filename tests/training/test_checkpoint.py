"""Checkpoints are complete or absent, and errors are reported on one line."""

import sys

import pytest
from safetensors.torch import load_file, save_file

from tests.support.disks import full_disk
from tests.support.tiny import sample, tiny_model
from tests.support.tiny_learner import are_equal, learn, learner_of, weights_of
from tests.support.trainings import CPU, SYNTR, run, weights, write_recipe
from treefine.errors import TreefineError
from treefine.training.dev import Accuracy
from treefine.training.folder import Checkpoint, TrainingState, load_checkpoint, remove_unfinished, save_checkpoint
from treefine.training.prepare import prepare
from treefine.training.recipe import OptimiserSettings
from treefine.training.train import train


def new_learner():
    return learner_of(tiny_model(scale=1.0), sample(6), optimiser=OptimiserSettings(ema=0.5))


def checkpoint_of(learner, epoch):
    state = TrainingState(epoch, 1, Accuracy((0.4, 0.5), 0.6, 0.5, {"a": 0.1}), seconds=1.5)
    return Checkpoint(state, learner.model.state_dict(), learner.measured_weights(), learner.optimiser.state())


@pytest.fixture
def saved(tmp_path):
    """Save the checkpoint of a learner after its first epoch, and return its folder."""
    learner = new_learner()
    learn(learner, epochs=1)
    save_checkpoint(tmp_path, checkpoint_of(learner, 1))
    return tmp_path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_loaded_checkpoint_equals_the_saved_one(tmp_path):
    learner, other = new_learner(), new_learner()
    learn(learner, epochs=1)
    whole = checkpoint_of(learner, 1)

    save_checkpoint(tmp_path, whole)
    loaded = load_checkpoint(tmp_path, other)

    assert loaded.state == whole.state
    assert are_equal(loaded.best, whole.best)
    assert are_equal(weights_of(other.model), weights_of(learner.model))
    assert are_equal(other.optimiser.state(), learner.optimiser.state())


def test_only_the_newest_checkpoint_is_kept(saved):
    save_checkpoint(saved, checkpoint_of(new_learner(), 2))

    assert names(saved) == ["checkpoint-000002"]


def test_a_full_disk_is_reported_and_keeps_the_previous_checkpoint(saved):
    second = checkpoint_of(new_learner(), 2)

    with full_disk(20_000), pytest.raises(TreefineError, match=r"Cannot write a checkpoint: .*\.") as raised:
        save_checkpoint(saved, second)

    assert "File too large" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert names(saved) == ["checkpoint-000001"]
    assert load_checkpoint(saved, new_learner()).state.epoch == 1


def truncate(folder):
    path = folder / "best.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def lose_a_weight(folder):
    path = folder / "weights.safetensors"
    found = load_file(path)
    save_file(dict(list(found.items())[1:]), path)


def garble(folder):
    (folder / "state.json").write_text("{")


@pytest.mark.parametrize("damage", [truncate, lose_a_weight, garble])
def test_a_damaged_checkpoint_is_one_clear_error(saved, damage):
    damage(saved / "checkpoint-000001")

    with pytest.raises(
        TreefineError, match=r"checkpoint-000001: The checkpoint is damaged \(.+\)\. Delete it"
    ) as raised:
        load_checkpoint(saved, new_learner())

    assert "\n" not in str(raised.value)


def test_only_incomplete_files_of_a_killed_process_are_removed(tmp_path):
    for name in ("checkpoints/.new-ab12/new", ".model.cd34/new", ".git", "checkpoints/checkpoint-000001", "model"):
        (tmp_path / name).mkdir(parents=True)
    for name in (".parses.conllu.gz.ab12.tmp", ".metrics.jsonl.new", ".gitignore", "metrics.jsonl"):
        (tmp_path / name).touch()

    remove_unfinished(tmp_path, "model", "parses.conllu.gz", "metrics.jsonl")

    assert names(tmp_path) == [".git", ".gitignore", "checkpoints", "metrics.jsonl", "model"]
    assert names(tmp_path / "checkpoints") == ["checkpoint-000001"]


def test_a_full_disk_when_saving_the_model_is_reported_and_a_restart_saves_it(tmp_path):
    recipe = write_recipe(tmp_path, "syntr", sections=SYNTR)
    run(recipe, tmp_path / "whole")
    steps = train(prepare(recipe), tmp_path / "out", device=CPU)
    while next(steps).state.epoch < 3:
        pass

    with (
        full_disk(20_000),
        pytest.raises(TreefineError, match=r"The model could not be saved: .*File too large") as raised,
    ):
        next(steps)

    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out" / "model").exists()
    assert len(run(recipe, tmp_path / "out")) == 0  # no epoch is repeated
    assert weights(tmp_path / "out") == weights(tmp_path / "whole")


def test_a_full_disk_when_writing_a_fold_is_reported_and_a_restart_writes_it(tmp_path, monkeypatch):
    write_recipe(tmp_path, "syntr", sections=SYNTR, epochs=1)
    recipe = write_recipe(tmp_path, "rngtr", sections='[initial]\nparser = "syntr.toml"\nfolds = 2\n', epochs=1)
    run(recipe, tmp_path / "whole")

    train_module = sys.modules["treefine.training.train"]

    def write_on_a_full_disk(sentences, path):
        with full_disk(10):
            write_treebank(sentences, path)

    write_treebank = train_module.write_treebank
    with monkeypatch.context() as patch:
        patch.setattr(train_module, "write_treebank", write_on_a_full_disk)
        with pytest.raises(TreefineError, match=r"The output could not be written: File too large"):
            run(recipe, tmp_path / "out")

    stages = {step.stage for step in run(recipe, tmp_path / "out")}
    assert stages == {"fold 2 of 2", ""}  # the parser of the first fold was kept
    assert weights(tmp_path / "out") == weights(tmp_path / "whole")
