"""The analyse command: the errors of systems or, with --model, the effect of each refinement step."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from treefine.cli.options import FORCE, GOLD, INPUT_FORMAT, NAMES, RULE, argument, model_option, option, with_options
from treefine.cli.terminal import progress, say
from treefine.cli.treebanks import find_treebanks, system_names
from treefine.config import LAYOUT
from treefine.cores import use_threads
from treefine.errors import ModelError, TreefineError, visible
from treefine.jobs.inputs import identity, total_size
from treefine.jobs.outputs import check_output
from treefine.model.bundled import trained_model
from treefine.parsing.options import OPTIONS, ParserOptions
from treefine.treebank.conllu import read_treebank
from treefine.treebank.files import open_output
from treefine.treebank.sentence import Sentence

if TYPE_CHECKING:
    from treefine.evaluation.analysis.refinement import Costs, Refinement
    from treefine.parsing.parser import Parser

_Report: TypeAlias = "tuple[str, str, Callable[[], Iterable[str]], list[dict[str, Any]]]"  # title, text, page, JSON
_OF_MODEL = ("initial", "max_steps", "tags", "device")  # parser options that --model takes


@with_options(without=[name for name in OPTIONS if name not in _OF_MODEL])
def analyse_command(
    gold: str = GOLD,
    systems: list[str] | None = argument(
        None, "SYSTEM", "Files to analyse, or folders with GOLD's file names.", shown=False
    ),
    outputs: list[str] | None = option(
        None, "-o --output OUT", "Page (.html) or numbers (.json) to write. Can be repeated.", shown="print a summary"
    ),
    force: bool = FORCE,
    names: list[str] | None = NAMES,
    rule: str = RULE,
    format: str | None = INPUT_FORMAT,
    examples: int = option(10, "--examples N", "Number of sentences with gains, and with losses, on a page.", min=0),
    model: str | None = model_option("Analyse the refinement steps of this model. The options of a parser need it."),
    threads: int | None = option(None, "--threads N", "Number of CPU threads of the model.", min=1),
    *,
    options: ParserOptions,
) -> None:
    """Analyse errors of systems, or refinement steps of a model.

    The report contains all scores, with differences from the first system; LAS by dependency length, distance to root,
    sentence length, label, tag and projectivity, with bootstrap confidence bands; confusions; significance; and, on a
    page, drawings of the sentences that differ most. The printed summary has the main scores of each treebank, and
    significance and LAS by length and depth over all treebanks.

    With --model, the report shows for each refinement step UAS, LAS, the share of errors removed (REL) and of sentences
    converged; errors removed by dependency type and projectivity; run time; and the number of parameters. A page also
    draws sentences that were corrected and sentences that were spoiled. --initial can also be a folder of parses with
    the same file names as GOLD.
    """
    if (model is None) == (not systems) or (names and not systems):
        raise TreefineError(
            "There must be either systems or a model to analyse.", hint="Name SYSTEM files, or --model."
        )
    if model is None and (options.set_options or threads):
        flag = OPTIONS[next(iter(options.set_options))].flag if options.set_options else "--threads"
        raise TreefineError(f"{flag} needs --model.", hint=f"Add --model, or leave out {flag}.")
    outputs = outputs or []
    reads = [gold, *(systems or ()), *([options.initial] if isinstance(options.initial, str) else [])]
    _check_outputs(outputs, reads, force=force)
    if model is None:
        named = system_names(systems or (), names)
        title, text, page, values = _files_report(gold, named, rule=rule, format=format, examples=examples)
    else:
        use_threads(threads)
        title, text, page, values = _model_report(gold, model, options, rule=rule, format=format, examples=examples)
    if not outputs:
        typer.echo(text)
    for output in outputs:
        with open_output(output) as stream:
            if Path(output).suffix.lower() == ".html":
                stream.writelines(part.encode() for part in page())
            else:
                content = {"title": title, "treebanks": values}
                stream.write((json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode())


def _files_report(gold: str, systems: Mapping[str, str], *, rule: str, format: str | None, examples: int) -> _Report:
    from treefine.evaluation.analysis import report  # loads numpy and jinja2
    from treefine.evaluation.analysis.errors import analyse, read_parsed

    files = find_treebanks(gold, systems, format=format)
    sizes = total_size(*[path for each in files for path in (each.gold, *each.systems.values())])
    with progress("Reading", sizes) as advance:
        read = partial(read_treebank, format=format, on_bytes=advance)
        treebanks = [read_parsed(each.name, each.gold, each.systems, rule=rule, read=read) for each in files]
    for treebank in treebanks:
        for line in treebank.notes():
            say(line)
    analyses = analyse(treebanks, examples=examples)
    title = f"{', '.join(systems)} against {visible(gold) if gold != '-' else 'standard input'}"
    page = partial(report.report_page, analyses, title)
    return title, report.analysis_text(analyses), page, [*map(report.analysis_values, analyses)]


def _model_report(
    gold: str, model: str, options: ParserOptions, *, rule: str, format: str | None, examples: int
) -> _Report:
    from treefine.evaluation.analysis import report
    from treefine.evaluation.analysis.errors import TOGETHER
    from treefine.evaluation.analysis.refinement import sum_costs, together
    from treefine.parsing.initial import from_file, renamed  # loads torch, like the next
    from treefine.parsing.parser import Parser

    initial: Any = options.initial
    # A folder with a config.json is a model; a file or another folder has parses.
    path = Path(initial) if isinstance(initial, str) and initial not in ("", "empty") else None
    has_parses = path is not None and path.exists() and not (trained_model(path) / LAYOUT.config).exists()
    files = find_treebanks(gold, {"initial": initial} if has_parses else {}, format=format)
    treebanks = [list(read_treebank(each.gold, format=format)) for each in files]
    # The steps of the model itself are analysed, so other parsers' trees are only its start. Parses are set below.
    start = replace(options, initial="empty" if has_parses else initial, trust=0)
    parser = Parser.from_pretrained(model, **start.set_options)
    if not parser.model.settings.reads_graph:
        hint = "Parse with it, and give its parses as SYSTEM instead."
        raise ModelError("This model does not refine, so there are no steps to analyse.", hint=hint, path=model)
    results = []
    with progress("Refining", sum(map(len, treebanks))) as advance:
        for each, sentences in zip(files, treebanks, strict=True):
            if has_parses:
                parses = renamed(from_file(each.systems["initial"], format=format), parser.model.vocabulary.labels)
                parser = parser.using(initial=parses, trust=0, max_steps=options.max_steps)
            results.append(
                refined_by_steps(parser, sentences, lambda: advance(1, sentences=1), name=each.name, rule=rule)
            )
    if len(results) > 1:
        counts, costs = zip(*results, strict=True)
        results.insert(0, (together(counts, name=TOGETHER), sum_costs(costs)))
    title = f"Refinement of {Path(gold).name if gold != '-' else 'standard input'} by {Path(model).name}"
    page = partial(report.refinement_page, results, title, examples=examples)
    return title, report.refinement_text(results), page, [*starmap(report.refinement_values, results)]


def refined_by_steps(
    parser: Parser, sentences: Sequence[Sentence], advance: Callable[[], None], *, name: str, rule: str
) -> tuple[Refinement, Costs]:
    """Refine the sentences with a tree at every step, as the paper's analyses do. Count right words and seconds."""
    from torch.cuda import get_device_name

    from treefine.evaluation.analysis.refinement import Costs, refinement_of
    from treefine.parsing.batches import parse_inputs, run
    from treefine.parsing.results import steps as steps_of

    plan, start = parser.using(keep="nothing").plan(), time.perf_counter()
    initial = list(plan.initial(sentences))
    initial_seconds = time.perf_counter() - start
    trees = [[each] for each in initial]  # of each sentence
    first = 0 if any(head is not None for each in initial for head in each.heads) else 1
    ended, seconds, refined = list[int](), [0.0] * parser.max_steps, [0] * parser.max_steps
    plan = replace(plan, initial=lambda _: iter(initial), trust=(), is_timed=True)
    for of_sentence, (_, steps) in zip(trees, run(plan, parse_inputs(plan, sentences), steps_of), strict=True):
        of_sentence += [step.tree.arcs for step in steps]
        for t, step in enumerate(steps):
            seconds[t] += step.seconds
            refined[t] += 1
        ended += [step.t for step in steps if step.converged]
        advance()
    by_step = [[each[min(t, len(each) - 1)] for each in trees] for t in range(first, parser.max_steps + 1)]
    if len(by_step) < 2:
        hint = "Increase --steps, or give initial trees with --initial."
        raise TreefineError("There is nothing to compare: one step, and no initial trees.", hint=hint)
    counted = refinement_of(sentences, by_step, first=first, name=name, rule=rule)
    converged = tuple(sum(each <= t for each in ended) for t in range(first + 1, parser.max_steps + 1))
    models = [each.model for each in (parser, parser.initial) if isinstance(each, type(parser))]
    parameters = [sum(weight.numel() for weight in model.parameters()) for model in models]
    costs = Costs(
        get_device_name(parser.device) if parser.device.type == "cuda" else parser.device.type,
        parameters[0],
        sum(parameters[1:]),
        initial_seconds if first == 0 else None,
        tuple(seconds),
        tuple(refined),
    )
    return replace(counted, converged=converged), costs


def _check_outputs(outputs: Sequence[str], inputs: Sequence[str], *, force: bool) -> None:
    for output in outputs:
        suffix = Path(output).suffix.lower()
        if suffix not in (".html", ".json"):
            hint = "Choose a file name that ends in .html or .json."
            raise TreefineError("analyse cannot write this kind of file.", hint=hint, path=output)
        check_output(output, set(map(identity, inputs)), force=force)
        if suffix == ".html":
            from treefine.evaluation.analysis.plots import matplotlib_figure

            matplotlib_figure()
