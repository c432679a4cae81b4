"""UDPipe 1 with its tokenizer, tagger and parser, trained here on a treebank for a few minutes.

The published models are not in a package registry. It uses one core.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.peers.answers import RUNNING, Requests, answer, timed
from treefine import TreefineError, read_treebank

BEAM = "beam_search=5"  # that of the published models
# Fewer iterations than the defaults (100, 20 and 10): the size, and so the speed, is nearly the same.
TOKENIZER = "tokenize_url=1;allow_spaces=0;dimension=24;epochs=3;batch_size=50;learning_rate=0.005;dropout=0.1"
TAGGER = "models=1;iterations=1;provide_lemma=1;use_lemma=1;use_xpostag=1;use_feats=1;guesser_suffix_rules=6"
PARSER = (
    "iterations=2;transition_system=projective;transition_oracle=dynamic;structured_interval=0;"
    "embedding_form=50;embedding_upostag=20;embedding_feats=20;embedding_deprel=20;hidden_layer=200;batch_size=10;"
    "learning_rate=0.02;learning_rate_final=0.001;l2=0.5"
)


def trained(path: Path, train: str) -> None:
    """Train a model and save it."""
    from ufal import udpipe

    reader, error, sentences = udpipe.InputFormat.newConlluInputFormat(), udpipe.ProcessingError(), udpipe.Sentences()
    reader.setText("".join(each.to_conllu() for each in read_treebank(train)))
    while reader.nextSentence(sentence := udpipe.Sentence(), error):
        sentences.append(sentence)
    weights = udpipe.Trainer.train(
        "morphodita_parsito", sentences, udpipe.Sentences(), TOKENIZER, TAGGER, PARSER, error
    )
    if error.occurred():
        raise TreefineError(f"UDPipe could not be trained: {error.message}")
    path.write_bytes(weights)


def parsed(model: Any, text: str) -> str:
    """Return the trees of a text as CoNLL-U."""
    from ufal import udpipe

    error = udpipe.ProcessingError()
    result: str = udpipe.Pipeline(model, "tokenize", udpipe.Pipeline.DEFAULT, BEAM, "conllu").process(text, error)
    if error.occurred():
        raise TreefineError(f"UDPipe could not parse: {error.message}")
    return result


def build(inputs: str, train: str, folder: str, **_: Any) -> Requests:
    """Load the model from the folder; train it first if it is not there."""
    from ufal import udpipe

    path = Path(folder, "udpipe.udpipe")
    if not path.exists():
        trained(path, train)
    model = udpipe.Model.load(str(path))
    texts = {RUNNING: json.loads(Path(inputs).read_text(encoding="utf-8"))["text"]}
    return {"parse": lambda path: timed(lambda: parsed(model, texts[path])), "conllu": partial(parsed, model)}


if __name__ == "__main__":
    answer(build, ("ufal.udpipe",))
