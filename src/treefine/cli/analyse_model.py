"""`treefine analyse --model`: what each refinement step of a model does to a treebank."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import fill

import torch
import typer

from treefine.cli.systems import Files, find_treebanks
from treefine.cli.terminal import progress
from treefine.config import TagSource
from treefine.drawing.characters import visible
from treefine.errors import ModelError, TreebankError, TreefineError
from treefine.evaluation.analysis.errors import TOGETHER
from treefine.evaluation.analysis.refinement import Costs, Refinement, refinement_of, together
from treefine.evaluation.analysis.refinement_page import EXAMPLES, refinement_page
from treefine.evaluation.analysis.refinement_tables import (
    CSV_HEADER,
    by_label,
    csv_rows,
    refinement_json,
    summary_of,
    tables_of,
)
from treefine.evaluation.scores import rule_of
from treefine.evaluation.tables import aligned_table
from treefine.evaluation.words import load_words
from treefine.model.weight_files import LAYOUT
from treefine.parsing.initial import from_file, renamed
from treefine.parsing.parser import Parser
from treefine.parsing.timed import TimedSteps, timed_steps
from treefine.treebank.conllu import read_treebank
from treefine.treebank.files import open_output
from treefine.treebank.sentence import BLANK, Sentence

LABELS_SHOWN = 12  # of the summary, as many as the paper's table has at most
NOTE_WIDTH = 88  # characters of a line of the summary's notes


def analyse_model(
    gold: str,
    *,
    model: str,
    outputs: Sequence[str] = (),
    initial: str | None = None,
    steps: int | None = None,
    tags: TagSource | None = None,
    device: str | None = None,
    rule: str = "conll18",
    format: str | None = None,
    examples: int = EXAMPLES,
) -> None:
    """Parse the words of gold with the model, and tell what each step did: to the outputs, or as text.

    `initial` is what the model starts from, as in parse; with a folder of treebanks also one of parses, whose files
    have the same names.
    """
    parses = initial if initial is not None and _has_parses(gold, initial) else None
    files = find_treebanks(gold, {"initial": parses} if parses else {}, format=format)
    if parses is None and initial is not None and Path(initial).is_file() and len(files) > 1:
        hint = "Name a folder of parses whose files have the same names."
        message = f"This is one file of initial parses, but {gold} holds {len(files)} treebanks."
        raise TreefineError(message, hint=hint, path=initial)
    treebanks = [_read(each, rule, format) for each in files]
    start = "empty" if parses else initial  # each treebank has its own parses
    parser = Parser.from_pretrained(model, initial=start, max_steps=steps, tags=tags, device=device)
    if not parser.model.settings.reads_graph:
        hint = "Parse with it, and name the parses after GOLD instead."
        raise ModelError("This model reads no graph, so it has no refinement steps to analyse.", hint=hint, path=model)
    known = parser.model.vocabulary.labels
    if initial is not None and Path(initial).is_file():
        parser = parser.using(initial=renamed(from_file(initial, format=format), known), max_steps=parser.max_steps)
    found = []
    with progress("Refining", sum(map(len, treebanks))) as advance:
        for each, sentences in zip(files, treebanks, strict=True):
            if parses:
                own = from_file(each.systems["initial"], format=format)
                parser = parser.using(initial=renamed(own, known), max_steps=steps)
            timed = timed_steps(parser, sentences, on_sentences=lambda number: advance(number, sentences=number))
            found.append(_analysis(parser, each.name, sentences, timed, rule))
    if len(found) > 1:
        found.insert(0, (together([each for each, _ in found], name=TOGETHER), _added([each for _, each in found])))
    title = f"Refinement of {Path(gold).name if gold != '-' else 'standard input'} by {Path(model).name}"
    for output in outputs:
        with open_output(output) as stream:
            for part in _written(found, title, output, examples):
                stream.write(part.encode())
    if not outputs:
        typer.echo(_summary(found))


def _has_parses(gold: str, initial: str) -> bool:
    """Whether gold and initial are folders of treebanks; a folder with a config.json is a model."""
    are_folders = Path(gold).is_dir() and Path(initial).is_dir() and initial not in ("", "empty")
    return are_folders and not Path(initial, LAYOUT.config).exists()


def _read(files: Files, rule: str, format: str | None) -> list[Sentence]:
    """The gold sentences of a treebank; what cannot be scored is told before a model is loaded."""
    sentences = list(read_treebank(files.gold, format=format))
    load_words(sentences, is_ud=rule_of(rule).is_ud)
    if all(label == BLANK for sentence in sentences for label in sentence.labels):
        hint = "Name a treebank with labels: an analysis of steps is one of heads and labels."
        raise TreebankError("No word of the gold file has a label.", hint=hint, path=files.gold)
    return sentences


def _analysis(
    parser: Parser, name: str, sentences: Sequence[Sentence], timed: TimedSteps, rule: str
) -> tuple[Refinement, Costs]:
    trees = timed.trees
    if len(trees) < 2:
        hint = "Take more --steps, or start from a parse with --initial."
        raise TreefineError("There is one step and no initial parse, so nothing is refined.", hint=hint)
    counted = refinement_of(
        sentences,
        trees,
        first=timed.first,
        name=name,
        rule=rule,
        converged=timed.converged,
        predicts_tags=timed.predicts_tags,
    )
    return counted, costs_of(parser, timed)


def costs_of(parser: Parser, timed: TimedSteps) -> Costs:
    """What the steps took, and how large the models are that took them."""
    is_cuda = parser.device.type == "cuda"
    return Costs(
        torch.cuda.get_device_name(parser.device) if is_cuda else parser.device.type,
        _n_parameters(parser),
        _n_parameters(parser.initial) if isinstance(parser.initial, Parser) else 0,
        timed.initial_seconds if timed.first == 0 else None,
        timed.seconds,
        timed.sentences,
    )


def _n_parameters(parser: Parser) -> int:
    return sum(weight.numel() for weight in parser.model.parameters())


def _added(costs: Sequence[Costs]) -> Costs:
    """What all treebanks took together."""
    first = costs[0]
    before = [each.initial_seconds for each in costs if each.initial_seconds is not None]
    seconds = tuple(map(sum, zip(*(each.seconds for each in costs), strict=True)))
    sentences = tuple(map(sum, zip(*(each.sentences for each in costs), strict=True)))
    total = sum(before) if before else None
    return Costs(first.device, first.parameters, first.initial_parameters, total, seconds, sentences)


def _written(found: Sequence[tuple[Refinement, Costs]], title: str, output: str, examples: int) -> Iterator[str]:
    ending = Path(output).suffix.lower()
    if ending == ".json":
        values = [refinement_json(*each) for each in found]
        yield json.dumps({"title": title, "treebanks": values}, ensure_ascii=False, indent=1) + "\n"
    elif ending == ".csv":
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(CSV_HEADER)
        for refinement, _ in found:
            rows.writerows(csv_rows(refinement))
        yield text.getvalue()
    else:
        yield from refinement_page(found, title, examples=examples)


def _summary(found: Sequence[tuple[Refinement, Costs]]) -> str:
    """The tables as text, of the labels the first alone; what they mean stands below those of the first treebank."""
    parts = []
    for number, (refinement, costs) in enumerate(found):
        parts.append(f"{visible(refinement.name)}: {summary_of(refinement)}")
        for table in tables_of(refinement, costs):
            shown = by_label(refinement, most=LABELS_SHOWN) if table.title == "Dependency types" else table
            parts.append(aligned_table([shown.title, *shown.header[1:]], shown.rows) if shown.rows else "")
            parts.append(fill(shown.note, NOTE_WIDTH) if shown.rows and not number else "")
    return "\n\n".join(filter(None, parts))
