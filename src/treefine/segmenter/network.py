"""The segmenter's network: it encodes characters as numbers and scores where tokens and sentences end."""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from treefine.config import SegmenterSettings
from treefine.model.batch import OnDevice
from treefine.model.encoder import embedding
from treefine.model.scorer import SharedDropout

CATEGORIES = tuple("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split())
UNKNOWN = 1  # the row of a character or run without its own row; row 0 is for padding
N_RESERVED = 2  # rows for padding and UNKNOWN, before all others
WITHIN, ENDS, ENDS_MULTIWORD = 0, 1, 2  # the position of a character in its token
_NEARLY_EVEN = 0.8  # share of a batch that is not padding, above which padding is faster than packing
# A character: its row, that of its category, whether a run starts here, and the row of its run. White space belongs to
# the run before it.
_ENCODED = [(name, np.int64) for name in ("chars", "kinds", "starts_run", "hashes")]
_BORDER = " \0"  # between texts, so that no run is in two of them
_DIGIT = re.compile(r"\d")
_MOST_ROWS = 100_000  # runs whose rows are remembered
_SPACE, _LETTER, _OTHER, _UNSPACED = 0, 1, 2, 3  # groups of characters; adjacent letters form one run
# Letters of scripts that put no spaces between words: Thai, Lao, Tibetan, Burmese, Khmer, kana and Han.
_UNSPACED_SCRIPTS = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)


class Alphabet:
    """The characters that a network knows. Other characters are mapped to similar ones, or to UNKNOWN."""

    def __init__(self, characters: str, n_hashes: int, *, splits_unspaced: bool = False) -> None:
        self.characters, self.n_hashes, self.splits_unspaced = characters, n_hashes, splits_unspaced
        self._numbers = {each: number for number, each in enumerate(characters, start=N_RESERVED)}
        self._kinds = {name: number for number, name in enumerate(CATEGORIES, start=N_RESERVED)}
        self._seen: dict[int, tuple[int, int, int]] = {}  # results of `_described`
        self._rows: dict[str, int] = {}  # of each run so far, with 0 for each digit

    @classmethod
    def of(cls, text: str, settings: SegmenterSettings, *, fewest: int = 3) -> Alphabet:
        """Return the alphabet of the characters that a text has at least `fewest` times."""
        characters = "".join(sorted(each for each, count in Counter(text).items() if count >= fewest))
        return cls(characters, settings.n_hashes, splits_unspaced=settings.splits_unspaced)

    def __len__(self) -> int:
        """Return the number of rows of a table of characters."""
        return len(self.characters) + N_RESERVED

    def encode(self, text: str) -> np.recarray:
        """Return the text in numbers, one record (`_ENCODED`) per character.

        Runs that differ only in case and digits share a row. The row of a letter of a script without spaces is that of
        this letter and the next character.
        """
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        different, place = np.unique(codes, return_inverse=True)
        described = np.array([self._described(code) for code in different.tolist()], dtype=np.int64).reshape(-1, 3)
        chars, kinds, groups = described[place.reshape(-1)].T
        before = np.concatenate([[_SPACE], groups[:-1]])
        starts = (groups != _SPACE) & ((groups != _LETTER) | (before != _LETTER))
        starts[:1] = True
        first, is_unspaced = np.flatnonzero(starts), groups == _UNSPACED
        stops = np.append(first[1:], len(text))[: len(first)]  # an empty text has no run
        ends = np.minimum(stops + is_unspaced[first], len(text)) if is_unspaced.any() else stops
        digitless = _DIGIT.sub("0", text)
        if len(self._rows) > _MOST_ROWS:
            self._rows = {}
        rows = self._rows
        runs = [digitless[start:stop] for start, stop in zip(first.tolist(), ends.tolist(), strict=True)]
        for run in set(runs).difference(rows):
            rows[run] = zlib.crc32(run.rstrip().lower().encode("utf-8", "surrogatepass")) % self.n_hashes + N_RESERVED
        hashes = np.repeat(np.array([rows[run] for run in runs], dtype=np.int64), stops - first)
        encoded: np.recarray = np.rec.fromarrays([chars, kinds, starts, hashes], dtype=_ENCODED)
        return encoded

    def encode_all(self, texts: Sequence[str]) -> list[np.recarray]:
        """Return each text in numbers, with the same values as if it stood after another one."""
        stops = np.cumsum([len(_BORDER) + len(text) for text in texts])
        encoded = self.encode("".join([_BORDER + text for text in texts]))
        return [encoded[stop - len(text) : stop].view(np.recarray) for text, stop in zip(texts, stops, strict=True)]

    def _described(self, code: int) -> tuple[int, int, int]:
        """Return the row of a character, the row of its category, and its group."""
        if code in self._seen:
            return self._seen[code]
        character, category = chr(code), unicodedata.category(chr(code))
        number = self._numbers.get(character) or self._numbers.get(_plain(character), UNKNOWN)
        is_letter = category[0] in "LMN" or category == "Cf"
        group = _SPACE if character.isspace() else _LETTER if is_letter else _OTHER
        if group == _LETTER and self.splits_unspaced and _UNSPACED_SCRIPTS.match(character):
            group = _UNSPACED
        self._seen[code] = number, self._kinds[category], group
        return self._seen[code]


