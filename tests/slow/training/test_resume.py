"""A training that is killed and resumed gives bit for bit the same result as an uninterrupted one."""

import subprocess
import sys

from tests.support.tiny import write_encoder
from tests.support.trainings import SYNTR, metrics, run, weights, write_recipe, write_recipe_with_base


def syntr_that_is_seldom_measured_and_stops_early(folder):
    training = "patience = 1\ndev_every = 2"
    return write_recipe(folder, "syntr", sections=SYNTR, epochs=30, training=training, optimiser="ema = 0.8")


def rngtr_with_a_cut_word_table(folder):
    (folder / "bert").mkdir()
    write_encoder(folder / "bert", "bert")
    sections = 'pieces = "cut"\nn_frequent = 10\n[refine]\nmax_steps = 2\n'
    return write_recipe(folder, "cut", sections=sections, encoder="bert", epochs=4)


def syntr_averaged_over_members(folder):
    return write_recipe(folder, "averaged", sections=SYNTR, epochs=2, training="weight_averaging = 2")


def rngtr_over_a_model(folder):
    initial = f'[initial]\nparser = "{folder}/encoder"\n'
    return write_recipe(folder, "refining", sections=initial, optimiser="ema = 0.8")


def rngtr_with_teachers(folder):
    write_recipe(folder, "teacher", epochs=1)
    teacher = f'[teacher]\nrecipes = "teacher.toml"\nmembers = 2\ntexts = "{folder}/train.conllu"\nsentences = 5\n'
    return write_recipe(folder, "taught", sections=teacher, epochs=2)


KINDS = [
    syntr_that_is_seldom_measured_and_stops_early,
    rngtr_over_a_model,
    write_recipe_with_base,  # of RNGTr over folds
    rngtr_with_a_cut_word_table,
    syntr_averaged_over_members,
    rngtr_with_teachers,
]


def test_a_training_killed_at_any_moment_resumes_to_the_same_result(tmp_path):
    """Run all kinds of trainings in one process, because starting it takes longer than most of them."""
    folders = {kind: tmp_path / kind.__name__ for kind in KINDS}
    recipes = []
    for kind, folder in folders.items():
        folder.mkdir()
        recipes.append(kind(folder))
        run(recipes[-1], folder / "whole")

    command = [sys.executable, "-W", "error", "-m", "tests.support.trainings", "1", *recipes]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    for killed, folder in zip(done.stdout.splitlines(), folders.values(), strict=True):
        assert int(killed) > 0, folder  # on a fast machine some finish first
        assert weights(folder / "killed") == weights(folder / "whole")
        assert metrics(folder / "killed") == metrics(folder / "whole")
        assert files(folder / "killed") == files(folder / "whole")  # no incomplete files are left


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if "tfevents" not in path.name}
