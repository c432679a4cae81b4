"""From a recipe to a model: its initial parser first, then the epochs, then the best of them in a folder."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from treefine.errors import TreefineError
from treefine.parsing.initial import InitialParser, empty, from_file
from treefine.parsing.parser import Parser
from treefine.training.checkpoint import Checkpoint, Standing, load_checkpoint, save_checkpoint
from treefine.training.data import Data, load_data
from treefine.training.graphs import TrainingGraphs
from treefine.training.jackknife import blocks
from treefine.training.learn import Learner
from treefine.training.measure import Accuracy, Measure
from treefine.training.metrics import Metrics
from treefine.training.notes import notes_of
from treefine.training.processes import Processes
from treefine.training.recipe import EMPTY, FILES, Recipe, TrainingSettings, expand, read_recipe
from treefine.training.start import start_model
from treefine.treebank.conllu import write_treebank
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence


@dataclass(frozen=True)
class Layout:
    """What lies in the folder of a training."""

    model: str = "model"
    checkpoints: str = "checkpoints"
    initial: str = "initial"  # the training of the initial parser
    folds: str = "folds"  # those of the parsers that parse the training set
    parses: str = "parses.conllu.gz"  # what one of them made of its block


LAYOUT = Layout()


@dataclass(frozen=True)
class Progress:
    """How far a training is."""

    stage: str  # "" for the model itself, else which of its initial parsers
    epoch: int
    epochs: int
    share: float  # of the stage's epochs
    loss: float  # a word and step
    accuracy: Accuracy | None  # on dev, at the end of an epoch
    standing: Standing  # with the best epoch so far
    seconds: float  # since the stage began

    def values(self) -> dict[str, float]:
        """The numbers of an epoch, by name."""
        found = {"loss": self.loss, "seconds": self.seconds}
        if self.accuracy is not None:
            found |= {"UAS": self.accuracy.uas, "LAS": self.accuracy.las}
            found |= {f"LAS_{t}": las for t, las in enumerate(self.accuracy.las_by_step, start=1)}
        return found


def train(recipe: Recipe, output: str | os.PathLike[str], *, device: torch.device | None = None) -> Iterator[Progress]:
    """Train what the recipe says, or go on where it was cut off; the model lies in `output`/model at the end.

    Progress is yielded batch by batch. What is wrong with the recipe's files is told before the first of them.
    """
    processes = Processes(device or torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    folder, data, settings = Path(output), load_data(recipe.treebank), recipe.initial
    parses: Sequence[Arcs] | None = None
    initial: Parser | InitialParser = empty
    dev_parses = list(empty(data.dev))
    if settings.parser == FILES:
        parses = list(from_file(expand(settings.train))(data.train))
        dev_parses = list(from_file(expand(settings.dev))(data.dev))
    elif settings.parser != EMPTY:
        inner = _initial_recipe(recipe)
        trained = folder / LAYOUT.initial / LAYOUT.model
        if inner is None:
            trained = Path(expand(settings.parser))
        else:
            yield from _learn(inner, data, folder / LAYOUT.initial, processes, stage="initial parser")
        initial = Parser.from_pretrained(trained, device=processes.device)
        dev_parses = _parsed(initial, data.dev)
        if inner is not None and settings.folds:
            parses = yield from _jackknifed(inner, data, folder / LAYOUT.folds, processes, settings.folds)
        else:
            parses = _parsed(initial, data.train)
    graphs = TrainingGraphs(data.train, parses, settings)
    yield from _learn(recipe, data, folder, processes, graphs=graphs, dev_parses=dev_parses, initial=initial)


def _initial_recipe(recipe: Recipe) -> Recipe | None:
    """The recipe of the initial parser, with the seed of the whole; None if it is a model that is there."""
    name = expand(recipe.initial.parser)
    if Path(name).is_dir():
        return None
    inner = read_recipe(name)
    if inner.initial.parser != EMPTY:
        raise TreefineError(f"The initial parser {name} has an initial parser itself.", hint="Train it apart.")
    return replace(inner, training=replace(inner.training, seed=recipe.training.seed))


def _parsed(parser: Parser, sentences: Sequence[Sentence]) -> list[Arcs]:
    return [each.arcs for each in parser.stream(sentences)]


def _jackknifed(
    recipe: Recipe, data: Data, folder: Path, processes: Processes, folds: int
) -> Generator[Progress, None, list[Arcs]]:
    """The parses of the training set, each made by a parser that was trained on the other blocks."""
    parses: list[Arcs] = []
    for number, block in enumerate(blocks(len(data.train), folds), start=1):
        inner, held_out = folder / str(number), data.train[block.start : block.stop]
        if not (inner / LAYOUT.parses).exists():
            rest = replace(data, train=data.train[: block.start] + data.train[block.stop :])
            yield from _learn(recipe, rest, inner, processes, stage=f"fold {number} of {folds}")
            if processes.is_first:
                parser = Parser.from_pretrained(inner / LAYOUT.model, device=processes.device)
                write_treebank(parser.stream(held_out), inner / LAYOUT.parses)
                shutil.rmtree(inner / LAYOUT.model)
            processes.total(0)  # wait for the file
        parses += from_file(str(inner / LAYOUT.parses))(held_out)
    return parses


def _learn(
    recipe: Recipe,
    data: Data,
    folder: Path,
    processes: Processes,
    *,
    stage: str = "",
    graphs: TrainingGraphs | None = None,
    dev_parses: Sequence[Arcs] | None = None,
    initial: Parser | InitialParser = empty,
) -> Iterator[Progress]:
    """Train one model in its folder, unless that was done before."""
    if (folder / LAYOUT.model).exists():
        return
    settings = recipe.training
    model = start_model(recipe, data.train)
    graphs = graphs or TrainingGraphs(data.train, None, recipe.initial)
    dev_parses = dev_parses or list(empty(data.dev))
    learner = Learner(model, recipe, data.train, graphs, processes)
    measure = Measure(data.dev, model.vocabulary.labels, rule=recipe.treebank.rule)
    standing, best = Standing(), model.state_dict()
    checkpoint = load_checkpoint(folder / LAYOUT.checkpoints)
    if checkpoint is not None:
        standing, best = checkpoint.standing, checkpoint.best
        model.load_state_dict(checkpoint.weights)
        learner.optimiser.load_state(checkpoint.optimiser)
    metrics = Metrics(folder, after_epoch=standing.epoch) if processes.is_first else None
    began, saved = time.monotonic() - standing.seconds, time.monotonic()
    while not _is_over(standing, settings):
        epoch, losses = standing.epoch + 1, [0.0]
        for share, loss in learner.epoch(epoch):
            losses.append(loss)
            done = (epoch - 1 + share) / settings.epochs
            yield Progress(stage, epoch, settings.epochs, done, _mean(losses), None, standing, time.monotonic() - began)
        accuracy = None
        if epoch % settings.dev_every == 0 or epoch == settings.epochs:
            accuracy = learner.measure(data.dev, dev_parses, measure)
            if processes.same(accuracy.las) > standing.best_las:
                best = learner.measured_weights()
                standing = replace(standing, best_epoch=epoch, best_las=accuracy.las, best_uas=accuracy.uas)
        standing = replace(standing, epoch=epoch, seconds=time.monotonic() - began)
        progress = Progress(
            stage, epoch, settings.epochs, epoch / settings.epochs, _mean(losses), accuracy, standing, standing.seconds
        )
        if metrics is not None:
            metrics.add(epoch, progress.values())
            if time.monotonic() - saved >= 60 * settings.checkpoint_minutes:
                whole = Checkpoint(standing, model.state_dict(), best, learner.optimiser.state())
                save_checkpoint(folder / LAYOUT.checkpoints, whole)
                saved = time.monotonic()
        yield progress
    if processes.is_first:
        model.load_state_dict(best)
        parser = Parser(model, initial=initial, max_steps=recipe.refine.max_steps, device=processes.device)
        parser.save(folder / LAYOUT.model, notes=notes_of(recipe, data, standing))
        shutil.rmtree(folder / LAYOUT.checkpoints, ignore_errors=True)
    processes.total(0)  # wait for the model


def _is_over(standing: Standing, settings: TrainingSettings) -> bool:
    return standing.epoch >= settings.epochs or standing.epoch - standing.best_epoch > settings.patience


def _mean(losses: list[float]) -> float:
    return sum(losses) / max(1, len(losses) - 1)
