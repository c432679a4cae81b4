"""One training at a time in a folder."""

import pytest

from tests.support.trainings import CPU, SYNTR, run, weights, write_recipe
from treefine.errors import TreefineError
from treefine.training.prepare import prepare
from treefine.training.train import train


def test_a_second_training_is_kept_out_while_one_is_at_work_and_goes_on_after_it(tmp_path):
    recipe = write_recipe(tmp_path, "syntr", sections=SYNTR)
    whole = run(recipe, tmp_path / "whole")
    first = train(prepare(recipe), tmp_path / "out", device=CPU)
    next(first)

    with pytest.raises(TreefineError) as caught:
        run(recipe, tmp_path / "out")
    first.close()

    assert str(caught.value) == (
        f"{tmp_path}/out: Another training is at work in this folder. Wait for its end, or stop it; then go on with "
        "--resume."
    )
    assert len(run(recipe, tmp_path / "out")) == len(whole)
    assert weights(tmp_path / "out") == weights(tmp_path / "whole")


def test_an_error_of_the_training_itself_comes_through_as_it_is(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise FileNotFoundError(2, "No such file", "lost.conllu")
        yield

    monkeypatch.setattr("treefine.training.train.learn", fail)

    with pytest.raises(FileNotFoundError, match="lost.conllu"):
        run(write_recipe(tmp_path, "syntr", sections=SYNTR), tmp_path / "out")


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path):
    recipe = write_recipe(tmp_path, "syntr", sections=SYNTR)

    with pytest.raises(TreefineError, match="train.conllu/out: Not a directory.$"):
        run(recipe, tmp_path / "train.conllu" / "out")
