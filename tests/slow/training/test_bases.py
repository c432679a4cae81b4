"""Trainings that fine-tune the model of another recipe, which is trained first."""

import pytest
import torch

from tests.support.trainings import run, write_recipe, write_recipe_with_base
from treefine.model.folder import load_model
from treefine.training import new_model
from treefine.training.prepare import prepare
from treefine.training.recipe import recipe_toml

STAGES = ["base model base", "initial parser", "fold 1 of 2", "fold 2 of 2", ""]


@pytest.fixture
def recipe(tmp_path):
    return write_recipe_with_base(tmp_path)


@pytest.fixture
def begun(monkeypatch):
    """Return a list that collects the folders that new models start from."""
    folders = []
    monkeypatch.setattr(new_model, "load_model", lambda folder: folders.append(folder) or load_model(folder))
    return folders


def stages(steps):
    return list(dict.fromkeys(step.stage for step in steps))


def test_a_base_is_trained_first_and_only_once_for_all_models(tmp_path, recipe, begun):

    steps = run(recipe, tmp_path / "out")

    assert stages(steps) == STAGES
    base = tmp_path / "out" / "start" / "base" / "model"
    card = (tmp_path / "out" / "model" / "README.md").read_text()
    base_recipe = recipe_toml(prepare(tmp_path / "base.toml").recipe)
    assert f"The recipe of the model that it was fine-tuned from:\n```toml\n{base_recipe}```" in card
    assert 'fine_tune_from = "base.toml"' in card
    assert f"  {tmp_path}/other.conllu\n" in card  # with its checksum
    assert begun == [tmp_path / "encoder"] + 4 * [base]  # initial parser, two folds, the model itself


def test_a_parser_in_the_mix_fine_tunes_the_base_of_its_own_recipe(tmp_path, recipe, begun):
    sections = '[initial.mix.inner]\nparser = "inner.toml"\nfolds = 2\nshare = 0.5\n'
    mixed = write_recipe(tmp_path, "mixed", sections=sections, epochs=1)

    steps = run(mixed, tmp_path / "out")

    assert stages(steps) == ["base model base", "inner", "inner, fold 1 of 2", "inner, fold 2 of 2", ""]
    base, encoder = tmp_path / "out" / "start" / "base" / "model", tmp_path / "encoder"
    assert begun == [encoder, base, base, base, encoder]


def test_a_model_starts_with_the_weights_of_its_base(tmp_path, recipe):
    recipe.write_text(recipe.read_text().replace("rate = 1e-2", "rate = 0").replace("rate = 1e-3", "rate = 0"))

    run(recipe, tmp_path / "out")

    old = load_model(tmp_path / "out" / "start" / "base" / "model")
    new = load_model(tmp_path / "out" / "model")
    assert torch.equal(new.scorer.arc_weight, old.scorer.arc_weight)
    assert len(new.subwords) < len(old.subwords)  # cut to the pieces of the treebank
    (ours,), (theirs,) = (model.subwords.pieces_of(["the"]) for model in (new, old))
    assert torch.equal(new.encoder.pieces.weight[ours], old.encoder.pieces.weight[theirs])
