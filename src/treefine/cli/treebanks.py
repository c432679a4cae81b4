"""The commands that read treebanks and load no model: evaluate, compare, validate and convert."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

from treefine.cli.completion import complete_format
from treefine.cli.outputs import check_table, convert_to_table
from treefine.cli.terminal import progress
from treefine.drawing.characters import visible
from treefine.errors import TreebankError, TreefineError
from treefine.evaluation import tables
from treefine.evaluation.scores import (
    all_marks,
    all_scores,
    head_confusions,
    label_confusions,
    load_pair,
    load_pairs,
    scores_by_label,
)
from treefine.treebank.conllu import convert_treebank, read_treebank, validate
from treefine.treebank.files import COMPRESSED
from treefine.treebank.formats import FORMATS, format_by_name, format_of, suffix_of

FORMAT_NAMES = f"One of {', '.join(FORMATS)}."
RuleOption = Annotated[
    str,
    typer.Option(
        "--rule",
        help="How to score: conll18 (UD, words aligned by characters), conllx (punctuation by Unicode class left out), "
        "ptb (punctuation by tag left out) or conll09 (all words).",
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        help=f"Format of the files; else told by their names. {FORMAT_NAMES}",
        autocompletion=complete_format,
    ),
]
_FAULT_FIELDS = ("path", "line", "sent_id", "sentence", "word", "message", "hint")
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def evaluate_command(
    gold: Annotated[str, typer.Argument(metavar="GOLD", help="The file that is right.")],
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="The file to score.")],
    rule: RuleOption = "conll18",
    labels: Annotated[bool, typer.Option("--labels", help="Also score each label.")] = False,
    confusions: Annotated[
        int, typer.Option("--confusions", min=0, help="Also list the N most frequent confusions.")
    ] = 0,
    format: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score a file against a gold file.

    Printed are all measures of the CoNLL 2018 shared task, or those of another corpus' rule. UEM and LEM are
    the share of whole sentences that are right, heads alone and with labels.
    """
    with progress("Reading", total_size(gold, system)) as advance:
        pair = load_pair(gold, system, rule=rule, format=format, on_bytes=advance)
    with progress("Scoring"):
        found = all_marks(pair, rule=rule)
        scores = all_scores(pair, found, rule=rule)
        by_label = scores_by_label(pair, found["LAS"], rule=rule) if labels else None
        confused = {}
        if confusions:
            confused["label"] = label_confusions(pair, found["LAS"], rule=rule)
            confused["head"] = head_confusions(pair, found["UAS"])
    if as_json:
        values: dict[str, Any] = {"gold": gold, "system": system, "rule": rule, "scores": tables.scores_json(scores)}
        if by_label is not None:
            values["labels"] = tables.scores_json(by_label)
        for kind, counted in confused.items():
            values[f"confused_{kind}s"] = tables.confusion_table(counted, most=confusions).to_records()
        _print_json(values)
        return
    typer.echo(tables.score_table(scores))
    if by_label is not None:
        typer.echo("\n" + tables.score_table(by_label, title="Label"))
    for kind, counted in confused.items():
        typer.echo("\n" + tables.confusion_table(counted, kind=kind, most=confusions).to_text())


