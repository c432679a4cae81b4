"""Plan and write the outputs of a command.

The plan assigns inputs to outputs and reports impossible combinations before work starts. After it come the output
formats, for parses and for the sentences of a treebank.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple

from treefine.cli.changes import kind_of
from treefine.cli.inputs import Input
from treefine.cli.part_file import Part, check_leftover, open_part, part_of
from treefine.cli.replacing import Kind, check_replaced
from treefine.cli.table_files import check_table, table_losses, write_table
from treefine.drawing.characters import visible
from treefine.drawing.sentences import Drawing, drawing_of, html_of, svg_of
from treefine.drawing.text import BOLD, StyledText, draw_text
from treefine.errors import TreebankError, TreefineError
from treefine.parsing.table import Content, csv_texts
from treefine.treebank.conllu import convert_treebank, texts_in_file
from treefine.treebank.files import (
    COMPRESSED,
    COMPRESSED_NAMES,
    check_compression,
    linked_file,
    name_of,
    not_written,
    open_output,
)
from treefine.treebank.formats import CONLL09, FORMATS, format_by_name, suffix_of
from treefine.treebank.raw_text import own_text, spans_in
from treefine.treebank.sentence import CONLLU, Format, Sentence

if TYPE_CHECKING:
    from treefine.parsing.parse import Parse

DrawnShape = Literal["tree", "svg", "html"]
Shape = Literal["tree", "conllu", "json", "csv", "tsv", "svg", "html", "parquet"]
_ENDINGS: dict[Shape, tuple[str, ...]] = {  # the first is used for files in an output folder
    "tree": (".txt",),
    "json": (".jsonl", ".json"),
    "csv": (".csv",),
    "tsv": (".tsv",),
    "svg": (".svg",),
    "html": (".html", ".htm"),
    "parquet": (".parquet",),
}
_EXTENSION = re.compile(r"\.[a-z0-9_]*[a-z][a-z0-9_]*")  # not the end of names such as wsj.23 and run.2-a
_SHAPES: tuple[Shape, ...] = ("conllu", *_ENDINGS)
DELIMITERS = {"csv": ",", "tsv": "\t"}
TABLES = ("parquet", *DELIMITERS)  # formats with one row per word
_BOXES = "─┄│╭├╰┬┼┴…"
_OTHER_OUTPUT = "Choose a different output file."
_BETWEEN_SEPARATORS = re.compile(r"(?:[^\t\r\n]|\r(?!\n))+")  # the text of a cell or line


@dataclass(frozen=True, slots=True)
class Job:
    """One output and the inputs that are written to it."""

    inputs: tuple[Input, ...]
    target: str  # a path, or - for standard output
    shape: Shape
    form: Format | None = None  # format of a treebank; None if each sentence keeps its format
    is_in_folder: bool = False  # one of several outputs; --resume skips the finished ones

    @property
    def can_be_resumed(self) -> bool:
        """Whether the output is a file in which an incomplete last sentence can be detected."""
        path = Path(self.target)
        is_file = self.target != "-" and (path.is_file() or not path.exists())
        return is_file and self.shape in ("conllu", "json")

    @property
    def is_marked(self) -> bool:
        """Whether the output shows that treefine wrote it. A treebank does so only if it is CoNLL-U of text."""
        first = self.inputs[0]
        is_text = first.text is not None or first.kind in ("text", "lines", "words")
        return self.shape != "conllu" or (is_text and (self.form or CONLLU).is_ud)

    @property
    def is_finished(self) -> bool:
        """Whether the output exists and has no part file."""
        return Path(self.target).exists() and not part_of(self.target).exists()


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Options for the output."""

    steps: bool = False
    confidence: bool = False
    review: float | None = None  # list sentences whose confidence is lower
    resume: bool = False
    changes: str | None = None  # file for the changes made by refinement
    k: int = 1  # trees per sentence
    also_read: tuple[str, ...] = ()  # other files that are read: initial trees, a label map
    model: str = ""  # as named by the user; recorded in the output
    force: bool = False  # replace files that are not earlier outputs


