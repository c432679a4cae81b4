"""The train and new-recipe commands."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from treefine.cli.parse import DeviceOption, ThreadsOption
from treefine.cli.terminal import completing, is_quiet, say, warn
from treefine.cores import use_threads
from treefine.errors import RenamedSettingWarning, TreefineError
from treefine.model.bundled import bundled_models
from treefine.training.recipe import EMPTY, NEW_ENCODER, NEW_INITIALS, bundled_recipes
from treefine.treebank.formats import FORMATS

if TYPE_CHECKING:
    from treefine.training.train import Progress


def train_command(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="[RECIPE]",
            help="TOML file, or the name of a bundled recipe. Not needed with --from.",
            autocompletion=completing(bundled_recipes),
        ),
    ] = "",
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="MODEL",
            help="Fine-tune this model, such as multi, on --train with settings that suit its size.",
            autocompletion=completing(bundled_models),
        ),
    ] = "",
    treebanks: Annotated[
        list[str] | None,
        typer.Option("--train", metavar="FILE", help="With --from: treebank to train on. Can be repeated."),
    ] = None,
    dev: Annotated[
        str, typer.Option("--dev", metavar="FILE", help="With --from: treebank for choosing the best epoch.")
    ] = "",
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="New folder for the results; with --resume, the folder to continue. Required without --dry-run.",
        ),
    ] = "",
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Override a setting, such as training.seed=2. Can be repeated."
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue an interrupted run in DIR; start a new one if DIR does not exist."),
    ] = False,
    device: DeviceOption = None,
    threads: ThreadsOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the recipe and its files, print all settings, and exit.")
    ] = False,
) -> None:
    """Train a parser.

    The recipe and its files are checked before training starts. The model is saved in DIR/model, and the scores of each
    epoch in DIR/metrics.jsonl. With --from, no recipe is needed: its settings are those that `treefine new-recipe`
    would write.
    """
    from treefine.parsing.plan import find_device  # loads torch
    from treefine.training.abilities import abilities, command_for
    from treefine.training.prepare import prepare, settings_of
    from treefine.training.train import FolderNames, begin_folder, check_folder, train

    if not output and not dry_run:
        raise typer.BadParameter("Name the folder to write, such as runs/first.", param_hint="--output")
    folder, is_first = Path(output), os.environ.get("RANK", "0") == "0"  # among the processes of torchrun
    chosen = find_device(device)
    use_threads(threads)
    with _renamed_settings_shown(is_first), _recipe_of(recipe, start, treebanks or (), dev) as path:
        prepared = prepare(path, changes or ())
        if is_first and output:
            check_folder(folder, prepared, is_resumed=resume)
    model = folder / FolderNames.model
    if is_first:
        for each in (prepared, *prepared.bases.values()):
            for warning in each.data.warnings:
                warn(str(warning))
    if is_first and (dry_run or not model.exists()):
        for line in abilities(prepared):
            say(line)
    if dry_run:
        if is_first:
            typer.echo(json.dumps(settings_of(prepared), ensure_ascii=False, indent=1))
        return
    if is_first:
        begin_folder(folder, prepared)
    steps = train(prepared, folder, device=chosen)
    if not is_first or is_quiet():
        for _ in steps:
            pass
        return
    try:
        show(steps)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_how_to_continue(folder)) from None
    typer.echo(f"The model is in {model}. To try it: {command_for(prepared, model)}")


@contextmanager
def _recipe_of(recipe: str, start: str, train: Sequence[str], dev: str) -> Iterator[str]:
    """Yield the recipe to train: the one that the user named, or a new one that fine-tunes a model."""
    if not start and (train or dev):
        raise TreefineError("--train and --dev need --from.", hint="Name the model to fine-tune, such as --from multi.")
    if start and recipe:
        hint = f"Leave one of them out, or add --set encoder.fine_tune_from={start} to the recipe."
        raise TreefineError("A recipe and --from cannot be combined.", hint=hint)
    if start and not (train and dev):
        raise TreefineError("--from needs a treebank to train on and a dev set.", hint="Name --train and --dev.")
    if not (recipe or start):
        raise TreefineError("Name a recipe, or a model to fine-tune with --from.", hint="See treefine train --help.")
    if recipe:
        yield recipe
        return
    from treefine.training.new_recipe import RecipeRequest, new_recipe

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{Path(start).name}-fine-tuned.toml")
        path.write_text(new_recipe(RecipeRequest(tuple(train), dev, start), path.name).text, encoding="utf-8")
        yield str(path)


def _how_to_continue(folder: Path) -> str:
    """Return what a user should know who has stopped a training."""
    from treefine.training.checkpoint import FolderNames

    if any(folder.glob(f"**/{FolderNames.checkpoints}/[!.]*")):
        return "Continue from the last checkpoint with the same command and --resume."
    return (
        "The epochs of this stage are lost, because no checkpoint was saved yet. The same command with --resume starts "
        "this stage again and keeps the stages before it. To save checkpoints more often, lower "
        "training.checkpoint_minutes."
    )


@contextmanager
def _renamed_settings_shown(is_first: bool) -> Iterator[None]:
    """Print a line for each setting that is given by its old name, in the first process only."""
    with warnings.catch_warnings():
        warnings.simplefilter("default" if is_first else "ignore", RenamedSettingWarning)
        show_other = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any) -> None:
            if issubclass(category, RenamedSettingWarning):
                warn(str(message))
            else:
                show_other(message, category, *place)

        warnings.showwarning = show  # type: ignore[assignment]
        yield


def new_recipe_command(
    out: Annotated[str, typer.Argument(metavar="OUT.toml", help="File to write; - is standard output.")],
    train: Annotated[
        list[str] | None,
        typer.Option(
            "--train", metavar="FILE", help="Treebank to train on. Can be repeated.", show_default="a placeholder"
        ),
    ] = None,
    dev: Annotated[
        str,
        typer.Option(
            "--dev", metavar="FILE", help="Treebank for choosing the best epoch.", show_default="a placeholder"
        ),
    ] = "",
    encoder: Annotated[
        str,
        typer.Option(
            "--encoder",
            metavar="NAME|DIR",
            help="Pretrained transformer (name on the hub, or folder), or a trained model to fine-tune.",
        ),
    ] = NEW_ENCODER,
    initial: Annotated[
        str,
        typer.Option(
            "--initial",
            metavar="PARSER",
            help="Initial parser whose trees are refined: empty, syntr or biaffine (both write a second recipe), the "
            "folder of a trained model, or files.",
            autocompletion=completing(lambda: NEW_INITIALS),
        ),
    ] = EMPTY,
    initial_train: Annotated[
        str, typer.Option("--initial-train", metavar="FILE", help="With --initial files: trees of the training set.")
    ] = "",
    initial_dev: Annotated[
        str, typer.Option("--initial-dev", metavar="FILE", help="With --initial files: trees of the dev set.")
    ] = "",
    format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help=f"Format of the files: {', '.join(FORMATS)}.",
            show_default="by the file names",
            autocompletion=completing(FORMATS.keys),
        ),
    ] = "",
    segmenter: Annotated[
        bool | None,
        typer.Option(
            "--segmenter/--no-segmenter",
            help="Also train a segmenter, so that the model reads raw text.",
            show_default="if the treebank has text",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Write a commented recipe for your treebank and encoder.

    Epochs, learning rates, tags and other settings are chosen from the size and the columns of the treebank.
    Comments explain each choice and list the settings that are changed most often.
    """
    from treefine.training.new_recipe import RecipeRequest, write_new_recipe

    request = RecipeRequest(
        tuple(train or ()), dev, encoder, initial, initial_train, initial_dev, format, segmenter=segmenter
    )
    written = write_new_recipe(out, request, force=force)
    for warning in written.warnings:
        warn(str(warning))
    if written.paths and not is_quiet():
        typer.echo(f"Wrote {' and '.join(written.paths)}. Check with: treefine train {shlex.quote(out)} --dry-run")


