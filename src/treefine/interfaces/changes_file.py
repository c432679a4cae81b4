"""The file of --changes: each word whose arc changed, as a page with drawings, as JSON, or as a table with tabs."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from treefine.drawing.characters import visible
from treefine.drawing.html import page_end, page_start, tree_figure
from treefine.errors import TreebankError, TreefineError
from treefine.interfaces.changes import Changes
from treefine.treebank.files import open_output
from treefine.treebank.formats import suffix_of
from treefine.treebank.sentence import BLANK

if TYPE_CHECKING:
    from treefine.parsing.parse import Change, Parse

Kind = Literal["html", "json", "tsv"]
_KINDS: dict[str, Kind] = {".html": "html", ".htm": "html", ".json": "json", ".tsv": "tsv"}
MOST_ON_PAGE = 24  # labels told of each kind
_STYLE = """
table.summary td { max-width: 60rem; }
table.summary th { vertical-align: top; }
section > p { overflow-wrap: anywhere; margin: 0.5rem 0; }
"""
PLACE = ("file", "line", "sentence", "sent_id")
COLUMNS = (*PLACE, "word", "form", "old_head", "old_label", "head", "label", "before", "after", "step")


def kind_of(path: str) -> Kind:
    """What the name of the file asks for."""
    kind = _KINDS.get(suffix_of(path))
    if kind is None:
        hint = "Name a file that ends in .html, .json or .tsv."
        raise TreefineError("The ending does not tell how to write the changes.", hint=hint, path=path)
    return kind


@contextmanager
def open_changes(path: str, changes: Changes) -> Iterator[Callable[[Parse], None]]:
    """A function that takes one parse after another; the file appears at the end, under what `changes` counted.

    What is to stand below the counts waits in a file without a name beside it, so any number of sentences fits.
    """
    kind = kind_of(path)
    part, separator = {"html": (_html, ""), "json": (_json, ",\n"), "tsv": (_tsv, "")}[kind]

    def add(parse: Parse) -> None:
        found = parse.changes
        if found:
            try:
                body.write((separator * bool(body.tell()) + part(parse, found)).encode())
            except OSError as error:
                raise _not_written(error, path) from error

    try:
        unnamed = tempfile.TemporaryFile(dir=Path(path).resolve().parent)
    except OSError as error:
        raise _not_written(error, path) from error
    with unnamed as body:
        yield add
        start, end = _frame(kind, changes)
        body.seek(0)
        with open_output(path) as stream:
            stream.write(start.encode())
            shutil.copyfileobj(body, stream)
            stream.write(end.encode())


def _not_written(error: OSError, path: str) -> TreebankError:
    return TreebankError(f"The changes could not be written: {error.strerror or error}.", path=path)


def _frame(kind: Kind, changes: Changes) -> tuple[str, str]:
    """What stands before and after the changes."""
    if kind == "tsv":
        return "\t".join(COLUMNS) + "\n", ""
    if kind == "json":
        summary = json.dumps(changes.values(), ensure_ascii=False)
        return f'{{"summary": {summary},\n"changes": [\n', "\n]}\n"
    rows = "\n".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(visible(said))}</td></tr>'
        for name, said in changes.rows(most=MOST_ON_PAGE)
    )
    n_left_out = changes.n_sentences - changes.n_changed
    note = (
        "<p>Each drawing shows the tree after refinement. What changed is in colour; a dashed arc, or a label that is "
        "struck out, is what was there before. "
        f"Sentences without a change are left out: {n_left_out:,}.</p>"
    )
    return (
        f'{page_start("What the refinement changed", style=_STYLE)}<table class="summary">\n{rows}\n</table>\n{note}\n',
        page_end(),
    )


def _tsv(parse: Parse, found: Sequence[Change]) -> str:
    def cell(value: str | int | float | None) -> str:
        return f"{value:.4f}" if isinstance(value, float) else BLANK if value in (None, "") else visible(str(value))

    return "".join("\t".join(map(cell, values)) + "\n" for values in _values(parse, found))


def _json(parse: Parse, found: Sequence[Change]) -> str:
    values = [
        {name: round(each, 4) if isinstance(each, float) else each for name, each in zip(COLUMNS, value, strict=True)}
        for value in _values(parse, found)
    ]
    return ",\n".join(json.dumps(value, ensure_ascii=False) for value in values)


def _values(parse: Parse, found: Sequence[Change]) -> Iterator[tuple[str | int | float | None, ...]]:
    """What is said of each change, column by column."""
    sentence = parse.sentence
    for each in found:
        yield (sentence.path, sentence.line, sentence.number, sentence.sent_id, *each)


def _html(parse: Parse, found: Sequence[Change]) -> str:
    """A section: the number and the text of the sentence, its place, its drawing, and a table of what changed."""
    sentence = parse.sentence
    place = f"{sentence.path}:{sentence.line}" + (f" ({sentence.sent_id})" if sentence.sent_id else "")
    rows = "\n".join(_row(parse, each) for each in found)
    names = ("", "word", "was", "confidence", "is", "confidence", "since step")
    header = "".join(f'<th scope="col">{name}</th>' for name in names)
    return (
        # The page counts its sections from 1; here each has the number of its sentence.
        f'<section>\n<h2 dir="auto" style="counter-reset: sentence {sentence.number - 1}">'
        f"{escape(visible(parse.text))}</h2>\n<p>{escape(visible(place))}</p>\n"
        f"{tree_figure([parse.changed_picture()], 'Tree')}\n"
        f'<div class="scroll" tabindex="0" role="group" aria-label="Changes">'
        f"<table>\n<tr>{header}</tr>\n{rows}\n</table></div>\n</section>\n"
    )


def _row(parse: Parse, change: Change) -> str:
    def arc(head: int | None, label: str) -> str:
        if head is None:
            return "no arc"
        return f"{head} {parse.forms[head - 1] if head else 'ROOT'}: {'no label' if label == BLANK else label}"

    before = "" if change.before is None else f"{change.before:.2f}"
    cells = (
        ("number", str(change.word)),
        ("", change.form),
        ("", arc(change.old_head, change.old_label)),
        ("number", before),
        ("", arc(change.head, change.label)),
        ("number", f"{change.after:.2f}"),
        ("number", "tree" if change.step is None else str(change.step)),
    )
    return "<tr>" + "".join(_cell(style, said) for style, said in cells) + "</tr>"


def _cell(style: str, said: str) -> str:
    how = f'class="{style}"' if style else 'dir="auto"'
    return f"<td {how}>{escape(visible(said))}</td>"
