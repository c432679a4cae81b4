"""Train one model in its folder: epochs, dev scores, checkpoints and early stopping (Sec. 3.3)."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import eq
from pathlib import Path
from statistics import fmean

import numpy as np
import torch

from treefine import fast
from treefine.errors import TreefineError
from treefine.evaluation.pairing import compared_labels, load_words
from treefine.evaluation.scores import rule_of
from treefine.model.folder import load_model
from treefine.model.parser_model import ParserModel
from treefine.parsing.batches import batches, retry_in_halves
from treefine.parsing.decode import Decoder
from treefine.parsing.initial import InitialParser, empty
from treefine.parsing.parser import Parser
from treefine.parsing.results import predicted_tags
from treefine.segmenter.segmenter import Segmenter
from treefine.training.calibrate import calibrated, calibrated_by_treebank
from treefine.training.checkpoint import (
    Checkpoint,
    FolderNames,
    TrainingState,
    load_checkpoint,
    remove_unfinished,
    save_checkpoint,
)
from treefine.training.data import Data, TrainingGraphs
from treefine.training.learner import Learner, input_tags, refined
from treefine.training.logs import MetricsLog, data_and_scores, notes_of
from treefine.training.new_model import TrainedBase, new_model
from treefine.training.optimiser import rate_factor
from treefine.training.processes import Processes
from treefine.training.recipe import EMPTY, FILES, Recipe, TrainingSettings
from treefine.training.sentence_ends import RunningText, encoder_f1, fitted_ends
from treefine.training.targets import DistillationData
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import BLANK, Sentence


@dataclass(frozen=True)
class Accuracy:
    """Shares of correct words. `las_by_step` scores the graphs Gᵗ as they are, `uas` and `las` the final trees."""

    las_by_step: tuple[float, ...]
    uas: float
    las: float
    las_from: dict[str, float] = field(default_factory=dict)  # LAS from each source of G⁰, if there are several
    tags: dict[str, float] = field(default_factory=dict)  # UPOS, XPOS, FEATS, LEMMA and Sentences, if predicted

    @classmethod
    def mean(cls, by_source: Mapping[str, Accuracy]) -> Accuracy:
        """Return the unweighted mean over the sources of G⁰."""
        first, *others = by_source.values()
        if not others:
            return first
        sources = list(by_source.values())
        by_step = (float(np.mean(some)) for some in zip(*(one.las_by_step for one in sources), strict=True))
        uas, las = (float(np.mean([getattr(one, name) for one in sources])) for name in ("uas", "las"))
        tags = {name: float(np.mean([one.tags[name] for one in sources])) for name in first.tags}
        return cls(tuple(by_step), uas, las, {name: one.las for name, one in by_source.items()}, tags)


class DevScorer:
    """Scores the trees and tags of a model on some sentences by the scoring rule of a recipe."""

    def __init__(self, sentences: Sequence[Sentence], labels: Sequence[str], *, rule: str) -> None:
        chosen = rule_of(rule)
        words = load_words(sentences, is_ud=chosen.is_ud)
        ours = compared_labels(labels, is_ud=chosen.is_ud)
        ids = {label: number for number, label in enumerate(dict.fromkeys([*ours, *words.labels]))}
        self.sentences = sentences
        self.of_label = np.array([ids[label] for label in ours])  # for each label of the model: its id in the scoring
        counts = np.ones(len(words), dtype=bool)
        if chosen.is_left_out is not None:
            counts = np.array([not chosen.is_left_out(words, word) for word in range(len(words))], dtype=bool)
        ends = np.cumsum([len(sentence) for sentence in sentences])[:-1]
        self.heads = [np.array(sentence.heads) for sentence in sentences]
        self.labels = np.split(np.array([ids[label] for label in words.labels]), ends)
        self.counts = np.split(counts, ends)
        self.total = max(1, int(counts.sum()))

    def right(self, sentence: int, heads: np.ndarray, labels: np.ndarray) -> tuple[int, int]:
        """Count the words of a sentence with the correct head, and those with the correct head and label."""
        has_head = (heads == self.heads[sentence]) & self.counts[sentence]
        has_both = has_head & (self.of_label[labels] == self.labels[sentence])
        return int(has_head.sum()), int(has_both.sum())

    @torch.no_grad()
    def accuracy(
        self, model: ParserModel, arcs: Sequence[Arcs], *, max_steps: int, batch_pieces: int, device: torch.device
    ) -> Accuracy:
        """Refine these initial graphs with a model that is in evaluation mode on the device, and score each step."""
        settings, decoder = model.settings, Decoder.of(model)
        columns = settings.tags.predicted
        places = [settings.tags.columns.index(column) for column in columns]

        def right_words(numbers: Sequence[int]) -> list[np.ndarray]:
            """Count for each sentence: LAS by step, then the tree's UAS and LAS, then the tags of each column."""
            counted = np.zeros((len(numbers), max_steps + 2 + len(columns)), dtype=np.int64)
            chosen = [self.sentences[number] for number in numbers]
            batch, tags = model.batch_of(chosen).to(device), input_tags(model, chosen, device)
            for step in refined(model, batch, [arcs[number] for number in numbers], tags, max_steps=max_steps):
                is_last = step.t == max_steps
                ending = {row for row, done in enumerate(step.converged.tolist()) if done or is_last}
                trees = decoder.trees(step.scores, step.graphs, step.batch.is_word, rows=ending)
                graphs, trees = (some.to(torch.device("cpu")) for some in (step.graphs, trees))
                has_tags = bool(columns) and (step.t == 1 or settings.tags.refined)
                names = predicted_tags(step, model, [chosen[row] for row in step.sentences]) if has_tags else []
                for row, (place, length) in enumerate(zip(step.sentences, step.batch.lengths, strict=True)):
                    number = numbers[place]
                    counted[place, step.t - 1 : max_steps] = self.right(number, *graphs.words(row, length))[1]
                    if row in ending:
                        counted[place, max_steps : max_steps + 2] = self.right(number, *trees.words(row, length))
                    if has_tags:
                        counted[place, max_steps + 2 :] = [
                            sum(map(eq, names[row][column], getattr(chosen[place], name)))
                            for column, name in zip(places, columns, strict=True)
                        ]
            return list(counted)

        def too_long(number: int) -> TreefineError:
            return self.sentences[number].error("There is not enough memory for this sentence.", hint="Remove it.")

        sizes = [model.n_pieces(sentence) for sentence in self.sentences]
        total = np.zeros(max_steps + 2 + len(columns), dtype=np.int64)
        for numbers in batches(sizes, batch_pieces, settings.encoder.n_positions):
            total += np.sum(retry_in_halves(numbers, right_words, too_long), axis=0)
        *by_step, uas, las = (total[: max_steps + 2] / self.total).tolist()
        right = zip(columns, total[max_steps + 2 :].tolist(), strict=True)
        tags = {name.upper(): number / self._n_tagged(name) for name, number in right}
        if model.finds_sentences:
            tags["Sentences"] = encoder_f1(model, self.sentences)
        return Accuracy(tuple(by_step), uas, las, tags=tags)

    def _n_tagged(self, column: str) -> int:
        """Count the words with a tag in this column; at least 1."""
        tags = (tag for sentence in self.sentences for tag in getattr(sentence, column))
        n_tagged: int = sum(tag != BLANK or column == "feats" for tag in tags)
        return max(1, n_tagged)


