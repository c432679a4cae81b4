"""Parse treebank files on a GPU while worker processes read, tokenise and write.

Workers import this module, so it must not import torch. See docs/design.md, 'File workers'.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tokenizers import Tokenizer

from treefine.config import MOST_WORDS, Column, TagSettings, named_columns
from treefine.cores import usable_cores
from treefine.errors import TreebankError, TreefineError
from treefine.fast.packed import NoMemoryError, Packed, PackedTrees, filled, pack
from treefine.model.subwords import Subwords
from treefine.model.vocabulary import Vocabulary
from treefine.parsing.initial import Renamed, empty, given, renamed
from treefine.treebank.conllu import (
    FORMATS,
    Stretch,
    convert,
    cut_treebank,
    format_of,
    gap_after,
    losses,
    read_stretch,
    read_treebank,
    texts_in_file,
    with_newdoc,
    write_treebank,
)
from treefine.treebank.constraints import label_warning, marks_of
from treefine.treebank.files import Source, name_of, open_input, open_output
from treefine.treebank.sentence import BLANK, Sentence
from treefine.worker_process import WorkerProcess

if TYPE_CHECKING:
    from treefine.fast.engine import Engine
    from treefine.parsing.parser import Parser

_MOST_WORKERS = 16
_OTHER_CORES = 2  # cores left for the process that runs the model and for the rest of the system
_START_AFTER = 1 << 20  # bytes of input that this process reads itself before it starts workers
_HINT = "Is there enough memory? Use --workers 0 to parse without workers."

_Parse = Callable[[Iterable[Sentence]], Iterator[Sentence]]  # Parser.stream_trees, for what the engine does not support
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class WorkerSettings:
    """The settings of the parser that a worker needs."""

    tokenizer: str  # as JSON
    special: Mapping[str, str]  # the special pieces of the tokenizer: Subwords.settings
    vocabulary: Vocabulary
    tags: TagSettings  # of the model
    read_columns: tuple[Column, ...]
    needed_columns: tuple[Column, ...]  # those of them that the model cannot predict
    reads_arcs: bool  # whether parsing starts from the arcs of the file
    names: Mapping[str, str] | None = None  # how to rename the labels of those arcs
    reads_marks: bool = True  # whether Keep= marks are respected
    most_words: int = MOST_WORDS  # a longer sentence is parsed in parts
    replaces_tags: bool = False
    treebank: str = ""  # of all sentences, for a model of several

    @classmethod
    def of(cls, parser: Parser) -> WorkerSettings | None:
        """Return the settings for this parser, or None if it reads more than a packed part holds."""
        model, plan, initial = parser.model, parser.plan(), parser.initial
        names = initial.names if isinstance(initial, Renamed) else None
        initial = initial.initial if isinstance(initial, Renamed) else initial
        if initial not in (empty, given) or plan.keep == "given" or plan.trust or plan.language.guesses:
            return None  # a worker sees only parts of a file
        return cls(
            model.subwords.tokenizer.to_str(),
            model.subwords.settings,
            model.vocabulary,
            model.settings.tags,
            read_columns=plan.read_columns,
            needed_columns=plan.needed_columns,
            reads_arcs=initial is given,
            names=names,
            reads_marks=plan.keep == "marked",
            most_words=plan.most_words,
            replaces_tags=plan.replaces_tags,
            treebank=plan.language.named,
        )


class FilePart(NamedTuple):
    """Some sentences of a file, and how to read and write them."""

    stretch: Stretch
    path: str
    format: str
    to: str | None = None  # the output format, if it differs
    names_file: bool = False  # whether its first sentence gets a comment that names the file

    def sentences(self, *, number: int = 1) -> Iterator[Sentence]:
        """Yield the sentences, numbered from `number`; raise an error at the first fault."""
        for read in read_stretch(self.stretch, FORMATS[self.format], self.path, number=number):
            if not isinstance(read, Sentence):
                raise read.faults[0]
            yield read

    def converted(self, sentence: Sentence) -> Sentence:
        """Return a sentence in the output format."""
        return sentence if self.to is None else convert(sentence, FORMATS[self.to])

    def named(self, sentences: Iterable[Sentence]) -> list[Sentence]:
        """Return the parsed sentences; if the part names its file, the first one does so."""
        found = list(sentences)
        return [*map(with_newdoc, found[:1]), *found[1:]] if self.names_file else found


class _Block(NamedTuple):
    """A part on its way through a run."""

    part: FilePart
    n_sentences: int
    n_before: int  # sentences of its file before it
    skip: int  # sentences of it that are not written
    is_start: bool  # of the output

    def sentences(self) -> Iterator[Sentence]:
        """Yield the sentences, numbered as in their file."""
        return islice(self.part.sentences(number=self.n_before + 1), self.n_sentences)


class PackedPart(NamedTuple):
    """The sentences of a part before its first fault. Faults and warnings count sentences from the part's start."""

    packed: Packed
    fault: TreebankError | None
    warnings: tuple[TreebankError | None, TreebankError | None]  # missing tags; a mark with an unknown label
    bypasses_engine: bool  # whether a sentence has a mark or is long, which the engine does not support
    lost: Mapping[str, int]  # what the output format cannot represent


