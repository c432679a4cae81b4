"""Run what `treefine parse` does from file to file, after loading the model, as a peer process."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.answers import Built, Way, answer, heads_in_file
from benchmarks.server.loads import Offline, Tree, trees_of_parse
from treefine import Parser
from treefine.cli.inputs import find_inputs
from treefine.cli.outputs import OutputOptions, plan_jobs
from treefine.cli.stream import run_jobs
from treefine.config import Precision
from treefine.treebank.sentence import Sentence


def build(model: str, precision: Precision | None, treebank: str, text: str) -> Built:
    """Build the parser and its ways to parse these two files."""
    parser = Parser.from_pretrained(model, precision=precision)
    folder = Path(tempfile.mkdtemp())

    def parsed(source: str, name: str) -> Callable[[], Path]:
        def work() -> Path:
            target, wanted = folder / name, OutputOptions()
            run_jobs(parser, plan_jobs(find_inputs([source]), str(target), None, wanted), wanted)
            return target

        return work

    ways: dict[Offline, Way] = {
        "treebank to treebank": Way(parsed(treebank, "treebank.conllu"), heads_in_file),
        "text to treebank": Way(parsed(text, "text.conllu"), heads_in_file),
        "treebank to JSON": Way(parsed(treebank, "treebank.jsonl"), _heads_in_json),
    }

    def trees_of_texts(texts: Sequence[str]) -> list[list[Tree]]:
        """Return the trees of each text, segmented separately."""
        cut = [[each.sentence for each in parser.segment([text])] for text in texts]
        found = parser.stream_trees(each for sentences in cut for each in sentences)
        return [[_tree(next(found)) for _ in sentences] for sentences in cut]

    more: dict[str, Callable[..., Any]] = {
        "settings": lambda: {"precision": parser.precision, "T": parser.max_steps, "stop_above": parser.stop_above},
        "output": lambda name: (folder / name).read_text(encoding="utf-8"),
        "trees of texts": trees_of_texts,
    }
    return Built({name: way for name, way in ways.items()}, more=more)


def _tree(sentence: Sentence) -> Tree:
    graph = sentence.graph
    return tuple(zip(sentence.forms, graph.heads[1:], graph.labels[1:], strict=True))


def _heads_in_json(path: Path) -> Iterator[list[int]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        parse: Any = json.loads(line)
        yield [head for _, head, _ in trees_of_parse(parse)]


if __name__ == "__main__":
    answer(build, ("torch", "fastapi", "uvicorn"))
