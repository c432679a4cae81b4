"""One training at a time in a folder."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from tests.support.trainings import CPU, SYNTR, run, weights, write_recipe
from treefine.errors import TreefineError
from treefine.training.prepare import prepare
from treefine.training.train import locked, train


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


def test_a_training_works_on_a_file_system_without_locks(tmp_path, monkeypatch):
    def fail(_, *, blocking):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("treefine.training.train.lock_descriptor", fail)

    assert run(write_recipe(tmp_path, "syntr", sections=SYNTR, epochs=1), tmp_path / "out")


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    hold = "import sys, time, pathlib; from treefine.training.train import locked\n"
    hold += "with locked(pathlib.Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", hold, tmp_path], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(TreefineError, match="Another training is at work"), locked(tmp_path):
            pass

        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()

        with locked(tmp_path):
            assert (tmp_path / ".lock").exists()
