"""UDPipe 1 and spaCy, trained here from a treebank alone: small ones, not those that their authors publish.

Neither is needed by treefine: `pip install ufal.udpipe spacy` where they are to be trained. Both read the words and
their gold tags. A training of one takes about five minutes of one core for the 12,543 sentences of en_ewt.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from treefine import Graph, Sentence, TreefineError

Trees = Callable[[Sequence[Sentence], Sequence[Sentence]], list[Graph]]
"""Train a parser on the first sentences, and give its trees of the others; their own heads and labels are not read."""

UDPIPE: dict[str, Any] = {
    "transition_system": "projective",
    "transition_oracle": "dynamic",
    "structured_interval": 0,  # as by default 8 takes twice the time for about as many correct arcs
    "use_gold_tags": 1,
    "embedding_form": 32,
    "embedding_upostag": 12,
    "embedding_xpostag": 12,
    "embedding_feats": 0,
    "embedding_deprel": 12,
    "hidden_layer": 100,
    "batch_size": 10,
    "learning_rate": 0.01,
    "learning_rate_final": 0.001,
    "l2": 0.3,
    "iterations": 5,
}
SPACY: dict[str, Any] = {
    "width": 96,
    "depth": 4,
    "hidden_width": 128,
    "batch": 32,
    "rate": 2e-3,
    "dropout": 0.1,
    "epochs": 5,
}
FEATURES = {"NORM": 5000, "PREFIX": 1000, "SUFFIX": 2500, "SHAPE": 2500, "POS": 100, "TAG": 200}  # rows of each table
SPACY_ROOT, ROOT_LABEL = "ROOT", "root"  # spaCy calls the label of a root so, whatever it learns


def udpipe_trees(train: Sequence[Sentence], sentences: Sequence[Sentence]) -> list[Graph]:
    """UDPipe's transition-based parser (Parsito)."""
    udpipe = _needed("ufal.udpipe")
    weights = trained_udpipe(udpipe, train, iterations=UDPIPE["iterations"])
    with tempfile.TemporaryDirectory() as folder:  # UDPipe reads a model from a file alone
        path = Path(folder, "model.udpipe")
        path.write_bytes(weights)
        model = udpipe.Model.load(str(path))
    found = []
    for each in udpipe_sentences(udpipe, sentences):
        model.parse(each, "")
        words = list(each.words)[1:]  # the first one is ROOT
        found.append(Graph.of_words([word.head for word in words], [word.deprel for word in words]))
    return found


def trained_udpipe(udpipe: Any, train: Sequence[Sentence], *, iterations: int) -> bytes:
    """The model that UDPipe learns, as it stands in a file."""
    options = ";".join(f"{name}={value}" for name, value in (UDPIPE | {"iterations": iterations}).items())
    error = udpipe.ProcessingError()
    read = _read_by_udpipe(udpipe, [_bare(each).with_graph(each.graph) for each in train])
    weights: bytes = udpipe.Trainer.train(
        "morphodita_parsito", read, udpipe.Sentences(), "none", "none", options, error
    )
    if error.occurred():
        raise TreefineError(f"UDPipe could not be trained: {error.message}")
    return weights


def udpipe_sentences(udpipe: Any, sentences: Iterable[Sentence]) -> Any:
    """The words and tags as UDPipe holds them."""
    return _read_by_udpipe(udpipe, map(_bare, sentences))


def _read_by_udpipe(udpipe: Any, sentences: Iterable[Sentence]) -> Any:
    reader, error, found = udpipe.InputFormat.newConlluInputFormat(), udpipe.ProcessingError(), udpipe.Sentences()
    reader.setText("".join(each.to_text() for each in sentences))
    while True:
        sentence = udpipe.Sentence()
        if not reader.nextSentence(sentence, error):
            break
        found.append(sentence)
    if error.occurred():
        raise TreefineError(f"UDPipe could not read the treebank: {error.message}")
    return found


def spacy_trees(train: Sequence[Sentence], sentences: Sequence[Sentence]) -> list[Graph]:
    """The transition-based parser of spaCy over its convolutional tok2vec, with averaged weights."""
    nlp, averages = trained_spacy(train, epochs=SPACY["epochs"])
    with nlp.use_params(averages):
        return [_graph(doc) for doc in nlp.pipe(spacy_doc(nlp, each) for each in sentences)]


def trained_spacy(train: Sequence[Sentence], *, epochs: int) -> tuple[Any, Any]:
    """The pipeline of spaCy with a parser alone, and the averages of its weights."""
    spacy, training, thinc = _needed("spacy"), _needed("spacy.training"), _needed("thinc.api")
    spacy.util.fix_random_seed(1)
    nlp = spacy.blank("xx")
    nlp.add_pipe("parser", config={"model": _spacy_model()})
    examples = [training.Example(spacy_doc(nlp, each), spacy_doc(nlp, each, is_gold=True)) for each in train]
    nlp.initialize(lambda: examples)
    adam = thinc.Adam(SPACY["rate"], L2=0.01, grad_clip=1.0, use_averages=True)
    rng = random.Random(1)
    for epoch in range(epochs):
        rng.shuffle(examples)
        for start in range(0, len(examples), SPACY["batch"]):
            adam.learn_rate = SPACY["rate"] * (1 - (epoch + start / len(examples)) / epochs)
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
    """The words and tags as spaCy holds them, with the gold tree or without; one sentence, not to be cut."""
    words = {"words": list(sentence.forms), "pos": list(sentence.upos), "tags": list(sentence.xpos)}
    if not is_gold:
        starts = [True, *[False] * (len(sentence) - 1)]
        return _needed("spacy.tokens").Doc(nlp.vocab, **words, sent_starts=starts)
    graph = sentence.graph
    heads = [(head or word) - 1 for word, head in enumerate(graph.heads) if word]  # a root is its own head
    labels = [SPACY_ROOT if head == 0 else label for head, label in zip(*graph.arcs, strict=True)]
    return _needed("spacy.tokens").Doc(nlp.vocab, **words, heads=heads, deps=labels)


def _graph(doc: Any) -> Graph:
    heads = [0 if word.head.i == word.i else word.head.i + 1 for word in doc]
    return Graph.of_words(heads, [ROOT_LABEL if word.dep_ == SPACY_ROOT else word.dep_ for word in doc])


def _bare(sentence: Sentence) -> Sentence:
    """Its words and tags alone."""
    return Sentence.of_words(sentence.forms, upos=sentence.upos, xpos=sentence.xpos)


def _needed(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        package = "ufal.udpipe" if name.startswith("ufal") else "spacy"
        raise TreefineError(
            f"{package} is not installed: {error}.", hint=f"Install it: pip install {package}"
        ) from None


@dataclass(frozen=True)
class Other:
    """Another parser: how it is trained, from which package and with which settings."""

    trees: Trees
    package: str
    settings: dict[str, Any]

    def check(self) -> None:
        """An error where its package is not installed."""
        _needed(self.package)


OTHERS = {"udpipe": Other(udpipe_trees, "ufal.udpipe", UDPIPE), "spacy": Other(spacy_trees, "spacy", SPACY)}
