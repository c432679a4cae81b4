"""The treefine command."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

import treefine
from treefine.cli.analyse import analyse_command
from treefine.cli.parse import parse, refine
from treefine.cli.serve import serve
from treefine.cli.systems import FORMAT_NAMES, FormatOption, RuleOption, system_names, total_size
from treefine.cli.terminal import progress
from treefine.cli.train import train
from treefine.cli.write import check_table, convert_to_table
from treefine.drawing.characters import visible
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
from treefine.model.bundled import about, bundled_models
from treefine.treebank.conllu import convert_treebank, read_treebank
from treefine.treebank.formats import format_of, suffix_of
from treefine.treebank.validate import validate as find_faults


class _Commands(TyperGroup):
    """Our errors are one line on standard error and exit code 1; --debug shows where they came from.

    Whatever a line quotes of the input, nothing in it acts on the terminal.
    """

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # whoever reads our output has seen enough: not an error
        except (TreefineError, OSError) as error:
            if ctx.params.get("debug"):
                raise
            reason = error.strerror or error if isinstance(error, OSError) else error
            for line in str(reason).split("\n"):  # of a recipe, and of several files, all faults are told at once
                typer.echo(f"treefine: {visible(line)}", err=True)
            ctx.exit(1)
        except KeyboardInterrupt as stop:
            typer.echo(" ".join(["treefine: Stopped.", *filter(None, map(str, stop.args))]), err=True)
            ctx.exit(130)  # what a shell expects after Ctrl-C


def models(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the bundled models, with their scores on the test set of their treebank."""
    found = [_described(name, folder) for name, folder in bundled_models().items()]
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False, indent=1))
    elif found:
        typer.echo(_table(found))
    else:
        typer.echo("No model is bundled.")


def _described(name: str, folder: Path) -> dict[str, Any]:
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    known = asdict(about(folder))
    scores = known.pop("scores")
    return {"name": name, **known, "bytes": size, "scores": scores}


def _table(found: Sequence[dict[str, Any]]) -> str:
    """One row a model, columns as wide as their widest cell."""
    header = ["name", "language", "treebank", "licence", "encoder", "size", "scores"]
    rows = [header]
    for each in found:
        scores = ", ".join(f"{name} {score:.2f}" for name, score in each["scores"].items())
        rows.append([*(str(each[name]) for name in header[:5]), f"{each['bytes'] / 1e6:.1f} MB", scores])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


app = typer.Typer(
    cls=_Commands, add_completion=False, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)


def _examples(*lines: str) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"treefine {treefine.__version__}")
        raise typer.Exit


@app.callback(epilog=_examples('treefine parse "Nobody knew why."', "treefine evaluate gold.conllu system.conllu"))
def main_options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """A dependency parser that corrects itself, and the tools around it.

    Files may be plain or end in .gz, .xz or .bz2; - is standard input or output.
    """


app.command(
    epilog=_examples(
        'treefine parse "Nobody knew why." --show-steps',
        "treefine parse *.txt -o parsed/ --confidence --resume",
    )
)(parse)
app.command(
    epilog=_examples(
        "treefine refine stanza.conllu -o better.conllu --changes changes.html",
        "treefine refine stanza.conllu --model models/en --steps 1 --review 0.8",
    )
)(refine)
app.command(epilog=_examples("treefine models", "treefine models --json"))(models)
app.command(
    epilog=_examples("treefine serve", "treefine serve --model en --model tr=models/tr-imst --host 0.0.0.0 --port 80")
)(serve)

app.command(
    epilog=_examples(
        "treefine train recipe.toml --output runs/first",
        "treefine train recipe.toml --output runs/second --set training.seed=2 --device cuda:1 --resume",
    )
)(train)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command(
    epilog=_examples(
        "treefine evaluate gold.conllu system.conllu",
        "treefine evaluate wsj.conllx parsed.conllx --rule ptb --labels --confusions 10",
    )
)
def evaluate(
    gold: Annotated[str, typer.Argument(metavar="GOLD", help="The file that is right.")],
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="The file to score.")],
    rule: RuleOption = "conll18",
    labels: Annotated[bool, typer.Option("--labels", help="Also score each label.")] = False,
    confusions: Annotated[
        int, typer.Option("--confusions", min=0, help="Also list the N most frequent confusions.")
    ] = 0,
    format: FormatOption = None,
    as_json: _Json = False,
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
        typer.echo("\n" + tables.confusion_table(counted, kind=kind, most=confusions))


@app.command(
    epilog=_examples(
        "treefine compare gold.conllu syntr.conllu rngtr.conllu",
        "treefine compare gold.conllu a.conllu b.conllu --metric UAS --alpha 0.05 --markdown",
    )
)
def compare(
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
    as_json: _Json = False,
) -> None:
    """Compare systems over one gold file.

    Printed are scores, differences, relative error reduction, and paired significance over sentences.
    """
    from treefine.evaluation.significance import compare as compare_systems  # which loads numpy

    if len(systems) < 2:
        raise TreefineError("There is only one system to compare.", hint="Name two files or more after the gold file.")
    with progress("Reading", total_size(gold, *systems)) as advance:
        pairs = load_pairs(gold, system_names(systems), rule=rule, format=format, on_bytes=advance)
    with progress("Resampling", samples * len(systems) * (len(systems) - 1) // 2) as advance:
        comparison = compare_systems(
            pairs, metric=metric, rule=rule, alpha=alpha, samples=samples, seed=seed, on_progress=advance
        )
    if as_json:
        _print_json(tables.comparison_json(comparison))
    else:
        typer.echo(tables.comparison_table(comparison, markdown=markdown, is_terminal=sys.stdout.isatty()))


app.command(
    "analyse",
    epilog=_examples(
        "treefine analyse gold.conllu syntr.conllu rngtr.conllu -o report.html -o report.json",
        "treefine analyse dev/ --model models/multi -o refinement.html",
    ),
)(analyse_command)


@app.command(epilog=_examples("treefine validate *.conllu", "treefine validate --format conllx --json wsj.txt"))
def validate(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="Treebanks to look at.")],
    format: FormatOption = None,
    as_json: _Json = False,
) -> None:
    """List all faults of treebanks.

    Looked at are columns, IDs, heads, cycles, roots, repeated sent_id, and text against forms. Each fault is a
    line `path:line: (sent_id, word) message`. The exit code is 1 if there is one.
    """
    faults = 0
    as_values = []
    with progress("Reading", total_size(*files)) as advance:
        for path in files:
            for fault in find_faults(path, format=format, on_bytes=advance):
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


@app.command(
    epilog=_examples(
        "treefine convert german.conll09 german.conllu --from conll09-predicted",
        "treefine convert train.conllu train.parquet",
    )
)
def convert(
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
