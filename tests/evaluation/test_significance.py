import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.oracles import corrupt, ours
from treefine import AlignmentError, Graph, Sentence, read_treebank
from treefine.evaluation import significance
from treefine.evaluation.scores import all_marks, load_pair
from treefine.evaluation.significance import compare, sentence_counts


def slow_difference(a, b, samples, seed):
    """Compare two systems sample by sample; return p of both tests and the sampled differences."""
    rng = np.random.default_rng(seed)
    observed = significance.f1(b.sum(axis=0)) - significance.f1(a.sum(axis=0))
    by_swapping, drawn = [], []
    for start in range(0, samples, significance.SLICE):
        size = min(significance.SLICE, samples - start)
        for row in significance.draw_swaps(rng, size, len(a)):
            one, other = (np.where(row[:, None], y, x).sum(axis=0) for x, y in ((a, b), (b, a)))
            by_swapping.append(significance.f1(other) - significance.f1(one))
        for row in significance.draw_weights(rng, size, len(a)):
            drawn.append(significance.f1(row @ b) - significance.f1(row @ a))

    def p(distances):
        as_far = [abs(each) >= abs(observed) - significance.TIE for each in distances]
        return (sum(as_far) + 1) / (samples + 1)

    return p(by_swapping), p(each - observed for each in drawn), drawn


@given(st.data(), st.integers(2, 4), st.integers(1, 6), st.integers(1, 300), st.integers(0, 1000))
@settings(max_examples=15)
def test_comparing_several_systems_equals_comparing_each_pair(data, n_systems, n_sentences, samples, seed):
    words = st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=n_sentences, max_size=n_sentences)
    tables = {name: np.array(data.draw(words), float) for name in "abcd"[:n_systems]}

    found = significance.compare_counts(tables, samples=samples, seed=seed, alpha=0.2).differences

    assert list(found) == list(itertools.combinations(tables, 2))
    for (one, other), each in found.items():
        swapping, drawing, drawn = slow_difference(tables[one], tables[other], samples, seed)
        assert (each.first, each.second) == (one, other)
        assert (each.randomisation, each.bootstrap) == (swapping, drawing)
        assert each.interval == tuple(np.quantile(drawn, [0.1, 0.9]))


def systems(right_of_a, right_of_b):
    """Return two systems over sentences of ten words, with these numbers of right words."""
    words = Sentence.of_words(["w"] * 10)
    gold = words.with_graph(Graph.of_words([0, *[1] * 9], ["root"] * 10))

    def system(right):
        for count in right:
            yield words.with_graph(Graph.of_words([0, *[1] * (count - 1), *[2] * (10 - count)], ["root"] * 10))

    return {
        name: load_pair([gold] * len(right), system(right)) for name, right in (("a", right_of_a), ("b", right_of_b))
    }


def test_p_is_close_to_the_exact_value_over_all_swaps():
    right_a, right_b = [4, 5, 6, 7, 5, 6, 8, 7], [6, 5, 7, 9, 6, 5, 9, 8]
    differences = [b - a for a, b in zip(right_a, right_b, strict=True)]
    swaps = itertools.product([1, -1], repeat=len(differences))
    as_far = [abs(sum(s * d for s, d in zip(signs, differences, strict=True))) >= sum(differences) for signs in swaps]
    exact = sum(as_far) / len(as_far)

    difference = compare(systems(right_a, right_b), samples=10_000).between("a", "b")

    assert difference.difference == pytest.approx(sum(differences) / 80)
    assert difference.randomisation == pytest.approx(exact, abs=0.01)


def test_equal_systems_are_never_significantly_different():
    comparison = compare(systems([5, 6, 7], [5, 6, 7]), samples=200)

    difference = comparison.between("b", "a")
    assert (difference.difference, difference.randomisation, difference.bootstrap) == (0, 1, 1)
    assert difference.interval == (0, 0)
    assert comparison.best_group == {"a", "b"}


def test_a_system_that_is_better_everywhere_is_the_only_best_one():
    comparison = compare(systems([5] * 60, [9] * 60), samples=2000)

    assert comparison.best == "b"
    assert comparison.best_group == {"b"}
    assert comparison.between("a", "b").randomisation == comparison.between("a", "b").bootstrap == 1 / 2001
    assert comparison.between("a", "b").interval == pytest.approx((0.4, 0.4))


@pytest.mark.parametrize("metric", ["UPOS", "LAS", "MLAS"])
@pytest.mark.parametrize("seed", range(2))
def test_the_counts_of_sentences_add_up_to_the_score_of_the_file(data, tmp_path, seed, metric):
    sentences = list(read_treebank(data / "en_ewt-sample.conllu"))
    system = corrupt(sentences, seed)
    (tmp_path / "system.conllu").write_text(system)
    pair = load_pair(sentences, tmp_path / "system.conllu")

    table = sentence_counts(pair, all_marks(pair)[metric])

    assert table.shape == (len(sentences), 3)
    gold = "".join(sentence.to_conllu() for sentence in sentences)
    assert tuple(table.sum(axis=0)) == ours(gold, system)[metric][:3]


def test_a_system_word_counts_in_the_gold_sentence_where_its_text_starts():
    gold = [Sentence.of_words(list(words)).with_graph(Graph.of_words([0, 1], ["root", "x"])) for words in ("ab", "cd")]
    joined = Sentence.of_words(["a", "bc", "d"]).with_graph(Graph.of_words([0, 1, 1], ["root", "x", "x"]))
    pair = load_pair(gold, [joined])

    assert sentence_counts(pair, all_marks(pair)["UAS"]).tolist() == [[2, 2, 1], [2, 1, 0]]


def test_systems_must_share_their_gold_file():
    with pytest.raises(AlignmentError, match="must be compared with the same gold sentences"):
        compare({"a": systems([5], [5])["a"], "b": systems([5, 5], [5, 5])["b"]})