@dataclass(frozen=True)
class Progress:
    """The progress of a training."""

    stage: str  # "" for the model itself, otherwise the name of a model that is trained before it
    epoch: int
    epochs: int
    share: float  # completed share of the epochs of this stage
    loss: float  # per word and step
    accuracy: Accuracy | None  # on dev; None except at the end of an epoch
    state: TrainingState  # with the best epoch so far
    seconds: float  # since the start of the stage
    segmentation: dict[str, float] = field(default_factory=dict)  # F1 of a segmenter on dev: Tokens, Sentences, Words


@dataclass(frozen=True)
class InitialGraphs:
    """The initial graphs G⁰ of the training set and of dev, and the initial parser that is saved with the model."""

    train: TrainingGraphs
    dev: Mapping[str, Sequence[Arcs]]  # by source; the parser of the first source is saved with the model
    parser: Parser | InitialParser = empty
    recipes: Mapping[str, Recipe] = field(default_factory=dict)  # of the initial parsers trained for this model

    @classmethod
    def without_parser(cls, recipe: Recipe, data: Data) -> InitialGraphs:
        """Return the initial graphs of a model that has no initial parser."""
        return cls(TrainingGraphs(data.train, None, recipe.initial), {EMPTY: list(empty(data.dev))})


@dataclass(frozen=True)
class TrainingRun:
    """The inputs of the training of one model."""

    recipe: Recipe
    data: Data
    folder: Path
    processes: Processes
    initial: InitialGraphs
    stage: str = ""  # as in Progress
    base: TrainedBase | None = None  # the model to fine-tune, if one was trained for this
    segmenter: Segmenter | None = None  # saved with the model
    segmentation: Mapping[str, float] = field(default_factory=dict)  # F1 of the segmenter, as in Progress
    distillation: DistillationData | None = None  # `initial` includes its sentences

    def accuracy(
        self, model: ParserModel, sentences: Sequence[Sentence], graphs: Mapping[str, Sequence[Arcs]]
    ) -> Accuracy:
        """Return the mean accuracy of a model from each of these initial graphs of some sentences."""
        scorer = DevScorer(sentences, model.vocabulary.labels, rule=self.recipe.treebank.rule)
        size = {"max_steps": self.recipe.refine.max_steps, "batch_pieces": 4 * self.recipe.training.batch_pieces}
        device = self.processes.device
        return Accuracy.mean(
            {name: scorer.accuracy(model, arcs, **size, device=device) for name, arcs in graphs.items()}
        )

    def save(self, model: ParserModel, state: TrainingState) -> None:
        """Calibrate the model on dev, and save it with its initial parser and segmenter."""
        max_steps, device, initial = self.recipe.refine.max_steps, self.processes.device, self.initial.parser
        first, *_ = self.initial.dev.values()
        of_dev = (lambda _: iter(first)) if model.settings.reads_graph else empty
        parser = Parser(model, initial=of_dev, max_steps=max_steps, keep="nothing", device=device)
        confidence = calibrated(parser, self.data.dev)
        model.settings = replace(model.settings, confidence=confidence)
        if model.vocabulary.treebanks and initial is empty:
            parser = Parser(model, max_steps=max_steps, keep="nothing", device=device)
            by_treebank = calibrated_by_treebank(parser, self.data.dev, confidence)
            model.settings = replace(model.settings, calibration=by_treebank)
        parser = Parser(model, initial=initial, max_steps=max_steps, device=device, segmenter=self.segmenter)
        model.settings = replace(model.settings, sentence_ends=fitted_ends(parser, self.data.dev))
        dev = Accuracy((), state.best_uas, state.best_las, tags=state.best_tags)
        about = data_and_scores(
            self.recipe.card, self.data, {"dev": dev, "test": self._test_accuracy(model)}, self.segmentation
        )
        notes = notes_of(
            self.recipe, self.data, state, inner=self.initial.recipes, base=self.base, distillation=self.distillation
        )
        parser.save(self.folder / FolderNames.model, notes=f"{about}\n\n{notes}")

    def _test_accuracy(self, model: ParserModel) -> Accuracy | None:
        """Return the accuracy on the test set; None without one, and if files have the initial parses."""
        test, initial = self.data.test, self.initial.parser
        if not test or self.stage or self.recipe.initial.parser == FILES:
            return None
        parsed = initial.using(keep="nothing").stream_trees(test) if isinstance(initial, Parser) else None
        arcs = list(empty(test)) if parsed is None else [sentence.arcs for sentence in parsed]
        return self.accuracy(fast.training_model(model), test, {"": arcs})


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
        mean = run.accuracy(fast.training_model(model), run.data.dev, run.initial.dev)
        run.save(
            model,
            TrainingState(best_las=mean.las, best_uas=mean.uas, best_from=mean.las_from, best_tags=mean.tags),
        )
    processes.wait()