def compare_command(
    gold: Annotated[str, typer.Argument(metavar="GOLD", help="The file that is right.")],
    systems: Annotated[
        list[str], typer.Argument(metavar="SYSTEM…", help="Two files or more to compare; differences are to the first.")
    ],
    metric: Annotated[str, typer.Option(help="LAS, UAS or another metric of the rule.")] = "LAS",
    rule: RuleOption = "conll18",
    alpha: Annotated[float, typer.Option(help="Level of significance.", min=0, max=1)] = 0.01,
    samples: Annotated[int, typer.Option(help="Number of resamplings.", min=1)] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of the random draws.", min=0)] = 1,
    format: FormatOption = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare systems over one gold file.

    Printed are scores, differences, relative error reduction, and paired significance over sentences.
    """
    from treefine.evaluation.significance import compare  # which loads numpy

    if len(systems) < 2:
        raise TreefineError("There is only one system to compare.", hint="Name two files or more after the gold file.")
    with progress("Reading", total_size(gold, *systems)) as advance:
        pairs = load_pairs(gold, system_names(systems), rule=rule, format=format, on_bytes=advance)
    with progress("Resampling", samples * len(systems) * (len(systems) - 1) // 2) as advance:
        comparison = compare(
            pairs, metric=metric, rule=rule, alpha=alpha, samples=samples, seed=seed, on_progress=advance
        )
    if as_json:
        _print_json(tables.comparison_json(comparison))
        return
    table = tables.comparison_table(comparison)
    if markdown:
        typer.echo(table.to_markdown())
    else:
        typer.echo(f"{table.to_text(is_terminal=sys.stdout.isatty())}\n\n{table.note}")


def validate_command(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="Treebanks to look at.")],
    format: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """List all faults of treebanks.

    Looked at are columns, IDs, heads, cycles, roots, repeated sent_id, and text against forms. Each fault is a
    line `path:line: (sent_id, word) message`. The exit code is 1 if there is one.
    """
    faults = 0
    as_values = []
    with progress("Reading", total_size(*files)) as advance:
        for path in files:
            for fault in validate(path, format=format, on_bytes=advance):
                faults += 1
                if as_json:
                    as_values.append({name: getattr(fault, name) for name in _FAULT_FIELDS})
                else:
                    typer.echo(str(fault))
    if as_json:
        _print_json(as_values)
    said = tables.count(faults, "fault") if faults else "no faults"
    typer.echo(f"{tables.count(len(files), 'file')}, {said}", err=True)
    raise typer.Exit(1 if faults else 0)


def convert_command(
    source: Annotated[str, typer.Argument(metavar="IN", help="The treebank to read.")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="The file to write; it appears once it is whole.")],
    from_format: Annotated[
        str | None,
        typer.Option(
            "--from", help=f"Format of IN; else told by its name. {FORMAT_NAMES}", autocompletion=complete_format
        ),
    ] = None,
    to_format: Annotated[
        str | None, typer.Option("--to", help="Format of OUT; likewise.", autocompletion=complete_format)
    ] = None,
    skip: Annotated[bool, typer.Option("--skip", help="Leave out sentences with faults instead of stopping.")] = False,
) -> None:
    """Convert between CoNLL-U, CoNLL-X and CoNLL-2009, or into a table.

    OUT may also be the same format, packed or unpacked; if it ends in .parquet it has one row a word. What the
    other format has no place for is counted on standard error. conll09 reads the gold tags of CoNLL-2009,
    conll09-predicted those of its tagger.
    """
    is_table = to_format is None and suffix_of(target) == ".parquet"
    if is_table:
        check_table(target)
    form = format_of(target, to_format)
    on_error: Literal["raise", "skip"] = "skip" if skip else "raise"
    with progress("Converting", total_size(source)) as advance:
        sentences = read_treebank(source, format=from_format, on_error=on_error, on_bytes=advance)
        lost = convert_to_table(sentences, target) if is_table else convert_treebank(sentences, target, form)
    if lost:
        typer.echo(tables.losses_line(lost, "A table" if is_table else form.title), err=True)


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=1))


class TreebankFiles(NamedTuple):
    """One treebank: its gold file and that of each system."""

    name: str
    gold: str
    systems: dict[str, str]


def system_names(paths: Sequence[str]) -> dict[str, str]:
    """Return each path by its name without ending, preceded by as many folders as tell it from the others.

    >>> list(system_names(["a/en.conllu", "b/en.conllu.gz"])), list(system_names(["a/en.conllu", "b/de.conllu"]))
    (['a/en', 'b/en'], ['en', 'de'])
    """
    places_named = [Path(path).resolve() for path in paths]
    for number, path in enumerate(paths):
        if places_named[number] in places_named[:number]:
            raise TreefineError("The same file is named twice.", hint="Name each system once.", path=path)
    places = [(*Path(path).absolute().parts[:-1], _stem(path)) for path in paths]
    for depth in range(1, max(map(len, places), default=0) + 1):
        names = [visible("/".join(parts[-depth:])) for parts in places]
        if len(set(names)) == len(names):
            return dict(zip(names, paths, strict=True))
    return {visible(path): path for path in paths}  # such as en.conllu and en.conllu.gz in one folder


def _stem(path: str) -> str:
    """Return the name of a file without its ending, or of a folder, in characters that can be shown."""
    if path == "-":
        return "stdin"
    place = Path(path).absolute()
    if place.is_dir():
        return visible(place.name)
    while place.suffix.lower() in COMPRESSED:
        place = place.with_suffix("")
    return visible(place.stem)


def find_treebanks(gold: str, systems: Mapping[str, str], *, format: str | None = None) -> list[TreebankFiles]:
    """Return the treebank that a gold file and system files are, or the treebanks in folders of them, matched by name.

    In a folder, the files whose names end as treebanks do are used, or all if the format is given. Hidden files and
    subfolders are left out.
    """
    kinds = {path: path != "-" and Path(path).is_dir() for path in (gold, *systems.values())}
    if not any(kinds.values()):
        return [TreebankFiles(_stem(gold), gold, dict(systems))]
    for path, is_folder in kinds.items():
        if not is_folder and (path == "-" or Path(path).exists()):  # the reader reports a path that does not exist
            other = next(each for each in kinds if kinds[each])
            hint = "Name files alone, or folders with files of the same names."
            raise TreefineError(f"This is a file, but {other} is a folder.", hint=hint, path=path)
    files = {path: _treebanks_in(path, format=format) for path in kinds}
    faults = []
    for path in systems.values():
        for name in sorted(files[gold].keys() ^ files[path].keys()):
            there, missing = (gold, path) if name in files[gold] else (path, gold)
            message = f"There is no such file, but there is {Path(there, name)}."
            faults.append(TreebankError(message, path=str(Path(missing, name))))
    if faults:
        raise faults[0] if len(faults) == 1 else TreefineError("\n".join(map(str, faults)))
    stems = {name: _stem(path) for name, path in files[gold].items()}
    is_short = len(set(stems.values())) == len(stems)
    return [
        TreebankFiles(
            stems[name] if is_short else visible(name),
            path,
            {system: files[place][name] for system, place in systems.items()},
        )
        for name, path in files[gold].items()
    ]


def _treebanks_in(folder: str, *, format: str | None = None) -> dict[str, str]:
    """Return the treebank files of a folder, by name; raise an error if it has none."""
    if not Path(folder).is_dir():
        raise TreebankError("There is no such folder.", path=folder)
    paths = sorted(path for path in Path(folder).iterdir() if path.is_file() and not path.name.startswith("."))
    found = {path.name: str(path) for path in paths if format is not None or format_by_name(path.name) is not None}
    if not found:
        endings = ", ".join(suffix for form in FORMATS.values() for suffix in form.suffixes)
        hint = f"Files of a folder are told by their endings: {endings}; or give --format."
        raise TreebankError("There is no treebank in this folder.", hint=hint, path=folder)
    return found


def total_size(*paths: str) -> int | None:
    """Return the size of the files together, for a progress bar, or None if one is a stream."""
    try:
        return sum(Path(path).stat().st_size for path in paths)
    except OSError:  # a stream, or a path that the reader will report
        return None
