"""The commands train and new-recipe; errors are reported before training starts, and then nothing is written."""

import io
import json
import re
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.support.commands import invoke
from tests.support.trainings import SYNTR, write_recipe
from treefine.cli.train import show
from treefine.parsing.parser import Parser
from treefine.training.dev import Accuracy
from treefine.training.epochs import Progress
from treefine.training.folder import TrainingState
from treefine.training.recipe import EMPTY, read_recipe

run = partial(invoke, "--device", "cpu", command="train")
OUT = ("--output", "out")


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """Write recipes, their treebanks and the model that they fine-tune to the working folder."""
    monkeypatch.chdir(tmp_path)
    write_recipe(Path(), "syntr", sections=SYNTR, epochs=2)
    write_recipe(Path(), "rngtr", sections='[initial]\nparser = "syntr.toml"\n[refine]\nmax_steps = 2\n', epochs=1)


def changes(*settings):
    return [part for setting in settings for part in ("--set", setting)]


def training_errors(*arguments, output="out"):
    """Run a training that must fail without changing the folder, and return its error messages."""
    before = sorted(Path().rglob("*"))
    result = run(*arguments, "--output", output, code=1)
    assert sorted(Path().rglob("*")) == before
    assert result.stdout == ""
    return [line.removeprefix("treefine: ") for line in result.stderr.splitlines()]


# Training


def test_each_epoch_prints_a_line_with_dev_scores_and_all_settings_are_saved():
    result = run("syntr.toml", *OUT, *changes("training.seed=3", "title=Small one"))

    number = r"\d+\.\d\d"
    scores = rf"loss \d+\.\d{{3}}, LAS {number}, UAS {number}, best LAS {number}, "
    scores += " ".join(f"{column} {number}" for column in ("UPOS", "XPOS", "FEATS", "LEMMA"))
    *_, first, last = result.stderr.splitlines()
    assert re.fullmatch(rf"epoch 1 of 2, 0:00:\d\d left, {scores}", first)
    assert re.fullmatch(rf"epoch 2 of 2, 0:00:00 left, {scores}", last)
    assert result.stdout == "The model is in out/model.\n"
    assert Parser.from_pretrained("out/model", device="cpu").parse(["Dogs", "bark"]).tree.is_tree
    kept = json.loads(Path("out/recipe.json").read_text())
    assert (kept["recipe"]["training"]["seed"], kept["recipe"]["title"]) == (3, "Small one")
    assert kept["recipe"]["optimiser"]["eps"] == 1e-5  # saved because defaults may change
    assert [Path(name).name for name in kept["checksums"]] == ["train.conllu", "dev.conllu"]


def test_a_dry_run_prints_the_settings_of_all_parsers_and_writes_nothing():
    Path("base.toml").write_text(Path("syntr.toml").read_text())
    before = sorted(Path().rglob("*"))

    result = run("rngtr.toml", "--dry-run", *changes("encoder.fine_tune_from=base.toml", "initial.training.epochs=7"))

    shown = json.loads(result.stdout)
    assert list(shown) == ["recipe", "initial parser", "base model base"]
    assert (shown["recipe"]["training"]["epochs"], shown["initial parser"]["training"]["epochs"]) == (1, 7)
    assert sorted(Path().rglob("*")) == before


def test_training_from_a_model_needs_no_recipe():
    files = ("--train", "train.conllu", "--dev", "dev.conllu")

    shown = json.loads(run("--from", "./encoder", *files, "--dry-run", *changes("training.seed=2")).stdout)["recipe"]

    assert shown["encoder"]["fine_tune_from"] == "./encoder"
    assert (shown["treebank"]["train"], shown["treebank"]["dev"]) == (["train.conllu"], ["dev.conllu"])
    assert (shown["training"]["epochs"], shown["training"]["batch_pieces"], shown["training"]["seed"]) == (30, 1000, 2)


# Progress on a terminal


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_the_line_of_the_running_epoch_is_replaced_by_its_scores(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr("sys.stderr", Terminal())
    accuracy = Accuracy((0.7, 0.75), 0.9, 0.74)
    state = TrainingState(epoch=1, best_epoch=1, best=Accuracy((), 0.0, 0.75))
    running = Progress("member 1 of 3", 1, 4, 0.125, 0.5, None, TrainingState(), 60.0)

    show([running, Progress("member 1 of 3", 1, 4, 0.25, 0.5, accuracy, state, 60.0)])

    replaced, line = sys.stderr.getvalue().split("\r")
    assert replaced == "member 1 of 3, epoch 1 of 4, \x1b[K"
    place, scores = "epoch 1 of 4, 0:03:00 left", "loss 0.500, LAS 74.00, UAS 90.00, best LAS 75.00"
    assert line == f"member 1 of 3, {place}, {scores}, G1 70.00 G2 75.00\n"


# Resuming


def test_resume_needs_the_same_recipe_and_the_same_sentences_and_keeps_a_finished_training():
    title = changes("title=Müller")
    run("syntr.toml", *OUT, *title)
    before = {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()}

    assert run("syntr.toml", *OUT, "--resume", *title).stdout == "The model is in out/model.\n"
    assert {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()} == before
    assert training_errors("syntr.toml", *title) == [
        "out: The folder contains a training run. Continue it with --resume, or choose another folder."
    ]
    assert training_errors("syntr.toml", "--resume", *changes("title=Łódź", "optimiser.betas=[0.9, 0.98]")) == [
        "out: The training in this folder has a different recipe. These settings or files differ: optimiser.betas, "
        "title. Use the same recipe, or choose another folder."
    ]
    Path("out/recipe.json").write_text("{")
    (damaged,) = training_errors("syntr.toml", "--resume")
    assert damaged.startswith("out/recipe.json: The recipe of this training cannot be read (")


def test_a_stopped_training_says_how_to_continue(monkeypatch):
    def stop(steps):
        next(steps)
        raise KeyboardInterrupt

    monkeypatch.setattr("treefine.cli.train.show", stop)

    result = run("syntr.toml", *OUT, code=130)

    assert "treefine: Stopped. Continue with the same command and --resume: from the last" in result.stderr


# Errors


def test_all_errors_of_a_recipe_are_reported_before_training():
    assert training_errors("syntr.toml", output="dev.conllu") == ["dev.conllu: Not a directory"]
    assert training_errors("syntr.toml", *changes("training.epohcs=5", "refin.max_steps=1")) == [
        "syntr.toml: refin is unknown; did you mean refine?",
        "syntr.toml: [training] epohcs is unknown; did you mean epochs?",
    ]
    assert training_errors("syntr.toml", *changes("initial.training.epochs=1")) == [
        "--set initial.training.epochs=1: [initial] does not name a recipe as parser.",
    ]


@pytest.mark.parametrize(
    "arguments",
    [[], ["syntr.toml", "--from", "multi"], ["--from", "multi"], ["syntr.toml", "--train", "train.conllu"]],
)
def test_either_a_recipe_or_a_model_with_its_treebanks_is_needed(arguments):
    assert training_errors(*arguments)[0].startswith("Name either a recipe, or a model with --from and treebanks")


# new-recipe


def test_new_recipe_writes_a_template_to_a_file_or_to_standard_output():
    result = invoke("new-recipe", "my.toml", "--kind", "fine-tune")

    assert result.stdout == "Wrote my.toml. Edit it, then check it with treefine train my.toml --dry-run\n"
    assert read_recipe("my.toml").encoder.fine_tune_from == "multi"
    assert f'parser = "{EMPTY}"' in invoke("new-recipe", "-").stdout
