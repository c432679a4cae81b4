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

from treefine.config import COLUMNS
from treefine.errors import TreefineError
from treefine.evaluation.scores import compared_labels, evaluate, rule_of
from treefine.evaluation.words import load_words
from treefine.model.folder import load_model
from treefine.model.parser_model import ParserModel
from treefine.parsing.batches import batches, halving
from treefine.parsing.initial import InitialParser, empty
from treefine.parsing.parser import Parser
from treefine.parsing.refine import BatchStep
from treefine.parsing.results import predicted_tags
from treefine.segmenter.segmenter import Segmenter
from treefine.training.calibrate import calibrated, calibrated_by_treebank
from treefine.training.checkpoint import (
    Checkpoint,
    FolderNames,
    TrainingStanding,
    load_checkpoint,
    remove_unfinished,
    save_checkpoint,
)
from treefine.training.data import Data, TrainingGraphs
from treefine.training.learner import Learner
from treefine.training.logs import MetricsLog, data_and_scores, notes_of
from treefine.training.new_model import TrainedBase, new_model
from treefine.training.optimiser import rate_factor
from treefine.training.processes import Processes
from treefine.training.recipe import EMPTY, FILES, Recipe, TrainingSettings
from treefine.training.sentence_ends import RunningText, encoder_f1, fitted_ends
from treefine.training.targets import Taught
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import BLANK, Sentence


@dataclass(frozen=True)
class Accuracy:
    """Shares of correct words. `las_by_step` scores the graphs Gᵗ as they are, `uas` and `las` the final trees."""

    las_by_step: tuple[float, ...]
    uas: float
    las: float
    las_from: dict[str, float] = field(default_factory=dict)  # LAS from each source of G⁰, if there are several
    tags: dict[str, float] = field(
        default_factory=dict
    )  # UPOS, XPOS, FEATS, LEMMA and Sentences, as far as the model predicts them


def mean_accuracy(by_source: Mapping[str, Accuracy]) -> Accuracy:
    """Return the unweighted mean over the sources of G⁰."""
    found = list(by_source.values())
    if len(found) == 1:
        return found[0]
    by_step = (float(np.mean(each)) for each in zip(*(one.las_by_step for one in found), strict=True))
    uas, las = (float(np.mean([getattr(each, name) for each in found])) for name in ("uas", "las"))
    las_from = {name: each.las for name, each in by_source.items()}
    tags = {name: float(np.mean([each.tags[name] for each in found])) for name in found[0].tags}
    return Accuracy(tuple(by_step), uas, las, las_from, tags)


class DevScorer:
    """Scores parses of the dev sentences by the scoring rule of the recipe."""

    def __init__(self, sentences: Sequence[Sentence], labels: Sequence[str], *, rule: str) -> None:
        chosen = rule_of(rule)
        words = load_words(sentences, is_ud=chosen.is_ud)
        compared = compared_labels(words, is_ud=chosen.is_ud)
        ours = [label.partition(":")[0] if chosen.is_ud else label for label in labels]
        ids = {label: number for number, label in enumerate(dict.fromkeys([*ours, *compared]))}
        self.sentences = sentences
        self.of_label = np.array([ids[label] for label in ours])  # for each label of the model: its id in the scoring
        counts = np.ones(len(words), dtype=bool)
        if chosen.is_left_out is not None:
            counts = np.array([not chosen.is_left_out(words, word) for word in range(len(words))], dtype=bool)
        ends = np.cumsum([len(sentence) for sentence in sentences])[:-1]
        self.heads = [np.array(each.heads) for each in sentences]
        self.labels = np.split(np.array([ids[label] for label in compared]), ends)
        self.counts = np.split(counts, ends)
        self.total = max(1, int(counts.sum()))
        self.n_tagged = {name: _n_tagged(sentences, name) for name in COLUMNS}

    def right(self, sentence: int, heads: np.ndarray, labels: np.ndarray) -> tuple[int, int]:
        """Count the words of a sentence with the correct head, and those with the correct head and label."""
        has_head = (heads == self.heads[sentence]) & self.counts[sentence]
        has_both = has_head & (self.of_label[labels] == self.labels[sentence])
        return int(has_head.sum()), int(has_both.sum())

    @torch.no_grad()
    def accuracy(self, learner: Learner, arcs: Sequence[Arcs]) -> Accuracy:
        """Refine these initial graphs with the averaged weights, if EMA is on, and score each step."""
        model, max_steps = learner.model.eval(), learner.recipe.refine.max_steps
        columns = model.settings.tags.predicted

        def right_words(numbers: Sequence[int]) -> list[np.ndarray]:
            """Count for each sentence: LAS by step, then the tree's UAS and LAS, then the tags of each column."""
            found = np.zeros((len(numbers), max_steps + 2 + len(columns)), dtype=np.int64)
            chosen = [self.sentences[each] for each in numbers]
            batch = model.batch_of(chosen)
            for step in learner.steps(batch, [arcs[each] for each in numbers], learner.tags_of(chosen)):
                is_last = step.t == max_steps
                ending = {row for row, done in enumerate(step.converged.tolist()) if done or is_last}
                trees = learner.decoder.trees(step.scores, step.graphs, step.batch.is_word, rows=ending)
                graphs, trees = (each.to(torch.device("cpu")) for each in (step.graphs, trees))
                if columns and (step.t == 1 or model.settings.tags.refined):
                    found[list(step.sentences), max_steps + 2 :] = _right_tags(step, model, chosen)
                for row, (place, length) in enumerate(zip(step.sentences, step.batch.lengths, strict=True)):
                    number = numbers[place]
                    found[place, step.t - 1 : max_steps] = self.right(number, *graphs.words(row, length))[1]
                    if row in ending:
                        found[place, max_steps : max_steps + 2] = self.right(number, *trees.words(row, length))
            return list(found)

        def too_long(number: int) -> TreefineError:
            return self.sentences[number].error("There is not enough memory for this sentence.", hint="Remove it.")

        sizes = [model.n_pieces(sentence) for sentence in self.sentences]
        total = np.zeros(max_steps + 2 + len(columns), dtype=np.int64)
        with learner.optimiser.averaged():
            for numbers in batches(sizes, 4 * learner.recipe.training.batch_pieces, learner.longest):
                total += np.sum(halving(numbers, right_words, too_long), axis=0)
        *by_step, uas, las = (total[: max_steps + 2] / self.total).tolist()
        right = zip(columns, total[max_steps + 2 :].tolist(), strict=True)
        tags = {name.upper(): count / self.n_tagged[name] for name, count in right}
        if model.finds_sentences:
            with learner.optimiser.averaged():
                tags["Sentences"] = encoder_f1(model, self.sentences)
        return Accuracy(tuple(by_step), uas, las, tags=tags)


