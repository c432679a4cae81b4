"""The output folder: which training can start there, its lock, checkpoints and metrics."""

import json
import sys
from pathlib import Path

import pytest
from safetensors import torch as safetensors

from tests.support.disks import full_disk
from tests.support.tiny import sample, tiny_model
from tests.support.tiny_learner import are_equal, learn, learner_of, weights_of
from tests.support.trainings import CPU, SYNTR, run, weights, write_recipe
from treefine.errors import TreefineError
from treefine.training.dev import Accuracy
from treefine.training.folder import (
    TrainingState,
    begin_folder,
    check_folder,
    load_checkpoint,
    metrics_log,
    remove_unfinished,
    save_checkpoint,
)
from treefine.training.prepare import prepare
from treefine.training.recipe import OptimiserSettings
from treefine.training.train import train
from treefine.treebank.conllu import write_treebank

OUT = Path("out")


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """Write a recipe that fine-tunes another one, and start its training in `out`."""
    monkeypatch.chdir(tmp_path)
    base = write_recipe(Path(), "base", sections=SYNTR)
    write_treebank(sample()[30:], "other.conllu")
    base.write_text(base.read_text().replace("train.conllu", "other.conllu"))
    path = write_recipe(Path(), "rngtr", encoder="base.toml")
    begin_folder(OUT, prepare(path))
    return path


def refusal(recipe, *, is_resumed=True):
    with pytest.raises(TreefineError) as caught:
        check_folder(OUT, prepare(recipe), is_resumed=is_resumed)
    return str(caught.value)


def test_the_recipe_of_a_base_and_its_treebanks_are_kept(recipe):
    kept = json.loads((OUT / "recipe.json").read_text())

    assert kept["recipe"]["encoder"]["fine_tune_from"] == "base.toml"
    assert kept["base model base"]["treebank"]["train"] == ["./other.conllu"]
    assert set(kept["checksums"]) == {"./train.conllu", "./dev.conllu", "./other.conllu"}


@pytest.mark.parametrize("changes", [[], ["training.checkpoint_minutes=5"]])
def test_the_same_recipe_may_be_resumed_and_the_time_between_checkpoints_may_change(recipe, changes):
    before = (OUT / "recipe.json").read_bytes()

    check_folder(OUT, prepared := prepare(recipe, changes), is_resumed=True)
    begin_folder(OUT, prepared)

    assert (OUT / "recipe.json").read_bytes() == before


@pytest.mark.parametrize("name", ["start", "initial", "folds", "members", "checkpoint.safetensors"])
def test_any_trace_of_a_training_is_recognised(recipe, name):
    (OUT / "recipe.json").unlink()
    (OUT / name).mkdir()

    assert refusal(recipe, is_resumed=False).startswith("out: The folder contains a training run.")


def test_a_training_with_a_different_share_or_different_parses_cannot_be_resumed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = [["train.conllu", "parsed-train.conllu"], ["dev.conllu", "parsed-dev.conllu"]]
    source = f'[initial]\nparser = "files"\ntrain = "{files[0][1]}"\ndev = "{files[1][1]}"\n'
    path = write_recipe(Path(), "files", sections=source)
    for gold, parses in files:
        Path(parses).write_bytes(Path(gold).read_bytes())
    begin_folder(OUT, prepare(path))
    check_folder(OUT, prepare(path), is_resumed=True)

    with pytest.raises(TreefineError, match=r"differ: initial\.decided_share\."):
        check_folder(OUT, prepare(path, ["initial.decided_share=0.25"]), is_resumed=True)
    Path("parsed-dev.conllu").write_text(Path("dev.conllu").read_text().replace("\tnsubj\t", "\tobj\t"))
    assert "files differ: the content of parsed-dev.conllu. Use the same" in refusal(path)


def new_learner():
    return learner_of(tiny_model(scale=1.0), sample(6), optimiser=OptimiserSettings(ema=0.5))


def state_of(epoch):
    return TrainingState(epoch, 1, Accuracy((0.4, 0.5), 0.6, 0.5, {"UPOS": 0.1}), seconds=1.5)


def save(folder, learner, epoch):
    save_checkpoint(folder, learner, state_of(epoch), learner.measured_weights())


@pytest.fixture
def checkpointed(tmp_path):
    """Save the checkpoint of a learner after its first epoch, and return its folder."""
    learner = new_learner()
    learn(learner, epochs=1)
    save(tmp_path, learner, 1)
    return tmp_path


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_loaded_checkpoint_equals_the_saved_one(tmp_path):
    learner, other = new_learner(), new_learner()
    learn(learner, epochs=1)

    save(tmp_path, learner, 1)
    state, best = load_checkpoint(tmp_path, other)

    assert state == state_of(1)
    assert are_equal(best, learner.measured_weights())
    assert are_equal(weights_of(other.model), weights_of(learner.model))
    assert are_equal(other.optimiser.state(), learner.optimiser.state())


