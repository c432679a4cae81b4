"""Wrappers around a tiny model that change its scores or run out of memory."""

from dataclasses import replace

import torch


class Wrapped(torch.nn.Module):
    """A model that looks to a parser like the model inside it."""

    def __init__(self, model):
        super().__init__()
        self.inner = model
        self.settings, self.vocabulary, self.subwords = model.settings, model.vocabulary, model.subwords
        self.batch_of, self.given_tags, self.tag_inputs = model.batch_of, model.given_tags, model.tag_inputs
        self.n_pieces, self.encoder = model.n_pieces, None


class Crowded(Wrapped):
    """A model that runs out of memory if it gets too many pieces at a time."""

    def __init__(self, model, most, error):
        super().__init__(model)
        self.most, self.error, self.refusals = most, error, 0

    def forward(self, batch, graphs, tags, *, rows_at_once=None):
        n_rows, width = batch.inputs.pieces.shape
        if min(rows_at_once or n_rows, n_rows) * width > self.most:
            self.refusals += 1
            raise self.error
        return self.inner(batch, graphs, tags, rows_at_once=rows_at_once)


class Noisy(Wrapped):
    """A model whose scores depend on the batch size, as those of a real model do, but a hundred times more."""

    def __init__(self, model, size):
        super().__init__(model)
        self.size = size

    def forward(self, batch, graphs, tags, **rest):
        scores = self.inner(batch, graphs, tags, **rest)
        generator = torch.Generator().manual_seed(len(batch))
        scores.arcs.add_(self.size * (2 * torch.rand(scores.arcs.shape, generator=generator) - 1))
        return scores


class Sure(Wrapped):
    """A model that gives the right heads a high confidence."""

    def __init__(self, model, graphs):
        super().__init__(model)
        self.graphs, self.sizes, self.batch_of = graphs, [], self.remembered
        self.gold = {}

    def remembered(self, sentences, pieces, **options):
        batch = self.inner.batch_of(sentences, pieces, **options)
        for sentence, pieces in zip(sentences, batch.inputs.pieces.tolist(), strict=True):
            self.gold[tuple(piece for piece in pieces if piece)] = self.graphs[sentence.forms].heads
        return batch

    def forward(self, batch, graphs, tags, **rest):
        self.sizes.append(len(batch))
        scores = self.inner(batch, graphs, tags, **rest)
        scores.arcs[:] = 0
        for row, pieces in enumerate(batch.inputs.pieces.tolist()):
            heads = self.gold[tuple(piece for piece in pieces if piece)]
            scores.arcs[row, range(len(heads)), heads] = 10
        return replace(scores, label_weight=clear_labels(scores))


def clear_labels(scores):
    """Return weights with which no two labels have close scores."""
    weight = torch.zeros_like(scores.label_weight)
    weight[:, -1, -1] = torch.arange(len(weight))
    return weight
