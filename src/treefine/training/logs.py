"""Write the metrics of a training as JSON lines and for TensorBoard, and the notes for the model card."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from treefine.errors import TreefineError, count
from treefine.training.checkpoint import FolderNames, TrainingState
from treefine.training.data import Data
from treefine.training.new_model import TrainedBase
from treefine.training.recipe import FILES, CardSettings, Recipe, recipe_toml
from treefine.training.targets import DistillationData
from treefine.version import __version__

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from treefine.training.epochs import Accuracy

_NOT_STATED = "not stated"


class MetricsLog:
    """Writes metrics.jsonl and the folder `tensorboard`, or nothing if the folder is None.

    Lines of epochs after `after_epoch` are removed, because these epochs are trained again. The TensorBoard files are
    rewritten from the remaining lines, so that no point appears twice.
    """

    def __init__(self, folder: Path | None, *, after_epoch: int) -> None:
        self.folder = folder
        self.board: SummaryWriter | None = None
        if folder is None:
            return
        with _reported(folder):
            folder.mkdir(parents=True, exist_ok=True)
            kept = [values for values in _read(folder / FolderNames.metrics) if values["epoch"] <= after_epoch]
            scratch = folder / f".{FolderNames.metrics}.new"
            scratch.write_text("".join(map(_line, kept)), encoding="utf-8")
            scratch.replace(folder / FolderNames.metrics)
            shutil.rmtree(folder / FolderNames.board, ignore_errors=True)
            with suppress(ImportError):
                from torch.utils.tensorboard import SummaryWriter

                self.board = SummaryWriter(str(folder / FolderNames.board))
            for values in kept:
                self._show(values)

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(self, *error: object) -> None:
        if self.folder is not None and self.board is not None:
            with _reported(self.folder):
                self.board.close()

    def add(self, epoch: int, values: dict[str, float]) -> None:
        """Write the metrics of one epoch."""
        if self.folder is None:
            return
        with _reported(self.folder):
            with (self.folder / FolderNames.metrics).open("a", encoding="utf-8") as file:
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
    """Yield the complete lines; a killed training can leave an incomplete last line."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                values = json.loads(line)
            except ValueError:
                continue
            if isinstance(values, dict) and "epoch" in values:
                yield values


@contextmanager
def _reported(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise TreefineError(f"Cannot write the metrics: {reason}.", path=str(folder)) from error


def best_segmentation(folder: Path) -> dict[str, float]:
    """Return the F1 scores of the segmenter in a folder: those of its best epoch, as in `SegmenterLearner.epochs`."""
    lines = list(_read(folder / FolderNames.metrics))
    best = max(lines, key=lambda line: line["Words"] + line["Sentences"], default={})
    return {name: best[name] for name in ("Tokens", "Sentences", "Words") if name in best}


def data_and_scores(
    card: CardSettings, data: Data, scores: Mapping[str, Accuracy | None], segmentation: Mapping[str, float]
) -> str:
    """Return the part of a model card on the data and the scores; a set without scores was not measured."""
    lines = [
        "## Data and scores",
        "",
        f"- Language: {', '.join(card.language) or _NOT_STATED}",
        f"- Treebank: {card.treebank or _NOT_STATED}",
        f"- Licence of the treebank: {card.licence or _NOT_STATED}",
        "",
    ]
    sizes = {"dev": len(data.dev), "test": len(data.test)}
    for name, accuracy in scores.items():
        if accuracy is None:
            lines.append(f"- {name}: not measured")
            continue
        values = {"UAS": accuracy.uas, "LAS": accuracy.las, **accuracy.tags}
        shown = ", ".join(f"{key} {value:.2%}" for key, value in values.items())
        purpose = ", which chose the best epoch" if name == "dev" else ""
        lines.append(f"- {name}: {shown}, on the words of {sizes[name]:,} sentences{purpose}")
    if segmentation:
        shown = ", ".join(f"{key} {value:.2%}" for key, value in segmentation.items())
        lines.append(f"- dev, segmenter on raw text: F1 of {shown}")
    return "\n".join(lines)


def notes_of(
    recipe: Recipe,
    data: Data,
    state: TrainingState,
    *,
    inner: Mapping[str, Recipe],
    base: TrainedBase | None = None,
    distillation: DistillationData | None = None,
) -> str:
    """Return the training notes of a model card: recipes, versions, checksums and dev scores."""
    scores = f"UAS {state.best_uas:.2%} and LAS {state.best_las:.2%}"
    chosen = f"The best of {state.epoch} epochs is number {state.best_epoch}."
    by_step = f"; the graphs of its steps have LAS {', '.join(f'{las:.2%}' for las in state.best_by_step)}"
    if not state.best_epoch:
        chosen, by_step = f"Its weights are the average of {recipe.training.weight_averaging} models.", ""
    lines = [
        "## Training",
        "",
        f"Trained with treefine {__version__}, torch {torch.__version__} and seed {recipe.training.seed} on "
        f"{len(data.train):,} sentences.",
        f"{chosen} On {len(data.dev):,} dev sentences its trees have {scores}{by_step}.",
        "",
        *_shown_recipe("The recipe", recipe),
    ]
    if recipe.initial.parser == FILES:
        lines += [
            "It was trained to refine parses from files, and contains no initial parser. Without initial parses it "
            "starts from an empty graph. Test scores are not measured, because the files have no parses of a test set. "
            "To refine a file of parses:",
            "```",
            "treefine parse --model THIS_FOLDER --initial PARSES.conllu in.conllu -o out.conllu",
            "```",
            "",
        ]
    if recipe.initial.mix:
        of_each = ", ".join(f"{name} {las:.2%}" for name, las in state.best_from.items())
        lines += [
            "It was trained to refine the parses of several parsers. The dev scores above are means over them. "
            f"LAS of the dev trees from each: {of_each}. Test scores, if any, are from the first. To refine parses:",
            "```",
            "treefine refine --model THIS_FOLDER PARSES.conllu -o BETTER.conllu",
            "```",
            "",
        ]
    for name, of_parser in inner.items():
        whose = f"the parser {name} in the mix" if name in recipe.initial.mix else "its initial parser"
        lines += _shown_recipe(f"The recipe of {whose}", of_parser)
    if distillation is not None:
        lines += _about_teachers(recipe, distillation)
    checksums = data.checksums
    if base is not None:
        lines += _shown_recipe("The recipe of the model that it was fine-tuned from", base.recipe)
        checksums = checksums | base.data.checksums
    files = [f"{digest}  {path}" for path, digest in checksums.items()]
    return "\n".join([*lines, "SHA-256 of the files:", "```", *files, "```"])


def _shown_recipe(what: str, recipe: Recipe) -> list[str]:
    return [f"{what}:", "```toml", recipe_toml(recipe) + "```", ""]


def _about_teachers(recipe: Recipe, data: DistillationData) -> Iterator[str]:
    """Yield the lines of a model card on the teachers, their recipes and the unlabelled sentences."""
    settings = recipe.teacher
    n_teachers = len(settings.models) or settings.members * len(settings.recipes)
    names = ", ".join(settings.models or data.recipes)
    yield f"It learned from the probabilities of {count(n_teachers, 'teacher')} ({names})."
    if data.sentences:
        texts = ", ".join(settings.texts)
        yield f"{count(len(data.sentences), 'sentence')} of {texts} had no trees; the teachers parsed them."
    yield ""
    for name, of_teacher in data.recipes.items():
        yield from _shown_recipe(f"The recipe of the teacher {name}", of_teacher)
