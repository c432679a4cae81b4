"""Initial parses G⁰ (Sec. 4): none, what the sentences have already, those of a file, or another parser's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from treefine.treebank.conllu import read_treebank
from treefine.treebank.graph import Arcs
from treefine.treebank.label_names import read_as
from treefine.treebank.sentence import BLANK, Sentence
from treefine.treebank.transfer import transferred

InitialParser = Callable[[Iterable[Sentence]], Iterator[Arcs]]
"""For each sentence of a stream the arcs to start from, in the same order. An initial parser is deterministic."""


def empty(sentences: Iterable[Sentence]) -> Iterator[Arcs]:
    """No graph: the first step is the plain encoder's."""
    for sentence in sentences:
        yield Arcs((None,) * len(sentence), (BLANK,) * len(sentence))


def given(sentences: Iterable[Sentence]) -> Iterator[Arcs]:
    """The heads and labels that the sentences have; a word whose HEAD is blank has no arc."""
    for sentence in sentences:
        yield sentence.arcs


def from_parser(parse: Callable[[Iterable[Sentence]], Iterator[Sentence]]) -> InitialParser:
    """The trees of another parser, such as SynTr or the biaffine one: `parse` is its `stream`."""

    def initial(sentences: Iterable[Sentence]) -> Iterator[Arcs]:
        return given(parse(sentences))

    return initial


def from_file(path: str, *, format: str | None = None) -> InitialParser:
    """The trees of a treebank file over the same text; words and sentences may be cut otherwise (`transferred`)."""

    def initial(sentences: Iterable[Sentence]) -> Iterator[Arcs]:
        return transferred(sentences, read_treebank(path, format=format), path)

    return initial


def renamed(
    initial: InitialParser,
    known: Collection[str],
    names: Mapping[str, str] | None = None,
) -> InitialParser:
    """The arcs of another initial parser, with those of the known labels that its labels are read as (`read_as`).

    The known labels are those of a model: `parser.model.vocabulary.labels`. The names go before all else, as those of
    `read_label_map` do.
    """
    found: dict[str, str] = {}

    def name(head: int | None, label: str) -> str:
        if head is None:
            return label
        if label not in found:
            found[label] = read_as(label, known, names)
        return found[label]

    def read(sentences: Iterable[Sentence]) -> Iterator[Arcs]:
        for heads, labels in initial(sentences):
            yield Arcs(heads, tuple(map(name, heads, labels)))

    return read
