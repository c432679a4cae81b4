"""A table with one row a word as a file of Parquet: written in row groups, so that any number of sentences fits."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from treefine.errors import TreefineError
from treefine.parsing.table import Content, Placed, batches, load, schema_of
from treefine.treebank.convert import losses
from treefine.treebank.files import COMPRESSED, open_output
from treefine.treebank.formats import CONLLU
from treefine.treebank.sentence import BLANK, Sentence
from treefine.version import __version__

if TYPE_CHECKING:
    from treefine.parsing.parser import Parser


def check_table(target: str) -> None:
    """Tell before work where no table can be written, or by whom."""
    if target == "-":
        raise TreefineError("A table goes into a file.", hint="Name one with -o, such as -o out.parquet.")
    suffix = Path(target).suffix.lower()
    if suffix in COMPRESSED:
        raise TreefineError("Parquet is packed already.", hint=f"Name it without {suffix}.", path=target)
    load("pyarrow.parquet")


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
    parquet = load("pyarrow.parquet")
    with open_output(target, is_synced=is_synced) as stream:
        writer = parquet.ParquetWriter(stream, schema, compression="zstd")
        try:
            for batch in batches(sentences, content):
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
