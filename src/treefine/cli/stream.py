"""Run jobs: read, parse and write sentences in constant memory."""

from __future__ import annotations

import sys
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from treefine import wording
from treefine.cli.changes import Changes, open_changes
from treefine.cli.inputs import Reading, bytes_in, open_source, read_input
from treefine.cli.outputs import DELIMITERS, TABLES, Job, OutputOptions, open_sink, open_stdout, texts_of_parses
from treefine.cli.table_files import about_parser, write_table
from treefine.cli.terminal import Advance, Detail, Review, progress, say, warn
from treefine.cli.text_check import TextCheck
from treefine.drawing.characters import visible
from treefine.drawing.html import GENERATOR
from treefine.errors import EmptyError, LongSentenceWarning, TreebankError, TreefineError
from treefine.fast.file_workers import FileParser, FilePart, FileReport, missing_tags
from treefine.model.vocabulary import language_of
from treefine.parsing.annotate import with_newdoc
from treefine.parsing.table import Content, csv_texts
from treefine.segmenter.language import table
from treefine.treebank.conllu import cut_treebank, texts_in_file
from treefine.treebank.constraints import decisions_in, label_warning
from treefine.treebank.files import name_of
from treefine.treebank.formats import FORMATS, convert, losses
from treefine.treebank.sentence import Format, Sentence

if TYPE_CHECKING:
    from treefine.parsing.parse import Parse
    from treefine.parsing.parser import Parser
    from treefine.segmenter.cut import Segmented


def run_jobs(
    parser: Parser,
    jobs: Sequence[Job],
    options: OutputOptions,
    *,
    reports_changes: bool = False,
    workers: int | None = None,
) -> bool:
    """Run the jobs; return whether every input was parsed and contained a sentence.

    Report an input without sentences and continue with the others. If each input has its own output, do the same with
    an input that cannot be read. With `reports_changes`, count the changes to the trees of the inputs and print a
    summary. If only trees are wanted, `workers` processes read and write treebanks. They do not count changes.
    """
    inputs = [each for job in jobs for each in job.inputs]
    changes = Changes(parser.model.vocabulary.labels) if reports_changes else None
    prints = jobs[0].target == "-" or options.review is not None
    is_drawn_over = prints and sys.stdout is not None and sys.stdout.isatty()  # the output would mix with the bar
    with ExitStack() as stack:
        advance = stack.enter_context(progress("Parsing", bytes_in(inputs), in_bytes=True, is_shown=not is_drawn_over))
        runner = JobRunner(parser, options, advance, changes=changes, may_be_empty=len(inputs) > 1)
        runner.text_check = TextCheck(parser.new_language_check(), runner.on_warning)
        if options.review is not None:
            listed = stack.enter_context(open_stdout("tree"))
            runner.review = Review(options.review, listed.write, is_extra=jobs[0].target != "-")
        if changes is not None and options.changes is not None:
            runner.write_changes = stack.enter_context(open_changes(options.changes, changes))
        if workers and options.changes is None:
            runner.changes = None  # workers write trees without reporting the steps and arcs before them
        if any(map(runner.could_use_workers, jobs)):
            files = FileParser.of(parser, workers)
            if workers and files is None and parser.trust:
                warn("--workers has no effect with --trust, except with --trust 0.")
            runner.files = None if files is None else stack.enter_context(files)
        elif workers:
            message = (
                "--workers has no effect: it needs treebank input and output, without --confidence, --k, --review and "
                "--changes."
            )
            warn(message)
        if runner.files is None:
            runner.changes = changes
        n_failed = 0
        for job in jobs:
            try:
                runner.run(job)
            except TreebankError as error:
                if not _is_about_input(error, job) or len(inputs) == 1:
                    raise
                if len(jobs) == 1:
                    others = "To parse the other files anyway, write to a folder: -o DIR/"
                    error.hint = " ".join(filter(None, [error.hint, others]))
                    raise
                _report(error)
                n_failed += 1
    if n_failed:
        say(f"{n_failed:,} of {wording.count(len(jobs), 'file')} not parsed")
    for form, lost in runner.lost.items():
        if lost:
            say(wording.losses_line(lost, form.title))
    if runner.review is not None:
        say(runner.review.counted)
    if changes is not None:
        lines = ["Changes are not counted with --workers."] if runner.changes is None else changes.lines()
        say("\n".join(lines))
    return not runner.n_empty and not n_failed


