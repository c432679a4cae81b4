"""Teach the encoder of a parser to find the sentences of running text, in batches of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the customary name

from treefine.model.parser_model import ParserModel
from treefine.training.recipe import SegmenterTraining
from treefine.training.segmenter import Documents
from treefine.training.sentence_ends import sentence_f1
from treefine.treebank.raw_text import GapToken, RawText, raw_text
from treefine.treebank.sentence import Sentence

WINDOW = 192  # tokens
_BATCH_WINDOWS = 32
_IGNORED = -1.0  # the target of ROOT and padding


@dataclass(frozen=True)
class TextWindow:
    """A stretch of running text, and whether a sentence ends after each of its tokens."""

    tokens: tuple[GapToken, ...]
    ends: tuple[bool, ...]


def windows_of(text: RawText, *, start: int = 0) -> list[TextWindow]:
    """Cut a text into windows of the same number of tokens; the first one has only `start` tokens, if any."""
    gaps = [text.text[end:begin] for (_, end), (begin, _) in zip(text.spans, text.spans[1:], strict=False)]
    if text.spans:
        gaps = [text.text[: text.spans[0][0]], *gaps, text.text[text.spans[-1][1] :]]
    forms = [text.text[first:end] for first, end in text.spans]
    tokens = list(map(GapToken, forms, gaps, gaps[1:]))
    bounds = sorted({0, *range(start, len(tokens), WINDOW), len(tokens)})
    return [
        TextWindow(tuple(tokens[first:end]), text.ends_sentence[first:end])
        for first, end in zip(bounds, bounds[1:], strict=False)
    ]


class RunningText:
    """The text of a treebank, drawn again for each epoch."""

    def __init__(self, train: Sequence[Sentence], settings: SegmenterTraining) -> None:
        self.documents, self.settings = Documents.of(train), settings

    def batches(self, rng: np.random.Generator) -> list[list[TextWindow]]:
        """Return the windows of an epoch in random batches."""
        drawn = [
            windows_of(self.documents.draw(self.settings, rng), start=int(rng.integers(WINDOW)))
            for _ in range(self.settings.texts_per_epoch)
        ]
        windows = list(chain.from_iterable(drawn))
        order = rng.permutation(len(windows)).tolist()
        return [
            [windows[each] for each in order[first : first + _BATCH_WINDOWS]]
            for first in range(0, len(order), _BATCH_WINDOWS)
        ]


def end_loss(logits: Float[Tensor, "batch word"], windows: Sequence[TextWindow]) -> Float[Tensor, ""]:
    """Return the mean loss over the tokens of some windows. Column 0 of the logits is ROOT."""
    right = np.full(logits.shape, _IGNORED, np.float32)
    for row, window in zip(right, windows, strict=True):
        row[1 : len(window.ends) + 1] = window.ends
    targets = torch.from_numpy(right).to(logits.device)
    is_token = targets != _IGNORED
    return F.binary_cross_entropy_with_logits(logits[is_token], targets[is_token])


def encoder_f1(model: ParserModel, sentences: Sequence[Sentence]) -> float:
    """Return the F1 of the sentences that the encoder alone finds in the text of a treebank with gold tokens."""
    windows = windows_of(raw_text(sentences))
    found: list[bool] = []
    for first in range(0, len(windows), _BATCH_WINDOWS):
        some = windows[first : first + _BATCH_WINDOWS]
        for scores in model.sentence_end_scores([each.tokens for each in some]):
            found += (scores > 0).tolist()
    gold = [end for window in windows for end in window.ends]
    if gold:
        found[-1] = gold[-1] = True  # the text ends here
    return sentence_f1(np.array(found), np.array(gold))
