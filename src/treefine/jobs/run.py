"""Run a parser over files: read, parse and write sentences in constant memory, and report what happened."""

from __future__ import annotations

import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, BinaryIO

from treefine.drawing.html import GENERATOR
from treefine.errors import EmptyError, LongSentenceWarning, TreebankError, TreefineError, losses_line, shorten, visible
from treefine.errors import count as counted
from treefine.fast.file_workers import FileParser, FileReport, file_parts, missing_tags
from treefine.jobs.changes import Changes, open_changes
from treefine.jobs.inputs import Input, InputKind, open_source, read_input, total_size
from treefine.jobs.outputs import TABLES, OutputFile, OutputOptions, drop_stdout, open_text, texts_of, write_file
from treefine.jobs.part_file import open_part
from treefine.model.vocabulary import language_of
from treefine.segmenter.cut import Segmented
from treefine.segmenter.language import LanguageCheck, table
from treefine.treebank.conllu import FORMATS, convert, losses, read_treebank, with_newdoc
from treefine.treebank.constraints import decisions_in, label_warning
from treefine.treebank.files import name_of
from treefine.treebank.schemes import label_map_of
from treefine.treebank.sentence import Format, Sentence

if TYPE_CHECKING:
    from treefine.parsing.options import ParserOptions
    from treefine.parsing.parse import Parse
    from treefine.parsing.parser import Parser

_NO_WORKERS = (
    "--workers has no effect: it needs a GPU and one output file per treebank, in the same format, without "
    "--confidence, --k, --review, --changes and --trust."
)
_TEXT_WIDTH, _WORD_WIDTH = 60, 20  # columns of a line of --review


def _ignore(*_: object, **__: object) -> None:
    pass


@dataclass(frozen=True)
class Listener:
    """The functions that a run calls with its messages and its progress."""

    say: Callable[[str], None] = _ignore
    warn: Callable[[str], None] = _ignore
    error: Callable[[str], None] = _ignore  # about an input, which does not stop the run
    advance: Callable[..., None] = _ignore  # with a number of bytes read, and `sentences=`, how many are written


def write_outputs(
    parser: Parser, files: Sequence[OutputFile], options: OutputOptions, listener: Listener, workers: int | None = None
) -> bool:
    """Write the files; return whether every input was parsed and contained a sentence.

    Report an input without sentences and continue with the others. If each input has its own output, do the same with
    an input that cannot be read. If only trees are wanted, `workers` processes read and write treebanks.
    """
    n_failed = 0
    with ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("default", LongSentenceWarning)  # an initial parser warns about the same sentences
        warnings.showwarning = lambda message, *_, **__: listener.warn(str(message))
        run = _Run(parser, files, options, listener, stack, workers)
        for file in files:
            try:
                run.write(file)
            except TreebankError as error:
                if len(files) == 1 or error.path != name_of(file.inputs[0].name):
                    raise
                listener.error(str(error))
                n_failed += 1
    if n_failed:
        listener.say(f"{n_failed:,} of {counted(len(files), 'file')} not parsed")
    for line in run.lines():
        listener.say(line)
    return not run.n_empty and not n_failed


