"""Plan the outputs of a run, and write sentences and parses in every format."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from treefine.drawing.html import html_of
from treefine.drawing.picture import Drawing, drawing_of
from treefine.drawing.svg import svg_of
from treefine.drawing.text import BOLD, StyledText, draw_text
from treefine.errors import TreebankError, TreefineError, visible
from treefine.jobs.changes import check_changes
from treefine.jobs.inputs import Input, identity
from treefine.jobs.part_file import check_leftover, part_of
from treefine.model.bundled import bundled_models
from treefine.parsing.table import Content, csv_texts, import_package, record_batches, schema_of
from treefine.treebank.conllu import CONLL09, FORMATS, format_by_name, suffix_of, texts_in_file
from treefine.treebank.files import (
    COMPRESSED,
    COMPRESSED_NAMES,
    check_compression,
    linked_file,
    name_of,
    not_written,
    open_output,
)
from treefine.treebank.raw_text import spans_in
from treefine.treebank.sentence import CONLLU, Format, Sentence, own_text
from treefine.version import __version__

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
_BETWEEN_SEPARATORS = re.compile(r"(?:[^\t\r\n]|\r(?!\n))+")  # the text of a cell or line


def _option(default: object, usage: str, description: str, **settings: Any) -> Any:
    return field(default=default, metadata={"usage": usage, "description": description, **settings})


@dataclass(frozen=True)
class OutputOptions:
    """What a run writes; a field with a description is an option of the commands."""

    model: str | None = _option(  # recorded in the output
        None,
        "--model NAME|DIR",
        "Bundled model, folder of a model or of a training, or OWNER/NAME on the Hugging Face hub.",
        shown="en, or the model of the language",
        names=bundled_models,
    )
    output: str = _option(
        "-", "-o --output OUT", "Output file, or a folder with one per input.", shown="standard output"
    )
    shape: Shape | None = _option(
        None,
        "--format",
        "Drawn as text (tree), a treebank, JSON lines, a table with one row per word, or drawings (svg, html).",
        shown="by the extension of OUT; else tree on a terminal, conllu elsewhere",
    )
    steps: bool = _option(False, "--show-steps", "Draw each refinement step and mark its changes.")
    confidence: bool = _option(
        False, "--confidence", "Write the confidence of each word, in MISC or columns of a table."
    )
    review: float | None = _option(
        None, "--review LIMIT", "List sentences with a lower confidence; trees are written only with -o.", min=0, max=1
    )
    resume: bool = _option(False, "--resume", "Continue an interrupted run after the last sentence in OUT.part.")
    force: bool = _option(False, "--force", "Replace existing files.")
    changes: str | None = None  # file for the changes made by refinement
    k: int = 1  # trees per sentence
    also_read: tuple[str, ...] = ()  # other files that are read: initial trees, a label map
    marks_changes: bool = False  # count changes, and show the initial trees in drawings and tables
    title: str = "Parsed by treefine"  # of a page, unless there is only one input file, whose name it has

    @property
    def content(self) -> Content:
        """The optional columns of a table."""
        return Content(self.confidence, self.k > 1, self.marks_changes)


@dataclass(frozen=True, slots=True)
class OutputFile:
    """One output and the inputs that are written to it."""

    inputs: tuple[Input, ...]
    path: str  # or - for standard output
    shape: Shape
    form: Format | None = None  # format of a treebank; None if each sentence keeps its format

    def can_be_resumed(self, options: OutputOptions) -> bool:
        """Return whether the output is a file in which an incomplete last sentence can be detected."""
        is_file = self.path != "-" and (Path(self.path).is_file() or not Path(self.path).exists())
        return is_file and (self.shape == "json" or (self.shape == "conllu" and options.k == 1))

    @property
    def is_finished(self) -> bool:
        """Whether the output exists and has no part file."""
        return Path(self.path).exists() and not part_of(self.path).exists()


def plan_outputs(inputs: Sequence[Input], options: OutputOptions) -> list[OutputFile]:
    """Return the outputs; raise an error if one of them cannot be written with these options."""
    output, shape = options.output, options.shape
    if options.review is not None and output == "-":
        if shape is not None or options.steps or options.confidence or options.k > 1:
            hint = "Write the trees to a file with -o, or leave out --format, --show-steps, --confidence and --k."
            raise TreefineError("--review prints a list instead of trees.", hint=hint)
        files = [OutputFile(tuple(inputs), "-", "conllu")]
    else:
        files = _output_files(inputs, output, shape)
    reads = {identity(source.name) for source in inputs if source.is_file} | set(map(identity, options.also_read))
    for file in files:
        _check_options(file, options)
        own = {identity(source.name) for source in file.inputs if source.is_treebank and file.shape == "conllu"}
        if options.resume and file.is_finished and identity(file.path) not in reads:
            continue
        is_resumed = options.resume and part_of(file.path).exists()
        check_output(file.path, reads, () if options.resume else own, force=options.force or is_resumed)
        if file.can_be_resumed(options) and not (options.resume or options.force):
            check_leftover(file.path)
    if options.changes is not None:
        if options.resume:
            message = "--changes cannot be combined with --resume: it would miss the sentences of the earlier run."
            raise TreefineError(message, hint="Leave out one of them.")
        check_changes(options.changes)
        check_output(options.changes, reads | {identity(file.path) for file in files}, force=options.force)
    return files


def _output_files(inputs: Sequence[Input], output: str, shape: Shape | None) -> list[OutputFile]:
    kinds = {source.kind for source in inputs}
    is_mixed = len(inputs) > 1 and (len(kinds) > 1 or None in kinds)  # else the sentences keep their format
    form = CONLLU if shape == "conllu" or is_mixed else None
    if output == "-":
        is_terminal = sys.stdout is not None and sys.stdout.isatty()
        return [OutputFile(tuple(inputs), "-", shape or ("tree" if is_terminal else "conllu"), form)]
    if output.endswith(("/", os.sep)) or Path(output).is_dir():
        return _files_of_folder(inputs, Path(output), shape)
    chosen = shape or shape_by_name(output) or "conllu"
    if chosen != "conllu":
        return [OutputFile(tuple(inputs), output, chosen)]
    if shape is None and suffix_of(output) not in {suffix_of(source.name) for source in inputs if source.is_treebank}:
        check_extension(output)
    return [OutputFile(tuple(inputs), output, chosen, format_by_name(output) or form)]


def _files_of_folder(inputs: Sequence[Input], folder: Path, shape: Shape | None) -> list[OutputFile]:
    """Create the folder; return one output per input, with the same file name and a new extension."""
    if not all(source.is_file for source in inputs):
        message = "An output folder needs input files, not a text or standard input."
        raise TreefineError(message, hint="Name an output file, or leave out -o.", path=str(folder))
    files: dict[str, OutputFile] = {}
    for source in inputs:
        form, endings = None, _ENDINGS.get(shape or "conllu")
        if endings is None:
            form = CONLLU if shape == "conllu" else FORMATS.get(source.kind or "", CONLLU)
            endings = form.suffixes or CONLL09.suffixes
        path = str(folder / source.subfolder / (stem_of(source.name) + endings[0]))
        if path in files:
            message = f"Two inputs have the same output file: {files[path].inputs[0].name}, {source.name}."
            hint = "Write them to different folders, reading one of them at a time."
            raise TreefineError(message, hint=hint, path=path)
        files[path] = OutputFile((source,), path, shape or "conllu", form)
    for path in files:
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise not_written(error.strerror or str(error), path) from error
    return list(files.values())


def stem_of(name: str) -> str:
    """Return the file name without its extensions.

    >>> stem_of("texts/a.b.txt.gz"), stem_of(".hidden")
    ('a.b', '.hidden')
    """
    path = Path(Path(name).name)
    while path.suffix.lower() in COMPRESSED:
        path = path.with_suffix("")
    return path.stem


def shape_by_name(output: str) -> Shape | None:
    """Return the output format that the extension names; None for a treebank or an unknown extension."""
    return next((shape for shape, endings in _ENDINGS.items() if suffix_of(output) in endings), None)


def check_extension(output: str, *, option: str = "--format", shapes: Collection[Shape] = _SHAPES) -> None:
    """Raise an error if the extension is not that of one of these formats. A name may have no extension."""
    suffix = suffix_of(output)
    known = [ending for form in FORMATS.values() for ending in form.suffixes] if "conllu" in shapes else []
    known += [ending for shape, endings in _ENDINGS.items() if shape in shapes for ending in endings]
    if _EXTENSION.fullmatch(suffix) and suffix not in known:
        hint = f"Use {', '.join(known)} (and {COMPRESSED_NAMES} after it), or choose the format with {option}."
        raise TreefineError(f"This command writes no format with the extension {suffix}.", hint=hint, path=output)


def _check_options(file: OutputFile, options: OutputOptions) -> None:
    title = "" if file.form is None or file.form.misc is not None else file.form.title  # of a format without MISC
    message = hint = ""
    if options.steps and file.shape in ("conllu", *TABLES):
        message = f"A {'treebank' if file.shape == 'conllu' else 'table'} cannot show refinement steps."
        hint = "Add --format tree, svg, html or json, or leave out --show-steps."
    elif title and (options.confidence or options.k > 1):
        message, hint = (
            f"{title} has no column for confidence and no place for several trees.",
            "Write CoNLL-U, or leave out --confidence and --k.",
        )
    elif options.k > 1 and options.steps and file.shape != "json":
        message = "--k and --show-steps cannot be drawn together."
        hint = "Leave out one of them, or add --format json, which supports both."
    elif options.resume and file.path == "-":
        message, hint = "--resume cannot continue this output.", "Write to a file or a folder with -o."
    if message:
        raise TreefineError(message, hint=hint)
    if file.shape == "parquet":
        check_table(file.path)


def check_output(path: str, reads: Collection[object], own: Collection[object] = (), *, force: bool) -> None:
    """Raise an error if the output cannot be written, would overwrite an input, or exists and `force` is not set.

    `reads` identifies the files that are read, and `own` those of them that may be replaced with `force`.
    """
    if path == "-":
        return
    target, other = Path(path), "Choose a different output file"
    if target.is_dir():
        raise TreebankError("This is a directory.", hint="Name a file to write.", path=path)
    if not linked_file(path).parent.is_dir():
        raise not_written("No such file or directory", path)
    check_compression(path)
    if (file := identity(path)) in reads and not (force and file in own):
        hint = f"{other}, or replace the treebank with --force." if file in own else f"{other}."
        raise TreefineError("The output would overwrite an input.", hint=hint, path=path)
    if not force and target.is_file() and target.stat().st_size:
        raise TreefineError("This file exists.", hint=f"{other}, or replace this one with --force.", path=path)


def check_table(path: str) -> None:
    """Raise an error if a Parquet table cannot be written to this path, or if pyarrow is missing."""
    if path == "-":
        raise TreefineError("A table cannot be printed.", hint="Name a file with -o, such as -o out.parquet.")
    import_package("pyarrow.parquet")


@contextmanager
def open_text(path: str, shape: Shape) -> Iterator[Callable[[str], None]]:
    """Open an output that cannot be resumed; yield a function that writes the text of a sentence.

    Standard output gets drawings in the encoding of the terminal. On a terminal, control characters are escaped.
    """
    is_stdout, is_drawn = path == "-", path == "-" and shape == "tree"
    with open_output(path) as stream:
        encoding = pen_for_stdout().encoding if is_drawn else "utf-8"
        is_escaped = is_stdout and not is_drawn and sys.stdout.isatty()

        def write(text: str) -> None:
            if is_escaped:
                text = _BETWEEN_SEPARATORS.sub(lambda found: visible(found[0]), text)
            stream.write(text.encode(encoding, "backslashreplace"))
            if is_stdout:
                stream.flush()

        yield write


def drop_stdout() -> None:
    """Send all further output nowhere, after the reader of standard output has stopped."""
    with suppress(OSError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - OSError: standard output is not a file
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


class Pen(NamedTuple):
    """The encoding, colour, character set and width of drawn trees."""

    encoding: str = "utf-8"
    color: bool = False
    ascii_only: bool = False
    width: int | None = None  # None if the output is not a terminal


def pen_for_stdout() -> Pen:
    """Use colour on a terminal unless NO_COLOR or TERM=dumb is set, and ASCII if the encoding lacks box characters."""
    encoding = sys.stdout.encoding or "utf-8"
    ascii_only = _BOXES.encode(encoding, "replace").decode(encoding) != _BOXES
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    width = max(shutil.get_terminal_size().columns, 20) if sys.stdout.isatty() else None
    return Pen(encoding, sys.stdout.isatty() and not is_plain, ascii_only, width)


def texts_of(
    results: Iterable[Any], file: OutputFile, options: OutputOptions, *, is_start: bool = True
) -> Iterator[str]:
    """Yield the text of an output, sentence by sentence, for Parses, Sentences or what a segmenter returns.

    Set `is_start` to False to continue a treebank.
    """
    shape = file.shape
    if shape in DELIMITERS:
        return csv_texts(results, options.content, delimiter=DELIMITERS[shape])
    if shape == "json":
        return map(_json_line, results)
    if shape == "conllu":
        return texts_in_file(chain.from_iterable(_sentences_of(each, options) for each in results), is_start=is_start)
    drawings = (drawing_of(each, steps=options.steps, marks_changes=options.marks_changes) for each in results)
    if shape == "tree":
        return _as_trees(drawings, pen_for_stdout() if file.path == "-" else Pen())
    if shape == "svg":
        return iter([svg_of(drawings, hint="Use --format html, which has no limit.")])
    is_one = len(file.inputs) == 1 and file.inputs[0].is_file
    return html_of(drawings, file.inputs[0].name if is_one else options.title)


def _sentences_of(result: Any, options: OutputOptions) -> Iterable[Sentence]:
    if isinstance(result, Sentence):
        return [result]
    if options.k > 1:
        return cast("Parse", result).ranked_sentences(confidence=options.confidence)
    return [result.with_confidence() if options.confidence else result.sentence]


def _as_trees(drawings: Iterable[Drawing], pen: Pen) -> Iterator[str]:
    """Draw each tree, or all its steps, under the name and text of the sentence; separate sentences by blank lines."""
    for number, drawing in enumerate(drawings, start=1):
        name = visible(drawing.name or str(number), ascii_only=pen.ascii_only)
        confidence = "" if drawing.confidence is None else f", confidence {drawing.confidence:.2f}"
        heading = StyledText(name + confidence, BOLD).painted(color=pen.color)
        first, *others = drawing.pictures
        drawn = (
            draw_text(picture, color=pen.color, ascii_only=pen.ascii_only, width=pen.width)
            for picture in (replace(first, caption=drawing.text), *others)
        )
        yield "\n" * (number > 1) + f"{heading}\n" + "\n".join(drawn)


def write_file(sentences: Iterable[Any], file: OutputFile, options: OutputOptions) -> None:
    """Write a file that cannot be resumed and appears only when it is complete; see `texts_of`."""
    if file.shape != "parquet":
        with open_text(file.path, file.shape) as write:
            for text in texts_of(sentences, file, options):
                write(text)
        return
    schema = schema_of(options.content, {"version": __version__, "model": options.model})
    parquet = import_package("pyarrow.parquet")
    with open_output(file.path) as stream:
        writer = parquet.ParquetWriter(stream, schema, compression="zstd")
        try:
            for batch in record_batches(sentences, options.content):
                writer.write_batch(batch.replace_schema_metadata(schema.metadata))
            writer.close()
        finally:
            writer.is_open = False  # or it would try to finish the file that an error has removed


def _json_line(source: Parse | Sentence) -> str:
    """Return a line of JSON that starts with the file of the sentence, unless it comes from a stream or a text."""
    values, sentence = (
        (_values(source), source) if isinstance(source, Sentence) else (source.to_dict(), source.sentence)
    )
    file = {"file": visible(sentence.path)} if sentence.path not in ("", name_of("-")) else {}
    return json.dumps({**file, **values}, ensure_ascii=False) + "\n"


def _values(sentence: Sentence) -> dict[str, Any]:
    text = own_text(sentence)
    columns = ("number", "form", "lemma", "upos", "xpos", "feats", "head", "label")
    words = [
        {name: getattr(word, name) for name in columns} | {"start": start, "end": end}
        for word, (start, end) in zip(sentence.words, spans_in(text, sentence), strict=True)
    ]
    tokens = [{"form": each.form, "words": list(each.words)} for each in sentence.tokens() if len(each.words) > 1]
    values: dict[str, Any] = {"sent_id": sentence.sent_id, "text": text, "words": words}
    return values | ({"multiword_tokens": tokens} if tokens else {})
