"""Treebanks in, treebanks with trees out: stretches of files through a pool of workers and an engine, in order."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice

from treefine.errors import TreebankError, TreefineError
from treefine.network.packed_arrays import Packed, PackedTrees
from treefine.parsing.pool import Hand, Pool
from treefine.parsing.scribe import Place, Read, Written, readable, written
from treefine.treebank.convert import convert
from treefine.treebank.formats import FORMATS
from treefine.treebank.sentence import Sentence

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
            for trees in engine(self._packed()):
                block = self.parsing.popleft()
                block.writing = block.hand.write(block.number, trees, skip=block.skip, is_start=block.is_start)
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
