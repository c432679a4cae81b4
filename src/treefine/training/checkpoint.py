"""Where a training stands, on disk: written whole or not at all, never a pickle."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

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


@dataclass(frozen=True)
class Standing:
    """How far a training is, and its best epoch so far."""

    epoch: int = 0  # the last one that is done
    best_epoch: int = 0  # 0: none has been measured
    best_las: float = 0.0
    best_uas: float = 0.0
    best_by_step: tuple[float, ...] = ()  # the LAS of G¹ … Gᵀ
    best_from: dict[str, float] = field(default_factory=dict)  # LAS from each source of G⁰, where there are several
    seconds: float = 0.0  # spent so far


@dataclass(frozen=True)
class Checkpoint:
    """All that the rest of a training depends on; what is random in an epoch follows from its number and the seed."""

    standing: Standing
    weights: dict[str, Tensor]
    best: dict[str, Tensor]
    optimiser: dict[str, Tensor]


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write it beside the last one, which goes only when the new one is whole and on the disk."""
    name = f"{_PREFIX}{checkpoint.standing.epoch:06}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=_SCRATCH) as scratch:
            new = Path(scratch, "new")
            new.mkdir()
            for kind in _KINDS:
                tensors = {key: each.detach().contiguous().cpu() for key, each in getattr(checkpoint, kind).items()}
                save_file(tensors, new / f"{kind}.safetensors")
            (new / "standing.json").write_text(json.dumps(asdict(checkpoint.standing)), encoding="utf-8")
            for file in new.iterdir():
                with file.open("rb") as written:
                    os.fsync(written.fileno())  # a rename can outlive a power cut that the bytes do not
            new.rename(folder / name)
    except (OSError, SafetensorError) as error:
        reason = error.strerror or error if isinstance(error, OSError) else error
        hint = "The one before it is as it was: make room, then start the training again."
        raise TreefineError(f"No checkpoint could be written: {reason}.", hint=hint, path=str(folder)) from error
    for old in _found(folder):
        if old.name != name:
            shutil.rmtree(old, ignore_errors=True)


def load_checkpoint(folder: Path, learner: Learner) -> Checkpoint | None:
    """The last one that was written, with which the learner then goes on; None where there is none."""
    found = _found(folder)
    if not found:
        return None
    last = found[-1]
    try:
        tensors = {kind: load_file(last / f"{kind}.safetensors") for kind in _KINDS}
        standing = read_settings(Standing, json.loads((last / "standing.json").read_text(encoding="utf-8")))
        wanted = learner.model.state_dict()
        for kind in ("weights", "best"):
            check_weights(tensors[kind], wanted, path=f"{kind}.safetensors")
        learner.model.load_state_dict(tensors["weights"])
        learner.optimiser.load_state(tensors["optimiser"])
    except (OSError, SafetensorError, TreefineError, KeyError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
        hint = "Delete it; the training then goes on from an earlier one, or starts anew."
        raise TreefineError(f"The checkpoint is damaged ({reason}).", hint=hint, path=str(last)) from error
    return Checkpoint(standing, **tensors)


def remove_leftovers(folder: Path, *names: str) -> None:
    """Remove what a killed process had not finished: half a checkpoint, or half of a file or folder of these names."""
    for pattern in (f"checkpoints/{_SCRATCH}*", *(f".{name}.*" for name in names)):
        for path in folder.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _found(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{_PREFIX}*"))
