"""The draw command: the trees of treebanks as pictures, without a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, get_args

import typer

from treefine.cli.inputs import Input, find_treebank_inputs
from treefine.cli.outputs import DrawnShape, check_extension, check_output, shape_by_name, title_of, write_treebank_as
from treefine.cli.replacing import ForceOption
from treefine.cli.treebanks import TREEBANKS_HELP, TreebankKindOption
from treefine.errors import TreefineError
from treefine.treebank.conllu import read_treebank
from treefine.treebank.files import name_of
from treefine.treebank.sentence import Sentence


def draw_command(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help=TREEBANKS_HELP,
            show_default="standard input",
        ),
    ] = None,
    output: Annotated[
        str,
        typer.Option("-o", "--output", metavar="OUT", help="Output file.", show_default="standard output"),
    ] = "-",
    shape: Annotated[
        DrawnShape | None,
        typer.Option(
            "--format",
            help="Output format: tree (drawn as text), svg (one picture) or html (a page).",
            show_default="by the extension of OUT, else tree",
        ),
    ] = None,
    sentences: Annotated[
        list[str] | None,
        typer.Option(
            "--sentence",
            metavar="N|ID",
            help="Draw only the sentence with this number or sent_id. Repeat the option for several sentences.",
            show_default="all",
        ),
    ] = None,
    kind: TreebankKindOption = None,
    force: ForceOption = False,
) -> None:
    """Draw the trees of a treebank.

    Each tree has the name and the text of its sentence above it. A word whose HEAD is blank has no arc.
    """
    inputs = find_treebank_inputs(sources or (), kind=kind, output=output)
    drawn = shape or _shape_of(output)
    check_output(output, drawn, inputs, force=force)
    write_treebank_as(_chosen(inputs, sentences or ()), output, drawn, title=title_of(inputs) or "Trees")


def _shape_of(output: str) -> DrawnShape:
    check_extension(output, shapes=get_args(DrawnShape))
    return next((each for each in get_args(DrawnShape) if each == shape_by_name(output)), "tree")


def _chosen(inputs: Sequence[Input], names: Sequence[str]) -> Iterator[Sentence]:
    """Yield the sentences with these numbers or sent_ids, or all; raise an error for a name without a sentence."""
    missing = set(names)
    for sentence in _sentences(inputs):
        if not names:
            yield sentence
            continue
        # A number as sent_id is the name of its sentence, whatever its place in the file.
        is_numbered = not sentence.sent_id.isdecimal()
        own = {sentence.sent_id, *([str(sentence.number)] if is_numbered else [])}
        if not own.isdisjoint(names):
            missing -= own
            yield sentence
    if missing:
        name = next(each for each in names if each in missing)
        path = name_of(inputs[0].name) if len(inputs) == 1 else ""
        message = f"There is no sentence {name}."
        raise TreefineError(message, hint="Give the number or the sent_id of a sentence.", path=path)


def _sentences(inputs: Iterable[Input]) -> Iterator[Sentence]:
    for each in inputs:
        yield from read_treebank(each.name, format=each.kind)