def plan_jobs(inputs: Sequence[Input], output: str, shape: Shape | None, options: OutputOptions) -> list[Job]:
    """Return the jobs; raise an error if an output cannot be written with these options."""
    if options.review is not None and output == "-":
        if shape is not None or options.steps or options.confidence or options.k > 1:
            hint = "Write the trees to a file with -o, or leave out --format, --show-steps, --confidence and --k."
            raise TreefineError("--review prints a list instead of trees.", hint=hint)
        jobs = [Job(tuple(inputs), "-", "conllu")]
    else:
        jobs = _jobs(inputs, output, shape)
    for path in [*(job.target for job in jobs if job.target != "-"), *filter(None, [options.changes])]:
        if any(_is_same(path, other) for other in options.also_read):
            message = "The output would overwrite an input file."
            raise TreefineError(message, hint=_OTHER_OUTPUT, path=path)
    _check_other_inputs(jobs)
    for job in jobs:
        _check(job, options)
    if options.changes is not None:
        _check_changes(options.changes, jobs, options)
    return jobs


def _jobs(inputs: Sequence[Input], output: str, shape: Shape | None) -> list[Job]:
    if output == "-":
        is_terminal = sys.stdout is not None and sys.stdout.isatty()
        form = CONLLU if shape == "conllu" else _common_format(inputs)
        return [Job(tuple(inputs), "-", shape or ("tree" if is_terminal else "conllu"), form)]
    if output.endswith(("/", os.sep)) or Path(output).is_dir():
        return _jobs_of_folder(inputs, Path(output), shape)
    chosen = shape or shape_by_name(output) or "conllu"
    if chosen != "conllu":
        return [Job(tuple(inputs), output, chosen)]
    own = {suffix_of(each.name) for each in inputs if each.is_treebank}
    if shape is None and suffix_of(output) not in own:
        check_extension(output)
    form = format_by_name(output) or (CONLLU if shape == "conllu" else _common_format(inputs))
    return [Job(tuple(inputs), output, chosen, form)]


def shape_by_name(output: str) -> Shape | None:
    """Return the output format that the extension names; None for a treebank or an unknown extension."""
    return next((shape for shape, endings in _ENDINGS.items() if suffix_of(output) in endings), None)


def check_extension(output: str, *, option: str = "--format", shapes: Collection[Shape] = _SHAPES) -> None:
    """Raise an error if the extension is not that of one of these formats. A name may have no extension."""
    found = suffix_of(output)
    known = [ending for form in FORMATS.values() for ending in form.suffixes] if "conllu" in shapes else []
    known += [ending for shape, endings in _ENDINGS.items() if shape in shapes for ending in endings]
    if _EXTENSION.fullmatch(found) and found not in known:
        hint = f"Use {', '.join(known)} (and {COMPRESSED_NAMES} after it), or choose the format with {option}."
        raise TreefineError(f"This command writes no format with the extension {found}.", hint=hint, path=output)


def _common_format(inputs: Sequence[Input]) -> Format | None:
    """Return CoNLL-U if the inputs may have different formats, else None: they keep their format."""
    kinds = {each.kind for each in inputs}
    return CONLLU if len(inputs) > 1 and (len(kinds) > 1 or None in kinds) else None


def _jobs_of_folder(inputs: Sequence[Input], folder: Path, shape: Shape | None) -> list[Job]:
    """Create the folder; return one job per input, with the same file name and a new extension."""
    if not all(each.is_file for each in inputs):
        hint = "Name an output file, or leave out -o."
        message = "An output folder needs input files, not a text or standard input."
        raise TreefineError(message, hint=hint, path=str(folder))
    jobs = []
    for each in inputs:
        form, endings = None, _ENDINGS.get(shape or "conllu")
        if endings is None:
            form = CONLLU if shape == "conllu" else FORMATS.get(each.kind or "", CONLLU)
            endings = form.suffixes or CONLL09.suffixes
        jobs.append(
            Job(
                (each,),
                str(folder / each.subfolder / (_stem(each.name) + endings[0])),
                shape or "conllu",
                form,
                is_in_folder=True,
            )
        )
    for target, number in Counter(job.target for job in jobs).items():
        if number > 1:
            names = [job.inputs[0].name for job in jobs if job.target == target]
            hint = "Write them to different folders."
            if len({suffix_of(name) for name in names}) > 1:
                pattern = Path(names[0]).with_name(f"*{suffix_of(names[0])}")
                hint = f"Write them to different folders: read only files of one kind at a time, such as '{pattern}'."
            message = f"{number} inputs have the same output file: {', '.join(names)}."
            raise TreefineError(message, hint=hint, path=target)
    try:
        for job in jobs:
            Path(job.target).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_written(error.strerror or str(error), str(folder)) from error
    return jobs


