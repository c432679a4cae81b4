"""Words hidden at random while training, so that a small treebank is not learned by heart."""

from __future__ import annotations

from dataclasses import replace

import torch

from treefine.network.batch import Batch, WordInputs

_UNKNOWN_WORD = 1  # as in `Vocabulary.word_ids`


def with_hidden(batch: Batch, share: float, hidden_piece: int) -> Batch:
    """The batch with about this share of its pieces replaced by one that says nothing; ROOT, CLS and SEP stay.

    A BiLSTM's words become unknown ones, and keep their characters.
    """
    if not share:
        return batch
    inputs = batch.inputs
    if isinstance(inputs, WordInputs):
        is_hidden = (torch.rand(inputs.words.shape, device=inputs.words.device) < share) & (inputs.words > 0)
        return replace(batch, inputs=replace(inputs, words=inputs.words.masked_fill(is_hidden, _UNKNOWN_WORD)))
    is_hidden = (torch.rand(inputs.pieces.shape, device=inputs.pieces.device) < share) & (inputs.words > 0)
    return replace(batch, inputs=replace(inputs, pieces=inputs.pieces.masked_fill(is_hidden, hidden_piece)))