def _n_tagged(sentences: Sequence[Sentence], column: str) -> int:
    """Count the words with a tag in this column; at least 1."""
    n_tagged: int = sum(tag != BLANK or column == "feats" for each in sentences for tag in getattr(each, column))
    return max(1, n_tagged)


def _right_tags(step: BatchStep, model: ParserModel, sentences: Sequence[Sentence]) -> np.ndarray:
    """Count the words of each sentence of a step with the correct tag, for each predicted column."""
    settings = model.settings.tags
    some = [sentences[place] for place in step.sentences]
    return np.array(
        [
            [
                sum(map(eq, ours, getattr(sentences[place], column)))
                for column, ours in zip(settings.columns, tags, strict=True)
                if column in settings.predicted
            ]
            for place, tags in zip(step.sentences, predicted_tags(step, model, some), strict=True)
        ]
    )


def accuracy_of(parser: Parser, sentences: Sequence[Sentence], *, rule: str) -> Accuracy:
    """Parse sentences, without the tags that the model predicts, and score the trees and these tags."""
    columns = parser.model.settings.tags.predicted
    asked = (each.with_tags(**{name: [BLANK] * len(each) for name in columns}) for each in sentences)
    parsed = list(parser.stream_trees(asked))
    scores = evaluate(sentences, parsed, rule=rule)
    tags = {}
    for name in columns:
        pairs = zip(parsed, sentences, strict=True)
        right = sum(sum(map(eq, getattr(ours, name), getattr(gold, name))) for ours, gold in pairs)
        tags[name.upper()] = right / _n_tagged(sentences, name)
    return Accuracy((), scores["UAS"].f1, scores["LAS"].f1, tags=tags)


@dataclass(frozen=True)
class Progress:
    """The progress of a training."""

    stage: str  # "" for the model itself, otherwise the name of a model that is trained before it
    epoch: int
    epochs: int
    share: float  # completed share of the epochs of this stage
    loss: float  # per word and step
    accuracy: Accuracy | None  # on dev; None except at the end of an epoch
    standing: TrainingStanding  # with the best epoch so far
    seconds: float  # since the start of the stage
    segmentation: dict[str, float] = field(default_factory=dict)  # F1 of a segmenter on dev: Tokens, Sentences, Words
    warning: str = ""  # to show to the user


@dataclass(frozen=True)
class InitialGraphs:
    """The initial graphs G⁰ of the training set and of dev, and the initial parser that is saved with the model."""

    train: TrainingGraphs
    dev: Mapping[str, Sequence[Arcs]]  # by source; the parser of the first source is saved with the model
    parser: Parser | InitialParser = empty
    recipes: Mapping[str, Recipe] = field(
        default_factory=dict
    )  # of the initial parsers that were trained for this model

    @classmethod
    def without_parser(cls, recipe: Recipe, data: Data) -> InitialGraphs:
        """Return the initial graphs of a model that has no initial parser."""
        return cls(TrainingGraphs(data.train, None, recipe.initial), {EMPTY: list(empty(data.dev))})