def _stem(name: str) -> str:
    """Return the file name without its extensions.

    >>> _stem("texts/a.b.txt.gz"), _stem(".hidden")
    ('a.b', '.hidden')
    """
    path = Path(Path(name).name)
    while path.suffix.lower() in COMPRESSED:
        path = path.with_suffix("")
    return path.stem


def _check_other_inputs(jobs: Sequence[Job]) -> None:
    """Raise an error if a job would overwrite an input of another job, which may not have been read yet."""
    readers: dict[object, list[Job]] = {}
    for job in jobs:
        for each in job.inputs:
            if each.is_file:
                readers.setdefault(_identity(each.name), []).append(job)
    for job in jobs:
        if any(other is not job for other in readers.get(_identity(job.target), ())):
            raise TreefineError(
                "The output would overwrite an input.", hint="Choose a different folder.", path=job.target
            )


def _check(job: Job, options: OutputOptions) -> None:
    """Raise an error if the output cannot be written, or if its format cannot hold what the options ask for."""
    lacks_misc = job.form is not None and job.form.misc is None
    title = "" if job.form is None else job.form.title
    is_treebank = job.shape == "conllu"
    if options.steps and job.shape in ("conllu", *TABLES):
        what = "treebank" if is_treebank else "table"
        hint = "Add --format tree, svg, html or json, or leave out --show-steps."
        raise TreefineError(f"A {what} cannot show refinement steps.", hint=hint)
    if options.confidence and lacks_misc:
        raise TreefineError(f"{title} has no column for confidence.", hint="Write CoNLL-U, or leave out --confidence.")
    if options.k > 1 and options.steps and job.shape != "json":
        hint = "Leave out one of them, or add --format json, which supports both."
        raise TreefineError("--k and --show-steps cannot be drawn together.", hint=hint)
    if options.k > 1 and lacks_misc:
        hint = "Write CoNLL-U, or leave out --k."
        raise TreefineError(f"{title} cannot hold several trees per sentence.", hint=hint)
    if options.resume and not _can_be_continued(job, options):
        hint = "Write JSON, or leave out --k or --resume."
        raise TreefineError("A treebank with several trees per sentence cannot be resumed.", hint=hint)
    if options.resume and not job.can_be_resumed and not job.is_in_folder:
        hint = "Write CoNLL-U, CoNLL-X, CoNLL-2009 or JSON to a file, write to a folder, or leave out --resume."
        raise TreefineError("--resume cannot continue this kind of output.", hint=hint)
    if job.shape == "parquet":
        check_table(job.target)
    if job.target == "-":
        return
    if options.resume and any(each.is_file and _is_same(job.target, each.name) for each in job.inputs):
        message = "--resume needs an output file that is not the input."
        raise TreefineError(message, hint=_OTHER_OUTPUT)
    if not (options.resume and job.is_finished):
        check_output(job.target, job.shape, job.inputs, force=options.force)
    elif job.is_marked and not job.is_in_folder and not options.force:
        check_replaced(job.target, job.shape, hint="Choose a different output file, or replace --resume by --force.")
    if job.can_be_resumed and not (options.resume or options.force):
        check_leftover(job.target, is_json=job.shape == "json", can_be_continued=_can_be_continued(job, options))


def _can_be_continued(job: Job, options: OutputOptions) -> bool:
    """Return whether a part file of the job can be continued: not if a treebank has several trees per sentence."""
    return options.k == 1 or job.shape != "conllu"


def check_output(target: str, shape: Shape, inputs: Sequence[Input], *, force: bool) -> None:
    """Raise an error if the output cannot be written, or would replace a file that is not an earlier output.

    An input is never replaced, except a treebank by a treebank with `force`.
    """
    if target == "-":
        return
    _check_place(target)
    same = next((each for each in inputs if each.is_file and _is_same(target, each.name)), None)
    may_be_forced = same is not None and shape == "conllu" and same.kind in FORMATS
    if same is not None and not (force and may_be_forced):
        hint = (
            "Choose a different output file, or replace the treebank with --force." if may_be_forced else _OTHER_OUTPUT
        )
        raise TreefineError("The output would overwrite the input.", hint=hint, path=target)
    if force:
        return
    check_replaced(target, shape)


