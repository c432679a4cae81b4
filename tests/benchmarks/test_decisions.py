"""The measurements of decisions and of the k best trees, on a tiny model."""

import random

import pytest

import benchmarks.accuracy.decisions as module
from benchmarks.accuracy.decisions import decisions_of, measure_decisions, right_others
from benchmarks.rows import read_rows
from tests.support.tiny import sample, tiny_model
from treefine import Constraints, Graph, Parser, Sentence, write_treebank


@pytest.fixture(scope="module")
def row(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decisions")
    (folder / "en_ewt").mkdir()
    write_treebank(sample(12), folder / "en_ewt" / "dev.conllu.xz")
    Parser(tiny_model(), device="cpu", max_steps=2).save(folder / "tiny")
    paths = ["--model", folder / "tiny", "--treebanks", folder, "--rows", folder / "rows.jsonl", "--device", "cpu"]
    measure_decisions(list(map(str, paths)))
    return read_rows("decisions", path=folder / "rows.jsonl")[0]


def test_more_trees_contain_the_right_one_more_often(row):
    within, said = row["result"]["ranked"]["right_within"], row["result"]["ranked"]["probability_within"]

    assert within == sorted(within)
    assert said == sorted(said)
    assert said[-1] <= 1.000001
    assert len(within) == len(said) == row["config"]["k"]


def test_more_decisions_leave_fewer_words(row):
    kept = row["result"]["kept"]

    assert [each["share"] for each in kept] == list(module.SHARES)
    assert kept[0]["words"] > kept[1]["words"] > kept[2]["words"]


def test_only_words_without_a_decision_are_counted():
    gold = Sentence.of_words(["a", "b", "c"]).with_graph(Graph.of_words([0, 1, 1], ["root", "nsubj:pass", "obj"]))
    parsed = Graph.of_words([0, 1, 2], ["root", "nsubj", "obj"])

    assert right_others([parsed], [gold], [Constraints()]) == 2
    assert right_others([parsed], [gold], [Constraints(heads={1: 0})]) == 1


def test_the_share_can_decide_all_or_no_words():
    sentence = sample(1)[0]

    assert not decisions_of(sentence, 0.0, random.Random(1))
    every = decisions_of(sentence, 1.0, random.Random(1))
    assert tuple(every.heads.values()) == sentence.heads
    assert tuple(every.labels.values()) == sentence.labels


def test_the_table_shows_the_row(row, monkeypatch):
    monkeypatch.setattr(module, "read_rows", lambda name: [row])

    text = module.decisions()

    assert f"| 30% | {100 * row['result']['kept'][1]['LAS']:.2f} |" in text
    assert f"{100 * row['result']['ranked']['right_within'][9]:.1f}% |" in text


def test_without_a_row_the_table_says_so(monkeypatch):
    monkeypatch.setattr(module, "read_rows", lambda name: [])

    assert module.decisions() == "Not measured yet."
