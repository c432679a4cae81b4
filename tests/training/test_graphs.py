"""The initial graphs of the training sentences: their shares, and gold trees with random errors."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generated import LABELS, random_heads
from tests.support.tiny import sample
from treefine.training.data import TrainingGraphs, noised
from treefine.training.recipe import InitialSettings, MixedSettings
from treefine.treebank.graph import Arcs

SENTENCES = sample() * 10  # 600
GOLD = [sentence.arcs for sentence in SENTENCES]
BLANK = [Arcs((None,) * len(each), ("_",) * len(each)) for each in SENTENCES]
PARSES = [Arcs(tuple((head or 0) and 1 for head in gold.heads), gold.labels) for gold in GOLD]  # all under word 1
PARSER = {"parser": "files", "train": "a", "dev": "b"}


def draw(settings, *seed, parses=PARSES):
    return TrainingGraphs(SENTENCES, parses, settings).draw(np.random.default_rng(seed))


def test_without_shares_all_initial_graphs_are_the_parses_or_empty():
    assert draw(InitialSettings(**PARSER), 1) == PARSES
    assert draw(InitialSettings(), 1, parses=None) == BLANK


SOURCES = {name: [Arcs(each.heads, (name,) * len(each.heads)) for each in GOLD] for name in ("a", "b", "c")}


def draw_mixed(shares, *seed, **others):
    """Return the graphs of a mix, and the source of each graph; "" is the main parser."""
    settings = InitialSettings(
        **PARSER, **others, mix={name: MixedSettings("x", share) for name, share in shares.items()}
    )
    graphs = TrainingGraphs(SENTENCES, PARSES, settings, SOURCES).draw(np.random.default_rng(seed))
    by_name = {"": PARSES, "empty": BLANK, **SOURCES}
    return graphs, [
        next((name for name, parses in by_name.items() if parses[number] == graph), "noised")
        for number, graph in enumerate(graphs)
    ]


def test_sources_are_drawn_in_about_the_given_shares():
    _, names = draw_mixed({"a": 0.3, "b": 0.1, "c": 0.2}, 1, empty_share=0.1, noised_share=0.2, noise=1.0)

    asked = {"a": 180, "b": 60, "c": 120, "empty": 60, "noised": 120, "": 60}
    assert Counter(names) == pytest.approx(asked, abs=45)  # four standard deviations of the largest


@pytest.mark.parametrize("shares", [{"empty_share": 0.3, "noised_share": 0.3}, {"a": 0.4, "b": 0.4}])
def test_the_draw_differs_by_epoch_and_by_seed_but_not_by_run(shares):
    def draw_again(*seed):
        named = {name: share for name, share in shares.items() if name in SOURCES}
        return draw_mixed(named, *seed, **{name: share for name, share in shares.items() if name not in named})

    graphs, sources = draw_again(1, 1)
    assert (graphs, sources) == draw_again(1, 1)
    for other in (draw_again(1, 2), draw_again(2, 1)):
        assert graphs != other[0]
        assert sources != other[1]


@given(heads=st.integers(1, 6).flatmap(random_heads), rate=st.floats(0, 1), seed=st.integers(0, 99))
def test_noised_arcs_stay_in_the_sentence_and_no_word_heads_itself(heads, rate, seed):
    gold = Arcs(tuple(heads), tuple(LABELS[: len(heads)]))

    arcs = noised(gold, rate, np.array(["det", "case"]), np.random.default_rng(seed))

    assert len(arcs.heads) == len(arcs.labels) == len(heads)
    assert all(0 <= head <= len(heads) and head != word for word, head in enumerate(arcs.heads, start=1))
    assert all(new in (old, "det", "case") for new, old in zip(arcs.labels, gold.labels, strict=True))
    assert all(type(head) is int for head in arcs.heads)
    assert all(type(label) is str for label in arcs.labels)


def all_noised(rate, labels):
    """Return the heads and labels of many noised copies of one tree, one row per copy, and the gold heads."""
    gold, rng = Arcs((0, *range(1, 40)), ("nsubj",) * 40), np.random.default_rng(1)
    arcs = [noised(gold, rate, np.array(labels), rng) for _ in range(100)]
    return np.array([each.heads for each in arcs]), np.array([each.labels for each in arcs]), np.array(gold.heads)


@pytest.mark.parametrize("rate", [0.0, 0.15, 0.6, 1.0])
def test_about_the_given_share_of_heads_and_labels_is_wrong(rate):
    heads, labels, right = all_noised(rate, ["obj", "det"])

    has_head, has_label = heads == right, labels == "nsubj"
    assert 1 - (has_head & has_label).mean() == pytest.approx(rate, abs=0.035)
    assert (~has_head & has_label).mean() == pytest.approx(rate / 3, abs=0.035)
    assert (has_head & ~has_label).mean() == pytest.approx(rate / 3, abs=0.035)


def test_a_wrong_head_is_any_other_word_or_root():
    gold, rng = Arcs((2, 0, 2), ("det", "root", "det")), np.random.default_rng(1)

    arcs = [noised(gold, 1.0, np.array(["obj"]), rng) for _ in range(60)]

    heads = zip(*(each.heads for each in arcs), strict=True)
    assert [set(of_word) for of_word in heads] == [{0, 2, 3}, {0, 1, 3}, {0, 1, 2}]
    assert all(
        head != right or label == "obj" for each in arcs for head, label, right in zip(*each, gold.heads, strict=True)
    )


def test_a_sentence_of_one_word_has_no_wrong_head():
    for seed in range(20):
        assert noised(Arcs((0,), ("root",)), 1.0, np.array(["det"]), np.random.default_rng(seed)).heads == (0,)
