"""The targets that teachers set for each word of the training sentences, and the loss of a model that learns them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError
from safetensors.numpy import load_file, save
from torch import Tensor

from treefine.errors import TreefineError
from treefine.model.batch import Graphs, sent
from treefine.training.recipe import Recipe
from treefine.treebank.files import open_output
from treefine.treebank.sentence import Sentence

N_KEPT = 8  # choices per word; the others have hardly any probability
HEADS, LABELS, FIRST_TAGS = 0, 1, 2  # the kinds of choices; each column of tags is one more


@dataclass(frozen=True)
class SoftTargets:
    """The teachers' most likely choices for the words of a batch, and their share in the target of each word."""

    ids: Int[Tensor, "batch word kept"]
    probabilities: Float[Tensor, "batch word kept"]  # 0 in sentences whose share is 0
    share: Float[Tensor, "batch 1"]

    def cross_entropy(self, scores: Float[Tensor, "batch word choice"]) -> Float[Tensor, "batch word"]:
        """Return the cross-entropy between the teachers' probabilities and the scores."""
        logs = scores.log_softmax(-1).gather(-1, self.ids)
        logs = logs.masked_fill(self.probabilities == 0, 0)  # it may be -inf, and 0 * -inf is not 0
        return -(self.probabilities * logs).sum(-1)


@dataclass(frozen=True)
class TaughtBatch:
    """The targets of the sentences of one batch."""

    ids: Int[Tensor, "batch word step kind kept"]
    probabilities: Float[Tensor, "batch word step kind kept"]
    share: Float[Tensor, "batch 1"]  # of the teachers in the target; the rest is the tree of the sentence

    def select(self, rows: Int[Tensor, " row"], n_words: int) -> TaughtBatch:
        """Return the targets of some sentences, cut to `n_words`, ROOT included."""
        return TaughtBatch(self.ids[rows, :n_words], self.probabilities[rows, :n_words], self.share[rows])

    def at(self, t: int, graphs: Graphs) -> TaughtBatch:
        """Return the targets of step t. Sentences with decided arcs, unknown to the teachers, have share 0."""
        share = self.share
        if graphs.decided is not None:
            share = share * (graphs.decided == 0).all(1, keepdim=True)
        last = min(t, self.ids.shape[2])
        part = slice(last - 1, last)
        return TaughtBatch(self.ids[:, :, part], self.probabilities[:, :, part], share)

    def soft(self, kind: int) -> SoftTargets:
        """Return the targets of one kind, at the first step that this has."""
        probabilities = self.probabilities[:, :, 0, kind] * (self.share > 0)[..., None]
        return SoftTargets(self.ids[:, :, 0, kind], probabilities, self.share)


@dataclass(frozen=True)
class TeacherTargets:
    """The teachers' most likely choices for all words of all training sentences, laid end to end."""

    lengths: Int[np.ndarray, " sentence"]  # in words
    ids: Int[np.ndarray, "word step kind kept"]  # int16
    probabilities: Float[np.ndarray, "word step kind kept"]  # float16; they sum to 1
    shares: Float[np.ndarray, " sentence"]  # of the teachers in the target of each sentence

    @classmethod
    def blank(
        cls, lengths: Sequence[int], *, n_labelled: int, weight: float, n_steps: int, n_kinds: int
    ) -> TeacherTargets:
        """Return targets to fill in; the first sentences are labelled, and the teachers have this weight in them."""
        shape = (sum(lengths), n_steps, n_kinds, N_KEPT)
        places = np.arange(len(lengths))
        shares = np.where(places < n_labelled, weight, 1.0).astype(np.float32)
        return cls(np.array(lengths, np.int64), np.zeros(shape, np.int16), np.zeros(shape, np.float16), shares)

    def save(self, path: Path) -> None:
        """Write the targets to a file, which replaces an older one when it is complete."""
        arrays = {name: getattr(self, name) for name in ("lengths", "ids", "probabilities", "shares")}
        with open_output(path, is_synced=True) as file:
            file.write(save(arrays))

    @classmethod
    def load(cls, path: Path, sentences: Sequence[Sentence]) -> TeacherTargets:
        """Read the targets of these sentences."""
        hint = "Delete it, and resume: it is computed again."
        try:
            found = cls(**load_file(path))
        except (OSError, SafetensorError, TypeError) as error:
            raise TreefineError(f"The file is damaged ({error}).", hint=hint, path=str(path)) from error
        if found.lengths.tolist() != [len(each) for each in sentences]:
            raise TreefineError("The file has targets of other sentences.", hint=hint, path=str(path))
        return found

    @cached_property
    def starts(self) -> Int[np.ndarray, " sentence"]:
        """The place of the first word of each sentence."""
        starts: np.ndarray = np.cumsum(self.lengths) - self.lengths
        return starts

    def of_batch(self, numbers: Sequence[int], device: torch.device) -> TaughtBatch:
        """Return the targets of the sentences with these numbers. ROOT and padding have no targets."""
        lengths = self.lengths[numbers][:, None]
        place = np.arange(lengths.max() + 1)
        is_word = (place > 0) & (place <= lengths)  # [batch, word]
        words = np.where(is_word, self.starts[numbers][:, None] + place - 1, 0)
        wide = is_word[..., None, None, None]
        ids, probabilities = (torch.from_numpy(each[words] * wide) for each in (self.ids, self.probabilities))
        share = torch.from_numpy(self.shares[numbers])[:, None]
        return TaughtBatch(sent(ids, device).long(), sent(probabilities, device).float(), sent(share, device))


@dataclass(frozen=True)
class Taught:
    """The lessons of a model: sentences with the trees of its teachers, and the targets of all sentences."""

    sentences: tuple[Sentence, ...]  # unlabelled sentences, with the teachers' trees and tags
    targets: TeacherTargets  # of the labelled sentences, then of these
    recipes: Mapping[str, Recipe] = field(default_factory=dict)  # of the teachers that were trained for this model
