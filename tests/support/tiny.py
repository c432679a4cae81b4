"""Tiny models with random weights, of every kind, for tests."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

from tests.support.data import DATA
from tests.support.tiny_tokenizers import byte_bpe, unigram, wordpiece
from treefine.config import (
    COLUMNS,
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
from treefine.parsing.parser import Parser
from treefine.treebank.conllu import read_treebank
from treefine.treebank.graph import Arcs

ALL_TAGS = TagSettings("predicted", COLUMNS, case=True, refined=True)
torch.set_num_threads(1)  # tests run in parallel, and competing threads are slow
SAMPLE = DATA / "en_ewt-sample.conllu"
TOKENIZERS = {"bert": wordpiece, "electra": wordpiece, "mpnet": wordpiece, "roberta": byte_bpe, "xlm-roberta": unigram}


def sample(n_sentences=60):
    return list(read_treebank(SAMPLE))[:n_sentences]


def short(n_sentences=35, *, longest=20):
    """Return the first short sentences of the sample; decoding long ones takes long."""
    return [sentence for sentence in sample() if len(sentence) <= longest][:n_sentences]


@cache
def vocabulary_of_sample():
    return Vocabulary.of_treebank(sample())


def tiny_shape(n_pieces, *, family="bert", n_positions=128, n_layers=2):
    return TransformerSettings(
        family=family,
        n_pieces=n_pieces,
        n_positions=n_positions,
        n_layers=n_layers,
        width=16,
        n_attention_heads=2,
        inner_width=24,
        embedding_width=8 if family == "electra" else 16,
        n_buckets=8 if family == "mpnet" else 0,
    )


def tiny_model(
    *,
    relations=None,
    tags=None,
    decode=None,
    stages=(),
    n_layers=2,
    sentence_layers=0,
    tokenizer=wordpiece,
    n_positions=128,
    family="bert",
    seed=1,
    scale=3.0,
    treebanks=(),
):
    """Return an RNGTr with weights so large that its graphs differ from step to step and some are not trees."""
    subwords = Subwords(tokenizer())
    settings = ModelSettings(
        tiny_shape(len(subwords), family=family, n_positions=n_positions, n_layers=n_layers),
        relations or RelationSettings(),
        tags or TagSettings(),
        ScorerSettings(arc_width=12, label_width=8),
        decode or DecodeSettings(),
        stages=stages,
        draft=ScorerSettings(arc_width=6, label_width=4),
        sentence_layers=sentence_layers,
    )
    vocabulary = replace(vocabulary_of_sample(), treebanks=treebanks)
    return _random(ParserModel(settings, vocabulary, subwords), seed, scale)


def tiny_syntr(**options):
    """Return a model that reads no graph."""
    return tiny_model(relations=RelationSettings(graph="none"), **options)


def _random(model, seed, scale):
    generator = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        noise = 0.1 * scale * torch.randn(weight.shape, generator=generator)
        is_norm = weight.dim() == 1 and bool((weight == 1).all())
        weight.data = 1 + noise if is_norm else noise
    return model.eval()


def tiny_parser(**options):
    return Parser(tiny_model(), device="cpu", **options)


def with_errors(arcs, labels, rng, *, rate=0.3):
    """Give about this share of the words the head ROOT and another label."""
    wrong = (rng.random(len(arcs.heads)) < rate).tolist()
    heads = tuple(0 if is_wrong else head for head, is_wrong in zip(arcs.heads, wrong, strict=True))
    names = (str(rng.choice(labels)) if is_wrong else name for name, is_wrong in zip(arcs.labels, wrong, strict=True))
    return Arcs(heads, tuple(names))


def sure_of_tags(model, times=100.0):
    """Multiply the tagger's scores, so that the model is sure of the tags that it predicts; return the model."""
    with torch.no_grad():
        for column in model.tagger.columns.values():
            column.weight *= times
            column.bias *= times
    return model


def write_encoder(folder: Path, family: str, *, seed=1):
    """Write a random encoder of this family as the reference library does; return that library's model."""
    import transformers

    tokenizer = TOKENIZERS[family]()
    shape = {
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": 66,
        "pad_token_id": 1 if family in ("roberta", "xlm-roberta", "mpnet") else 0,
    }
    if family == "electra":
        shape["embedding_size"] = 8
    config = transformers.AutoConfig.for_model(family, **shape)
    torch.manual_seed(seed)
    model = transformers.AutoModel.from_config(config).eval()
    for weight in model.parameters():
        weight.data += 0.3 * torch.randn(weight.shape)
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return model


def read_config(folder: Path):
    return json.loads((folder / "config.json").read_text())
