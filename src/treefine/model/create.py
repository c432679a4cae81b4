"""Create untrained models: a pretrained encoder with the labels and tags of a treebank."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import torch

from treefine.config import (
    DecodeSettings,
    ModelSettings,
    RelationSettings,
    ScorerSettings,
    TagSettings,
)
from treefine.errors import ConfigError
from treefine.model.folder import fetch, from_four_bits, in_four_bits
from treefine.model.hf_weights import fill, load_encoder
from treefine.model.parser_model import ParserModel
from treefine.model.shrink_vocabulary import cut_subwords
from treefine.model.subwords import Subwords
from treefine.model.vocabulary import Vocabulary
from treefine.treebank.graph import ROOT
from treefine.treebank.sentence import BLANK, Sentence


def root_label_of(sentences: Iterable[Sentence]) -> str:
    """Return the label that every word under ROOT has and no other word has; "" if there is no such label."""
    under_root: set[str] = set()
    elsewhere: set[str] = set()
    for sentence in sentences:
        for head, label in zip(sentence.heads, sentence.labels, strict=True):
            (under_root if head == ROOT else elsewhere).add(label)
    is_one = len(under_root) == 1 and BLANK not in under_root
    return under_root.pop() if is_one and not under_root & elsewhere else ""


@dataclass(frozen=True)
class PieceChoice:
    """The pieces of a pretrained encoder that a model keeps, and their precision."""

    n_frequent: int | None = None  # keep the pieces of the treebank and this many others, the most frequent; None: all
    most_pieces: int = 0  # keep at most this many pieces of the treebank, the most frequent; 0: all
    table_bits: Literal[4, 32] = 32  # of a number in their embeddings; 4: they are rounded and not trained
    shares: Mapping[str, float] = field(default_factory=dict)  # how much a word of each treebank counts; 1 if not named

    def cut(self, subwords: Subwords, sentences: Iterable[Sentence]) -> tuple[Subwords, list[int]]:
        """Return subwords with these pieces, and the old id of each piece."""
        words: Counter[str] = Counter()
        for sentence in sentences:
            share = self.shares.get(sentence.treebank, 1)
            for form in sentence.forms:
                words[form] += share  # type: ignore[assignment]  # a share need not be whole
        return cut_subwords(subwords, words, self.n_frequent or 0, most_pieces=self.most_pieces)


def create_parser_model(
    encoder: str | os.PathLike[str],
    sentences: Iterable[Sentence],
    *,
    relations: RelationSettings | None = None,
    tags: TagSettings | None = None,
    scorer: ScorerSettings | None = None,
    decode: DecodeSettings | None = None,
    sentence_layers: int = 0,
    pieces: PieceChoice | None = None,
    fewest: int = 1,
    seed: int = 1,
) -> ParserModel:
    """Create RNGTr (or SynTr, with `relations.graph = "none"`) over a pretrained encoder from a folder or the hub.

    `sentences` is the training treebank; the model gets its labels, its tags, and features and lemma scripts that occur
    at least `fewest` times.
    """
    folder = fetch(encoder)
    shape, weights = load_encoder(folder)
    subwords = Subwords.from_folder(folder)
    sentences, pieces = list(sentences), pieces or PieceChoice()
    if pieces.n_frequent is not None:
        subwords, rows = pieces.cut(subwords, sentences)
        weights["pieces.weight"] = weights["pieces.weight"][rows]
        shape = replace(shape, n_pieces=len(rows))
    if pieces.table_bits == 4:
        try:
            shape = replace(shape, table_bits=4)
        except ValueError as error:
            raise ConfigError(f"{error}.", hint="Set table_bits = 32 in [encoder].", path=str(folder)) from None
        weights["pieces.weight"] = from_four_bits(*in_four_bits(weights["pieces.weight"]))
    settings = ModelSettings(
        shape,
        relations or RelationSettings(),
        tags or TagSettings(),
        scorer or ScorerSettings(),
        decode or DecodeSettings(root_label_of(sentences)),
        sentence_layers=sentence_layers,
    )
    columns, given = settings.tags.columns, settings.tags.given
    vocabulary = Vocabulary.of_treebank(sentences, columns=columns, given=given, fewest=fewest)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ParserModel(settings, vocabulary, subwords)
    fill(model.encoder, weights, path=str(folder))
    if subwords.mask_id is not None:  # MASK represents an unknown word, so it is a good initial vector for ROOT
        model.encoder.root.data.copy_(model.encoder.pieces.weight[subwords.mask_id].data)
    return model.eval()
