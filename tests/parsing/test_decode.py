"""Scores to graphs and trees, in batches."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.parsing.test_trees import every_tree, total
from treefine.model.scorer import Scores
from treefine.model.vocabulary import NO_HEAD
from treefine.parsing import decode
from treefine.parsing.decode import Decoder, are_trees, maximum_tree
from treefine.treebank.graph import Graph

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
    vectors = torch.randn((2, len(arcs), n_words, 3), generator=generator)
    weight = torch.randn((N_LABELS, 3, 3), generator=generator)
    return Scores(padded, vectors[0], vectors[1], weight), is_word


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
        best = decode.projective_tree(weights) if is_projective else maximum_tree(weights)
        words = range(1, n_words)
        assert weights[words, heads[1:]].sum() == pytest.approx(weights[words, best[1:]].sum(), abs=1e-6)


@given(arc_scores(max_words=4).filter(lambda arcs: len(arcs) > 2), st.booleans())
def test_the_lead_is_the_difference_between_the_two_best_of_all_trees(arcs, is_projective):
    weights = scored([arcs])[0].arcs[0].double().log_softmax(-1)
    trees = every_tree(len(arcs) - 1, projective=is_projective)

    lead = Decoder(is_projective=is_projective).lead(weights)

    totals = sorted(total(weights.numpy(), heads) for heads in trees)
    assert lead == pytest.approx(totals[-1] - totals[-2], abs=1e-9)
