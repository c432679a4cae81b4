"""`treefine parse` on the sentences that a server gets, in a process of its own, and the trees that it gives."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from benchmarks.loads import Asked, Load, Tree, asked, paragraphs, text_of, trees_of_conllu
from benchmarks.peer import Peer
from benchmarks.speed import check_heads


class OfflineParser:
    """The parser, while entered; it works only while it is asked."""

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
        self.run("treebank to treebank")  # after which it is warm
        self._trees = trees_of_conllu(self._peer.ask("output", {"name": "treebank.conllu"}))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._peer.close()
        self._folder.cleanup()

    def run(self, way: str) -> float:
        """Parse all of it once; the sentences a second."""
        answer = self._peer.ask("parse", {"way": way})
        check_heads(f"treefine parse, {way}", answer, answer["sentences"], answer["words"])
        rate: float = answer["sentences"] / answer["seconds"]
        return rate

    def paragraphs(self, size: int) -> list[str]:
        """The sentences, so many together."""
        return paragraphs(self.sentences, size)

    def asked(self, load: Load) -> Asked:
        """All requests of a kind, with the trees that this parser gives."""
        sources = self.paragraphs(load.sentences)
        if load.offline == "text to treebank":
            sources = list(map(text_of, sources))
            told = self._peer.ask("trees of texts", {"texts": sources})
            trees: list[list[Tree]] = [[tuple(map(tuple, each)) for each in found] for found in told]
        else:
            starts = range(0, len(self._trees), load.sentences)
            trees = [self._trees[start : start + load.sentences] for start in starts]
        return asked(load, sources, trees)
