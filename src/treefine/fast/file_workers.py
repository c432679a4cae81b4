"""Parse treebank files on a GPU while worker processes read, tokenise and write.

Workers import this module, so it must not import torch. See docs/design.md, 'File workers'.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar, cast

from treefine.config import Column, TagSettings
from treefine.cores import usable_cores
from treefine.errors import TreebankError, TreefineError
from treefine.fast.packed import NoMemoryError, Packed, PackedTrees, filled, pack
from treefine.model.subwords import Subwords
from treefine.model.vocabulary import Vocabulary
from treefine.parsing.initial import InitialParser, Renamed, empty, input_trees
from treefine.treebank.conllu import (
    FORMATS,
    Stretch,
    cut_treebank,
    read_stretch,
    texts_in_file,
)
from treefine.treebank.constraints import label_warning, marks_of
from treefine.treebank.sentence import BLANK, Sentence
from treefine.worker_process import WorkerProcess

if TYPE_CHECKING:
    from treefine.fast.engine import Engine
    from treefine.parsing.parser import Parser

_MOST_WORKERS = 16
_OTHER_CORES = 2  # cores left for the process that runs the model and for the rest of the system
_FROM_SIZE = 1 << 20  # bytes of input; workers for less are not worth their start
_HINT = "Is there enough memory? Use --workers 0 to parse without workers."

_Parse = Callable[[Iterable[Sentence]], Iterator[Sentence]]  # Parser.stream_trees, for what the engine does not support
_Value = TypeVar("_Value")


class FilePart(NamedTuple):
    """Some sentences of a file, and how to read them. Its numbers are known once it and those before it are read."""

    stretch: Stretch
    path: str
    format: str
    n_before: int = 0  # sentences of the file before it
    n_sentences: int = sys.maxsize  # before its first fault
    skip: int = 0  # sentences of it that are not written

    def sentences(self) -> Iterator[Sentence]:
        """Yield the sentences, numbered as in their file; raise an error at the first fault."""
        found = read_stretch(self.stretch, FORMATS[self.format], self.path, number=self.n_before + 1)
        for read in islice(found, self.n_sentences):
            if not isinstance(read, Sentence):
                raise read.faults[0]
            yield read

    def text(self, parsed: Iterable[Sentence]) -> WrittenPart:
        """Return the text of the parsed sentences."""
        first, *rest = texts_in_file(islice(parsed, self.skip, None))
        return first, "".join(rest)


def file_parts(stream: BinaryIO, path: str, form: str) -> Iterator[FilePart]:
    """Cut an open treebank into parts."""
    return (FilePart(stretch, path, form) for stretch in cut_treebank(stream, path))


class PackedPart(NamedTuple):
    """The sentences of a part before its first fault. Faults and warnings count sentences from the part's start."""

    packed: Packed
    fault: TreebankError | None
    warnings: Mapping[str, TreebankError]  # the first of each kind
    bypasses_engine: bool  # whether a sentence has a mark or is long, which the engine does not support


WrittenPart = tuple[str, str]  # the first sentence and the others


