"""Train a model from a recipe: first the segmenter, base models, teachers and initial parsers, then the model."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from filelock import lock_descriptor

from treefine.errors import TreefineError
from treefine.segmenter.segmenter import Segmenter
from treefine.training.checkpoint import FolderNames, TrainingState, remove_unfinished
from treefine.training.data import TrainingGraphs
from treefine.training.distil import distil
from treefine.training.epochs import InitialGraphs, Progress, TrainingRun, learn
from treefine.training.initial_parses import ParseSource
from treefine.training.logs import MetricsLog, best_segmentation
from treefine.training.new_model import TrainedBase
from treefine.training.prepare import Prepared, base_of, prepare, settings_of, sources_of
from treefine.training.processes import Processes
from treefine.training.recipe import Recipe
from treefine.training.segmenter import SegmenterLearner
from treefine.treebank.files import open_output

__all__ = ["FolderNames", "Progress", "begin_folder", "check_folder", "train"]

_SHOWN = 5  # most differing settings in an error message
_TRACES = {name for key, name in vars(FolderNames).items() if not key.startswith("_")}


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
        segmenter, segmentation = yield from _segmenter(prepared, folder / FolderNames.segmenter, processes)
        bases = yield from _bases(prepared, folder, processes)
        distillation = yield from distil(prepared, folder, processes, segmenter)
        initial = yield from _initial(prepared, folder, processes, bases)
        if distillation is not None:  # all sentences start from an empty graph
            sentences = (*prepared.data.train, *distillation.sentences)
            initial = replace(initial, train=TrainingGraphs(sentences, None, prepared.recipe.initial))
        yield from learn(
            TrainingRun(
                prepared.recipe,
                prepared.data,
                folder,
                processes,
                initial,
                base=bases.get(base_of(prepared.recipe)),
                segmenter=segmenter,
                segmentation=segmentation,
                distillation=distillation,
            )
        )


def _segmenter(
    prepared: Prepared, folder: Path, processes: Processes
) -> Generator[Progress, None, tuple[Segmenter | None, dict[str, float]]]:
    """Train the segmenter in the first process, if the recipe has one, and return it with its F1 on dev.

    An interrupted training starts again.
    """
    settings = prepared.recipe.segmenter
    if settings.train == "never":
        return None, {}
    model = folder / FolderNames.model
    if not processes.same(model.exists()):
        if processes.is_first:
            remove_unfinished(folder, FolderNames.model, FolderNames.metrics)
            data, seed = prepared.data, prepared.recipe.training.seed
            shares = {"balance": prepared.recipe.treebank.balance, "unnamed": prepared.recipe.treebank.unnamed}
            learner = SegmenterLearner(data.train, data.dev, settings, **shares, seed=seed, device=processes.device)
            with MetricsLog(folder, after_epoch=0) as metrics:
                for epoch in learner.epochs():
                    metrics.add(epoch.epoch, {"loss": epoch.loss, **epoch.f1, "seconds": epoch.seconds})
                    processes.same(True)
                    place = ("segmenter", epoch.epoch, settings.epochs, epoch.epoch / settings.epochs)
                    state = TrainingState(epoch.epoch)
                    yield Progress(*place, epoch.loss, None, state, epoch.seconds, segmentation=epoch.f1)
            learner.segmenter.save(model)
        while processes.same(False):  # the other processes wait for one epoch at a time, so they do not time out
            pass
    return Segmenter.from_folder(model), best_segmentation(folder)


def _bases(prepared: Prepared, folder: Path, processes: Processes) -> Generator[Progress, None, dict[str, TrainedBase]]:
    """Train the base models of this model and of its initial parsers; return them by the names of their recipes."""
    bases: dict[str, TrainedBase] = {}
    for name, base in prepared.bases.items():
        stem, initial = Path(name).stem, InitialGraphs.without_parser(base.recipe, base.data)
        of_base = folder / FolderNames.bases / stem
        yield from learn(TrainingRun(base.recipe, base.data, of_base, processes, initial, stage=f"base model {stem}"))
        bases[name] = TrainedBase(str(of_base / FolderNames.model), base.recipe, base.data)
    return bases


def _initial(
    prepared: Prepared, folder: Path, processes: Processes, bases: Mapping[str, TrainedBase]
) -> Generator[Progress, None, InitialGraphs]:
    """Train the initial parsers, and return the initial graphs of the model (Sec. 4)."""
    data, settings, form = prepared.data, prepared.recipe.initial, prepared.recipe.treebank.format or None
    parses = {}
    for name, of_source in sources_of(settings).items():
        recipe = prepared.initial.get(name)
        inner = folder / FolderNames.mix / name if name else folder
        source = ParseSource(name, of_source, recipe, bases.get(base_of(recipe)), inner, data, processes, form)
        parses[name or settings.name] = yield from source.kept_parses() if name else source.parses()
    first = parses[settings.name]
    return InitialGraphs(
        TrainingGraphs(data.train, first.train, settings, {name: parses[name].train for name in settings.mix}),
        dev={name: some.dev for name, some in parses.items()},
        parser=first.parser,
        recipes={name or settings.name: recipe for name, recipe in prepared.initial.items()},
    )


@contextmanager
def locked(
    folder: Path, *, hint: str = "Wait until it ends or stop it, then continue with --resume."
) -> Iterator[None]:
    """Lock the folder against other trainings until the context ends or this process dies."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / FolderNames.lock).open("w")
    except OSError as error:
        raise TreefineError(f"{error.strerror or error}.", path=str(folder)) from error
    with file:
        with suppress(OSError):  # the file system has no locks
            if not lock_descriptor(file.fileno(), blocking=False):
                raise TreefineError("Another training is running in this folder.", hint=hint, path=str(folder))
        yield


