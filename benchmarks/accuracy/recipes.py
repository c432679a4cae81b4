"""Train recipes and measure each model after each step: one row per seed, and its trees in a file."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.accuracy.model_rows import grouped
from benchmarks.options import DEVICE, PREDICTIONS_FOLDER, ROWS_FILE, SET, SPLIT, command, option
from benchmarks.rows import read_rows, renaming, save_row
from treefine import Parser, Sentence, TreefineError, read_treebank
from treefine.config import BiLSTMSettings
from treefine.model.folder import load_model
from treefine.parsing.initial import InitialParser, empty
from treefine.training.prepare import base_of, prepare, sources_of
from treefine.training.recipe import EMPTY, FILES, MixedSettings, Recipe, expand, find_recipe, read_recipe
from treefine.training.train import FolderNames, begin_folder, train
from treefine_paper.predictions import Predictions, save_predictions
from treefine_paper.results import (
    device_name,
    n_parameters,
    parsed_steps,
    read_metrics,
    scores,
    timed_parse,
)


@dataclass(frozen=True)
class Run:
    """One training: a recipe with its changes and seed."""

    name: str  # of the recipe
    changes: tuple[str, ...]
    recipe: Recipe

    @property
    def seed(self) -> int:
        """The random seed."""
        return self.recipe.training.seed

    @property
    def title(self) -> str:
        """The name of the run's folder and files."""
        return re.sub(r"[^A-Za-z0-9_.-]+", "-", "-".join([self.name, *self.changes, f"seed{self.seed}"]))

    @property
    def inner(self) -> dict[str, Run]:
        """The trainings of the initial parser (key "") and of mixed-in parsers (by name) that are recipes."""
        parsers = {name: expand(each.parser) for name, each in sources_of(self.recipe.initial).items()}
        are_recipes = {name: each not in (EMPTY, FILES) and not Path(each).is_dir() for name, each in parsers.items()}
        return {name: read_run(each, (), self.seed) for name, each in parsers.items() if are_recipes[name]}


def read_run(name: str, changes: Sequence[str], seed: int) -> Run:
    """Return the training of a recipe, bundled or in a file, with these changes."""
    recipe = read_recipe(name, [*changes, f"training.seed={seed}"])
    return Run(find_recipe(name).stem, tuple(map(renaming(Recipe), changes)), recipe)


@command(
    option("recipe", help="a TOML file or the name of a bundled recipe"),
    SET,
    option("--seeds", type=int, nargs="+", help="default: 1; for test, the seed with the best dev row"),
    option("--output", type=Path, required=True, help="parent folder of the training folders"),
    SPLIT.but(help="test measures without training, once per model (default: dev)"),
    option("--also", nargs="+", default=[], metavar="FILE", help="other treebanks to measure on; $NAMES are expanded"),
    ROWS_FILE,
    PREDICTIONS_FOLDER,
    DEVICE.but(type=torch.device),
)
def measure_accuracy(options: argparse.Namespace) -> None:
    """Train a recipe, unless its model exists, and measure it; write one row per seed.

    python -m benchmarks accuracy tr_imst-syntr --seeds 1 2 3 --output runs
    python -m benchmarks accuracy tr_imst-syntr --seeds 2 --output runs --split test
    """
    for seed in options.seeds or _default_seeds(options):
        run = read_run(options.recipe, options.set, seed)
        _check_tags(run)
        if options.split == "test":
            _refuse_second_test(run, options.rows)
        else:
            train_run(run, options.output, options.device)
        measure_run(run, options)
        for inner in run.inner.values() if options.split == "dev" else ():
            if _is_shared(run, inner) and not _rows_of(inner, "dev", options.rows):
                measure_run(inner, options)


def _check_tags(run: Run) -> None:
    """Raise an error if an initial parser uses different tags: changes of the outer recipe do not reach it."""
    for inner in run.inner.values():
        ours, theirs = run.recipe.tags.source, inner.recipe.tags.source
        if ours != theirs:
            hint = f"Use an initial parser with the same tags: {ours}."
            raise TreefineError(
                f"{run.name} has tags {ours}, but its initial parser {inner.name} has {theirs}.", hint=hint
            )


def _default_seeds(options: argparse.Namespace) -> list[int]:
    if options.split == "dev":
        return [1]
    run = read_run(options.recipe, options.set, 1)
    for group in grouped(read_rows("accuracy", path=options.rows)):
        if group.dev and (group.config["recipe"], group.config["changes"]) == (run.name, list(run.changes)):
            return [group.chosen]
    raise TreefineError(f"{run.name} has no dev row to choose a seed from.", path=str(options.rows))


