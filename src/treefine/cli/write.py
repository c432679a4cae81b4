"""Write parsed sentences: trees for a terminal, treebanks, JSON, SVG, HTML, Parquet."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from treefine.drawing.characters import visible
from treefine.drawing.html import page_end, page_start
from treefine.drawing.svg import draw_svg
from treefine.drawing.text import BOLD, StyledText
from treefine.errors import TreefineError
from treefine.parsing.table import Content, Placed, import_package, record_batches, schema_of
from treefine.treebank.files import COMPRESSED, open_output
from treefine.treebank.formats import losses
from treefine.treebank.sentence import BLANK, CONLLU, Sentence
from treefine.version import __version__

if TYPE_CHECKING:
    from treefine.parsing.parse import Parse
    from treefine.parsing.parser import Parser

MOST_IN_SVG = 200  # sentences: what is larger, no program opens
_BOXES = "─┄│╭├╰┬┼┴…"


class Pen(NamedTuple):
    """What the place that is written to can show."""

    encoding: str = "utf-8"
    color: bool = False
    ascii_only: bool = False


def pen_for_stdout() -> Pen:
    """Colour on a terminal that has any, unless NO_COLOR forbids it; only ASCII where its encoding has no boxes."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        _BOXES.encode(encoding)
        ascii_only = False
    except UnicodeEncodeError:
        ascii_only = True
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return Pen(encoding, sys.stdout.isatty() and not is_plain, ascii_only)


def as_trees(parses: Iterable[Parse], pen: Pen, *, steps: bool) -> Iterator[str]:
    """Each tree, or all its steps, under a line that names the sentence, with a blank line between two."""
    for number, parse in enumerate(parses):
        name = visible(parse.sentence.sent_id or str(number + 1), ascii_only=pen.ascii_only)
        sure = "" if parse.trees else f", confidence {parse.confidence:.2f}"  # each of several trees has its own
        heading = StyledText(name + sure, BOLD).painted(color=pen.color)
        drawn = parse.to_text(steps=steps, color=pen.color, ascii_only=pen.ascii_only)
        yield "\n" * bool(number) + f"{heading}\n{drawn}"


def as_json(parses: Iterable[Parse]) -> Iterator[str]:
    """One object a line."""
    for parse in parses:
        yield parse.to_json() + "\n"


def as_svg(parses: Iterable[Parse], *, steps: bool) -> Iterator[str]:
    """One picture with all sentences under one another, each under its name where they are several."""
    found = []
    for parse in parses:
        found.append(parse)
        if len(found) > MOST_IN_SVG:
            hint = "Choose --format html, which has no end."
            raise TreefineError(f"One SVG of more than {MOST_IN_SVG} sentences is too large.", hint=hint)
    pictures = []
    for number, parse in enumerate(found, start=1):
        first, *others = parse.pictures(steps=steps)
        if len(found) > 1:
            name = parse.sentence.sent_id or str(number)
            first = replace(first, title=f"{name}: {first.title}" if first.title else name)
        pictures += [first, *others]
    yield draw_svg(pictures)


def as_html(parses: Iterable[Parse], *, title: str, steps: bool) -> Iterator[str]:
    """One page, a section for each sentence."""
    yield page_start(title)
    for parse in parses:
        yield parse.to_html(steps=steps)
    yield page_end()


def check_table(target: str) -> None:
    """Tell before work where no table can be written, or by whom."""
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
    """Write the rows of the sentences; the file appears once it is whole. What it is `about` stands in its schema."""
    schema = schema_of(content, {"version": __version__} | dict(about or {}))
    parquet = import_package("pyarrow.parquet")
    with open_output(target, is_synced=is_synced) as stream:
        writer = parquet.ParquetWriter(stream, schema, compression="zstd")
        try:
            for batch in record_batches(sentences, content):
                writer.write_batch(batch.replace_schema_metadata(schema.metadata))
            writer.close()
        finally:
            writer.is_open = False  # else it would try to end the file that an error has removed


def about_parser(parser: Parser, model: str) -> dict[str, object]:
    """What the trees of a table depend on: the model by the name it was loaded by, and the options."""
    return {
        "model": model,
        "max_steps": parser.max_steps,
        "stop_above": parser.stop_above,
        "tags": parser.tags,
        "is_projective": parser.is_projective,
        "keep": parser.keep,
        "k": parser.k,
        "precision": parser.precision,
    }


def convert_to_table(sentences: Iterable[Sentence], target: str | os.PathLike[str]) -> Counter[str]:
    """Write a treebank as a table; return how many things of each kind that has no place for."""
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
