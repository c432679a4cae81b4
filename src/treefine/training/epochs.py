"""Train one model in its folder: epochs, dev scores, checkpoints, early stopping and the model card (Sec. 3.3)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean

import jinja2
import torch

from treefine import fast
from treefine.errors import TreefineError, count
from treefine.model.folder import load_model
from treefine.model.parser_model import ParserModel
from treefine.parsing.initial import InitialParser, empty
from treefine.parsing.parser import Parser
from treefine.segmenter.segmenter import Segmenter
from treefine.training.data import Data, by_treebank
from treefine.training.dev import Accuracy, accuracy_of, calibrated, fitted_ends
from treefine.training.distil import DistillationData
from treefine.training.folder import (
    FolderNames,
    TrainingState,
    load_checkpoint,
    metrics_log,
    remove_unfinished,
    save_checkpoint,
)
from treefine.training.learner import Learner
from treefine.training.new_model import new_model
from treefine.training.optimiser import rate_factor
from treefine.training.processes import Processes
from treefine.training.recipe import FILES, Recipe, TrainingSettings, recipe_toml
from treefine.training.segmenter import RunningText
from treefine.treebank.graph import Arcs
from treefine.version import __version__


@dataclass(frozen=True)
class Progress:
    """The progress of a training."""

    stage: str  # "" for the model itself, otherwise the name of a model that is trained before it
    epoch: int
    epochs: int
    completed: float  # fraction of the epochs of this stage
    loss: float  # per word and step
    accuracy: Accuracy | None  # on dev; None except at the end of an epoch
    state: TrainingState  # with the best epoch so far
    seconds: float  # since the start of the stage
    segmentation: dict[str, float] = field(default_factory=dict)  # F1 of a segmenter on dev: Tokens, Sentences, Words


@dataclass(frozen=True)
class InitialGraphs:
    """The initial graphs G⁰ of the training set and of dev, and the initial parser that is saved with the model."""

    train: Sequence[Arcs]
    dev: Sequence[Arcs]
    parser: Parser | InitialParser = empty


@dataclass(frozen=True)
class TrainingRun:
    """The inputs of the training of one model."""

    recipe: Recipe
    data: Data
    folder: Path
    processes: Processes
    initial: InitialGraphs
    stage: str = ""  # as in Progress
    start: str = ""  # the folder of the model to fine-tune, if it was trained for this one
    others: Mapping[str, Recipe] = field(default_factory=dict)  # recipes of models that were trained for this one
    segmenter: Segmenter | None = None  # saved with the model
    segmentation: Mapping[str, float] = field(default_factory=dict)  # F1 of the segmenter, as in Progress
    distillation: DistillationData | None = None  # `initial` includes its sentences

    def dev_accuracy(self, model: ParserModel) -> Accuracy:
        """Return the accuracy on dev from the initial graphs."""
        return accuracy_of(model, self.data.dev, self.initial.dev, self.recipe, self.processes.device)

    def _test_accuracy(self, model: ParserModel) -> Accuracy | None:
        """Return the accuracy on the test set; None without one, and if files have the initial parses."""
        test, initial = self.data.test, self.initial.parser
        if not test or self.stage or self.recipe.initial.parser == FILES:
            return None
        parsed = initial.using(keep="nothing").stream_trees(test) if isinstance(initial, Parser) else None
        arcs = list(empty(test)) if parsed is None else [sentence.arcs for sentence in parsed]
        return accuracy_of(fast.training_model(model), test, arcs, self.recipe, self.processes.device)

    def save(self, model: ParserModel, state: TrainingState) -> None:
        """Calibrate the model on dev, and save it with its initial parser and segmenter."""
        parser_of = partial(Parser, model, max_steps=self.recipe.refine.max_steps, device=self.processes.device)
        dev, initial = self.data.dev, self.initial.parser
        of_dev = (lambda _: iter(self.initial.dev)) if model.settings.reads_graph else empty
        confidence, drafts = calibrated(
            parser_of(initial=of_dev if initial is not empty else empty, keep="nothing"), dev
        )
        model.settings = replace(model.settings, confidence=confidence, draft_confidence=drafts)
        if model.vocabulary.treebanks and initial is empty:
            parser = parser_of(keep="nothing")
            fitted = {
                code: calibrated(parser, some, sentences=confidence)[0] for code, some in by_treebank(dev).items()
            }
            model.settings = replace(model.settings, calibration=fitted)
        parser = parser_of(initial=initial, segmenter=self.segmenter)
        model.settings = replace(model.settings, sentence_ends=fitted_ends(parser, dev))
        parser.save(self.folder / FolderNames.model, notes=_card(self, state, self._test_accuracy(model)))


def learn(run: TrainingRun) -> Iterator[Progress]:
    """Train one model in its folder, or resume its training; do nothing if the model exists.

    With weight averaging, each member is trained in its own folder, and their weights are averaged.
    """
    members, folder, processes = run.recipe.training.weight_averaging, run.folder, run.processes
    if members == 1:
        yield from _learn(run)
        return
    if processes.same((folder / FolderNames.model).exists()):
        return
    folders = [folder / FolderNames.members / str(number) for number in range(1, members + 1)]
    for number, of_member in enumerate(folders):
        stage = ", ".join(filter(None, [run.stage, f"member {number + 1} of {members}"]))
        yield from _learn(replace(run, folder=of_member, stage=stage), member=number)
    if processes.is_first:
        remove_unfinished(folder, FolderNames.model)
        model, *others = (load_model(of_member / FolderNames.model) for of_member in folders)
        states = [one.state_dict() for one in (model, *others)]
        model.load_state_dict({name: torch.stack([state[name] for state in states]).mean(0) for name in states[0]})
        model = model.to(processes.device).eval()
        run.save(model, TrainingState(best=run.dev_accuracy(fast.training_model(model))))
    processes.wait()


def _learn(run: TrainingRun, *, member: int = 0) -> Iterator[Progress]:
    """Train one model. Members start from the same weights, but see the sentences in different orders."""
    folder, processes, settings, names = run.folder, run.processes, run.recipe.training, FolderNames
    if processes.is_first:
        remove_unfinished(folder, names.model, names.checkpoint, names.fold_parses, names.metrics)
    if not processes.same((folder / FolderNames.model).exists()):
        learner = _learner(run, member)
        model = learner.model
        state, best = load_checkpoint(folder, learner) or (TrainingState(), learner.measured_weights())
        processes.wait()  # until all processes have read the checkpoint, which the first one replaces
        began, saved = time.monotonic() - state.seconds, time.monotonic()
        with metrics_log(folder if processes.is_first else None, after_epoch=state.epoch) as add_metrics:
            while not _is_over(state, settings):
                epoch, losses = state.epoch + 1, []
                for share, loss in learner.epoch(epoch):
                    _check_finite(loss, epoch)
                    losses.append(loss)
                    done, seconds = (epoch - 1 + share) / settings.epochs, time.monotonic() - began
                    yield Progress(run.stage, epoch, settings.epochs, done, fmean(losses), None, state, seconds)
                _check_finite(float(sum(weight.detach().sum() for weight in model.parameters())), epoch)
                scores = None
                if epoch % settings.dev_every == 0 or epoch == settings.epochs:
                    model.eval()
                    with learner.optimiser.averaged():
                        scores = run.dev_accuracy(learner.scoring_model)
                    las = processes.same(scores.las)  # all processes choose the same epoch
                    if not state.best_epoch or las > state.best.las:
                        state = replace(state, best_epoch=epoch, best=replace(scores, las=las))
                        best = learner.measured_weights()
                state = replace(state, epoch=epoch, seconds=time.monotonic() - began)
                place = (run.stage, epoch, settings.epochs, epoch / settings.epochs)
                progress = Progress(*place, fmean(losses), scores, state, state.seconds)
                add_metrics(epoch, _values(progress, learner))
                if processes.is_first and time.monotonic() - saved >= 60 * settings.checkpoint_minutes:
                    save_checkpoint(folder, learner, state, best)
                    saved = time.monotonic()
                yield progress
        if processes.is_first:
            model.load_state_dict(best)
            run.save(model.eval(), state)
    if processes.is_first:
        (folder / FolderNames.checkpoint).unlink(missing_ok=True)
    processes.wait()


def _learner(run: TrainingRun, member: int) -> Learner:
    recipe, train, targets = run.recipe, run.data.train, None
    model = new_model(recipe, train, run.start)
    text = RunningText(train, recipe.segmenter, recipe.treebank) if model.finds_sentences else None
    if run.distillation is not None:
        train, targets = (*train, *run.distillation.sentences), run.distillation.targets
    return Learner(model, recipe, train, run.initial.train, run.processes, text, targets, member)


def _is_over(state: TrainingState, settings: TrainingSettings) -> bool:
    """Return whether the last epoch is done, or early stopping ends the training."""
    is_late = state.epoch - state.best_epoch > settings.patience
    return state.epoch >= settings.epochs or (is_late and state.epoch % settings.dev_every == 0)


def _values(progress: Progress, learner: Learner) -> dict[str, float]:
    """Return the metrics of an epoch, with the learning rates at its end."""
    values, accuracy, optimiser = {"loss": progress.loss}, progress.accuracy, learner.recipe.optimiser
    if accuracy is not None:
        values |= {"UAS": accuracy.uas, "LAS": accuracy.las}
        values |= {f"LAS_{t}": las for t, las in enumerate(accuracy.las_by_step, start=1)}
        values |= accuracy.tags
    factor = rate_factor(progress.completed, optimiser.warmup)
    values["learning_rate"] = optimiser.learning_rate * factor
    values["encoder_learning_rate"] = optimiser.encoder_learning_rate * factor
    return {**values, "updates": learner.optimiser.n_updates, "seconds": progress.seconds}


def _check_finite(value: float, epoch: int) -> None:
    if not math.isfinite(value):
        hint = "Lower the learning rates, or set training.precision=float32, and start again in a new folder."
        raise TreefineError(f"In epoch {epoch}, the loss or a weight became infinite or NaN.", hint=hint)


def _card(run: TrainingRun, state: TrainingState, test: Accuracy | None) -> str:
    """Return the part of a model card on the data, the scores and the training."""
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(Path(__file__).with_name("card.jinja").read_text(encoding="utf-8"))
    return template.render(
        run=run,
        state=state,
        best=state.best,
        test=test,
        teachers=run.recipe.teacher.models or [Path(name).stem for name in run.recipe.teacher.recipes],
        version=__version__,
        torch_version=torch.__version__,
        scores=lambda accuracy: {"UAS": accuracy.uas, "LAS": accuracy.las, **accuracy.tags},
        shares=lambda values: ", ".join(f"{name} {value:.2%}" for name, value in values.items()),
        recipe_toml=recipe_toml,
        count=count,
    )
