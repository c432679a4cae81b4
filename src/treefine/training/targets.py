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
class StepTargets:
    """The teachers' most likely choices at one step for the words of a batch, and their share in the target."""

    ids: Int[Tensor, "batch word kind kept"]
    probabilities: Float[Tensor, "batch word kind kept"]  # 0 in sentences whose share is 0
    share: Float[Tensor, "batch 1"]  # the rest of the target is the tree of the sentence

    def cross_entropy(self, kind: int, scores: Float[Tensor, "batch word choice"]) -> Float[Tensor, "batch word"]:
        """Return the cross-entropy between the teachers' probabilities of one kind and the scores."""
        probabilities = self.probabilities[:, :, kind]
        logs = scores.log_softmax(-1).gather(-1, self.ids[:, :, kind])
        logs = logs.masked_fill(probabilities == 0, 0)  # it may be -inf, and 0 * -inf is not 0
        return -(probabilities * logs).sum(-1)


@dataclass(frozen=True)
class TargetBatch:
    """The targets of the sentences of one batch, at all steps."""

    ids: Int[Tensor, "batch word step kind kept"]
    probabilities: Float[Tensor, "batch word step kind kept"]
    share: Float[Tensor, "batch 1"]

    def select(self, rows: Int[Tensor, " row"], n_words: int) -> TargetBatch:
        """Return the targets of some sentences, cut to `n_words`, ROOT included."""
        return TargetBatch(self.ids[rows, :n_words], self.probabilities[rows, :n_words], self.share[rows])

    def at(self, t: int, graphs: Graphs) -> StepTargets:
        """Return the targets of step t. Sentences with decided arcs, unknown to the teachers, have share 0."""
        share = self.share
        if graphs.decided is not None:
            share = share * (graphs.decided == 0).all(1, keepdim=True)
        step = min(t, self.ids.shape[2]) - 1
        probabilities = self.probabilities[:, :, step] * (share > 0)[..., None, None]
        return StepTargets(self.ids[:, :, step], probabilities, share)


@dataclass(frozen=True)
class Targets:
    """The teachers' most likely choices for all words of all training sentences, laid end to end."""

    lengths: Int[np.ndarray, " sentence"]  # in words
    ids: Int[np.ndarray, "word step kind kept"]  # int16
    probabilities: Float[np.ndarray, "word step kind kept"]  # float16; they sum to 1
    shares: Float[np.ndarray, " sentence"]  # of the teachers in the target of each sentence

    @classmethod
    def blank(cls, lengths: Sequence[int], *, n_labelled: int, weight: float, n_steps: int, n_kinds: int) -> Targets:
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
    def load(cls, path: Path, sentences: Sequence[Sentence]) -> Targets:
        """Read the targets of these sentences."""
        hint = "Delete it, and resume: it is computed again."
        try:
            targets = cls(**load_file(path))
        except (OSError, SafetensorError, TypeError) as error:
            raise TreefineError(f"The file is damaged ({error}).", hint=hint, path=str(path)) from error
        if targets.lengths.tolist() != list(map(len, sentences)):
            raise TreefineError("The file has targets of other sentences.", hint=hint, path=str(path))
        return targets

    @cached_property
    def starts(self) -> Int[np.ndarray, " sentence"]:
        """The place of the first word of each sentence."""
        starts: np.ndarray = np.cumsum(self.lengths) - self.lengths
        return starts

    def of_batch(self, numbers: Sequence[int], device: torch.device) -> TargetBatch:
        """Return the targets of the sentences with these numbers. ROOT and padding have no targets."""
        lengths = self.lengths[numbers][:, None]
        place = np.arange(lengths.max() + 1)
        is_word = (place > 0) & (place <= lengths)  # [batch, word]
        words = np.where(is_word, self.starts[numbers][:, None] + place - 1, 0)
        wide = is_word[..., None, None, None]
        ids, probabilities = (torch.from_numpy(table[words] * wide) for table in (self.ids, self.probabilities))
        share = torch.from_numpy(self.shares[numbers])[:, None]
        return TargetBatch(sent(ids, device).long(), sent(probabilities, device).float(), sent(share, device))


@dataclass(frozen=True)
class DistillationData:
    """What a model learns from its teachers: more sentences, and targets for all sentences."""

    sentences: tuple[Sentence, ...]  # unlabelled sentences, with the teachers' trees and tags
    targets: Targets  # of the labelled sentences, then of these
    recipes: Mapping[str, Recipe] = field(default_factory=dict)  # of the teachers that were trained for this model
