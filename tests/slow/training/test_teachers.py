"""Whole trainings with teachers, which are trained first."""

import pytest

from tests.support.tiny import sample
from tests.support.trainings import run, weights, write_recipe
from treefine.training.distil import N_KEPT, Targets
from treefine.treebank.conllu import read_treebank, write_treebank
from treefine.treebank.sentence import Sentence

SECTIONS = '[tags]\ncolumns = ["upos"]\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("teachers")


def write_student(folder, name="student", teacher='recipes = "teacher.toml"\nmembers = 2\n', **options):
    """Write a recipe whose two teachers are trained first, and an unlabelled treebank and text."""
    write_recipe(folder, "teacher", sections=SECTIONS, epochs=1)
    write_treebank([Sentence.of_words(each.forms) for each in sample()[50:56]], folder / "texts.conllu")
    sections = f'{SECTIONS}[teacher]\n{teacher}texts = ["{folder}/texts.conllu"]\nsentences = 5\n'
    return write_recipe(folder, name, sections=sections, epochs=2, **options)


@pytest.fixture(scope="module")
def whole(folder):
    """Return the folder of a training, and its progress reports."""
    return folder / "whole", run(write_student(folder), folder / "whole")


def test_a_model_learns_from_two_teachers_that_are_trained_first(folder, whole):
    output, steps = whole

    assert list(dict.fromkeys(step.stage for step in steps)) == ["teacher 1 of 2", "teacher 2 of 2", "targets", ""]
    first, second = (weights(output / "teachers" / "teacher" / number) for number in "12")
    assert first != second
    parsed = list(read_treebank(output / "teachers" / "unlabelled.conllu.gz"))
    assert len(parsed) == 5
    targets = Targets.load(
        output / "teachers" / "targets.safetensors", [*read_treebank(folder / "train.conllu"), *parsed]
    )
    assert targets.shares.tolist() == [0.5] * 20 + [1.0] * 5
    assert targets.ids.shape[1:] == (4, 3, N_KEPT)
    card = (output / "model" / "README.md").read_text()
    assert "It learned from the probabilities of 2 teachers (teacher)." in card
    assert f"5 sentences of {folder}/texts.conllu had no trees; the teachers parsed them." in card
    assert "The recipe of the teacher teacher:" in card
    assert f"  {folder}/texts.conllu" in card


def test_trained_models_are_teachers_too_and_members_of_weight_averaging_share_the_targets(folder, whole):
    models = [str(whole[0] / "teachers" / "teacher" / number / "model") for number in "12"]
    recipe = write_student(
        folder, "averaged", f"models = {models}\n".replace("'", '"'), training="weight_averaging = 2"
    )

    stages = dict.fromkeys(step.stage for step in run(recipe, folder / "averaged"))

    assert list(stages) == ["targets", "member 1 of 2", "member 2 of 2"]
    files = [folder / each / "teachers" / "targets.safetensors" for each in ("whole", "averaged")]
    assert files[0].read_bytes() == files[1].read_bytes()
