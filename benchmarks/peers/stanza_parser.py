"""Stanza at the size of its English default: a tokenizer trained for a minute, a random tagger and a random parser.

Stanza's published models are not in a package registry. These have the default arguments, the vocabularies of the
treebank, and random stand-ins for downloads: word vectors (250,000 words of width 100, as in CoNLL 2017) and two
character language models (one LSTM layer of width 1024, as in 1billion). The lemma of each word is its form, which
takes no time. Trees of an untrained network take longer to find than those of a trained one.
"""

from __future__ import annotations

import json
import logging
import warnings
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.peers.answers import RUNNING, Requests, answer, timed
from treefine import read_treebank
from treefine.treebank.raw_text import text_of

N_VECTORS, VECTOR_WIDTH = 250_000, 100
CHAR_LM = {"char_emb_dim": 100, "char_hidden_dim": 1024, "char_num_layers": 1, "char_dropout": 0.05}
CHAR_LM_REST = {"char_unit_dropout": 1e-5, "char_rec_dropout": 0.0}
WAYS = ("forward", "backward")  # of the character language models
N_TOKENIZED, STEPS = 3000, 400  # sentences and steps to train the tokenizer
NAMES = ["--lang", "en", "--shorthand", "en_ewt"]


def build(inputs: str, train: str, folder: str, **_: Any) -> Requests:
    """Build the models, unless they are in the folder, and the pipeline of processors."""
    from stanza.models.common.doc import LEMMA, TEXT
    from stanza.models.common.foundation_cache import FoundationCache
    from stanza.pipeline.depparse_processor import DepparseProcessor
    from stanza.pipeline.pos_processor import POSProcessor
    from stanza.pipeline.tokenize_processor import TokenizeProcessor

    logging.getLogger("stanza").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")  # Stanza warns if it cannot repair a tree
    kept = Path(folder, "stanza")
    if not Path(kept, "parser.pt").exists():
        kept.mkdir(exist_ok=True)
        make_models(kept, train)
    pipeline: Any = SimpleNamespace(foundation_cache=FoundationCache(), loaded_processors=[])
    files = {f"{way}_charlm_path": str(kept / f"{way}.pt") for way in WAYS} | {
        "pretrain_path": str(kept / "vectors.pt")
    }
    config = {"lang": "en", "check_requirements": False, "pretagged": True, "batch_size": 5000, **files}
    sizes = {"resolve_head_constraints": True}  # the default: one subject per head
    tokenize = TokenizeProcessor(
        {"lang": "en", "model_path": str(kept / "tokenizer.pt"), "batch_size": 32}, pipeline, "cpu"
    )
    pipeline.loaded_processors.append(tokenize)
    tag = POSProcessor(config | {"model_path": str(kept / "tagger.pt"), "batch_size": 250}, pipeline, "cpu")
    parse = DepparseProcessor(config | sizes | {"model_path": str(kept / "parser.pt")}, pipeline, "cpu")
    texts = {RUNNING: json.loads(Path(inputs).read_text(encoding="utf-8"))["text"]}

    def run(text: str) -> None:
        document = tag.process(tokenize.process(text))
        document.set(LEMMA, document.get(TEXT))
        parse.process(document)

    return {"parse": lambda path: timed(lambda: run(texts[path])), "conllu": lambda text: ""}


def make_models(folder: Path, train: str) -> None:
    """Train the tokenizer, and save a tagger and a parser with random weights."""
    from stanza.models import parser, tagger, tokenizer
    from stanza.models.common import utils
    from stanza.models.common.pretrain import Pretrain
    from stanza.models.depparse.data import DataLoader
    from stanza.models.depparse.trainer import GraphTrainer
    from stanza.models.pos.data import Dataset
    from stanza.models.pos.trainer import Trainer as TaggerTrainer
    from stanza.utils.conll import CoNLL
    from stanza.utils.datasets import prepare_tokenizer_data

    utils.set_random_seed(1)
    text, source, labels, expansions = (str(folder / name) for name in ("text", "source.conllu", "labels", "mwt.json"))
    sentences = list(islice(read_treebank(train), N_TOKENIZED))
    Path(text).write_text(text_of(sentences), encoding="utf-8")
    Path(source).write_text("".join(each.to_conllu() for each in sentences), encoding="utf-8")
    prepare_tokenizer_data.main([text, source, "-o", labels, "-m", expansions])
    files = ["--txt_file", text, "--label_file", labels, "--dev_txt_file", text, "--dev_label_file", labels]
    files += ["--dev_conll_gold", source, "--mwt_json_file", expansions]
    steps = ["--steps", str(STEPS), "--eval_steps", str(STEPS)]
    tokenizer.main([*NAMES, *files, *steps, "--save_dir", str(folder), "--save_name", "tokenizer.pt", "--cpu"])

    document = CoNLL.conll2doc(input_file=source)
    vectors = Pretrain(str(random_vectors(folder, document)))
    char_lms = {f"charlm_{way}_file": str(random_char_lm(folder, document, way)) for way in WAYS}
    given = {"charlm": True, **char_lms}
    args = tagger.parse_args(NAMES) | given
    args["word_cutoff"] = utils.update_word_cutoff(vectors, args["word_cutoff"])
    vocabulary = Dataset.init_vocab([document], args, args["tag_columns"])
    TaggerTrainer(args, vocabulary, vectors, device="cpu").save(str(folder / "tagger.pt"))
    args = parser.parse_args(NAMES) | given | {"bert_model": None}
    args["word_cutoff"] = utils.update_word_cutoff(vectors, args["word_cutoff"])
    vocabulary = DataLoader(document, 5000, args, vectors, evaluation=False).vocab
    GraphTrainer(args, vocabulary, vectors, device="cpu").save(str(folder / "parser.pt"))


def random_vectors(folder: Path, document: Any) -> Path:
    """Return random vectors for the treebank's words, padded to the number that Stanza downloads."""
    from stanza.models.common.pretrain import Pretrain, PretrainedWordVocab

    path = folder / "vectors.pt"
    if not path.exists():
        words = sorted({word.text.lower() for sentence in document.sentences for word in sentence.words})
        words += [f"filler{number}" for number in range(N_VECTORS - len(words))]
        made = Pretrain(str(path))
        made._vocab = PretrainedWordVocab(words, lower=True)
        made._emb = torch.randn(len(made._vocab), VECTOR_WIDTH, generator=torch.Generator().manual_seed(1))
        made.save(str(path))
    return path


def random_char_lm(folder: Path, document: Any, way: str) -> Path:
    """Return an untrained character language model."""
    from stanza.models.common.char_model import CharacterLanguageModel
    from stanza.models.common.vocab import CharVocab

    path = folder / f"{way}.pt"
    if not path.exists():
        letters = {letter for sentence in document.sentences for word in sentence.words for letter in word.text}
        vocabulary = {"char": CharVocab([sorted({*letters, " ", "\n"})])}
        made = CharacterLanguageModel(CHAR_LM | CHAR_LM_REST, vocabulary, is_forward_lm=way == "forward")
        made.save(str(path))
    return path


if __name__ == "__main__":
    answer(build, ("stanza", "torch"))