class _Run:
    """Writes outputs with one parser and the same options, and collects what is reported at the end."""

    def __init__(
        self,
        parser: Parser,
        files: Sequence[OutputFile],
        options: OutputOptions,
        listener: Listener,
        stack: ExitStack,
        workers: int | None,
    ) -> None:
        self.parser, self.options, self.listener = parser, options, listener
        self.may_be_empty = sum(len(file.inputs) for file in files) > 1  # report an input without sentences
        self.n_empty = self.n_seen = self.n_listed = 0
        self.lost: dict[Format, Counter[str]] = {}  # items that each output format cannot hold
        self.changes = Changes(parser.model.vocabulary.labels) if options.marks_changes else None
        self._list_line: Callable[[str], None] = _ignore
        self._write_changes: Callable[[Parse], None] = _ignore
        if options.review is not None:
            self._list_line = stack.enter_context(open_text("-", "tree"))
        if self.changes is not None and options.changes is not None:
            self._write_changes = stack.enter_context(open_changes(options.changes, self.changes))
        suited = [file for file in files if self._suits_workers(file)]
        size = total_size(*[file.inputs[0].name for file in suited])
        self._file_parser = FileParser.of(parser, workers, size) if suited else None
        if self._file_parser is not None:
            stack.enter_context(self._file_parser)
        elif workers:
            listener.warn(_NO_WORKERS)
        self._report = FileReport(
            lambda warning: listener.warn(str(warning)), lambda number: listener.advance(sentences=number)
        )
        self._guesses = parser.plan().language.guesses  # whether languages are identified …
        self._language_check = LanguageCheck(parser.plan().language.languages, guesses=self._guesses)
        self._languages: set[tuple[str, str]] = set()  # … files and their languages that were printed

    def write(self, file: OutputFile) -> None:
        """Parse the sentences of the inputs and write the output, or only list those to review."""
        if self.options.review is not None and file.path == "-":
            deque(self._results(file, 0), maxlen=0)
        elif not file.can_be_resumed(self.options):
            write_file(self._results(file, 0), file, self.options)
        else:
            with open_part(file.path, is_json=file.shape == "json", is_resumed=self.options.resume) as part:
                for text in self._texts(file, part.skip):
                    part.write(text)

    def lines(self) -> Iterator[str]:
        """Yield what is reported at the end: what the formats cannot hold, sentences to review, and changes."""
        yield from (losses_line(lost, form.title) for form, lost in self.lost.items() if lost)
        if self.options.review is not None:
            numbers = f"{self.n_listed:,} of {self.n_seen:,}"
            yield f"{numbers} sentences have a confidence below {self.options.review:g}"
        if self.changes is not None:
            yield "\n".join(self.changes.lines())

    def _suits_workers(self, file: OutputFile) -> bool:
        source, *others = file.inputs
        is_treebank = source.is_treebank and file.shape == "conllu" and not others
        is_same = file.form in (None, FORMATS.get(str(source.kind))) and file.can_be_resumed(self.options)
        return is_treebank and is_same and self._wants_only_trees(file)

    def _wants_only_trees(self, file: OutputFile) -> bool:
        """Return whether only trees are wanted, which are faster to compute without confidence."""
        options = self.options
        is_more_wanted = options.confidence or options.k > 1 or options.review is not None or options.marks_changes
        return file.shape in ("conllu", *TABLES) and not is_more_wanted

    def _texts(self, file: OutputFile, skip: int) -> Iterator[str]:
        if self._file_parser is None or not self._suits_workers(file):
            yield from texts_of(self._results(file, skip), file, self.options, is_start=not skip)
            return
        (source,) = file.inputs
        with self._opened(source) as (stream, kind):
            parts = file_parts(stream, name_of(source.name), kind)
            yield from self._file_parser.texts(parts, self._report, skip=skip)

    def _results(self, file: OutputFile, skip: int) -> Iterator[Segmented | Parse]:
        """Yield the trees or parses of an output, without the first `skip`; record changes and sentences to review."""
        read: deque[Segmented] = deque()
        sentences = self._sentences(file, skip, read)
        results: Iterator[Segmented | Parse]
        if self._wants_only_trees(file):
            trees = self.parser.stream_trees((segmented.sentence for segmented in sentences), skip=skip)
            results = (replace(read[0], sentence=sentence) for sentence in trees)
        else:
            results = self.parser.stream_segmented(sentences, skip=skip)
        for result in results:
            if self._guesses:
                self._say_language(result.sentence)
            before = read.popleft().sentence
            if not isinstance(result, Segmented):
                result = result if self.changes is None else self.changes.add(result, before.arcs)
                self._write_changes(result)
                self._review(result, file)
            names_inputs = file.shape == "conllu" and len(file.inputs) > 1
            yield replace(result, sentence=with_newdoc(result.sentence)) if names_inputs else result
            self.listener.advance(sentences=1)

    def _sentences(self, file: OutputFile, skip: int, read: deque[Segmented]) -> Iterator[Segmented]:
        """Yield the sentences of all inputs in the format of the output; add all but the first `skip` to `read`.

        They are converted before parsing, so that the output format has a column for predicted tags.
        """
        needed, labels = self.parser.plan().needed_columns, self.parser.model.vocabulary.labels
        generator = GENERATOR + (f", model {visible(self.options.model)}" if self.options.model else "")
        numbers, number = count(1), 0
        for source in file.inputs:
            with self._opened(source) as (stream, kind):
                for segmented in read_input(
                    stream, kind, source, self.parser, numbers, generator=generator, check=self._check_language
                ):
                    generator, sentence = "", segmented.sentence
                    if needed:
                        self._report.warn_once("tags", missing_tags(sentence, needed))
                    if file.form is not None:
                        if kind in FORMATS:  # treefine wrote the comments and MISC of a text
                            self.lost.setdefault(file.form, Counter()).update(losses(sentence, file.form))
                        sentence = convert(sentence, file.form)
                    if constraints := decisions_in(sentence, self.parser.keep):
                        self._report.warn_once("labels", label_warning(sentence, constraints, labels))
                    segmented = replace(segmented, sentence=sentence)
                    if number >= skip:
                        read.append(segmented)
                    number += 1
                    yield segmented

    def _say_language(self, sentence: Sentence) -> None:
        path, treebank = place = (sentence.path, sentence.treebank)
        if place not in self._languages:
            self._languages.add(place)
            code = language_of(treebank)
            name = f"{table().names.get(code, code)} ({code})" if code else "not identified"
            self.listener.say(f"treefine: {path + ': ' if path else ''}language {name}")

    def _check_language(self, text: str, path: str) -> None:
        """Warn about the start of a text that is not in the model's language."""
        if (warning := self._language_check.warning(text)) is not None:
            self.listener.warn(str(TreefineError(warning, path=path)))

    def _review(self, parse: Parse, file: OutputFile) -> None:
        self.n_seen += 1
        if self.options.review is None or parse.confidence >= self.options.review:
            return
        self.n_listed += 1
        try:
            self._list_line(_review_line(parse))
        except BrokenPipeError:  # the reader of the list has stopped, but the trees may still be wanted
            if file.path == "-":
                raise
            drop_stdout()

    @contextmanager
    def _opened(self, source: Input) -> Iterator[tuple[BinaryIO, InputKind]]:
        """Open an input; report one without sentences, and stop only if it is the only input."""
        try:
            with open_source(source, on_bytes=self.listener.advance) as opened:
                yield opened
        except EmptyError as error:
            if not self.may_be_empty:
                raise
            self.listener.error(str(error))
            self.n_empty += 1


