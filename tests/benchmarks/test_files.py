"""The benchmark of the work outside the model, on a small treebank."""

import numpy as np
import pytest

from benchmarks.rows import read_rows
from benchmarks.speed import files
from tests.support.tiny import sample, tiny_parser
from treefine import Graph, write_treebank
from treefine.fast.packed import Packed


@pytest.fixture
def options(tmp_path, monkeypatch):
    (tmp_path / "en_ewt").mkdir()
    write_treebank(sample(20), tmp_path / "en_ewt" / "test.conllu.xz")
    tiny_parser().save(tmp_path / "model")
    monkeypatch.setattr(files, "TREEBANKS", tmp_path)
    return ["--model", str(tmp_path / "model"), "--rows", str(tmp_path / "rows.jsonl"), "--copies", "2"]


def test_a_row_has_the_speed_by_number_of_workers_and_of_each_part(options, tmp_path):
    files.measure_around([*options, "--workers", "0", "1"])

    (row,) = read_rows("around", path=tmp_path / "rows.jsonl")
    assert row["config"]["sentences"] == 40
    assert row["config"]["words"] == 2 * sum(map(len, sample(20)))
    assert set(row["result"]["workers"]) == {"0", "1"}
    assert set(row["result"]["microseconds_per_word"]) == {"read", "tokenise", "fill in", "write"}


def test_no_speed_is_reported_if_text_is_lost(options, tmp_path, monkeypatch):
    monkeypatch.setattr(files.FileParser, "texts", lambda *given: iter(["too little"]))

    with pytest.raises(AssertionError, match="some text was not written"):
        files.measure_around([*options, "--workers", "0"])

    assert not (tmp_path / "rows.jsonl").exists()


def test_the_stand_in_engine_gives_trees():
    lengths = np.array([3, 1, 2], np.int32)
    packed = Packed(*(np.zeros(6, np.int32) for _ in range(2)), lengths, *(np.zeros(6, np.int32) for _ in range(2)))

    heads = files._chain_trees(packed, 2).heads.tolist()

    assert heads == [0, 1, 2, 0, 0, 1]
    assert Graph.of_words(heads[:3], ["x"] * 3).is_tree
