"""From inputs to outputs, one sentence after another, in constant memory."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice, tee
from typing import BinaryIO, Protocol, TypeVar

import typer

from treefine.cli.changes import Changes, open_changes
from treefine.cli.inputs import Input, Numbering, bytes_in, open_source, read_input
from treefine.cli.outputs import Job, OutputOptions
from treefine.cli.part_file import JSON_LINES, TREEBANK, open_part
from treefine.cli.terminal import Advance, Review, progress
from treefine.cli.write import Pen, about_parser, as_html, as_json, as_svg, as_trees, pen_for_stdout, write_table
from treefine.drawing.characters import visible
from treefine.errors import EmptyError, TreefineError
from treefine.evaluation import tables
from treefine.fast.file_workers import FileParser, FilePart, FileReport, missing_tags
from treefine.parsing.parse import Parse
from treefine.parsing.parser import Parser
from treefine.parsing.table import Content, Placed
from treefine.segmenter.cut import Segmented
from treefine.treebank.conllu import cut_treebank, texts_in_file
from treefine.treebank.files import name_of, open_output
from treefine.treebank.formats import FORMATS, convert, losses
from treefine.treebank.sentence import Format, Sentence

_Item = TypeVar("_Item")
_SHOWN = re.compile(r"(?:[^\t\r\n]|\r(?!\n))+")  # all but what parts cells and lines


class _Sink(Protocol):
    """Takes the text of one sentence after another; the first `skip` are there already."""

    skip: int

    def write(self, text: str) -> None: ...


@dataclass
class _Plain:
    """An output that begins anew."""

    stream: BinaryIO
    encoding: str = "utf-8"
    is_terminal: bool = False  # on which control characters of the input must not act
    is_watched: bool = False  # so that each sentence is to show at once
    skip: int = 0

    def write(self, text: str) -> None:
        if self.is_terminal:
            text = _SHOWN.sub(lambda found: visible(found[0]), text)
        self.stream.write(text.encode(self.encoding, "backslashreplace"))
        if self.is_watched:
            self.stream.flush()


def _warn(warning: TreefineError) -> None:
    typer.echo(f"treefine: warning: {visible(str(warning))}", err=True)


def _tell(error: TreefineError) -> None:
    typer.echo(f"treefine: {visible(str(error))}", err=True)


@dataclass
class JobReport:
    """What is to be told at the end, and who hears at once of what is odd."""

    review: Review | None = None
    changes: Changes | None = None
    lost: dict[Format, Counter[str]] = field(default_factory=dict)
    n_empty: int = 0
    noted: Callable[[Parse], None] | None = None  # writes the file of changes
    on_warning: Callable[[TreefineError], None] = _warn
    on_empty: Callable[[TreefineError], None] = _tell  # of an input without a sentence


def run_jobs(
    parser: Parser,
    jobs: Sequence[Job],
    wanted: OutputOptions,
    *,
    tells_changes: bool = False,
    workers: int | None = None,
) -> bool:
    """Read, parse and write; whether every input had a sentence.

    One without is told, and of several the others are parsed. With `tells_changes` what the parser changed in the
    trees of the inputs is counted, and told at the end. Where trees alone are asked for, so many `workers` read and
    write.
    """
    changes = Changes(parser.model.vocabulary.labels) if tells_changes else None
    tally = JobReport(None if wanted.review is None else Review(wanted.review), changes)
    inputs = [each for job in jobs for each in job.inputs]
    prints = jobs[0].target == "-" or tally.review is not None
    is_drawn_over = prints and sys.stdout is not None and sys.stdout.isatty()  # the bar, on the same terminal
    with ExitStack() as stack:
        advance = stack.enter_context(progress("Parsing", bytes_in(inputs), in_bytes=True, is_shown=not is_drawn_over))
        if changes is not None and wanted.changes is not None:
            tally.noted = stack.enter_context(open_changes(wanted.changes, changes))
        is_plain = any(_is_plain(job, wanted, tally) and job.is_of_treebanks for job in jobs)
        files = FileParser.of(parser, workers) if is_plain else None
        if files is not None:
            stack.enter_context(files)
        elif workers and not is_plain:
            _warn(TreefineError("--workers is not used: it is for trees alone, from treebank to treebank."))
        for job in jobs:
            run_job(parser, files, job, wanted, tally, advance, may_be_empty=len(inputs) > 1)
    for form, lost in tally.lost.items():
        if lost:
            typer.echo(tables.losses_line(lost, form.title), err=True)
    if tally.review is not None:
        typer.echo(tally.review.counted, err=True)
    if changes is not None:
        for line in changes.lines():
            typer.echo(line, err=True)
    return not tally.n_empty


def run_job(
    parser: Parser,
    files: FileParser | None,
    job: Job,
    wanted: OutputOptions,
    tally: JobReport,
    advance: Advance,
    *,
    may_be_empty: bool,
) -> None:
    """Read, parse and write one output; trees alone of treebanks go through `files`, where that is given."""
    numbered = Numbering(job.inputs[0].section.n_before if job.inputs[0].section else 0)
    read = partial(read_input, parser=parser, on_bytes=advance, numbered=numbered)
    found = _told_of_missing_tags(parser, _of_inputs(read, job, tally, may_be_empty=may_be_empty), tally.on_warning)
    if job.form is not None:
        found = _converted(found, job.form, tally.lost.setdefault(job.form, Counter()))
    with ExitStack() as stack:
        listed = stack.enter_context(_open_stdout("tree")).write if tally.review is not None else None
        if job.target == "-" and listed is not None:
            for _ in _seen(_parsed(parser, found, tally), tally, listed, advance):
                pass
            return
        if job.shape == "parquet":
            content = Content(wanted.confidence, wanted.k > 1, tally.changes is not None)
            placed = _placed(parser, found, wanted, tally, listed, advance)
            about = about_parser(parser, wanted.model)
            write_table(placed, job.target, content, about, is_synced=job.is_block)
            return
        sink = stack.enter_context(_open(job, wanted))
        if files is not None and _is_plain(job, wanted, tally) and job.is_of_treebanks:
            parts = _of_inputs(partial(_parts, form=job.form, on_bytes=advance), job, tally, may_be_empty=may_be_empty)
            lost = Counter[str]() if job.form is None else tally.lost[job.form]
            report = FileReport(lost, tally.on_warning, lambda number: advance(sentences=number))
            texts = files.texts(parts, report, skip=sink.skip)
        elif _is_plain(job, wanted, tally):
            sentences = parser.stream((each.sentence for each in found), skip=sink.skip)
            texts = texts_in_file(_counted(sentences, advance), is_start=not sink.skip)
        else:
            parses = _seen(_parsed(parser, found, tally, skip=sink.skip), tally, listed, advance)
            texts = _texts(parses, job, wanted, is_start=not sink.skip)
        for text in texts:
            sink.write(text)


def _is_plain(job: Job, wanted: OutputOptions, tally: JobReport) -> bool:
    """Whether nothing is asked for but the trees, in a treebank."""
    return job.shape == "conllu" and _is_bare(wanted, tally)


def _is_bare(wanted: OutputOptions, tally: JobReport) -> bool:
    """Whether nothing is asked for but the trees, which are found faster than how sure they are."""
    return not wanted.confidence and wanted.k == 1 and tally.review is None and tally.changes is None


def _texts(parses: Iterator[Parse], job: Job, wanted: OutputOptions, *, is_start: bool) -> Iterator[str]:
    if job.shape == "tree":
        return as_trees(parses, pen_for_stdout() if job.target == "-" else Pen(), steps=wanted.steps)
    if job.shape == "json":
        return as_json(parses)
    if job.shape == "svg":
        return as_svg(parses, steps=wanted.steps)
    if job.shape == "html":
        title = job.inputs[0].name if len(job.inputs) == 1 and job.inputs[0].is_file else "Parsed by treefine"
        return as_html(parses, title=title, steps=wanted.steps)
    if wanted.k > 1:
        ranked = (each.ranked_sentences(confidence=wanted.confidence) for each in parses)
        return texts_in_file(chain.from_iterable(ranked), is_start=is_start)
    sentences = (each.with_confidence() if wanted.confidence else each.sentence for each in parses)
    return texts_in_file(sentences, is_start=is_start)


@contextmanager
def _open(job: Job, wanted: OutputOptions) -> Iterator[_Sink]:
    if job.target == "-":
        with _open_stdout(job.shape) as sink:
            yield sink
    elif job.can_be_resumed:
        records = JSON_LINES if job.shape == "json" else TREEBANK
        with open_part(job.target, records, is_resumed=wanted.resume) as part:
            yield part
    else:
        with open_output(job.target, is_synced=job.is_block) as stream:
            yield _Plain(stream)


@contextmanager
def _open_stdout(shape: str) -> Iterator[_Plain]:
    """Standard output: in UTF-8, or for people's eyes in the encoding of their terminal."""
    with open_output("-") as stream:
        is_drawn = shape == "tree"
        encoding = pen_for_stdout().encoding if is_drawn else "utf-8"
        yield _Plain(stream, encoding, is_terminal=sys.stdout.isatty() and not is_drawn, is_watched=True)


