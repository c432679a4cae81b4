"""The benchmark of numbers with fewer bits."""

import json
import lzma

from benchmarks.accuracy.model_rows import TAGGED, WORDS
from benchmarks.speed.trade_offs import measure_precision
from tests.support.tiny import SAMPLE, tiny_model
from treefine import Parser
from treefine.config import TagSettings


def test_a_row_tells_for_each_precision_what_it_loses_and_how_fast_it_is(tmp_path, capsys):
    Parser(tiny_model(tags=TagSettings(source="predicted")), device="cpu").save(tmp_path / "model")
    (tmp_path / "treebanks" / "en_ewt").mkdir(parents=True)
    (tmp_path / "treebanks" / "en_ewt" / "dev.conllu.xz").write_bytes(lzma.compress(SAMPLE.read_bytes()))
    folders = ["--model", str(tmp_path / "model"), "--treebanks", str(tmp_path / "treebanks")]

    measure_precision([*folders, "--limit", "8", "--rounds", "1", "--device", "cpu", "--rows", str(tmp_path / "rows")])

    row = json.loads((tmp_path / "rows").read_text())
    assert (row["config"]["sentences"], row["config"]["split"], row["config"]["device"]) == (8, "dev", "cpu")
    assert row["result"].keys() == {WORDS, TAGGED}
    for found in row["result"].values():
        assert found.keys() == {"float32", "int8"}
        exact, rounded = found["float32"], found["int8"]
        assert (exact["LAS_lost"], exact["sentences_that_differ"], exact["times_as_fast"]) == (0, 0, 1)
        assert abs(rounded["LAS_lost"] - (exact["LAS"] - rounded["LAS"])) < 1e-5
        assert rounded["sentences_per_second"] > 0
    assert "precision:" in capsys.readouterr().out