def train_run(run: Run, output: Path, device: torch.device | None = None) -> None:
    """Train the run in its folder under `output`, unless a model is there.

    Initial parsers and the model it is fine-tuned from are trained in their own folders, and the parsers of the folds
    next to them, so that other trainings can reuse them.
    """
    folder, sources = output / run.title, sources_of(run.recipe.initial)
    if (folder / FolderNames.model).exists():
        return
    prepared = prepare(run.recipe)
    begin_folder(folder, prepared)
    for name, each in prepared.bases.items():
        start = read_run(name, (), each.recipe.training.seed)
        train_run(start, output, device)
        _link(folder / FolderNames.bases / start.name, output / start.title)
    for name, inner in run.inner.items():
        if _is_shared(run, inner):
            train_run(inner, output, device)
            own, folds = folder / FolderNames.mix / name if name else folder, sources[name].folds
            _link(own / FolderNames.initial, output / inner.title)
            if folds:
                _link(own / FolderNames.folds, output / f"{inner.title}-{folds}folds")
    for progress in train(prepared, folder, device=device):
        if progress.accuracy is not None:
            steps = " ".join(f"{las:.2%}" for las in progress.accuracy.las_by_step)
            sources_las = "".join(f" {name} {las:.2%}" for name, las in progress.accuracy.las_from.items())
            print(
                f"{run.title} {progress.stage} epoch {progress.epoch}/{progress.epochs} loss {progress.loss:.3f} "
                f"LAS {progress.accuracy.las:.2%} ({steps}){sources_las} {progress.seconds:.0f} s",
                file=sys.stderr,
                flush=True,
            )


def _is_shared(run: Run, inner: Run) -> bool:
    """Return whether the initial parser learns from the treebank of its own recipe, and so can be shared."""
    return run.recipe.treebank == inner.recipe.treebank


def _link(link: Path, target: Path) -> None:
    if not link.exists():
        target.mkdir(parents=True, exist_ok=True)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(target, link.parent))


def measure_run(run: Run, options: argparse.Namespace) -> None:
    """Parse dev or test with the run's model, and save the trees and a row."""
    folder = options.output / run.title
    if not (folder / FolderNames.model).is_dir():
        raise TreefineError("No model to measure.", hint="Train it first: --split dev.", path=str(folder))
    settings = run.recipe.treebank
    (dev,) = settings.dev
    path = expand(_of_split(dev, options.split))
    gold = list(read_treebank(path, format=settings.format or None))
    parser = Parser.from_pretrained(
        folder / FolderNames.model,
        initial=expand(_of_split("".join(run.recipe.initial.dev), options.split)) or None,
        trust=0,  # the rows measure what the model makes of these trees on its own
        max_steps=run.recipe.refine.max_steps,
        device=options.device,
    )
    predictions = parsed_steps(parser, gold)
    result = scores(predictions, gold, rule=settings.rule)
    result |= _costs(parser, gold, predictions) | trained(folder)
    if run.recipe.initial.mix:
        result["from"] = {
            name: scores(parsed_steps(_starting(parser, run, name, each, options), gold), gold, rule=settings.rule)
            for name, each in run.recipe.initial.mix.items()
        }
    if options.also:
        result["also"] = {
            Path(each).parent.name: scores(parsed_steps(parser, other), other, rule=settings.rule)
            for each in options.also
            for other in [list(read_treebank(expand(each), format=settings.format or None))]
        }
    name = f"{run.title}-{options.split}.trees.xz"
    digest = save_predictions(predictions, options.predictions / name)
    result |= {"predictions": name, "sha256": digest}
    save_row("accuracy", config_of(run) | {"split": options.split}, result, path=options.rows)


def _starting(parser: Parser, run: Run, name: str, source: MixedSettings, options: argparse.Namespace) -> Parser:
    """Return the parser with one of the mixed sources as its initial parser."""
    initial: str | Parser | InitialParser = empty
    if source.parser == FILES:
        initial = expand(_of_split("".join(source.dev), options.split))
    elif source.parser != EMPTY:
        own = options.output / run.title / FolderNames.mix / name / FolderNames.initial / FolderNames.model
        initial = Parser.from_pretrained(own if name in run.inner else expand(source.parser), device=options.device)
    return parser.using(initial=initial, trust=0, max_steps=parser.max_steps)


def _costs(parser: Parser, gold: Sequence[Sentence], predictions: Predictions) -> dict[str, Any]:
    """Return the number of parameters, and the time of a plain parse; count the trees that differ from the steps'."""
    n_words = sum(map(len, gold))
    parsed, seconds = timed_parse(parser, gold)
    differing = sum(each.graph != tree for each, tree in zip(parsed, predictions.graphs(), strict=True))
    initial = parser.initial
    return {
        "parameters": n_parameters(parser.model),
        "initial_parameters": n_parameters(initial.model) if isinstance(initial, Parser) else 0,
        "parsing_seconds": round(seconds, 3),
        "words": n_words,
        "words_per_second": round(n_words / seconds),
        "device": device_name(parser.device),
        "sentences_parsed_otherwise": differing,
    }


