"""Initial parses G⁰ (Sec. 4): none, what the sentences have already, those of a file, or another parser's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from treefine.errors import AlignmentError
from treefine.treebank.conllu import read_treebank
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import BLANK, Sentence

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
    """The trees of a treebank file, which must hold the same sentences, word by word, in the same order."""

    def initial(sentences: Iterable[Sentence]) -> Iterator[Arcs]:
        parses = read_treebank(path, format=format)
        for number, sentence in enumerate(sentences, start=1):
            parse = next(parses, None)
            if parse is None:
                raise AlignmentError(
                    f"The file of initial parses ends before sentence {number}{_place(sentence)}.",
                    hint="Parse the whole input with the initial parser.",
                    path=path,
                )
            _check_same_words(sentence, parse)
            yield parse.arcs
        extra = next(parses, None)
        if extra is not None:
            raise AlignmentError(
                "The file of initial parses goes on after the last sentence of the input.",
                path=path,
                line=extra.line,
                sentence=extra.number,
                sent_id=extra.sent_id,
            )

    return initial


def _check_same_words(sentence: Sentence, parse: Sentence) -> None:
    ours, theirs = sentence.forms, parse.forms
    if ours == theirs:
        return
    pairs = zip(ours, theirs, strict=False)
    word = next((word for word, (our, their) in enumerate(pairs, start=1) if our != their), 0)
    if word:
        difference = f"word {word} is {theirs[word - 1]!r} here but {ours[word - 1]!r} in the input{_place(sentence)}"
    else:
        difference = f"there are {len(theirs)} words here but {len(ours)} in the input{_place(sentence)}"
    raise AlignmentError(
        f"The initial parse is of another sentence: {difference}.",
        hint="Parse the same words, in the same order, with the initial parser.",
        path=parse.path,
        line=parse.line,
        sent_id=parse.sent_id,
        sentence=parse.number,
        word=str(word) if word else "",
    )


def _place(sentence: Sentence) -> str:
    """Where a sentence of the input stands, if it comes from a file."""
    return f" ({sentence.path}:{sentence.line})" if sentence.path else ""