def check_folder(folder: Path, prepared: Prepared, *, is_resumed: bool) -> None:
    """Raise an error if this training cannot start in the folder or, with `is_resumed`, cannot be resumed there."""
    try:
        names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return
    except OSError as error:
        raise TreefineError(f"{error.strerror}.", path=str(folder)) from None
    if _TRACES & set(names):
        if not is_resumed:
            hint = "Continue it with --resume, or choose another folder."
            raise TreefineError("The folder contains a training run.", hint=hint, path=str(folder))
        _check_same(folder / FolderNames.recipe, _settings_and_checksums(prepared))
    elif names:
        message = f"The folder contains other files: {', '.join(names[:3])}{' …' if len(names) > 3 else ''}."
        raise TreefineError(message, hint="Choose a new or empty folder.", path=str(folder))


def begin_folder(folder: Path, prepared: Prepared) -> None:
    """Create the folder and write the recipe into it, unless it exists."""
    path = folder / FolderNames.recipe
    if path.exists():
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TreefineError(f"{error.strerror}.", path=str(folder)) from None
    with open_output(path) as file:
        file.write(json.dumps(_settings_and_checksums(prepared), indent=1, ensure_ascii=False).encode() + b"\n")


def _settings_and_checksums(prepared: Prepared) -> dict[str, Any]:
    """Return everything that the result depends on: settings, including defaults, and checksums of the files."""
    settings = settings_of(prepared)
    for recipe in filter(None, settings.values()):
        del recipe["training"]["checkpoint_minutes"], recipe["card"]  # do not change the weights
    checksums = dict(prepared.data.checksums)
    for base in prepared.bases.values():
        checksums |= base.data.checksums
    values: dict[str, Any] = json.loads(json.dumps({**settings, "checksums": checksums}))  # with lists for tuples
    return values


def _check_same(path: Path, values: dict[str, Any]) -> None:
    """Raise an error if the training in this folder has different settings or files."""
    try:
        before = dict(_flat(json.loads(path.read_text(encoding="utf-8"))))
    except FileNotFoundError:
        message = f"{path.name} is missing, so the recipe of this training is unknown."
        raise TreefineError(message, hint="Choose another folder.", path=str(path.parent)) from None
    except (OSError, ValueError, AttributeError) as error:
        raise TreefineError(f"The file is damaged ({error}).", hint="Choose another folder.", path=str(path)) from None
    now = dict(_flat(values))
    differing = [key for key in dict.fromkeys((*now, *before)) if before.get(key) != now.get(key)]
    if differing:
        shown = [_change(key, before.get(key), now.get(key)) for key in differing[:_SHOWN]]
        more = f" and {len(differing) - _SHOWN} more" if len(differing) > _SHOWN else ""
        message = f"The training in this folder has a different recipe: {', '.join(shown)}{more}."
        raise TreefineError(message, hint="Use the same recipe, or choose another folder.", path=str(path.parent))


def _change(key: str, before: object, now: object) -> str:
    if key.startswith("checksums."):
        return f"the content of {key.removeprefix('checksums.')} has changed"
    old, new = (json.dumps(value, ensure_ascii=False) for value in (before, now))
    return f"{key.removeprefix('recipe.')} was {old}, not {new}"


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value with its key, which includes the names of the sections."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
