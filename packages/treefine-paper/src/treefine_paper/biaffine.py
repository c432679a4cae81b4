"""The biaffine parser of Dozat and Manning (2017): a BiLSTM over words, characters and tags, and treefine's scorer.

It is trained here. Its trees are written to files, which are what RNGTr refines and what is measured.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the customary name
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from treefine.config import DecodeSettings
from treefine.evaluation.scores import evaluate
from treefine.model.batch import padded, word_layout
from treefine.model.create import root_label_of
from treefine.model.encoder import TagEmbedding
from treefine.model.scorer import BiaffineScorer, Scores, SharedDropout
from treefine.model.vocabulary import NO_HEAD, UNSEEN, Vocabulary, flat_arcs
from treefine.parsing.decode import Decoder
from treefine.training.data import load_data
from treefine.training.folder import FolderNames
from treefine.training.optimiser import Optimiser
from treefine.training.recipe import Recipe
from treefine.treebank.conllu import read_treebank, write_treebank
from treefine.treebank.graph import Graph
from treefine.treebank.sentence import Sentence
from treefine_paper.predictions import n_parameters

COSTS = "costs.json"  # the number of parameters, and the seconds to parse each set
PADDING, ROOT_WORD, UNKNOWN = 0, 0, 1  # numbers of characters and words; the known ones follow
MOST_CHARS = 32  # of a word that are read
EMBEDDED, WIDTH, N_LAYERS, DROPOUT = (
    100,
    400,
    3,
    0.33,
)  # sizes of words, characters and tags; BiLSTM units per direction


class WordBatch(NamedTuple):
    """Sentences as padded tensors [batch, word]; the characters have one more dimension. Column 0 is ROOT."""

    words: Tensor
    chars: Tensor
    tags: Tensor
    heads: Tensor
    labels: Tensor
    is_word: Tensor  # true for words and ROOT
    places: Tensor  # of the words, as in treefine.model.batch.Batch …
    roots: Tensor  # … and the ROOT of each


class BiaffineParser(nn.Module):
    """The network, and the numbers of the labels, tags, characters and repeated words of its training set."""

    def __init__(self, train: Sequence[Sentence], recipe: Recipe) -> None:
        super().__init__()
        n_times = Counter(form.lower() for sentence in train for form in sentence.forms)
        repeated = sorted(word for word, n in n_times.items() if n > 1)
        self.word_numbers = {word: number for number, word in enumerate(repeated, UNKNOWN + 1)}
        chars = sorted({char for sentence in train for form in sentence.forms for char in form})
        self.char_numbers = {char: number for number, char in enumerate(chars, UNKNOWN + 1)}
        self.column, self.most_words = recipe.tags.columns[0], recipe.training.batch_pieces
        self.vocabulary = Vocabulary.of_treebank(train, columns=(self.column,))
        self.decoder = Decoder(self.vocabulary.label_id(root_label_of(train)), DecodeSettings().tree_over)

        self.words = nn.Embedding(len(repeated) + 2, EMBEDDED)
        self.chars = nn.Embedding(len(chars) + 2, EMBEDDED)
        self.char_lstm = nn.LSTM(EMBEDDED, EMBEDDED // 2, batch_first=True, bidirectional=True)
        self.tags = TagEmbedding(len(getattr(self.vocabulary, self.column)), EMBEDDED)
        self.dropout = SharedDropout(DROPOUT)
        widths = [3 * EMBEDDED, *[2 * WIDTH] * (N_LAYERS - 1)]
        self.layers = nn.ModuleList(nn.LSTM(width, WIDTH, batch_first=True, bidirectional=True) for width in widths)
        self.scorer = BiaffineScorer(2 * WIDTH, len(self.vocabulary.labels), recipe.scorer)

    def batch(self, sentences: Sequence[Sentence]) -> WordBatch:
        """Return sentences as tensors."""
        lengths = [len(sentence) for sentence in sentences]
        forms = [form for sentence in sentences for form in sentence.forms]
        words = np.array([self.word_numbers.get(form.lower(), UNKNOWN) for form in forms])
        chars = np.full((len(forms), min(MOST_CHARS, max(map(len, forms)))), PADDING)
        for row, form in zip(chars, forms, strict=True):
            row[: len(form)] = [self.char_numbers.get(char, UNKNOWN) for char in form[:MOST_CHARS]]
        all_chars = padded(chars, lengths, PADDING)
        all_chars[..., 0] = np.maximum(all_chars[..., 0], UNKNOWN)  # ROOT and padding have one unknown character
        tags = [tag for sentence in sentences for tag in getattr(sentence, self.column)]
        heads, labels = flat_arcs([sentence.arcs for sentence in sentences], self.vocabulary)
        rows = (
            padded(words, lengths, ROOT_WORD),
            all_chars,
            padded(np.array(self.vocabulary.tag_ids(self.column, tags)), lengths, 0),
            padded(heads, lengths, NO_HEAD),
            padded(labels, lengths, UNSEEN),
            *word_layout(lengths),
        )
        return WordBatch(*(torch.from_numpy(row).to(self.words.weight.device) for row in rows))

    def forward(self, batch: WordBatch) -> Scores:
        """Return the scores of all arcs."""
        features = [self.words(batch.words), self._spelling(batch.chars), self.tags(batch.tags)]
        x = torch.cat([self.dropout(feature) for feature in features], dim=-1)  # [batch, word, width]
        lengths = batch.is_word.sum(1).cpu()
        for layer in self.layers:
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            x, _ = pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=batch.is_word.shape[1])
            x = self.dropout(x)
        scores: Scores = self.scorer(x[batch.is_word], batch.is_word, batch.places, batch.roots)
        return scores

    def _spelling(self, chars: Tensor) -> Tensor:
        """Return the last states of a BiLSTM over each word's characters; a repeated word is encoded once."""
        words, place = torch.unique(chars.flatten(0, 1), dim=0, return_inverse=True)  # [different word, char]
        lengths = (words != PADDING).sum(1).cpu()
        packed = pack_padded_sequence(self.chars(words), lengths, batch_first=True, enforce_sorted=False)
        _, (last, _) = self.char_lstm(packed)
        return F.embedding(place, last.transpose(0, 1).flatten(1)).reshape(*chars.shape[:2], -1)

    def loss(self, batch: WordBatch) -> Tensor:
        """Return the mean loss of the heads and the labels of gold heads."""
        scores = self(batch)
        pairs = ((scores.arcs, batch.heads, NO_HEAD), (scores.labels(batch.heads), batch.labels, UNSEEN))
        losses = [F.cross_entropy(x.flatten(0, 1), y.flatten(), ignore_index=none) for x, y, none in pairs]
        return losses[0] + losses[1]

    @torch.no_grad()
    def parse(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """Return the sentences with the highest-scoring trees."""
        self.eval()
        parsed = list(sentences)
        for places in batches(sentences, self.most_words):
            batch = self.batch([sentences[place] for place in places])
            scores = self(batch)
            trees = self.decoder.trees(scores, self.decoder.graphs(scores, batch.is_word), batch.is_word)
            for place, heads, labels in zip(places, *trees.listed(), strict=True):
                end = len(sentences[place]) + 1
                names = [self.vocabulary.labels[label] for label in labels[1:end]]
                parsed[place] = sentences[place].with_graph(Graph.of_words(heads[1:end], names))
        return parsed


def batches(sentences: Sequence[Sentence], most_words: int) -> Iterator[list[int]]:
    """Yield the places of sentences of similar length, at most `most_words` with ROOT and padding together."""
    places: list[int] = []
    for place in sorted(range(len(sentences)), key=lambda place: len(sentences[place])):
        if places and (len(places) + 1) * (len(sentences[place]) + 1) > most_words:
            yield places
            places = []
        places.append(place)
    yield places


def train_biaffine(recipe: Recipe, test: str, folder: Path, device: torch.device) -> None:
    """Train a parser, and write its trees of all three sets into `folder`/model, which is complete once it exists.

    It uses the sections treebank, tags, scorer, optimiser and training of the recipe.
    """
    data, training = load_data(recipe.treebank), recipe.training
    torch.manual_seed(training.seed)
    rng = np.random.default_rng(training.seed)
    network = BiaffineParser(data.train, recipe).to(device)
    optimiser = Optimiser(network, recipe.optimiser)
    start, best_las, best_epoch, best = time.monotonic(), -1.0, 0, {}
    all_places = list(batches(data.train, training.batch_pieces))
    with (folder / FolderNames.metrics).open("w", encoding="utf-8") as metrics:
        for epoch in range(1, training.epochs + 1):
            network.train()
            losses = []
            for done, chosen in enumerate(rng.permutation(len(all_places)).tolist()):
                batch = network.batch([data.train[place] for place in all_places[chosen]])
                is_drawn = torch.rand(batch.words.shape, device=device) < training.masking
                batch.words[is_drawn & (batch.words > ROOT_WORD)] = UNKNOWN
                loss = network.loss(batch)
                torch.autograd.backward(loss)
                optimiser.update((epoch - 1 + done / len(all_places)) / training.epochs)
                losses.append(loss.detach())
            values = {"epoch": epoch, "loss": float(torch.stack(losses).mean())}
            if epoch % training.dev_every == 0 or epoch == training.epochs:
                with optimiser.averaged():
                    las = evaluate(data.dev, network.parse(data.dev), rule=recipe.treebank.rule)["LAS"].f1
                    if las > best_las:
                        best_las, best_epoch = las, epoch
                        best = {name: weight.clone() for name, weight in network.state_dict().items()}
                values["LAS"] = las
            values |= {"seconds": time.monotonic() - start, "updates": optimiser.n_updates}
            metrics.write(json.dumps(values) + "\n")
            metrics.flush()
            if epoch - best_epoch > training.patience:
                break
    network.load_state_dict(best)
    unfinished, seconds = folder / ".model", {}
    unfinished.mkdir(exist_ok=True)
    test_set = list(read_treebank(test, format=recipe.treebank.format or None))
    for split, sentences in {"train": data.train, "dev": data.dev, "test": test_set}.items():
        begin = time.perf_counter()
        parsed = network.parse(sentences)
        seconds[split] = time.perf_counter() - begin
        write_treebank(parsed, trees_file(unfinished, split))
    costs = {"parameters": n_parameters(network), "seconds": seconds}
    (unfinished / COSTS).write_text(json.dumps(costs))
    unfinished.rename(folder / FolderNames.model)


def trees_file(model: Path, split: str) -> Path:
    """Return the file with the trees of a set, in the format of the treebank."""
    return model / f"{split}.trees"
