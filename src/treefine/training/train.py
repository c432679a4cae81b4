"""From a recipe to a model: its segmenter and initial parser first, then the parsers of the folds, then itself."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import torch
from filelock import lock_descriptor

from treefine.errors import TreefineError
from treefine.segmenter.segmenter import Segmenter
from treefine.training.checkpoint import Standing, remove_leftovers
from treefine.training.epochs import LAYOUT, Progress, Start, learn
from treefine.training.graphs import TrainingGraphs
from treefine.training.initial_parses import Source, empty_start, kept_parses, parses_of
from treefine.training.logs import LINES, Metrics, Origin
from treefine.training.prepare import Prepared, prepare_recipe, start_of
from treefine.training.processes import Processes
from treefine.training.recipe import Recipe, SegmenterTraining
from treefine.training.segmenter import SegmenterLearner

__all__ = ["LAYOUT", "Progress", "train"]


def train(
    recipe: Recipe | Prepared, output: str | os.PathLike[str], *, device: torch.device | None = None
) -> Iterator[Progress]:
    """Train what the recipe says, or go on where that was cut off; the model lies in `output`/model at the end.

    Progress is yielded batch by batch. What is wrong with the recipe's files is told before the first of them.
    """
    prepared = recipe if isinstance(recipe, Prepared) else prepare_recipe(recipe)
    folder = Path(output)
    chosen = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with Processes(chosen) as processes, locked(folder) if processes.is_first else nullcontext():
        segmenter = yield from _segmenter(prepared, folder / LAYOUT.segmenter, processes)
        origins = yield from _origins(prepared, folder, processes)
        start = yield from _start(prepared, folder, processes, origins)
        yield from learn(prepared.recipe, prepared.data, folder, processes, replace(start, segmenter=segmenter))


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other trainings out of the folder until the context ends or this process dies."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("w")  # the file stays; only a living process can hold its lock
    except OSError as error:
        raise TreefineError(f"{error.strerror or error}.", path=str(folder)) from error
    with file:
        with suppress(OSError):  # raised by a file system without locks
            if not lock_descriptor(file.fileno(), blocking=False):
                hint = "Wait for its end, or stop it; then go on with --resume."
                raise TreefineError("Another training is at work in this folder.", hint=hint, path=str(folder))
        yield


def _segmenter(prepared: Prepared, folder: Path, processes: Processes) -> Generator[Progress, None, Segmenter | None]:
    """Train the segmenter of a recipe that asks for one, in the first process; what was cut off begins anew."""
    settings = prepared.recipe.segmenter
    if settings is None:
        return None
    model = folder / LAYOUT.model
    if not processes.same(model.exists()):
        if processes.is_first:
            yield from _learn_segmenter(prepared, settings, folder, processes)
        while processes.same(False):  # so that no process waits for longer than an epoch of the first one
            pass
    return Segmenter.from_folder(model)


def _learn_segmenter(
    prepared: Prepared, settings: SegmenterTraining, folder: Path, processes: Processes
) -> Iterator[Progress]:
    remove_leftovers(folder, LAYOUT.model, LINES)
    data, seed = prepared.data, prepared.recipe.training.seed
    learner = SegmenterLearner(data.train, data.dev, settings, seed=seed, device=processes.device)
    with Metrics(folder, after_epoch=0) as metrics:
        for epoch in learner.epochs():
            f1 = {name: score.f1 for name, score in epoch.scores.items()}
            metrics.add(epoch.epoch, {"loss": epoch.loss, **f1, "seconds": epoch.seconds})
            processes.same(True)
            share, standing = epoch.epoch / settings.epochs, Standing(epoch.epoch)
            place = ("segmenter", epoch.epoch, settings.epochs, share)
            yield Progress(*place, epoch.loss, None, standing, epoch.seconds, segmentation=f1)
    learner.segmenter.save(folder / LAYOUT.model)


def _origins(prepared: Prepared, folder: Path, processes: Processes) -> Generator[Progress, None, dict[str, Origin]]:
    """Train the models that this one and its initial parser go on from, by the names of their recipes."""
    origins: dict[str, Origin] = {}
    for name, inner in prepared.starts.items():
        own = folder / LAYOUT.start / Path(name).stem
        start = empty_start(inner.recipe, inner.data)
        yield from learn(inner.recipe, inner.data, own, processes, start, stage=f"start {Path(name).stem}")
        origins[name] = Origin(str(own / LAYOUT.model), inner.recipe, inner.data)
    return origins


def _start(
    prepared: Prepared, folder: Path, processes: Processes, origins: Mapping[str, Origin]
) -> Generator[Progress, None, Start]:
    """What refinement starts from, with its parsers trained first where they have to be (Sec. 4)."""
    data, settings, form = prepared.data, prepared.recipe.initial, prepared.recipe.treebank.format or None
    recipes = prepared.mixed if prepared.initial is None else {settings.name: prepared.initial, **prepared.mixed}
    first = Source("", settings, prepared.initial, origins.get(start_of(prepared.initial)), folder)
    own = yield from parses_of(first, data, processes, form=form)
    mixed = {}
    for name, each in settings.mix.items():
        inner = prepared.mixed.get(name)
        source = Source(name, each, inner, origins.get(start_of(inner)), folder / LAYOUT.mix / name)
        mixed[name] = yield from kept_parses(source, data, processes, form=form)
    graphs = TrainingGraphs(data.train, own.train, settings, {name: each.train for name, each in mixed.items()})
    dev = {settings.name: own.dev, **{name: each.dev for name, each in mixed.items()}}
    return Start(graphs, dev, own.parser, recipes, origins.get(start_of(prepared.recipe)))
