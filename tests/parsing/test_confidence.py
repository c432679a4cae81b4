"""The k best trees of a sentence with their probabilities, and the agreement of the steps."""

import numpy as np
import pytest

from tests.parsing.test_decode import every_tree
from tests.support.tiny import sample, tiny_model, tiny_parser
from treefine import Parser
from treefine.treebank.constraints import Constraints

WORDS = ("The", "old", "man", "sleeps")


@pytest.fixture(scope="module")
def parser():
    return tiny_parser(max_steps=2)


def last_step(parser, words=WORDS):
    *_, last = parser.steps(words)
    return last


def test_all_trees_come_in_order_with_their_probabilities(parser):
    """Compare with the slow way: the product of each tree's arcs, divided by the sum over all trees."""
    all_trees = every_tree(4).tolist()
    log_arcs = last_step(parser).arc_scores.astype(np.float64)
    products = {tuple(heads): np.exp(sum(log_arcs[word, heads[word]] for word in range(1, 5))) for heads in all_trees}

    (parse,) = parser.using(k=len(all_trees) + 5).stream([WORDS])

    found = {each.tree.heads: each.probability for each in parse.trees}
    assert len(parse.trees) == len(found) == len(all_trees)
    assert sum(found.values()) == pytest.approx(1)
    assert found == pytest.approx({heads: each / sum(products.values()) for heads, each in products.items()}, rel=1e-4)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_the_first_tree_is_the_parse_and_its_labels_are_the_best_for_its_heads(parser):
    for parse in parser.using(k=3).stream(sample(20)):
        first, *others = parse.trees

        assert first.tree == parse.tree
        assert all(each.tree.is_tree and each.tree != first.tree for each in others)
        product = np.prod([each.label for each in parse.word_confidences])
        assert first.label_probability == pytest.approx(product, rel=1e-3)
        assert first.both == first.probability * first.label_probability


def test_trees_satisfy_constraints_and_probabilities_sum_over_such_trees(parser):
    decided = Constraints(heads={4: 0}, labels={2: "xyz"})

    (parse,) = parser.using(k=100).stream([WORDS], constraints=[decided])

    assert len(parse.trees) == 16  # the trees of four words with that root
    assert all(each.tree.heads[4] == 0 and each.tree.labels[2] == "xyz" for each in parse.trees)
    assert sum(each.probability for each in parse.trees) == pytest.approx(1)


@pytest.mark.parametrize("projective", [False, True])
def test_among_equal_trees_the_parse_comes_first_and_no_tree_comes_twice(parser, projective):
    """With equal scores, different searches may find different trees first."""
    flat = tiny_model()
    flat.scorer.arc_weight.data.zero_()
    for n_words in range(1, 5):
        equal = Parser(flat, device="cpu", max_steps=1, k=3, is_projective=projective)

        (parse,) = equal.stream([WORDS[:n_words]])

        assert parse.trees[0].tree == parse.tree
        assert len({each.tree.heads for each in parse.trees}) == len(parse.trees) == min(3, len(every_tree(n_words)))


def test_agreement_is_the_share_of_steps_that_had_the_arc(parser):
    for parse in parser.using(max_steps=4).stream(sample(20)):
        steps = [list(zip(*step.arcs, strict=True)) for step in parse.steps]
        tree = list(zip(*parse.tree.arcs, strict=True))
        expected = [sum(step[word] == arc for step in steps) / len(steps) for word, arc in enumerate(tree)]

        assert list(parse.agreement) == expected
