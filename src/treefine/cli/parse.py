"""The parse and refine commands."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from treefine.cli.options import THREADS, TREEBANK_KIND, TREEBANKS, argument, option, with_options
from treefine.cli.terminal import Detail, is_shown, progress, say, warn
from treefine.cores import thread_count, use_threads
from treefine.errors import count
from treefine.jobs.inputs import Input, InputKind, TreebankKind, find_inputs, find_treebank_inputs, total_size
from treefine.jobs.outputs import OutputFile, OutputOptions, plan_outputs
from treefine.model.bundled import bundled_languages, model_for, unknown_language
from treefine.parsing.options import ParserOptions

if TYPE_CHECKING:
    from treefine.parsing.parser import Parser


@dataclass(frozen=True)
class RunOptions(OutputOptions):
    """The options that both commands have."""

    label_map: str | None = option(
        None,
        "--label-map FILE",
        "Lines with a label of the initial trees, a tab, and the model's label for it, or _ to ignore its arcs.",
        shown="recognise labels of UD 1, Stanford and spaCy",
    )
    trust_from: str | None = option(None, "--trust-from GOLD", "Fit the weight to correct trees of some sentences.")
    threads: int | None = THREADS
    workers: int | None = option(
        None,
        "--workers N",
        "Processes that read and write treebanks while a GPU parses; they do not count changes.",
        shown="parse: for long files, the number of cores minus 2, at most 16; refine: 0",
        min=0,
    )


@with_options()
def parse_command(
    sources: list[str] | None = argument(
        None, "INPUT", "Texts, files, folders, or quoted patterns such as 'texts/*.txt'.", shown="standard input"
    ),
    kind: InputKind | None = option(
        None,
        "--from",
        "Input format: text, lines (a sentence per line), words (the same, with spaces between words), or a treebank.",
        shown="by the file name, else by the first lines",
    ),
    is_text: bool = option(False, "--text", "Treat every INPUT as text, even if it looks like a file name."),
    *,
    chosen: RunOptions,
    options: ParserOptions,
) -> None:
    """Parse text, or sentences that are already split into words.

    In a treebank, only heads, labels and the enhanced arcs that repeat them are replaced; the model may also fill in
    blank tags, features and lemmas. Heads in the input are ignored unless --keep selects them.
    """
    inputs = find_inputs(sources or (), kind=kind, is_text=is_text, output=chosen.output)
    if chosen.steps and options.stop_above is None:
        options = replace(options, stop_above=1.0)  # show all steps
    initial = options.initial if isinstance(options.initial, list) else [options.initial]
    also_read = tuple(str(path) for path in initial if path and Path(str(path)).is_file())
    _run(inputs, replace(chosen, also_read=also_read), options)


@with_options(without=["initial"], defaults={"stop_above": "1", "trust": '"auto"'})
def refine_command(
    sources: list[str] | None = TREEBANKS,
    kind: TreebankKind | None = TREEBANK_KIND,
    *,
    chosen: RunOptions,
    changes: str | None = option(
        None, "--changes FILE", "Write each change of an arc or a tag, as .html, .json or .tsv."
    ),
    options: ParserOptions,
) -> None:
    """Correct the trees of any parser.

    A word whose HEAD is blank starts without an arc. A label that the model does not know is read as its main type
    (nsubj:outer as nsubj) or under its newer name (dobj as obj). If neither is known, the model does not read the arc,
    but its head still counts (--trust). A summary of the changes is printed on standard error.
    """
    inputs = find_treebank_inputs(sources or (), kind=kind, output=chosen.output)
    workers = chosen.workers or 0
    if workers and changes is None:
        say("Changes are not counted with --workers.")
    chosen = replace(chosen, changes=changes, workers=workers, marks_changes=not workers or changes is not None)
    _run(inputs, chosen, replace(options, initial="given"))


def _run(inputs: list[Input], wanted: RunOptions, options: ParserOptions) -> None:
    model, language = wanted.model or "en", options.language
    if wanted.model is None and language:  # the bundled model of the language
        found = model_for(language)
        if found is None:
            raise unknown_language(language, bundled_languages())
        model, language = found
    also_read = (*wanted.also_read, *filter(None, (wanted.label_map, wanted.trust_from)))
    wanted = replace(wanted, model=model, k=options.k or 1, also_read=also_read)
    files = plan_outputs(inputs, wanted)
    if wanted.resume:
        n_all = len(files)
        files = [file for file in files if not file.is_finished]
        if len(files) < n_all:
            say(f"treefine: {n_all - len(files):,} of {count(n_all, 'output')} already finished")
        if not files:
            return
    from treefine.jobs.run import Listener, load_parser, with_fitted_trust, write_outputs  # loads torch

    use_threads(wanted.threads)
    start = time.monotonic()
    parser = load_parser(model, replace(options, language=language), wanted.label_map, wanted.trust_from)
    if wanted.trust_from is not None:
        parser = with_fitted_trust(parser, inputs, wanted.trust_from)
        weights = ", ".join(f"{weight:.2f}" for weight in parser.trust)
        say(f"treefine: trust {weights}, fitted to {wanted.trust_from}")
    if is_shown(Detail.VERBOSE):
        for line in _about(parser, model, files):
            say(line)
        say(f"treefine: loaded in {time.monotonic() - start:.1f} s")
    prints = files[0].path == "-" or wanted.review is not None
    may_show = not (prints and sys.stdout is not None and sys.stdout.isatty())  # the output would mix with the bar
    size = total_size(*[source.name for source in inputs if source.text is None])
    with progress("Parsing", size, may_show=may_show) as advance:
        listener = Listener(say, warn, lambda text: say(f"treefine: {text}", detail=Detail.QUIET), advance)
        is_complete = write_outputs(parser, files, wanted, listener, wanted.workers)
    if not is_complete:
        raise typer.Exit(1)


def _about(parser: Parser, model: str, files: Sequence[OutputFile]) -> Iterator[str]:
    where = f"{parser.device}, {parser.precision}, {count(thread_count(), 'thread')}"
    how = f"T = {parser.max_steps}, stop above {parser.stop_above:g}, {parser.tags} tags"
    yield f"treefine: model {model} on {where}; {how}"
    for file in files:
        names = ", ".join(f"{each.name or 'text'} ({each.kind or 'format by its first lines'})" for each in file.inputs)
        yield f"treefine: {names} -> {file.path} ({file.shape if file.form is None else file.form.title})"
