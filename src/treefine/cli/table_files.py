"""Write tables with one row per word: Parquet, CSV and TSV."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from treefine.errors import TreefineError
from treefine.parsing.table import Content, Placed, import_package, record_batches, schema_of
from treefine.treebank.files import COMPRESSED, open_output
from treefine.treebank.formats import losses
from treefine.treebank.sentence import BLANK, CONLLU, Sentence
from treefine.version import __version__

if TYPE_CHECKING:
    from treefine.parsing.parser import Parser


def check_table(target: str) -> None:
    """Raise an error if a table cannot be written to this target, or if pyarrow is missing."""
    if target == "-":
        raise TreefineError("A table cannot be printed.", hint="Name a file with -o, such as -o out.parquet.")
    suffix = Path(target).suffix.lower()
    if suffix in COMPRESSED:
        raise TreefineError("Parquet files are already compressed.", hint=f"Leave out {suffix}.", path=target)
    import_package("pyarrow.parquet")


def write_table(
    sentences: Iterable[Placed | Sentence],
    target: str | os.PathLike[str],
    content: Content,
    about: Mapping[str, object] | None = None,
    *,
    is_synced: bool = False,
) -> None:
    """Write a table of the sentences, with `about` in its schema; the file appears only when it is complete."""
    schema = schema_of(content, {"version": __version__} | dict(about or {}))
    parquet = import_package("pyarrow.parquet")
    with open_output(target, is_synced=is_synced) as stream:
        writer = parquet.ParquetWriter(stream, schema, compression="zstd")
        try:
            for batch in record_batches(sentences, content):
                writer.write_batch(batch.replace_schema_metadata(schema.metadata))
            writer.close()
        finally:
            writer.is_open = False  # or it would try to finish the file that an error has removed


def about_parser(parser: Parser, model: str) -> dict[str, object]:
    """Return the metadata of a table: the name of the model and the options of the parser."""
    return {
        "model": model,
        "trust": list(parser.trust),
        "max_steps": parser.max_steps,
        "stop_above": parser.stop_above,
        "tags": parser.tags,
        "is_projective": bool(parser.options.is_projective),
        "keep": parser.keep,
        "k": parser.k,
        "precision": parser.precision,
    }


def table_losses(sentence: Sentence) -> Counter[str]:
    """Count the items of each kind that a table or a JSON object cannot hold."""
    lost = losses(sentence, CONLLU)
    if sentence.format.is_ud:
        lost["comment"] = len(sentence.comments) - (sentence.text is not None) - bool(sentence.sent_id)
        lost["empty node"] = sum("." in identifier for identifier in sentence.columns[0])
        for name, column in (("DEPS", sentence.format.deps), ("MISC", sentence.format.misc)):
            lost[name] = sum(cell != BLANK for cell in sentence.column(column))
    return +lost
