"""UDPipe 1's parser, trained for a minute (see `others_parsers`); it works on one core."""

from __future__ import annotations

import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.others_parsers import trained_udpipe, udpipe_sentences
from benchmarks.peers.answers import FILE, WORDS, Built, Way, answer, heads_in_file
from treefine import TreefineError, read_treebank


def build(source: str, train: str, folder: str, sentences: int, beam: int, **_: Any) -> Built:
    """The parser that has learned from so many sentences, once; it is kept in the folder."""
    from ufal import udpipe

    kept = Path(folder, f"udpipe-{sentences}.udpipe")
    is_new = not kept.exists()
    if is_new:
        kept.write_bytes(trained_udpipe(udpipe, list(islice(read_treebank(train), sentences)), iterations=1))
    model = udpipe.Model.load(str(kept))
    options = f"beam_search={beam}"
    given = list(read_treebank(source))
    output = Path(tempfile.mkdtemp(), "parsed.conllu")

    def parse() -> list[list[int]]:
        found = []
        for each in udpipe_sentences(udpipe, given):
            model.parse(each, options)
            found.append([word.head for word in list(each.words)[1:]])  # the first one is ROOT
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
