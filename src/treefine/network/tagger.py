"""Tags from the first pass, so that no outside tagger is needed."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn


class Tagger(nn.Module):
    """Word vectors to a score for each tag of each column; the first tag has the id 1, as 0 is no tag."""

    def __init__(self, width: int, n_tags: tuple[int, ...], dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.columns = nn.ModuleList(nn.Linear(width, number) for number in n_tags)

    def forward(self, words: Float[Tensor, "batch word width"]) -> tuple[Float[Tensor, "batch word _"], ...]:
        """The scores, column by column."""
        words = self.dropout(words)
        return tuple(column(words) for column in self.columns)
