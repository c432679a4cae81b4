"""The commands parse and refine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treefine.config import BATCH_PIECES, TagSource
from treefine.errors import TreefineError
from treefine.interfaces import tables
from treefine.interfaces.progress import progress
from treefine.treebank.conllu import read_treebank, write_treebank
from treefine.treebank.convert import convert, losses
from treefine.treebank.formats import FORMATS, Format, format_by_name
from treefine.treebank.pretokenised import NAME, is_pretokenised, read_words
from treefine.treebank.sentence import BLANK, Sentence

if TYPE_CHECKING:
    from treefine.parsing.initial import InitialParser
    from treefine.parsing.parser import Parser

_Model = Annotated[str, typer.Option("--model", metavar="DIR", help="A model folder, or OWNER/NAME on a hub.")]
_Output = Annotated[str, typer.Option("-o", "--output", metavar="OUT", help="The file to write, once it is whole.")]
_Steps = Annotated[
    int | None,
    typer.Option("--steps", min=1, help="Refine at most so many times (T). [default: as it was trained]"),
]
_Tags = Annotated[
    TagSource | None,
    typer.Option("--tags", help="Tags to read: the input's, the model's own, or none. [default: as it was trained]"),
]
_Projective = Annotated[bool, typer.Option("--projective", help="Give trees without crossing arcs.")]
_Device = Annotated[str | None, typer.Option("--device", help="cpu, cuda, cuda:1 … [default: a GPU if there is one]")]
_BatchPieces = Annotated[int, typer.Option("--batch-pieces", min=1, help="Sub-words in a batch, padding counted.")]
_FORMATS = f"One of {', '.join(FORMATS)}; or {NAME}: one sentence a line, a space between words (also told by .txt)."
_Format = Annotated[
    str | None, typer.Option("--format", help=f"Format of the input; else told by its name. {_FORMATS}")
]


def parse(
    source: Annotated[str, typer.Argument(metavar="IN", help="Sentences to parse; - is standard input.")],
    model: _Model,
    output: _Output = "-",
    steps: _Steps = None,
    initial: Annotated[
        str | None,
        typer.Option(
            "--initial",
            metavar="empty|DIR|FILE",
            help="Start from nothing, from the trees of another model (SynTr, biaffine), or from those of a file with "
            "the same sentences. [default: the initial parser in the model's folder, else empty]",
        ),
    ] = None,
    tags: _Tags = None,
    projective: _Projective = False,
    device: _Device = None,
    batch_pieces: _BatchPieces = BATCH_PIECES,
    format: _Format = None,
) -> None:
    """Parse sentences that are cut into words.

    All that the file holds stays as it is, but for heads, labels, the enhanced arcs that restate them, and blank tags
    that the model predicts. Heads in the input are not read.
    """
    _write(_load(model, initial, steps, tags, projective, device, batch_pieces), source, output, format)


def refine(
    source: Annotated[str, typer.Argument(metavar="INITIAL", help="Parsed sentences; - is standard input.")],
    model: _Model,
    output: _Output = "-",
    steps: _Steps = None,
    tags: _Tags = None,
    projective: _Projective = False,
    device: _Device = None,
    batch_pieces: _BatchPieces = BATCH_PIECES,
    format: _Format = None,
) -> None:
    """Correct the trees of a file, whichever parser made them.

    A word whose HEAD is blank has no arc in the graph to start from. A label that the model has never seen counts as
    its main type (nsubj of nsubj:outer), and if that is unknown too, its arc is not read.
    """
    from treefine.parsing.initial import given  # which loads torch

    _write(_load(model, given, steps, tags, projective, device, batch_pieces), source, output, format)


def _load(
    model: str,
    initial: str | InitialParser | None,
    steps: int | None,
    tags: TagSource | None,
    projective: bool,
    device: str | None,
    batch_pieces: int,
) -> Parser:
    from treefine.parsing.parser import Parser  # which loads torch

    return Parser.from_pretrained(
        model,
        initial=initial,
        max_steps=steps,
        tags=tags,
        is_projective=projective,
        device=device,
        batch_pieces=batch_pieces,
    )


def _write(parser: Parser, source: str, output: str, format: str | None) -> None:
    total = Path(source).stat().st_size if Path(source).is_file() else None
    form = format_by_name(output)
    lost: Counter[str] = Counter()
    with progress("Parsing", total) as advance:
        sentences = _told_of_missing_tags(parser, _read(source, format, advance))
        if form is not None:
            sentences = _converted(sentences, form, lost)
        write_treebank(parser.stream(sentences), output)
    if form is not None and lost:
        typer.echo(tables.losses_line(lost, form), err=True)


def _converted(sentences: Iterator[Sentence], form: Format, lost: Counter[str]) -> Iterator[Sentence]:
    """The sentences in the format of the output, so that predicted tags find their column; losses are counted."""
    for sentence in sentences:
        lost.update(losses(sentence, form))
        yield convert(sentence, form)


def _read(source: str, format: str | None, advance: Callable[[int], None]) -> Iterator[Sentence]:
    if is_pretokenised(source, format):
        return read_words(source, on_bytes=advance)
    if format is not None and format not in FORMATS:
        raise TreefineError(f"There is no format {format!r}.", hint=f"Choose one of {', '.join([*FORMATS, NAME])}.")
    return read_treebank(source, format=format, on_bytes=advance)


def _told_of_missing_tags(parser: Parser, sentences: Iterator[Sentence]) -> Iterator[Sentence]:
    """The sentences; the first without any of the tags that the model reads is told of on standard error."""
    columns = parser.model.settings.tags.columns if parser.tags == "given" else ()
    is_told = not columns
    for sentence in sentences:
        if not is_told:
            tags = {tag for column in columns for tag in (sentence.upos if column == "upos" else sentence.xpos)}
            if tags == {BLANK}:
                names = " and ".join(column.upper() for column in columns)
                place = sentence.error(f"There is no {names} here, which the model was trained to read.")
                typer.echo(f"treefine: warning: {place} Trees will be worse than they could be.", err=True)
                is_told = True
        yield sentence
