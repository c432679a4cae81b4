"""Find out whether an existing file is an earlier output of the same command, which may be replaced without asking."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

import typer

from treefine.errors import TreefineError
from treefine.parsing.table import WORDS, import_package
from treefine.treebank.files import Source, open_input

ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace an existing file even if it is not an earlier output of the command.")
]
_COLUMNS = [column.name for column in WORDS]
_STARTS = {
    "conllu": r"\ufeff?(#.*\n)*#\s*generator\s*=\s*treefine ",
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
    "conllu",
    "html",
    "svg",
    "json",
    "csv",
    "tsv",
    "tree",
    "parquet",
    "changes.json",
    "changes.tsv",
    "report.json",
    "report.csv",
]
_START = 1 << 16  # bytes of a file that are looked at


def check_replaced(path: str, kind: Kind, *, hint: str | None = None) -> None:
    """Raise an error if the file exists and has not the form of this output of treefine.

    A treebank has the comment `# generator` if treefine wrote it from text. Any other treebank may be the work of a
    person. `hint` replaces the usual one.
    """
    if not _is_filled(path):
        return
    is_ours = _is_table(path) if kind == "parquet" else re.match(_STARTS[kind], _start_of(path)) is not None
    if is_ours:
        return
    what = "it is not an earlier output of this command"
    way_out = "Choose a different output file, or replace this one with --force."
    if kind == "conllu":  # it may be one, of a treebank
        what = "it has no comment '# generator = treefine …'"
        way_out = "Choose a different output file, or repeat the command with --force."
    raise TreefineError(f"This file exists, and {what}.", hint=hint or way_out, path=path)


def _is_filled(path: str) -> bool:
    """Return whether the path is a file with content, not a device or a pipe."""
    return Path(path).is_file() and Path(path).stat().st_size > 0


def _start_of(path: Source) -> str:
    try:
        with open_input(path) as stream:
            return stream.read(_START).decode(errors="replace")
    except TreefineError:  # it is not compressed as its name says, or not readable
        return ""


def _is_table(path: str) -> bool:
    parquet = import_package("pyarrow.parquet")
    try:
        return b"treefine" in (parquet.read_schema(path).metadata or {})
    except (OSError, ValueError):
        return False
