"""The commands that need no model: evaluate, compare, validate, convert and draw."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import typer

from treefine.cli.options import (
    FORCE,
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
    OutputOptions,
    Shape,
    check_extension,
    check_output,
    check_table,
    shape_by_name,
    stem_of,
    write_file,
)
from treefine.treebank import conllu
from treefine.treebank.conllu import TREEBANK_SUFFIXES, convert, losses, read_treebank, suffix_of, validate
from treefine.treebank.files import name_of
from treefine.treebank.sentence import Format, Sentence

ConvertedShape = Literal["json", "csv", "tsv", "parquet", "svg", "html"]  # besides treebanks
_CONVERTED: tuple[Shape, ...] = get_args(ConvertedShape)
_FAULT_FIELDS = ("path", "line", "sent_id", "sentence", "word", "message", "hint")


def evaluate_command(
    gold: str = GOLD,
    system: str = argument(..., "SYSTEM", "Treebank to score, or a folder with GOLD's file names."),
    rule: str = RULE,
    labels: bool = option(False, "--labels", "Also print the scores of each label."),
    confusions: int = option(0, "--confusions N", "Also list the N most frequent confusions.", min=0),
    agreement: bool = option(False, "--agreement", "Print the agreement of two annotators, GOLD and SYSTEM, instead."),
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
    values: dict[str, Any]
    with progress("Scoring", total_size(*chain.from_iterable(files))) as advance:
        read = partial(read_treebank, format=format, on_bytes=advance)
        if agreement:
            agreed = agreement_of_pairs(chain.from_iterable(sentence_pairs(*map(read, each)) for each in files))
            values = {"first": gold, "second": system, **agreed.to_dict()}
            shown = [agreed.to_text(confusions=confusions)]
        else:
            pairs = chain.from_iterable(stretches(*each, is_ud=rule_of(rule).is_ud, read=read) for each in files)
            scored = evaluate_stretches(pairs, rule=rule, labels=labels, confusions=bool(confusions))
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
    systems: list[str] = argument(..., "SYSTEM", "Two or more treebanks, or folders with GOLD's file names."),
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

    Prints scores, differences from the first system, relative error reduction (RER), and the p-values of paired tests
    over sentences. The files of a folder are compared together.
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
    table = tables.comparison_table(comparison)
    if as_json:
        print_json(tables.comparison_json(comparison))
    else:
        typer.echo(table.to_markdown() if markdown else f"{table.to_text()}\n\n{table.note}")


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
    from_format: TreebankKind | None = option(None, "--from", "Format of IN.", shown="by the file name"),
    to_format: Literal[TreebankKind, ConvertedShape] | None = option(
        None,
        "--to",
        "Format of OUT: a treebank, json (one object per line), a table (one row per word), or drawings.",
        shown="by the file name",
    ),
    skip: bool = option(False, "--skip", "Skip invalid sentences instead of stopping."),
    force: bool = FORCE,
) -> None:
    """Convert treebanks to other formats, tables and drawings.

    The treebank formats are CoNLL-U, CoNLL-X and CoNLL-2009; conll09 uses the gold tags of CoNLL-2009,
    conll09-predicted its predicted tags. Data that a treebank OUT cannot hold is counted on standard error.
    """
    shape, form = _converted(source, target, to_format)
    reads = [] if source == "-" else [identity(source)]
    check_output(target, reads, reads if shape == "conllu" else (), force=force)
    on_error: Literal["raise", "skip"] = "skip" if skip else "raise"
    lost = Counter[str]()

    with progress("Converting", total_size(source)) as advance:
        sentences = read_treebank(source, format=from_format, on_error=on_error, on_bytes=advance)
        file, options = OutputFile((Input(source),), target, shape, form), OutputOptions(title="Trees")
        write_file(sentences if form is None else _counted(sentences, form, lost), file, options)
    if form is not None and lost:
        say(losses_line(lost, form.title))


def _counted(sentences: Iterable[Sentence], form: Format, lost: Counter[str]) -> Iterator[Sentence]:
    for sentence in sentences:
        lost.update(losses(sentence, form))
        yield convert(sentence, form)


def draw_command(
    sources: list[str] | None = TREEBANKS,
    output: str = option("-", "-o --output OUT", "Output file.", shown="standard output"),
    shape: DrawnShape | None = option(
        None,
        "--format",
        "tree (drawn as text), svg (a picture) or html (a page).",
        shown="by OUT's extension, else tree",
    ),
    sentences: list[str] | None = option(
        None, "--sentence N|ID", "Draw only the sentence with this number or sent_id. Can be repeated.", shown="all"
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
    drawn = shape or shape_by_name(output) or "tree"
    check_output(output, [identity(source.name) for source in inputs], force=force)
    file = OutputFile(tuple(inputs), output, drawn)
    write_file(_chosen(inputs, sentences or ()), file, OutputOptions(title="Trees"))


def _chosen(inputs: Sequence[Input], names: Sequence[str]) -> Iterator[Sentence]:
    """Yield the sentences with these numbers or sent_ids, or all; raise an error for a name without a sentence."""
    missing = dict.fromkeys(names)
    for sentence in chain.from_iterable(read_treebank(source.name, format=source.kind) for source in inputs):
        # A number as sent_id is the name of its sentence, whatever its place in the file.
        own = {sentence.sent_id, sentence.sent_id if sentence.sent_id.isdecimal() else str(sentence.number)}
        if not names or not own.isdisjoint(names):
            missing = {name: None for name in missing if name not in own}
            yield sentence
    if missing:
        path = name_of(inputs[0].name) if len(inputs) == 1 else ""
        hint = "Give the number or the sent_id of a sentence."
        raise TreefineError(f"There is no sentence {next(iter(missing))}.", hint=hint, path=path)


def _converted(source: str, target: str, name: str | None) -> tuple[Shape, Format | None]:
    shape = next((each for each in _CONVERTED if each == (name or shape_by_name(target))), None)
    if shape == "parquet":
        check_table(target)
    if shape is not None:
        return shape, None
    if name is None and suffix_of(target) != suffix_of(source):
        check_extension(target, option="--to", shapes=("conllu", *_CONVERTED))
    return "conllu", conllu.format_of(target, name)


class TreebankFiles(NamedTuple):
    """One treebank: its gold file and the file of each system."""

    name: str
    gold: str
    systems: dict[str, str]


def system_names(paths: Sequence[str], names: Sequence[str] | None = None) -> dict[str, str]:
    """Return the paths by the names that the user gave, or by their file names without extension if these are unique.

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
    if path == "-":
        return "stdin"
    place = Path(path).absolute()
    return visible(place.name if place.is_dir() else stem_of(path))


