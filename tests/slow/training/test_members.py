"""Weight averaging over several models."""

import pytest
import torch
from safetensors.torch import load_file

from tests.support.trainings import SYNTR, run, weights, write_recipe


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("members")


@pytest.fixture(scope="module")
def out(folder):
    run(write_recipe(folder, "two", training="weight_averaging = 2", epochs=2), folder / "out")
    return folder / "out"


def saved(folder):
    return load_file(folder / "model" / "model.safetensors")


def test_the_weights_are_the_average_of_the_members(out):
    first, second = (saved(out / "members" / number) for number in "12")

    assert all(torch.allclose(weight, (first[name] + second[name]) / 2) for name, weight in saved(out).items())
    assert any(not torch.equal(first[name], second[name]) for name in first)


def test_the_first_member_equals_a_single_training(folder, out):
    alone = write_recipe(folder, "one", epochs=2)

    run(alone, folder / "alone")

    assert weights(folder / "alone") == weights(out / "members" / "1")


def test_members_start_from_the_same_weights(folder):
    """Models with different initial weights cannot be averaged: their attention heads do not correspond."""
    still = write_recipe(folder, "still", training="weight_averaging = 2", epochs=1)
    still.write_text(still.read_text().replace("rate = 1e-2", "rate = 0").replace("rate = 1e-3", "rate = 0"))

    run(still, folder / "still")

    first, second = (saved(folder / "still" / "members" / number) for number in "12")
    assert all(torch.equal(weight, second[name]) for name, weight in first.items())


def test_an_initial_parser_may_have_members_too(folder):
    write_recipe(folder, "syntr", sections=SYNTR, training="weight_averaging = 2", epochs=1)
    refining = write_recipe(folder, "refining", sections='[initial]\nparser = "syntr.toml"\nfolds = 2\n', epochs=1)

    stages = list(dict.fromkeys(step.stage for step in run(refining, folder / "refined")))

    assert stages[:3] == [
        "initial parser, member 1 of 2",
        "initial parser, member 2 of 2",
        "fold 1 of 2, member 1 of 2",
    ]
    assert len(stages) == 7
    assert not list(folder.glob("refined/folds/*/members/*/model"))
