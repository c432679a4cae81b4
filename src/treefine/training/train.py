"""From a recipe to a model: its segmenter and initial parser first, then the parsers of the folds, then itself."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import torch

from treefine.parsing.initial import empty, from_file
from treefine.parsing.parser import Parser
from treefine.parsing.segment import Segmenter
from treefine.training.checkpoint import Standing, remove_leftovers
from treefine.training.data import Data
from treefine.training.epochs import LAYOUT, Progress, Start, learn
from treefine.training.graphs import TrainingGraphs
from treefine.training.jackknife import blocks
from treefine.training.lock import locked
from treefine.training.metrics import LINES, Metrics
from treefine.training.notes import Origin
from treefine.training.prepare import Prepared, prepare_recipe, start_of
from treefine.training.processes import Processes
from treefine.training.recipe import EMPTY, FILES, Recipe, expand
from treefine.training.segmenter import SegmenterLearner
from treefine.training.segmenter_settings import SegmenterTraining
from treefine.treebank.conllu import write_treebank
from treefine.treebank.convert import convert
from treefine.treebank.formats import CONLLU
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence

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
        start = _empty_start(inner.recipe, inner.data, None)
        yield from learn(inner.recipe, inner.data, own, processes, start, stage=f"start {Path(name).stem}")
        origins[name] = Origin(str(own / LAYOUT.model), inner.recipe, inner.data)
    return origins


def _start(
    prepared: Prepared, folder: Path, processes: Processes, origins: Mapping[str, Origin]
) -> Generator[Progress, None, Start]:
    """What refinement starts from, with its parsers trained first where they have to be (Sec. 4)."""
    data, inner, settings = prepared.data, prepared.initial, prepared.recipe.initial
    own, inner_own = origins.get(start_of(prepared.recipe)), origins.get(start_of(inner))
    if settings.parser == EMPTY:
        return _empty_start(prepared.recipe, data, own)
    if settings.parser == FILES:
        form = prepared.recipe.treebank.format or None
        parses = list(from_file(expand(settings.train), format=form)(data.train))
        graphs = TrainingGraphs(data.train, parses, settings)
        return Start(graphs, list(from_file(expand(settings.dev), format=form)(data.dev)), origin=own)
    trained = expand(settings.parser)
    if inner is not None:
        place, start = folder / LAYOUT.initial, _empty_start(inner, data, inner_own)
        yield from learn(inner, data, place, processes, start, stage="initial parser")
        trained = str(place / LAYOUT.model)
    parser = Parser.from_pretrained(trained, device=processes.device)
    if inner is not None and settings.folds:
        parses = yield from _jackknifed(inner, data, folder / LAYOUT.folds, processes, settings.folds, inner_own)
    else:
        parses = _parsed(parser, data.train)
    return Start(TrainingGraphs(data.train, parses, settings), _parsed(parser, data.dev), parser, inner, own)


def _empty_start(recipe: Recipe, data: Data, origin: Origin | None) -> Start:
    return Start(TrainingGraphs(data.train, None, recipe.initial), list(empty(data.dev)), origin=origin)


def _parsed(parser: Parser, sentences: Sequence[Sentence]) -> list[Arcs]:
    return [each.arcs for each in parser.stream(sentences)]


def _jackknifed(
    recipe: Recipe, data: Data, folder: Path, processes: Processes, folds: int, origin: Origin | None
) -> Generator[Progress, None, list[Arcs]]:
    """The parses of the training set, each made by a parser that was trained on the other blocks."""
    parses: list[Arcs] = []
    for number, block in enumerate(blocks(len(data.train), folds), start=1):
        inner, held_out = folder / str(number), data.train[block.start : block.stop]
        if not processes.same((inner / LAYOUT.parses).exists()):
            rest = replace(data, train=data.train[: block.start] + data.train[block.stop :])
            start = _empty_start(recipe, rest, origin)
            yield from learn(recipe, rest, inner, processes, start, stage=f"fold {number} of {folds}")
            if processes.is_first:
                parser = Parser.from_pretrained(inner / LAYOUT.model, device=processes.device)
                parsed = (convert(each, CONLLU) for each in parser.stream(held_out))
                write_treebank(parsed, inner / LAYOUT.parses)
            processes.wait()
        if processes.is_first:
            for model in (inner / LAYOUT.model, *inner.glob(f"{LAYOUT.members}/*/{LAYOUT.model}")):
                shutil.rmtree(model, ignore_errors=True)  # nothing but its parses is needed
        parses += from_file(str(inner / LAYOUT.parses))(held_out)
    return parses
