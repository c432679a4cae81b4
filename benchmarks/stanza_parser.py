"""Stanza's parser module beside ours, in a Python of its own: `parse_speed` starts this file and asks it to parse.

It imports nothing of treefine, for Stanza is installed apart. Stanza's models cannot be had here, so this one has the
size of the English default and weights that are random, or learned for some minutes: all its default arguments, the
vocabularies of the treebank, and random stand-ins for what is downloaded. Those are word vectors (250,000 words of
width 100, as en has of CoNLL 2017) and two character language models (one LSTM layer of width 1024, as of 1billion).

Each line of standard input is a request in JSON, and is answered by a line in JSON.
"""

from __future__ import annotations

import json
import logging
import random
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

N_VECTORS, VECTOR_WIDTH = 250_000, 100
CHAR_LM = {"char_emb_dim": 100, "char_hidden_dim": 1024, "char_num_layers": 1, "char_dropout": 0.05}
CHAR_LM_REST = {"char_unit_dropout": 1e-5, "char_rec_dropout": 0.0}
WAYS = ("forward", "backward")  # of the character language models
ADAM = ["--optim", "adam", "--lr", "3e-3", "--beta2", "0.95", "--weight_decay", "0.0", "--no_second_optim"]


@dataclass
class Peer:
    """A model of Stanza's, and what it is asked to parse."""

    trainer: Any
    vectors: Any
    text: str  # in CoNLL-U, without heads and labels

    def document(self) -> Any:
        """The sentences as Stanza reads them."""
        from stanza.utils.conll import CoNLL

        return CoNLL.conll2doc(input_str=self.text)

    def processor(self, batch_size: int, is_repaired: bool) -> Any:
        """The pipeline's parser; `is_repaired` as by default: one subject and one object a head."""
        from stanza.pipeline.depparse_processor import DepparseProcessor

        config = {"trainer": self.trainer, "pretagged": True, "check_requirements": False, "lang": "en"}
        config |= {"batch_size": batch_size, "resolve_head_constraints": is_repaired}
        made = DepparseProcessor(config, None, "cpu")
        made._pretrain = self.vectors  # else it asks a pipeline for the downloaded ones
        return made

    def times(self, batch_size: int, is_repaired: bool) -> dict[str, float]:
        """Seconds to read, parse and write; of these, those of the parser, and of its network before any search."""
        model, scores = self.trainer.model, Clock()
        model.forward_scores = scores.timed(type(model).forward_scores.__get__(model))
        whole, parser = Clock(), Clock()
        whole.timed(self._parse)(batch_size, is_repaired, parser)
        return {
            "all": whole.seconds,
            "all processor": whole.processor_seconds,
            "parser": parser.seconds,
            "parser processor": parser.processor_seconds,
            "scores": scores.seconds,
            "scores processor": scores.processor_seconds,
        }

    def _parse(self, batch_size: int, is_repaired: bool, clock: Clock) -> str:
        document = self.document()
        clock.timed(self.processor(batch_size, is_repaired).process)(document)
        return f"{document:C}"


class Clock:
    """How long some calls take together, on the wall and on the processors."""

    def __init__(self) -> None:
        self.seconds = self.processor_seconds = 0.0

    def timed(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same work, which adds to the clock."""

        def clocked(*arguments: Any) -> Any:
            started, before = time.perf_counter(), time.process_time()
            result = work(*arguments)
            self.seconds += time.perf_counter() - started
            self.processor_seconds += time.process_time() - before
            return result

        return clocked


def build(train: str, text: str, folder: str, updates: int, batch_size: int, has_char_lm: bool) -> Peer:
    """The model of this size after so many updates on the treebank; it is kept in the folder."""
    from stanza.models import parser
    from stanza.models.common import utils
    from stanza.models.common.pretrain import Pretrain
    from stanza.models.depparse.data import DataLoader, InfiniteBatch
    from stanza.models.depparse.trainer import GraphTrainer, Trainer
    from stanza.utils.conll import CoNLL

    utils.set_random_seed(1)
    learned = CoNLL.conll2doc(input_file=train)
    vectors = Pretrain(str(random_vectors(Path(folder), learned)))
    files = {}
    if has_char_lm:
        files = {f"charlm_{way}_file": str(random_char_lm(Path(folder), learned, way)) for way in WAYS}
    kept = Path(folder, f"{'char_lm' if has_char_lm else 'no_char_lm'}-{updates}x{batch_size}.pt")
    if not kept.exists():
        args = parser.parse_args(["--lang", "en", "--shorthand", "en_ewt", "--batch_size", str(batch_size), *ADAM])
        args |= {"charlm": has_char_lm, **files}
        args["word_cutoff"] = utils.update_word_cutoff(vectors, args["word_cutoff"])
        batches = DataLoader(learned, batch_size, args, vectors, evaluation=False)
        trainer = GraphTrainer(args=args, vocab=batches.vocab, pretrain=vectors, device="cpu")
        batches.reshuffle()
        endless = InfiniteBatch(batches)
        for _ in range(updates):
            trainer.update(endless.next_batch())
        trainer.save(str(kept))
    return Peer(Trainer.load(str(kept), vectors, args=files, device="cpu"), vectors, text)


def random_vectors(folder: Path, document: Any) -> Path:
    """Vectors of the treebank's words, filled up to the number that Stanza downloads."""
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
    """A character language model that has learned nothing."""
    from stanza.models.common.char_model import CharacterLanguageModel
    from stanza.models.common.vocab import CharVocab

    path = folder / f"{way}.pt"
    if not path.exists():
        letters = {letter for sentence in document.sentences for word in sentence.words for letter in word.text}
        vocabulary = {"char": CharVocab([sorted({*letters, " ", "\n"})])}
        made = CharacterLanguageModel(CHAR_LM | CHAR_LM_REST, vocabulary, is_forward_lm=way == "forward")
        made.save(str(path))
    return path


def las(peer: Peer, gold: str) -> float:
    """The share of a dev set's words with the right head and main label, to tell that something was learned."""
    from stanza.utils.conll import CoNLL

    document = CoNLL.conll2doc(input_file=gold)
    right = [(word.head, word.deprel.split(":")[0]) for sentence in document.sentences for word in sentence.words]
    peer.processor(5000, True).process(document)
    found = [(word.head, word.deprel.split(":")[0]) for sentence in document.sentences for word in sentence.words]
    return sum(a == b for a, b in zip(right, found, strict=True)) / len(right)


def main() -> None:
    """Answer requests until there are none."""
    import stanza

    logging.getLogger("stanza").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")  # its repair of trees warns where it gives up
    random.seed(1)
    peers: dict[str, Peer] = {}
    answers: dict[str, Callable[..., object]] = {
        "version": lambda: {"stanza": stanza.__version__, "torch": torch.__version__},
        "threads": torch.set_num_threads,
        "build": lambda name, **rest: peers.update({name: build(**rest)}),
        "parameters": lambda name: sum(each.numel() for each in peers[name].trainer.model.parameters()),
        "las": lambda name, gold: las(peers[name], gold),
        "times": lambda name, **rest: peers[name].times(**rest),
    }
    for line in sys.stdin:
        request, arguments = json.loads(line)
        answer = answers[request](**arguments) if isinstance(arguments, dict) else answers[request](arguments)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
