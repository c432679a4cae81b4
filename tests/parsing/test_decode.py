"""Trees: the best one, all from best to worst with their probabilities; scores to graphs and trees in batches."""

import math
from fractions import Fraction
from functools import cache
from itertools import islice, pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from ufal.chu_liu_edmonds import chu_liu_edmonds

from tests.support.tiny import sample, tiny_model, tiny_parser
from treefine import Graph, Parser
from treefine.model.scorer import Scores
from treefine.model.vocabulary import NO_HEAD
from treefine.parsing.decode import Decoder, are_trees, best_trees, log_sum_of_trees, maximum_tree, projective_tree
from treefine.treebank.constraints import Constraints

LOG_PROBABILITIES = st.floats(-200, 0)
WITH_TIES = st.integers(-2, 2).map(float)
PEAKED = st.sampled_from([0.0, -1e-9, -0.25, -40.0, -200.0])
WITH_IMPOSSIBLE = st.sampled_from([-np.inf, -np.inf, np.nan, -0.5, -1.0, -7.25])
both_decoders = pytest.mark.parametrize("decode", [maximum_tree, projective_tree])


@st.composite
def score_matrices(draw, max_words=6, kinds=(LOG_PROBABILITIES, WITH_TIES, PEAKED, WITH_IMPOSSIBLE)):
    n_words = draw(st.integers(1, max_words))
    return draw(arrays(np.float64, (n_words + 1, n_words + 1), elements=draw(st.sampled_from(kinds))))


def graph(heads):
    return Graph.of_words([int(head) for head in heads[1:]], ["_"] * (len(heads) - 1))


@cache
def every_tree(n_words, *, projective=False):
    """Return all trees with one root, as heads [tree, word]."""
    if projective:
        return np.array([heads for heads in every_tree(n_words) if graph(heads).is_projective])
    candidates = ((0, *heads) for heads in product(range(n_words + 1), repeat=n_words) if heads.count(0) == 1)
    return np.array([heads for heads in candidates if graph(heads).is_tree])


def values(scores, trees):
    """Return the number of possible arcs of each tree, and the score of these arcs."""
    arcs = scores[np.arange(1, len(scores)), np.atleast_2d(trees)[:, 1:]]
    possible = arcs > -np.inf
    return list(zip(possible.sum(1).tolist(), np.where(possible, arcs, 0).sum(1).tolist(), strict=True))


def total(scores, heads):
    return scores[np.arange(1, len(scores)), heads[1:]].sum()


def random_scores(rng, n_words):
    """Return log-probabilities from normal numbers, as an untrained network gives them."""
    logits = rng.normal(size=(n_words + 1, n_words + 1))
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def by_ufal(scores):
    """Return the tree of ufal.chu_liu_edmonds; arcs from ROOT get a penalty, so that it uses only one."""
    work = scores.copy()
    work[0] = 0
    np.fill_diagonal(work, 0)
    work[1:, 0] -= len(work) * (work.max() - work.min()) + 1
    np.fill_diagonal(work, -np.inf)  # the diagonal does not change the tree, but a high one takes far longer
    heads, _ = chu_liu_edmonds(work)
    return np.array([0, *heads[1:]])


@both_decoders
@given(scores=score_matrices())
def test_no_tree_with_one_root_has_a_higher_score(decode, scores):
    is_projective = decode is projective_tree

    heads = decode(scores)

    assert graph(heads).is_tree
    assert graph(heads).is_projective or not is_projective
    best = max(values(scores, every_tree(len(scores) - 1, projective=is_projective)))
    assert values(scores, heads)[0] == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("n_words", [7, 20, 40, 60])
@pytest.mark.parametrize("spread", [1, 30])
def test_ufal_finds_trees_of_the_same_score(n_words, spread):
    rng = np.random.default_rng(n_words)
    for _ in range(10):
        scores = spread * random_scores(rng, n_words)

        heads = maximum_tree(scores)

        assert graph(heads).is_tree
        assert total(scores, heads) == pytest.approx(total(scores, by_ufal(scores)), rel=1e-9)


