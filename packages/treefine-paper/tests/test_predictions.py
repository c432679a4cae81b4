"""Predictions are saved in a small file without the words."""

import lzma
import random

import pytest

from tests.support.tiny import sample
from treefine import Graph, TreefineError
from treefine_paper.predictions import load_predictions, predictions_of, save_predictions, treebank_of


def worse(graph, rng, share=0.2):
    """Return the graph with some random new heads and labels."""
    n_words = len(graph)
    heads, labels = list(graph.heads[1:]), list(graph.labels[1:])
    for word in range(n_words):
        if rng.random() < share:
            heads[word] = rng.choice([head for head in range(n_words + 1) if head != word + 1])
            labels[word] = rng.choice(["obj", "nmod:poss", "çıkma"])
    return Graph.of_words(heads, labels)


@pytest.fixture
def steps():
    """Return four trees per sentence; the third step changes nothing."""
    rng = random.Random(1)
    first = [worse(sentence.graph, rng) for sentence in sample()]
    second = [worse(tree, rng) for tree in first]
    return [first, second, second, [worse(tree, rng, 0.02) for tree in second]]


def saved(steps, path, *, first=0):
    save_predictions(predictions_of(sample(), steps, first=first), path)
    return load_predictions(path)


def test_all_trees_survive_a_round_trip(steps, tmp_path):
    predictions = saved(steps, tmp_path / "trees.xz")

    assert [predictions.graphs(t) for t in predictions.steps] == steps


def test_another_treebank_is_rejected(steps, tmp_path):
    predictions = saved(steps, tmp_path / "trees.xz")
    others = [sample()[0].with_tags(upos=["X"] * len(sample()[0])), *sample()[1:]]

    with pytest.raises(TreefineError, match="were made from another treebank"):
        treebank_of(predictions, others)


@pytest.mark.parametrize("content", [b"no xz", lzma.compress(b"no JSON\n"), lzma.compress(b'{"format": 2}\n'), b""])
def test_a_damaged_file_is_an_error(content, tmp_path):
    (tmp_path / "trees.xz").write_bytes(content)

    with pytest.raises(TreefineError, match="These predictions are damaged"):
        load_predictions(tmp_path / "trees.xz")
