"""The command `treefine analyse --model`: what each refinement step of a model does to a treebank."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from treefine.cli.analyse import write_reports
from treefine.cli.systems import TreebankFiles, find_treebanks
from treefine.cli.terminal import progress
from treefine.config import TagSource
from treefine.errors import ModelError, TreebankError, TreefineError
from treefine.evaluation.analysis import export
from treefine.evaluation.analysis.errors import TOGETHER
from treefine.evaluation.analysis.pages import refinement_page
from treefine.evaluation.analysis.refinement import Costs, Refinement, refinement_of, together
from treefine.evaluation.scores import rule_of
from treefine.evaluation.words import load_words
from treefine.model.weight_files import LAYOUT
from treefine.parsing.initial import from_file, renamed
from treefine.parsing.parser import Parser
from treefine.parsing.timed import TimedSteps, timed_steps
from treefine.treebank.conllu import read_treebank
from treefine.treebank.sentence import BLANK, Sentence


def analyse_model(
    gold: str,
    *,
    model: str,
    outputs: Sequence[str],
    initial: str | None,
    steps: int | None,
    tags: TagSource | None,
    device: str | None,
    rule: str,
    format: str | None,
    examples: int,
) -> None:
    """Parse the words of gold with the model, and write what each step did to the outputs, or print a summary.

    `initial` is what the model starts from, as in parse. If gold is a folder of treebanks, it may also be a folder of
    parses whose files have the same names.
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
    reports = {
        ".html": lambda: refinement_page(found, title, examples=examples),
        ".json": lambda: iter([export.refinement_json(found, title)]),
        ".csv": lambda: iter([export.refinement_csv(found)]),
    }
    write_reports(outputs, reports, lambda: export.refinement_text(found))


def _has_parses(gold: str, initial: str) -> bool:
    """Return whether gold and initial are folders of treebanks; a folder with a config.json is a model."""
    are_folders = Path(gold).is_dir() and Path(initial).is_dir() and initial not in ("", "empty")
    return are_folders and not Path(initial, LAYOUT.config).exists()


def _read(files: TreebankFiles, rule: str, format: str | None) -> list[Sentence]:
    """Read the gold sentences of a treebank, and raise an error if they cannot be scored."""
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
    """Return how long the steps took, and how large the models are."""
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
    """Add the costs of all treebanks."""
    first = costs[0]
    before = [each.initial_seconds for each in costs if each.initial_seconds is not None]
    seconds = tuple(map(sum, zip(*(each.seconds for each in costs), strict=True)))
    sentences = tuple(map(sum, zip(*(each.sentences for each in costs), strict=True)))
    total = sum(before) if before else None
    return Costs(first.device, first.parameters, first.initial_parameters, total, seconds, sentences)
