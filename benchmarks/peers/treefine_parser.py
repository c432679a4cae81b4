"""treefine as a peer process: the bundled model with a given precision and number of steps."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.peers.answers import FILE, WORDS, Built, Way, answer, heads_in_file
from treefine import Parser, Sentence, TreefineError, evaluate, read_treebank
from treefine.config import BATCH_PIECES, Precision
from treefine.parsing.batches import parse_inputs, run
from treefine.parsing.results import trees

MOST_LAS = 0.1  # the LAS of a fast path may differ by this from the reference implementation's, in points …
MOST_TREES = {"float32": 0.0, "float16": 2.0, "bfloat16": 2.0, "int8": 5.0}  # … and this many percent of its trees


def build(
    source: str,
    model: str,
    device: str,
    dev: str,
    dev_sentences: int,
    precision: Precision | None = None,
    max_steps: int | None = None,
    stop_above: float | None = None,
    batch_pieces: int | None = None,
    **_: Any,
) -> Built:
    """Build the parser; precision and T default to the model's."""
    pieces = batch_pieces or BATCH_PIECES
    parser = Parser.from_pretrained(
        model, device=device, precision=precision, max_steps=max_steps, stop_above=stop_above, batch_pieces=pieces
    )
    sentences = list(read_treebank(source))
    output = Path(tempfile.mkdtemp(), "parsed.conllu")

    def parse_file() -> Path:
        parser.parse_file(source, output)
        return output

    def parse() -> list[Sentence]:
        return list(parser.stream_trees(sentences))

    more: dict[str, Callable[..., Any]] = {
        "settings": lambda: {
            "precision": parser.precision,
            "T": parser.max_steps,
            "stop_above": parser.stop_above,
            "tags": parser.tags,
        },
        "check": lambda: same_trees(parser, list(islice(read_treebank(dev), dev_sentences))),
    }
    ways = {
        WORDS: Way(parse, lambda parsed: [each.heads for each in parsed]),
        FILE: Way(parse_file, heads_in_file),
    }
    return Built(ways, sum(each.numel() for each in parser.model.parameters()), more=more)


def same_trees(parser: Parser, gold: Sequence[Sentence]) -> dict[str, float]:
    """Compare the trees with those of the reference implementation in float32; raise an error if they differ too much.

    Both use the same options: `stopping` measures the effect of early stopping.
    """
    plain = parser.using(precision="float32").plan()
    expected = [sentence.with_graph(parsed.graph) for sentence, parsed in run(plain, parse_inputs(plain, gold), trees)]
    found = list(parser.stream_trees(gold))
    las = [100 * evaluate(gold, each)["LAS"].f1 for each in (expected, found)]
    others = sum(a.graph != b.graph for a, b in zip(expected, found, strict=True))
    result = {
        "sentences": len(gold),
        "LAS, plain": round(las[0], 3),
        "LAS": round(las[1], 3),
        "other trees, percent": round(100 * others / len(gold), 2),
    }
    if abs(las[0] - las[1]) > MOST_LAS or result["other trees, percent"] > MOST_TREES[parser.precision]:
        raise TreefineError(
            f"The trees of the fast path differ from the reference implementation's: {result}. No time is printed."
        )
    return result


if __name__ == "__main__":
    answer(build, ("torch", "numpy"))