def _learn(run: TrainingRun, *, member: int = 0) -> Iterator[Progress]:
    """Train one model. Members start from the same weights, but see the sentences in different orders."""
    recipe, data, folder, processes = run.recipe, run.data, run.folder, run.processes
    if processes.is_first:
        remove_unfinished(folder, FolderNames.model, FolderNames.fold_parses, FolderNames.metrics)
    if processes.same((folder / FolderNames.model).exists()):
        _finish(folder, processes)
        return
    settings = recipe.training
    learner = _learner(run, member)
    model, sentences = learner.model, learner.train
    checkpoint = load_checkpoint(folder / FolderNames.checkpoints, learner)
    state, best = (checkpoint.state, checkpoint.best) if checkpoint else (TrainingState(), model.state_dict())
    processes.wait()  # until all processes have read the checkpoint, which the first one replaces
    began, saved = time.monotonic() - state.seconds, time.monotonic()
    with MetricsLog(folder if processes.is_first else None, after_epoch=state.epoch) as metrics:
        while not _is_over(state, settings):
            epoch, losses, epoch_began = state.epoch + 1, [], time.monotonic()
            for share, loss in learner.epoch(epoch):
                _check_finite(loss, epoch)
                losses.append(loss)
                done, seconds = (epoch - 1 + share) / settings.epochs, time.monotonic() - began
                yield Progress(run.stage, epoch, settings.epochs, done, fmean(losses), None, state, seconds)
            _check_finite(float(sum(weight.detach().sum() for weight in model.parameters())), epoch)
            speed = len(sentences) / (time.monotonic() - epoch_began)
            accuracy = None
            if epoch % settings.dev_every == 0 or epoch == settings.epochs:
                model.eval()
                with learner.optimiser.averaged():
                    accuracy = run.accuracy(learner.scoring_model, data.dev, run.initial.dev)
                las = processes.same(accuracy.las)  # all processes choose the same epoch
                if not state.best_epoch or las > state.best_las:
                    state = replace(
                        state,
                        best_epoch=epoch,
                        best_las=las,
                        best_uas=accuracy.uas,
                        best_by_step=accuracy.las_by_step,
                        best_from=accuracy.las_from,
                        best_tags=accuracy.tags,
                    )
                    best = learner.measured_weights()
            state = replace(state, epoch=epoch, seconds=time.monotonic() - began)
            place = (run.stage, epoch, settings.epochs, epoch / settings.epochs)
            progress = Progress(*place, fmean(losses), accuracy, state, state.seconds)
            metrics.add(epoch, {**_values(progress, recipe, learner), "sentences_per_second": speed})
            if processes.is_first and time.monotonic() - saved >= 60 * settings.checkpoint_minutes:
                whole = Checkpoint(state, model.state_dict(), best, learner.optimiser.state())
                save_checkpoint(folder / FolderNames.checkpoints, whole)
                saved = time.monotonic()
            yield progress
    if processes.is_first:
        model.load_state_dict(best)
        run.save(model.eval(), state)
    _finish(folder, processes)


