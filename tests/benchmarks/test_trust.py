"""The measurement of trust in other parsers, on a tiny model."""

import pytest

import benchmarks.accuracy.trust as module
from benchmarks.accuracy.trust import measure_trust, trust_of
from benchmarks.rows import read_rows
from tests.support.tiny import short, tiny_model
from treefine import Parser, write_treebank
from treefine.config import TagSettings
from treefine_paper.predictions import predictions_of, save_predictions


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder, gold = tmp_path_factory.mktemp("trust"), short(6)
    (folder / "en_ewt").mkdir()
    write_treebank(gold, folder / "en_ewt" / "dev.conllu.xz")
    Parser(tiny_model(tags=TagSettings("predicted", ("upos",))), device="cpu", max_steps=2).save(folder / "tiny")
    for name, (file, t) in module.SOURCES.items():
        trees = [each.graph for each in gold] if name == "spaCy" else list(_trees(gold, len(name)))
        save_predictions(predictions_of(gold, [trees], first=t or 0), folder / file)
    paths = {"model": folder / "tiny", "treebanks": folder, "rows": folder / "rows.jsonl", "predictions": folder}
    measure_trust([*(f"--{name}={path}" for name, path in paths.items()), "--device=cpu", "--tags=given"])
    return read_rows("trust", path=folder / "rows.jsonl")


def _trees(gold, seed):
    return (each.graph for each in Parser(tiny_model(seed=seed), device="cpu").stream_trees(gold))


def test_there_is_a_row_for_each_parser_and_each_pair(rows):
    assert [row["config"]["parsers"] for row in rows] == [
        *([name] for name in module.SOURCES),
        *(list(pair) for pair in module.PAIRS),
    ]


def test_a_row_has_the_fixed_and_the_estimated_weights(rows):
    result = rows[3]["result"]

    assert result["before"] == 1.0
    assert [*result["by_weight"]] == [str(each) for each in module.WEIGHTS]
    assert len(result["auto"]["weights"]) == 1
    assert len(rows[-1]["result"]["auto"]["weights"]) == 2


def test_the_table_has_a_line_for_each_row(rows):
    text = trust_of(rows)

    assert "| spaCy | given | 100.00 |" in text
    assert "| spaCy and UDPipe | given |" in text
    assert trust_of([]) == "Not measured yet."