def _plain(character: str) -> str:
    """Return the plain form of a character, without accents or width variants, if Unicode defines one.

    >>> _plain("é"), _plain("！"), _plain("ж")
    ('e', '!', 'ж')
    """
    return unicodedata.normalize("NFKD", character)[0]


@dataclass(frozen=True)
class Windows(OnDevice):
    """A padded batch of stretches of text."""

    lengths: tuple[int, ...]  # in characters
    n_runs: tuple[int, ...]
    chars: Int[Tensor, "batch char"]
    kinds: Int[Tensor, "batch char"]
    run_of: Int[Tensor, "batch char"]  # the number of the character's run in its window
    first_char: Int[Tensor, "batch run"]  # of each run
    last_char: Int[Tensor, "batch run"]
    hashes: Int[Tensor, "batch run"]
    treebanks: Int[Tensor, " batch"]  # the number of the window's treebank; 0: unknown

    @classmethod
    def of(cls, stretches: Sequence[np.recarray], treebanks: Sequence[int] | None = None) -> Windows:
        """Return the batch of these stretches, with the numbers of their treebanks. No stretch may be empty."""
        rows = []
        for each in stretches:
            starts = each.starts_run.copy()
            starts[0] = 1  # even if the window starts inside a run
            first = np.flatnonzero(starts)
            last = np.append(first[1:], len(each)) - 1
            rows.append((each.chars, each.kinds, np.cumsum(starts) - 1, first, last, each.hashes[first]))
        columns = [[torch.from_numpy(row) for row in column] for column in zip(*rows, strict=True)]
        tensors = [pad_sequence(column, batch_first=True) for column in columns]
        tensors.append(torch.tensor([0] * len(rows) if treebanks is None else treebanks))
        return cls(tuple(map(len, columns[0])), tuple(map(len, columns[3])), *tensors)


class CutScores(NamedTuple):
    """The scores of each character for ending a token, a multiword token or a sentence."""

    token: Float[Tensor, "batch char 3"]  # WITHIN, ENDS, ENDS_MULTIWORD
    sentence: Float[Tensor, "batch char"]  # above zero: if a token ends here, so does its sentence


