"""The folder of a training: what may go on in it, and what it is begun with."""

import json
from pathlib import Path

import pytest

from tests.support.tiny import sample
from tests.support.trainings import SYNTR, write_recipe
from treefine.errors import TreefineError
from treefine.training.epochs import FolderNames
from treefine.training.prepare import prepare
from treefine.training.train import begin_folder, check_folder
from treefine.treebank.conllu import write_treebank

OUT = Path("out")


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """A recipe that goes on from another; the training in `out` was begun."""
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


def test_the_recipe_of_a_start_and_its_treebanks_are_kept(recipe):
    kept = json.loads((OUT / "recipe.json").read_text())

    assert kept["recipe"]["encoder"]["folder"] == "base.toml"
    assert kept["start base"]["treebank"]["train"] == ["./other.conllu"]
    assert set(kept["checksums"]) == {"./train.conllu", "./dev.conllu", "./other.conllu"}


def test_the_same_recipe_may_go_on(recipe):
    check_folder(OUT, prepare(recipe), is_resumed=True)


def test_how_often_checkpoints_are_written_may_change(recipe):
    check_folder(OUT, prepare(recipe, ["training.checkpoint_minutes=5"]), is_resumed=True)


def test_another_recipe_of_a_start_cannot_go_on(recipe):
    Path("base.toml").write_text(Path("base.toml").read_text().replace("epochs = 3", "epochs = 4"))

    assert "which differs in start base.training.epochs (3, now 4). Take that one," in refusal(recipe)


def test_other_sentences_of_a_start_cannot_go_on(recipe):
    write_treebank(sample()[31:], "other.conllu")

    assert "which differs in the content of ./other.conllu. Take that one," in refusal(recipe)


@pytest.mark.parametrize(
    "name",
    [
        FolderNames.bases,
        FolderNames.initial,
        FolderNames.mix,
        FolderNames.folds,
        FolderNames.members,
        FolderNames.checkpoints,
    ],
)
def test_any_trace_of_a_training_is_known(recipe, name):
    (OUT / "recipe.json").unlink()
    (OUT / name).mkdir()

    assert refusal(recipe, is_resumed=False).startswith("out: There is a training in this folder.")


def test_another_share_or_other_parses_of_a_mix_cannot_go_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = [["train.conllu", "parsed-train.conllu"], ["dev.conllu", "parsed-dev.conllu"]]
    source = f'[initial.mix.other]\nparser = "files"\nshare = 0.5\ntrain = "{files[0][1]}"\ndev = "{files[1][1]}"\n'
    path = write_recipe(Path(), "mixed", sections=source)
    for gold, parses in files:
        Path(parses).write_bytes(Path(gold).read_bytes())
    begin_folder(OUT, prepare(path))
    check_folder(OUT, prepare(path), is_resumed=True)

    with pytest.raises(TreefineError, match=r"differs in initial.mix.other.share \(0.5, now 0.25\)"):
        check_folder(OUT, prepare(path, ["initial.mix.other.share=0.25"]), is_resumed=True)
    Path("parsed-dev.conllu").write_text(Path("dev.conllu").read_text().replace("\tnsubj\t", "\tobj\t"))
    assert "which differs in the content of parsed-dev.conllu. Take that one," in refusal(path)


def test_a_training_that_was_begun_before_there_were_mixes_may_go_on(recipe):
    kept = json.loads((OUT / "recipe.json").read_text())
    for values in (kept["recipe"], kept["start base"]):
        del values["initial"]["mix"]
    (OUT / "recipe.json").write_text(json.dumps(kept))

    check_folder(OUT, prepare(recipe), is_resumed=True)
