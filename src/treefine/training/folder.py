"""The output folder of a training: its recipe and lock, checkpoints that are written atomically, and metrics."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from filelock import lock_descriptor
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from treefine.config import read_settings
from treefine.errors import TreefineError
from treefine.model.folder import check_weights
from treefine.training.dev import Accuracy
from treefine.training.learner import Learner
from treefine.training.prepare import Prepared
from treefine.treebank.files import open_output

_PARTS = ("weights.", "best.", "optimiser.")  # of a checkpoint


class FolderNames:
    """The names of the files and folders in the output folder."""

    recipe: Final = "recipe.json"
    model: Final = "model"
    checkpoint: Final = "checkpoint.safetensors"
    metrics: Final = "metrics.jsonl"
    board: Final = "tensorboard"
    lock: Final = ".lock"  # the file stays; its lock ends with the process

    # Each of these folders contains the output folders of other trainings:
    bases: Final = "start"  # the models that this model and its initial parsers fine-tune
    initial: Final = "initial"  # the initial parser
    members: Final = "members"  # the models whose weights are averaged
    folds: Final = "folds"  # the parsers that parse the training set
    segmenter: Final = "segmenter"
    teachers: Final = "teachers"  # the teachers, by the names of their recipes

    fold_parses: Final = "parses.conllu.gz"  # the held-out sentences of a fold, parsed by its parser
    targets: Final = "targets.safetensors"  # what the teachers say about each word
    unlabelled: Final = "unlabelled.conllu.gz"  # the sentences of the texts, parsed by the teachers


_TRACES = {name for key, name in vars(FolderNames).items() if not key.startswith("_")}


def check_folder(folder: Path, prepared: Prepared, *, is_resumed: bool) -> None:
    """Raise an error if this training cannot start in the folder or, with `is_resumed`, cannot be resumed there."""
    try:
        names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return
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
    folder.mkdir(parents=True, exist_ok=True)
    with open_output(path) as file:
        file.write(json.dumps(_settings_and_checksums(prepared), indent=1, ensure_ascii=False).encode() + b"\n")


def _settings_and_checksums(prepared: Prepared) -> dict[str, Any]:
    """Return everything that the result depends on: settings, including defaults, and checksums of the files."""
    settings = prepared.settings
    for recipe in settings.values():
        del recipe["training"]["checkpoint_minutes"], recipe["card"]  # do not change the weights
    values: dict[str, Any] = json.loads(json.dumps({**settings, "checksums": prepared.data.checksums}))
    return values  # with lists for tuples


def _check_same(path: Path, values: dict[str, Any]) -> None:
    """Raise an error if the training in this folder has different settings or files."""
    try:
        before = dict(_flat(json.loads(path.read_text(encoding="utf-8"))))
    except (OSError, ValueError, AttributeError) as error:
        message = f"The recipe of this training cannot be read ({error})."
        raise TreefineError(message, hint="Choose another folder.", path=str(path)) from None
    now = dict(_flat(values))
    differing = [key for key in dict.fromkeys((*now, *before)) if before.get(key) != now.get(key)]
    if differing:
        shown = ", ".join(key.removeprefix("recipe.").replace("checksums.", "the content of ") for key in differing)
        message = f"The training in this folder has a different recipe. These settings or files differ: {shown}."
        raise TreefineError(message, hint="Use the same recipe, or choose another folder.", path=str(path.parent))


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value with its key, which includes the names of the sections."""
    for key, value in values.items():
        yield from _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(prefix + key, value)]


