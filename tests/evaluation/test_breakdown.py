"""Definitions of the properties, on trees small enough to check by eye."""

import pytest

from tests.support.oracles import corrupt
from treefine import Graph, Sentence, TreefineError, evaluate, read_treebank
from treefine.evaluation.breakdown import PROPERTIES, breakdown
from treefine.evaluation.scores import load_pair

WORDS = Sentence.of_words(list("abcde"), upos=["A", "A", "B", "B", "_"], xpos=["x"] * 5)
#     ROOT -> c;  c -> a, d, e;  e -> b (non-projective: c and d are under the arc but not below e)
GOLD = WORDS.with_graph(Graph.of_words([3, 5, 0, 3, 3], ["m", "m:s", "root", "n", "n"]))
SYSTEM = WORDS.with_graph(Graph.of_words([3, 3, 0, 3, 4], ["m", "m", "root", "o", "n"]))


def bins(by, **options):
    found = breakdown({"s": load_pair([GOLD], [SYSTEM])}, by, **options)
    return {
        each.value: (each.gold, each.system, each.gold_correct["LAS"], each.system_correct["LAS"]) for each in found
    }


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
    assert bins(by) == expected


def test_a_bin_of_numbers_is_named_after_its_highest_number():
    assert list(bins("dependency length", width=2)) == [0, 2, 4]
    assert list(bins("sentence length", width=10)) == [10]


def test_recall_uses_gold_values_and_precision_uses_system_values():
    (_, one, two, _) = breakdown({"s": load_pair([GOLD], [SYSTEM])}, "dependency length")

    assert (two.recall(), two.precision(), two.f1()) == (0.5, 1, pytest.approx(2 / 3))
    assert (one.recall("UAS"), one.precision("UAS"), one.f1()) == (1, pytest.approx(1 / 3), 0)


def test_words_that_the_rule_ignores_are_in_no_bin(data):
    gold = [next(read_treebank(data / "penn.conllx"))]

    found = breakdown({"s": load_pair(gold, gold, rule="ptb")}, "label", rule="ptb")

    assert [(each.value, each.gold, each.system) for each in found] == [
        (label, 1, 1) for label in ("dep", "dobj", "nn", "nsubj", "root")
    ]


def test_a_cycle_has_no_distance_to_root():
    loop = WORDS.with_graph(Graph.of_words([2, 1, 0, 3, 3], ["m", "m", "root", "n", "n"]))

    found = breakdown({"s": load_pair([GOLD], [loop], rule="conll09")}, "distance to root", rule="conll09")

    assert {each.value: each.system for each in found} == {1: 1, 2: 2, 3: 0, "cycle": 2}


@pytest.mark.parametrize("by", ["dependency length", "arc direction", "distance to root"])
def test_a_word_that_is_its_own_head_counts_as_a_cycle(by):
    loop = WORDS.with_graph(Graph.of_words([1, 3, 0, 3, 3], ["m", "m", "root", "n", "n"]))

    found = breakdown({"s": load_pair([GOLD], [loop], rule="conll09")}, by, rule="conll09")

    at_root = {"dependency length": 0, "arc direction": "ROOT", "distance to root": 1}[by]
    assert {each.value: each.system for each in found if each.value in ("cycle", at_root)} == {"cycle": 1, at_root: 1}


@pytest.mark.parametrize("by", PROPERTIES)
@pytest.mark.parametrize("seed", range(3))
def test_the_bins_of_each_system_add_up_to_its_scores(data, tmp_path, by, seed):
    gold = data / "en_ewt-sample.conllu"
    (tmp_path / "s.conllu").write_text(corrupt(list(read_treebank(gold)), seed))
    scores = {"same": evaluate(gold, gold), "other": evaluate(gold, tmp_path / "s.conllu")}

    found = breakdown({"same": load_pair(gold, gold), "other": load_pair(gold, tmp_path / "s.conllu")}, by)

    for name in ("same", "other"):
        each_bin = [each for each in found if each.system_name == name]
        for metric in ("UAS", "LAS"):
            score = scores[name][metric]
            assert sum(each.gold for each in each_bin) == score.gold
            assert sum(each.system for each in each_bin) == score.system
            assert sum(each.gold_correct[metric] for each in each_bin) == score.correct
            assert sum(each.system_correct[metric] for each in each_bin) == score.correct


def test_the_error_for_an_unknown_property_lists_the_known_ones():
    with pytest.raises(
        TreefineError, match="There is no property 'depth'. Choose one of dependency length, distance to"
    ):
        bins("depth")
    with pytest.raises(ValueError, match="width must be 1 or more, not 0"):
        bins("label", width=0)
