"""The output folder of a training: file names, and checkpoints that are written atomically."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from treefine.config import read_settings
from treefine.errors import TreefineError
from treefine.model.weight_files import check_weights
from treefine.training.learner import Learner

_PREFIX = "checkpoint-"
_SCRATCH = ".new-"
_KINDS = ("weights", "best", "optimiser")


class FolderNames:
    """The names of the files and folders in the output folder."""

    recipe: Final = "recipe.json"
    model: Final = "model"
    checkpoints: Final = "checkpoints"
    metrics: Final = "metrics.jsonl"
    board: Final = "tensorboard"
    lock: Final = ".lock"  # the file stays; its lock ends with the process

    # Each of these folders contains the output folders of other trainings:
    bases: Final = "start"  # the models that this model and its initial parsers fine-tune
    initial: Final = "initial"  # the initial parser
    mix: Final = "mix"  # the initial parsers in the mix, by name
    members: Final = "members"  # the models whose weights are averaged
    folds: Final = "folds"  # the parsers that parse the training set
    segmenter: Final = "segmenter"
    teachers: Final = "teachers"  # the teachers, by the names of their recipes

    fold_parses: Final = "parses.conllu.gz"  # the held-out sentences of a fold, parsed by its parser
    train_parses: Final = "train.conllu.gz"  # the training set, parsed by a parser in the mix
    dev_parses: Final = "dev.conllu.gz"  # the dev set, parsed by it
    targets: Final = "targets.safetensors"  # what the teachers say about each word
    unlabelled: Final = "unlabelled.conllu.gz"  # the sentences of the texts, parsed by the teachers


@dataclass(frozen=True)
class TrainingState:
    """The last and the best epoch of a training so far."""

    epoch: int = 0  # the last completed epoch
    best_epoch: int = 0  # 0: no epoch has been scored
    best_las: float = 0.0
    best_uas: float = 0.0
    best_by_step: tuple[float, ...] = ()  # LAS of G¹ … Gᵀ
    best_from: dict[str, float] = field(default_factory=dict)  # LAS from each source of G⁰, if there are several
    best_tags: dict[str, float] = field(default_factory=dict)  # accuracy of the predicted UPOS and XPOS
    seconds: float = 0.0  # training time so far


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training. Random choices need no state: they follow from the seed and the number of the epoch."""

    state: TrainingState
    weights: dict[str, Tensor]
    best: dict[str, Tensor]
    optimiser: dict[str, Tensor]


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, and remove the previous one only when the new one is complete on disk."""
    name = f"{_PREFIX}{checkpoint.state.epoch:06}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=_SCRATCH) as scratch:
            new = Path(scratch, "new")
            new.mkdir()
            for kind in _KINDS:
                tensors = {name: one.detach().contiguous().cpu() for name, one in getattr(checkpoint, kind).items()}
                save_file(tensors, new / f"{kind}.safetensors")
            (new / "state.json").write_text(json.dumps(asdict(checkpoint.state)), encoding="utf-8")
            for file in new.iterdir():
                with file.open("rb") as written:
                    os.fsync(written.fileno())  # a power cut can lose the bytes but keep the rename
            new.rename(folder / name)
    except (OSError, SafetensorError) as error:
        reason = error.strerror or error if isinstance(error, OSError) else error
        hint = "The previous checkpoint is unchanged. Free some disk space, then continue with --resume."
        raise TreefineError(f"Cannot write a checkpoint: {reason}.", hint=hint, path=str(folder)) from error
    for old in _checkpoints(folder):
        if old.name != name:
            shutil.rmtree(old, ignore_errors=True)


def load_checkpoint(folder: Path, learner: Learner) -> Checkpoint | None:
    """Load the last checkpoint into the learner and return it. Return None if no checkpoint exists."""
    checkpoints = _checkpoints(folder)
    if not checkpoints:
        return None
    last = checkpoints[-1]
    try:
        tensors = {kind: load_file(last / f"{kind}.safetensors") for kind in _KINDS}
        state = read_settings(TrainingState, json.loads((last / "state.json").read_text(encoding="utf-8")))
        wanted = learner.model.state_dict()
        for kind in ("weights", "best"):
            check_weights(tensors[kind], wanted, path=f"{kind}.safetensors")
        learner.model.load_state_dict(tensors["weights"])
        learner.optimiser.load_state(tensors["optimiser"])
    except (OSError, SafetensorError, TreefineError, KeyError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
        hint = "Delete it; the training then resumes from an earlier checkpoint, or starts again."
        raise TreefineError(f"The checkpoint is damaged ({reason}).", hint=hint, path=str(last)) from error
    return Checkpoint(state, **tensors)


def remove_unfinished(folder: Path, *names: str) -> None:
    """Remove incomplete checkpoints, and incomplete files and folders of these names, that a killed process left."""
    for pattern in (f"{FolderNames.checkpoints}/{_SCRATCH}*", *(f".{name}.*" for name in names)):
        for path in folder.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{_PREFIX}*"))