@contextmanager
def locked(
    folder: Path, *, hint: str = "Wait until it ends or stop it, then continue with --resume."
) -> Iterator[None]:
    """Lock the folder against other trainings until the context ends or this process dies."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / FolderNames.lock).open("w") as file:
        with suppress(OSError):  # the file system has no locks
            if not lock_descriptor(file.fileno(), blocking=False):
                raise TreefineError("Another training is running in this folder.", hint=hint, path=str(folder))
        yield


@dataclass(frozen=True)
class TrainingState:
    """The last and the best epoch of a training so far."""

    epoch: int = 0  # the last completed epoch
    best_epoch: int = 0  # 0: no epoch has been scored
    best: Accuracy = Accuracy((), 0.0, 0.0)  # on dev in the best epoch
    seconds: float = 0.0  # training time so far


def save_checkpoint(folder: Path, learner: Learner, state: TrainingState, best: Mapping[str, Tensor]) -> None:
    """Write a checkpoint, which replaces the previous one when it is complete on disk.

    Random choices need no state: they follow from the seed and the number of the epoch.
    """
    parts = zip(_PARTS, (learner.model.state_dict(), best, learner.optimiser.state()), strict=True)
    tensors = {part + name: one.detach().contiguous().cpu() for part, some in parts for name, one in some.items()}
    new = folder / f".{FolderNames.checkpoint}.new"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_file(tensors, new, {"state": json.dumps(asdict(state))})
        with new.open("rb") as written:
            os.fsync(written.fileno())  # a power cut can lose the bytes but keep the rename
        new.replace(folder / FolderNames.checkpoint)
    except (OSError, SafetensorError) as error:
        reason = error.strerror or error if isinstance(error, OSError) else error
        hint = "The previous checkpoint is unchanged. Free some disk space, then continue with --resume."
        raise TreefineError(f"Cannot write a checkpoint: {reason}.", hint=hint, path=str(folder)) from error


def load_checkpoint(folder: Path, learner: Learner) -> tuple[TrainingState, dict[str, Tensor]] | None:
    """Load the checkpoint into the learner. Return its state and the best weights, or None without a checkpoint."""
    path = folder / FolderNames.checkpoint
    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as file:
            state = read_settings(TrainingState, json.loads((file.metadata() or {})["state"]))
            tensors = {name: file.get_tensor(name) for name in file.keys()}
        weights, best, optimiser = (
            {name.removeprefix(part): one for name, one in tensors.items() if name.startswith(part)} for part in _PARTS
        )
        for some in (weights, best):
            check_weights(some, learner.model.state_dict(), path=path.name)
        learner.model.load_state_dict(weights)
        learner.optimiser.load_state(optimiser)
    except (OSError, SafetensorError, TreefineError, KeyError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
        hint = "Delete it; this stage of the training then starts again."
        raise TreefineError(f"The checkpoint is damaged ({reason}).", hint=hint, path=str(path)) from error
    return state, best


def remove_unfinished(folder: Path, *names: str) -> None:
    """Remove incomplete files and folders of these names that a killed process left."""
    for path in (path for name in names for path in folder.glob(f".{name}.*")):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def metrics_log(folder: Path | None, *, after_epoch: int) -> Iterator[Callable[[int, Mapping[str, float]], None]]:
    """Yield a function that adds the metrics of an epoch to metrics.jsonl and TensorBoard, if there is a folder.

    They replace those of the same and later epochs, which are trained again; TensorBoard hides these.
    """
    if folder is None:
        yield lambda epoch, values: None
        return
    folder.mkdir(parents=True, exist_ok=True)
    board = None
    with suppress(ImportError):
        from torch.utils.tensorboard import SummaryWriter

        board = SummaryWriter(str(folder / FolderNames.board), purge_step=after_epoch + 1)

    def add(epoch: int, values: Mapping[str, float]) -> None:
        kept = [line for line in _metrics(folder) if line["epoch"] < epoch]
        with open_output(folder / FolderNames.metrics, is_synced=True) as file:
            file.writelines(json.dumps(line).encode() + b"\n" for line in (*kept, {"epoch": epoch, **values}))
        if board is not None:
            for name, value in values.items():
                board.add_scalar(name, value, epoch)
            board.flush()

    try:
        yield add
    finally:
        if board is not None:
            board.close()


def _metrics(folder: Path) -> list[dict[str, float]]:
    path = folder / FolderNames.metrics
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def best_segmentation(folder: Path) -> dict[str, float]:
    """Return the F1 scores of the segmenter in a folder: those of its best epoch, as in `SegmenterLearner.epochs`."""
    best = max(_metrics(folder), key=lambda line: line["Words"] + line["Sentences"], default={})
    return {name: best[name] for name in ("Tokens", "Sentences", "Words") if name in best}
