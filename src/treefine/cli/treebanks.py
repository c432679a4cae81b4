"""The commands that need no model: evaluate, compare, validate, convert and draw."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import typer

from treefine.cli.options import (
    FORCE,
    FORMAT_NAMES,
    GOLD,
    INPUT_FORMAT,
    JSON,
    NAMES,
    RULE,
    TREEBANK_KIND,
    TREEBANKS,
    argument,
    option,
)
from treefine.cli.terminal import print_json, progress, say
from treefine.errors import TreebankError, TreefineError, count, losses_line, visible
from treefine.evaluation import tables
from treefine.evaluation.agreement import agreement_of_pairs, sentence_pairs
from treefine.evaluation.pairing import load_pairs, stretches
from treefine.evaluation.scores import evaluate_stretches, rule_of
from treefine.jobs.inputs import Input, TreebankKind, files_in, files_named, find_treebank_inputs, identity, total_size
from treefine.jobs.outputs import (
    DrawnShape,
    OutputFile,
    Shape,
    check_extension,
    check_output,
    check_table,
    shape_by_name,
    stem_of,
    write_treebank_as,
)
from treefine.treebank.conllu import FORMATS, TREEBANK_SUFFIXES, format_of, read_treebank, suffix_of, validate
from treefine.treebank.files import name_of
from treefine.treebank.sentence import CONLLU, Format, Sentence

_CONVERTED: tuple[Shape, ...] = ("json", "csv", "tsv", "parquet", "svg", "html")  # besides treebanks
_FAULT_FIELDS = ("path", "line", "sent_id", "sentence", "word", "message", "hint")


def evaluate_command(
    gold: str = GOLD,
    system: str = argument(..., "SYSTEM", "Treebank to score, or a folder with GOLD's file names."),
    rule: str = RULE,
    labels: bool = option(False, "--labels", "Also print the scores of each label."),
    confusions: int = option(0, "--confusions N", "Also list the N most frequent confusions.", min=0),
    agreement: bool = option(
        False, "--agreement", "Print the agreement of two annotators instead: GOLD and SYSTEM are equals."
    ),
    format: str | None = INPUT_FORMAT,
    as_json: bool = JSON,
) -> None:
    """Score a treebank against a gold treebank.

    Prints the metrics of the CoNLL 2018 shared task, or those of the rule you choose. UEM is the share of sentences in
    which all heads are correct; for LEM, all labels must be correct too. The files of a folder are scored together.

    With --agreement, prints how often two annotators agree on heads, labels and tags, and Cohen's kappa. The sentences
    are paired in order.
    """
    files = [(each.gold, each.systems["system"]) for each in find_treebanks(gold, {"system": system}, format=format)]
    if agreement and (labels or rule != "conll18"):
        other = "--labels" if labels else "--rule"
        raise TreefineError(f"--agreement cannot be combined with {other}.", hint="Leave out one of them.")
    with progress("Comparing" if agreement else "Scoring", total_size(*chain.from_iterable(files))) as advance:
        read = partial(read_treebank, format=format, on_bytes=advance)
        if agreement:
            agreed = agreement_of_pairs(chain.from_iterable(sentence_pairs(*map(read, each)) for each in files))
        else:
            pairs = chain.from_iterable(stretches(*each, is_ud=rule_of(rule).is_ud, read=read) for each in files)
            scored = evaluate_stretches(pairs, rule=rule, labels=labels, confusions=bool(confusions))
    values: dict[str, Any]
    if agreement:
        values, shown = {"first": gold, "second": system, **agreed.to_dict()}, [agreed.to_text(confusions=confusions)]
    else:
        values = {"gold": gold, "system": system, "rule": rule, "scores": tables.scores_json(scored.scores)}
        shown = [tables.score_table(scored.scores)]
        if labels:
            values["labels"] = tables.scores_json(scored.by_label)
            shown.append(tables.score_table(scored.by_label, title="Label"))
        confused = {"label": scored.label_confusions, "head": scored.head_confusions} if confusions else {}
        for kind, counted in confused.items():
            values[f"confused_{kind}s"] = tables.confusion_table(counted, most=confusions).to_records()
            shown.append(tables.confusion_table(counted, kind=kind, most=confusions).to_text())
    if as_json:
        print_json(values)
    else:
        typer.echo("\n\n".join(shown))


def compare_command(
    gold: str = GOLD,
    systems: list[str] = argument(
        ...,
        "SYSTEM",
        "Two or more treebanks to compare, or folders with GOLD's file names. Differences are relative to the first.",
    ),
    metric: str = option("LAS", "--metric METRIC", "Metric to compare: LAS, UAS or another metric of the rule."),
    rule: str = RULE,
    alpha: float = option(0.01, "--alpha ALPHA", "Significance level.", min=0, max=1),
    samples: int = option(10_000, "--samples N", "Number of resamplings.", min=1),
    seed: int = option(1, "--seed N", "Random seed of the resamplings.", min=0),
    names: list[str] | None = NAMES,
    format: str | None = INPUT_FORMAT,
    markdown: bool = option(False, "--markdown", "Print a Markdown table."),
    as_json: bool = JSON,
) -> None:
    """Compare systems and test whether they differ significantly.

    Prints scores, differences, relative error reduction (RER), and the p-values of paired tests over sentences. The
    files of a folder are compared together.
    """
    from treefine.evaluation.significance import compare_counts, count_files  # loads numpy

    if len(systems) < 2:
        raise TreefineError("There is only one system to compare.", hint="Name two or more files after GOLD.")
    named = system_names(systems, names)
    files = find_treebanks(gold, named, format=format)
    sizes = total_size(*[path for each in files for path in (each.gold, *each.systems.values())])
    with progress("Reading", sizes) as advance:
        read, is_ud = partial(read_treebank, format=format, on_bytes=advance), rule_of(rule).is_ud
        pairs = (load_pairs(each.gold, each.systems, is_ud=is_ud, read=read) for each in files)
        counts = count_files(pairs, metric=metric, rule=rule)
    comparison = compare_counts(counts, metric=metric, alpha=alpha, samples=samples, seed=seed)
    if as_json:
        print_json(tables.comparison_json(comparison))
        return
    table = tables.comparison_table(comparison)
    if markdown:
        typer.echo(table.to_markdown())
    else:
        typer.echo(f"{table.to_text()}\n\n{table.note}")


def validate_command(
    files: list[str] = argument(..., "FILE", "Treebanks to check, folders, or quoted patterns."),
    format: str | None = INPUT_FORMAT,
    as_json: bool = JSON,
) -> None:
    """Check treebanks and list all errors.

    Checks columns, IDs, heads, cycles, roots, duplicate sent_id values, and whether the text matches the words. Prints
    one line per error: `path:line: (sent_id, word) message`. The exit code is 1 if there is any error.
    """
    faults, paths = list[TreefineError](), list[str]()
    for each in files:
        named = files_named(each, TREEBANK_SUFFIXES, may_be_any=format is not None)
        paths += [path for path, _ in named] or [each]
    with progress("Reading", total_size(*paths)) as advance:
        for path in paths:
            for fault in validate(path, format=format, on_bytes=advance):
                faults.append(fault)
                if not as_json:
                    typer.echo(str(fault))
    if as_json:
        print_json([{name: getattr(fault, name) for name in _FAULT_FIELDS} for fault in faults])
    say(f"{count(len(paths), 'file')}, {count(len(faults), 'error') if faults else 'no errors'}")
    raise typer.Exit(1 if faults else 0)


def convert_command(
    source: str = argument(..., "IN", "Treebank to read."),
    target: str = argument(..., "OUT", "File to write."),
    from_format: str | None = option(
        None, "--from FORMAT", f"Format of IN: {FORMAT_NAMES}.", shown="by the file name", names=FORMATS.keys
    ),
    to_format: str | None = option(
        None,
        "--to FORMAT",
        "Format of OUT: one of --from, json (one object per line), csv, tsv or parquet (one row per word), "
        "svg or html (drawings).",
        shown="by the file name",
        names=lambda: [*FORMATS, *_CONVERTED],
    ),
    skip: bool = option(False, "--skip", "Skip invalid sentences instead of stopping."),
    force: bool = FORCE,
) -> None:
    """Convert treebanks to other formats, tables and drawings.

    The treebank formats are CoNLL-U, CoNLL-X and CoNLL-2009; conll09 uses the gold tags of CoNLL-2009,
    conll09-predicted its predicted tags. Data that OUT cannot hold is counted on standard error.
    """
    shape, form = _converted(source, target, to_format)
    reads = [] if source == "-" else [identity(source)]
    check_output(target, reads, reads if shape == "conllu" else (), force=force)
    on_error: Literal["raise", "skip"] = "skip" if skip else "raise"
    with progress("Converting", total_size(source)) as advance:
        sentences = read_treebank(source, format=from_format, on_error=on_error, on_bytes=advance)
        lost = write_treebank_as(sentences, OutputFile((Input(source),), target, shape, form))
    if lost:
        title = form.title if shape == "conllu" else "JSON" if shape == "json" else "a table"
        say(losses_line(lost, title))


def draw_command(
    sources: list[str] | None = TREEBANKS,
    output: str = option("-", "-o --output OUT", "Output file.", shown="standard output"),
    shape: DrawnShape | None = option(
        None,
        "--format",
        "Output format: tree (drawn as text), svg (one picture) or html (a page).",
        shown="by the extension of OUT, else tree",
    ),
    sentences: list[str] | None = option(
        None,
        "--sentence N|ID",
        "Draw only the sentence with this number or sent_id. Repeat the option for several sentences.",
        shown="all",
    ),
    kind: TreebankKind | None = TREEBANK_KIND,
    force: bool = FORCE,
) -> None:
    """Draw the trees of a treebank.

    Each tree has the name and the text of its sentence above it. A word whose HEAD is blank has no arc.
    """
    inputs = find_treebank_inputs(sources or (), kind=kind, output=output)
    if shape is None:
        check_extension(output, shapes=get_args(DrawnShape))
        named = shape_by_name(output)
        shape = named if named == "svg" or named == "html" else "tree"
    check_output(output, [identity(source.name) for source in inputs], force=force)
    write_treebank_as(_chosen(inputs, sentences or ()), OutputFile(tuple(inputs), output, shape))


def _chosen(inputs: Sequence[Input], names: Sequence[str]) -> Iterator[Sentence]:
    """Yield the sentences with these numbers or sent_ids, or all; raise an error for a name without a sentence."""
    missing = dict.fromkeys(names)
    for sentence in chain.from_iterable(read_treebank(source.name, format=source.kind) for source in inputs):
        # A number as sent_id is the name of its sentence, whatever its place in the file.
        own = {sentence.sent_id, sentence.sent_id if sentence.sent_id.isdecimal() else str(sentence.number)}
        if not names or not own.isdisjoint(names):
            missing = {name: None for name in missing if name not in own}
            yield sentence
    for name in missing:
        path = name_of(inputs[0].name) if len(inputs) == 1 else ""
        raise TreefineError(
            f"There is no sentence {name}.", hint="Give the number or the sent_id of a sentence.", path=path
        )


def _converted(source: str, target: str, name: str | None) -> tuple[Shape, Format]:
    """Return the output format of convert: a treebank with its columns, or another format."""
    if name is not None and name not in (*FORMATS, *_CONVERTED):
        hint = f"Choose one of {', '.join([*FORMATS, *_CONVERTED])}."
        raise TreebankError(f"There is no format {name!r}.", hint=hint)
    shape = next((each for each in _CONVERTED if each == (name or shape_by_name(target))), None)
    if shape is None:
        if name is None and suffix_of(target) != suffix_of(source):
            check_extension(target, option="--to", shapes=("conllu", *_CONVERTED))
        return "conllu", format_of(target, name)
    if shape == "parquet":
        check_table(target)
    return shape, CONLLU


class TreebankFiles(NamedTuple):
    """One treebank: its gold file and the file of each system."""

    name: str
    gold: str
    systems: dict[str, str]


def system_names(paths: Sequence[str], names: Sequence[str] | None = None) -> dict[str, str]:
    """Return the paths by the names that the user gave, which may be separated by commas.

    Without them, the name is the file name without extension, or the path if these names are not unique.

    >>> list(system_names(["a/en.conllu", "b/en.conllu.gz"])), list(system_names(["a/en.conllu", "b/de.conllu"]))
    (['a/en.conllu', 'b/en.conllu.gz'], ['en', 'de'])
    """
    for number, path in enumerate(paths):
        if os.path.realpath(path) in map(os.path.realpath, paths[:number]):
            raise TreefineError("The same file is given twice.", hint="Name each system once.", path=path)
    if names is not None:
        names = [visible(name.strip()) for text in names for name in text.split(",")]
        if len(names) != len(paths) or len({*names} - {""}) != len(paths):
            message = f"--names must have {count(len(paths), 'different name')}, one per SYSTEM."
            raise TreefineError(message, hint="Separate them by commas: --names old,new.")
        return dict(zip(names, paths, strict=True))
    named = {_stem(path): path for path in paths}
    return named if len(named) == len(paths) else {visible(path): path for path in paths}


def _stem(path: str) -> str:
    """Return the printable name of a folder, or of a file without its extension."""
    if path == "-":
        return "stdin"
    place = Path(path).absolute()
    return visible(place.name if place.is_dir() else stem_of(path))


def find_treebanks(gold: str, systems: Mapping[str, str], *, format: str | None = None) -> list[TreebankFiles]:
    """Return one treebank for files, or one per gold file for folders, where files are matched by name."""
    if gold == "-" and "-" in systems.values():
        raise TreefineError("Standard input can be used only once.", hint="Use a file for GOLD or SYSTEM.")
    kinds = {path: os.path.isdir(path) for path in (gold, *systems.values())}  # noqa: PTH112 - as in `files_named`
    if not any(kinds.values()):
        return [TreebankFiles(_stem(gold), gold, dict(systems))]
    for path, is_folder in kinds.items():
        if not is_folder and (path == "-" or Path(path).exists()):  # the reader reports a path that does not exist
            other = next(each for each in kinds if kinds[each])
            hint = "Give only files, or only folders with the same file names."
            raise TreefineError(f"This is a file, but {other} is a folder.", hint=hint, path=path)
    files = {}  # by folder: its treebanks, by their paths in it
    for folder in kinds:
        listed = files_in(folder, TREEBANK_SUFFIXES, may_be_any=format is not None)
        files[folder] = {str(Path(path).relative_to(folder)): path for path, _ in listed}
    for path in systems.values():
        for name in sorted(files[gold].keys() ^ files[path].keys()):
            there, missing = (gold, path) if name in files[gold] else (path, gold)
            message = f"There is no such file to match {Path(there, name)}."
            raise TreebankError(message, path=str(Path(missing, name)))
    return [
        TreebankFiles(visible(name), path, {system: files[place][name] for system, place in systems.items()})
        for name, path in files[gold].items()
    ]
