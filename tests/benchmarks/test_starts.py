"""Several starts: which final tree is chosen, and what the row says."""

import json
import math

import pytest

from benchmarks.accuracy.starts import Final, log_probability, measure_starts, most_agreed, most_probable, several
from tests.support.tiny import sample, tiny_parser
from treefine import Graph, write_treebank


def final(heads, log_probability=0.0):
    return Final(Graph.of_words(heads, ["root" if head == 0 else "dep" for head in heads]), log_probability, 2)


def test_the_most_probable_tree_is_chosen():
    found = [final([0, 1], -2.0), final([2, 0], -1.0)]

    assert most_probable(found) is found[1]


def test_the_tree_that_most_others_agree_with_is_chosen():
    found = [final([0, 1, 1]), final([2, 0, 2]), final([2, 0, 1])]

    assert most_agreed(found) is found[2]


def test_the_probability_of_a_tree_is_that_of_its_arcs_and_labels():
    step = tiny_parser(max_steps=2).steps(sample()[3])[-1]
    graph = step.graph

    found = sum(
        math.log(step.arc_probabilities[word, step.tree.heads[word]])
        + (
            math.log(step.label_probabilities[word, step.labels.index(step.tree.labels[word])])
            if graph.heads[word] == step.tree.heads[word]
            else 0
        )
        for word in range(1, len(step.tree.heads))
    )
    assert log_probability(step) == pytest.approx(found, rel=1e-4)


def test_each_start_gives_a_final_tree_and_the_first_is_from_an_empty_graph():
    parser, words = tiny_parser(max_steps=3), sample()[:3]

    found = several(parser, words, k=2)

    assert [len(each) for each in found] == [3, 3, 3]
    assert [each[0].tree for each in found] == [
        steps[-1].tree for _, steps in parser.using(max_steps=10).stream_steps(words)
    ]


def test_a_row_compares_each_choice_with_one_start(tmp_path):
    (tmp_path / "tiny").mkdir()
    write_treebank(sample()[:4], tmp_path / "tiny" / "dev.conllu.xz")
    tiny_parser(max_steps=2).save(tmp_path / "model")
    places = ["--treebanks", tmp_path, "--treebank", "tiny", "--rows", tmp_path / "rows.jsonl"]

    measure_starts(["--model", str(tmp_path / "model"), "--device", "cpu", "--k", "2", *map(str, places)])

    (line,) = (tmp_path / "rows.jsonl").read_text().splitlines()
    result = json.loads(line)["result"]
    assert result["best by gold"]["LAS"] >= max(result[name]["LAS"] for name in ("most probable", "most agreed"))
    plain = result["one start"]["LAS"]
    assert result["most agreed"]["difference"] == pytest.approx(result["most agreed"]["LAS"] - plain, abs=2e-6)
    assert result["passes_per_sentence_of_several"] > result["passes_per_sentence"] > 1
