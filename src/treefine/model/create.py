"""Create untrained models: a pretrained encoder or a BiLSTM, with the labels and tags of a treebank."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

import torch

from treefine.config import (
    BiLSTMSettings,
    DecodeSettings,
    ModelSettings,
    RelationSettings,
    ScorerSettings,
    TagSettings,
)
from treefine.model.encoder import TransformerEncoder
from treefine.model.folder import fetch
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


def create_parser_model(
    encoder: str | os.PathLike[str],
    sentences: Iterable[Sentence],
    *,
    relations: RelationSettings | None = None,
    tags: TagSettings | None = None,
    scorer: ScorerSettings | None = None,
    decode: DecodeSettings | None = None,
    sentence_layers: int = 0,
    n_frequent: int | None = None,
    seed: int = 1,
) -> ParserModel:
    """Create RNGTr (or SynTr, with `relations.graph = "none"`) over a pretrained encoder from a folder or the hub.

    `sentences` is the training treebank; the model gets its labels and tags. With `n_frequent`, the piece embeddings
    are cut to the pieces that the treebank uses and the `n_frequent` most frequent others.
    """
    folder = fetch(encoder)
    shape, weights = load_encoder(folder)
    subwords = Subwords.from_folder(folder)
    sentences = list(sentences)
    if n_frequent is not None:
        words = {form for sentence in sentences for form in sentence.forms}
        subwords, rows = cut_subwords(subwords, words, n_frequent)
        weights["pieces.weight"] = weights["pieces.weight"][rows]
        shape = replace(shape, n_pieces=len(rows))
    settings = ModelSettings(
        shape,
        relations or RelationSettings(),
        tags or TagSettings(),
        scorer or ScorerSettings(),
        decode or DecodeSettings(root_label_of(sentences)),
        sentence_layers=sentence_layers,
    )
    columns, given = settings.tags.columns, settings.tags.given
    vocabulary = replace(Vocabulary.of_treebank(sentences, columns=columns, given=given), words=(), chars=())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ParserModel(settings, vocabulary, subwords)
    assert isinstance(model.encoder, TransformerEncoder)
    fill(model.encoder, weights, path=str(folder))
    if subwords.mask_id is not None:  # MASK represents an unknown word, so it is a good initial vector for ROOT
        model.encoder.root.data.copy_(model.encoder.pieces.weight[subwords.mask_id].data)
    return model.eval()


def create_biaffine_model(
    sentences: Iterable[Sentence],
    *,
    encoder: BiLSTMSettings | None = None,
    tags: TagSettings | None = None,
    scorer: ScorerSettings | None = None,
    decode: DecodeSettings | None = None,
    seed: int = 1,
) -> ParserModel:
    """Create the biaffine parser of Dozat and Manning (2017) for the words, labels and tags of a treebank."""
    sentences = list(sentences)
    settings = ModelSettings(
        encoder or BiLSTMSettings(),
        RelationSettings(graph="none"),
        tags or TagSettings(),
        scorer or ScorerSettings(),
        decode or DecodeSettings(root_label_of(sentences)),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        columns, given = settings.tags.columns, settings.tags.given
        return ParserModel(settings, Vocabulary.of_treebank(sentences, columns=columns, given=given)).eval()
