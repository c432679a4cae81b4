"""Which heads and labels each word of a batch may have, where a person decided some."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor


@dataclass(frozen=True)
class Allowed:
    """All that is not forbidden. The rows of ROOT and of padding allow everything."""

    heads: Bool[Tensor, "batch dep head"]
    labels: Bool[Tensor, "batch dep label"]

    def select(self, rows: Int[Tensor, " row"], n_words: int) -> Allowed:
        """Those of some sentences, cut to `n_words`, ROOT included."""
        return Allowed(self.heads[rows, :n_words, :n_words], self.labels[rows, :n_words])

    def to(self, device: torch.device) -> Allowed:
        """The same on another device."""
        return Allowed(self.heads.to(device), self.labels.to(device))
