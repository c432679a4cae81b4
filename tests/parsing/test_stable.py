"""The same sentence gets the same tree whatever else is in its batch and however the input is ordered."""

import random
from dataclasses import replace

import pytest
import torch

from tests.tiny import sample, tiny_biaffine, tiny_model
from treefine.config import TagSettings
from treefine.parsing import run, stable
from treefine.parsing.parser import Parser

MODELS = {
    "given tags": lambda: tiny_model(),
    "predicted tags": lambda: tiny_model(tags=TagSettings("predicted", ("upos", "xpos"))),
    "windows": lambda: tiny_model(n_positions=16),
    "biaffine": lambda: tiny_biaffine(),
}


@pytest.mark.parametrize("kind", MODELS)
def test_batch_and_order_change_no_tree(kind):
    model = MODELS[kind]()
    sentences = sample(40)
    alone = [Parser(model, device="cpu").parse(sentence) for sentence in sentences]

    for batch_pieces in (30, 200, 10_000):
        order = list(range(len(sentences)))
        random.Random(batch_pieces).shuffle(order)
        parsed = Parser(model, device="cpu", batch_pieces=batch_pieces).parse([sentences[n] for n in order])
        assert parsed == [alone[number] for number in order]


class Noisy(torch.nn.Module):
    """A model whose scores depend on the size of its batch, as those of a real one do, but a thousand times more."""

    def __init__(self, model, size):
        super().__init__()
        self.inner, self.size = model, size
        self.settings, self.vocabulary, self.subwords = model.settings, model.vocabulary, model.subwords
        self.batch_of, self.given_tags = model.batch_of, model.given_tags

    def forward(self, batch, graphs, tags, **rest):
        scores = self.inner(batch, graphs, tags, **rest)
        generator = torch.Generator().manual_seed(len(batch))
        scores.arcs.add_(self.size * (2 * torch.rand(scores.arcs.shape, generator=generator) - 1))
        for vectors in (scores.label_dep, scores.label_head):
            vectors.add_(0.01 * self.size * (2 * torch.rand(vectors.shape, generator=generator) - 1))
        return scores


def trees(model, sentences, batch_pieces):
    return [parsed.graph for parsed in Parser(model, device="cpu", batch_pieces=batch_pieces).parse(sentences)]


def test_close_decisions_are_made_on_scores_that_do_not_depend_on_the_batch(monkeypatch):
    sentences = sample(60)
    model = tiny_model(scale=0.3)  # nearly all scores are close
    noisy = Noisy(model, 0.4 * stable.TOLERANCE)

    alone = trees(noisy, sentences, 1)

    assert trees(noisy, sentences, 300) == alone
    assert trees(noisy, sentences, 3000) == alone
    monkeypatch.setattr(run, "stable_scores", careless)
    assert trees(noisy, sentences, 300) != alone


def careless(score, decoder, batch, graphs, tags, *, needs_trees):
    return score(batch, graphs, tags)


def test_scores_of_one_sentence_differ_between_batches_by_far_less_than_the_tolerance():
    model = tiny_model()
    sentences = sample(40)
    with torch.no_grad():
        together = model(model.batch_of(sentences), None, model.given_tags(sentences)).arcs

        for row, sentence in enumerate(sentences):
            alone = model(model.batch_of([sentence]), None, model.given_tags([sentence])).arcs[0]
            n_words = len(sentence) + 1
            is_arc = ~torch.eye(n_words, dtype=torch.bool)
            difference = (together[row, :n_words, :n_words] - alone)[is_arc].abs().max()
            assert difference < 0.05 * stable.TOLERANCE


def test_sentences_with_clear_scores_and_trees_are_scored_once_a_step():
    sentences = sample(60)
    sure = Sure(tiny_model(n_positions=512), {sentence.forms: sentence.graph for sentence in sentences})

    parsed = Parser(sure, device="cpu", batch_pieces=500).parse(sentences)

    assert [each.heads for each in parsed] == [each.heads for each in sentences]
    assert sum(sure.sizes) == 2 * 60  # once to find the tree, and once to see that it stays


class Sure(Noisy):
    """A model that is sure of the right heads."""

    def __init__(self, model, graphs):
        super().__init__(model, 0.0)
        self.graphs, self.sizes, self.batch_of = graphs, [], self.remembered
        self.gold = {}

    def remembered(self, sentences):
        batch = self.inner.batch_of(sentences)
        for sentence, pieces in zip(sentences, batch.inputs.pieces.tolist(), strict=True):
            self.gold[tuple(piece for piece in pieces if piece)] = self.graphs[sentence.forms].heads
        return batch

    def forward(self, batch, graphs, tags, **rest):
        self.sizes.append(len(batch))
        scores = super().forward(batch, graphs, tags, **rest)
        scores.arcs[:] = 0
        for row, pieces in enumerate(batch.inputs.pieces.tolist()):
            heads = self.gold[tuple(piece for piece in pieces if piece)]
            scores.arcs[row, range(len(heads)), heads] = 10
        weight = torch.zeros_like(scores.label_weight)
        weight[:, -1, -1] = torch.arange(len(weight))
        return replace(scores, label_weight=weight)
