"""Initial parses G⁰ (Sec. 4): empty, the sentences' own trees, the trees of a file, or those of another parser."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

from treefine.treebank.align import transferred
from treefine.treebank.conllu import read_treebank
from treefine.treebank.graph import Arcs
from treefine.treebank.schemes import read_as
from treefine.treebank.sentence import BLANK, Sentence

InitialParser = Callable[[Iterable[Sentence]], Iterator[Arcs]]
"""A deterministic function that yields the initial arcs of each sentence of a stream, in order."""

MOST_NAMES = 2_000  # labels in the cache; a file may have any number of different labels


def empty(sentences: Iterable[Sentence]) -> Iterator[Arcs]:
    """Yield arcs without heads. The first step then has no graph and uses the plain encoder."""
    for sentence in sentences:
        yield Arcs((None,) * len(sentence), (BLANK,) * len(sentence))


def input_trees(sentences: Iterable[Sentence]) -> Iterator[Arcs]:
    """Yield the heads and labels in the sentences. A word whose HEAD is blank has no arc."""
    for sentence in sentences:
        yield sentence.arcs


def from_parser(parse: Callable[[Iterable[Sentence]], Iterator[Sentence]]) -> InitialParser:
    """Return an initial parser that uses another parser; `parse` is its `stream_trees`."""
    return partial(_from_parser, parse)  # a closure could not be pickled


def _from_parser(
    parse: Callable[[Iterable[Sentence]], Iterator[Sentence]], sentences: Iterable[Sentence]
) -> Iterator[Arcs]:
    return input_trees(parse(sentences))


def from_file(path: str, *, format: str | None = None) -> InitialParser:
    """Return an initial parser that reads a treebank file of the same text; segmentation may differ (`transferred`)."""
    return partial(_from_file, path, format)


def _from_file(path: str, format: str | None, sentences: Iterable[Sentence]) -> Iterator[Arcs]:
    return transferred(sentences, read_treebank(path, format=format), path)


@dataclass(frozen=True)
class Renamed:
    """An initial parser with its labels mapped to known ones; see `renamed`."""

    initial: InitialParser
    known: Collection[str]
    names: Mapping[str, str] | None

    def __call__(self, sentences: Iterable[Sentence]) -> Iterator[Arcs]:
        """Yield the arcs of each sentence."""
        name = lru_cache(MOST_NAMES)(lambda label: read_as(label, self.known, self.names))
        for heads, labels in self.initial(sentences):
            named = (label if head is None else name(label) for head, label in zip(heads, labels, strict=True))
            yield Arcs(heads, tuple(named))


def renamed(initial: InitialParser, known: Collection[str], names: Mapping[str, str] | None = None) -> InitialParser:
    """Return an initial parser that maps its labels to known ones, as `read_as` does.

    The known labels are those of a model, `parser.model.vocabulary.labels`. The mapping `names`, such as one from
    `label_map_of`, takes precedence.
    """
    if isinstance(initial, SeveralParsers):
        return SeveralParsers(tuple(renamed(each, known, names) for each in initial.sources))
    return Renamed(initial, known, names)


@dataclass(frozen=True)
class SeveralParsers:
    """Several initial parsers. The first one gives G⁰; the arcs of all of them are evidence (`Trust`)."""

    sources: tuple[InitialParser, ...]

    def __call__(self, sentences: Iterable[Sentence]) -> Iterator[Arcs]:
        """Yield the arcs of the first parser."""
        return self.sources[0](sentences)


def reads_input_trees(initial: InitialParser) -> bool:
    """Return whether the initial parse, or the first of several, is the sentences' own trees."""
    return _without_names(initial.sources[0] if isinstance(initial, SeveralParsers) else initial) is input_trees


def is_of_others(initial: InitialParser) -> bool:
    """Return whether an initial parser reads trees that a user supplied: those of the input, or those of a file."""
    return reads_input_trees(initial) or getattr(_without_names(initial), "func", None) is _from_file


def _without_names(initial: InitialParser) -> InitialParser:
    return initial.initial if isinstance(initial, Renamed) else initial
