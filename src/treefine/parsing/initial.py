"""Initial parses G⁰ (Sec. 4): none, what the sentences have already, those of a file, or another parser's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from treefine.treebank.align import transferred
from treefine.treebank.conllu import read_treebank
from treefine.treebank.graph import Arcs
from treefine.treebank.label_schemes import read_as
from treefine.treebank.sentence import BLANK, Sentence

InitialParser = Callable[[Iterable[Sentence]], Iterator[Arcs]]
"""For each sentence of a stream the arcs to start from, in the same order. An initial parser is deterministic."""

MOST_NAMES = 2_000  # labels whose reading is remembered: a server sees whatever anyone sends


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


@dataclass(frozen=True)
class Renamed:
    """What `renamed` gives."""

    initial: InitialParser
    known: Collection[str]
    names: Mapping[str, str] | None
    _found: dict[str, str] = field(default_factory=dict)

    def __call__(self, sentences: Iterable[Sentence]) -> Iterator[Arcs]:
        """The arcs of each sentence."""
        for heads, labels in self.initial(sentences):
            yield Arcs(heads, tuple(map(self._name, heads, labels)))

    def _name(self, head: int | None, label: str) -> str:
        if head is None:
            return label
        found = self._found.get(label)
        if found is None:
            found = read_as(label, self.known, self.names)
            if len(self._found) < MOST_NAMES:
                self._found[label] = found
        return found


def renamed(initial: InitialParser, known: Collection[str], names: Mapping[str, str] | None = None) -> Renamed:
    """The arcs of another initial parser, with those of the known labels that its labels are read as (`read_as`).

    The known labels are those of a model: `parser.model.vocabulary.labels`. The names go before all else, as those of
    `read_label_map` do.
    """
    return Renamed(initial, known, names)
