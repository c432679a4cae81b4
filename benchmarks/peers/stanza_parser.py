"""Stanza's parser at the size of its English default, with random weights or trained for a few minutes.

Stanza's published models are not available here. This one has the default arguments, the vocabularies of the treebank,
and random stand-ins for downloads: word vectors (250,000 words of width 100, as in CoNLL 2017) and two character
language models (one LSTM layer of width 1024, as in 1billion). It reads words, lemmas and tags. Trees of an untrained
network take longer to find than those of a trained one, so "network alone" is its upper bound.
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.peers.answers import FILE, NETWORK, WORDS, Built, Clock, Way, answer, heads_in_file, random_bert

N_VECTORS, VECTOR_WIDTH = 250_000, 100
CHAR_LM = {"char_emb_dim": 100, "char_hidden_dim": 1024, "char_num_layers": 1, "char_dropout": 0.05}
CHAR_LM_REST = {"char_unit_dropout": 1e-5, "char_rec_dropout": 0.0}
WAYS = ("forward", "backward")  # of the character language models
ADAM = ["--optim", "adam", "--lr", "3e-3", "--beta2", "0.95", "--weight_decay", "0.0", "--no_second_optim"]


def build(
    source: str,
    train: str,
    folder: str,
    device: str,
    updates: int,
    update_words: int,
    has_char_lm: bool,
    batch_words: int,
    tokenizer: str,
    layers: int = 0,
    width: int = 0,
    **_: Any,
) -> Built:
    """Build the model of this size after this many updates; it is saved in the folder. A batch has `batch_words`.

    With `layers` it also reads a transformer of that size with random weights.
    """
    from stanza.pipeline.depparse_processor import DepparseProcessor
    from stanza.utils.conll import CoNLL

    Path(folder).mkdir(parents=True, exist_ok=True)
    bert = random_bert(Path(folder), tokenizer, layers, width) if layers else None
    size = Size(updates, update_words, has_char_lm, bert)
    is_new = not size.path(Path(folder)).exists()
    logging.getLogger("stanza").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")  # Stanza warns if it cannot repair a tree
    trainer, vectors = learned_model(train, Path(folder), device, size)
    clock = Clock()
    model = trainer.model
    model.forward_scores = clock.timed(NETWORK, model.forward_scores)
    config = {"trainer": trainer, "pretagged": True, "check_requirements": False, "lang": "en"}
    config |= {"batch_size": batch_words, "resolve_head_constraints": True}  # the default: one subject per head
    processor = DepparseProcessor(config, None, device)
    processor._pretrain = vectors  # otherwise Stanza downloads them
    output = Path(tempfile.mkdtemp(), "parsed.conllu")

    def parse_file() -> Path:
        document = CoNLL.conll2doc(input_file=source)
        processor.process(document)
        output.write_text(f"{document:C}\n\n", encoding="utf-8")
        return output

    given = CoNLL.conll2doc(input_file=source)  # parsed repeatedly; its heads are not read
    ways = {WORDS: Way(lambda: processor.process(given), _heads), FILE: Way(parse_file, heads_in_file)}
    return Built(ways, sum(each.numel() for each in model.parameters()), clock, has_learned=is_new)


def _heads(document: Any) -> Iterable[list[int]]:
    return ([-1 if word.head is None else word.head for word in each.words] for each in document.sentences)


class Size(NamedTuple):
    """The size of a model and how long it was trained."""

    updates: int
    update_words: int
    has_char_lm: bool
    bert: Path | None

    def path(self, folder: Path) -> Path:
        """Return the file of the model."""
        kind = "char_lm" if self.has_char_lm else "no_char_lm"
        name = kind if self.bert is None else f"{kind}-{self.bert.name}"
        return folder / f"{name}-{self.updates}x{self.update_words}.pt"


def learned_model(train: str, folder: Path, device: str, size: Size) -> tuple[Any, Any]:
    """Return the model and its word vectors."""
    from stanza.models import parser
    from stanza.models.common import utils
    from stanza.models.common.pretrain import Pretrain
    from stanza.models.depparse.data import DataLoader, InfiniteBatch
    from stanza.models.depparse.trainer import GraphTrainer, Trainer
    from stanza.utils.conll import CoNLL

    utils.set_random_seed(1)
    kept = size.path(folder)
    learned = None if kept.exists() else CoNLL.conll2doc(input_file=train)
    vectors = Pretrain(str(random_vectors(folder, learned)))
    files = {}
    if size.has_char_lm:
        files = {f"charlm_{way}_file": str(random_char_lm(folder, learned, way)) for way in WAYS}
    if learned is not None:
        batch = ["--batch_size", str(size.update_words)]
        args = parser.parse_args(["--lang", "en", "--shorthand", "en_ewt", *batch, *ADAM])
        args |= {"charlm": size.has_char_lm, "bert_model": None if size.bert is None else str(size.bert), **files}
        args["word_cutoff"] = utils.update_word_cutoff(vectors, args["word_cutoff"])
        batches = DataLoader(learned, size.update_words, args, vectors, evaluation=False)
        trainer = GraphTrainer(args=args, vocab=batches.vocab, pretrain=vectors, device="cpu")
        batches.reshuffle()
        endless = InfiniteBatch(batches)
        for _ in range(size.updates):
            trainer.update(endless.next_batch())
        trainer.save(str(kept))
    return Trainer.load(str(kept), vectors, args=files, device=device), vectors


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