def _is_about_input(error: TreefineError, job: Job) -> bool:
    """Return whether an input is at fault, and not the output, which may be the same file."""
    names = [name_of(each.name) for each in job.inputs if each.text is None]
    return error.path != job.target and error.path in names


def _names_files(job: Job) -> bool:
    """Return whether the output is a treebank that names its files, because there are several."""
    return job.shape == "conllu" and len(job.inputs) > 1


def _warn(warning: TreefineError) -> None:
    warn(str(warning))


@contextmanager
def _long_sentences_reported(on_warning: Callable[[TreefineError], None]) -> Iterator[None]:
    """Report the sentences that are parsed in parts with `on_warning`, once each."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", LongSentenceWarning)  # an initial parser warns about the same sentences
        show_other = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any) -> None:
            if isinstance(message, LongSentenceWarning):
                on_warning(message.place)
            else:
                show_other(message, category, *place)

        warnings.showwarning = show  # type: ignore[assignment]
        yield


def _report(error: TreefineError) -> None:
    say(f"treefine: {error}", detail=Detail.QUIET)


class _Read(NamedTuple):
    """A sentence that has been read, and how many bytes of its input end with it."""

    found: Segmented
    n_bytes: int


@dataclass
class JobRunner:
    """Runs jobs with the same parser and options, and collects counts for the reports at the end."""

    parser: Parser
    options: OutputOptions
    advance: Advance
    _: KW_ONLY
    files: FileParser | None = None  # reads and writes treebanks in worker processes
    review: Review | None = None
    changes: Changes | None = None
    write_changes: Callable[[Parse], None] | None = None
    text_check: TextCheck | None = None  # warns about text that is not as it should be
    may_be_empty: bool = True  # report an input without sentences instead of stopping
    on_warning: Callable[[TreefineError], None] = _warn
    on_empty: Callable[[TreefineError], None] = _report
    n_empty: int = 0
    lost: dict[Format, Counter[str]] = field(default_factory=dict)  # items that each output format cannot hold
    _reported: set[tuple[str, str]] = field(default_factory=set)  # files and their languages that were printed

    def run(self, job: Job) -> None:
        """Parse the sentences of a job and write its output."""
        with _long_sentences_reported(self.on_warning):
            self._run(job)

    def _run(self, job: Job) -> None:
        if self.review is not None and job.target == "-":  # the list replaces the trees
            for _ in self._parses(job):
                pass
        elif job.shape in TABLES:
            content = Content(self.options.confidence, self.options.k > 1, self.changes is not None)
            found = self._trees(job) if self._wants_only_trees else self._parses(job)
            if job.shape == "parquet":
                about = about_parser(self.parser, self.options.model)
                write_table(found, job.target, content, about)
                return
            with open_sink(job, self.options) as sink:
                for text in csv_texts(found, content, delimiter=DELIMITERS[job.shape]):
                    sink.write(text)
        else:
            with open_sink(job, self.options) as sink:
                for text in self._texts(job, skip=sink.skip):
                    sink.write(text)

    def could_use_workers(self, job: Job) -> bool:
        """Return whether worker processes can read and write the treebanks of this job."""
        return self._wants_only_trees and job.shape == "conllu" and all(each.is_treebank for each in job.inputs)

    @property
    def _wants_only_trees(self) -> bool:
        """Whether only trees are wanted; they are faster to compute without confidence."""
        is_more_wanted = self.options.confidence or self.options.k > 1
        return not is_more_wanted and self.review is None and self.changes is None

    def _texts(self, job: Job, skip: int) -> Iterator[str]:
        """Yield the text of the output, without the first `skip` sentences."""
        if self.files is not None and self.could_use_workers(job):
            lost = Counter[str]() if job.form is None else self.lost.setdefault(job.form, Counter())
            report = FileReport(lost, self.on_warning, lambda number: self.advance(sentences=number))
            return self.files.texts(self._file_parts(job), report, skip=skip)
        if self._wants_only_trees and job.shape == "conllu":
            return texts_in_file((each.sentence for each in self._trees(job, skip)), is_start=not skip)
        marks_changes = self.changes is not None
        return texts_of_parses(
            self._parses(job, skip), job, self.options, is_start=not skip, marks_changes=marks_changes
        )

    def _file_parts(self, job: Job) -> Iterator[FilePart]:
        """Split the treebanks of a job into parts for the workers."""
        for source in job.inputs:
            name, kind = name_of(source.name), str(source.kind)
            to = None if job.form is None or job.form.title == FORMATS[kind].title else job.form.name
            with self._empty_is_reported(), open_source(source, on_bytes=self.advance) as stream:
                for stretch in cut_treebank(stream, name):
                    yield FilePart(stretch, name, kind, to, names_file=_names_files(job) and stretch.line == 1)

    def _trees(self, job: Job, skip: int = 0) -> Iterator[Segmented]:
        """Yield the trees of a job, without the first `skip` sentences."""
        read: deque[_Read] = deque()
        sentences = (each.sentence for each in self._sentences(job, skip, read))
        names_files = _names_files(job)
        for sentence in self.parser.stream_trees(sentences, skip=skip):
            given = read.popleft()
            self._report_language(sentence)
            yield replace(given.found, sentence=with_newdoc(sentence) if names_files else sentence)
            self.advance(given.n_bytes, sentences=1)

    def _parses(self, job: Job, skip: int = 0) -> Iterator[Parse]:
        """Yield the parses of a job, without the first `skip` sentences; record changes and sentences to review."""
        read: deque[_Read] = deque()
        names_files = _names_files(job)
        for parse in self.parser.stream_segmented(self._sentences(job, skip, read), skip=skip):
            given = read.popleft()
            self._report_language(parse.sentence)
            if self.changes is not None:
                parse = self.changes.add(parse, given.found.sentence.arcs)
            if self.write_changes is not None:
                self.write_changes(parse)
            if self.review is not None:
                self.review.see(parse)
            yield replace(parse, sentence=with_newdoc(parse.sentence)) if names_files else parse
            self.advance(given.n_bytes, sentences=1)

    def _report_language(self, sentence: Sentence) -> None:
        """Print the language that was identified, once for each file."""
        place = (sentence.path, sentence.treebank)
        if self.parser.plan().language.guesses and place not in self._reported:
            self._reported.add(place)
            code = language_of(sentence.treebank)
            name = f"{table().names.get(code, code)} ({code})" if code else "not identified"
            say(f"treefine: {sentence.path + ': ' if sentence.path else ''}language {name}")

    def _sentences(self, job: Job, skip: int, read: deque[_Read]) -> Iterator[Segmented]:
        """Yield the sentences of all inputs in the format of the output; add all but the first `skip` to `read`.

        They are converted before parsing, so that the output format has a column for predicted tags.
        """
        section, needed = job.inputs[0].section, self.parser.plan().needed_columns
        numbers = count(1 if section is None else section.n_before + 1)
        is_unwarned, has_begun = True, False
        lost = None if job.form is None else self.lost.setdefault(job.form, Counter())
        for source in job.inputs:
            reading, n_before = Reading(), 0
            with self._empty_is_reported():
                generator = "" if has_begun else self._generator
                sentences = read_input(source, self.parser, reading, numbers, self.text_check, generator=generator)
                for found in sentences:
                    has_begun = True
                    if needed and (warning := missing_tags(found.sentence, needed)) is not None:
                        self.on_warning(warning)
                        needed = ()  # one warning is enough
                    if job.form is not None and lost is not None:
                        own = () if reading.is_treebank else ("comment", "MISC")  # treefine wrote those of a text
                        items = losses(found.sentence, job.form)
                        lost.update({name: number for name, number in items.items() if name not in own})
                        found = replace(found, sentence=convert(found.sentence, job.form))
                    if is_unwarned and (warning := self._label_warning(found.sentence)) is not None:
                        self.on_warning(warning)
                        is_unwarned = False
                    if skip:
                        skip -= 1
                        self.advance(reading.end - n_before)
                    else:
                        read.append(_Read(found, reading.end - n_before))
                    n_before = reading.end
                    yield found
            self.advance(reading.n_bytes - n_before)  # the end of the input without a sentence

    @property
    def _generator(self) -> str:
        """The program and the model, for the first comment of the output."""
        return ", ".join([GENERATOR, *([f"model {visible(self.options.model)}"] if self.options.model else [])])

    def _label_warning(self, sentence: Sentence) -> TreebankError | None:
        constraints = decisions_in(sentence, self.parser.keep)
        return label_warning(sentence, constraints, self.parser.model.vocabulary.labels)

    @contextmanager
    def _empty_is_reported(self) -> Iterator[None]:
        """Report an input without sentences, and stop only if it is the only input."""
        try:
            yield
        except EmptyError as error:
            if not self.may_be_empty:
                raise
            self.on_empty(error)
            self.n_empty += 1
