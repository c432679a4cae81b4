"""The command analyse: the errors of systems, or with --model what each refinement step does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treefine.cli.completion import complete_model
from treefine.cli.terminal import progress
from treefine.cli.treebanks import FormatOption, RuleOption, find_treebanks, system_names, total_size
from treefine.config import TagSource
from treefine.drawing.characters import visible
from treefine.errors import ModelError, TreebankError, TreefineError
from treefine.evaluation.scores import rule_of
from treefine.evaluation.tables import count
from treefine.evaluation.words import load_words
from treefine.model.weight_files import LAYOUT
from treefine.treebank.conllu import read_treebank
from treefine.treebank.files import not_written, open_output
from treefine.treebank.sentence import BLANK, Sentence

if TYPE_CHECKING:
    from treefine.evaluation.analysis.errors import ParsedTreebank
    from treefine.evaluation.analysis.refinement import Costs
    from treefine.parsing.parser import Parser
    from treefine.parsing.timed import TimedSteps

_ENDINGS = (".html", ".json", ".csv")


def analyse_command(
    gold: Annotated[str, typer.Argument(metavar="GOLD", help="The file that is right, or a folder of such files.")],
    systems: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SYSTEM…",
            help="One file or more to analyse, or folders with files of the same names; differences are to the first.",
            show_default=False,
        ),
    ] = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT",
            help="A file to write: .html is a page, .json and .csv are its numbers; may be given several times. "
            "[default: a short summary on standard output]",
            show_default=False,
        ),
    ] = None,
    rule: RuleOption = "conll18",
    format: FormatOption = None,
    examples: Annotated[
        int,
        typer.Option(
            "--examples",
            min=0,
            help="Sentences to show where a system gained most, and lost most; with --model, that it corrected, and "
            "spoiled.",
        ),
    ] = 10,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="NAME|DIR",
            help="In place of systems: a model, whose refinement steps are analysed.",
            autocompletion=complete_model,
        ),
    ] = None,
    initial: Annotated[
        str | None,
        typer.Option(
            "--initial",
            metavar="empty|DIR|FILE",
            help="With --model: what it starts from, as in parse; or a folder with parses of the same names as GOLD's.",
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="With --model: refine at most so many times (T).")
    ] = None,
    tags: Annotated[
        TagSource | None, typer.Option("--tags", help="With --model: the tags it reads, as in parse.")
    ] = None,
    device: Annotated[str | None, typer.Option("--device", help="With --model: cpu, cuda, cuda:1 …")] = None,
) -> None:
    """Show where systems are right and wrong, and which is better.

    Written are all scores; LAS by dependency length, distance to root, sentence length, label, tag and projectivity,
    with bootstrap bands; what is confused; significance; and the sentences that differ most, which a page draws. The
    printed summary has the main scores, and of all treebanks together significance and LAS by length and depth.

    With --model, written and printed is what each refinement step does: UAS, LAS, errors removed (REL) and sentences
    converged; errors removed by dependency type and projectivity; run time and parameters. A page also draws sentences
    that were corrected and spoiled.
    """
    outputs = outputs or []
    _check_outputs(outputs, [gold, *(systems or ()), *filter(None, [initial])])
    if model is not None:
        if systems:
            raise TreefineError("--model takes the place of systems.", hint="Name one or the other.")
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
    for option, value in {"--initial": initial, "--steps": steps, "--tags": tags, "--device": device}.items():
        if value is not None:
            raise TreefineError(f"{option} is for a model.", hint="Add --model, or leave it out.")
    if not systems:
        raise TreefineError("There is no system to analyse.", hint="Name files after the gold file, or --model.")
    _analyse_files(gold, systems, outputs, rule=rule, format=format, examples=examples)


def _analyse_files(
    gold: str, systems: Sequence[str], outputs: Sequence[str], *, rule: str, format: str | None, examples: int
) -> None:
    from treefine.evaluation.analysis import export, pages  # these load numpy and jinja2
    from treefine.evaluation.analysis.errors import analyse, count_resamplings, read_parsed

    if gold == "-" and "-" in systems:
        raise TreefineError("Standard input can be read once.", hint="Name a file for the other.")
    names = system_names(systems)
    files = find_treebanks(gold, names, format=format)
    sizes = total_size(*[path for each in files for path in (each.gold, *each.systems.values())])
    with progress("Reading", sizes) as advance:
        treebanks = [
            read_parsed(each.name, each.gold, each.systems, rule=rule, format=format, on_bytes=advance)
            for each in files
        ]
    for line in _notes(treebanks):
        typer.echo(visible(line), err=True)
    with progress("Resampling", count_resamplings(len(treebanks), len(names)) or None) as advance:
        analyses = analyse(treebanks, examples=examples, on_progress=advance)
    title = f"{', '.join(names)} against {visible(gold) if gold != '-' else 'standard input'}"
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
    """Parse the words of gold with the model, and write what each step did to the outputs, or print a summary.

    `initial` is what the model starts from, as in parse. If gold is a folder of treebanks, it may also be a folder of
    parses whose files have the same names.
    """
    from treefine.evaluation.analysis import export, pages
    from treefine.evaluation.analysis.errors import TOGETHER
    from treefine.evaluation.analysis.refinement import refinement_of, sum_costs, together
    from treefine.parsing.initial import from_file, renamed  # this and the next two load torch
    from treefine.parsing.parser import Parser
    from treefine.parsing.timed import timed_steps

    parses = initial if initial is not None and _has_parses(gold, initial) else None
    files = find_treebanks(gold, {"initial": parses} if parses else {}, format=format)
    file = initial if initial is not None and Path(initial).is_file() else None
    if file and len(files) > 1:
        hint = "Name a folder of parses whose files have the same names."
        message = f"This is one file of initial parses, but {gold} holds {len(files)} treebanks."
        raise TreefineError(message, hint=hint, path=file)
    treebanks = [_read_gold(each.gold, rule, format) for each in files]
    start = "empty" if parses else initial  # each treebank has its own parses
    parser = Parser.from_pretrained(model, initial=start, max_steps=steps, tags=tags, device=device)
    if not parser.model.settings.reads_graph:
        hint = "Parse with it, and name the parses after GOLD instead."
        raise ModelError("This model reads no graph, so it has no refinement steps to analyse.", hint=hint, path=model)
    found = []
    with progress("Refining", sum(map(len, treebanks))) as advance:
        for each, sentences in zip(files, treebanks, strict=True):
            if own := each.systems.get("initial", file):
                start_from = renamed(from_file(own, format=format), parser.model.vocabulary.labels)
                parser = parser.using(initial=start_from, max_steps=steps if parses else parser.max_steps)
            timed = timed_steps(parser, sentences, on_sentences=lambda number: advance(number, sentences=number))
            if len(timed.trees) < 2:
                hint = "Take more --steps, or start from a parse with --initial."
                raise TreefineError("There is one step and no initial parse, so nothing is refined.", hint=hint)
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
    """Return whether gold and initial are folders of treebanks; a folder with a config.json is a model."""
    are_folders = Path(gold).is_dir() and Path(initial).is_dir() and initial not in ("", "empty")
    return are_folders and not Path(initial, LAYOUT.config).exists()


def _read_gold(path: str, rule: str, format: str | None) -> list[Sentence]:
    """Read the gold sentences of a treebank, and raise an error if they cannot be scored."""
    sentences = list(read_treebank(path, format=format))
    load_words(sentences, is_ud=rule_of(rule).is_ud)
    if all(label == BLANK for sentence in sentences for label in sentence.labels):
        hint = "Name a treebank with labels: an analysis of steps is one of heads and labels."
        raise TreebankError("No word of the gold file has a label.", hint=hint, path=path)
    return sentences


def costs_of(parser: Parser, timed: TimedSteps) -> Costs:
    """Return how long the steps took, and how large the models are."""
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
    """Write each output with the report that has its ending; without outputs, print the summary."""
    for output in outputs:
        with open_output(output) as stream:
            for part in reports[Path(output).suffix.lower()]():
                stream.write(part.encode())
    if not outputs:
        typer.echo(summary())


def _check_outputs(outputs: Sequence[str], inputs: Sequence[str]) -> None:
    """Raise an error for an output that cannot be written, before the work begins."""
    for output in outputs:
        path = Path(output)
        if path.suffix.lower() not in _ENDINGS:
            raise TreefineError(f"A report ends in {', '.join(_ENDINGS)}.", hint="Name such a file.", path=output)
        if path.is_dir():
            raise TreebankError("This is a directory.", hint="Name a file to write.", path=output)
        if not path.resolve().parent.is_dir():
            raise not_written("No such file or directory", output)
        if any(path.exists() and Path(each).exists() and path.samefile(each) for each in inputs):
            hint = "Name another output file."
            raise TreefineError("The output would take the place of the input.", hint=hint, path=output)


def _notes(treebanks: Sequence[ParsedTreebank]) -> Iterator[str]:
    """Yield what a user should know about the files: missing labels, and graphs that are not trees."""
    for treebank in treebanks:
        for path in treebank.paths_without_labels():
            yield (
                f"{path}: No word has a label, so heads alone are counted (UAS in place of LAS). "
                "Fill in the labels to have them counted."
            )
        for system, sentences in treebank.systems.items():
            cycles, roots = treebank.count_cycles(system), treebank.count_several_roots(system)
            found = [f"{count(cycles, 'sentence')} with a cycle"] if cycles else []
            found += [f"{count(roots, 'sentence')} with several roots"] if roots else []
            if found:
                rule = ' A word that never reaches ROOT has "cycle" for its distance to root.' if cycles else ""
                yield f"{sentences[0].path}: {' and '.join(found)}, which evaluate may refuse.{rule}"