@dataclass(frozen=True)
class ModelTraining:
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
    taught: Taught | None = None  # what the model learns from teachers; `initial` includes their sentences

    def parser_of_dev(self, model: ParserModel, arcs: Sequence[Arcs]) -> Parser:
        """Return a parser that refines these initial graphs; it can parse only the dev set."""
        initial = (lambda _: iter(arcs)) if model.settings.reads_graph else empty
        steps = self.recipe.refine.max_steps
        return Parser(model, initial=initial, max_steps=steps, keep="nothing", device=self.processes.device)

    def save(self, model: ParserModel, standing: TrainingStanding) -> None:
        """Calibrate the model on dev, and save it with its initial parser and segmenter."""
        first, *_ = self.initial.dev.values()
        found = calibrated(self.parser_of_dev(model, first), self.data.dev)
        model.settings = replace(model.settings, confidence=found)
        if model.vocabulary.treebanks and self.initial.parser is empty:
            steps, device = self.recipe.refine.max_steps, self.processes.device
            parser = Parser(model, max_steps=steps, keep="nothing", device=device)
            model.settings = replace(model.settings, calibration=calibrated_by_treebank(parser, self.data.dev, found))
        parser = Parser(
            model,
            initial=self.initial.parser,
            max_steps=self.recipe.refine.max_steps,
            device=self.processes.device,
            segmenter=self.segmenter,
        )
        model.settings = replace(model.settings, sentence_ends=fitted_ends(parser, self.data.dev))
        test = None
        has_start = self.recipe.initial.parser != FILES  # the files have no parses of the test set
        if self.data.test and has_start and not self.stage:
            test = accuracy_of(parser.using(keep="nothing"), self.data.test, rule=self.recipe.treebank.rule)
        scores = {"dev": Accuracy((), standing.best_uas, standing.best_las, tags=standing.best_tags), "test": test}
        about = data_and_scores(self.recipe.card, self.data, scores, self.segmentation)
        inner = self.initial.recipes
        notes = notes_of(self.recipe, self.data, standing, inner=inner, base=self.base, taught=self.taught)
        parser.save(self.folder / FolderNames.model, notes=f"{about}\n\n{notes}")


def learn(training: ModelTraining) -> Iterator[Progress]:
    """Train one model in its folder, or resume its training; do nothing if the model exists.

    With weight averaging, each member is trained in its own folder, and their weights are averaged.
    """
    members, folder, processes = training.recipe.training.weight_averaging, training.folder, training.processes
    if members == 1:
        yield from _learn(training)
        return
    if processes.same((folder / FolderNames.model).exists()):
        return
    folders = [folder / FolderNames.members / str(number) for number in range(1, members + 1)]
    for number, own in enumerate(folders):
        stage = ", ".join(filter(None, [training.stage, f"member {number + 1} of {members}"]))
        yield from _learn(replace(training, folder=own, stage=stage), member=number)
    if processes.is_first:
        remove_unfinished(folder, FolderNames.model)
        model, *others = (load_model(own / FolderNames.model) for own in folders)
        states = [each.state_dict() for each in (model, *others)]
        model.load_state_dict({name: torch.stack([each[name] for each in states]).mean(0) for name in states[0]})
        measured = {}
        for name, arcs in training.initial.dev.items():
            parser = training.parser_of_dev(model, arcs)
            measured[name] = accuracy_of(parser, training.data.dev, rule=training.recipe.treebank.rule)
        mean = mean_accuracy(measured)
        standing = TrainingStanding(best_las=mean.las, best_uas=mean.uas, best_from=mean.las_from, best_tags=mean.tags)
        training.save(model, standing)
    processes.wait()


