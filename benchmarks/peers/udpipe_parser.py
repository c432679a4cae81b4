"""UDPipe 1's parser, trained here on a treebank; it is small and not a published model.

It reads the words and their gold tags, uses one core, and is trained for a minute.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.peers.answers import FILE, WORDS, Built, Way, answer, heads_in_file
from treefine import Sentence, TreefineError, read_treebank

UDPIPE: dict[str, Any] = {
    "transition_system": "projective",
    "transition_oracle": "dynamic",
    "structured_interval": 0,  # the default, 8, takes twice as long for about the same accuracy
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
    "iterations": 1,
}


def trained_udpipe(udpipe: Any, train: Sequence[Sentence]) -> bytes:
    """Train UDPipe and return the contents of its model file."""
    options = ";".join(f"{name}={value}" for name, value in UDPIPE.items())
    error = udpipe.ProcessingError()
    read = _read_by_udpipe(udpipe, [_bare(each).with_graph(each.graph) for each in train])
    weights: bytes = udpipe.Trainer.train(
        "morphodita_parsito", read, udpipe.Sentences(), "none", "none", options, error
    )
    if error.occurred():
        raise TreefineError(f"UDPipe could not be trained: {error.message}")
    return weights


def udpipe_sentences(udpipe: Any, sentences: Iterable[Sentence]) -> Any:
    """Return the words and tags as UDPipe sentences."""
    return _read_by_udpipe(udpipe, map(_bare, sentences))


def _read_by_udpipe(udpipe: Any, sentences: Iterable[Sentence]) -> Any:
    reader, error, found = udpipe.InputFormat.newConlluInputFormat(), udpipe.ProcessingError(), udpipe.Sentences()
    reader.setText("".join(each.to_conllu() for each in sentences))
    while True:
        sentence = udpipe.Sentence()
        if not reader.nextSentence(sentence, error):
            break
        found.append(sentence)
    if error.occurred():
        raise TreefineError(f"UDPipe could not read the treebank: {error.message}")
    return found


def _bare(sentence: Sentence) -> Sentence:
    """Return the sentence with only words and tags."""
    return Sentence.of_words(sentence.forms, upos=sentence.upos, xpos=sentence.xpos)


def build(source: str, train: str, folder: str, sentences: int, beam: int, **_: Any) -> Built:
    """Build the parser after one epoch over this many sentences; the model is saved in the folder."""
    from ufal import udpipe

    kept = Path(folder, f"udpipe-{sentences}.udpipe")
    is_new = not kept.exists()
    if is_new:
        kept.write_bytes(trained_udpipe(udpipe, list(islice(read_treebank(train), sentences))))
    model = udpipe.Model.load(str(kept))
    options = f"beam_search={beam}"
    given = list(read_treebank(source))
    output = Path(tempfile.mkdtemp(), "parsed.conllu")

    def parse() -> list[list[int]]:
        found = []
        for each in udpipe_sentences(udpipe, given):
            model.parse(each, options)
            found.append([word.head for word in list(each.words)[1:]])  # the first word is ROOT
        return found

    def parse_file() -> Path:
        error = udpipe.ProcessingError()
        pipeline = udpipe.Pipeline(model, "conllu", udpipe.Pipeline.NONE, options, "conllu")
        output.write_text(pipeline.process(Path(source).read_text(encoding="utf-8"), error), encoding="utf-8")
        if error.occurred():
            raise TreefineError(f"UDPipe could not parse: {error.message}")
        return output

    ways = {WORDS: Way(parse, lambda heads: heads), FILE: Way(parse_file, heads_in_file)}
    return Built(ways, has_learned=is_new)


if __name__ == "__main__":
    answer(build, ("ufal.udpipe",))