def _review_line(parse: Parse) -> str:
    """Return the place, sent_id, confidence and text of a sentence, and its least certain word or its boundaries."""
    sentence = parse.sentence
    place = f"{sentence.path}:{sentence.line}" if sentence.path else str(sentence.number)
    word = min(parse.words, key=lambda each: each.confidence)
    head = parse.forms[word.head - 1] if word.head else "ROOT"
    form, head = shorten(word.form, _WORD_WIDTH), shorten(head, _WORD_WIDTH)
    least = f"{word.number} {form} <- {word.head} {head}: {word.label} {word.confidence:.2f}"
    if parse.cut_confidence < word.confidence:
        least = f"start and end of the sentence: {parse.cut_confidence:.2f}"
    cells = (place, sentence.sent_id or "_", f"{parse.confidence:.2f}", shorten(parse.text, _TEXT_WIDTH), least)
    return "\t".join(map(visible, cells)) + "\n"


def load_parser(
    model: str, options: ParserOptions, label_map: str | None = None, trust_from: str | None = None
) -> Parser:
    """Load the parser of a run; translate the labels of its initial trees to those of the model."""
    from treefine.parsing.initial import empty, input_trees, renamed
    from treefine.parsing.parser import Parser

    if options.initial == "given":
        options = replace(options, initial=input_trees)  # its labels are renamed below
    parser = Parser.from_pretrained(model, **options.set_options)
    if parser.initial is empty or isinstance(parser.initial, Parser):
        unused: dict[str, object] = {"--label-map": label_map}
        if parser.initial is empty:
            unused |= {"--trust": options.trust, "--trust-from": trust_from}
        for flag, value in unused.items():
            if value is not None:
                raise TreefineError(f"{flag} needs initial trees.", hint="Name a file with --initial FILE.")
        return parser
    known = parser.model.vocabulary.labels
    names = None if label_map is None else label_map_of(label_map, known)
    named = renamed(parser.initial, known, names)
    return parser.using(
        initial=named, max_steps=parser.max_steps, stop_above=parser.stop_above, trust=parser.options.trust
    )


def with_fitted_trust(parser: Parser, inputs: Sequence[Input], gold: str) -> Parser:
    """Return the parser with its trust fitted to a gold treebank of some of the inputs' sentences."""
    if parser.options.trust is not None:
        raise TreefineError("--trust and --trust-from cannot be combined.", hint="Leave out one of them.")
    if any(source.name == "-" for source in inputs):
        raise TreefineError("--trust-from cannot read standard input, because it reads the input twice.")

    def sentences() -> Iterator[Sentence]:
        for source in inputs:
            with suppress(TreebankError), open_source(source) as (stream, kind):  # reported when the input is parsed
                for segmented in read_input(stream, kind, source, parser, count(1)):
                    yield segmented.sentence

    try:
        weights = parser.fit_trust(sentences(), read_treebank(gold))
    except TreefineError as error:
        error.path = error.path or gold
        raise
    return parser.using(trust=weights)
