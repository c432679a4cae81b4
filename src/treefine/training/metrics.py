"""What a training measured: a JSON line an epoch, and the same for TensorBoard where that is installed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from treefine.errors import TreefineError

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

LINES, BOARD = "metrics.jsonl", "tensorboard"


class Metrics:
    """Writes metrics.jsonl, and the folder `tensorboard`, until it is left; without a folder nothing.

    Epochs after `after_epoch` are about to be done anew: their lines go. The board is written anew from those that
    stay, so that it never has a point twice.
    """

    def __init__(self, folder: Path | None, *, after_epoch: int) -> None:
        self.folder = folder
        self.board: SummaryWriter | None = None
        if folder is None:
            return
        with _reported(folder):
            folder.mkdir(parents=True, exist_ok=True)
            kept = [values for values in _read(folder / LINES) if values["epoch"] <= after_epoch]
            scratch = folder / f".{LINES}.new"
            scratch.write_text("".join(map(_line, kept)), encoding="utf-8")
            scratch.replace(folder / LINES)
            shutil.rmtree(folder / BOARD, ignore_errors=True)
            self.board = _board(folder / BOARD)
            for values in kept:
                self._show(values)

    def __enter__(self) -> Metrics:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.folder is not None and self.board is not None:
            with _reported(self.folder):
                self.board.close()

    def add(self, epoch: int, values: dict[str, float]) -> None:
        """Write the values of one epoch."""
        if self.folder is None:
            return
        with _reported(self.folder):
            with (self.folder / LINES).open("a", encoding="utf-8") as file:
                file.write(_line({"epoch": epoch, **values}))
            self._show({"epoch": epoch, **values})

    def _show(self, values: dict[str, float]) -> None:
        if self.board is not None:
            for name, value in values.items():
                if name != "epoch":
                    self.board.add_scalar(name, value, int(values["epoch"]))
            self.board.flush()


def _line(values: dict[str, float]) -> str:
    return json.dumps(values) + "\n"


def _read(path: Path) -> Iterator[dict[str, float]]:
    """The lines that are whole; the last one of a killed training may not be."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                values = json.loads(line)
            except ValueError:
                continue
            if isinstance(values, dict) and "epoch" in values:
                yield values


def _board(folder: Path) -> SummaryWriter | None:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder))


@contextmanager
def _reported(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise TreefineError(f"The metrics could not be written: {reason}.", path=str(folder)) from error