def config_of(run: Run) -> dict[str, Any]:
    """Return the fields that identify a row: the recipe, and the settings that the tables use."""
    recipe = run.recipe
    treebanks = {Path(path).parent.name for path in recipe.treebank.train}
    initial = {
        name: value for name, value in asdict(recipe.initial).items() if name not in ("parser", "train", "dev", "mix")
    }
    if recipe.initial.mix:
        initial["mix"] = {name: each.share for name, each in recipe.initial.mix.items()}
    return {
        "recipe": run.name,
        "changes": list(run.changes),
        "treebank": treebanks.pop() if len(treebanks) == 1 else f"{len(treebanks)} treebanks",
        "encoder": encoder_of(recipe),
        "kind": kind_of(run),
        "T": recipe.refine.max_steps,
        "stop": recipe.refine.stop,
        "tags": tags_of(recipe),
        "initial": initial,
        "seed": run.seed,
        "epochs": recipe.training.epochs,
    }


def tags_of(recipe: Recipe) -> str:
    """Return where the tags come from; a model may read some columns and predict others."""
    given = ", ".join(map(str.upper, recipe.tags.given))
    return f"given {given}" if given else recipe.tags.source


def encoder_of(recipe: Recipe) -> str:
    """Return the name of the pretrained encoder, and of the recipe whose model it is fine-tuned from, if any."""
    if isinstance(recipe.encoder, BiLSTMSettings):
        return "bilstm"
    name = base_of(recipe)
    if name:
        return f"{encoder_of(read_recipe(name))}, {find_recipe(name).stem}"
    return Path(recipe.encoder.start).name


def kind_of(run: Run) -> str:
    """Return the paper's name for this kind of model."""
    recipe = run.recipe
    if recipe.relations.graph == "none":
        return "Biaffine" if isinstance(recipe.encoder, BiLSTMSettings) else "SynTr"
    if recipe.initial.mix:
        return "Mixed+RNGTr"
    if recipe.initial.parser == EMPTY:
        return "Empty+RNGTr"
    if recipe.initial.parser == FILES:
        return "files+RNGTr"
    if "" in run.inner:
        return f"{kind_of(run.inner[''])}+RNGTr"
    encoder = load_model(Path(expand(recipe.initial.parser))).settings.encoder
    return "Biaffine+RNGTr" if isinstance(encoder, BiLSTMSettings) else "SynTr+RNGTr"


def _of_split(path: str, split: str) -> str:
    """Return the path of the split: for test, "dev" in the file name is replaced."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{name.replace('dev', split)}"


def _rows_of(run: Run, split: str, rows: Path) -> list[dict[str, Any]]:
    return read_rows("accuracy", path=rows, recipe=run.name, changes=list(run.changes), seed=run.seed, split=split)


def _refuse_second_test(run: Run, rows: Path) -> None:
    for row in _rows_of(run, "test", rows):
        raise TreefineError(f"{run.title} was already tested on {row['when'][:10]}.", hint="A model is tested once.")


def trained(folder: Path) -> dict[str, Any]:
    """Read the metrics of a training: its seconds, those of its initial parsers, its updates and its best epoch.

    A model with averaged weights has no epochs; its seconds are those of all its members.
    """
    epochs = read_metrics(folder)
    measured = [epoch for epoch in epochs if "LAS" in epoch]
    best = max(measured, key=lambda epoch: epoch["LAS"], default={"epoch": None, "LAS": None})

    def together(pattern: str) -> float:
        return round(sum(_seconds(read_metrics(each)) or 0 for each in folder.glob(pattern)), 1)

    mixed = f"{FolderNames.mix}/*"
    return {
        "training_seconds": _seconds(epochs) if epochs else together(f"{FolderNames.members}/*") or None,
        "initial_seconds": (together(FolderNames.initial) + together(f"{mixed}/{FolderNames.initial}")) or None,
        "folds_seconds": together(f"{FolderNames.folds}/*") + together(f"{mixed}/{FolderNames.folds}/*"),
        "start_seconds": together(f"{FolderNames.bases}/*"),
        "epochs_run": len(epochs) or None,
        "updates": epochs[-1].get("updates") if epochs else None,  # of the weights, one per batch and step
        "best_epoch": best["epoch"],
        "LAS_in_training": best["LAS"],  # of the averaged or plain weights, in the precision of the training
    }


def _seconds(epochs: list[dict[str, Any]]) -> float | None:
    return round(float(epochs[-1]["seconds"]), 1) if epochs else None