def _of_inputs(
    read: Callable[[Input], Iterator[_Item]], job: Job, tally: JobReport, *, may_be_empty: bool
) -> Iterator[_Item]:
    """What is read of the inputs, one after another."""
    for each in job.inputs:
        try:
            yield from read(each)
        except EmptyError as error:
            if not may_be_empty:
                raise
            tally.on_empty(error)
            tally.n_empty += 1


def _parts(source: Input, form: Format | None, on_bytes: Callable[[int], None]) -> Iterator[FilePart]:
    """Yield a treebank in parts that are written in this format, or in their own."""
    name, kind = name_of(source.name), str(source.kind)
    to = None if form is None or form.title == FORMATS[kind].title else form.name
    with open_source(source, on_bytes=on_bytes) as stream:
        for stretch in cut_treebank(stream, name):
            yield FilePart(stretch, name, kind, to)


def _converted(found: Iterator[Segmented], form: Format, lost: Counter[str]) -> Iterator[Segmented]:
    """The sentences in the format of the output, so that predicted tags find their column; losses are counted."""
    for each in found:
        lost.update(losses(each.sentence, form))
        yield replace(each, sentence=convert(each.sentence, form))


def _told_of_missing_tags(
    parser: Parser, found: Iterator[Segmented], on_warning: Callable[[TreefineError], None]
) -> Iterator[Segmented]:
    """The sentences; the first without any of the tags that the model reads is told of."""
    source, columns = parser.model.settings.tags.source, parser.model.settings.tags.columns
    if parser.tags != "given" or source == "predicted":  # a model that has a tagger fills them in
        columns = ()
    is_told = not columns
    for each in found:
        if not is_told:
            warning = missing_tags(each.sentence, columns)
            if warning is not None:
                on_warning(warning)
                is_told = True
        yield each


