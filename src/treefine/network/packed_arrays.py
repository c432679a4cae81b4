"""Sentences laid end to end in flat arrays: what goes into the engine of a GPU, and what comes out of it.

Neither torch nor objects for words are needed to make them, so that other processes can.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int


@dataclass(frozen=True)
class Packed:
    """Sentences as the engine reads them."""

    pieces: Int[np.ndarray, " piece"]  # of words alone: CLS, ROOT and SEP are not among them
    counts: Int[np.ndarray, " word"]  # pieces of each word, one at least
    lengths: Int[np.ndarray, " sentence"]  # words of each sentence, one at least
    heads: Int[np.ndarray, " word"]  # of the initial graph, counted in its sentence; 0 is ROOT, NO_HEAD where none
    labels: Int[np.ndarray, " word"]  # UNSEEN where there is none, or none that the model has
    tags: Int[np.ndarray, "word column"] | None = None  # that are given; 0 for none. None where no tags are read

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.lengths)


@dataclass(frozen=True)
class PackedTrees:
    """The trees of such sentences, and the tags of their words where a model predicts them."""

    heads: Int[np.ndarray, " word"]  # counted in the sentence; 0 is ROOT
    labels: Int[np.ndarray, " word"]
    tags: Int[np.ndarray, "word column"] | None = None  # the best tag of each word, counted from 1
