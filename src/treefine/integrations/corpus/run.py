"""Corpora larger than one machine: a folder of outputs, written block by block by workers that may die and come back.

A block is done when its output is there, which appears whole or not at all. So a run that was cut off is gone on with
by the same command, and it does not matter who wrote a block, or how often.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import typer

from treefine.cli.inputs import Input
from treefine.cli.outputs import Job, OutputOptions, Shape, plan_jobs
from treefine.cli.parse import Loading
from treefine.cli.terminal import Advance, progress
from treefine.drawing.characters import visible
from treefine.errors import TreefineError
from treefine.evaluation import tables
from treefine.integrations.corpus.blocks import BLOCK, bytes_of, cut_jobs
from treefine.integrations.corpus.record import open_record, remove_leftovers
from treefine.integrations.corpus.worker import Outcome, told_at, told_of

Engine = Callable[[Sequence[Job], Callable[[Outcome], None]], None]
"""Parses blocks, in whatever order, and tells what came of each."""


def parse_corpus(
    inputs: Sequence[Input],
    output: str,
    shape: Shape | None,
    wanted: OutputOptions,
    loading: Loading,
    *,
    actors: int | None = None,
    workers: int | None = None,
    size: int = BLOCK,
    engine: Engine | None = None,
) -> bool:
    """Parse files into a folder with Ray (or another engine), and tell what came of it; whether nothing was wrong."""
    _refuse(inputs, output, wanted, loading)
    if engine is None:
        from treefine.integrations.corpus.ray import Ray

        engine = Ray(loading, wanted, actors=actors, workers=workers)
    jobs = plan_jobs(inputs, output, shape, wanted)
    trees_alone = jobs[0].shape == "conllu" and not wanted.confidence and wanted.k == 1
    blocks = cut_jobs(jobs, trees_alone=trees_alone, size=size)
    with open_record(Path(output), blocks, wanted, loading, size=size, trees_alone=trees_alone):
        told = _told_before(blocks, output)
        to_do = sorted(_missing(blocks, output), key=bytes_of, reverse=True)  # the largest first: none is late
        if len(to_do) < len(blocks):
            done = f"{len(blocks) - len(to_do):,} of {tables.count(len(blocks), 'block')} finished before"
            typer.echo(done, err=True)
        remove_leftovers(Path(output), blocks)
        if not to_do:
            return told.tell([], [])
        try:
            with progress("Parsing", sum(map(bytes_of, to_do)), in_bytes=True) as advance:
                _parse(engine, to_do, told, advance)
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt("Give the same command again to go on.") from stop
        remove_leftovers(Path(output), blocks)
    return told.tell(to_do, _missing(to_do, output))


def _missing(blocks: Sequence[Job], folder: str) -> list[Job]:
    """The blocks whose output is not there. The folder is listed: a shared one may remember what was not there."""
    there = set(os.listdir(folder))  # noqa: PTH208 - names alone are asked for
    return [each for each in blocks if Path(each.target).name not in there]


def _told_before(blocks: Sequence[Job], folder: str) -> _Told:
    """What earlier runs had to tell of the blocks that are finished, so that all runs tell it, with the same code."""
    there, told = set(os.listdir(folder)), _Told()  # noqa: PTH208 - as above
    for block in blocks:
        if {Path(block.target).name, told_at(block.target).name} <= there:
            told.add(replace(told_of(block.target), n_sentences=0))
    return told


def _refuse(inputs: Sequence[Input], output: str, wanted: OutputOptions, loading: Loading) -> None:
    """Tell what cannot be done on many machines."""
    if not (output.endswith(("/", os.sep)) or Path(output).is_dir()):
        raise TreefineError("--engine ray writes into a folder.", hint="Name one with -o, with a slash at its end.")
    if not all(each.is_file and Path(each.name).is_file() for each in inputs):
        raise TreefineError("--engine ray reads files alone, which it can read again.", hint="Name files.")
    if wanted.review is not None:
        raise TreefineError("--review lists sentences in order, which --engine ray has not.", hint="Leave one out.")
    if loading.device is not None and loading.device.startswith("cuda:"):
        message = f"--device {loading.device} is one GPU, and Ray gives each worker its own."
        raise TreefineError(message, hint="Write --device cuda.")
    if wanted.resume:
        raise TreefineError("--engine ray always goes on with what is there.", hint="Leave out --resume.")
    if loading.label_map is not None or wanted.also_read:
        message = "--engine ray reads no trees to start from beside its inputs."
        raise TreefineError(message, hint="Leave out --initial FILE and --label-map, or --engine ray.")


@dataclass
class _Told:
    """What is to be told at the end."""

    n_sentences: int = 0
    empty: list[TreefineError] = field(default_factory=list)
    faults: dict[str, TreefineError] = field(default_factory=dict)  # by target
    warning: TreefineError | None = None  # the first; one for each block would say the same
    lost: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        """Take over what came of a block."""
        self.empty += outcome.empty
        self.warning = self.warning or next(iter(outcome.warnings), None)
        if outcome.fault is not None:
            self.faults[outcome.target] = outcome.fault
            return
        self.n_sentences += outcome.n_sentences
        for title, lost in outcome.lost.items():
            self.lost.setdefault(title, Counter()).update(lost)

    def tell(self, blocks: Sequence[Job], missing: Sequence[Job]) -> bool:
        """Say it on standard error; whether nothing was wrong. What is missing was looked for, not heard of."""
        for block in missing:
            lost = TreefineError("A block was not written.", hint="Give the command again.", path=block.inputs[0].name)
            self.faults.setdefault(block.target, lost)
        if self.warning is not None:
            typer.echo(f"treefine: warning: {visible(str(self.warning))}", err=True)
        for title, counts in self.lost.items():
            typer.echo(tables.losses_line(counts, title), err=True)
        faults = [self.faults[block.target] for block in missing]
        for error in sorted([*self.empty, *faults], key=lambda each: (each.path, each.line or 0)):
            typer.echo(f"treefine: {visible(str(error))}", err=True)
        n_parsed = len(blocks) - len(missing)
        words = [f"{tables.count(n_parsed, 'block')} parsed, {tables.count(self.n_sentences, 'sentence')}"]
        words += [f"{len(self.empty):,} empty"] * bool(self.empty) + [f"{len(missing):,} faulty"] * bool(missing)
        if blocks:
            typer.echo("; ".join(words), err=True)
        return not self.empty and not missing


def _parse(engine: Engine, blocks: Sequence[Job], told: _Told, advance: Advance) -> None:
    sizes = {each.target: bytes_of(each) for each in blocks}

    def add(outcome: Outcome) -> None:
        if outcome.is_worker_unfit and outcome.fault is not None:
            raise outcome.fault
        told.add(outcome)
        advance(sizes[outcome.target], sentences=outcome.n_sentences)

    engine(blocks, add)
