import math

import pytest
import torch
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from tests.support.tensor_sizes import Sizes
from treefine.config import ScorerSettings
from treefine.model.scorer import WORDS_AT_ONCE, BiaffineScorer, SharedDropout, label_scores

WIDTH, N_LABELS = 6, 3
SETTINGS = ScorerSettings(arc_width=5, label_width=4, dropout=0.4, slope=0.1)


def scorer_with(seed=1, settings=SETTINGS, n_labels=N_LABELS):
    """Return a scorer without zero weights."""
    scorer = BiaffineScorer(WIDTH, n_labels, settings).eval()
    generator = torch.Generator().manual_seed(seed)
    for weight in scorer.parameters():
        weight.data = torch.randn(weight.shape, generator=generator)
    return scorer


def words_of(lengths, seed=1):
    """Return random vectors for sentences of these lengths, ROOT included, and the mask of words."""
    generator = torch.Generator().manual_seed(seed)
    is_word = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return torch.randn(len(lengths), max(lengths), WIDTH, generator=generator), is_word


def naive_mlp(mlp, word):
    """Compute one layer of Eq. 6 with LeakyReLU."""
    linear = linear_of(mlp)
    return torch.stack(
        [max(each, 0.1 * each) for each in (row @ word + b for row, b in zip(linear.weight, linear.bias, strict=True))]
    )


def linear_of(mlp):
    return next(layer for layer in mlp if isinstance(layer, torch.nn.Linear))


def with_one_appended(vector):
    return torch.cat([vector, torch.ones(1)])


sentence_lengths = st.lists(st.integers(1, 5), min_size=1, max_size=3)
few_examples = profile(max_examples=max(5, profile().max_examples // 4))  # each has many pairs of words


@few_examples
@given(lengths=sentence_lengths, seed=st.integers(0, 100))
def test_an_arc_score_is_a_biaffine_form_with_a_linear_term_for_the_head(lengths, seed):
    scorer, (words, is_word) = scorer_with(seed), words_of(lengths, seed)

    arcs = scorer(words, is_word).arcs

    for row, length in enumerate(lengths):
        for dep in range(length):
            for head in range(length):
                if head == dep:
                    continue
                d, h = naive_mlp(scorer.arc_dep, words[row, dep]), naive_mlp(scorer.arc_head, words[row, head])
                expected = with_one_appended(d) @ scorer.arc_weight @ h
                torch.testing.assert_close(arcs[row, dep, head], expected, atol=1e-4, rtol=1e-5)


@few_examples
@given(lengths=sentence_lengths, seed=st.integers(0, 100), data=st.data())
def test_a_label_score_is_a_biaffine_form_with_linear_terms_for_both_words(lengths, seed, data):
    scorer, (words, is_word) = scorer_with(seed), words_of(lengths, seed)
    heads = [[data.draw(st.integers(0, length - 1)) for _ in range(max(lengths))] for length in lengths]

    labels = scorer(words, is_word).labels(torch.tensor(heads))

    assert labels.shape == (*is_word.shape, N_LABELS)
    for row, length in enumerate(lengths):
        for dep in range(length):
            d = with_one_appended(naive_mlp(scorer.label_dep, words[row, dep]))
            h = with_one_appended(naive_mlp(scorer.label_head, words[row, heads[row][dep]]))
            expected = torch.stack([d @ weight @ h for weight in scorer.label_weight])
            torch.testing.assert_close(labels[row, dep], expected, atol=1e-4, rtol=1e-5)


@given(lengths=sentence_lengths)
def test_no_word_attaches_to_itself_or_to_padding(lengths):
    scorer, (words, is_word) = scorer_with(), words_of(lengths)

    arcs = scorer(words, is_word).arcs

    for row, length in enumerate(lengths):
        for dep in range(max(lengths)):
            heads = arcs[row, dep].isfinite().nonzero().flatten().tolist()
            assert heads == [head for head in range(length) if head != dep]
    assert (arcs.isfinite() | (arcs == -math.inf)).all()


def test_label_scores_are_computed_only_for_the_requested_heads():
    n_words, n_labels = 40, 50
    scorer, (words, is_word) = scorer_with(n_labels=n_labels), words_of([n_words])
    heads = torch.zeros(1, n_words, dtype=torch.int64)

    with Sizes() as sizes:
        scores = scorer(words.requires_grad_(), is_word)
        (scores.labels(heads).sum() + scores.arcs[scores.arcs.isfinite()].sum()).backward()

    assert n_words * n_labels <= sizes.largest < n_words * n_words * n_labels / 4


# Sentences that were scored alone


def test_the_scores_of_a_sentence_can_be_replaced():
    scorer, other = scorer_with(1), scorer_with(2)
    words, is_word = words_of([4, 2, 3])
    scores, alone = scorer(words, is_word), other(words[1:2, :2], is_word[1:2, :2])
    before = scores.arcs.clone()
    heads = torch.tensor([[0, 2, 0, 1], [0, 0, 0, 0], [0, 2, 0, 0]])

    merged = scores.with_rows({1: alone})

    torch.testing.assert_close(merged.arcs[1, :2, :2], alone.arcs[0])
    torch.testing.assert_close(merged.arcs[[0, 2]], scores.arcs[[0, 2]])
    assert (merged.arcs[1, :, 2:] == -math.inf).all()
    assert torch.equal(merged.labels(heads)[1, :2], alone.labels(heads[1:2, :2])[0])  # to the last bit
    assert torch.equal(merged.labels(heads)[[0, 2]], scores.labels(heads)[[0, 2]])
    assert torch.equal(scores.arcs, before)  # the original scores are unchanged
    assert scores.with_rows({}) is scores


# Dropout


def test_dropout_uses_one_mask_for_all_words_of_a_sentence():
    torch.manual_seed(1)
    dropout = SharedDropout(0.5).train()

    dropped = dropout(torch.ones(20, 4, 50))

    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert not torch.equal(dropped[0], dropped[1])
    assert set(dropped.flatten().tolist()) == {0.0, 2.0}
    assert dropped.mean().item() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("n_words", [0, 1, WORDS_AT_ONCE // 2, WORDS_AT_ONCE, 3 * WORDS_AT_ONCE + 1])
def test_the_number_of_words_scored_at_once_changes_no_label_score(n_words):
    generator = torch.Generator().manual_seed(1)
    dep, head = (torch.randn(2, n_words, 5, generator=generator) for _ in range(2))
    weight = torch.randn(N_LABELS, 5, 5, generator=generator)

    scores = label_scores(dep, head, weight)

    assert scores.shape == (2, n_words, N_LABELS)
    assert torch.allclose(scores, torch.einsum("bdi,lij,bdj->bdl", dep, weight, head), atol=1e-5)


@given(lengths=sentence_lengths, seed=st.integers(0, 100))
def test_skipping_padding_changes_no_score(lengths, seed):
    scorer, (words, is_word) = scorer_with(seed), words_of(lengths, seed)

    with_padding, without = scorer(words, is_word), scorer(words, is_word, is_word.flatten().nonzero()[:, 0])

    assert torch.allclose(without.arcs[is_word], with_padding.arcs[is_word], atol=1e-5)
    labels = [each.labels(with_padding.best_heads) for each in (with_padding, without)]
    assert torch.allclose(labels[0][is_word], labels[1][is_word], atol=1e-4)
    assert not labels[1][~is_word].any()
