"""Define the options that benchmarks share, and the decorator `command` that parses a benchmark's arguments."""

from __future__ import annotations

import argparse
import inspect
import os
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.rows import PREDICTIONS, ROWS, TREEBANKS


class Option(NamedTuple):
    """One argument, as `ArgumentParser.add_argument` takes it."""

    name: str
    settings: dict[str, Any]

    def but(self, **settings: Any) -> Option:
        """Return the same option with some settings changed."""
        return Option(self.name, self.settings | settings)


def option(name: str, **settings: Any) -> Option:
    """Return an option that only one benchmark has."""
    return Option(name, settings)


def count(name: str, default: int | None, help: str) -> Option:
    """Return an option that takes an integer."""
    shown = "" if default is None else f" (default: {default})"
    return option(name, type=int, default=default, help=help + shown)


MODEL = option("--model", default="en", help="name of a bundled model, or a model folder (default: en)")
TREEBANK = option("--treebank", default="en_ewt", help="name of a treebank folder (default: en_ewt)")
SPLIT = option(
    "--split",
    choices=["dev", "test"],
    default="dev",
    help="test is allowed only once for the same weights (default: dev)",
)
TREEBANKS_FOLDER = option("--treebanks", type=Path, default=TREEBANKS, help="folder that contains all treebanks")
TREEBANKS_ENV = TREEBANKS_FOLDER.but(default=Path(os.environ.get("TREEBANKS", TREEBANKS)))
ROWS_FILE = option("--rows", type=Path, default=ROWS, help="file to append rows to (default: benchmarks/rows.jsonl)")
PREDICTIONS_FOLDER = option("--predictions", type=Path, default=PREDICTIONS, help="folder for the predicted trees")
DEVICE = option("--device", default=None, help="cpu or cuda (default: a GPU if there is one)")
CPU_OR_CUDA = DEVICE.but(choices=["cpu", "cuda"], default="cpu", help="default: cpu")
ROUNDS = count("--rounds", 3, "number of rounds; in each, all systems take a turn")
THREADS = count("--threads", 2, "number of threads of each parser")
PYTHON = option(
    "--python",
    nargs="+",
    default=[],
    metavar="PACKAGE=PYTHON",
    help="Python of a venv in which the package is installed",
)
OF_ONE_MODEL = (MODEL, TREEBANK, SPLIT, TREEBANKS_FOLDER, ROWS_FILE, DEVICE)


def dev_only(split: str) -> str:
    """Reject the test set, because the results of this benchmark are used to make choices."""
    if split != "dev":
        raise argparse.ArgumentTypeError("only dev is allowed")
    return split


def command(
    *options: Option,
) -> Callable[[Callable[[argparse.Namespace], None]], Callable[[Sequence[str]], None]]:
    """Parse the arguments of `python -m benchmarks NAME` for a function `measure_NAME`; its docstring is the help."""

    def decorate(measure: Callable[[argparse.Namespace], None]) -> Callable[[Sequence[str]], None]:
        @wraps(measure)
        def run(arguments: Sequence[str]) -> None:
            parser = new_parser(measure.__name__.removeprefix("measure_"), measure.__doc__)
            add_options(parser, options)
            measure(parser.parse_args(arguments))

        return run

    return decorate


def new_parser(name: str, doc: str | None) -> argparse.ArgumentParser:
    """Return the parser of one benchmark, without options."""
    return argparse.ArgumentParser(
        prog=f"python -m benchmarks {name}",
        description=inspect.cleandoc(doc or ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_options(parser: argparse.ArgumentParser, options: Sequence[Option]) -> None:
    """Add the options to a parser."""
    for name, settings in options:
        parser.add_argument(name, **settings)
