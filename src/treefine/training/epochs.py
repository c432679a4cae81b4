"""One model trained in its folder: epochs, dev scores, checkpoints, the best of them saved (Sec. 3.3)."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from treefine.errors import TreefineError
from treefine.evaluation.scores import evaluate
from treefine.model.folder import load_model
from treefine.model.parser_model import ParserModel
from treefine.parsing.initial import InitialParser, empty
from treefine.parsing.parser import Parser
from treefine.segmenter.segmenter import Segmenter
from treefine.training.calibrate import calibrated
from treefine.training.checkpoint import Checkpoint, Standing, load_checkpoint, remove_leftovers, save_checkpoint
from treefine.training.data import Data
from treefine.training.dev_scores import Accuracy, Measure, mean_accuracy
from treefine.training.graphs import TrainingGraphs
from treefine.training.learner import Learner
from treefine.training.logs import LINES, Metrics, Origin, notes_of
from treefine.training.optimiser import rate_factor
from treefine.training.processes import Processes
from treefine.training.recipe import Recipe, TrainingSettings
from treefine.training.start_model import start_model
from treefine.treebank.graph import Arcs


@dataclass(frozen=True)
class Layout:
    """What lies in the folder of a training."""

    model: str = "model"
    checkpoints: str = "checkpoints"
    start: str = "start"  # the trainings of what the model goes on from,
    initial: str = "initial"  # of the initial parser,
    mix: str = "mix"  # of those that are mixed in, each in a folder of its name,
    members: str = "members"  # of the models whose weights are averaged,
    folds: str = "folds"  # of the parsers that parse the training set,
    segmenter: str = "segmenter"  # and of the segmenter
    parses: str = "parses.conllu.gz"  # what a parser of a fold made of its block
    train_parses: str = "train.conllu.gz"  # what one that is mixed in made of the training set …
    dev_parses: str = "dev.conllu.gz"  # … and of dev


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
    segmentation: dict[str, float] = field(default_factory=dict)  # F1 of a segmenter on dev: Tokens, Sentences, Words


@dataclass(frozen=True)
class Start:
    """What refinement starts from: on the training set, on dev, and in the model that is saved."""

    graphs: TrainingGraphs
    dev: Mapping[str, Sequence[Arcs]]  # by source; the first is that of the model that is saved
    parser: Parser | InitialParser = empty
    recipes: Mapping[str, Recipe] = field(default_factory=dict)  # of the sources that were trained for this
    origin: Origin | None = None  # the model to go on from, where that was trained for this
    segmenter: Segmenter | None = None  # that is saved with the model


def learn(
    recipe: Recipe, data: Data, folder: Path, processes: Processes, start: Start, *, stage: str = ""
) -> Iterator[Progress]:
    """Train one model in its folder, or go on where that was cut off. Nothing is done if the model is there.

    With several members, each is trained in a folder of its own, and the model's weights are the mean of theirs.
    """
    members = recipe.training.members
    if members == 1:
        yield from _learn(recipe, data, folder, processes, start, stage=stage)
        return
    if processes.same((folder / LAYOUT.model).exists()):
        return
    folders = [folder / LAYOUT.members / str(number) for number in range(1, members + 1)]
    for number, own in enumerate(folders):
        named = ", ".join(filter(None, [stage, f"member {number + 1} of {members}"]))
        yield from _learn(recipe, data, own, processes, start, stage=named, member=number)
    if processes.is_first:
        remove_leftovers(folder, LAYOUT.model)
        model = mean_model([load_model(own / LAYOUT.model) for own in folders])
        measured = {}
        for name, arcs in start.dev.items():
            parsed = _parser_of_dev(model, recipe, processes, arcs).parse(data.dev)
            scores = evaluate(data.dev, parsed, rule=recipe.treebank.rule)
            measured[name] = Accuracy((), scores["UAS"].f1, scores["LAS"].f1)
        mean = mean_accuracy(measured)
        standing = Standing(best_las=mean.las, best_uas=mean.uas, best_from=mean.las_from)
        _save(model, recipe, data, folder, processes, start, standing)
    processes.wait()


def mean_model(models: Sequence[ParserModel]) -> ParserModel:
    """The first of these models, with the mean of the weights of all."""
    states = [model.state_dict() for model in models]
    models[0].load_state_dict({name: torch.stack([each[name] for each in states]).mean(0) for name in states[0]})
    return models[0]


def _learn(
    recipe: Recipe, data: Data, folder: Path, processes: Processes, start: Start, *, stage: str, member: int = 0
) -> Iterator[Progress]:
    """One training: a member of several begins like the others, but meets the sentences in an order of its own."""
    if processes.is_first:
        remove_leftovers(folder, LAYOUT.model, LAYOUT.parses, LINES)
    if processes.same((folder / LAYOUT.model).exists()):
        _finish(folder, processes)
        return
    settings = recipe.training
    model = start_model(recipe, data.train, start.origin.folder if start.origin else "")
    learner = Learner(model, recipe, data.train, start.graphs, processes, member=member)
    measure = Measure(data.dev, model.vocabulary.labels, rule=recipe.treebank.rule)
    checkpoint = load_checkpoint(folder / LAYOUT.checkpoints, learner)
    standing, best = (checkpoint.standing, checkpoint.best) if checkpoint else (Standing(), model.state_dict())
    processes.wait()  # all have read the checkpoint before the first process replaces it
    began, saved = time.monotonic() - standing.seconds, time.monotonic()
    with Metrics(folder if processes.is_first else None, after_epoch=standing.epoch) as metrics:
        while not _is_over(standing, settings):
            epoch, losses, epoch_began = standing.epoch + 1, [], time.monotonic()
            for share, loss in learner.epoch(epoch):
                _check_finite(loss, epoch)
                losses.append(loss)
                done, seconds = (epoch - 1 + share) / settings.epochs, time.monotonic() - began
                yield Progress(stage, epoch, settings.epochs, done, _mean(losses), None, standing, seconds)
            _check_finite(_total(model), epoch)
            speed = len(data.train) / (time.monotonic() - epoch_began)
            accuracy = None
            if _is_measured(epoch, settings):
                by_source = {name: learner.measure(data.dev, arcs, measure) for name, arcs in start.dev.items()}
                accuracy = mean_accuracy(by_source)
                standing, is_best = _ranked(standing, epoch, accuracy, processes)
                best = learner.measured_weights() if is_best else best
            standing = replace(standing, epoch=epoch, seconds=time.monotonic() - began)
            done = epoch / settings.epochs
            progress = Progress(
                stage, epoch, settings.epochs, done, _mean(losses), accuracy, standing, standing.seconds
            )
            metrics.add(epoch, {**_values(progress, recipe, learner), "sentences_per_second": speed})
            if processes.is_first and time.monotonic() - saved >= 60 * settings.checkpoint_minutes:
                whole = Checkpoint(standing, model.state_dict(), best, learner.optimiser.state())
                save_checkpoint(folder / LAYOUT.checkpoints, whole)
                saved = time.monotonic()
            yield progress
    if processes.is_first:
        model.load_state_dict(best)
        _save(model, recipe, data, folder, processes, start, standing)
    _finish(folder, processes)


def _save(
    model: ParserModel,
    recipe: Recipe,
    data: Data,
    folder: Path,
    processes: Processes,
    start: Start,
    standing: Standing,
) -> None:
    first, *_ = start.dev.values()
    found = calibrated(_parser_of_dev(model, recipe, processes, first), data.dev)
    model.settings = replace(model.settings, confidence=found)
    steps = recipe.refine.max_steps
    parser = Parser(model, initial=start.parser, max_steps=steps, device=processes.device, segmenter=start.segmenter)
    notes = notes_of(recipe, data, standing, inner=start.recipes, origin=start.origin)
    parser.save(folder / LAYOUT.model, notes=notes)


def _parser_of_dev(model: ParserModel, recipe: Recipe, processes: Processes, arcs: Sequence[Arcs]) -> Parser:
    """The model as a parser of the dev set alone, whose initial parses it has."""
    initial = (lambda _: iter(arcs)) if model.settings.reads_graph else empty
    steps = recipe.refine.max_steps
    return Parser(model, initial=initial, max_steps=steps, keep="nothing", device=processes.device)


def _finish(folder: Path, processes: Processes) -> None:
    """The model is there, so the checkpoints may go."""
    if processes.is_first:
        shutil.rmtree(folder / LAYOUT.checkpoints, ignore_errors=True)
    processes.wait()


def _is_measured(epoch: int, settings: TrainingSettings) -> bool:
    return epoch % settings.dev_every == 0 or epoch == settings.epochs


def _is_over(standing: Standing, settings: TrainingSettings) -> bool:
    """Whether the last epoch is done, or the best is too long ago; that is asked only of epochs that were measured."""
    is_late = standing.epoch - standing.best_epoch > settings.patience
    return standing.epoch >= settings.epochs or (is_late and standing.epoch % settings.dev_every == 0)


def _ranked(standing: Standing, epoch: int, accuracy: Accuracy, processes: Processes) -> tuple[Standing, bool]:
    """Where the training stands with this epoch's accuracy, and whether it is the best; the same in all processes."""
    las = processes.same(accuracy.las)
    if standing.best_epoch and las <= standing.best_las:
        return standing, False
    best = Standing(standing.epoch, epoch, las, accuracy.uas, accuracy.las_by_step, accuracy.las_from, standing.seconds)
    return best, True


