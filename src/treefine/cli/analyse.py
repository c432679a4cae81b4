"""The analyse command: the errors of systems or, with --model, the effect of each refinement step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treefine.cli.replacing import ForceOption, Kind, check_replaced
from treefine.cli.terminal import completing, progress, say
from treefine.cli.treebanks import (
    FormatOption,
    NamesOption,
    RuleOption,
    check_stdin,
    find_treebanks,
    system_names,
    total_size,
)
from treefine.config import TagSource
from treefine.cores import use_threads
from treefine.drawing.characters import visible
from treefine.errors import ModelError, TreebankError, TreefineError
from treefine.evaluation.scores import rule_of
from treefine.evaluation.words import load_words
from treefine.model.bundled import bundled_models, trained_model
from treefine.model.weight_files import LAYOUT
from treefine.treebank.conllu import read_treebank
from treefine.treebank.files import not_written, open_output
from treefine.treebank.sentence import BLANK, Sentence
from treefine.wording import count

if TYPE_CHECKING:
    from treefine.evaluation.analysis.errors import ParsedTreebank
    from treefine.evaluation.analysis.refinement import Costs
    from treefine.parsing.parser import Parser
    from treefine.parsing.results import TimedSteps

_ENDINGS: dict[str, Kind] = {".html": "html", ".json": "report.json", ".csv": "report.csv"}


def analyse_command(
    gold: Annotated[str, typer.Argument(metavar="GOLD", help="Gold treebank, or a folder of gold treebanks.")],
    systems: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SYSTEM",
            help="Files to analyse, or folders with GOLD's file names. Differences are relative to the first.",
            show_default=False,
        ),
    ] = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT",
            help="Report to write: .html is a page, .json and .csv hold its numbers. Can be repeated.",
            show_default="a short summary on standard output",
        ),
    ] = None,
    force: ForceOption = False,
    names: NamesOption = None,
    rule: RuleOption = "conll18",
    format: FormatOption = None,
    examples: Annotated[
        int,
        typer.Option(
            "--examples",
            min=0,
            metavar="N",
            help="Number of example sentences of each kind: largest gains and largest losses; with --model, corrected "
            "and spoiled sentences.",
        ),
    ] = 10,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="NAME|DIR",
            help="Analyse the refinement steps of this model, instead of systems.",
            autocompletion=completing(bundled_models),
        ),
    ] = None,
    initial: Annotated[
        str | None,
        typer.Option(
            "--initial",
            metavar="empty|DIR|FILE",
            help="With --model: initial trees, as in parse; or a folder of parses with the same file names as GOLD.",
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            "--steps",
            min=1,
            metavar="N",
            help="With --model: maximum number of refinement steps (T).",
            show_default="as in training",
        ),
    ] = None,
    tags: Annotated[
        TagSource | None,
        typer.Option("--tags", help="With --model: tags that it reads, as in parse.", show_default="as in training"),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="DEVICE",
            help="With --model: cpu, cuda, cuda:1, …",
            show_default="a GPU if there is one",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            min=1,
            metavar="N",
            help="With --model: number of CPU threads.",
            show_default="as in parse",
        ),
    ] = None,
) -> None:
    """Analyse errors of systems, or refinement steps of a model.

    The report contains all scores; LAS by dependency length, distance to root, sentence length, label, tag and
    projectivity, with bootstrap confidence bands; confusions; significance; and, on a page, drawings of the sentences
    that differ most. The printed summary has the main scores of each treebank, and significance and LAS by length and
    depth over all treebanks.

    With --model, the report shows for each refinement step UAS, LAS, the share of errors removed (REL) and of sentences
    converged; errors removed by dependency type and projectivity; run time; and the number of parameters. A page also
    draws sentences that were corrected and sentences that were spoiled.
    """
    outputs = outputs or []
    _check_outputs(outputs, [gold, *(systems or ()), *filter(None, [initial])], force=force)
    if model is not None:
        if systems or names:
            other = "SYSTEM files" if systems else "--names"
            raise TreefineError(f"--model cannot be combined with {other}.", hint="Leave out one of them.")
        use_threads(threads)
        analyse_model(
            gold,
            model=model,
            outputs=outputs,
            initial=initial,
            steps=steps,
            tags=tags,
            device=device,
            rule=rule,
            format=format,
            examples=examples,
        )
        return
    with_model = {"--initial": initial, "--steps": steps, "--tags": tags, "--device": device, "--threads": threads}
    for option, value in with_model.items():
        if value is not None:
            raise TreefineError(f"{option} needs --model.", hint=f"Add --model, or leave out {option}.")
    if not systems:
        raise TreefineError("There is no system to analyse.", hint="Name one or more files after GOLD, or add --model.")
    _analyse_files(gold, system_names(systems, names), outputs, rule=rule, format=format, examples=examples)


def _analyse_files(
    gold: str,
    systems: Mapping[str, str],
    outputs: Sequence[str],
    *,
    rule: str,
    format: str | None,
    examples: int,
) -> None:
    from treefine.evaluation.analysis import export, pages  # loads numpy and jinja2
    from treefine.evaluation.analysis.errors import analyse, count_resamplings, read_parsed

    check_stdin(gold, list(systems.values()))
    files = find_treebanks(gold, systems, format=format)
    sizes = total_size(*[path for each in files for path in (each.gold, *each.systems.values())])
    with progress("Reading", sizes) as advance:
        treebanks = [
            read_parsed(
                each.name,
                each.gold,
                each.systems,
                rule=rule,
                format=format,
                on_bytes=advance,
            )
            for each in files
        ]
    for line in _notes(treebanks):
        say(line)
    with progress("Resampling", count_resamplings(len(treebanks), len(systems)) or None) as advance:
        analyses = analyse(treebanks, examples=examples, on_progress=advance)
    title = f"{', '.join(systems)} against {visible(gold) if gold != '-' else 'standard input'}"
    reports = {
        ".html": lambda: pages.report_page(analyses, title),
        ".json": lambda: [export.analysis_json(analyses, title)],
        ".csv": lambda: [export.analysis_csv(analyses)],
    }
    _write_reports(outputs, reports, lambda: export.analysis_text(analyses))


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
    """Parse the gold words with the model; write a report of each step to the outputs, or print a summary.

    `initial` names the initial trees, as in parse. If gold is a folder of treebanks, it can also be a folder of parses
    with the same file names.
    """
    from treefine.evaluation.analysis import export, pages
    from treefine.evaluation.analysis.errors import TOGETHER
    from treefine.evaluation.analysis.refinement import refinement_of, sum_costs, together
    from treefine.parsing.initial import from_file, renamed  # loads torch, like the next two
    from treefine.parsing.parser import Parser
    from treefine.parsing.results import timed_steps

    parses = initial if initial is not None and _has_parses(gold, initial) else None
    files = find_treebanks(gold, {"initial": parses} if parses else {}, format=format)
    file = initial if initial is not None and Path(initial).is_file() else None
    if file and len(files) > 1:
        hint = "Give a folder of parses with the same file names."
        message = f"This is a single file of initial parses, but {gold} contains {len(files)} treebanks."
        raise TreefineError(message, hint=hint, path=file)
    treebanks = [_read_gold(each.gold, rule, format) for each in files]
    start = "empty" if parses else initial  # set per treebank below
    # The steps of the model itself are analysed, so other parsers' trees are only its start.
    parser = Parser.from_pretrained(model, initial=start, trust=0, max_steps=steps, tags=tags, device=device)
    if not parser.model.settings.reads_graph:
        hint = "Parse with it, and give its parses as SYSTEM instead."
        raise ModelError("This model does not refine, so there are no steps to analyse.", hint=hint, path=model)
    found = []
    with progress("Refining", sum(map(len, treebanks))) as advance:
        for each, sentences in zip(files, treebanks, strict=True):
            if own := each.systems.get("initial", file):
                start_from = renamed(from_file(own, format=format), parser.model.vocabulary.labels)
                parser = parser.using(initial=start_from, trust=0, max_steps=steps if parses else parser.max_steps)
            timed = timed_steps(parser, sentences, on_sentences=lambda number: advance(number, sentences=number))
            if len(timed.trees) < 2:
                hint = "Increase --steps, or give initial trees with --initial."
                raise TreefineError("There is nothing to compare: one step, and no initial trees.", hint=hint)
            counted = refinement_of(
                sentences,
                timed.trees,
                first=timed.first,
                name=each.name,
                rule=rule,
                converged=timed.converged,
                predicts_tags=timed.predicts_tags,
            )
            found.append((counted, costs_of(parser, timed)))
    if len(found) > 1:
        found.insert(0, (together([each for each, _ in found], name=TOGETHER), sum_costs([each for _, each in found])))
    title = f"Refinement of {Path(gold).name if gold != '-' else 'standard input'} by {Path(model).name}"
    reports = {
        ".html": lambda: pages.refinement_page(found, title, examples=examples),
        ".json": lambda: [export.refinement_json(found, title)],
        ".csv": lambda: [export.refinement_csv(found)],
    }
    _write_reports(outputs, reports, lambda: export.refinement_text(found))


def _has_parses(gold: str, initial: str) -> bool:
    """Return whether both are folders of treebanks; a folder with a config.json is a model."""
    are_folders = Path(gold).is_dir() and Path(initial).is_dir() and initial not in ("", "empty")
    return are_folders and not (trained_model(Path(initial)) / LAYOUT.config).exists()


def _read_gold(path: str, rule: str, format: str | None) -> list[Sentence]:
    """Read the gold sentences of a treebank; raise an error if they cannot be scored."""
    sentences = list(read_treebank(path, format=format))
    load_words(sentences, is_ud=rule_of(rule).is_ud)
    if all(label == BLANK for sentence in sentences for label in sentence.labels):
        hint = "Use a labelled treebank: --model analyses heads and labels."
        raise TreebankError("The gold file has no labels.", hint=hint, path=path)
    return sentences


def costs_of(parser: Parser, timed: TimedSteps) -> Costs:
    """Return the run time of the steps and the sizes of the models."""
    from torch.cuda import get_device_name

    from treefine.evaluation.analysis.refinement import Costs

    models = [each.model for each in (parser, parser.initial) if isinstance(each, type(parser))]
    parameters = [sum(weight.numel() for weight in model.parameters()) for model in models]
    return Costs(
        get_device_name(parser.device) if parser.device.type == "cuda" else parser.device.type,
        parameters[0],
        sum(parameters[1:]),
        timed.initial_seconds if timed.first == 0 else None,
        timed.seconds,
        timed.sentences,
    )


def _write_reports(
    outputs: Sequence[str], reports: Mapping[str, Callable[[], Iterable[str]]], summary: Callable[[], str]
) -> None:
    """Write each output in the format of its extension; without outputs, print the summary."""
    for output in outputs:
        with open_output(output) as stream:
            for part in reports[Path(output).suffix.lower()]():
                stream.write(part.encode())
    if not outputs:
        typer.echo(summary())


def _check_outputs(outputs: Sequence[str], inputs: Sequence[str], *, force: bool) -> None:
    """Raise an error if an output cannot be written, or would replace a file that is not an earlier report."""
    for output in outputs:
        path = Path(output)
        if path.suffix.lower() not in _ENDINGS:
            message = "analyse cannot write this kind of file."
            hint = f"Choose a file name that ends in {', '.join(_ENDINGS)}."
            raise TreefineError(message, hint=hint, path=output)
        if path.is_dir():
            raise TreebankError("This is a directory.", hint="Name a file to write.", path=output)
        if not path.resolve().parent.is_dir():
            raise not_written("No such file or directory", output)
        if any(path.exists() and Path(each).exists() and path.samefile(each) for each in inputs):
            hint = "Choose a different output file."
            raise TreefineError("The output would overwrite the input.", hint=hint, path=output)
        if not force:
            check_replaced(output, _ENDINGS[path.suffix.lower()])


def _notes(treebanks: Sequence[ParsedTreebank]) -> Iterator[str]:
    """Yield notes about the files: missing labels, and graphs that are not trees."""
    for treebank in treebanks:
        for path in treebank.paths_without_labels():
            yield (
                f"{path}: The file has no labels, so only heads are scored (UAS instead of LAS). "
                "Add labels to score them too."
            )
        for system, sentences in treebank.systems.items():
            cycles, roots = treebank.count_cycles(system), treebank.count_several_roots(system)
            found = [f"{count(cycles, 'sentence')} with a cycle"] if cycles else []
            found += [f"{count(roots, 'sentence')} with several roots"] if roots else []
            if found:
                rule = ' Words in or below a cycle have the distance to root "cycle".' if cycles else ""
                yield f"{sentences[0].path}: {' and '.join(found)}; evaluate may reject this file.{rule}"
