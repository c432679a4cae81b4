"""Define the protocol for parsers in other processes.

Each line of standard input is a request in JSON, answered by a line in JSON: list the packages, build the parser, parse
the given sentences in one of its ways.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

WORDS, FILE = "words to trees", "file to file"  # ways to parse: from words in memory, and from CoNLL-U to CoNLL-U
NETWORK = "network alone"  # a part of parsing


class Way(NamedTuple):
    """One way to parse; only the work is timed."""

    work: Callable[[], Any]
    heads: Callable[[Any], Iterable[Sequence[int]]]  # the heads of each sentence, from the result of `work`


@dataclass
class Clock:
    """The total time of some calls."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def part(self, name: str) -> Any:
        """Add the time in this block to that part."""
        started = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    def timed(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does the same and adds its time to that part."""

        def clocked(*arguments: Any, **named: Any) -> Any:
            with self.part(name):
                return work(*arguments, **named)

        return clocked


@dataclass
class Built:
    """A parser that is ready to use."""

    ways: Mapping[str, Way]
    parameters: int | None = None
    clock: Clock = field(default_factory=Clock)  # times of its parts in one parse
    has_learned: bool = False  # in this process; training uses more memory than parsing
    more: Mapping[str, Callable[..., Any]] = field(default_factory=dict)  # further requests


def parsed(built: Built, way: str) -> dict[str, Any]:
    """Parse once; return the seconds, those of its parts, and the number of words without a valid head."""
    work, heads_of = built.ways[way]
    built.clock.seconds.clear()
    started, before = time.perf_counter(), time.process_time()
    output = work()
    seconds, processor = time.perf_counter() - started, time.process_time() - before
    heads = [list(each) for each in heads_of(output)]
    return {
        "seconds": seconds,
        "processor_seconds": processor,
        "parts": dict(built.clock.seconds),
        "sentences": len(heads),
        "words": sum(map(len, heads)),
        "headless": sum(not 0 <= head <= len(each) for each in heads for head in each),
    }


def heads_in_file(path: str | Path) -> list[list[int]]:
    """Return the heads of each sentence of a CoNLL-U file; a missing head is -1."""
    return [[int(head) if head.isdigit() else -1 for head in each] for each in _column(path, 6)]


def words_in_file(path: str | Path) -> list[list[str]]:
    """Return the words of each sentence of a CoNLL-U file."""
    return _column(path, 1)


def _column(path: str | Path, column: int) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for line in Path(path).read_text(encoding="utf-8").split("\n"):
        columns = line.split("\t")
        if len(columns) == 10 and columns[0].isdigit():
            found[-1].append(columns[column])
        elif not line and found[-1]:
            found.append([])
    return found if found[-1] else found[:-1]


def random_bert(folder: Path, tokenizer: str, layers: int, width: int) -> Path:
    """Return a folder with a random BERT of this size and treefine's tokeniser."""
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    kept = folder / f"bert-{layers}x{width}"
    if not kept.exists():
        pieces = PreTrainedTokenizerFast.from_pretrained(tokenizer)
        config = BertConfig(
            vocab_size=len(pieces),
            num_hidden_layers=layers,
            hidden_size=width,
            num_attention_heads=12,
            intermediate_size=4 * width,
        )
        BertModel(config).save_pretrained(kept)
        pieces.save_pretrained(kept)
    return kept


def answer(build: Callable[..., Built], packages: Sequence[str]) -> None:
    """Answer requests until standard input ends. Output of libraries goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    built: Built | None = None
    for line in sys.stdin:
        request, arguments = json.loads(line)
        found: Any = None
        if request == "packages":
            found = {name: metadata.version(name) for name in packages}
        elif request == "build":
            built = build(**arguments)
            found = {"parameters": built.parameters, "ways": list(built.ways), "has_learned": built.has_learned}
        elif built is not None:
            found = parsed(built, arguments["way"]) if request == "parse" else built.more[request](**arguments)
        answers.write(json.dumps(found) + "\n")
        answers.flush()
