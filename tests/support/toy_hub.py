"""Tiny random encoders with the files, settings and weight names of the paper's encoders on the Hugging Face hub.

The files and settings are those of huggingface.co/google-bert/* and of huggingface.co/tohoku-nlp/bert-base-japanese:

- All are BertForMaskedLM with the heads of pre-training: `bert.pooler`, `cls.predictions` and `cls.seq_relationship`.
- In pytorch_model.bin, `cls.predictions.decoder.weight` is the table of word embeddings. A safetensors file cannot
  store a tensor twice, so model.safetensors lacks that name. Both files are older than the zip format.
- The models by Google name the weights of their norms gamma and beta, the others weight and bias.
- Only the Japanese model has neither model.safetensors nor tokenizer.json. Its config.json names its tokenizer.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from tests.support.tiny_tokenizers import bert_tokenizer
from tests.support.toy_treebanks import CHINESE, ENGLISH, GERMAN, UD, Language

WIDTH, INNER, LAYERS, ATTENTION_HEADS, POSITIONS = 16, 24, 2, 2, 128
Shapes = dict[str, tuple[int, ...]]

_UNUSED = tuple(f"[unused{number}]" for number in range(1, 10))  # 99 on the hub
_MARKS = ("[UNK]", "[CLS]", "[SEP]", "[MASK]")
_GOOGLE = ("[PAD]", *_UNUSED, *_MARKS, "<S>", "<T>")


@dataclass(frozen=True)
class HubEncoder:
    """The properties of one encoder on the hub that differ from those of the others."""

    languages: tuple[Language, ...]  # the scripts of its vocabulary
    specials: tuple[str, ...] = ("[PAD]", *_MARKS)  # the first pieces of its vocabulary
    lowercase: bool = False
    is_old: bool = True  # norms have gamma and beta
    is_fast: bool = True  # has tokenizer.json and model.safetensors


JAPANESE = "cl-tohoku/bert-base-japanese"
ENCODERS = {
    "bert-base-multilingual-cased": HubEncoder(tuple(language for _, language in UD.values()), _GOOGLE),
    "bert-base-chinese": HubEncoder((CHINESE,), _GOOGLE),
    "bert-base-uncased": HubEncoder((ENGLISH,), ("[PAD]", "[unused0]", *_UNUSED, *_MARKS), lowercase=True),
    "bert-base-german-cased": HubEncoder((GERMAN,), is_old=False),
    JAPANESE: HubEncoder((UD["UD_Japanese-GSD"][1],), is_old=False, is_fast=False),
}
_OF_JAPANESE = {"subword_tokenizer_type": "wordpiece", "word_tokenizer_type": "mecab"}


def toy_encoder(folder: Path, name: str) -> None:
    """Write the toy encoder of this name on the hub. The same name always gives the same files.

    `tohoku-nlp/bert-base-japanese` is the new name of `cl-tohoku/bert-base-japanese`, and `google-bert/NAME` the long
    name of the others.
    """
    encoder = ENCODERS[name.replace("tohoku-nlp/", "cl-tohoku/").removeprefix("google-bert/")]
    folder.mkdir(parents=True)
    pieces = vocabulary_of(encoder)
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    settings = {"do_lower_case": encoder.lowercase, "model_max_length": 512} | ({} if encoder.is_fast else _OF_JAPANESE)
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    config = bert_config(len(pieces)) | ({} if encoder.is_fast else {"tokenizer_class": "BertJapaneseTokenizer"})
    (folder / "config.json").write_text(json.dumps(config))
    weights = random_weights(encoder_shapes(len(pieces), is_old=encoder.is_old) | _heads(len(pieces), encoder.is_old))
    if encoder.is_fast:
        bert_tokenizer(pieces, lowercase=encoder.lowercase).save(str(folder / "tokenizer.json"))
        save_file(weights, folder / "model.safetensors")
    weights["cls.predictions.decoder.weight"] = weights["bert.embeddings.word_embeddings.weight"]
    torch.save(weights, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    (folder / "onnx").mkdir()
    for name in ("README.md", ".gitattributes", "flax_model.msgpack", "tf_model.h5", "model.onnx", "onnx/config.json"):
        (folder / name).write_text("not read by treefine\n")


def vocabulary_of(encoder: HubEncoder) -> list[str]:
    """Return special pieces, single characters (at the start of a word and inside), and some syllables."""
    ascii_characters = [chr(code) for code in range(33, 127)]
    if encoder.lowercase or encoder.languages == (CHINESE,):  # no capitals, as on the hub
        ascii_characters = [each for each in ascii_characters if not each.isupper()]
    syllables = [each for language in encoder.languages for each in (*language.syllables.split(), language.full_stop)]
    characters = dict.fromkeys([*ascii_characters, *"".join(syllables)])
    inside = [f"##{each}" for each in characters if each.isalnum() or not each.isascii()]
    longer = [part for each in syllables if len(each) > 1 for part in (each, f"##{each}")]
    return list(dict.fromkeys([*encoder.specials, *characters, *inside, *longer]))


def encoder_shapes(n_pieces: int, *, is_old: bool) -> Shapes:
    """Return the shapes of the weights whose names start with "bert."."""
    tables = {"word_embeddings": n_pieces, "position_embeddings": POSITIONS, "token_type_embeddings": 2}
    shapes: Shapes = {f"embeddings.{name}.weight": (rows, WIDTH) for name, rows in tables.items()}
    shapes |= _norm("embeddings", is_old) | _linear("pooler.dense", WIDTH, WIDTH)
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            shapes |= _linear(f"{layer}.attention.{name}", WIDTH, WIDTH)
        shapes |= _linear(f"{layer}.intermediate.dense", INNER, WIDTH) | _linear(f"{layer}.output.dense", WIDTH, INNER)
        shapes |= _norm(f"{layer}.attention.output", is_old) | _norm(f"{layer}.output", is_old)
    return {f"bert.{name}": shape for name, shape in shapes.items()}


def random_weights(shapes: Shapes) -> dict[str, Tensor]:
    """Return random weights that are the same in every run."""
    generator = torch.Generator().manual_seed(1)
    return {name: 0.3 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def _heads(n_pieces: int, is_old: bool) -> Shapes:
    shapes = {"cls.predictions.bias": (n_pieces,)} | _linear("cls.predictions.transform.dense", WIDTH, WIDTH)
    return shapes | _norm("cls.predictions.transform", is_old) | _linear("cls.seq_relationship", 2, WIDTH)


def _linear(name: str, n_out: int, n_in: int) -> Shapes:
    return {f"{name}.weight": (n_out, n_in), f"{name}.bias": (n_out,)}


def _norm(name: str, is_old: bool) -> Shapes:
    scale, shift = ("gamma", "beta") if is_old else ("weight", "bias")
    return {f"{name}.LayerNorm.{scale}": (WIDTH,), f"{name}.LayerNorm.{shift}": (WIDTH,)}


def bert_config(n_pieces: int) -> dict[str, Any]:
    """Return the settings that every BERT has."""
    return {
        "architectures": ["BertForMaskedLM"],
        "hidden_act": "gelu",
        "hidden_size": WIDTH,
        "intermediate_size": INNER,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": POSITIONS,
        "model_type": "bert",
        "num_attention_heads": ATTENTION_HEADS,
        "num_hidden_layers": LAYERS,
        "pad_token_id": 0,
        "type_vocab_size": 2,
        "vocab_size": n_pieces,
    }
