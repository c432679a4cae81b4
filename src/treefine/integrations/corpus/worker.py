"""What each machine does with a block of a corpus: what the command does with a file, and what came of it.

Nothing here knows of Ray.
"""

from __future__ import annotations

import json
import os
import platform
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from treefine import errors
from treefine.cli.outputs import Job, OutputOptions
from treefine.cli.parse import Loading, load_parser
from treefine.cli.stream import JobRunner
from treefine.errors import TreefineError
from treefine.fast.file_workers import FileParser
from treefine.integrations.corpus.blocks import block_of, in_file
from treefine.integrations.corpus.record import agree_on_numbers
from treefine.parsing.parser import Parser
from treefine.treebank.files import not_written, open_output
from treefine.version import __version__

MOST_ATTEMPTS = 3  # at a block; one whose every worker dies would else be tried for ever


@dataclass(frozen=True)
class Orders:
    """What all workers have to know."""

    loading: Loading
    wanted: OutputOptions
    folder: str  # in which the command was given, and names of files are to be read
    threads: int  # of a CPU
    workers: int | None  # processes that read and write beside the model
    version: str = __version__


@dataclass
class Outcome:
    """What came of a block."""

    target: str
    n_sentences: int = 0
    empty: list[TreefineError] = field(default_factory=list)  # inputs without a sentence
    warnings: list[TreefineError] = field(default_factory=list)
    lost: dict[str, Counter[str]] = field(default_factory=dict)  # by the title of the format that has no place for it
    fault: TreefineError | None = None  # why it was not written
    is_worker_unfit: bool = False  # whether no block could be parsed where this was tried

    def to_json(self) -> str:
        """As text."""
        errors = {name: list(map(_error_values, getattr(self, name))) for name in ("empty", "warnings")}
        return json.dumps(vars(self) | errors | {"fault": _error_values(self.fault)})

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """The outcome that was written so."""
        values: dict[str, Any] = json.loads(text)
        for name in ("empty", "warnings"):
            values[name] = [_error_of(each) for each in values[name]]
        lost = {title: Counter(counts) for title, counts in values["lost"].items()}
        return cls(**values | {"lost": lost, "fault": _error_of(values["fault"])})


def _error_values(error: TreefineError | None) -> dict[str, Any] | None:
    """Return an error as values that JSON can hold."""
    return None if error is None else {"class": type(error).__name__, **vars(error)}


def _error_of(values: Mapping[str, Any] | None) -> TreefineError | None:
    """Return the error that has these values."""
    if values is None:
        return None
    kind: type[TreefineError] = getattr(errors, values["class"])
    return kind(**{name: value for name, value in values.items() if name != "class"})


class BrokenError(RuntimeError):
    """An error that is not of a block, of which an attempt was noted: the worker must not be used any more."""


class BlockParser:
    """A parser that is loaded with the first block and stays for the next ones.

    What is wrong with a block is told; an error that is not of the block is a BrokenError, and the worker must
    not be used any more. Another one can try the block again.
    """

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self._parser: Parser | None = None
        self._files: FileParser | None = None

    def __call__(self, row: dict[str, Any]) -> dict[str, str]:
        """Parse the block of a row; what came of it as a row."""
        return {"outcome": self._outcome(block_of(row)).to_json()}

    def _outcome(self, block: Job) -> Outcome:
        try:
            self._enter()
        except TreefineError as error:
            return Outcome(block.target, fault=error, is_worker_unfit=True)
        if Path(block.target).exists():  # the worker that wrote it died before it could say so
            return replace(told_of(block.target), target=block.target)
        outcome = Outcome(block.target)
        try:
            with _attempt(block):
                try:
                    parser = self._parser or self._load(Path(block.target).parent)
                except TreefineError as error:
                    return replace(outcome, fault=error, is_worker_unfit=True)
                self._parse(parser, block, outcome)
        except TreefineError as error:
            outcome.fault = error
        return outcome

    def _enter(self) -> None:
        """Go where the names of files are to be read."""
        orders = self.orders
        if orders.version != __version__:
            message = f"A worker has treefine {__version__}, and the command was given to {orders.version}."
            raise TreefineError(message, hint="Install the same version on all machines.")
        try:
            os.chdir(orders.folder)
        except OSError as error:
            hint = "Start from a folder that all machines share under this name."
            raise TreefineError(
                f"A worker cannot enter the folder: {error.strerror}.", hint=hint, path=orders.folder
            ) from error

    def _load(self, folder: Path) -> Parser:
        torch.set_num_threads(self.orders.threads)
        parser = load_parser(self.orders.loading)
        agree_on_numbers(folder, parser.precision, parser.device.type)
        self._files = FileParser.of(parser, self.orders.workers)
        self._parser = parser
        return parser

    def _parse(self, parser: Parser, block: Job, outcome: Outcome) -> None:
        """Write the output of a block, and fill in what came of it."""
        (source,) = block.inputs

        def advance(amount: int = 0, /, *, sentences: int = 0) -> None:
            outcome.n_sentences += sentences

        runner = JobRunner(
            parser,
            self.orders.wanted,
            advance,
            files=self._files,
            on_warning=outcome.warnings.append,
            on_empty=outcome.empty.append,
        )
        try:
            runner.run(block)
        except TreefineError as error:
            if self._files is not None and not error.path:  # a process that reads and writes has ended, for all blocks
                raise RuntimeError(str(error)) from error
            outcome.fault = in_file(error, source)
        outcome.warnings = [in_file(each, source) for each in outcome.warnings]
        outcome.lost = {form.title: lost for form, lost in runner.lost.items() if lost}
        if outcome.fault is None:
            _keep(outcome)


def told_at(target: str) -> Path:
    """The file beside an output that keeps what is to be told of it, by each run that finds it finished."""
    path = Path(target)
    return path.with_name(f".{path.name}.told")


def told_of(target: str) -> Outcome:
    """What came of a block that is finished, as far as it was kept."""
    path = told_at(target)
    return Outcome.from_json(path.read_text(encoding="utf-8")) if path.exists() else Outcome(target)


def _keep(outcome: Outcome) -> None:
    if outcome.empty or outcome.warnings or outcome.lost:
        with open_output(told_at(outcome.target), is_synced=True) as stream:
            stream.write(outcome.to_json().encode())
    else:
        told_at(outcome.target).unlink(missing_ok=True)


def attempts_at(target: str) -> list[Path]:
    """The files that tell of attempts at a block; those that stay are of workers that died."""
    path = Path(target)
    return [path.with_name(f".{path.name}.{number}.attempt") for number in range(1, MOST_ATTEMPTS + 1)]


@contextmanager
def _attempt(block: Job) -> Iterator[None]:
    """Leave a file for as long as the block is under way, which stays if this process is killed or has to end."""
    paths = attempts_at(block.target)
    for path in paths:
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(f"{os.getpid()} on {platform.node()}\n")
        except FileExistsError:
            continue
        except OSError as error:
            raise not_written(error.strerror or str(error), block.target) from error
        try:
            yield
        except Exception as error:
            with path.open("a", encoding="utf-8") as file:  # for whoever has to give the block up
                file.write(f"{type(error).__name__}: {error}\n")
            raise BrokenError(str(error)) from error
        path.unlink(missing_ok=True)
        return
    reasons = paths[-1].read_text(encoding="utf-8").splitlines()[1:2]
    message = f"{MOST_ATTEMPTS} workers died with this block{': ' if reasons else '.'}{''.join(reasons)}"
    hint = "" if reasons else "Did memory run out? The logs of Ray tell more."
    raise TreefineError(message, hint=hint, path=block.inputs[0].name)
