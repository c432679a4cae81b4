"""Write parsed sentences as trees for a terminal, treebanks, JSON, SVG, HTML or Parquet."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

from treefine.cli.part_file import JSON_LINES, TREEBANK, open_part
from treefine.drawing.characters import visible
from treefine.drawing.html import page_end, page_start
from treefine.drawing.svg import draw_svg
from treefine.drawing.text import BOLD, StyledText
from treefine.errors import TreefineError
from treefine.parsing.table import Content, Placed, import_package, record_batches, schema_of
from treefine.treebank.conllu import texts_in_file
from treefine.treebank.files import COMPRESSED, open_output
from treefine.treebank.formats import losses
from treefine.treebank.sentence import BLANK, CONLLU, Sentence
from treefine.version import __version__

if TYPE_CHECKING:
    from treefine.cli.outputs import Job, OutputOptions, Shape
    from treefine.parsing.parse import Parse
    from treefine.parsing.parser import Parser

_MOST_IN_SVG = 200  # sentences; no program opens a larger picture
_BETWEEN_SEPARATORS = re.compile(r"(?:[^\t\r\n]|\r(?!\n))+")  # the text of a cell or line
_BOXES = "─┄│╭├╰┬┼┴…"


class Pen(NamedTuple):
    """What the output can show."""

    encoding: str = "utf-8"
    color: bool = False
    ascii_only: bool = False


def pen_for_stdout() -> Pen:
    """Choose colour on a terminal, unless NO_COLOR or TERM forbids it, and ASCII if its encoding has no boxes."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        _BOXES.encode(encoding)
        ascii_only = False
    except UnicodeEncodeError:
        ascii_only = True
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return Pen(encoding, sys.stdout.isatty() and not is_plain, ascii_only)


class Sink(Protocol):
    """Takes the text of one sentence after another; the first `skip` are there already."""

    skip: int

    def write(self, text: str) -> None:
        """Add the text of a sentence."""


@dataclass
class NewOutput:
    """An output that starts empty."""

    stream: BinaryIO
    encoding: str = "utf-8"
    is_terminal: bool = False  # make control characters of the input visible
    is_flushed: bool = False  # show each sentence at once
    skip: int = 0

    def write(self, text: str) -> None:
        """Add the text of a sentence."""
        if self.is_terminal:
            text = _BETWEEN_SEPARATORS.sub(lambda found: visible(found[0]), text)
        self.stream.write(text.encode(self.encoding, "backslashreplace"))
        if self.is_flushed:
            self.stream.flush()


@contextmanager
def open_sink(job: Job, *, is_resumed: bool) -> Iterator[Sink]:
    """Open the output of a job; a file appears once it is complete."""
    if job.target == "-":
        with open_stdout(job.shape) as sink:
            yield sink
    elif job.can_be_resumed:
        records = JSON_LINES if job.shape == "json" else TREEBANK
        with open_part(job.target, records, is_resumed=is_resumed) as part:
            yield part
    else:
        with open_output(job.target, is_synced=job.is_block) as stream:
            yield NewOutput(stream)


@contextmanager
def open_stdout(shape: Shape) -> Iterator[NewOutput]:
    """Open standard output, in the encoding of the terminal for drawn trees and in UTF-8 for the rest."""
    with open_output("-") as stream:
        is_drawn = shape == "tree"
        encoding = pen_for_stdout().encoding if is_drawn else "utf-8"
        yield NewOutput(stream, encoding, is_terminal=sys.stdout.isatty() and not is_drawn, is_flushed=True)


def texts_of_parses(
    parses: Iterator[Parse], job: Job, options: OutputOptions, *, is_start: bool = True
) -> Iterator[str]:
    """Yield the output in the shape of the job; without `is_start` a treebank has other sentences before these."""
    if job.shape == "tree":
        return _as_trees(parses, pen_for_stdout() if job.target == "-" else Pen(), steps=options.steps)
    if job.shape == "json":
        return (parse.to_json() + "\n" for parse in parses)
    if job.shape == "svg":
        return _as_svg(parses, steps=options.steps)
    if job.shape == "html":
        title = job.inputs[0].name if len(job.inputs) == 1 and job.inputs[0].is_file else "Parsed by treefine"
        return _as_html(parses, title=title, steps=options.steps)
    if options.k > 1:
        ranked = (each.ranked_sentences(confidence=options.confidence) for each in parses)
        return texts_in_file(chain.from_iterable(ranked), is_start=is_start)
    sentences = (each.with_confidence() if options.confidence else each.sentence for each in parses)
    return texts_in_file(sentences, is_start=is_start)


