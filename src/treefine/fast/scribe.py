"""What is done with a file around the model: reading, tokenising, filling in, writing; without torch.

A Scribe does it for one stretch of a file after another, in this process or in another (`worker`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tokenizers import Tokenizer

from treefine.config import Column
from treefine.errors import TreebankError
from treefine.fast.packed import Packed, PackedTrees, filled, pack
from treefine.model.subwords import Subwords
from treefine.model.vocabulary import Vocabulary
from treefine.parsing.initial import given, renamed
from treefine.treebank.conllu import Stretch, gap_after, read_stretch, texts_in_file
from treefine.treebank.constraints import marks_of
from treefine.treebank.formats import FORMATS, convert, losses
from treefine.treebank.sentence import BLANK, Sentence


@dataclass(frozen=True)
class Orders:
    """All that a Scribe has to know, in plain values that JSON can hold."""

    tokenizer: str  # the whole of it, as JSON
    special: Mapping[str, str]  # its special pieces: Subwords.settings
    labels: Sequence[str]
    upos: Sequence[str]
    xpos: Sequence[str]
    columns: Sequence[Column]  # of tags that the model has
    reads_tags: bool
    needs_tags: bool  # whether it can do nothing about words that have none
    reads_arcs: bool  # whether the arcs of the file are those to start from
    names: Mapping[str, str] | None = None  # for labels of these arcs
    heeds_marks: bool = True  # of what a person decided


class Place(NamedTuple):
    """A stretch of a file, and how to read and to write it."""

    stretch: Stretch
    path: str
    format: str
    to: str | None = None  # the format to write, where it is another


class Read(NamedTuple):
    """What a Scribe found in a stretch: the sentences before the first fault."""

    packed: Packed
    fault: TreebankError | None = None  # its sentence, and that of the warning, are counted from the stretch's first
    warning: TreebankError | None = None
    is_decided: bool = False  # whether a person decided something about a sentence, which an engine does not heed
    lost: Mapping[str, int] | None = None  # what the format to write has no place for


class Written(NamedTuple):
    """The text of a stretch with its trees."""

    first: str  # of the first sentence
    rest: str
    gap: str  # what has to follow before another file's sentences; mostly nothing


class Scribe:
    """Reads stretches, keeps their sentences, and writes them once their trees are there."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self._subwords = Subwords(Tokenizer.from_str(orders.tokenizer), orders.special)
        self._vocabulary = Vocabulary(tuple(orders.labels), tuple(orders.upos), tuple(orders.xpos))
        self._initial = renamed(given, self._vocabulary.labels, orders.names)
        self._kept: dict[int, list[Sentence]] = {}

    def read(self, number: int, place: Place) -> Read:
        """The sentences of a stretch as an engine reads them; they are kept under this number."""
        orders, sentences, lost = self.orders, list[Sentence](), Counter[str]()
        fault = warning = None
        is_decided = False
        try:
            for sentence in readable(place):
                if warning is None and orders.needs_tags:
                    warning = missing_tags(sentence, orders.columns)
                if place.to is not None:
                    lost += losses(sentence, FORMATS[place.to])
                    sentence = convert(sentence, FORMATS[place.to])
                if orders.heeds_marks:
                    is_decided |= bool(marks_of(sentence))
                sentences.append(sentence)
        except TreebankError as error:
            fault = error
        self._kept[number] = sentences
        arcs = list(self._initial(sentences)) if orders.reads_arcs else None
        packed = pack(
            sentences, self._subwords, self._vocabulary, orders.columns, reads_tags=orders.reads_tags, arcs=arcs
        )
        return Read(packed, fault, warning, is_decided, lost)

    def write(self, number: int, trees: PackedTrees, *, skip: int = 0, is_start: bool = False) -> Written:
        """The text of the stretch with its trees, but for the first `skip` sentences; it is kept no longer."""
        sentences = list(filled(self._kept.pop(number), trees, self._vocabulary, self.orders.columns))[skip:]
        return written(sentences, is_start=is_start)

    def drop(self, number: int) -> None:
        """Keep a stretch no longer, which is not to be written, or by others."""
        del self._kept[number]


def readable(place: Place, *, number: int = 1) -> Iterator[Sentence]:
    """The sentences of a stretch; what is none is raised."""
    for read in read_stretch(place.stretch, FORMATS[place.format], place.path, number=number):
        if not isinstance(read, Sentence):
            raise read.faults[0]
        yield read


def written(sentences: Sequence[Sentence], *, is_start: bool) -> Written:
    """The sentences as a file has them; `is_start` if it begins with them."""
    first, *rest = texts_in_file(sentences, is_start=is_start)
    return Written(first, "".join(rest), gap_after(sentences[-1].layout))


def missing_tags(sentence: Sentence, columns: Sequence[Column]) -> TreebankError | None:
    """What is to be told of a sentence without any tag in these columns."""
    if any(set(sentence.upos if column == "upos" else sentence.xpos) != {BLANK} for column in columns):
        return None
    names = " and ".join(column.upper() for column in columns)
    hint = "Trees will be worse than they could be."
    return sentence.error(f"There is no {names} here, which the model was trained to read.", hint=hint)