def _counted(sentences: Iterable[Sentence], advance: Advance) -> Iterator[Sentence]:
    for sentence in sentences:
        advance(sentences=1)
        yield sentence


def _parsed(parser: Parser, found: Iterator[Segmented], tally: JobReport, *, skip: int = 0) -> Iterator[Parse]:
    """The parses of all but the first `skip`; where it is asked for, what changed in them is counted."""
    if tally.changes is None:
        yield from parser.stream_segmented(found, skip=skip)
        return
    ours, theirs = tee(found)  # a few thousand are held, as many as are parsed at a time
    parses = parser.stream_segmented(theirs, skip=skip)
    for parse, each in zip(parses, islice(ours, skip, None), strict=True):
        yield tally.changes.add(parse, each.sentence.arcs)


def _placed(
    parser: Parser,
    found: Iterator[Segmented],
    wanted: OutputOptions,
    tally: JobReport,
    listed: Callable[[str], None] | None,
    advance: Advance,
) -> Iterator[Placed]:
    """The sentences of a table: with their trees alone, where no more is asked for."""
    if not _is_bare(wanted, tally):
        yield from _seen(_parsed(parser, found, tally), tally, listed, advance)
        return
    ours, theirs = tee(found)
    parsed = _counted(parser.stream(each.sentence for each in theirs), advance)
    for sentence, each in zip(parsed, ours, strict=True):
        yield replace(each, sentence=sentence)


def _seen(
    parses: Iterable[Parse], tally: JobReport, listed: Callable[[str], None] | None, advance: Advance
) -> Iterator[Parse]:
    """The parses; what changed is noted on the way, and those that are to be reviewed are listed."""
    for parse in parses:
        advance(sentences=1)
        if tally.noted is not None:
            tally.noted(parse)
        if tally.review is not None and listed is not None:
            line = tally.review.line(parse)
            if line is not None:
                listed(line)
        yield parse
