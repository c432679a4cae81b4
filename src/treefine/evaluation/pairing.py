"""Read the words of two files in columns, and match those of a system file with those of the gold file."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TypeAlias, cast

from treefine.errors import AlignmentError
from treefine.treebank.align import WordSpans, even_blocks, same_words, text_error, without_spaces
from treefine.treebank.conllu import read_treebank, tree_faults
from treefine.treebank.files import Source
from treefine.treebank.raw_text import Span
from treefine.treebank.sentence import BLANK, HasSentence, Sentence, sentences_in

Treebank: TypeAlias = "Source | Iterable[Sentence | HasSentence]"
Read: TypeAlias = Callable[[Source], Iterator[Sentence]]  # reads a treebank that is a file
AT_ROOT = -1
UNALIGNED = -2
STRETCH = 5_000  # words that are scored at a time
_STRETCH_SENTENCES = 250  # if words are paired by number
_GOLD = "the gold treebank"


@dataclass(slots=True)
class WordColumns(WordSpans):
    """All words of a file with their annotation. Spans count characters without spaces."""

    lemmas: list[str] = field(default_factory=list)
    upos: list[str] = field(default_factory=list)
    xpos: list[str] = field(default_factory=list)
    feats: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)  # as they are compared: without subtypes in UD
    heads: list[int] = field(default_factory=list)  # a word of this file, or AT_ROOT

    @property
    def sentence_spans(self) -> list[Span]:
        """The characters of each sentence."""
        return [(self.spans[words[0]][0], self.spans[words[-1]][1]) for words in self.sentence_words()]

    def tags(self) -> list[str]:
        """Return UPOS of each word, or XPOS if UPOS is blank."""
        return [u if u != BLANK else x for u, x in zip(self.upos, self.xpos, strict=True)]


@dataclass(frozen=True, slots=True)
class AlignedWords:
    """The words of a gold and a system file over the same text, aligned."""

    gold: WordColumns
    system: WordColumns
    system_of: list[int]  # for each gold word, the matching system word, or UNALIGNED
    gold_of: list[int]  # for each system word, the matching gold word, or UNALIGNED


def load_words(sentences: Iterable[Sentence | HasSentence], *, is_ud: bool = True) -> WordColumns:
    """Return the words of sentences; with `is_ud`, cycles, no root or several roots raise an error."""
    return _columns([*_checked(sentences, read_treebank, needs_trees=is_ud, needs_layout=is_ud)], is_ud=is_ud)


def load_pairs(
    gold: Treebank,
    systems: Mapping[str, Treebank],
    *,
    is_ud: bool = True,
    is_strict: bool = True,
    read: Read = read_treebank,
) -> dict[str, AlignedWords]:
    """Read a gold file and several system files, and align each with gold.

    With `is_ud`, files that the official CoNLL 2018 scorer rejects raise an error: cycles, no root or several roots, a
    byte order mark, extra blank lines, no blank line after the last sentence, a carriage return within a line. If not
    `is_strict`, the layout of the files does not matter, and a system's file may have cycles and any number of roots.
    The scorers of the other corpora ignore multiword tokens, keep spaces in forms, and do not check the trees.
    """

    def load(treebank: Treebank, *, needs_trees: bool) -> WordColumns:
        sentences = _checked(treebank, read, needs_trees=is_ud and needs_trees, needs_layout=is_ud and is_strict)
        return _columns([*sentences], is_ud=is_ud)

    right = load(gold, needs_trees=True)
    return {name: _pair(right, load(each, needs_trees=is_strict), is_ud=is_ud) for name, each in systems.items()}


def stretches(
    gold: Treebank, system: Treebank, *, is_ud: bool = True, read: Read = read_treebank
) -> Iterator[AlignedWords]:
    """Read two files side by side; yield their aligned words in stretches, whose scores add up to the file's.

    A stretch has about STRETCH words, so memory does not grow with the files if sentences often end in both files.
    """
    ours, theirs = (_checked(each, read, needs_trees=is_ud, needs_layout=is_ud) for each in (gold, system))
    blocks: Iterator[tuple[list[Sentence], ...]] = _numbered_blocks(ours, theirs)
    if is_ud:
        blocks = even_blocks(ours, theirs, without_spaces, least=STRETCH, title=_GOLD)
    try:
        for block in blocks:
            yield _pair(*(_columns(each, is_ud=is_ud) for each in block), is_ud=is_ud)
    except AlignmentError:
        deque(chain(ours, theirs), maxlen=0)  # if a file is damaged further on, that error explains more than this one
        raise


def _numbered_blocks(*sides: Iterator[Sentence]) -> Iterator[tuple[list[Sentence], ...]]:
    lengths = [_STRETCH_SENTENCES]
    while min(lengths) == _STRETCH_SENTENCES:
        blocks = tuple([*islice(side, _STRETCH_SENTENCES)] for side in sides)
        yield blocks
        lengths = [*map(len, blocks)]


def _checked(treebank: Treebank, read: Read, *, needs_trees: bool, needs_layout: bool) -> Iterator[Sentence]:
    """Yield the sentences; raise an error for the first one that the official scorer rejects."""
    if isinstance(treebank, str | os.PathLike) or hasattr(treebank, "read"):
        treebank = read(cast(Source, treebank))
    else:
        needs_layout = False  # not a file
    for sentence in sentences_in(treebank, "The treebank"):
        if needs_trees:
            for fault in tree_faults(sentence, needs_one_root=True):
                raise fault
        if needs_layout:
            _check_like_official_scorer(sentence)
        yield sentence


def _check_like_official_scorer(sentence: Sentence) -> None:
    start, _, end = sentence.layout
    rejected = "which the official scorer rejects or reads in another way"
    if start:
        message = f"The file starts with a byte order mark or a blank line, {rejected}."
        raise sentence.error(message, hint="Remove it.")
    if end.count("\n") != 2:
        message = f"There is not exactly one blank line after the sentence, {rejected}."
        raise sentence.error(message, hint="Add or remove blank lines.")
    if any("\r" in cell for column in (sentence.comments, *sentence.columns) for cell in column):
        message = f"There is a carriage return within a line, {rejected}."
        raise sentence.error(message, hint="Remove it.")


def _columns(sentences: Sequence[Sentence], *, is_ud: bool) -> WordColumns:
    columns = WordColumns.of(sentences, without_spaces if is_ud else None)
    for word in [word for word, (start, end) in enumerate(columns.spans) if start == end and is_ud]:
        number, place = columns.place(word)
        raise sentences[number].error("FORM is empty or contains only spaces.", word=place)
    for first, sentence in zip(columns.first_words, sentences, strict=True):
        columns.lemmas += sentence.lemma
        columns.upos += sentence.upos
        columns.xpos += sentence.xpos
        columns.feats += sentence.feats
        columns.labels += compared_labels(sentence.labels, is_ud=is_ud)
        heads = sentence.heads if None not in sentence.heads else sentence.graph.arcs.heads  # the graph raises an error
        columns.heads += [first + head - 1 if head else AT_ROOT for head in heads]
    return columns


def compared_labels(labels: Sequence[str], *, is_ud: bool) -> list[str]:
    """Return the labels as they are compared: without subtypes in UD."""
    return [label.partition(":")[0] for label in labels] if is_ud else [*labels]


def _pair(gold: WordColumns, system: WordColumns, *, is_ud: bool) -> AlignedWords:
    """Align two files over the same characters as the CoNLL 2018 scorer does; for other corpora, word by word."""
    pairs: Iterable[tuple[int, int]] = ((word, word) for word in range(len(gold)))
    if not is_ud:
        _check_same_words(gold, system)
    elif gold.text != system.text:
        raise text_error(gold, system, _GOLD)
    # If the spans agree, so do the multiword tokens, because only their words share a span.
    elif gold.spans != system.spans or [*map(str.lower, gold.forms)] != [*map(str.lower, system.forms)]:
        pairs = same_words(gold, system)
    aligned = AlignedWords(gold, system, [UNALIGNED] * len(gold), [UNALIGNED] * len(system))
    for g, s in pairs:
        aligned.system_of[g], aligned.gold_of[s] = s, g
    return aligned


def _check_same_words(gold: WordColumns, system: WordColumns) -> None:
    """Raise an error where two files have other words; the CoNLL-X and CoNLL-2009 scorers pair them by number."""
    for ours, theirs in zip(gold.sentence_words(), system.sentence_words(), strict=False):
        for g, s in zip(ours, theirs, strict=False):
            if gold.forms[g] != system.forms[s]:
                there = gold.shown_place(g, _GOLD)
                raise system.error(f"The word is {system.forms[s]!r} here, but {gold.forms[g]!r} in {there}.", s)
        if len(ours) != len(theirs):
            there = gold.shown_place(ours[0], _GOLD)
            message = f"The sentence has {len(theirs)} words here, but {len(ours)} in {there}."
            raise system.error(message, theirs[0])
    if len(gold.sentences) != len(system.sentences):
        more = "fewer" if len(system.sentences) < len(gold.sentences) else "more"
        raise system.error(f"The file has {more} sentences than {gold.name or _GOLD}.", None)