class SegmenterNetwork(nn.Module):
    """A BiLSTM over characters and one over runs of letters. The sum of their outputs scores each character.

    A network of several treebanks also has a vector per treebank, which it adds to each character. Vector 0 is that of
    an unknown treebank.
    """

    def __init__(self, settings: SegmenterSettings, *, n_chars: int, n_treebanks: int = 0) -> None:
        super().__init__()
        self.settings = settings
        self.chars = embedding(n_chars, settings.char_width)
        self.kinds = embedding(len(CATEGORIES) + N_RESERVED, settings.kind_width)
        self.hashes = embedding(settings.n_hashes + N_RESERVED, settings.hash_width)
        nn.init.zeros_(self.hashes.weight)  # a run that is not in the training text has no effect
        self.dropout = SharedDropout(settings.dropout)
        width = settings.char_width + settings.kind_width
        self.treebanks = embedding(n_treebanks + 1, width) if n_treebanks else None
        if self.treebanks is not None:
            nn.init.zeros_(self.treebanks.weight)
        self.char_layers = _layers(width, settings.char_hidden, settings.char_layers)
        width = 4 * settings.char_hidden + settings.hash_width
        self.run_layers = _layers(width, settings.run_hidden, settings.run_layers)
        self.of_char = nn.Linear(2 * settings.char_hidden, settings.run_hidden)
        self.of_run = nn.Linear(2 * settings.run_hidden, settings.run_hidden, bias=False)
        self.scorer = nn.Linear(settings.run_hidden, 4)

    def forward(self, windows: Windows, *, hidden: float = 0.0) -> CutScores:
        """Return the scores of each character. Training masks a share `hidden` of characters and twice that of runs."""
        chars, hashes = windows.chars, windows.hashes
        if hidden:
            chars, hashes = _hide(chars, hidden), _hide(hashes, 2 * hidden)
        spelled = torch.cat([self.chars(chars), self.kinds(windows.kinds)], dim=-1)
        spelled = self.dropout(spelled)
        if self.treebanks is not None:
            spelled = spelled + self.treebanks(windows.treebanks)[:, None]
        x = self._through(self.char_layers, spelled, windows.lengths)  # [batch, char, width]
        ends = [_at(x, windows.first_char), _at(x, windows.last_char), self.dropout(self.hashes(hashes))]
        runs = self._through(self.run_layers, torch.cat(ends, dim=-1), windows.n_runs)  # [batch, run, width]
        both = self.of_char(x) + _at(self.of_run(runs), windows.run_of)  # [batch, char, width]
        scores = self.scorer(torch.relu(both))  # [batch, char, 4]
        return CutScores(scores[..., :3], scores[..., 3])

    def _through(
        self, layers: nn.ModuleList, x: Float[Tensor, "batch place width"], lengths: tuple[int, ...]
    ) -> Float[Tensor, "batch place out"]:
        is_even, is_nearly_even = min(lengths) == x.shape[1], sum(lengths) > _NEARLY_EVEN * len(x) * x.shape[1]
        for layer in layers:
            if is_even:
                x, _ = layer(x)
            elif is_nearly_even and x.device.type == "cpu" and not self.training:
                x = padded_lstm(layer, x, lengths)
            else:
                packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
                x, _ = pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=x.shape[1])
            x = self.dropout(x)
        return x


def padded_lstm(
    layer: nn.Module, x: Float[Tensor, "batch place width"], lengths: Sequence[int]
) -> Float[Tensor, "batch place out"]:
    """Return the output of a BiLSTM for rows of different lengths; padding has any value.

    With little padding this is faster on a CPU than a packed sequence, for which torch has no fast kernel.
    """
    places, ends = torch.arange(x.shape[1]), torch.tensor(lengths)[:, None]
    reverse = torch.where(places < ends, ends - 1 - places, places)  # [batch, place]
    return torch.cat([_one_way(layer, x, ""), _at(_one_way(layer, _at(x, reverse), "_reverse"), reverse)], dim=-1)


def _one_way(layer: nn.Module, x: Float[Tensor, "batch place width"], way: str) -> Float[Tensor, "batch place out"]:
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    weights: list[Tensor] = [layer.get_parameter(f"{name}_l0{way}") for name in names]
    state = x.new_zeros(1, x.shape[0], weights[1].shape[1])
    return torch.lstm(x, (state, state), weights, True, 1, 0.0, False, False, True)[0]


def _layers(width: int, hidden: int, number: int) -> nn.ModuleList:
    widths = [width, *[2 * hidden] * (number - 1)]
    return nn.ModuleList(nn.LSTM(each, hidden, batch_first=True, bidirectional=True) for each in widths)


def _at(
    x: Float[Tensor, "batch place width"], places: Int[Tensor, "batch other"]
) -> Float[Tensor, "batch other width"]:
    """Return the vectors at these places of each row."""
    return x.gather(1, places[:, :, None].expand(-1, -1, x.shape[2]))


def _hide(numbers: Int[Tensor, "batch place"], share: float) -> Int[Tensor, "batch place"]:
    return numbers.masked_fill(torch.rand(numbers.shape, device=numbers.device) < share, UNKNOWN)
