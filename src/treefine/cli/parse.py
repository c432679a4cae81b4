"""The parse and refine commands."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treefine.cli.parser_options import with_parser_options
from treefine.cli.terminal import Detail, completing, progress, say, warn
from treefine.cli.treebanks import TREEBANKS_HELP, ForceOption, TreebankKindOption
from treefine.cores import thread_count, use_threads
from treefine.jobs.inputs import Input, InputKind, bytes_in, find_inputs, find_treebank_inputs, treebank_note
from treefine.jobs.outputs import OutputFile, OutputOptions, Shape, plan_outputs
from treefine.model.bundled import EXTRA_MODEL, LANGUAGES_OF_MULTI, bundled_models, model_for, unknown_language
from treefine.parsing.options import OPTIONS, ParserOptions
from treefine.wording import count

if TYPE_CHECKING:
    from treefine.parsing.parser import Parser

_Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME|DIR",
        help="Bundled model, folder of a model or of a training, or OWNER/NAME on the Hugging Face hub.",
        autocompletion=completing(bundled_models),
        show_default="en, or the model of the language",
    ),
]
_Output = Annotated[
    str,
    typer.Option(
        "-o",
        "--output",
        metavar="OUT",
        help="Output file, or a folder for one output file per input.",
        show_default="standard output",
    ),
]
_Shape = Annotated[
    Shape | None,
    typer.Option(
        "--format",
        help="Output format: tree (drawn as text), conllu (a treebank), json (one object per line), csv, tsv "
        "or parquet (one row per word), svg or html (drawings).",
        show_default="by the extension of OUT; else tree on a terminal, conllu elsewhere",
    ),
]
_ShowSteps = Annotated[bool, typer.Option("--show-steps", help="Draw each refinement step and mark its changes.")]
_Confidence = Annotated[
    bool,
    typer.Option(
        "--confidence", help="Write the confidence of each word: Conf=0.97 in MISC, or extra columns of a table."
    ),
]
_Review = Annotated[
    float | None,
    typer.Option(
        "--review",
        min=0,
        max=1,
        metavar="LIMIT",
        help="List the sentences whose confidence is below LIMIT. The list replaces the trees unless -o names a file.",
    ),
]
_Resume = Annotated[
    bool, typer.Option("--resume", help="Continue an interrupted run after the last complete sentence in OUT.part.")
]
_LabelMap = Annotated[
    str | None,
    typer.Option(
        "--label-map",
        metavar="FILE",
        help="Tab-separated file: a label of the initial trees, then the model's label for it, or _ to ignore its "
        "arcs.",
        show_default="recognise labels of UD 1, Stanford and spaCy",
    ),
]
_TrustFrom = Annotated[
    str | None,
    typer.Option(
        "--trust-from",
        metavar="GOLD",
        help="Fit the weight to a treebank with correct trees of some of the input's sentences.",
    ),
]
_Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=0,
        metavar="N",
        help="Processes that read and write treebanks while the GPU parses; no effect on a CPU. They do not count "
        "changes.",
        show_default="parse: for long files, the number of cores minus 2, at most 16; refine: 0",
    ),
]
DeviceOption = Annotated[
    str | None,
    typer.Option("--device", metavar="DEVICE", help=OPTIONS["device"].help, show_default=OPTIONS["device"].default),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        metavar="N",
        help="Number of CPU threads.",
        show_default="the cores that this process may use, or OMP_NUM_THREADS",
    ),
]


@with_parser_options()
def parse_command(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INPUT",
            help="Texts, files, folders, or quoted patterns such as 'texts/*.txt'; - is standard input.",
            show_default="standard input",
        ),
    ] = None,
    model: _Model = None,
    output: _Output = "-",
    shape: _Shape = None,
    kind: Annotated[
        InputKind | None,
        typer.Option(
            "--from",
            help="Input format: text, lines (one sentence per line), words (one sentence per line, a space between "
            "words), or a treebank format.",
            show_default="by the file name, else by the first lines",
        ),
    ] = None,
    is_text: Annotated[
        bool, typer.Option("--text", help="Treat every INPUT as text, even if it looks like a file name.")
    ] = False,
    show_steps: _ShowSteps = False,
    confidence: _Confidence = False,
    review: _Review = None,
    resume: _Resume = False,
    force: ForceOption = False,
    label_map: _LabelMap = None,
    trust_from: _TrustFrom = None,
    threads: ThreadsOption = None,
    workers: _Workers = None,
    *,
    options: ParserOptions,
) -> None:
    """Parse text, or sentences that are already split into words.

    In a treebank, only heads, labels and the enhanced arcs that repeat them are replaced; the model may also fill in
    blank tags, features and lemmas. Heads in the input are ignored unless --keep selects them.
    """
    inputs = find_inputs(sources or (), kind=kind, is_text=is_text, output=output)
    if kind is None and (note := treebank_note(inputs)):
        say(note)
    if show_steps and options.stop_above is None:
        options = replace(options, stop_above=1.0)  # show all steps
    initial = options.initial if isinstance(options.initial, list) else [options.initial]
    also_read = [str(path) for path in (*initial, label_map, trust_from) if path and Path(str(path)).is_file()]
    wanted = OutputOptions(show_steps, confidence, review, resume, None, options.k or 1, tuple(also_read), force=force)
    _run(inputs, output, shape, wanted, model, options, label_map, trust_from, threads=threads, workers=workers)


@with_parser_options(without=["initial"], defaults={"stop_above": "1", "trust": "auto"})
def refine_command(
    sources: Annotated[
        list[str] | None, typer.Argument(metavar="INITIAL", help=TREEBANKS_HELP, show_default="standard input")
    ] = None,
    model: _Model = None,
    output: _Output = "-",
    shape: _Shape = None,
    kind: TreebankKindOption = None,
    show_steps: _ShowSteps = False,
    confidence: _Confidence = False,
    review: _Review = None,
    resume: _Resume = False,
    force: ForceOption = False,
    changes: Annotated[
        str | None,
        typer.Option(
            "--changes",
            metavar="FILE",
            help="Write each changed arc, with the confidence before and after, and each replaced tag to a .html "
            "(drawings), .json or .tsv file.",
        ),
    ] = None,
    label_map: _LabelMap = None,
    trust_from: _TrustFrom = None,
    threads: ThreadsOption = None,
    workers: _Workers = 0,
    *,
    options: ParserOptions,
) -> None:
    """Correct the trees of any parser.

    A word whose HEAD is blank starts without an arc. A label that the model does not know is read as its main type
    (nsubj:outer as nsubj) or under its newer name (dobj as obj). If neither is known, the model does not read the arc,
    but its head still counts (--trust). A summary of the changes is printed on standard error.
    """
    inputs = find_treebank_inputs(sources or (), kind=kind, output=output)
    also_read = tuple(filter(None, (label_map, trust_from)))
    wanted = OutputOptions(show_steps, confidence, review, resume, changes, options.k or 1, also_read, force=force)
    options = replace(options, initial="given")
    _run(
        inputs,
        output,
        shape,
        wanted,
        model,
        options,
        label_map,
        trust_from,
        threads=threads,
        workers=workers,
        is_refined=True,
    )


def chosen_model(model: str | None, language: str | None) -> tuple[str, str | None]:
    """Return the model, and the code of the language if one is named; by default the bundled model of the language."""
    if model is not None or not language:
        return model or "en", language
    found = model_for(language)
    if found is None:
        raise unknown_language(language, LANGUAGES_OF_MULTI, model=EXTRA_MODEL)
    return found


def _run(
    inputs: list[Input],
    output: str,
    shape: Shape | None,
    wanted: OutputOptions,
    model: str | None,
    options: ParserOptions,
    label_map: str | None,
    trust_from: str | None,
    *,
    threads: int | None,
    workers: int | None,
    is_refined: bool = False,
) -> None:
    """Plan the outputs, load the parser, and write what is not finished yet."""
    model, language = chosen_model(model, options.language)
    options, wanted = replace(options, language=language), replace(wanted, model=model)
    files = plan_outputs(inputs, output, shape, wanted)
    if wanted.resume:
        n_all = len(files)
        files = [file for file in files if not file.is_finished]
        if len(files) < n_all:
            say(f"treefine: {n_all - len(files):,} of {count(n_all, 'output')} already finished")
        if not files:
            return
    from treefine.jobs.run import Listener, load_parser, run, with_fitted_trust  # loads torch

    use_threads(threads)
    start = time.monotonic()
    parser = load_parser(model, options, label_map)
    if trust_from is not None:
        parser = with_fitted_trust(parser, inputs, trust_from)
        weights = ", ".join(f"{weight:.2f}" for weight in parser.trust)
        say(f"treefine: trust {weights}, fitted to {trust_from}")
    for line in _about(parser, model, files):
        say(line, detail=Detail.VERBOSE)
    say(f"treefine: loaded in {time.monotonic() - start:.1f} s", detail=Detail.VERBOSE)
    prints = files[0].path == "-" or wanted.review is not None
    is_shown = not (prints and sys.stdout is not None and sys.stdout.isatty())  # the output would mix with the bar
    with progress("Parsing", bytes_in(inputs), in_bytes=True, is_shown=is_shown) as advance:
        listener = Listener(say, warn, lambda text: say(f"treefine: {text}", detail=Detail.QUIET), advance)
        is_complete = run(parser, files, wanted, listener, counts_changes=is_refined, workers=workers)
    if not is_complete:
        raise typer.Exit(1)


def _about(parser: Parser, model: str, files: Sequence[OutputFile]) -> Iterator[str]:
    """Yield the lines that --verbose prints: what is loaded, and how inputs are read and outputs written."""
    where = f"{parser.device}, {parser.precision}, {count(thread_count(), 'thread')}"
    how = f"T = {parser.max_steps}, stop above {parser.stop_above:g}, {parser.tags} tags"
    yield f"treefine: model {model} on {where}; {how}"
    for file in files:
        names = ", ".join(f"{each.name or 'text'} ({each.kind or 'format by its first lines'})" for each in file.inputs)
        yield f"treefine: {names} -> {file.path} ({file.shape if file.form is None else file.form.title})"
