"""Parse a file with worker processes that read and write beside the model."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from treefine.config import Column
from treefine.errors import TreebankError, TreefineError
from treefine.fast.packed import Packed, PackedTrees
from treefine.fast.pool import SHORT, Hand, Pool, default_workers
from treefine.fast.scribe import Orders, Place, Read, Written, readable, written
from treefine.model.subwords import Subwords
from treefine.model.vocabulary import UNSEEN, Vocabulary
from treefine.parsing.batches import Plan, run
from treefine.parsing.initial import Renamed, empty, given
from treefine.parsing.options import checked_workers
from treefine.parsing.results import Parsed, trees
from treefine.treebank.conllu import cut_treebank, read_treebank, write_treebank
from treefine.treebank.constraints import unconstrained
from treefine.treebank.files import Source, name_of, open_input, open_output
from treefine.treebank.formats import FORMATS, convert, format_of
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import BLANK, Sentence

if TYPE_CHECKING:
    from treefine.parsing.parser import Parser


def engine_of_plan(plan: Plan) -> Engine:
    """The engine that parses packed sentences as `run` does others: words are spelled by the ids of their pieces."""
    model = copy(plan.model)
    assert model.subwords is not None
    model.subwords = _Spelled(model.subwords)
    vocabulary, columns = model.vocabulary, model.settings.tags.columns
    spelled = replace(plan, model=model, initial=given, constrain=unconstrained)

    def engine(blocks: Iterable[Packed]) -> Iterator[PackedTrees]:
        sizes: deque[int] = deque()

        def sentences() -> Iterator[Sentence]:
            for packed in blocks:
                sizes.append(len(packed))
                yield from spelled_sentences(packed, vocabulary, columns)

        parsed = (result for _, result in run(spelled, sentences(), trees))
        for first in parsed:
            yield _packed_trees([first, *islice(parsed, sizes.popleft() - 1)], vocabulary, columns)

    return engine


class _Spelled(Subwords):
    """A tokenizer that reads pieces from words that are spelled so: "101-7" has 101 and 7."""

    def __init__(self, subwords: Subwords) -> None:
        vars(self).update(vars(subwords))

    def pieces_of(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        return [tuple(map(int, word.split("-"))) for word in words]


def spelled_sentences(packed: Packed, vocabulary: Vocabulary, columns: Sequence[Column]) -> Iterator[Sentence]:
    """The sentences, with all that the arrays tell of them."""
    stop = np.cumsum(packed.counts)
    pieces = list(map(str, packed.pieces.tolist()))
    words = [
        "-".join(pieces[end - count : end]) for end, count in zip(stop.tolist(), packed.counts.tolist(), strict=True)
    ]
    heads = [None if head < 0 else head for head in packed.heads.tolist()]
    labels = [BLANK if label == UNSEEN else vocabulary.labels[label] for label in packed.labels.tolist()]
    tags = {}
    if packed.tags is not None:
        for place, column in enumerate(columns):
            names = (BLANK, *vocabulary.tags(column))
            tags[column] = [names[tag] for tag in packed.tags[:, place].tolist()]
    start = 0
    for length in packed.lengths.tolist():
        part = slice(start, start + length)
        sentence = Sentence.of_words(words[part], **{column: given[part] for column, given in tags.items()})
        yield sentence.with_arcs(Arcs(tuple(heads[part]), tuple(labels[part])))
        start += length


def _packed_trees(parsed: Sequence[Parsed], vocabulary: Vocabulary, columns: Sequence[Column]) -> PackedTrees:
    arcs = [each.tree.arcs for each in parsed]
    heads = np.array([head for each in arcs for head in each.heads], np.int32)
    labels = np.array(vocabulary.label_ids([label for each in arcs for label in each.labels]), np.int32)
    if not parsed[0].tags:
        return PackedTrees(heads, labels)
    tags = [
        vocabulary.tag_ids(column, [tag for each in parsed for tag in each.tags[place]])
        for place, column in enumerate(columns)
    ]
    return PackedTrees(heads, labels, np.array(tags, np.int32).T)


Engine = Callable[[Iterable[Packed]], Iterator[PackedTrees]]
"""The trees of each block of sentences, in order; it may ask for some blocks before it gives the first trees."""


@dataclass
class Told:
    """What is found on the way, as far as it got."""

    lost: Counter[str] = field(default_factory=Counter)  # what the format to write has no place for
    on_warning: Callable[[TreefineError], None] = lambda _: None  # hears of the first sentence that lacks tags
    on_sentences: Callable[[int], None] = lambda _: None  # hears how many more are written


@dataclass
class _Block:
    """A stretch on its way."""

    number: int
    place: Place
    hand: Hand
    reading: Future[Read]
    n_sentences: int = 0
    before: int = 0  # sentences that its file has before it
    skip: int = 0  # of its sentences, which are not to be written
    is_start: bool = False  # of the output
    writing: Future[Written] | None = None


def parsed_texts(
    places: Iterable[Place],
    pool: Pool,
    engine: Engine,
    parse: Callable[[Iterable[Sentence]], Iterator[Sentence]],
    told: Told,
    *,
    skip: int = 0,
) -> Iterator[str]:
    """The text of the output, some sentences at a time, but for the first `skip` ones; the first one comes alone.

    Stretches with sentences about which a person decided something go through `parse`. What is wrong with the input is
    raised after all that comes before it.
    """
    run, gap = _Run(places, pool, parse, told, skip), ""
    for first, rest, next_gap in run.results(engine):
        yield gap + first
        yield rest
        gap = next_gap
    if run.fault is not None:
        raise run.fault


class _Run:
    """The stretches of one output."""

    def __init__(
        self,
        places: Iterable[Place],
        pool: Pool,
        parse: Callable[[Iterable[Sentence]], Iterator[Sentence]],
        told: Told,
        skip: int,
    ) -> None:
        self.places, self.pool, self.parse, self.told, self.skip = iter(places), pool, parse, told, skip
        self.is_start = not skip  # of the output
        self.is_warned = False
        self.n_blocks = self.n_sentences = 0  # asked for so far; in the file so far
        self.reading: deque[_Block] = deque()
        self.parsing: deque[_Block] = deque()
        self.writing: deque[_Block] = deque()
        self.decided: _Block | None = None  # the next one, which no engine can do
        self.fault: TreefineError | None = None  # in the input …
        self.fault_ahead: TreefineError | None = None  # … behind all that is being read

    def results(self, engine: Engine) -> Iterator[Written]:
        """What is written of each stretch."""
        while True:
            for parsed in engine(self._packed()):
                block = self.parsing.popleft()
                block.writing = block.hand.write(block.number, parsed, skip=block.skip, is_start=block.is_start)
                self.writing.append(block)
                yield from self._written(at_most=self.pool.ahead)
            yield from self._written(at_most=0)
            if self.decided is None:
                return
            yield self._parsed(self.decided)
            self.decided = None

    def _packed(self) -> Iterator[Packed]:
        """What goes into the engine, up to a stretch that it cannot do; the next ones are being read meanwhile."""
        while self.fault is None and self._ask():
            block = self.reading.popleft()
            read = block.reading.result()
            self._note(block, read)
            if block.skip == block.n_sentences:
                block.hand.drop(block.number)
            elif read.is_decided:
                block.hand.drop(block.number)
                self.decided = block
                return
            else:
                self.parsing.append(block)
                yield read.packed

    def _ask(self) -> bool:
        """Have the next stretches read; whether there is one."""
        while len(self.reading) < self.pool.ahead and self.fault_ahead is None:
            try:
                place = next(self.places)
            except StopIteration:
                break
            except TreefineError as error:
                self.fault_ahead = error
                break
            hand = self.pool.hand_for(place)
            self.reading.append(_Block(self.n_blocks, place, hand, hand.read(self.n_blocks, place)))
            self.n_blocks += 1
        if not self.reading:
            self.fault = self.fault_ahead
        return bool(self.reading)

    def _note(self, block: _Block, read: Read) -> None:
        """Take over what was found in a stretch, in order."""
        if block.place.stretch.line == 1:  # of another file
            self.n_sentences = 0
        block.n_sentences, block.before = len(read.packed), self.n_sentences
        self.n_sentences += block.n_sentences
        block.skip = min(self.skip, block.n_sentences)
        self.skip -= block.skip
        if block.skip < block.n_sentences:
            block.is_start, self.is_start = self.is_start, False
        self.told.lost.update(read.lost or {})
        if read.warning is not None and not self.is_warned:
            self.is_warned = True
            self.told.on_warning(_behind(read.warning, block.before))
        if read.fault is not None:
            self.fault = _behind(read.fault, block.before)

    def _written(self, *, at_most: int) -> Iterator[Written]:
        """What is written by now, in order; if more than so many are not, some are waited for."""
        while self.writing:
            block = self.writing[0]
            assert block.writing is not None
            if len(self.writing) <= at_most and not block.writing.done():
                return
            self.writing.popleft()
            yield block.writing.result()
            self.told.on_sentences(block.n_sentences - block.skip)

    def _parsed(self, block: _Block) -> Written:
        """A stretch that no engine can do."""
        found = list(islice(readable(block.place, number=block.before + 1), block.n_sentences))
        if block.place.to is not None:
            found = [convert(sentence, FORMATS[block.place.to]) for sentence in found]
        sentences = list(self.parse(found))[block.skip :]
        self.told.on_sentences(len(sentences))
        return written(sentences, is_start=block.is_start)


def _behind(error: TreebankError, n_sentences: int) -> TreebankError:
    """An error of a sentence that has so many more before it."""
    error.sentence = None if error.sentence is None else error.sentence + n_sentences
    return error


class FileParser:
    """A parser, what runs its model, and its workers, while entered.

    Without a number of workers there are as many as `default_workers` says, once a file is long enough.
    """

    def __init__(self, parser: Parser, orders: Orders, workers: int | None = None) -> None:
        self._parser = parser
        self._pool = Pool(
            orders, default_workers() if workers is None else workers, short=SHORT if workers is None else 0
        )
        self._engine: Engine | None = None

    @classmethod
    def of(cls, parser: Parser, workers: int | None = None) -> FileParser | None:
        """The one for this parser; None where it has to parse sentences as they come, or on a CPU had better do so."""
        orders = orders_of(parser) if parser.device.type == "cuda" or workers else None
        return None if orders is None else cls(parser, orders, workers)

    def __enter__(self) -> FileParser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.close()

    def texts(self, places: Iterable[Place], told: Told, *, skip: int = 0) -> Iterator[str]:
        """What `parsed_texts` gives."""
        if self._engine is None:
            self._engine = _engine_of(self._parser)
        return parsed_texts(places, self._pool, self._engine, self._parser.stream, told, skip=skip)


def parse_file(
    parser: Parser,
    source: Source,
    target: str | os.PathLike[str],
    *,
    format: str | None = None,
    workers: int | None = None,
) -> int:
    """Do what `Parser.parse_file` does."""
    files = FileParser.of(parser, checked_workers(workers))
    if files is None:
        return write_treebank(parser.stream(read_treebank(source, format=format)), target)
    count = 0

    def counted(more: int) -> None:
        nonlocal count
        count += more

    path = name_of(source)
    with files, open_output(target) as output, open_input(source) as stream:
        places = (Place(each, path, format_of(path, format).name) for each in cut_treebank(stream, path))
        for text in files.texts(places, Told(on_sentences=counted)):
            output.write(text.encode())
    return count


def orders_of(parser: Parser) -> Orders | None:
    """What those who read and write for a parser have to know; None where an engine cannot do as it is told."""
    model, initial = parser.model, parser.initial
    names = None
    if isinstance(initial, Renamed):
        names = initial.names
        initial = initial.initial
    if model.subwords is None or initial not in (empty, given) or parser.keep == "given":
        return None
    return Orders(
        model.subwords.tokenizer.to_str(),
        model.subwords.settings,
        model.vocabulary.labels,
        model.vocabulary.upos,
        model.vocabulary.xpos,
        model.settings.tags.columns,
        reads_tags=parser.tags == "given",
        needs_tags=parser.tags == "given" and model.settings.tags.source != "predicted",
        reads_arcs=initial is given,
        names=names,
        heeds_marks=parser.keep == "marked",
    )


def _engine_of(parser: Parser) -> Engine:
    return engine_of_plan(parser.plan()) if parser.engine is None else parser.engine.stream
