"""The properties of words, their points and bands, on small trees and compared with slow loops."""

import io
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.generated import file_pairs, treebanks
from treefine import Graph, Sentence, read_treebank
from treefine.evaluation.properties import LOWEST, PROPERTIES, draw_curves, point_of, scores_by_property
from treefine.evaluation.scores import all_marks, load_pair
from treefine.evaluation.significance import draw_weights

WORDS = Sentence.of_words(list("abcde"), upos=["A", "A", "B", "B", "_"], xpos=["x"] * 5)
#     ROOT -> c;  c -> a, d, e;  e -> b (non-projective: c and d are under the arc but not below e)
GOLD = WORDS.with_graph(Graph.of_words([3, 5, 0, 3, 3], ["m", "m:s", "root", "n", "n"]))
SYSTEM = WORDS.with_graph(Graph.of_words([3, 3, 0, 3, 4], ["m", "m", "root", "o", "n"]))


def counts(by, system=SYSTEM, rule="conll18"):
    found = scores_by_property(load_pair([GOLD], [system], rule=rule), by, rule=rule)
    return {value: (score.gold, score.system, score.correct, score.system_correct) for value, score in found.items()}


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        # value: (gold words, system words, right by gold value, right by system value); only a and c are right
        ("dependency length", {0: (1, 1, 1, 1), 1: (1, 3, 0, 0), 2: (2, 1, 1, 1), 3: (1, 0, 0, 0)}),
        ("distance to root", {1: (1, 1, 1, 1), 2: (3, 3, 1, 1), 3: (1, 1, 0, 0)}),
        ("sentence length", {5: (5, 5, 2, 2)}),
        ("label", {"m": (2, 2, 1, 1), "n": (2, 1, 0, 0), "o": (0, 1, 0, 0), "root": (1, 1, 1, 1)}),
        ("tag", {"A": (2, 2, 1, 1), "B": (2, 2, 1, 1), "x": (1, 1, 0, 0)}),
        ("arc direction", {"ROOT": (1, 1, 1, 1), "left": (2, 2, 0, 0), "right": (2, 2, 1, 1)}),
        ("arc projectivity", {"non-projective": (1, 0, 0, 0), "projective": (4, 5, 2, 2)}),
        ("tree projectivity", {"non-projective": (5, 0, 2, 0), "projective": (0, 5, 0, 2)}),
    ],
)
def test_each_property_groups_words_as_defined(by, expected):
    assert counts(by) == expected


def test_words_in_cycles_have_a_value_of_their_own():
    loop = WORDS.with_graph(Graph.of_words([2, 1, 0, 3, 3], ["m", "m", "root", "n", "n"]))
    own_head = WORDS.with_graph(Graph.of_words([1, 3, 0, 3, 3], ["m", "m", "root", "n", "n"]))

    assert {value: each[1] for value, each in counts("distance to root", loop, "conll09").items()} == {
        1: 1,
        2: 2,
        3: 0,
        "cycle": 2,
    }
    assert counts("dependency length", own_head, "conll09")["cycle"][1] == 1
    assert counts("arc direction", own_head, "conll09")["cycle"][1] == 1


# Points of curves


def points_of(pair, by, *, samples=20, metric="LAS"):
    return draw_curves(by, {"s": pair}, {"s": all_marks(pair)[metric]}, samples=samples, seed=1)["s"]


def sentence(heads, labels="", upos=None):
    words = Sentence.of_words([f"w{n}" for n in range(len(heads))], upos=upos)
    return words.with_graph(Graph.of_words(heads, list(labels) or ["x"] * len(heads)))


@given(by=st.sampled_from([*LOWEST]), number=st.integers(1, 200))
def test_each_number_belongs_to_the_point_whose_range_contains_it(by, number):
    name = point_of(by, number)

    low, high = re.fullmatch(r"(\d+)(?:-(\d+)|\+)?", str(name)).groups()
    end = 10**9 if str(name).endswith("+") else int(high or low)
    assert int(low) <= number <= end
    assert isinstance(name, int) == (int(low) == end)


