"""Results of `treefine reproduce` are kept as rows and trees, and the tested models of a treebank vote."""

import lzma
from dataclasses import asdict
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.accuracy import reproduction
from benchmarks.accuracy.reproduction import TREES_FOLDER, all_treebanks, kept_results, measure_reproduction
from benchmarks.accuracy.vote import measure_vote, voted_tree
from benchmarks.rows import read_rows
from tests.reproduction.test_report import add_result, gold_of
from treefine import Graph, TreefineError, evaluate
from treefine_paper.predictions import load_predictions
from treefine_paper.results import load_results, save_result


@pytest.fixture
def run(tmp_path):
    """Return the folder of a reproduction with three systems of Turkish, and the arguments that keep it."""
    results = tmp_path / "ud-2.3" / "tr_imst" / "results"  # the gold files are in the folder above it
    results.mkdir(parents=True)
    for system in ("syntr", "empty-rngtr", "syntr-rngtr"):
        for seed, split in ((1, "dev"), (2, "dev"), (2, "test")):
            save_result(add_result(results, "tr_imst", system, seed, split), results)
    places = ["--rows", str(tmp_path / "rows.jsonl"), "--predictions", str(tmp_path / "predictions")]
    return results.parent, places


def keep(run):
    folder, places = run
    measure_reproduction([str(folder), "--command", "treefine reproduce X", *places])


def test_kept_results_are_those_of_the_run(run, tmp_path, monkeypatch):
    monkeypatch.setattr(reproduction, "_FOLDERS", tmp_path)
    keep(run)

    kept = {each.name: each for each in kept_results(tmp_path / "rows.jsonl")}
    made = {each.name: each for each in load_results(run[0] / "results")}
    short = {"gold_file": ""}
    assert {name: asdict(each) | short for name, each in kept.items()} == {
        name: asdict(each) | short for name, each in made.items()
    }
    assert all("tmp" not in str(row["config"]) for row in read_rows("reproduction", path=tmp_path / "rows.jsonl"))


def test_the_trees_are_kept(run, tmp_path):
    keep(run)

    for result in load_results(run[0] / "results"):
        name = f"{result.name}.trees.xz"
        kept = load_predictions(tmp_path / "predictions" / TREES_FOLDER / name)
        assert kept.graphs() == load_predictions(run[0] / "results" / name).graphs()


def test_results_are_kept_once(run, tmp_path):
    keep(run)
    keep(run)

    assert len(read_rows("reproduction", path=tmp_path / "rows.jsonl")) == 9


def test_the_table_has_a_row_for_each_of_the_thirteen_treebanks(run, tmp_path, monkeypatch):
    keep(run)
    monkeypatch.setattr(reproduction, "kept_results", lambda: kept_results(tmp_path / "rows.jsonl"))
    monkeypatch.setattr(reproduction, "commands_of", lambda codes: {"tr_imst": "treefine reproduce X"})

    lines = all_treebanks().splitlines()

    (turkish,) = [line for line in lines if line.startswith("| tr_imst")]
    tested = [each for each in load_results(run[0] / "results") if each.split == "test"]
    assert len([line for line in lines if line.startswith("| ")]) == 2 + 13
    assert all(f"{100 * each.LAS:.2f}" in turkish for each in tested)
    assert "73.08" in turkish
    assert "The training files of ar_padt (Arabic), " in lines[-3]
    assert lines[-1] == "All rows: `treefine reproduce X`"


def test_a_vote_of_the_tested_seeds_is_measured_and_tested_once(run, tmp_path):
    keep(run)
    gold = gold_of("tr_imst", "test")
    path = tmp_path / "gold" / "tr_imst" / "test.conllu.xz"
    path.parent.mkdir(parents=True)
    path.write_bytes(lzma.compress("".join(each.to_conllu() for each in gold).encode()))
    arguments = ["tr_imst", "--split", "test", "--treebanks", str(tmp_path / "gold"), *run[1]]

    measure_vote(arguments)

    (row,) = read_rows("vote", path=tmp_path / "rows.jsonl")
    folder = tmp_path / "predictions" / TREES_FOLDER
    trees = [load_predictions(each).graphs() for each in sorted(folder.glob("*seed2-test.trees.xz"))]
    voted = [
        sentence.with_graph(voted_tree(each)) for sentence, each in zip(gold, zip(*trees, strict=True), strict=True)
    ]
    assert len(row["config"]["members"]) == 3
    assert row["result"]["LAS"] == round(evaluate(gold, voted)["LAS"].f1, 6)
    with pytest.raises(TreefineError, match="have voted on the test set before"):
        measure_vote(arguments)


def every_tree(n_words):
    for heads in product(range(n_words + 1), repeat=n_words):
        graph = Graph.of_words(heads, ["x"] * n_words)
        if graph.is_tree:
            yield heads


TREES = {n_words: list(every_tree(n_words)) for n_words in (1, 2, 3, 4)}


@given(st.data())
def test_no_tree_has_more_votes_than_the_voted_one(data):
    n_words = data.draw(st.integers(1, 4))
    labels = st.lists(st.sampled_from("ab"), min_size=n_words, max_size=n_words)
    trees = [
        Graph.of_words(data.draw(st.sampled_from(TREES[n_words])), data.draw(labels))
        for _ in range(data.draw(st.integers(1, 5)))
    ]

    found = voted_tree(trees)

    def votes(heads):
        return sum(tree.heads[word] == heads[word - 1] for tree in trees for word in range(1, n_words + 1))

    assert found.is_tree
    assert votes(found.heads[1:]) == max(map(votes, TREES[n_words]))
    if len(set(trees)) == 1:
        assert found == trees[0]
