import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from tests.support.generated_inputs import inputs_of
from tests.support.tensor_sizes import Sizes
from treefine.config import ScorerSettings
from treefine.model.batch import Batch
from treefine.model.scorer import WORDS_AT_ONCE, BiaffineScorer, SharedDropout, Tagger, label_scores

WIDTH, N_LABELS = 6, 3
SETTINGS = ScorerSettings(arc_width=5, label_width=4, dropout=0.4, slope=0.1)


def scored(scorer, words, batch):
    """Return the scores of the words of a batch."""
    return scorer(words, batch.is_word, batch.places, batch.roots)


def scorer_with(seed=1, settings=SETTINGS, n_labels=N_LABELS):
    """Return a scorer without zero weights."""
    scorer = BiaffineScorer(WIDTH, n_labels, settings).eval()
    generator = torch.Generator().manual_seed(seed)
    for weight in scorer.parameters():
        weight.data = torch.randn(weight.shape, generator=generator)
    return scorer


def words_of(lengths, seed=1):
    """Return random vectors for the words of sentences of these lengths, ROOT included, and their batch."""
    generator = torch.Generator().manual_seed(seed)
    batch = Batch.of(inputs_of([[[7]] * (length - 1) for length in lengths]), [length - 1 for length in lengths])
    return torch.randn(sum(lengths), WIDTH, generator=generator), batch


def of_sentences(words, lengths):
    """Return the vectors of the words of each sentence."""
    return words.split(lengths)


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
    scorer, (words, batch) = scorer_with(seed), words_of(lengths, seed)

    arcs = scored(scorer, words, batch).arcs

    for row, own in enumerate(of_sentences(words, lengths)):
        for dep in range(len(own)):
            for head in range(len(own)):
                if head == dep:
                    continue
                d, h = naive_mlp(scorer.arc_dep, own[dep]), naive_mlp(scorer.arc_head, own[head])
                expected = with_one_appended(d) @ scorer.arc_weight @ h
                torch.testing.assert_close(arcs[row, dep, head], expected, atol=1e-4, rtol=1e-5)


@few_examples
@given(lengths=sentence_lengths, seed=st.integers(0, 100), data=st.data())
def test_a_label_score_is_a_biaffine_form_with_linear_terms_for_both_words(lengths, seed, data):
    scorer, (words, batch) = scorer_with(seed), words_of(lengths, seed)
    heads = [[data.draw(st.integers(0, length - 1)) for _ in range(max(lengths))] for length in lengths]

    labels = scored(scorer, words, batch).labels(torch.tensor(heads))

    assert labels.shape == (*batch.is_word.shape, N_LABELS)
    for row, own in enumerate(of_sentences(words, lengths)):
        for dep in range(len(own)):
            d = with_one_appended(naive_mlp(scorer.label_dep, own[dep]))
            h = with_one_appended(naive_mlp(scorer.label_head, own[heads[row][dep]]))
            expected = torch.stack([d @ weight @ h for weight in scorer.label_weight])
            torch.testing.assert_close(labels[row, dep], expected, atol=1e-4, rtol=1e-5)


@given(lengths=sentence_lengths)
def test_no_word_attaches_to_itself_or_to_padding(lengths):
    scorer, (words, batch) = scorer_with(), words_of(lengths)

    arcs = scored(scorer, words, batch).arcs

    for row, length in enumerate(lengths):
        for dep in range(max(lengths)):
            heads = arcs[row, dep].isfinite().nonzero().flatten().tolist()
            assert heads == [head for head in range(length) if head != dep]
    assert (arcs.isfinite() | (arcs == -math.inf)).all()


def test_label_scores_are_computed_only_for_the_requested_heads():
    n_words, n_labels = 40, 50
    scorer, (words, batch) = scorer_with(n_labels=n_labels), words_of([n_words])
    heads = torch.zeros(1, n_words, dtype=torch.int64)

    with Sizes() as sizes:
        scores = scored(scorer, words.requires_grad_(), batch)
        (scores.labels(heads).sum() + scores.arcs[scores.arcs.isfinite()].sum()).backward()

    assert n_words * n_labels <= sizes.largest < n_words * n_words * n_labels / 4


# One of the sentences


@given(lengths=sentence_lengths, seed=st.integers(0, 100))
def test_the_scores_of_one_sentence_are_those_without_the_others(lengths, seed):
    scorer, (words, batch) = scorer_with(seed), words_of(lengths, seed)
    tagger = Tagger(WIDTH, (2, 3), dropout=0.0).eval()
    scores = replace(scored(scorer, words, batch), tagger=tagger)

    for row, own in enumerate(of_sentences(words, lengths)):
        expected = replace(scored(scorer, own, words_of([len(own)])[1]), tagger=tagger)
        part = scores.only(row)

        torch.testing.assert_close(part.arcs, expected.arcs)
        torch.testing.assert_close(part.best_labels, expected.best_labels)
        for ours, theirs in zip(part.tags, expected.tags, strict=True):
            torch.testing.assert_close(ours, theirs)


def test_tag_scores_are_padded_with_zeros_and_there_are_none_without_a_tagger():
    scorer, (words, batch) = scorer_with(), words_of([3, 2])
    tagger = Tagger(WIDTH, (2, 0), dropout=0.0).eval()

    scores = scored(scorer, words, batch)
    first, second = replace(scores, tagger=tagger).tags

    torch.testing.assert_close(first[batch.is_word], tagger.columns["0"](words))
    assert not first[~batch.is_word].any()
    assert second.shape == (2, 3, 0)  # a column that is not predicted
    assert scores.tags == ()


# Dropout


@pytest.mark.parametrize("is_padded", [True, False])
def test_dropout_uses_one_mask_for_all_words_of_a_sentence(is_padded):
    torch.manual_seed(1)
    dropout = SharedDropout(0.5).train()

    if is_padded:
        dropped = dropout(torch.ones(20, 4, 50))
    else:
        dropped = dropout(torch.ones(80, 50), torch.arange(0, 80, 4).repeat_interleave(4)).view(20, 4, 50)

    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert not torch.equal(dropped[0], dropped[1])
    assert set(dropped.flatten().tolist()) == {0.0, 2.0}
    assert dropped.mean().item() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("n_words", [0, 1, WORDS_AT_ONCE // 2, WORDS_AT_ONCE, 3 * WORDS_AT_ONCE + 1])
def test_the_number_of_words_scored_at_once_changes_no_label_score(n_words):
    generator = torch.Generator().manual_seed(1)
    dep, head = (torch.randn(n_words, 5, generator=generator) for _ in range(2))
    weight = torch.randn(N_LABELS, 5, 5, generator=generator)

    scores = label_scores(dep, head, weight)

    assert scores.shape == (n_words, N_LABELS)
    assert torch.allclose(scores, torch.einsum("wi,lij,wj->wl", dep, weight, head), atol=1e-5)
