"""The kinds of load on a server: which requests, what the same is offline, and the trees in an answer."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

from benchmarks.http_client import FORM, Request, post
from benchmarks.speed import spread, without_trees
from treefine import TreefineError

Offline = Literal["treebank to treebank", "text to treebank", "treebank to JSON"]
PARAGRAPH = 10  # sentences

Tree = tuple[tuple[str, int, str], ...]  # form, head and label of each word


@dataclass(frozen=True)
class Load:
    """One kind."""

    name: str
    offline: Offline
    sentences: int  # of a request
    request: Callable[[str], bytes]  # from what it is about, CoNLL-U or text, to what is sent
    trees: Callable[[bytes], list[Tree]]  # those in the body of an answer


@dataclass(frozen=True)
class Asked:
    """All requests of one kind, and what has to come back."""

    requests: tuple[Request, ...]
    expected: tuple[list[Tree], ...]


def trees_of_conllu(text: str) -> list[Tree]:
    r"""The trees of a treebank's text.

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
    """The tree of what `Parse.to_json` tells."""
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
    """Sentences of en_ewt dev, evenly spread, as CoNLL-U without trees."""
    path = treebanks / "en_ewt" / "dev.conllu.xz"
    if not path.exists():
        raise TreefineError(f"There is no {path}.", hint="Name the folder of treebanks: --treebanks.")
    return spread(without_trees(lzma.open(path, "rt", encoding="utf-8").read()), n_sentences)


def paragraphs(sentences: Sequence[str], size: int) -> list[str]:
    r"""So many sentences each, as CoNLL-U.

    >>> paragraphs(["1\tA", "1\tB", "1\tC"], 2)
    ['1\tA\n\n1\tB\n\n', '1\tC\n\n']
    """
    return [
        "".join(f"{each}\n\n" for each in sentences[start : start + size]) for start in range(0, len(sentences), size)
    ]


def text_of(paragraph: str) -> str:
    r"""The text of a paragraph, as its comments tell it.

    >>> text_of("# text = Go home.\n1\tGo\n\n# text = Now!\n1\tNow\n\n")
    'Go home. Now!'
    """
    return " ".join(line[9:] for line in paragraph.split("\n") if line.startswith("# text = "))


def asked(load: Load, sources: Sequence[str], expected: Sequence[list[Tree]]) -> Asked:
    """The requests about these sources, with the trees that have to come back for each."""
    requests = tuple(Request(number, load.request(source)) for number, source in enumerate(sources))
    return Asked(requests, tuple(expected))