WrittenPart = tuple[str, str, str]  # the first sentence, the others, and the separator before the next file's sentences


class Scribe:
    """A reader and writer of file parts, in a worker or in this process."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._subwords = Subwords(Tokenizer.from_str(settings.tokenizer), settings.special)
        self._initial = renamed(given, settings.vocabulary.labels, settings.names)

    def read(self, part: FilePart) -> PackedPart:
        """Read a part up to its first fault, and pack its sentences."""
        settings, sentences, lost, bypasses_engine = self._settings, list[Sentence](), Counter[str](), False
        fault = untagged = unknown = None
        try:
            for sentence in part.sentences():
                if untagged is None and settings.needed_columns:
                    untagged = missing_tags(sentence, settings.needed_columns)
                if part.to is not None:
                    lost.update(losses(sentence, FORMATS[part.to]))
                    sentence = part.converted(sentence)
                if settings.reads_marks and (constraints := marks_of(sentence)):
                    bypasses_engine = True
                    unknown = unknown or label_warning(sentence, constraints, settings.vocabulary.labels)
                bypasses_engine = bypasses_engine or len(sentence) > settings.most_words
                sentences.append(replace(sentence, treebank=settings.treebank))
        except TreebankError as error:
            fault = error
        arcs = list(self._initial(sentences)) if settings.reads_arcs else None
        own = self._subwords, settings.vocabulary, settings.tags
        packed = pack(sentences, *own, read=settings.read_columns, arcs=arcs)
        return PackedPart(packed, fault, (untagged, unknown), bypasses_engine, lost)

    def write(self, block: _Block, trees: PackedTrees) -> WrittenPart:
        """Write the sentences of a block with their trees."""
        settings, part = self._settings, block.part
        sentences = (replace(each, treebank=settings.treebank) for each in map(part.converted, block.sentences()))
        found = filled(sentences, trees, settings.vocabulary, settings.tags, replaces_tags=settings.replaces_tags)
        return write_part(part.named(found)[block.skip :], is_start=block.is_start)


def write_part(sentences: Sequence[Sentence], *, is_start: bool) -> WrittenPart:
    """Return the text of sentences in a file. `is_start` says whether they are the first ones."""
    first, *rest = texts_in_file(sentences, is_start=is_start)
    return first, "".join(rest), gap_after(sentences[-1].layout)


def missing_tags(sentence: Sentence, columns: Sequence[Column]) -> TreebankError | None:
    """Return a warning if no word of the sentence has a value in any of these columns."""
    if any(set(getattr(sentence, column)) != {BLANK} for column in columns):
        return None
    message = f"The sentence has no {named_columns(columns)}, which the model was trained to read."
    return sentence.error(message, hint="Its tree will be less accurate.")


def default_workers() -> int:
    """Return the default number of workers for the cores that this process may use."""
    return max(0, min(_MOST_WORKERS, usable_cores() - _OTHER_CORES))


class WorkerPool:
    """A pool of workers, with one waiting thread per worker. The workers start once there is enough input."""

    def __init__(self, settings: WorkerSettings, n_workers: int, *, start_after: int = _START_AFTER) -> None:
        self.ahead = 2 * n_workers + 1  # how many parts to read ahead
        self.workers: list[WorkerProcess] = []
        self._settings, self._n_workers, self._start_after = settings, n_workers, start_after
        self._n_bytes = 0
        self._scribe: Scribe | None = None  # for tasks that this process runs itself
        self._idle: SimpleQueue[WorkerProcess] = SimpleQueue()
        self._threads = ThreadPoolExecutor(max(1, n_workers))

    def read(self, part: FilePart) -> Future[PackedPart]:
        """Start to read a part."""
        self._n_bytes += len(part.stretch.data)
        if not self.workers and self._n_bytes > self._start_after:
            for _ in range(self._n_workers):
                self.workers.append(WorkerProcess(Scribe, self._settings, hint=_HINT))
                self._idle.put(self.workers[-1])
        return self.submit(Scribe.read, part)

    def submit(self, method: Callable[..., _Value], *arguments: Any) -> Future[_Value]:
        """Run a method of Scribe in a worker, or in this process as long as there are no workers."""
        if self.workers:
            return self._threads.submit(self._run, method, arguments)
        self._scribe = self._scribe or Scribe(self._settings)
        done: Future[_Value] = Future()
        try:
            done.set_result(method(self._scribe, *arguments))
        except Exception as error:
            done.set_exception(error)
        return done

    def _run(self, method: Callable[..., _Value], arguments: tuple[Any, ...]) -> _Value:
        worker = self._idle.get()
        try:
            return worker.run(method, arguments)
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        """Kill the workers; they hold no state worth saving."""
        for worker in self.workers:
            worker.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self.workers:
            worker.close()


@dataclass
class FileReport:
    """The report of a run: information lost in the output format, warnings, and progress."""

    lost: Counter[str] = field(default_factory=Counter)  # what the output format cannot represent
    on_warning: Callable[[TreefineError], None] = lambda _: None  # for the first of each kind
    on_sentences: Callable[[int], None] = lambda _: None  # called with the number of sentences just written


class FileParser:
    """A parser of file parts with an engine and workers. As a context manager, it stops the workers on exit."""

    def __init__(self, pool: WorkerPool, engine: Engine, parse: _Parse) -> None:
        self.pool, self.engine, self.parse = pool, engine, parse

    @classmethod
    def of(cls, parser: Parser, workers: int | None = None) -> FileParser | None:
        """Return the FileParser for a parser, or None if it cannot use workers, as on a CPU.

        If no number of workers is given, `default_workers()` of them start once the input is long enough.
        """
        n_workers = default_workers() if workers is None else workers
        if not n_workers or parser.engine is None or (settings := WorkerSettings.of(parser)) is None:
            return None
        pool = WorkerPool(settings, n_workers, start_after=_START_AFTER if workers is None else 0)
        return cls(pool, parser.engine, parser.stream_trees)

    def __enter__(self) -> FileParser:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.close()

    def texts(self, parts: Iterable[FilePart], report: FileReport, *, skip: int = 0) -> Iterator[str]:
        """Yield the text of the output, a few sentences at a time, without the first `skip` sentences.

        The first sentence of each part is yielded separately. An error in the input is raised after the text before it.
        """
        run, gap = _Run(self, parts, report, skip), ""
        for first, rest, next_gap in run.written():
            yield gap + first
            yield rest
            gap = next_gap
        if run.fault is not None:
            raise run.fault


class _Run:
    """The parts of one output: read ahead, parsed in order, written meanwhile."""

    def __init__(self, files: FileParser, parts: Iterable[FilePart], report: FileReport, skip: int) -> None:
        self.fault: TreefineError | None = None  # the error in the input that follows everything read so far
        self._parts, self._pool, self._engine, self._parse = parts, files.pool, files.engine, files.parse
        self._report = report
        self._skip = skip  # the number of sentences still to skip
        self._n_sentences = 0  # read so far from the current file
        self._is_start = not skip
        self._warned = set[int]()  # the kinds of warnings reported; one of each kind is enough
        self._blocks = self._read()
        self._parsing: deque[_Block] = deque()
        self._writing: deque[tuple[_Block, Future[WrittenPart]]] = deque()
        self._bypassing: _Block | None = None  # the next part, if the engine does not support it

    def written(self) -> Iterator[WrittenPart]:
        """Yield each part with its trees, in order."""
        while True:
            for trees in self._trees():
                block = self._parsing.popleft()
                self._writing.append((block, self._pool.submit(Scribe.write, block, trees)))
                yield from self._finished(n_left=self._pool.ahead)
            yield from self._finished(n_left=0)
            if self._bypassing is None:
                return
            yield self._parsed_here(self._bypassing)
            self._bypassing = None

    def _trees(self) -> Iterator[PackedTrees]:
        """Yield the trees of the parts being parsed; if one sentence is too large, name it."""
        try:
            yield from self._engine.stream(self._packed())
        except NoMemoryError as error:
            raise error.named(chain.from_iterable(map(_Block.sentences, self._parsing))) from error

    def _packed(self) -> Iterator[Packed]:
        """Yield the input of the engine, up to a part that it does not support."""
        while self.fault is None and (found := next(self._blocks, None)) is not None:
            block, read = found
            if block.skip == block.n_sentences:
                continue
            if read.bypasses_engine or read.packed.longest > self._engine.longest:
                self._bypassing = block
                return
            self._parsing.append(block)
            yield read.packed

    def _read(self) -> Iterator[tuple[_Block, PackedPart]]:
        """Yield each part with its packed sentences, while the pool reads the parts after it."""
        parts, fault = iter(self._parts), None
        reading: deque[tuple[FilePart, Future[PackedPart]]] = deque()
        while True:
            try:
                part = None if fault is not None else next(parts, None)
            except TreefineError as error:  # raised later, after the parts before it
                part, fault = None, error
            if part is not None:
                reading.append((part, self._pool.read(part)))
            elif not reading:
                break
            if part is None or len(reading) == self._pool.ahead:
                first, read = reading.popleft()
                packed = read.result()
                yield self._noted(first, packed), packed
        self.fault = fault

    def _noted(self, part: FilePart, read: PackedPart) -> _Block:
        """Count the sentences of a part, and report its losses, warnings and faults."""
        if part.stretch.line == 1:  # this is the first part of a file
            self._n_sentences = 0
        n_sentences, n_before = len(read.packed), self._n_sentences
        skip = min(self._skip, n_sentences)
        block = _Block(part, n_sentences, n_before, skip, self._is_start)
        self._n_sentences += n_sentences
        self._skip -= skip
        if skip < n_sentences:
            self._is_start = False
        self._report.lost.update(read.lost)
        for kind, warning in enumerate(read.warnings):
            if warning is not None and kind not in self._warned:
                self._warned.add(kind)
                self._report.on_warning(_moved(warning, n_before))
        if read.fault is not None:
            self.fault = _moved(read.fault, n_before)
        return block

    def _finished(self, *, n_left: int) -> Iterator[WrittenPart]:
        """Yield the parts that are written, in order; wait until at most `n_left` parts are left."""
        while self._writing and (len(self._writing) > n_left or self._writing[0][1].done()):
            block, writing = self._writing.popleft()
            yield writing.result()
            self._report.on_sentences(block.n_sentences - block.skip)

    def _parsed_here(self, block: _Block) -> WrittenPart:
        """Parse a part that the engine does not support."""
        parsed = block.part.named(self._parse(map(block.part.converted, block.sentences())))[block.skip :]
        self._report.on_sentences(len(parsed))
        return write_part(parsed, is_start=block.is_start)


def _moved(error: TreebankError, n_before: int) -> TreebankError:
    """Renumber the sentence of an error from its part to its file, which has `n_before` sentences before the part."""
    error.sentence = None if error.sentence is None else error.sentence + n_before
    return error


def parse_treebank_file(
    parser: Parser, source: Source, target: str | os.PathLike[str], format: str | None, workers: int | None
) -> int:
    """Parse a treebank file; see `Parser.parse_file`."""
    if workers is not None and workers < 0:
        raise TreefineError(f"workers must be 0 or more, not {workers}.")
    files = FileParser.of(parser, workers)
    if files is None:
        return write_treebank(parser.stream_trees(read_treebank(source, format=format)), target)
    counts: list[int] = []
    path = name_of(source)
    with files, open_output(target) as output, open_input(source) as stream:
        parts = (FilePart(each, path, format_of(path, format).name) for each in cut_treebank(stream, path))
        for text in files.texts(parts, FileReport(on_sentences=counts.append)):
            output.write(text.encode())
    return sum(counts)