def _learn(training: ModelTraining, *, member: int = 0) -> Iterator[Progress]:
    """Train one model. Members start from the same weights, but see the sentences in different orders."""
    recipe, data, folder, processes = training.recipe, training.data, training.folder, training.processes
    if processes.is_first:
        remove_unfinished(folder, FolderNames.model, FolderNames.fold_parses, FolderNames.metrics)
    if processes.same((folder / FolderNames.model).exists()):
        _finish(folder, processes)
        return
    settings = recipe.training
    model = new_model(recipe, data.train, training.base)
    shares = {"balance": recipe.treebank.balance, "unnamed": recipe.treebank.unnamed}
    text = RunningText(data.train, recipe.segmenter, **shares) if model.finds_sentences else None
    taught = training.taught
    sentences = data.train if taught is None else (*data.train, *taught.sentences)
    targets = None if taught is None else taught.targets
    learner = Learner(
        model, recipe, sentences, training.initial.train, processes, text=text, targets=targets, member=member
    )
    scorer = DevScorer(data.dev, model.vocabulary.labels, rule=recipe.treebank.rule)
    checkpoint = load_checkpoint(folder / FolderNames.checkpoints, learner)
    standing, best = (checkpoint.standing, checkpoint.best) if checkpoint else (TrainingStanding(), model.state_dict())
    processes.wait()  # until all processes have read the checkpoint, which the first one replaces
    began, saved = time.monotonic() - standing.seconds, time.monotonic()
    with MetricsLog(folder if processes.is_first else None, after_epoch=standing.epoch) as metrics:
        while not _is_over(standing, settings):
            epoch, losses, epoch_began = standing.epoch + 1, [], time.monotonic()
            for share, loss in learner.epoch(epoch):
                _check_finite(loss, epoch)
                losses.append(loss)
                done, seconds = (epoch - 1 + share) / settings.epochs, time.monotonic() - began
                yield Progress(training.stage, epoch, settings.epochs, done, fmean(losses), None, standing, seconds)
            _check_finite(float(sum(each.detach().sum() for each in model.parameters())), epoch)
            speed = len(sentences) / (time.monotonic() - epoch_began)
            accuracy = None
            if epoch % settings.dev_every == 0 or epoch == settings.epochs:
                accuracy = mean_accuracy(
                    {name: scorer.accuracy(learner, arcs) for name, arcs in training.initial.dev.items()}
                )
                las = processes.same(accuracy.las)  # all processes choose the same epoch
                if not standing.best_epoch or las > standing.best_las:
                    standing = replace(
                        standing,
                        best_epoch=epoch,
                        best_las=las,
                        best_uas=accuracy.uas,
                        best_by_step=accuracy.las_by_step,
                        best_from=accuracy.las_from,
                        best_tags=accuracy.tags,
                    )
                    best = learner.measured_weights()
            standing = replace(standing, epoch=epoch, seconds=time.monotonic() - began)
            place = (training.stage, epoch, settings.epochs, epoch / settings.epochs)
            progress = Progress(*place, fmean(losses), accuracy, standing, standing.seconds)
            metrics.add(epoch, {**_values(progress, recipe, learner), "sentences_per_second": speed})
            if processes.is_first and time.monotonic() - saved >= 60 * settings.checkpoint_minutes:
                whole = Checkpoint(standing, model.state_dict(), best, learner.optimiser.state())
                save_checkpoint(folder / FolderNames.checkpoints, whole)
                saved = time.monotonic()
            yield progress
    if processes.is_first:
        model.load_state_dict(best)
        training.save(model, standing)
    _finish(folder, processes)


def _finish(folder: Path, processes: Processes) -> None:
    """Remove the checkpoints of a complete model."""
    if processes.is_first:
        shutil.rmtree(folder / FolderNames.checkpoints, ignore_errors=True)
    processes.wait()


def _is_over(standing: TrainingStanding, settings: TrainingSettings) -> bool:
    """Return whether the last epoch is done, or early stopping ends the training."""
    is_late = standing.epoch - standing.best_epoch > settings.patience
    return standing.epoch >= settings.epochs or (is_late and standing.epoch % settings.dev_every == 0)


def _values(progress: Progress, recipe: Recipe, learner: Learner) -> dict[str, float]:
    """Return the metrics of an epoch, with the learning rates at its end."""
    found = {"loss": progress.loss}
    if progress.accuracy is not None:
        found |= {"UAS": progress.accuracy.uas, "LAS": progress.accuracy.las}
        found |= {f"LAS_{t}": las for t, las in enumerate(progress.accuracy.las_by_step, start=1)}
        found |= {f"LAS_from_{name}": las for name, las in progress.accuracy.las_from.items()}
        found |= progress.accuracy.tags
    factor = rate_factor(progress.share, recipe.optimiser.warmup)
    optimiser = recipe.optimiser
    found["learning_rate"] = optimiser.learning_rate * factor
    found["encoder_learning_rate"] = optimiser.encoder_learning_rate * factor
    found |= {f"moving_{t}": share for t, share in enumerate(learner.moving(), start=1)}
    return {**found, "updates": learner.optimiser.n_updates, "seconds": progress.seconds}


def _check_finite(value: float, epoch: int) -> None:
    if not math.isfinite(value):
        hint = "Lower the learning rates, or set training.precision=float32, and start again in a new folder."
        raise TreefineError(f"In epoch {epoch}, the loss or a weight became infinite or NaN.", hint=hint)
