"""The train and new-recipe commands."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import typer

from treefine.cli.options import DEVICE, THREADS, argument, option
from treefine.cli.terminal import Detail, is_shown, print_json, warn
from treefine.cores import use_threads
from treefine.errors import TreefineError
from treefine.model.bundled import bundled_models
from treefine.training.recipe import TEMPLATES, bundled_recipes, write_template

if TYPE_CHECKING:
    from treefine.training.epochs import Progress
    from treefine.training.prepare import Prepared


def train_command(
    recipe: str = argument(
        "", "[RECIPE]", "TOML file, or the name of a bundled recipe. Not needed with --from.", names=bundled_recipes
    ),
    start: str = option("", "--from MODEL", "Fine-tune this model, such as multi, on --train.", names=bundled_models),
    treebanks: list[str] | None = option(None, "--train FILE", "With --from: treebank to train on. Can be repeated."),
    dev: str = option("", "--dev FILE", "With --from: treebank for choosing the best epoch."),
    output: str = option("", "-o --output DIR", "New folder for the results. Required without --dry-run."),
    changes: list[str] | None = option(None, "--set KEY=VALUE", "Setting, such as training.seed=2. Can be repeated."),
    resume: bool = option(False, "--resume", "Continue the run in DIR; start one if DIR does not exist."),
    device: str | None = DEVICE,
    threads: int | None = THREADS,
    dry_run: bool = option(False, "--dry-run", "Check the recipe and its files, print all settings, and exit."),
) -> None:
    """Train a parser.

    The recipe and its files are checked before training starts. The model is saved in DIR/model, and the scores of each
    epoch in DIR/metrics.jsonl. With --from, no recipe is needed.
    """
    from treefine.parsing.plan import find_device  # loads torch
    from treefine.training.folder import FolderNames, begin_folder, check_folder
    from treefine.training.train import train

    if not output and not dry_run:
        raise typer.BadParameter("Name the folder to write, such as runs/first.", param_hint="--output")
    folder, is_first = Path(output), os.environ.get("RANK", "0") == "0"  # among the processes of torchrun
    chosen = find_device(device)
    use_threads(threads)
    prepared = _prepared(recipe, start, treebanks or (), dev, changes or ())
    if is_first:
        if output:
            check_folder(folder, prepared, is_resumed=resume)
        for some in (prepared, *prepared.bases.values()):
            for warning in some.data.warnings:
                warn(str(warning))
    if dry_run:
        if is_first:
            print_json(prepared.settings)
        return
    if is_first:
        begin_folder(folder, prepared)
    steps = train(prepared, folder, device=chosen)
    if not is_first:
        deque(steps, maxlen=0)
        return
    try:
        show(steps)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "Continue with the same command and --resume: from the last checkpoint, or without one from the start of "
            "this stage. Checkpoints are at least training.checkpoint_minutes apart."
        ) from None
    if is_shown(Detail.NORMAL):
        typer.echo(f"The model is in {folder / FolderNames.model}.")


def _prepared(recipe: str, start: str, train: Sequence[str], dev: str, changes: Sequence[str]) -> Prepared:
    from treefine.training.prepare import fine_tuning_recipe, prepare

    if recipe and not (start or train or dev):
        return prepare(recipe, changes)
    if not recipe and start and train and dev:
        return prepare(fine_tuning_recipe(start, train, dev, changes))
    message = "Name either a recipe, or a model with --from and treebanks with --train and --dev."
    raise TreefineError(message, hint="To fine-tune with a recipe, set encoder.fine_tune_from in it.")


def new_recipe_command(
    out: str = argument(..., "OUT.toml", "File to write; - is standard output."),
    kind: str = option("empty", "--kind KIND", f"Kind of training: {', '.join(TEMPLATES)}.", names=lambda: TEMPLATES),
    force: bool = option(False, "--force", "Overwrite an existing file."),
) -> None:
    """Write a commented recipe for a kind of training, to be edited.

    empty starts from an empty graph and refines it; refine refines its own initial parser, whose recipe is of the kind
    syntr; files refines another parser's trees; fine-tune continues from a trained model; distil learns from larger
    models.
    """
    write_template(out, kind, force=force)
    if out != "-" and is_shown(Detail.NORMAL):
        typer.echo(f"Wrote {out}. Edit it, then check it with treefine train {out} --dry-run")


def show(steps: Iterable[Progress]) -> None:
    """Run the training and print a line per epoch; on a terminal, the line of the running epoch is updated."""
    stream = sys.stderr if is_shown(Detail.NORMAL) else None  # None too if standard error is closed
    for step in steps:
        line = ", ".join(_parts(step))
        if stream is not None and step.epoch == step.state.epoch:
            stream.write(f"{line}\n")
            stream.flush()
        elif stream is not None and stream.isatty():
            stream.write(f"{line[: get_terminal_size().columns - 1]}\x1b[K\r")  # the next line replaces it
            stream.flush()


def _parts(step: Progress) -> list[str]:
    place = f"epoch {step.epoch} of {step.epochs}"
    if step.completed:
        place += f", {timedelta(seconds=round(step.seconds * (1 / step.completed - 1)))} left"
    scores, tags, graphs = [f"loss {step.loss:.3f}"], "", ""
    if (accuracy := step.accuracy) is not None:
        scores += [f"LAS {100 * accuracy.las:.2f}", f"UAS {100 * accuracy.uas:.2f}"]
        tags = " ".join(f"{name} {100 * share:.2f}" for name, share in accuracy.tags.items())
        if len(accuracy.las_by_step) > 1:
            graphs = " ".join(f"G{t} {100 * las:.2f}" for t, las in enumerate(accuracy.las_by_step, start=1))
    scores += [f"{name} {100 * f1:.2f}" for name, f1 in step.segmentation.items()]
    if step.state.best_epoch:
        scores.append(f"best LAS {100 * step.state.best.las:.2f}")
    return [*filter(None, [step.stage, place, ", ".join(scores), tags, graphs])]