def find_treebanks(gold: str, systems: Mapping[str, str], *, format: str | None = None) -> list[TreebankFiles]:
    """Return one treebank for files, or one per gold file for folders, where files are matched by name."""
    if gold == "-" and "-" in systems.values():
        raise TreefineError("Standard input can be used only once.", hint="Use a file for GOLD or SYSTEM.")
    folders = [path for path in (gold, *systems.values()) if os.path.isdir(path)]  # noqa: PTH112 - as in `files_named`
    if not folders:
        return [TreebankFiles(_stem(gold), gold, dict(systems))]
    files = {}  # by folder: its treebanks, by their paths in it
    for path in (gold, *systems.values()):
        if path not in folders and (path == "-" or Path(path).exists()):
            hint = "Give only files, or only folders with the same file names."
            raise TreefineError(f"This is a file, but {folders[0]} is a folder.", hint=hint, path=path)
        listed = files_in(path, TREEBANK_SUFFIXES, may_be_any=format is not None)
        files[path] = {str(Path(file).relative_to(path)): file for file, _ in listed}
    for path in systems.values():
        if unmatched := sorted(files[gold].keys() ^ files[path].keys()):
            there, missing = (gold, path) if unmatched[0] in files[gold] else (path, gold)
            message = f"There is no such file to match {Path(there, unmatched[0])}."
            raise TreebankError(message, path=str(Path(missing, unmatched[0])))
    return [
        TreebankFiles(visible(name), path, {system: files[place][name] for system, place in systems.items()})
        for name, path in files[gold].items()
    ]
