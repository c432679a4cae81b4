"""Raw text to scores of where tokens, multiword tokens and sentences end, learned from a treebank."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from treefine.config import SegmenterSettings
from treefine.network.biaffine import SharedDropout
from treefine.network.characters import CATEGORIES, N_SPECIALS, UNKNOWN, Windows

WITHIN, ENDS, ENDS_MULTIWORD = 0, 1, 2  # what a character may be to its token


class CutScores(NamedTuple):
    """Of each character: whether a token, and if so a multiword one, ends with it, and whether a sentence does."""

    token: Float[Tensor, "batch char 3"]  # WITHIN, ENDS, ENDS_MULTIWORD
    sentence: Float[Tensor, "batch char"]  # above zero: if a token ends here, so does its sentence


class SegmenterNetwork(nn.Module):
    """A BiLSTM over characters; one over runs of letters, which sees some hundred words; both score each character."""

    def __init__(self, settings: SegmenterSettings, *, n_chars: int) -> None:
        super().__init__()
        self.settings = settings
        self.chars = nn.Embedding(n_chars, settings.char_width)
        self.kinds = nn.Embedding(len(CATEGORIES) + N_SPECIALS, settings.kind_width)
        self.hashes = nn.Embedding(settings.n_hashes + N_SPECIALS, settings.hash_width)
        nn.init.zeros_(self.hashes.weight)  # a run that was never learned from says nothing
        self.dropout = SharedDropout(settings.dropout)
        width = settings.char_width + settings.kind_width
        self.char_layers = _layers(width, settings.char_hidden, settings.char_layers)
        width = 4 * settings.char_hidden + settings.hash_width
        self.run_layers = _layers(width, settings.run_hidden, settings.run_layers)
        self.of_char = nn.Linear(2 * settings.char_hidden, settings.run_hidden)
        self.of_run = nn.Linear(2 * settings.run_hidden, settings.run_hidden, bias=False)
        self.scorer = nn.Linear(settings.run_hidden, 4)

    def forward(self, windows: Windows, *, hidden: float = 0.0) -> CutScores:
        """The scores of each character; in training, `hidden` is the share of characters and runs it does not know."""
        chars, hashes = _hide(windows.chars, hidden), _hide(windows.hashes, 2 * hidden)
        spelled = torch.cat([self.chars(chars), self.kinds(windows.kinds)], dim=-1)
        x = self._through(self.char_layers, self.dropout(spelled), windows.lengths)  # [batch, char, width]
        ends = [_at(x, windows.first_char), _at(x, windows.last_char), self.dropout(self.hashes(hashes))]
        runs = self._through(self.run_layers, torch.cat(ends, dim=-1), windows.n_runs)  # [batch, run, width]
        both = self.of_char(x) + _at(self.of_run(runs), windows.run_of)  # [batch, char, width]
        scores = self.scorer(torch.relu(both))  # [batch, char, 4]
        return CutScores(scores[..., :3], scores[..., 3])

    def _through(
        self, layers: nn.ModuleList, x: Float[Tensor, "batch place width"], lengths: tuple[int, ...]
    ) -> Float[Tensor, "batch place out"]:
        is_even = min(lengths) == x.shape[1]
        for layer in layers:
            if is_even:
                x, _ = layer(x)
            else:
                packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
                x, _ = pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=x.shape[1])
            x = self.dropout(x)
        return x


def _layers(width: int, hidden: int, number: int) -> nn.ModuleList:
    return nn.ModuleList(
        nn.LSTM(width if layer == 0 else 2 * hidden, hidden, batch_first=True, bidirectional=True)
        for layer in range(number)
    )


def _at(
    x: Float[Tensor, "batch place width"], places: Int[Tensor, "batch other"]
) -> Float[Tensor, "batch other width"]:
    """The vectors at these places of each row."""
    return x.gather(1, places[:, :, None].expand(-1, -1, x.shape[2]))


def _hide(numbers: Int[Tensor, "batch place"], share: float) -> Int[Tensor, "batch place"]:
    if not share:
        return numbers
    return numbers.masked_fill(torch.rand(numbers.shape, device=numbers.device) < share, UNKNOWN)