def test_all_systems_have_the_same_labels_sorted_by_frequency_in_gold():
    gold, system = sentence([0, 1, 1, 1], "rbba"), sentence([0, 1, 1, 1], "rbzb")
    pairs = {"s": load_pair([gold], [system]), "gold": load_pair([gold], [gold])}
    marks = {name: all_marks(pair)["LAS"] for name, pair in pairs.items()}

    curves = draw_curves("label", pairs, marks, samples=20, seed=1)

    shown = {name: [(point.value, point.gold, point.system) for point in points] for name, points in curves.items()}
    assert shown["s"] == [("b", 2, 2), ("a", 1, 0), ("r", 1, 1), ("z", 0, 1)]
    assert shown["gold"] == [("b", 2, 2), ("a", 1, 1), ("r", 1, 1), ("z", 0, 0)]


def slow_value(by, sentence, word):
    """Return the value of one word, computed step by step from the definitions."""
    heads = sentence.heads
    head = heads[word - 1]
    path = [word]
    while path[-1] and heads[path[-1] - 1] not in path:
        path.append(heads[path[-1] - 1])
    if by == "dependency length":
        return "ROOT" if head == 0 else abs(word - head)
    if by == "arc direction":
        return "ROOT" if head == 0 else "left" if head < word else "right"
    if by == "distance to root":
        return len(path) - 1
    if by == "sentence length":
        return len(heads)
    if by in ("label", "tag"):
        return (sentence.labels[word - 1].partition(":")[0], sentence.upos[word - 1])[by == "tag"]

    def is_projective(word):
        def is_below(other):
            while other not in (0, heads[word - 1]):
                other = heads[other - 1]
            return other == heads[word - 1]

        low, high = sorted([word, heads[word - 1]])
        return all(is_below(other) for other in range(low + 1, high))

    words = range(1, len(heads) + 1) if by == "tree projectivity" else [word]
    return "projective" if all(map(is_projective, words)) else "non-projective"


@pytest.mark.parametrize("by", PROPERTIES)
@given(treebank=treebanks(), metric=st.sampled_from(["UAS", "LAS"]))
def test_points_and_bands_equal_those_of_a_slow_loop(treebank, by, metric):
    def slow_counts(drawn):
        counts = {}
        for gold, system in (pairs[number] for number in drawn):
            for word in range(1, len(gold) + 1):
                right = gold.heads[word - 1] == system.heads[word - 1]
                if metric == "LAS":
                    bare = [each.labels[word - 1].partition(":")[0] for each in (gold, system)]
                    right = right and bare[0] == bare[1]
                ours, theirs = (point_of(by, slow_value(by, each, word)) for each in (gold, system))
                for kind, column in ((ours, 0), (theirs, 1), *(((ours, 2), (theirs, 3)) if right else ())):
                    counts.setdefault(kind, Counter())[column] += 1
        return counts

    def slow_f1(count, unknown):
        gold, system, gold_correct, system_correct = (count[column] for column in range(4))
        if not gold and not system or not gold and system_correct or not system and gold_correct:
            return unknown
        if not gold_correct or not system_correct:
            return 0
        precision, recall = system_correct / system, gold_correct / gold
        return 2 * precision * recall / (precision + recall)

    pairs = list(zip(*treebank, strict=True))

    points = points_of(load_pair(*treebank), by, samples=12, metric=metric)

    expected = slow_counts(range(len(pairs)))
    assert {point.value: point for point in points}.keys() == expected.keys()
    weights = draw_weights(np.random.default_rng(1), 12, len(pairs)).astype(int)
    samples = [slow_counts(np.repeat(np.arange(len(pairs)), row)) for row in weights]
    for point in points:
        count = expected[point.value]
        found = (point.gold, point.system, point.correct, point.system_correct)
        assert found == tuple(count[column] for column in range(4))
        assert point.f1 == pytest.approx(slow_f1(count, unknown=0))
        values = [slow_f1(sample.get(point.value, Counter()), unknown=None) for sample in samples]
        drawn = [f1 for f1 in values if f1 is not None] or [0]
        assert (point.low, point.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])))


@given(file_pairs(), st.sampled_from([*PROPERTIES]))
def test_points_add_up_to_the_score_for_any_segmentation(files, by):
    pair = load_pair(*(read_treebank(io.BytesIO(text.encode())) for text in files))
    correct = sum(all_marks(pair)["LAS"].correct)

    points = points_of(pair, by)

    columns = zip(*[(p.gold, p.system, p.correct, p.system_correct) for p in points], strict=True)
    assert tuple(map(sum, columns)) == (len(pair.gold), len(pair.system), correct, correct)
    assert all(0 <= point.low <= point.high <= 1 for point in points)
