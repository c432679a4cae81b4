"""The output folder: which training can start or resume there, and its lock."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tiny import sample
from tests.support.trainings import CPU, SYNTR, run, weights, write_recipe
from treefine.errors import TreefineError
from treefine.training.folder import begin_folder, check_folder, locked
from treefine.training.prepare import prepare
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
    assert kept["start base"]["treebank"]["train"] == ["./other.conllu"]
    assert set(kept["checksums"]) == {"./train.conllu", "./dev.conllu", "./other.conllu"}


@pytest.mark.parametrize("changes", [[], ["training.checkpoint_minutes=5"]])
def test_the_same_recipe_may_be_resumed_and_the_time_between_checkpoints_may_change(recipe, changes):
    before = (OUT / "recipe.json").read_bytes()

    check_folder(OUT, prepared := prepare(recipe, changes), is_resumed=True)
    begin_folder(OUT, prepared)

    assert (OUT / "recipe.json").read_bytes() == before


@pytest.mark.parametrize("name", ["start", "initial", "mix", "folds", "members", "checkpoints"])
def test_any_trace_of_a_training_is_recognised(recipe, name):
    (OUT / "recipe.json").unlink()
    (OUT / name).mkdir()

    assert refusal(recipe, is_resumed=False).startswith("out: The folder contains a training run.")


def test_a_mix_with_a_different_share_or_different_parses_cannot_be_resumed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = [["train.conllu", "parsed-train.conllu"], ["dev.conllu", "parsed-dev.conllu"]]
    source = f'[initial.mix.other]\nparser = "files"\nshare = 0.5\ntrain = "{files[0][1]}"\ndev = "{files[1][1]}"\n'
    path = write_recipe(Path(), "mixed", sections=source)
    for gold, parses in files:
        Path(parses).write_bytes(Path(gold).read_bytes())
    begin_folder(OUT, prepare(path))
    check_folder(OUT, prepare(path), is_resumed=True)

    with pytest.raises(TreefineError, match=r"initial.mix.other.share was 0.5, not 0.25"):
        check_folder(OUT, prepare(path, ["initial.mix.other.share=0.25"]), is_resumed=True)
    Path("parsed-dev.conllu").write_text(Path("dev.conllu").read_text().replace("\tnsubj\t", "\tobj\t"))
    assert "a different recipe: the content of parsed-dev.conllu has changed. Use the same" in refusal(path)


def test_a_second_training_waits_for_the_lock_of_the_first(tmp_path):
    recipe = write_recipe(tmp_path, "syntr", sections=SYNTR)
    whole = run(recipe, tmp_path / "whole")
    first = train(prepare(recipe), tmp_path / "out", device=CPU)
    next(first)

    with pytest.raises(TreefineError) as caught:
        run(recipe, tmp_path / "out")
    first.close()

    assert str(caught.value) == (
        f"{tmp_path}/out: Another training is running in this folder. Wait until it ends or stop it, then "
        "continue with --resume."
    )
    assert len(run(recipe, tmp_path / "out")) == len(whole)
    assert weights(tmp_path / "out") == weights(tmp_path / "whole")


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    hold = "import sys, pathlib; from treefine.training.train import locked\n"
    hold += "with locked(pathlib.Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", hold, tmp_path], text=True, **pipes) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(TreefineError, match="Another training is running"), locked(tmp_path):
            pass

        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()

        with locked(tmp_path):
            assert (tmp_path / ".lock").exists()