@dataclass(frozen=True)
class Scribe:
    """A reader and writer of file parts, in a worker, with all that it needs of the parser."""

    subwords: Subwords
    vocabulary: Vocabulary
    tags: TagSettings  # of the model
    read_columns: tuple[Column, ...]
    needed_columns: tuple[Column, ...]  # those of them that the model cannot predict
    initial: InitialParser | None  # None if parsing starts from an empty graph
    reads_marks: bool  # whether Keep= marks are respected
    most_words: int  # a longer sentence is parsed in parts
    replaces_tags: bool
    treebank: str  # of all sentences, for a model of several

    @classmethod
    def of(cls, parser: Parser) -> Scribe | None:
        """Return the scribe for this parser, or None if it reads more than a packed part holds."""
        model, plan, initial = parser.model, parser.plan(), parser.initial
        source = initial.initial if isinstance(initial, Renamed) else initial
        if source not in (empty, input_trees) or plan.keep == "given" or plan.trust or plan.language.guesses:
            return None  # a worker sees only parts of a file
        return cls(
            model.subwords,
            model.vocabulary,
            model.settings.tags,
            plan.read_columns,
            plan.needed_columns,
            initial=None if source is empty else cast(InitialParser, initial),
            reads_marks=plan.keep == "marked",
            most_words=plan.most_words,
            replaces_tags=plan.replaces_tags,
            treebank=plan.language.named,
        )

    def read(self, part: FilePart) -> PackedPart:
        """Read a part up to its first fault, and pack its sentences."""
        sentences, bypasses_engine = list[Sentence](), False
        fault, warnings = None, dict[str, TreebankError]()
        try:
            for sentence in part.sentences():
                if self.needed_columns and (warning := missing_tags(sentence, self.needed_columns)):
                    warnings.setdefault("tags", warning)
                if self.reads_marks and (constraints := marks_of(sentence)):
                    bypasses_engine = True
                    if warning := label_warning(sentence, constraints, self.vocabulary.labels):
                        warnings.setdefault("labels", warning)
                bypasses_engine = bypasses_engine or len(sentence) > self.most_words
                sentences.append(replace(sentence, treebank=self.treebank))
        except TreebankError as error:
            fault = error
        arcs = None if self.initial is None else list(self.initial(sentences))
        packed = pack(sentences, self.subwords, self.vocabulary, self.tags, read=self.read_columns, arcs=arcs)
        return PackedPart(packed, fault, warnings, bypasses_engine)

    def write(self, part: FilePart, trees: PackedTrees) -> WrittenPart:
        """Write the sentences of a part with their trees."""
        sentences = (replace(sentence, treebank=self.treebank) for sentence in part.sentences())
        return part.text(filled(sentences, trees, self.vocabulary, self.tags, replaces_tags=self.replaces_tags))


def missing_tags(sentence: Sentence, columns: Sequence[Column]) -> TreebankError | None:
    """Return a warning if no word of the sentence has a value in any of these columns."""
    if any(set(getattr(sentence, column)) != {BLANK} for column in columns):
        return None
    names = " and ".join(map(str.upper, columns))
    message = f"The sentence has no {names}, which the model was trained to read."
    return sentence.error(message, hint="Its tree will be less accurate.")


def default_workers() -> int:
    """Return the default number of workers for the cores that this process may use."""
    return max(0, min(_MOST_WORKERS, usable_cores() - _OTHER_CORES))


@dataclass
class FileReport:
    """Where a run reports warnings and progress."""

    on_warning: Callable[[TreefineError], None] = lambda _: None  # for the first of each kind
    on_sentences: Callable[[int], None] = lambda _: None  # called with the number of sentences just written
    _warned: set[str] = field(default_factory=set)

    def warn_once(self, kind: str, warning: TreefineError | None) -> None:
        """Report a warning, if there is one, unless another of its kind was reported."""
        if warning is not None and kind not in self._warned:
            self._warned.add(kind)
            self.on_warning(warning)


class FileParser:
    """Parses treebank files with an engine and workers. As a context manager, it stops the workers on exit."""

    def __init__(self, scribe: Scribe, engine: Engine, parse: _Parse, n_workers: int) -> None:
        self.engine, self.parse = engine, parse
        self.ahead = 2 * n_workers + 1  # how many parts to read ahead
        self.workers = [WorkerProcess(copy, scribe, hint=_HINT) for _ in range(n_workers)]
        self._threads = ThreadPoolExecutor(n_workers)  # each waits for a worker
        self._idle: SimpleQueue[WorkerProcess] = SimpleQueue()
        for worker in self.workers:
            self._idle.put(worker)

    @classmethod
    def of(cls, parser: Parser, workers: int | None, size: int | None) -> FileParser | None:
        """Return the FileParser for a parser, or None if it cannot use workers, as on a CPU.

        If no number of workers is given, there are `default_workers()` for input of a large `size` in bytes, else none.
        """
        if workers is None:
            workers = default_workers() if (size or 0) > _FROM_SIZE else 0
        if not workers or parser.engine is None or (scribe := Scribe.of(parser)) is None:
            return None
        return cls(scribe, parser.engine, parser.stream_trees, workers)

    def __enter__(self) -> FileParser:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.kill()  # they hold no state worth saving
        self._threads.shutdown(cancel_futures=True)
        for worker in self.workers:
            worker.close()

    def submit(self, method: Callable[..., _Value], *arguments: Any) -> Future[_Value]:
        """Run a method of the scribe in a worker."""
        return self._threads.submit(self._run, method, arguments)

    def _run(self, method: Callable[..., _Value], arguments: tuple[Any, ...]) -> _Value:
        worker = self._idle.get()
        try:
            return worker.run(method, arguments)
        finally:
            self._idle.put(worker)

    def texts(self, parts: Iterable[FilePart], report: FileReport, *, skip: int = 0) -> Iterator[str]:
        """Yield the text of a file with its trees, a few sentences at a time, without the first `skip` sentences.

        The first sentence of each part is yielded separately. An error in the input is raised after the text before it.
        """
        return chain.from_iterable(_Run(self, parts, report, skip).written())


