"""Where a training stands, on disk: written whole or not at all, never a pickle."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from treefine.errors import TreefineError

_PREFIX = "checkpoint-"


@dataclass(frozen=True)
class Standing:
    """How far a training is, and its best epoch so far."""

    epoch: int = 0  # the last one that is done
    best_epoch: int = 0
    best_las: float = -1.0
    best_uas: float = -1.0
    seconds: float = 0.0  # spent so far


@dataclass(frozen=True)
class Checkpoint:
    """All that the rest of a training depends on."""

    standing: Standing
    weights: dict[str, Tensor]
    best: dict[str, Tensor]
    optimiser: dict[str, Tensor]


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write it beside the last one, which goes only when the new one is whole."""
    name = f"{_PREFIX}{checkpoint.standing.epoch:06}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as scratch:
            new = Path(scratch, "new")
            new.mkdir()
            for kind in ("weights", "best", "optimiser"):
                tensors = {key: each.detach().contiguous().cpu() for key, each in getattr(checkpoint, kind).items()}
                save_file(tensors, new / f"{kind}.safetensors")
            (new / "standing.json").write_text(json.dumps(asdict(checkpoint.standing)), encoding="utf-8")
            if not (folder / name).exists():
                new.rename(folder / name)
        for old in _found(folder):
            if old.name != name:
                shutil.rmtree(old)
    except (OSError, SafetensorError) as error:
        reason = error.strerror or error if isinstance(error, OSError) else error
        hint = "The one before it is as it was: make room, then go on with --resume."
        raise TreefineError(f"No checkpoint could be written: {reason}.", hint=hint, path=str(folder)) from error


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """The last one that was written; None where there is none."""
    found = _found(folder)
    if not found:
        return None
    last = found[-1]
    try:
        tensors = {kind: load_file(last / f"{kind}.safetensors") for kind in ("weights", "best", "optimiser")}
        standing = Standing(**json.loads((last / "standing.json").read_text(encoding="utf-8")))
    except (OSError, SafetensorError, TypeError, ValueError) as error:
        hint = "Delete this folder; the training then starts anew."
        raise TreefineError(f"The checkpoint is damaged ({error}).", hint=hint, path=str(last)) from error
    return Checkpoint(standing, **tensors)


def _found(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{_PREFIX}*"))