def _as_trees(parses: Iterable[Parse], pen: Pen, *, steps: bool) -> Iterator[str]:
    """Draw each tree, or all its steps, under a line that names the sentence, with a blank line between two."""
    for number, parse in enumerate(parses):
        name = visible(parse.sentence.sent_id or str(number + 1), ascii_only=pen.ascii_only)
        sure = "" if parse.trees else f", confidence {parse.confidence:.2f}"  # each of several trees has its own
        heading = StyledText(name + sure, BOLD).painted(color=pen.color)
        drawn = parse.to_text(steps=steps, color=pen.color, ascii_only=pen.ascii_only)
        yield "\n" * bool(number) + f"{heading}\n{drawn}"


def _as_svg(parses: Iterable[Parse], *, steps: bool) -> Iterator[str]:
    """Draw one picture with all sentences below one another, each under its name if there are several."""
    found = []
    for parse in parses:
        found.append(parse)
        if len(found) > _MOST_IN_SVG:
            hint = "Choose --format html, which has no end."
            raise TreefineError(f"One SVG of more than {_MOST_IN_SVG} sentences is too large.", hint=hint)
    pictures = []
    for number, parse in enumerate(found, start=1):
        first, *others = parse.pictures(steps=steps)
        if len(found) > 1:
            name = parse.sentence.sent_id or str(number)
            first = replace(first, title=f"{name}: {first.title}" if first.title else name)
        pictures += [first, *others]
    yield draw_svg(pictures)


def _as_html(parses: Iterable[Parse], *, title: str, steps: bool) -> Iterator[str]:
    """Write one page with a section for each sentence."""
    yield page_start(title)
    for parse in parses:
        yield parse.to_html(steps=steps)
    yield page_end()


def check_table(target: str) -> None:
    """Raise an error if no table can be written to this target, or pyarrow is missing."""
    if target == "-":
        raise TreefineError("A table goes into a file.", hint="Name one with -o, such as -o out.parquet.")
    suffix = Path(target).suffix.lower()
    if suffix in COMPRESSED:
        raise TreefineError("Parquet is packed already.", hint=f"Name it without {suffix}.", path=target)
    import_package("pyarrow.parquet")


def write_table(
    sentences: Iterable[Placed | Sentence],
    target: str | os.PathLike[str],
    content: Content,
    about: Mapping[str, object] | None = None,
    *,
    is_synced: bool = False,
) -> None:
    """Write a table of the sentences, with `about` in its schema; the file appears once it is complete."""
    schema = schema_of(content, {"version": __version__} | dict(about or {}))
    parquet = import_package("pyarrow.parquet")
    with open_output(target, is_synced=is_synced) as stream:
        writer = parquet.ParquetWriter(stream, schema, compression="zstd")
        try:
            for batch in record_batches(sentences, content):
                writer.write_batch(batch.replace_schema_metadata(schema.metadata))
            writer.close()
        finally:
            writer.is_open = False  # else it would try to finish the file that an error has removed


def about_parser(parser: Parser, model: str) -> dict[str, object]:
    """Return what the trees of a table depend on: the name of the model, and the options of the parser."""
    return {
        "model": model,
        "max_steps": parser.max_steps,
        "stop_above": parser.stop_above,
        "tags": parser.tags,
        "is_projective": bool(parser.options.is_projective),
        "keep": parser.keep,
        "k": parser.k,
        "precision": parser.precision,
    }


def convert_to_table(sentences: Iterable[Sentence], target: str | os.PathLike[str]) -> Counter[str]:
    """Write a treebank as a table; return how many things of each kind the table has no place for."""
    lost: Counter[str] = Counter()

    def counted() -> Iterator[Sentence]:
        for sentence in sentences:
            lost.update(_losses(sentence))
            yield sentence

    write_table(counted(), target, Content())
    return lost


def _losses(sentence: Sentence) -> Counter[str]:
    lost = losses(sentence, CONLLU)
    if sentence.format.is_ud:
        lost["comment"] = len(sentence.comments) - (sentence.text is not None) - bool(sentence.sent_id)
        lost["empty node"] = sum("." in identifier for identifier in sentence.columns[0])
        for name, column in (("DEPS", sentence.format.deps), ("MISC", sentence.format.misc)):
            lost[name] = sum(cell != BLANK for cell in sentence.column(column))
    return +lost
