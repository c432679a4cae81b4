"""A straightforward implementation of RNGTr's training: a vector for each pair of pieces, and loops over sentences.

`training_speed` compares treefine with it. It is written from the paper's equations and uses the weights and the
optimiser of treefine's model, so that both give the loss of the same batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.model.attention import Layer, RelationAttention
from treefine.model.batch import PieceInputs
from treefine.model.encoder import TransformerEncoder
from treefine.model.parser_model import ParserModel
from treefine.model.scorer import BiaffineScorer, with_one
from treefine.model.vocabulary import UNSEEN
from treefine.training.optimiser import Optimiser
from treefine.treebank.graph import ROOT, Arcs
from treefine.treebank.sentence import Sentence


@dataclass(frozen=True)
class Parse:
    """The graph of one sentence; the first entries belong to word 1."""

    heads: list[int]
    labels: list[int]


class Straightforward:
    """Training of RNGTr with an update at each step and without early stopping.

    It supports labelled graphs with the default settings, given tags, and sentences that fit into one window.
    """

    def __init__(self, model: ParserModel, optimiser: Optimiser, *, max_steps: int, dtype: torch.dtype) -> None:
        assert isinstance(model.encoder, TransformerEncoder)
        self.model, self.encoder, self.optimiser = model, model.encoder, optimiser
        self.max_steps, self.dtype = max_steps, dtype
        self.device = optimiser.parameters[0].device
        self.root_label = model.vocabulary.label_id(model.settings.decode.root_label)

    def learn_from(self, sentences: Sequence[Sentence], arcs: Sequence[Arcs], progress: float) -> float:
        """Refine a batch from these graphs with an update at each step; return the loss per word and step."""
        gold, graphs = self.parses([each.arcs for each in sentences]), self.parses(arcs)
        on_host = self.model.batch_of(sentences).inputs
        assert isinstance(on_host, PieceInputs)
        inputs, tags = on_host.to(self.device), self.model.given_tags(sentences).to(self.device)
        n_words, summed = sum(map(len, sentences)), 0.0
        for _ in range(self.max_steps):
            with torch.autocast(self.device.type, dtype=self.dtype, enabled=self.dtype != torch.float32):
                matrices = [
                    relation_matrix(on_host, row, graph, self.encoder.n_labels) for row, graph in enumerate(graphs)
                ]
                vectors = self._encode(inputs, tags, torch.stack(matrices).to(self.device)).float()
            loss, graphs = self._score(vectors, inputs, gold)
            (loss / n_words).backward()  # type: ignore[no-untyped-call]
            summed += loss.item()
            self.optimiser.update(progress)
        return summed / (self.max_steps * n_words)

    def parses(self, arcs: Sequence[Arcs]) -> list[Parse]:
        """Return the graphs with the model's label ids; a missing head is ROOT."""
        label_ids = self.model.vocabulary.label_ids
        return [Parse([ROOT if head is None else head for head in each.heads], label_ids(each.labels)) for each in arcs]

    def _encode(self, inputs: PieceInputs, tags: Tensor, matrices: Tensor) -> Tensor:
        """Return the vectors of the pieces, [row, piece, width]."""
        places = torch.arange(inputs.pieces.shape[1], device=self.device)
        x = self.encoder.embed(inputs.pieces, inputs.words, places, inputs.piece_tags(tags, slice(None)))
        bias = torch.zeros(inputs.pieces.shape, device=self.device).masked_fill(~inputs.is_piece, -math.inf)
        for layer in self.encoder.layers:
            assert isinstance(layer, Layer)
            attended = attend(layer.attention, x, bias[:, None, None], matrices)
            x = layer.attention_norm(x + layer.dropout(attended))
            x = layer.outer_norm(x + layer.dropout(layer.outer(layer.activation(layer.inner(x)))))
        return x

    def _score(self, vectors: Tensor, inputs: PieceInputs, gold: Sequence[Parse]) -> tuple[Tensor, list[Parse]]:
        """Return the loss of all words, and the graph of each sentence."""
        loss, graphs = torch.zeros((), device=self.device), []
        for row, right in enumerate(gold):
            n_words = len(right.heads) + 1
            words = vectors[row, inputs.word_pieces[row, :n_words]]  # [word, width]
            arcs, dep, head = sentence_scores(self.model.scorer, words)
            right_heads = torch.tensor(right.heads, device=self.device)
            right_labels = torch.tensor(right.labels, device=self.device)
            weight = self.model.scorer.label_weight
            labels = torch.einsum("di,lij,dj->dl", dep, weight, head[right_heads])  # [dep, label]
            loss = loss + F.cross_entropy(arcs, right_heads, reduction="sum")
            loss = loss + F.cross_entropy(labels, right_labels, reduction="sum", ignore_index=UNSEEN)
            with torch.no_grad():
                best = arcs.argmax(-1)
                labels = torch.einsum("di,lij,dj->dl", dep, weight, head[best])
                graphs.append(Parse(best.tolist(), self._best_labels(best, labels)))
        return loss, graphs

    def _best_labels(self, heads: Tensor, labels: Tensor) -> list[int]:
        """Return the best label of each word; only words under ROOT have the root label."""
        if self.root_label is not None:
            is_root_label = torch.arange(labels.shape[1], device=self.device) == self.root_label
            labels = labels.masked_fill(is_root_label != (heads == ROOT)[:, None], -math.inf)
        found: list[int] = labels.argmax(-1).tolist()
        return found