@pytest.mark.parametrize("n_words", [15, 50])
def test_a_maximum_tree_that_is_projective_is_the_projective_tree(n_words):
    rng = np.random.default_rng(n_words)
    for _ in range(10):
        planted = projective_tree(random_scores(rng, n_words))
        scores = random_scores(rng, n_words)
        scores[np.arange(1, n_words + 1), planted[1:]] += 50

        assert maximum_tree(scores).tolist() == projective_tree(scores).tolist() == planted.tolist()


@both_decoders
@given(scores=score_matrices(), unused=st.sampled_from([np.nan, np.inf, -np.inf, 1e300]))
def test_row_0_and_the_diagonal_are_not_read(decode, scores, unused):
    other = scores.copy()
    other[0] = unused
    np.fill_diagonal(other, unused)

    assert decode(other).tolist() == decode(scores).tolist()


# All trees, from best to worst

POSSIBLE = (st.floats(-200, 0), WITH_TIES, PEAKED, st.sampled_from([-np.inf, -np.inf, -0.5, -1.0, -7.25]))
matrices = score_matrices(max_words=4, kinds=POSSIBLE)


@both_decoders
@given(weights=matrices)
def test_every_tree_comes_once_in_order_of_score(decode, weights):
    found = list(best_trees(weights, decode))

    all_trees = every_tree(len(weights) - 1, projective=decode is projective_tree)
    possible = [tuple(heads) for heads in all_trees.tolist() if total(weights, np.array(heads)) > -np.inf]
    assert sorted(tuple(heads.tolist()) for heads in found) == sorted(possible)
    sums = [total(weights, heads) for heads in found]
    assert all(first >= second or math.isclose(first, second, rel_tol=1e-12) for first, second in pairwise(sums))


def test_the_second_tree_of_sixty_words_is_the_best_that_lacks_an_arc_of_the_first():
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


@given(weights=matrices)
def test_the_sum_over_all_trees_equals_brute_force(weights):
    sums = [total(weights, heads) for heads in every_tree(len(weights) - 1)]

    assert log_sum_of_trees(weights) == pytest.approx(np.logaddexp.reduce(sums), abs=1e-9, rel=1e-9)


def test_trees_far_less_probable_than_cycles_are_summed_without_loss():
    """Two words are each other's head with probability 1 - 10⁻²⁰: a determinant in floating point would be 0."""
    log_tiny = -20 * math.log(10)
    weights = np.array([[0, 0, 0], [log_tiny, -np.inf, 0.0], [log_tiny + 1, 0.0, -np.inf]])
    exact = Fraction(1, 10**20) * (1 + Fraction(math.e))
    too_small_for_a_number = np.array([[0, 0, 0], [-1000.0, -np.inf, 0.0], [-1000.0, 0.0, -np.inf]])

    assert log_sum_of_trees(weights) == pytest.approx(math.log(exact.numerator) - math.log(exact.denominator))
    assert log_sum_of_trees(too_small_for_a_number) == pytest.approx(-1000 + math.log(2))


# Scores of a batch


N_LABELS = 4
ROOT_LABEL = 2


def scored(arcs, *, seed=1):
    """Return scores with these arcs for each sentence, padded, and random label vectors."""
    generator = torch.Generator().manual_seed(seed)
    n_words = max(len(each) for each in arcs)
    padded = torch.full((len(arcs), n_words, n_words), -torch.inf)
    is_word = torch.zeros((len(arcs), n_words), dtype=torch.bool)
    for row, each in enumerate(arcs):
        padded[row, : len(each), : len(each)] = torch.as_tensor(each)
        padded[row, range(n_words), range(n_words)] = -torch.inf
        padded[row, len(each) :, 0] = 0  # the network also scores padding
        is_word[row, : len(each)] = True
    vectors = torch.randn((2, int(is_word.sum()), 3), generator=generator)
    weight = torch.randn((N_LABELS, 3, 3), generator=generator)
    places, lengths = is_word.flatten().nonzero()[:, 0], is_word.sum(1)
    roots = (lengths.cumsum(0) - lengths).repeat_interleave(lengths)
    return Scores(padded, vectors[0], vectors[1], weight, places, roots, vectors[0]), is_word