def _learner(run: TrainingRun, member: int) -> Learner:
    recipe, data, distillation = run.recipe, run.data, run.distillation
    model = new_model(recipe, data.train, run.base)
    shares = {"balance": recipe.treebank.balance, "unnamed": recipe.treebank.unnamed}
    return Learner(
        model,
        recipe,
        data.train if distillation is None else (*data.train, *distillation.sentences),
        run.initial.train,
        run.processes,
        text=RunningText(data.train, recipe.segmenter, **shares) if model.finds_sentences else None,
        targets=None if distillation is None else distillation.targets,
        member=member,
    )


def _finish(folder: Path, processes: Processes) -> None:
    """Remove the checkpoints of a complete model."""
    if processes.is_first:
        shutil.rmtree(folder / FolderNames.checkpoints, ignore_errors=True)
    processes.wait()


def _is_over(state: TrainingState, settings: TrainingSettings) -> bool:
    """Return whether the last epoch is done, or early stopping ends the training."""
    is_late = state.epoch - state.best_epoch > settings.patience
    return state.epoch >= settings.epochs or (is_late and state.epoch % settings.dev_every == 0)


def _values(progress: Progress, recipe: Recipe, learner: Learner) -> dict[str, float]:
    """Return the metrics of an epoch, with the learning rates at its end."""
    values, accuracy, optimiser = {"loss": progress.loss}, progress.accuracy, recipe.optimiser
    if accuracy is not None:
        values |= {"UAS": accuracy.uas, "LAS": accuracy.las}
        values |= {f"LAS_{t}": las for t, las in enumerate(accuracy.las_by_step, start=1)}
        values |= {f"LAS_from_{name}": las for name, las in accuracy.las_from.items()}
        values |= accuracy.tags
    factor = rate_factor(progress.share, optimiser.warmup)
    values["learning_rate"] = optimiser.learning_rate * factor
    values["encoder_learning_rate"] = optimiser.encoder_learning_rate * factor
    values |= {f"moving_{t}": share for t, share in enumerate(learner.moving(), start=1)}
    return {**values, "updates": learner.optimiser.n_updates, "seconds": progress.seconds}


def _check_finite(value: float, epoch: int) -> None:
    if not math.isfinite(value):
        hint = "Lower the learning rates, or set training.precision=float32, and start again in a new folder."
        raise TreefineError(f"In epoch {epoch}, the loss or a weight became infinite or NaN.", hint=hint)
