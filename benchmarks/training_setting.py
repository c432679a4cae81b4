"""What training is timed on: a model of a known size with random weights, and sentences that are made up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece

from treefine.config import (
    DecodeSettings,
    ModelSettings,
    RelationSettings,
    ScorerSettings,
    TagSettings,
    TransformerSettings,
)
from treefine.model.parser_model import ParserModel
from treefine.model.subwords import Subwords
from treefine.model.vocabulary import Vocabulary
from treefine.training.graphs import noised
from treefine.treebank.graph import Arcs, Graph
from treefine.treebank.sentence import Sentence

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LABELS = ("root", *(f"label{number}" for number in range(1, 50)))  # en_ewt has 50
TAGS = tuple(f"TAG{number}" for number in range(17))
LONG_WORDS = 0.3  # the share of the words that have two pieces; the others have one
WRONG_HEADS = 0.2  # of the graphs that refinement starts from: about the errors of a fair parser
SIZES = {  # layers, width, attention heads, pieces of the vocabulary
    "base": (12, 768, 12, 30_000),
    "small": (12, 384, 12, 30_000),
    "tiny": (2, 64, 2, 300),
}


def random_model(size: str, *, seed: int = 1) -> ParserModel:
    """RNGTr over an encoder of this size as it is initialised, for made-up sentences."""
    n_layers, width, n_attention_heads, n_pieces = SIZES[size]
    pieces = [*SPECIALS, "##x", *(f"s{number}" for number in range(n_pieces - len(SPECIALS) - 1))]
    tokenizer = Tokenizer(WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.add_special_tokens(list(SPECIALS))
    settings = ModelSettings(
        TransformerSettings(
            family="bert",
            n_pieces=n_pieces,
            n_positions=512,
            n_layers=n_layers,
            width=width,
            n_attention_heads=n_attention_heads,
            inner_width=4 * width,
            embedding_width=width,
        ),
        RelationSettings(),
        TagSettings(),
        ScorerSettings(),
        DecodeSettings("root"),
    )
    torch.manual_seed(seed)
    return ParserModel(settings, Vocabulary(labels=LABELS, upos=TAGS), Subwords(tokenizer))


def random_sentences(number: int, n_words: int, size: str, *, seed: int = 1) -> list[Sentence]:
    """Sentences of so many words, with random trees, labels and tags."""
    rng = np.random.default_rng(seed)
    stems = rng.integers(SIZES[size][3] - len(SPECIALS) - 1, size=(number, n_words)).tolist()
    is_long = (rng.random((number, n_words)) < LONG_WORDS).tolist()
    found = []
    for row in range(number):
        forms = [f"s{stem}{'x' * long}" for stem, long in zip(stems[row], is_long[row], strict=True)]
        heads = [0, *(int(rng.integers(1, word)) for word in range(2, n_words + 1))]  # a tree: heads come before
        labels = ["root", *(str(each) for each in rng.choice(LABELS[1:], n_words - 1))]
        sentence = Sentence.of_words(forms, upos=[str(each) for each in rng.choice(TAGS, n_words)])
        found.append(replace(sentence.with_graph(Graph.of_words(heads, labels)), number=row + 1))
    return found


def random_graphs(sentences: list[Sentence], *, seed: int = 1) -> list[Arcs]:
    """The trees of the sentences with errors, as an initial parser may make them."""
    rng, labels = np.random.default_rng(seed), np.array(LABELS)
    return [noised(each.arcs, WRONG_HEADS, labels, rng) for each in sentences]
