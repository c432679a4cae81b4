"""Define the kinds of load on a server: their requests, the trees in answers, and the same work done offline."""

from __future__ import annotations

import json
import lzma
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal
from urllib.parse import urlencode

from benchmarks.peers.process import Peer
from benchmarks.rows import english_path
from benchmarks.server.clients import FORM, Request, post
from benchmarks.speed.parsers import check_heads, spread, without_trees

Offline = Literal["treebank to treebank", "text to treebank", "treebank to JSON"]
PARAGRAPH = 10  # sentences
Tree = tuple[tuple[str, int, str], ...]  # form, head and label of each word


@dataclass(frozen=True)
class Load:
    """One kind of load."""

    name: str
    offline: Offline
    sentences: int  # per request
    request: Callable[[str], bytes]  # from CoNLL-U or text to the request
    trees: Callable[[bytes], list[Tree]]  # from the body of an answer


@dataclass(frozen=True)
class Asked:
    """All requests of one kind, and the expected trees."""

    requests: tuple[Request, ...]
    expected: tuple[list[Tree], ...]


def trees_of_conllu(text: str) -> list[Tree]:
    r"""Return the trees in CoNLL-U.

    >>> trees_of_conllu("1\tGo\t_\t_\t_\t_\t0\troot\t_\t_\n\n")
    [(('Go', 0, 'root'),)]
    """
    found = []
    for block in text.split("\n\n"):
        rows = [line.split("\t") for line in block.split("\n") if line and line[0] != "#"]
        if tree := tuple((row[1], int(row[6]), row[7]) for row in rows if row[0].isdigit()):
            found.append(tree)
    return found


def _trees_of_process(body: bytes) -> list[Tree]:
    return trees_of_conllu(json.loads(body)["result"])


def _trees_of_text(body: bytes) -> list[Tree]:
    return trees_of_conllu(body.decode())


def _trees_of_json(body: bytes) -> list[Tree]:
    return [trees_of_parse(each) for each in json.loads(body)["sentences"]]


def trees_of_parse(parse: Any) -> Tree:
    """Return the tree in the output of `Parse.to_json`."""
    return tuple((word["form"], word["head"], word["label"]) for word in parse["words"])


def _process(conllu: str) -> bytes:
    form = {"data": conllu, "input": "conllu", "tagger": "", "parser": "", "output": "conllu"}
    return post("/process", urlencode(form).encode(), kind=FORM)


def _parse(field: str, **options: str) -> Callable[[str], bytes]:
    def request(text: str) -> bytes:
        return post("/v1/parse", json.dumps({field: text, **options}).encode())

    return request


LOADS = (
    Load("a sentence, /process", "treebank to treebank", 1, _process, _trees_of_process),
    Load("a sentence", "treebank to treebank", 1, _parse("conllu", format="conllu"), _trees_of_text),
    Load("ten sentences", "treebank to treebank", PARAGRAPH, _parse("conllu", format="conllu"), _trees_of_text),
    Load("ten sentences of text", "text to treebank", PARAGRAPH, _parse("text", format="conllu"), _trees_of_text),
    Load("a sentence, JSON", "treebank to JSON", 1, _parse("conllu"), _trees_of_json),
)


def read_sentences(treebanks: Path, n_sentences: int) -> list[str]:
    """Return sentences of en_ewt dev, evenly spread, as CoNLL-U without trees."""
    text = lzma.open(english_path(treebanks, "dev"), "rt", encoding="utf-8").read()
    return spread(without_trees(text), n_sentences)


def paragraphs(sentences: Sequence[str], size: int) -> list[str]:
    r"""Return groups of `size` sentences, as CoNLL-U.

    >>> paragraphs(["1\tA", "1\tB", "1\tC"], 2)
    ['1\tA\n\n1\tB\n\n', '1\tC\n\n']
    """
    return [
        "".join(f"{each}\n\n" for each in sentences[start : start + size]) for start in range(0, len(sentences), size)
    ]


def text_of(paragraph: str) -> str:
    r"""Return the text of a paragraph, from its comments.

    >>> text_of("# text = Go home.\n1\tGo\n\n# text = Now!\n1\tNow\n\n")
    'Go home. Now!'
    """
    return " ".join(line[9:] for line in paragraph.split("\n") if line.startswith("# text = "))


def asked(load: Load, sources: Sequence[str], expected: Sequence[list[Tree]]) -> Asked:
    """Return the requests for these sources, with the expected trees of each."""
    requests = tuple(Request(number, load.request(source)) for number, source in enumerate(sources))
    return Asked(requests, tuple(expected))


class OfflineParser:
    """A context manager that runs `treefine parse` in another process, on request."""

    def __init__(self, model: str, sentences: Sequence[str], *, threads: int = 2) -> None:
        self.model, self.sentences = model, sentences
        self._folder = tempfile.TemporaryDirectory()
        self._peer = Peer("treefine parse", sys.executable, "benchmarks.peers.offline_parser", threads=threads)

    def __enter__(self) -> OfflineParser:
        treebank, text = (Path(self._folder.name, name) for name in ("given.conllu", "given.txt"))
        treebank.write_text("".join(f"{each}\n\n" for each in self.sentences), encoding="utf-8")
        text.write_text("\n\n".join(map(text_of, self.paragraphs(10))) + "\n", encoding="utf-8")
        files = {"treebank": str(treebank), "text": str(text)}
        self._peer.ask("build", {"model": self.model, "precision": None, **files})
        self.packages, self.settings = self._peer.ask("packages"), self._peer.ask("settings")
        self.run("treebank to treebank")  # a warm-up
        self._trees = trees_of_conllu(self._peer.ask("output", {"name": "treebank.conllu"}))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._peer.close()
        self._folder.cleanup()

    def run(self, way: str) -> float:
        """Parse everything once; return the sentences per second."""
        answer = self._peer.ask("parse", {"way": way})
        check_heads(f"treefine parse, {way}", answer, answer["sentences"], answer["words"])
        rate: float = answer["sentences"] / answer["seconds"]
        return rate

    def paragraphs(self, size: int) -> list[str]:
        """Return the sentences in groups of `size`."""
        return paragraphs(self.sentences, size)

    def asked(self, load: Load) -> Asked:
        """Return all requests of a kind, with the trees of this parser."""
        sources = self.paragraphs(load.sentences)
        if load.offline == "text to treebank":
            sources = list(map(text_of, sources))
            answer = self._peer.ask("trees of texts", {"texts": sources})
            trees: list[list[Tree]] = [[tuple(map(tuple, each)) for each in found] for found in answer]
        else:
            starts = range(0, len(self._trees), load.sentences)
            trees = [self._trees[start : start + load.sentences] for start in starts]
        return asked(load, sources, trees)
