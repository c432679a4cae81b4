"""The treefine command: its subcommands, and how it prints their errors."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from treefine.cli.analyse import analyse_command
from treefine.cli.info import info_command, models_command, version_line
from treefine.cli.options import option
from treefine.cli.parse import parse_command, refine_command
from treefine.cli.serve import annotate_command, serve_command
from treefine.cli.terminal import Detail, choose_detail, say
from treefine.cli.train import new_recipe_command, train_command
from treefine.cli.treebanks import compare_command, convert_command, draw_command, evaluate_command, validate_command
from treefine.cores import limit_spinning
from treefine.errors import TreefineError, visible
from treefine.jobs.outputs import drop_stdout

_STRING_TYPE = re.compile(r" <(?:str|list\[str\])>$")  # after the name of an argument in the help of newer Typer
_LITERAL_DEFAULT = re.compile(r'(?<=\[default: )\((?:"(\w+)"|([\d.]+))\)')  # a value, not a description


@cache
def plugged_in() -> dict[str, EntryPoint]:
    """Return the commands of other installed packages, by name, without loading them."""
    return {each.name: each for each in entry_points(group="treefine.commands")}


class _Commands(TyperGroup):
    """Print treefine's errors on standard error and exit with code 1; --debug shows the traceback instead.

    Control characters that an error quotes from the input are escaped, so they cannot affect the terminal. A command
    of another package is loaded when it is called or listed.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *plugged_in()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None or cmd_name not in plugged_in():
            return command
        plugin = typer.Typer(add_completion=False, rich_markup_mode=None)
        plugin.command(cmd_name, cls=_Command)(plugged_in()[cmd_name].load())
        return typer.main.get_command(plugin)

    def main(self, *arguments: Any, **options: Any) -> Any:
        start = time.monotonic()
        with warnings.catch_warnings():
            try:
                return super().main(*arguments, **options)
            except SystemExit as end:
                if not end.code:
                    say(f"treefine: finished in {time.monotonic() - start:.1f} s", detail=Detail.VERBOSE)
                raise
            finally:
                choose_detail(Detail.NORMAL)

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _reader_may_stop():  # --help and --version print here
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        try:
            with _reader_may_stop():
                return super().invoke(ctx)
        except typer.BadParameter as error:  # newer versions of Typer print the words of Pydantic
            error.message = error.message.removeprefix("Value error, ").partition(", unable to parse")[0]
            raise
        except (TreefineError, OSError) as error:
            if ctx.params.get("debug"):
                raise
            reason: object = error
            if isinstance(error, OSError) and error.strerror:
                reason = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
            for line in str(reason).split("\n"):  # one line per error of a recipe or of several files
                typer.echo(f"treefine: {visible(line)}", err=True)
            ctx.exit(1)
        except KeyboardInterrupt as stop:
            typer.echo(" ".join(["treefine: Stopped.", *filter(None, map(str, stop.args))]), err=True)
            ctx.exit(130)  # the shell's code for Ctrl-C


@contextmanager
def _reader_may_stop() -> Iterator[None]:
    """End with code 0 if the reader of the output has stopped, as `head` does after some lines."""
    try:
        yield
    except BrokenPipeError:
        drop_stdout()
        raise typer.Exit from None


class _Command(TyperCommand):
    """A subcommand, after which the main options --quiet and --verbose may stand too."""

    def get_params(self, ctx: Any) -> list[Any]:
        main = () if ctx.parent is None else ctx.parent.command.params
        *own, last = super().get_params(ctx)  # the last is --help
        return [*own, *(each for each in main if each.name in ("quiet", "verbose")), last]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write = formatter.write_dl

        def write_plainly(rows: Any, *places: Any, **options: Any) -> None:
            rows = [(_STRING_TYPE.sub("", names), _LITERAL_DEFAULT.sub(r"\1\2", text)) for names, text in rows]
            write(rows, *places, **options)

        formatter.write_dl = write_plainly
        super().format_options(ctx, formatter)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _examples(*lines: str) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(version_line())
        raise typer.Exit


def _detail_option(usage: str, description: str, detail: Detail) -> Any:
    def choose(is_chosen: bool) -> None:
        if is_chosen:
            choose_detail(detail)

    return option(False, usage, description, callback=choose, expose_value=False)


@app.callback(epilog=_examples('treefine parse "Nobody knew why."', "treefine evaluate gold.conllu system.conllu"))
def main_options(
    quiet: bool = _detail_option("-q --quiet", "Print only errors: no progress, warnings or summaries.", Detail.QUIET),
    verbose: bool = _detail_option("-v --verbose", "Also print what is loaded and how long it takes.", Detail.VERBOSE),
    debug: bool = option(False, "--debug", "Show the full traceback of an error."),
    version: bool = option(False, "--version", "Print the version and exit.", callback=_print_version, is_eager=True),
) -> None:
    """Parse text into dependency trees, correct the trees of other parsers, and train and evaluate parsers.

    Files that end in .gz, .xz, .bz2 or .zst are read and written compressed. - is standard input or output.
    """
    limit_spinning()  # here, because the commands import torch


_EXAMPLES = """
treefine parse "Nobody knew why." --show-steps
treefine parse *.txt -o parsed/ --confidence --resume
treefine refine stanza.conllu -o better.conllu --changes changes.html
treefine refine stanza.conllu --model models/en --steps 1 --review 0.8
treefine models
treefine models --json
treefine annotate parsed.conllu
treefine annotate anna.conllu ben.conllu --adjudicate agreed.conllu
treefine serve
treefine serve --model en --model tr=models/tr-imst --host 0.0.0.0 --port 80
treefine new-recipe my.toml
treefine new-recipe my.toml --kind refine
treefine train recipe.toml --output runs/first
treefine train recipe.toml --output runs/second --set training.seed=2 --device cuda:1 --resume
treefine evaluate gold.conllu system.conllu
treefine evaluate wsj.conllx parsed.conllx --rule ptb --labels --confusions 10
treefine compare gold.conllu syntr.conllu rngtr.conllu
treefine compare gold.conllu a.conllu b.conllu --metric UAS --alpha 0.05 --markdown
treefine analyse gold.conllu syntr.conllu rngtr.conllu -o report.html -o report.json
treefine analyse dev/ --model models/multi -o refinement.html
treefine validate *.conllu
treefine validate --format conllx --json wsj.txt
treefine convert german.conll09 german.conllu --from conll09-predicted
treefine convert train.conllu train.parquet
treefine draw gold.conllu --sentence 5
treefine draw gold.conllu -o trees.html
treefine info
treefine info --json
"""
for _command in (  # in the order of `treefine --help`
    parse_command,
    refine_command,
    annotate_command,
    models_command,
    serve_command,
    new_recipe_command,
    train_command,
    evaluate_command,
    compare_command,
    analyse_command,
    validate_command,
    convert_command,
    draw_command,
    info_command,
):
    _name = _command.__name__.removesuffix("_command").replace("_", "-")
    _lines = [line for line in _EXAMPLES.splitlines() if line.split()[1:2] == [_name]]
    app.command(_name, cls=_Command, epilog=_examples(*_lines))(_command)
