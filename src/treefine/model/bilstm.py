"""The encoder of the biaffine initial parser: a BiLSTM over words, characters and tags (Dozat and Manning 2017)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the customary name
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from treefine.config import BiLSTMSettings
from treefine.model.batch import Graphs, WordInputs
from treefine.model.encoder import TagEmbedding
from treefine.model.scorer import SharedDropout


class BiLSTMEncoder(nn.Module):
    """A BiLSTM from words, characters and tags to one vector per word. It reads no graph and has no maximum length."""

    def __init__(self, settings: BiLSTMSettings, *, n_words: int, n_chars: int, n_tags: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.width = 2 * settings.width
        self.tag_width = settings.tag_width
        self.words = nn.Embedding(n_words + 2, settings.word_width)  # ROOT, unknown, then the vocabulary
        self.chars = nn.Embedding(n_chars + 2, settings.char_width)  # padding, unknown, then the vocabulary
        half = (settings.char_width + 1) // 2
        self.char_lstm = nn.LSTM(settings.char_width, half, batch_first=True, bidirectional=True)
        self.tags = nn.ModuleList(TagEmbedding(number, settings.tag_width) for number in n_tags)
        width = settings.word_width + 2 * half + (settings.tag_width if n_tags else 0)
        self.dropout = SharedDropout(settings.dropout)
        self.layers = nn.ModuleList(
            nn.LSTM(width if layer == 0 else self.width, settings.width, batch_first=True, bidirectional=True)
            for layer in range(settings.n_layers)
        )

    def forward(
        self,
        inputs: WordInputs,
        tags: Int[Tensor, "batch word column"] | None,
        graphs: Graphs | None,
        *,
        rows_at_once: int | None = None,
    ) -> Float[Tensor, "batch word width"]:
        """Return the vector of each word. `graphs` and `rows_at_once` are ignored; all encoders share one signature."""
        del graphs, rows_at_once
        features = [self.words(inputs.words), self._spelling(inputs.chars)]
        if len(self.tags):
            tagged = features[0].new_zeros((*inputs.words.shape, self.tag_width))
            if tags is not None:
                for table, column in zip(self.tags, tags.unbind(-1), strict=True):
                    tagged = tagged + table(column)
            features.append(tagged)
        x = torch.cat([self.dropout(feature) for feature in features], dim=-1)  # [batch, word, width]
        n_words = x.shape[1]
        lengths = torch.tensor(inputs.lengths)
        for layer in self.layers:
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            x, _ = pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=n_words)
            x = self.dropout(x)
        return x

    def _spelling(self, chars: Int[Tensor, "batch word char"]) -> Float[Tensor, "batch word width"]:
        """Return the last states of a BiLSTM over each word's characters; a repeated word is encoded once."""
        words, place = torch.unique(chars.flatten(0, 1), dim=0, return_inverse=True)  # [different word, char]
        lengths = (words != 0).sum(1).cpu()
        packed = pack_padded_sequence(self.chars(words), lengths, batch_first=True, enforce_sorted=False)
        _, (last, _) = self.char_lstm(packed)
        spelling = F.embedding(place, last.transpose(0, 1).flatten(1))  # [batch * word, width]
        return spelling.reshape(*chars.shape[:2], -1)