@st.composite
def arc_scores(draw, max_words=6):
    n_words = draw(st.integers(1, max_words))
    row = st.lists(st.floats(-20, 20, width=32), min_size=n_words + 1, max_size=n_words + 1)
    return draw(st.lists(row, min_size=n_words + 1, max_size=n_words + 1))


@given(st.lists(arc_scores(), min_size=1, max_size=4))
def test_each_word_gets_its_best_head_and_the_best_label_for_it(arcs):
    scores, is_word = scored(arcs)

    graphs = Decoder().graphs(scores, is_word)

    labels = scores.labels(graphs.heads)
    for row, each in enumerate(arcs):
        for word in range(1, len(each)):
            head = int(graphs.heads[row, word])
            assert head != word
            assert scores.arcs[row, word, head] == scores.arcs[row, word].max()
            assert graphs.labels[row, word] == labels[row, word].argmax()
        assert (graphs.heads[row, len(each) :] == NO_HEAD).all()
        assert graphs.heads[row, 0] == NO_HEAD


@given(st.lists(arc_scores(), min_size=1, max_size=4))
def test_a_word_is_labelled_root_if_and_only_if_its_head_is_root(arcs):
    scores, is_word = scored(arcs)
    decoder = Decoder(root_label=ROOT_LABEL)

    for graphs in (decoder.graphs(scores, is_word), decoder.trees(scores, decoder.graphs(scores, is_word), is_word)):
        is_dependent = graphs.heads != NO_HEAD
        assert ((graphs.labels == ROOT_LABEL) == (graphs.heads == 0))[is_dependent].all()


@given(st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=7), min_size=1, max_size=4))
def test_trees_are_distinguished_from_other_graphs(sentences):
    n_words = max(map(len, sentences)) + 1
    heads, is_word = torch.full((len(sentences), n_words), NO_HEAD), torch.zeros((len(sentences), n_words)).bool()
    graphs = []
    for row, sentence in enumerate(sentences):
        chosen = [head % (len(sentence) + 1) for head in sentence]
        heads[row, 1 : len(sentence) + 1] = torch.tensor(chosen)
        is_word[row, : len(sentence) + 1] = True
        graphs.append(Graph.of_words(chosen, ["x"] * len(chosen)))

    assert are_trees(heads, is_word).tolist() == [graph.is_tree for graph in graphs]


@pytest.mark.parametrize("is_projective", [False, True])
@given(st.lists(arc_scores(), min_size=1, max_size=4))
def test_trees_of_a_batch_equal_those_of_single_sentences(is_projective, arcs):
    scores, is_word = scored(arcs)
    decoder = Decoder(ROOT_LABEL, is_projective=is_projective)

    trees = decoder.trees(scores, decoder.graphs(scores, is_word), is_word)

    for row, each in enumerate(arcs):
        n_words = len(each)
        weights = scores.arcs[row, :n_words, :n_words].double().log_softmax(-1).numpy()
        heads = trees.heads[row, :n_words].clamp(min=0).numpy()
        graph = Graph(tuple(heads.tolist()), ("",) * n_words)
        assert graph.is_tree
        assert graph.is_projective or not is_projective
        best = projective_tree(weights) if is_projective else maximum_tree(weights)
        words = range(1, n_words)
        assert weights[words, heads[1:]].sum() == pytest.approx(weights[words, best[1:]].sum(), abs=1e-6)


# The k best trees of a parser


WORDS = ("The", "old", "man", "sleeps")


@pytest.fixture(scope="module")
def parser():
    return tiny_parser(max_steps=2)


def test_all_trees_come_in_order_with_their_probabilities(parser):
    """Compare with the slow way: the product of each tree's arcs, divided by the sum over all trees."""
    all_trees = every_tree(4).tolist()
    log_arcs = parser.steps(WORDS)[-1].arc_scores.astype(np.float64)
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