def _check_changes(path: str, jobs: Sequence[Job], options: OutputOptions) -> None:
    kind = kind_of(path)
    if options.resume:
        message = "--changes cannot be combined with --resume: it would miss the sentences of the earlier run."
        raise TreefineError(message, hint="Leave out one of them.")
    _check_place(path)
    others = [job.target for job in jobs] + [each.name for job in jobs for each in job.inputs if each.is_file]
    if any(_is_same(path, other) for other in others):
        hint = "Choose a different file for the changes."
        raise TreefineError("The changes would overwrite the input or the output.", hint=hint, path=path)
    if not options.force:
        kinds: dict[str, Kind] = {"html": "html", "json": "changes.json", "tsv": "changes.tsv"}
        check_replaced(path, kinds[kind])


def _check_place(path: str) -> None:
    """Raise an error if this path cannot be written."""
    target = Path(path)
    if target.is_dir():
        raise TreebankError("This is a directory.", hint="Name a file to write.", path=path)
    folder = linked_file(path).parent
    if not folder.is_dir():
        raise not_written("No such file or directory", path)
    if not os.access(folder, os.W_OK) and (target.is_file() or not target.exists()):
        raise not_written("Permission denied", path)
    check_compression(path)


def _is_same(path: str, other: str) -> bool:
    """Return whether two paths name the same file, even if it does not exist yet."""
    return _identity(path) == _identity(other)


def _identity(path: str) -> object:
    """Return a value that is the same for all paths of a file."""
    try:
        found = Path(path).stat()
    except OSError:
        return os.path.realpath(path)
    return found.st_dev, found.st_ino


@dataclass
class NewOutput:
    """An output that starts empty."""

    stream: BinaryIO
    encoding: str = "utf-8"
    is_terminal: bool = False  # escape control characters of the input
    is_flushed: bool = False  # flush after each sentence
    skip: int = 0  # number of sentences already written

    def write(self, text: str) -> None:
        """Write the text of a sentence."""
        if self.is_terminal:
            text = _BETWEEN_SEPARATORS.sub(lambda found: visible(found[0]), text)
        self.stream.write(text.encode(self.encoding, "backslashreplace"))
        if self.is_flushed:
            self.stream.flush()


@contextmanager
def open_sink(job: Job, options: OutputOptions) -> Iterator[NewOutput | Part]:
    """Open the output of a job; a file appears under its name only when it is complete."""
    if job.can_be_resumed:
        can_be_continued = _can_be_continued(job, options)
        with open_part(
            job.target, is_json=job.shape == "json", is_resumed=options.resume, can_be_continued=can_be_continued
        ) as part:
            yield part
    else:
        with _open_whole(job.target, job.shape) as sink:
            yield sink


@contextmanager
def _open_whole(target: str, shape: Shape, *, is_synced: bool = False) -> Iterator[NewOutput]:
    """Open an output that cannot be resumed."""
    if target == "-":
        with open_stdout(shape) as sink:
            yield sink
    else:
        with open_output(target, is_synced=is_synced) as stream:
            yield NewOutput(stream)


class Pen(NamedTuple):
    """The encoding, colour, character set and width of drawn trees."""

    encoding: str = "utf-8"
    color: bool = False
    ascii_only: bool = False
    width: int | None = None  # None if the output is not a terminal