def _values(progress: Progress, recipe: Recipe, learner: Learner) -> dict[str, float]:
    """The numbers of an epoch, by name; the rates are those at its end."""
    found = {"loss": progress.loss}
    if progress.accuracy is not None:
        found |= {"UAS": progress.accuracy.uas, "LAS": progress.accuracy.las}
        found |= {f"LAS_{t}": las for t, las in enumerate(progress.accuracy.las_by_step, start=1)}
        found |= {f"LAS_from_{name}": las for name, las in progress.accuracy.las_from.items()}
    factor = rate_factor(progress.share, recipe.optimiser.warm_up)
    found |= {"rate": recipe.optimiser.rate * factor, "encoder_rate": recipe.optimiser.encoder_rate * factor}
    found |= {f"moving_{t}": share for t, share in enumerate(learner.moving(), start=1)}
    return {**found, "seconds": progress.seconds}


def _total(model: ParserModel) -> float:
    """The sum of all weights, which is no number if one of them is not."""
    return float(sum(each.detach().sum() for each in model.parameters()))


def _check_finite(value: float, epoch: int) -> None:
    if not math.isfinite(value):
        hint = "Choose lower rates, or another precision, and start anew; what was saved before is as it was."
        raise TreefineError(f"In epoch {epoch} the loss or a weight is no finite number any more.", hint=hint)


def _mean(losses: list[float]) -> float:
    return sum(losses) / len(losses)
