"""Find out whether an existing file is an earlier output of the same command, which may be replaced without asking."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

import typer

from treefine.cli.inputs import Input
from treefine.errors import TreefineError
from treefine.parsing.table import WORDS, import_package
from treefine.treebank.conllu import read_blocks
from treefine.treebank.files import Source, open_input
from treefine.treebank.sentence import Format, Sentence

ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace an existing file even if it is not an earlier output of the command.")
]
_COLUMNS = [column.name for column in WORDS]
_STARTS = {
    "html": r'<!DOCTYPE html>(?s:.{,300})<meta name="generator" content="treefine ',
    "svg": r'<svg [^>]*class="treefine"',
    "json": r'\{("file": "([^"\\]|\\.)*", )?"sent_id": ',
    "csv": ",".join(_COLUMNS),
    "tsv": "\t".join(_COLUMNS),
    "tree": r"(?ms:.*?^ *[0-9]+ [ │]*[─┄╭├╰]\S*> )",
    "changes.json": r'\{"summary": \{"sentences": ',
    "changes.tsv": "file\tline\tsentence\tsent_id\tword\tform\told_head\t",
    "report.json": r'\{\s*"title": "([^"\\]|\\.)*",\s*"treebanks": ',
    "report.csv": "treebank,table,",
}
Kind = Literal[
    "html", "svg", "json", "csv", "tsv", "tree", "parquet", "changes.json", "changes.tsv", "report.json", "report.csv"
]
_START = 1 << 16  # bytes of a file that are looked at
_MOST_BLOCKS = 100  # of a file that may be no treebank


def check_replaced(path: str, kind: Kind) -> None:
    """Raise an error if the file exists and has not the form of this output of treefine."""
    if not _is_filled(path):
        return
    is_ours = _is_table(path) if kind == "parquet" else re.match(_STARTS[kind], _start_of(path)) is not None
    if not is_ours:
        raise _not_ours(path)


def check_replaced_treebank(path: str, form: Format, inputs: Sequence[Input]) -> None:
    """Raise an error if the file exists and is not a treebank that an earlier run may have written for these inputs.

    CoNLL-U of text says in a comment that treefine wrote it. Other treebanks start with the words of the input.
    """
    if not _is_filled(path):
        return
    first = _first_sentence(path, form.name)
    if first is None or not any(_may_start(first, each) for each in inputs):
        raise _not_ours(path)


def _may_start(first: Sentence, source: Input) -> bool:
    """Return whether the output for this input may start with this sentence."""
    is_stream = source.text is None and not (source.is_file and Path(source.name).is_file())
    is_text = source.text is not None or source.kind in ("text", "lines", "words")
    if is_stream and not is_text:
        return True  # it cannot be read twice
    if not is_text and (given := _first_sentence(source.path, source.kind)) is not None:
        return given.forms == first.forms
    if first.format.is_ud:
        return (first.comment("generator") or "").startswith("treefine ")
    text = source.text if source.text is not None else "" if is_stream else _start_of(source.path)
    return is_stream or text.lstrip().startswith(first.forms[0])


def _is_filled(path: str) -> bool:
    """Return whether the path is a file with content, not a device or a pipe."""
    return Path(path).is_file() and Path(path).stat().st_size > 0


def _start_of(path: Source) -> str:
    try:
        with open_input(path) as stream:
            return stream.read(_START).decode(errors="replace")
    except TreefineError:  # it is not compressed as its name says, or not readable
        return ""


def _first_sentence(source: Source, kind: str | None) -> Sentence | None:
    """Return the first valid sentence at the start of a treebank, or None."""
    try:
        blocks = islice(read_blocks(source, format=kind), _MOST_BLOCKS)
        return next((each for each in blocks if isinstance(each, Sentence)), None)
    except TreefineError:
        return None


def _is_table(path: str) -> bool:
    parquet = import_package("pyarrow.parquet")
    try:
        return b"treefine" in (parquet.read_schema(path).metadata or {})
    except (OSError, ValueError):
        return False


def _not_ours(path: str) -> TreefineError:
    message = "This file exists, and it is not an earlier output of this command."
    return TreefineError(message, hint="Choose a different output file, or replace this one with --force.", path=path)
