"""Train a model from a recipe: first the segmenter, base models, teachers and initial parsers, then the model."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from treefine.parsing.batches import free_memory
from treefine.parsing.initial import empty, from_file
from treefine.parsing.parser import Parser
from treefine.segmenter.segmenter import Segmenter
from treefine.training.data import Data, fold_ranges
from treefine.training.distil import DistillationData, Targets, compute_targets, load_teachers, unlabelled_sentences
from treefine.training.epochs import InitialGraphs, Progress, TrainingRun, learn
from treefine.training.folder import (
    FolderNames,
    TrainingState,
    best_segmentation,
    locked,
    metrics_log,
    remove_unfinished,
)
from treefine.training.prepare import Prepared, base_of, prepare
from treefine.training.processes import Processes
from treefine.training.recipe import EMPTY, FILES, Recipe, expand
from treefine.training.segmenter import RunningText, SegmenterLearner
from treefine.treebank.conllu import convert, read_treebank, write_treebank
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import CONLLU, Sentence


def train(
    recipe: Recipe | Prepared, output: str | os.PathLike[str], *, device: torch.device | None = None
) -> Iterator[Progress]:
    """Train a model from a recipe, or resume its training. The trained model is in the folder `output`/model.

    Yields progress after each batch. Raises errors in the recipe and its files before the first batch.
    """
    prepared = recipe if isinstance(recipe, Prepared) else prepare(recipe)
    folder = Path(output)
    chosen = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with Processes(chosen) as processes, locked(folder) if processes.is_first else nullcontext():
        yield from Stages(prepared, folder, processes).run()


@dataclass(frozen=True)
class Stages:
    """The trainings for one recipe, in its output folder and subfolders."""

    prepared: Prepared
    folder: Path
    processes: Processes

    def run(self) -> Iterator[Progress]:
        """Train the model, after everything that it needs."""
        recipe, data = self.prepared.recipe, self.prepared.data
        segmenter, segmentation = yield from self._segmenter()
        for name, base in self.prepared.bases.items():
            stem = Path(name).stem
            folder = self.folder / FolderNames.bases / stem
            yield from learn(self._inputs(base.recipe, base.data, folder, f"base model {stem}"))
        distillation = yield from self._distillation(segmenter)
        initial = yield from self.initial_graphs()
        if distillation is not None:  # all sentences start from an empty graph
            sentences = (*data.train, *distillation.sentences)
            initial = replace(initial, train=list(empty(sentences)))
        yield from learn(
            replace(
                self._inputs(recipe, data, self.folder, initial=initial),
                others=self.prepared.others,
                segmenter=segmenter,
                segmentation=segmentation,
                distillation=distillation,
            )
        )

    def _inputs(
        self, recipe: Recipe, data: Data, folder: Path, stage: str = "", *, initial: InitialGraphs | None = None
    ) -> TrainingRun:
        """Return the inputs of the training of a model; without initial graphs, it starts from empty ones."""
        if initial is None:
            initial = _empty_graphs(data)
        base = self.prepared.bases.get(name := base_of(recipe))
        start = self.folder / FolderNames.bases / Path(name).stem / FolderNames.model
        return TrainingRun(recipe, data, folder, self.processes, initial, stage, "" if base is None else str(start))

    def _in_first(self, steps: Iterable[Progress]) -> Iterator[Progress]:
        """Take these steps in the first process. The others wait for one step at a time, so they do not time out."""
        if self.processes.is_first:
            for step in steps:
                self.processes.same(True)
                yield step
        while self.processes.same(False):
            pass

    def _segmenter(self) -> Generator[Progress, None, tuple[Segmenter | None, dict[str, float]]]:
        """Train the segmenter, if the recipe has one, and return it with its F1 on dev."""
        folder = self.folder / FolderNames.segmenter
        if self.prepared.recipe.segmenter.train == "never":
            return None, {}
        if not self.processes.same((folder / FolderNames.model).exists()):
            yield from self._in_first(self._segmenter_epochs(folder))
        return Segmenter.from_folder(folder / FolderNames.model), best_segmentation(folder)

    def _segmenter_epochs(self, folder: Path) -> Iterator[Progress]:
        """Train the segmenter. An interrupted training starts again."""
        recipe, data, settings = self.prepared.recipe, self.prepared.data, self.prepared.recipe.segmenter
        remove_unfinished(folder, FolderNames.model, FolderNames.metrics)
        text, seed = RunningText(data.train, settings, recipe.treebank), recipe.training.seed
        learner, began = SegmenterLearner(text, data.dev, seed=seed, device=self.processes.device), time.monotonic()
        with metrics_log(folder, after_epoch=0) as add_metrics:
            for epoch, loss, f1 in learner.epochs():
                state = TrainingState(epoch, seconds=time.monotonic() - began)
                add_metrics(epoch, {"loss": loss, **f1, "seconds": state.seconds})
                place = ("segmenter", epoch, settings.epochs, epoch / settings.epochs)
                yield Progress(*place, loss, None, state, state.seconds, segmentation=f1)
        learner.segmenter.save(folder / FolderNames.model)

    def _distillation(self, segmenter: Segmenter | None) -> Generator[Progress, None, DistillationData | None]:
        """Train the teachers and compute the targets, unless they are in the folder; None if there are no teachers."""
        prepared, folder = self.prepared, self.folder / FolderNames.teachers
        path, texts = folder / FolderNames.targets, folder / FolderNames.unlabelled
        if not prepared.recipe.teacher.names:
            return None
        if not self.processes.same(path.exists()):
            folders = yield from self._teachers(folder)
            yield from self._in_first(self._targets(folder, folders, segmenter))
            free_memory()
        sentences = tuple(read_treebank(texts)) if texts.exists() else ()
        targets = Targets.load(path, (*prepared.data.train, *sentences))
        return DistillationData(sentences, targets)

    def _teachers(self, folder: Path) -> Generator[Progress, None, list[str]]:
        """Train each recipe of a teacher with several seeds, and return the folders of all teachers."""
        settings, teachers = self.prepared.recipe.teacher, self.prepared.teachers
        folders = [expand(name) for name in settings.models]
        for name, teacher in teachers.items():
            for number in range(settings.members):
                training = replace(teacher.recipe.training, seed=teacher.recipe.training.seed + number)
                recipe, inner = replace(teacher.recipe, training=training), folder / Path(name).stem / str(number + 1)
                stage = f"teacher {len(folders) + 1} of {settings.members * len(teachers)}"
                yield from learn(self._inputs(recipe, teacher.data, inner, stage))
                folders.append(str(inner / FolderNames.model))
        return folders

    def _targets(self, folder: Path, teachers: Sequence[str], segmenter: Segmenter | None) -> Iterator[Progress]:
        """Write the targets of the teachers, and the unlabelled sentences with their trees."""
        prepared, device, began = self.prepared, self.processes.device, time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        remove_unfinished(folder, FolderNames.targets, FolderNames.unlabelled)
        unlabelled = unlabelled_sentences(prepared.texts, segmenter)
        models = load_teachers(teachers, prepared.recipe, device)
        targets, parsed, steps = compute_targets(prepared.recipe, prepared.data.train, unlabelled, models, device)
        for share in steps:
            state = TrainingState(epoch=int(share == 1))
            yield Progress("targets", 1, 1, share, 0.0, None, state, time.monotonic() - began)
        if parsed:
            write_treebank(parsed, folder / FolderNames.unlabelled)
        targets.save(folder / FolderNames.targets)

    def initial_graphs(self) -> Generator[Progress, None, InitialGraphs]:
        """Train the initial parser, and return the initial graphs of the model (Sec. 4)."""
        data, settings, recipe = self.prepared.data, self.prepared.recipe.initial, self.prepared.initial
        folder, device = self.folder / FolderNames.initial, self.processes.device
        if settings.parser == EMPTY:
            return _empty_graphs(data)
        if settings.parser == FILES:
            train, dev = self.prepared.parses
            return InitialGraphs(train, dev)
        if recipe is None:
            parser = Parser.from_pretrained(expand(settings.parser), device=device)
        else:
            yield from learn(self._inputs(recipe, data, folder, "initial parser"))
            parser = Parser.from_pretrained(folder / FolderNames.model, device=device)
        if recipe is not None and settings.folds:
            parses = yield from self._jackknifed(recipe, settings.folds)
        else:
            parses = _parsed(parser, data.train)
        return InitialGraphs(parses, _parsed(parser, data.dev), parser)

    def _jackknifed(self, recipe: Recipe, folds: int) -> Generator[Progress, None, list[Arcs]]:
        """Return parses of the training set: each fold is parsed by a parser trained on the other folds."""
        parses: list[Arcs] = []
        data, processes = self.prepared.data, self.processes
        for number, fold in enumerate(fold_ranges(len(data.train), folds), start=1):
            folder = self.folder / FolderNames.folds / str(number)
            path, held_out = folder / FolderNames.fold_parses, data.train[fold.start : fold.stop]
            if not processes.same(path.exists()):
                rest = replace(data, train=data.train[: fold.start] + data.train[fold.stop :])
                yield from learn(self._inputs(recipe, rest, folder, f"fold {number} of {folds}"))
                if processes.is_first:
                    parser = Parser.from_pretrained(folder / FolderNames.model, device=processes.device)
                    parsed = parser.using(keep="nothing").stream_trees(held_out)  # as in `_parsed`
                    write_treebank((convert(sentence, CONLLU) for sentence in parsed), path)
                processes.wait()
            if processes.is_first:
                members = folder.glob(f"{FolderNames.members}/*/{FolderNames.model}")
                for model in (folder / FolderNames.model, *members):
                    shutil.rmtree(model, ignore_errors=True)  # only the parses are needed
            parses += from_file(str(path))(held_out)
        return parses


def _empty_graphs(data: Data) -> InitialGraphs:
    return InitialGraphs(list(empty(data.train)), list(empty(data.dev)))


def _parsed(parser: Parser, sentences: Sequence[Sentence]) -> list[Arcs]:
    # The parser must not keep gold arcs that are marked in the treebank.
    return [sentence.arcs for sentence in parser.using(keep="nothing").stream_trees(sentences)]
