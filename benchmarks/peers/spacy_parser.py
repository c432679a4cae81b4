"""spaCy's parser over its convolutional tok2vec, at its default size, trained for a minute (see `others_parsers`)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.others_parsers import SPACY, spacy_doc, trained_spacy
from benchmarks.peers.answers import WORDS, Built, Way, answer
from treefine import read_treebank


def build(source: str, train: str, folder: str, updates: int, processes: int, **_: Any) -> Built:
    """The parser after so many updates; it is kept in the folder."""
    import spacy

    kept = Path(folder, f"spacy-{updates}")
    is_new = not kept.exists()
    if is_new:
        learned = list(islice(read_treebank(train), updates * SPACY["batch"]))
        nlp, averages = trained_spacy(learned, epochs=1)
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
