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

    def forward(self, batch, graphs, tags, **rest):
        if len(batch.inputs.pieces) > self.most:
            self.refusals += 1
            raise self.error
        return self.inner(batch, graphs, tags, **rest)


class Sure(Wrapped):
    """A model that gives the right heads a high confidence."""

    def __init__(self, model, graphs):
        super().__init__(model)
        self.graphs, self.sizes, self.batch_of = graphs, [], self.remembered
        self.gold = {}

    def remembered(self, sentences, pieces, **options):
        batch = self.inner.batch_of(sentences, pieces, **options)
        for sentence, key in zip(sentences, self.keys(batch), strict=True):
            self.gold[key] = self.graphs[sentence.forms].heads
        return batch

    def keys(self, batch):
        """Return the pieces of each sentence, which has one row."""
        rows = batch.inputs.pieces.split(batch.inputs.row_sizes)
        return [tuple(piece for piece in row.tolist() if piece) for row in rows]

    def forward(self, batch, graphs, tags, **rest):
        self.sizes.append(len(batch))
        scores, encoded = self.inner(batch, graphs, tags, **rest)
        scores.arcs[:] = 0
        for row, key in enumerate(self.keys(batch)):
            heads = self.gold[key]
            scores.arcs[row, range(len(heads)), heads] = 10
        return replace(scores, label_weight=clear_labels(scores)), encoded


def clear_labels(scores):
    """Return weights with which no two labels have close scores."""
    weight = torch.zeros_like(scores.label_weight)
    weight[:, -1, -1] = torch.arange(len(weight))
    return weight