class _Run:
    """The parts of one file: read ahead, parsed in order, written meanwhile."""

    def __init__(self, files: FileParser, parts: Iterable[FilePart], report: FileReport, skip: int) -> None:
        self._fault: TreefineError | None = None  # the error in the input that follows everything read so far
        self._files, self._parts, self._report, self._skip = files, iter(parts), report, skip
        self._n_sentences = 0  # read so far
        self._read_parts = self._read()
        self._parsing: deque[FilePart] = deque()
        self._writing: deque[tuple[FilePart, Future[WrittenPart]]] = deque()
        self._bypassing: FilePart | None = None  # the next part, if the engine does not support it

    def written(self) -> Iterator[WrittenPart]:
        """Yield each part with its trees, in order, then raise an error in the input."""
        while True:
            for trees in self._trees():
                part = self._parsing.popleft()
                self._writing.append((part, self._files.submit(Scribe.write, part, trees)))
                yield from self._finished(n_left=self._files.ahead)
            yield from self._finished(n_left=0)
            if self._bypassing is None:
                break
            part, self._bypassing = self._bypassing, None
            yield part.text(self._files.parse(part.sentences()))
            self._report.on_sentences(part.n_sentences - part.skip)
        if self._fault is not None:
            raise self._fault

    def _trees(self) -> Iterator[PackedTrees]:
        """Yield the trees of the parts being parsed; if one sentence is too large, name it."""
        try:
            yield from self._files.engine.stream(self._packed())
        except NoMemoryError as error:
            raise error.named(chain.from_iterable(map(FilePart.sentences, self._parsing))) from error

    def _packed(self) -> Iterator[Packed]:
        """Yield the input of the engine, up to a part that it does not support."""
        while self._fault is None and (found := next(self._read_parts, None)) is not None:
            part, read = found
            if part.skip == part.n_sentences:
                continue
            if read.bypasses_engine or read.packed.longest > self._files.engine.longest:
                self._bypassing = part
                return
            self._parsing.append(part)
            yield read.packed

    def _read(self) -> Iterator[tuple[FilePart, PackedPart]]:
        """Yield each part with its packed sentences, while the pool reads the parts after it."""
        fault = None
        reading: deque[tuple[FilePart, Future[PackedPart]]] = deque()
        while True:
            try:
                for part in islice(self._parts, self._files.ahead - len(reading)):
                    reading.append((part, self._files.submit(Scribe.read, part)))
            except TreefineError as error:  # raised later, after the parts before it
                fault = error
            if not reading:
                break
            first, read = reading.popleft()
            packed = read.result()
            yield self._noted(first, packed), packed
        self._fault = fault

    def _noted(self, part: FilePart, read: PackedPart) -> FilePart:
        """Count the sentences of a part, and report its warnings and faults."""
        n_sentences, n_before = len(read.packed), self._n_sentences
        skip = min(max(self._skip - n_before, 0), n_sentences)
        self._n_sentences += n_sentences
        for kind, warning in read.warnings.items():
            self._report.warn_once(kind, _moved(warning, n_before))
        if read.fault is not None:
            self._fault = _moved(read.fault, n_before)
        return part._replace(n_before=n_before, n_sentences=n_sentences, skip=skip)

    def _finished(self, *, n_left: int) -> Iterator[WrittenPart]:
        """Yield the parts that are written, in order; wait until at most `n_left` parts are left."""
        while self._writing and (len(self._writing) > n_left or self._writing[0][1].done()):
            part, writing = self._writing.popleft()
            yield writing.result()
            self._report.on_sentences(part.n_sentences - part.skip)


def _moved(error: TreebankError, n_before: int) -> TreebankError:
    """Renumber the sentence of an error from its part to its file, which has `n_before` sentences before the part."""
    error.sentence = None if error.sentence is None else error.sentence + n_before
    return error
