"""The benchmark of segmenters, from a small treebank to its rows and tables."""

import pytest

from benchmarks.accuracy import segmenter
from benchmarks.accuracy.segmenter import measure_segmenter
from benchmarks.rows import read_rows
from tests.training.test_segmenter import easy_treebank
from treefine import TreefineError, write_treebank

SMALL = ["epochs=1", "window=100", "network.char_hidden=6", "network.run_hidden=6", "network.n_hashes=20"]


@pytest.fixture
def options(tmp_path):
    """Write the treebank `tiny` and return the options that all commands share."""
    (tmp_path / "tiny").mkdir()
    for seed, split in enumerate(("train", "dev", "test")):
        write_treebank(easy_treebank(30, seed), tmp_path / "tiny" / f"{split}.conllu.xz")
    return ["tiny", "--treebanks", str(tmp_path), "--rows", str(tmp_path / "rows.jsonl"), "--device", "cpu"]


@pytest.fixture
def folder(options, tmp_path):
    """Return a trained segmenter."""
    changes = [part for change in SMALL for part in ("--set", change)]
    measure_segmenter([*options, *changes, "--output", str(tmp_path / "runs")])
    (found,) = (tmp_path / "runs").iterdir()
    return found


def rows_of(tmp_path):
    return read_rows("segmenter", path=tmp_path / "rows.jsonl")


def test_a_training_writes_a_row_of_dev_and_saves_the_segmenter(folder, tmp_path):
    (row,) = rows_of(tmp_path)

    assert folder.name.startswith("tiny-epochs-1-")
    assert (row["config"]["treebank"], row["config"]["split"], row["config"]["changes"]) == ("tiny", "dev", SMALL)
    assert row["config"]["settings"]["network"]["run_hidden"] == 6
    assert row["result"]["best_epoch"] == 1
    assert all(0 <= row["result"][name] <= 1 for name in ("Tokens", "Sentences", "Words"))


def test_a_folder_is_measured_on_test_only_once(folder, options, tmp_path):
    command = [*options, "--measure", str(folder), "--split", "test"]
    measure_segmenter(command)

    with pytest.raises(TreefineError, match=r"was tested on tiny by segmenter on .*\. A model is tested only once\."):
        measure_segmenter(command)

    assert [row["config"]["split"] for row in rows_of(tmp_path)] == ["dev", "test"]
    assert rows_of(tmp_path)[1]["config"]["model"] == folder.name


def test_a_training_is_never_measured_on_test(options, tmp_path):
    with pytest.raises(TreefineError, match=r"^A training is measured on dev\. Measure its folder on test"):
        measure_segmenter([*options, "--split", "test"])

    assert not (tmp_path / "rows.jsonl").exists()


def test_the_tables_show_trained_and_saved_segmenters(folder, options, tmp_path, monkeypatch):
    measure_segmenter([*options, "--measure", str(folder)])
    monkeypatch.setattr(segmenter, "read_rows", lambda name: read_rows(name, path=tmp_path / "rows.jsonl"))
    trained, saved = (
        [f"{100 * row['result'][name]:.2f}" for name in ("Tokens", "Sentences", "Words")] for row in rows_of(tmp_path)
    )
    changes = ", ".join(SMALL).replace("network.", "")

    assert segmenter.trained_segmenters().splitlines()[2] == f"| tiny | {changes} | 1 | {' | '.join(trained)} |"
    assert (
        segmenter.saved_segmenters().splitlines()[2].startswith(f"| tiny | dev | {folder.name} | {' | '.join(saved)}")
    )