def test_only_the_newest_checkpoint_is_kept(checkpointed):
    save(checkpointed, new_learner(), 2)

    assert names_in(checkpointed) == ["checkpoint.safetensors"]
    assert load_checkpoint(checkpointed, new_learner())[0] == state_of(2)


def test_a_full_disk_is_reported_and_keeps_the_previous_checkpoint(checkpointed):
    learner = new_learner()

    with full_disk(20_000), pytest.raises(TreefineError, match=r"Cannot write a checkpoint: .*File too large.*\.$"):
        save(checkpointed, learner, 2)

    assert names_in(checkpointed) == ["checkpoint.safetensors"]
    assert load_checkpoint(checkpointed, new_learner())[0] == state_of(1)


def without_a_weight(content):
    tensors = safetensors.load(content)
    del tensors["best.scorer.arc_weight"]
    return safetensors.save(tensors, {"state": "{}"})


@pytest.mark.parametrize(
    "damage",
    [lambda content: content[:-1], without_a_weight, lambda content: safetensors.save(safetensors.load(content))],
    ids=["cut", "a weight is missing", "no state"],
)
def test_a_damaged_checkpoint_is_one_clear_error(checkpointed, damage):
    path = checkpointed / "checkpoint.safetensors"
    path.write_bytes(damage(path.read_bytes()))

    with pytest.raises(TreefineError, match=r"safetensors: The checkpoint is damaged \(.+\)\. Delete it.*$"):
        load_checkpoint(checkpointed, new_learner())


def test_only_incomplete_files_of_a_killed_process_are_removed(tmp_path):
    for name in (".model.cd34/new", ".git", "model"):
        (tmp_path / name).mkdir(parents=True)
    for name in (".parses.conllu.gz.ab12.tmp", ".metrics.jsonl.new", ".gitignore", "metrics.jsonl"):
        (tmp_path / name).touch()

    remove_unfinished(tmp_path, "model", "parses.conllu.gz", "metrics.jsonl")

    assert names_in(tmp_path) == [".git", ".gitignore", "metrics.jsonl", "model"]


def test_a_full_disk_when_saving_the_model_is_reported_and_a_restart_saves_it(tmp_path):
    recipe = write_recipe(tmp_path, "syntr", sections=SYNTR)
    run(recipe, tmp_path / "whole")
    steps = train(prepare(recipe), tmp_path / "out", device=CPU)
    while next(steps).state.epoch < 3:
        pass

    with full_disk(20_000), pytest.raises(TreefineError, match=r"The model could not be saved: .*File too large.*$"):
        next(steps)

    assert not (tmp_path / "out" / "model").exists()
    assert len(run(recipe, tmp_path / "out")) == 0  # no epoch is repeated
    assert weights(tmp_path / "out") == weights(tmp_path / "whole")


def metric_lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def write_metrics(folder, epochs, *, after_epoch=0, las=0.5):
    with metrics_log(folder, after_epoch=after_epoch) as add_metrics:
        for epoch in epochs:
            add_metrics(epoch, {"LAS": las + epoch / 100, "loss": 1.0})


def test_repeated_epochs_appear_once(tmp_path):
    write_metrics(tmp_path, [1, 2, 3])
    write_metrics(tmp_path, [2, 3], after_epoch=1, las=0.6)

    assert [(line["epoch"], line["LAS"]) for line in metric_lines(tmp_path)] == [(1, 0.51), (2, 0.62), (3, 0.63)]


def test_without_tensorboard_only_the_lines_are_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    folder = tmp_path / "out" / "initial"  # TensorBoard would create it

    write_metrics(folder, [1, 2])

    assert [line["epoch"] for line in metric_lines(folder)] == [1, 2]
    assert [path.name for path in folder.iterdir()] == ["metrics.jsonl"]


def test_a_full_disk_is_reported_and_keeps_the_lines_before(tmp_path):
    with metrics_log(tmp_path, after_epoch=0) as add_metrics:
        add_metrics(1, {"LAS": 0.5})
        with full_disk(30), pytest.raises(TreefineError, match=r"metrics\.jsonl: .*File too large"):
            add_metrics(2, {"LAS": 0.5})

    write_metrics(tmp_path, [2], after_epoch=1)
    assert [line["epoch"] for line in metric_lines(tmp_path)] == [1, 2]