def pen_for_stdout() -> Pen:
    """Use colour on a terminal unless NO_COLOR or TERM=dumb is set, and ASCII if the encoding lacks box characters."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        _BOXES.encode(encoding)
        ascii_only = False
    except UnicodeEncodeError:
        ascii_only = True
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    width = max(shutil.get_terminal_size().columns, 20) if sys.stdout.isatty() else None
    return Pen(encoding, sys.stdout.isatty() and not is_plain, ascii_only, width)


@contextmanager
def open_stdout(shape: Shape) -> Iterator[NewOutput]:
    """Open standard output: in the encoding of the terminal for drawn trees, else in UTF-8."""
    with open_output("-") as stream:
        is_drawn = shape == "tree"
        encoding = pen_for_stdout().encoding if is_drawn else "utf-8"
        yield NewOutput(stream, encoding, is_terminal=sys.stdout.isatty() and not is_drawn, is_flushed=True)


def texts_of_parses(
    parses: Iterator[Parse], job: Job, options: OutputOptions, *, is_start: bool = True, marks_changes: bool = False
) -> Iterator[str]:
    """Yield the output in the format of the job; set `is_start` to False to continue a treebank.

    With `marks_changes`, drawn trees show how they differ from the initial ones.
    """
    if job.shape == "json":
        return (_json_line(parse.sentence, parse.to_dict()) for parse in parses)
    if job.shape in ("tree", "svg", "html"):
        drawn = (drawing_of(each, steps=options.steps, marks_changes=marks_changes) for each in parses)
        pen = pen_for_stdout() if job.target == "-" else Pen()
        return draw_all(drawn, job.shape, title=title_of(job.inputs) or "Parsed by treefine", pen=pen)
    if options.k > 1:
        ranked = (each.ranked_sentences(confidence=options.confidence) for each in parses)
        return texts_in_file(chain.from_iterable(ranked), is_start=is_start)
    sentences = (each.with_confidence() if options.confidence else each.sentence for each in parses)
    return texts_in_file(sentences, is_start=is_start)


def draw_all(drawings: Iterable[Drawing], shape: DrawnShape, *, title: str, pen: Pen) -> Iterator[str]:
    """Yield the output in this format; `title` is the heading of a page."""
    if shape == "tree":
        return _as_trees(drawings, pen)
    if shape == "svg":
        return iter([svg_of(drawings, hint="Use --format html, which has no limit.")])
    return html_of(drawings, title)


def _as_trees(drawings: Iterable[Drawing], pen: Pen) -> Iterator[str]:
    """Draw each tree, or all its steps, under the name and text of the sentence; separate sentences by blank lines."""
    for number, each in enumerate(drawings, start=1):
        name = visible(each.name or str(number), ascii_only=pen.ascii_only)
        sure = "" if each.confidence is None else f", confidence {each.confidence:.2f}"
        heading = StyledText(name + sure, BOLD).painted(color=pen.color)
        first, *others = each.pictures
        drawn = (
            draw_text(picture, color=pen.color, ascii_only=pen.ascii_only, width=pen.width)
            for picture in (replace(first, caption=each.text), *others)
        )
        yield "\n" * (number > 1) + f"{heading}\n" + "\n".join(drawn)


def title_of(inputs: Sequence[Input]) -> str:
    """Return the heading of a page of drawings: the name of its only file; empty for other inputs."""
    return inputs[0].name if len(inputs) == 1 and inputs[0].is_file else ""


def _json_line(sentence: Sentence, values: Mapping[str, object]) -> str:
    """Return a line of JSON that starts with the file of the sentence, unless it comes from a stream or a text."""
    file = {"file": visible(sentence.path)} if sentence.path not in ("", name_of("-")) else {}
    return json.dumps({**file, **values}, ensure_ascii=False) + "\n"


def write_treebank_as(
    sentences: Iterable[Sentence], target: str, shape: Shape, form: Format = CONLLU, *, title: str = ""
) -> Counter[str]:
    """Write the sentences of a treebank; return the number of items of each kind that the format cannot hold.

    `form` is the format of a treebank, and `title` the heading of a page.
    """
    if shape == "conllu":
        return convert_treebank(sentences, target, form)
    lost: Counter[str] = Counter()

    def counted() -> Iterator[Sentence]:
        for sentence in sentences:
            lost.update(table_losses(sentence))
            yield sentence

    if shape == "parquet":
        write_table(counted(), target, Content())
        return lost
    texts: Iterable[str]
    if shape == "json":
        texts = (_json_line(each, _values(each)) for each in counted())
    elif shape == "csv" or shape == "tsv":
        texts = csv_texts(counted(), Content(), delimiter=DELIMITERS[shape])
    else:
        pen = pen_for_stdout() if target == "-" else Pen()
        texts = draw_all(map(drawing_of, sentences), shape, title=title, pen=pen)
    with _open_whole(target, shape) as sink:
        for text in texts:
            sink.write(text)
    return lost


def _values(sentence: Sentence) -> dict[str, object]:
    """Return a sentence of a treebank as values that JSON can represent, with the names of a parse's values."""
    text = own_text(sentence)
    words = [
        {
            "number": word.number,
            "form": word.form,
            "lemma": word.lemma,
            "upos": word.upos,
            "xpos": word.xpos,
            "feats": word.feats,
            "head": word.head,
            "label": word.label,
            "start": start,
            "end": end,
        }
        for word, (start, end) in zip(sentence.words, spans_in(text, sentence), strict=True)
    ]
    tokens = [{"form": each.form, "words": list(each.words)} for each in sentence.tokens() if len(each.words) > 1]
    whole: dict[str, object] = {"sent_id": sentence.sent_id, "text": text, "words": words}
    return whole | ({"multiword_tokens": tokens} if tokens else {})