def show(steps: Iterable[Progress], *, stream: TextIO | None = None) -> None:
    """Run the training and show its progress: a bar and a line per stage on a terminal, else a line per epoch."""
    stream = stream or sys.stderr  # None if standard error is closed
    if stream is None or not stream.isatty():
        for step in steps:
            if stream is not None and step.epoch == step.standing.epoch:
                stream.write(", ".join(_parts(step, step)) + "\n")
                stream.write(f"treefine: warning: {step.warning}\n" if step.warning else "")
                stream.flush()
        return
    from rich.console import Console  # as in `progress`
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(10), TextColumn("{task.description}", markup=False))  # a few short lines
    with Bar(*columns, console=Console(file=stream)) as bar:
        row = bar.add_task("", total=1.0)
        last: Progress | None = None
        measured: Progress | None = None
        for step in steps:
            if last is not None and step.stage != last.stage:
                line = ", ".join(_parts(last, measured))
                bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
                measured = None
            if step.accuracy is not None:
                measured = step
            if step.warning:
                line = f"treefine: warning: {step.warning}"
                bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
            bar.update(row, completed=step.share, description="\n".join(_parts(step, measured)))
            last = step


def _parts(step: Progress, measured: Progress | None) -> list[str]:
    """Return the stage, progress, time left and scores as texts; `measured` has the latest dev scores."""
    place = f"epoch {step.epoch} of {step.epochs}"
    if step.share:
        place += f", {timedelta(seconds=round(step.seconds * (1 / step.share - 1)))} left"
    scores, tags, graphs, sources = [f"loss {step.loss:.3f}"], "", "", ""
    if measured is not None and measured.accuracy is not None:
        accuracy = measured.accuracy
        scores += [f"LAS {100 * accuracy.las:.2f}", f"UAS {100 * accuracy.uas:.2f}"]
        tags = " ".join(f"{name} {100 * share:.2f}" for name, share in accuracy.tags.items())
        if len(accuracy.las_by_step) > 1:
            graphs = " ".join(f"G{t} {100 * las:.2f}" for t, las in enumerate(accuracy.las_by_step, start=1))
        if accuracy.las_from:
            sources = "from " + " ".join(f"{name} {100 * las:.2f}" for name, las in accuracy.las_from.items())
    scores += [f"{name} {100 * f1:.2f}" for name, f1 in step.segmentation.items()]
    if step.standing.best_epoch:
        scores.append(f"best LAS {100 * step.standing.best_las:.2f}")
    return [*filter(None, [step.stage, place, ", ".join(scores), tags, sources, graphs])]
