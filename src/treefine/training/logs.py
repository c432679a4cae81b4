"""What a training measured, for people and for TensorBoard, and what a model's card says about it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch

from treefine.errors import TreefineError
from treefine.training.checkpoint import Standing
from treefine.training.data import Data
from treefine.training.recipe import FILES, Recipe, values_of
from treefine.version import __version__

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


@dataclass(frozen=True)
class Origin:
    """The model that a training goes on from, where that was trained for it."""

    folder: str
    recipe: Recipe
    data: Data


def notes_of(
    recipe: Recipe, data: Data, standing: Standing, *, inner: Mapping[str, Recipe], origin: Origin | None = None
) -> str:
    """The recipe, those of its initial parsers and its start, the code's versions, checksums and the dev scores."""
    members, scores = recipe.training.members, f"UAS {standing.best_uas:.2%} and LAS {standing.best_las:.2%}"
    chosen = f"The best of {standing.epoch} epochs is number {standing.best_epoch}."
    by_step = f"; the graphs of its steps have LAS {', '.join(f'{las:.2%}' for las in standing.best_by_step)}"
    if not standing.best_epoch:
        chosen, by_step = f"Its weights are the mean of those of {members} trainings.", ""
    lines = [
        "## Training",
        "",
        f"Trained by treefine {__version__} with torch {torch.__version__} and seed {recipe.training.seed} on "
        f"{len(data.train):,} sentences.",
        f"{chosen} On {len(data.dev):,} dev sentences its trees have {scores}{by_step}.",
        "",
        "The recipe:",
        "```toml",
        recipe_toml(recipe) + "```",
        "",
    ]
    if recipe.initial.parser == FILES:
        lines += [
            "It was trained to refine the parses of files, and has no initial parser of its own; without one it starts "
            "from no graph. Parse from such a file:",
            "```",
            "treefine parse --model THIS_FOLDER --initial PARSES.conllu in.conllu -o out.conllu",
            "```",
            "",
        ]
    if recipe.initial.mix:
        lines += [*_notes_of_mix(recipe, standing), ""]
    for name, each in inner.items():
        whose = f"the parser that is mixed in as {name}" if name in recipe.initial.mix else "its initial parser"
        lines += [f"The recipe of {whose}:", "```toml", recipe_toml(each) + "```", ""]
    checksums = data.checksums
    if origin is not None:
        lines += ["The recipe of the model it goes on from:", "```toml", recipe_toml(origin.recipe) + "```", ""]
        checksums = checksums | origin.data.checksums
    files = [f"{digest}  {path}" for path, digest in checksums.items()]
    return "\n".join([*lines, "SHA-256 of the files:", "```", *files, "```"])


def _notes_of_mix(recipe: Recipe, standing: Standing) -> list[str]:
    """How to use a model that refines the parses of several parsers, and how well it does."""
    scores = ", ".join(f"{name} {las:.2%}" for name, las in standing.best_from.items())
    return [
        "It was trained to refine the parses of several parsers, and the scores above are means over them. "
        f"LAS of the dev trees from each: {scores}. Refine such parses:",
        "```",
        "treefine refine --model THIS_FOLDER PARSES.conllu -o BETTER.conllu",
        "```",
    ]


def recipe_toml(recipe: Recipe) -> str:
    """The recipe as a TOML file that `read_recipe` reads, with all settings, the defaults too."""
    values = values_of(recipe)
    del values["decode"]["root_label"]  # the treebank's, and not for a recipe to say
    return "\n".join(_toml_lines(values)) + "\n"


def _toml_lines(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The settings of a section, then the sections within it; what is not there is left out."""
    for key, value in values.items():
        if not isinstance(value, dict) and value is not None:
            yield _pair(key, value)
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from ("", f"[{prefix}{key}]", *_toml_lines(value, f"{prefix}{key}."))


def _pair(key: str, value: object) -> str:
    """One setting; JSON writes strings, numbers and lists of them as TOML does, but for one character."""
    return f"{key} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")
