"""Early stopping equals parsers that stop early; precisions are measured."""

import pytest

import benchmarks.speed.trade_offs as module
from benchmarks.accuracy.decisions import measure_decisions
from benchmarks.accuracy.model_rows import TAGGED, WORDS, without_tags
from benchmarks.rows import read_rows
from benchmarks.speed.trade_offs import measure_precision, measure_stopping, right_words, stopping
from tests.support.tiny import sample, tiny_model
from treefine import Graph, Parser, write_treebank
from treefine.config import TagSettings

LIMITS = (1.0, 0.3, 0.2, 0.1, 0.05, 0.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopping")
    (folder / "en_ewt").mkdir()
    write_treebank(sample(14), folder / "en_ewt" / "dev.conllu.xz")
    model = tiny_model(tags=TagSettings("predicted"), scale=1.5)
    Parser(model, device="cpu", max_steps=3).save(folder / "tiny")
    return folder


def options(folder):
    paths = ["--model", folder / "tiny", "--treebanks", folder, "--rows", folder / "rows.jsonl", "--device", "cpu"]
    return list(map(str, paths))


@pytest.fixture(scope="module")
def row(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LIMITS", LIMITS)
        measure_stopping([*options(folder), "--limit", "12"])
    return read_rows("stopping", path=folder / "rows.jsonl")[0]


@pytest.mark.parametrize("given", [WORDS, TAGGED])
def test_the_result_of_a_limit_is_that_of_a_parser_with_it(row, folder, given):
    sentences = sample(12)
    read = sentences if given == TAGGED else [without_tags(each) for each in sentences]
    parser = Parser.from_pretrained(folder / "tiny", device="cpu", tags="given" if given == TAGGED else None)
    full = parser.parse(read)

    for each in row["result"][given]:
        parses = list(parser.using(stop_above=each["stop_above"]).stream(read))
        right = sum(right_words(one.tree, gold.graph) for one, gold in zip(parses, sentences, strict=True))
        assert each["passes"] == pytest.approx(sum(len(one.steps) for one in parses) / 12, abs=1e-4)
        assert each["LAS"] == pytest.approx(right / sum(map(len, sentences)), abs=1e-6)
        others = sum(one.tree != whole.tree for one, whole in zip(parses, full, strict=True))
        assert each["other_trees"] == pytest.approx(others / 12, abs=1e-6)
    assert len({each["passes"] for each in row["result"][given]}) > 2


def test_passes_fall_with_the_limit(row):
    for found in row["result"].values():
        pieces = [each["passes_by_pieces"] for each in found]
        assert pieces == sorted(pieces, reverse=True)
        assert pieces[-1] == 1


def test_the_table_shows_each_limit(row, monkeypatch):
    monkeypatch.setattr(module, "read_rows", lambda name: [row])

    text = stopping()

    assert f"Input: {WORDS}.\n" in text
    assert f"Input: {TAGGED}.\n" in text
    assert text.count("\n| 0.05 |") == 2
    assert "12 sentences of en_ewt dev, model `tiny`, T = 4, float32." in text


def test_a_word_is_right_with_its_head_and_main_type():
    gold = Graph.of_words([0, 1, 1], ["root", "nsubj:pass", "obj"])

    assert right_words(Graph.of_words([0, 1, 2], ["root", "nsubj", "obj"]), gold) == 2


@pytest.mark.parametrize("measure", [measure_stopping, measure_decisions])
def test_only_dev_is_allowed(measure, capsys):
    with pytest.raises(SystemExit):
        measure(["--split", "test"])

    assert "only dev is allowed" in capsys.readouterr().err


def test_a_row_has_the_loss_and_speed_of_each_precision(folder, capsys):
    measure_precision([*options(folder), "--limit", "8", "--rounds", "1"])

    (row,) = read_rows("precision", path=folder / "rows.jsonl")
    assert (row["config"]["sentences"], row["config"]["split"], row["config"]["device"]) == (8, "dev", "cpu")
    assert row["result"].keys() == {WORDS, TAGGED}
    for found in row["result"].values():
        assert found.keys() == {"float32", "int8"}
        exact, rounded = found["float32"], found["int8"]
        assert (exact["LAS_lost"], exact["sentences_that_differ"], exact["times_as_fast"]) == (0, 0, 1)
        assert abs(rounded["LAS_lost"] - (exact["LAS"] - rounded["LAS"])) < 1e-5
        assert rounded["sentences_per_second"] > 0
    assert "precision:" in capsys.readouterr().out
