"""The draw command: the trees of treebanks as pictures, without a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Literal

import typer

from treefine.cli.drawings import DrawnShape
from treefine.cli.inputs import Input, find_inputs
from treefine.cli.outputs import check_output, shape_by_name, write_treebank_as
from treefine.cli.replacing import ForceOption
from treefine.cli.treebanks import EncodingOption
from treefine.errors import TreefineError
from treefine.treebank.conllu import read_treebank
from treefine.treebank.files import name_of
from treefine.treebank.formats import FORMATS, suffix_of
from treefine.treebank.sentence import Sentence


def draw_command(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Treebank files, folders or quoted patterns; - is standard input.",
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
    kind: Annotated[
        Literal["conllu", "conllx", "conll09", "conll09-predicted"] | None,
        typer.Option("--from", help="Input format.", show_default="by the file name, else conllu"),
    ] = None,
    encoding: EncodingOption = None,
    force: ForceOption = False,
) -> None:
    """Draw the trees of a treebank.

    Each tree has the name and the text of its sentence above it. A word whose HEAD is blank has no arc.
    """
    found = find_inputs(sources or (), kind=kind, may_be_text=False, output=output, encoding=encoding)
    inputs = [each if each.kind in FORMATS else replace(each, kind="conllu") for each in found]
    title = inputs[0].name if len(inputs) == 1 and inputs[0].is_file else "Trees"
    drawn = shape or _shape_of(output)
    check_output(output, drawn, inputs, force=force)
    write_treebank_as(_chosen(inputs, sentences or ()), output, drawn, title=title)


def _shape_of(output: str) -> DrawnShape:
    named = shape_by_name(output)
    if named == "tree" or named == "svg" or named == "html":
        return named
    if output != "-" and (named is not None or suffix_of(output)):
        hint = "Choose a file name that ends in .txt, .svg or .html, or add --format."
        raise TreefineError("draw cannot write this kind of file.", hint=hint, path=output)
    return "tree"


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
        yield from read_treebank(each.path, format=each.kind)
