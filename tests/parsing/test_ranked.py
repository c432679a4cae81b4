"""All trees of a sentence, the best first, and the sum over all of them."""

import math
from fractions import Fraction
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parsing.test_tree import PEAKED, WITH_TIES, every_tree, score_matrices, total
from treefine.parsing.trees import best_trees, log_sum_of_trees, maximum_tree, projective_tree

POSSIBLE = (st.floats(-200, 0), WITH_TIES, PEAKED, st.sampled_from([-np.inf, -np.inf, -0.5, -1.0, -7.25]))
matrices = score_matrices(max_words=4, kinds=POSSIBLE)


@given(weights=matrices, projective=st.booleans())
def test_every_tree_comes_once_and_none_before_a_better_one(weights, projective):
    search = projective_tree if projective else maximum_tree

    found = list(best_trees(weights, search))

    all_trees = every_tree(len(weights) - 1, projective=projective)
    possible = [tuple(heads) for heads in all_trees.tolist() if total(weights, np.array(heads)) > -np.inf]
    assert sorted(tuple(heads.tolist()) for heads in found) == sorted(possible)
    sums = [total(weights, heads) for heads in found]
    assert all(first >= second or math.isclose(first, second, rel_tol=1e-12) for first, second in pairwise(sums))


def test_the_first_of_sixty_words_equal_the_slow_way():
    """Slow: of the trees that lack one arc of the best, the best; the third by two arcs at most, and so on."""
    rng = np.random.default_rng(5)
    weights = rng.normal(size=(61, 61)) * 3

    first, second = islice(best_trees(weights, maximum_tree), 2)

    assert (first == maximum_tree(weights)).all()
    others = []
    for word in range(1, 61):
        without = weights.copy()
        without[word, first[word]] = -np.inf
        others.append(total(weights, maximum_tree(without)))
    assert total(weights, second) == pytest.approx(max(others))


def test_few_searches_are_needed_where_heads_are_clear():
    """A chain whose words are sure of their heads, but for one."""
    n_words, searches = 40, []
    weights = np.full((n_words + 1, n_words + 1), -20.0)
    weights[np.arange(1, n_words + 1), np.arange(n_words)] = 0.0
    weights[7, 3] = -1.0

    def search(weights):
        searches.append(weights)
        return maximum_tree(weights)

    first, second = islice(best_trees(weights, search), 2)

    assert first.tolist() == [0, *range(n_words)]
    assert (first != second).nonzero()[0].tolist() == [7]
    assert len(searches) == 2


@given(weights=matrices)
def test_the_sum_over_all_trees_is_that_of_each(weights):
    sums = [total(weights, heads) for heads in every_tree(len(weights) - 1)]

    assert log_sum_of_trees(weights) == pytest.approx(np.logaddexp.reduce(sums), abs=1e-9, rel=1e-9)


def test_trees_far_less_probable_than_cycles_are_summed_without_loss():
    """Two words that hang on each other with probability 1 - 10⁻²⁰: a determinant in floating point would give 0."""
    log_tiny = -20 * math.log(10)
    weights = np.array([[0, 0, 0], [log_tiny, -np.inf, 0.0], [log_tiny + 1, 0.0, -np.inf]])

    exact = Fraction(1, 10**20) * (1 + Fraction(math.e))

    assert log_sum_of_trees(weights) == pytest.approx(math.log(exact.numerator) - math.log(exact.denominator))


def test_trees_that_are_too_improbable_for_a_number_are_summed_as_well():
    weights = np.array([[0, 0, 0], [-1000.0, -np.inf, 0.0], [-1000.0, 0.0, -np.inf]])

    assert log_sum_of_trees(weights) == pytest.approx(-1000 + math.log(2))


def test_where_there_is_no_tree_none_comes():
    weights = np.array([[0, 0, 0], [-np.inf, 0, 1.0], [-np.inf, 1.0, 0]])

    assert list(best_trees(weights, maximum_tree)) == []
    assert log_sum_of_trees(weights) == -np.inf


def test_one_word_has_one_tree():
    weights = np.array([[0, 0], [-3.0, 0]])

    assert [heads.tolist() for heads in best_trees(weights, maximum_tree)] == [[0, 0]]
    assert log_sum_of_trees(weights) == -3.0