def relation_matrix(inputs: PieceInputs, row: int, graph: Parse, n_labels: int) -> Tensor:
    """Return the relation of each query to each key of one sentence (Fig. 2, Sec. 5.3).

    If two words are heads of each other, each sees its own head: the relations to heads are written last.
    """
    n_kinds, n_pieces = n_labels + 1, inputs.pieces.shape[1]
    words, first_piece = inputs.words[row].tolist(), inputs.word_pieces[row].tolist()
    arcs = [  # a dependent, the piece above it, and the kind of the arc between them
        (first_piece[word], first_piece[head], label)
        for word, (head, label) in enumerate(zip(graph.heads, graph.labels, strict=True), start=1)
        if label != UNSEEN
    ]
    arcs += [
        (piece, first_piece[word], n_labels)
        for piece, word in enumerate(words)
        if word > 0 and piece != first_piece[word]
    ]
    matrix = torch.zeros((n_pieces, n_pieces), dtype=torch.int64)
    pieces, above, kinds = torch.tensor(arcs).T
    matrix[above, pieces] = kinds + 1
    matrix[pieces, above] = kinds + 1 + n_kinds
    return matrix


def attend(attention: RelationAttention, x: Tensor, bias: Tensor, matrices: Tensor) -> Tensor:
    """Compute one layer's attention by Eqs. 4 and 5, with a key and a value for each pair of pieces."""
    tables, dropout = attention.relations, attention.dropout if attention.training else 0.0
    assert tables is not None
    assert tables.norm is not None
    query, key, value = (
        linear(x).unflatten(-1, (attention.n_attention_heads, -1)).transpose(1, 2)  # [row, attn, piece, width]
        for linear in (attention.query, attention.key, attention.value)
    )
    keys = tables.norm(F.embedding(matrices, tables.keys))  # [row, query, key, width]
    values = F.embedding(matrices, tables.values)  # [row, query, key, width]
    scores = query @ key.transpose(-1, -2) + torch.einsum("raqw,rqkw->raqk", query, keys.to(query.dtype))
    weights = F.dropout((scores / math.sqrt(query.shape[-1]) + bias).softmax(-1), dropout)
    attended = weights @ value + torch.einsum("raqk,rqkw->raqw", weights, values.to(weights.dtype))
    output: Tensor = attention.output(attended.transpose(1, 2).flatten(2))
    return output


def sentence_scores(scorer: BiaffineScorer, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the arc scores of one sentence, without those of ROOT's head, and the vectors for labels (Eq. 6)."""
    batch = words[None]
    dep, head = with_one(scorer.arc_dep(batch))[0], scorer.arc_head(batch)[0]
    arcs = dep @ scorer.arc_weight @ head.T  # [dep, head]
    arcs = arcs.masked_fill(torch.eye(len(words), dtype=torch.bool, device=words.device), -math.inf)
    return arcs[1:], with_one(scorer.label_dep(batch))[0, 1:], with_one(scorer.label_head(batch))[0]
