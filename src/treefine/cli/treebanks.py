"""The commands that read treebanks and load no model: evaluate, compare, validate and convert."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Literal

import typer

from treefine.cli.systems import FORMAT_NAMES, FormatOption, RuleOption, system_names, total_size
from treefine.cli.terminal import progress
from treefine.cli.write import check_table, convert_to_table
from treefine.errors import TreefineError
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
from treefine.treebank.conllu import convert_treebank, read_treebank
from treefine.treebank.formats import format_of, suffix_of
from treefine.treebank.validate import validate

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
        values = tables.evaluation_json(scores, by_label, confused, most=confusions)
        _print_json({"gold": gold, "system": system, "rule": rule} | values)
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
                    as_values.append(tables.error_json(fault))
                else:
                    typer.echo(str(fault))
    if as_json:
        _print_json(as_values)
    typer.echo(
        f"{tables.count(len(files), 'file')}, {tables.count(faults, 'fault') if faults else 'no faults'}", err=True
    )
    raise typer.Exit(1 if faults else 0)


def convert_command(
    source: Annotated[str, typer.Argument(metavar="IN", help="The treebank to read.")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="The file to write; it appears once it is whole.")],
    from_format: Annotated[
        str | None, typer.Option("--from", help=f"Format of IN; else told by its name. {FORMAT_NAMES}")
    ] = None,
    to_format: Annotated[str | None, typer.Option("--to", help="Format of OUT; likewise.")] = None,
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
