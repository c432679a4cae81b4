"""spaCy's parser over its convolutional tok2vec, trained here on a treebank; it is not a published model.

It reads the words and their gold tags, and is trained for a minute.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.peers.answers import WORDS, Built, Way, answer
from treefine import Sentence, read_treebank

SPACY: dict[str, Any] = {
    "width": 96,
    "depth": 4,
    "hidden_width": 128,
    "batch": 32,
    "rate": 2e-3,
    "dropout": 0.1,
}
FEATURES = {
    "NORM": 5000,
    "PREFIX": 1000,
    "SUFFIX": 2500,
    "SHAPE": 2500,
    "POS": 100,
    "TAG": 200,
}  # rows of each embedding table
SPACY_ROOT = "ROOT"  # spaCy always uses this label for roots


def trained_spacy(train: Sequence[Sentence]) -> tuple[Any, Any]:
    """Return a trained spaCy pipeline that has only a parser, and its averaged weights."""
    import spacy
    from spacy import training
    from thinc import api as thinc

    spacy.util.fix_random_seed(1)
    nlp = spacy.blank("xx")
    nlp.add_pipe("parser", config={"model": _spacy_model()})
    examples = [training.Example(spacy_doc(nlp, each), spacy_doc(nlp, each, is_gold=True)) for each in train]
    nlp.initialize(lambda: examples)
    adam = thinc.Adam(SPACY["rate"], L2=0.01, grad_clip=1.0, use_averages=True)
    rng = random.Random(1)
    rng.shuffle(examples)
    for start in range(0, len(examples), SPACY["batch"]):
        adam.learn_rate = SPACY["rate"] * (1 - start / len(examples))
        nlp.update(examples[start : start + SPACY["batch"]], sgd=adam, drop=SPACY["dropout"])
    return nlp, adam.averages


def _spacy_model() -> dict[str, Any]:
    width = SPACY["width"]
    embed = {
        "@architectures": "spacy.MultiHashEmbed.v2",
        "width": width,
        "attrs": list(FEATURES),
        "rows": list(FEATURES.values()),
        "include_static_vectors": False,
    }
    encode = {
        "@architectures": "spacy.MaxoutWindowEncoder.v2",
        "width": width,
        "depth": SPACY["depth"],
        "window_size": 1,
        "maxout_pieces": 3,
    }
    return {
        "@architectures": "spacy.TransitionBasedParser.v2",
        "state_type": "parser",
        "extra_state_tokens": False,
        "hidden_width": SPACY["hidden_width"],
        "maxout_pieces": 3,
        "use_upper": False,
        "tok2vec": {"@architectures": "spacy.Tok2Vec.v2", "embed": embed, "encode": encode},
    }


def spacy_doc(nlp: Any, sentence: Sentence, *, is_gold: bool = False) -> Any:
    """Return the words and tags as a Doc of one sentence, with or without the gold tree."""
    from spacy.tokens import Doc

    words: dict[str, Any] = {"words": list(sentence.forms), "pos": list(sentence.upos), "tags": list(sentence.xpos)}
    if not is_gold:
        starts = [True, *[False] * (len(sentence) - 1)]
        return Doc(nlp.vocab, **words, sent_starts=starts)
    graph = sentence.graph
    heads = [(head or word) - 1 for word, head in enumerate(graph.heads) if word]  # a root is its own head
    labels = [SPACY_ROOT if head == 0 else label for head, label in zip(*graph.arcs, strict=True)]
    return Doc(nlp.vocab, **words, heads=heads, deps=labels)


def build(source: str, train: str, folder: str, updates: int, processes: int, **_: Any) -> Built:
    """Build the parser after this many updates; the model is saved in the folder."""
    import spacy

    kept = Path(folder, f"spacy-{updates}")
    is_new = not kept.exists()
    if is_new:
        learned = list(islice(read_treebank(train), updates * SPACY["batch"]))
        nlp, averages = trained_spacy(learned)
        with nlp.use_params(averages):
            nlp.to_disk(kept)
    nlp = spacy.load(kept)
    sentences = list(read_treebank(source))

    def parse() -> list[list[int]]:
        docs = nlp.pipe((spacy_doc(nlp, each) for each in sentences), n_process=processes)
        return [[0 if word.head.i == word.i else word.head.i + 1 for word in doc] for doc in docs]

    parameters = sum(node.get_param(name).size for name, node in _parameters(nlp.get_pipe("parser").model))
    return Built({WORDS: Way(parse, lambda heads: heads)}, parameters, has_learned=is_new)


def _parameters(model: Any) -> Iterator[tuple[str, Any]]:
    return ((name, node) for node in model.walk() for name in node.param_names if node.has_param(name))


if __name__ == "__main__":
    answer(build, ("spacy", "thinc"))
