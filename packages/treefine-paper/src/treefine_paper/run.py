"""Train and test the systems of a reproduction one after another. A second run continues the first."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta

import torch

from treefine.errors import ConfigError, TreefineError
from treefine.evaluation.scores import evaluate
from treefine.parsing.initial import from_file
from treefine.parsing.parser import Parser
from treefine.training.folder import FolderNames, begin_folder, check_folder, locked
from treefine.training.prepare import prepare
from treefine.training.recipe import recipe_toml
from treefine.training.train import train
from treefine.treebank.conllu import read_treebank
from treefine.treebank.files import open_output
from treefine_paper.biaffine import COSTS, train_biaffine, trees_file
from treefine_paper.plan import ReproductionPlan, TrainingRun
from treefine_paper.predictions import (
    n_parameters,
    parsed_steps,
    predictions_of,
    save_predictions,
    treebank_of,
)
from treefine_paper.results import TREES_SUFFIX, SystemResult, load_results
from treefine_paper.systems import BIAFFINE, METRICS, SYSTEMS

RESULTS, RECIPES = "results", "recipes"  # folders in that of the reproduction


@dataclass
class Reproduction:
    """The trainings and tests of a plan: what is measured, which models there are, and what failed."""

    plan: ReproductionPlan
    device: torch.device
    say: Callable[[str], None]
    failures: dict[tuple[TrainingRun, str], str] = field(default_factory=dict)  # by run and split: why

    def __post_init__(self) -> None:
        self.output = self.plan.request.output
        self.results = {result.name: result for result in load_results(self.output / RESULTS)}
        self.needed_by: dict[TrainingRun, list[TrainingRun]] = {run: [] for run in self.plan.runs}
        self.seeds: dict[tuple[str, str], list[TrainingRun]] = {}  # the runs that differ only in their seed
        for run in self.plan.runs:
            self.seeds.setdefault((run.treebank, run.system), []).append(run)
            for needed in self.plan.needs(run):
                self.needed_by[needed].append(run)

    def run(self) -> None:
        """Train and measure everything that is not done. A failure does not stop the other trainings and tests."""
        self._check_settings()
        for run in self.plan.runs:
            if not self.is_done(run):
                self._attempt(run, "dev")
            chosen = self._to_test(run)
            if chosen is not None and self._has_model(chosen) and (chosen, "test") not in self.failures:
                self._attempt(chosen, "test")
            self._remove_models()

    def _attempt(self, run: TrainingRun, split: str) -> None:
        """Train a system and measure it on dev, or test it."""
        start, title = time.monotonic(), f"{run.treebank} {SYSTEMS[run.system].title}, seed {run.seed}"
        try:
            if split == "dev":
                for needed in self.plan.needs(run):
                    if (needed, "dev") in self.failures:
                        raise TreefineError(f"it needs {needed.name}, which failed")
                train_run(self.plan, run, self.device)
            result = measure(self.plan, run, split, self.device)
        except Exception as error:  # of any kind: it must not stop the others
            lines = str(error).strip().splitlines() or [type(error).__name__]
            self.failures[run, split] = " ".join(lines) if isinstance(error, TreefineError) else lines[0]
            self.say(f"{title}{', test' * (split == 'test')} failed: {self.failures[run, split]}")
            return
        self.results[result.name] = result
        n_done = sum(map(self.is_measured, self.plan.runs))
        took = timedelta(seconds=round(time.monotonic() - start))
        self.say(f"[{n_done}/{len(self.plan.runs)}] {title}: {split} LAS {100 * result.LAS:.2f}, {took}")

    def is_measured(self, run: TrainingRun) -> bool:
        """Return whether the run has been measured on dev."""
        return f"{run.name}-dev" in self.results

    def is_done(self, run: TrainingRun) -> bool:
        """Return whether a run needs no training: it is measured, and its model is there or no longer needed."""
        if not self.is_measured(run) or self._has_model(run):
            return self.is_measured(run)
        return all(map(self.is_done, self.needed_by[run])) and self._to_test(run) != run

    def _has_model(self, run: TrainingRun) -> bool:
        return self.plan.model(run).is_dir()

    def _to_test(self, run: TrainingRun) -> TrainingRun | None:
        """Return the run of this system to test, the best seed on dev.

        Return None if the system is tested already, or if a seed is not measured on dev yet.
        """
        seeds, place = self.seeds[run.treebank, run.system], (run.treebank, run.system, "test")
        is_tested = any((each.treebank, each.system, each.split) == place for each in self.results.values())
        if is_tested or not all(map(self.is_measured, seeds)):
            return None
        return max(seeds, key=lambda seed: (self.results[f"{seed.name}-dev"].LAS, -seed.seed))

    def _remove_models(self) -> None:
        """Remove the models of seeds that were not chosen, when the system is tested and no open run needs them."""
        for run in self.plan.runs:
            is_open = self._to_test(run) or not all(map(self.is_measured, self.seeds[run.treebank, run.system]))
            is_needed = is_open or not all(map(self.is_done, self.needed_by[run])) or f"{run.name}-test" in self.results
            if not is_needed and self._has_model(run):
                removed = self.plan.model(run).with_name(".removed")  # half a model must not look like one
                shutil.rmtree(removed, ignore_errors=True)  # of a run that was killed here
                self.plan.model(run).rename(removed)
                shutil.rmtree(removed, ignore_errors=True)

    def _check_settings(self) -> None:
        """Raise an error if results in the folder were made with other settings: one table must not mix them."""
        for run in filter(self.is_measured, self.plan.runs):
            path = self.output / RECIPES / f"{run.name}.toml"
            if path.exists() and path.read_text(encoding="utf-8") != recipe_toml(self.plan.recipe(run)):
                what = f"{run.name} was trained with other settings: those in {path}."
                hint = "Use the same command as before, or another folder."
                raise ConfigError(what, hint=hint, path=str(self.output))


def train_run(plan: ReproductionPlan, run: TrainingRun, device: torch.device) -> None:
    """Write the recipe of a run, and train its model or continue its training."""
    recipe, folder, recipes = plan.recipe(run), plan.request.output / run.folder, plan.request.output / RECIPES
    recipes.mkdir(parents=True, exist_ok=True)
    with open_output(recipes / f"{run.name}.toml") as file:
        file.write(recipe_toml(recipe).encode())
    if run.system == BIAFFINE:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            train_biaffine(recipe, plan.files[run.treebank].test, folder, device)
        return
    prepared = prepare(recipe)
    check_folder(folder, prepared, is_resumed=True)
    begin_folder(folder, prepared)
    for _ in train(prepared, folder, device=device):
        pass


def measure(plan: ReproductionPlan, run: TrainingRun, split: str, device: torch.device) -> SystemResult:
    """Parse a split with the model of a run, and write its trees and scores."""
    system, recipe, model, files = SYSTEMS[run.system], plan.recipe(run), plan.model(run), plan.files[run.treebank]
    gold_file, form = getattr(files, split), files.format or None
    gold = list(read_treebank(gold_file, format=form))
    seconds, parameters, initial_parameters = 0.0, 0, 0
    if run.system == BIAFFINE:  # its trees were parsed before
        trees = [sentence.graph for sentence in read_treebank(trees_file(model, split), format=form)]
        predictions = predictions_of(gold, [trees], first=1)
    else:
        parses = from_file(plan.initial_file(run, split), format=form) if system.reads_files else None
        steps = recipe.refine.max_steps
        parser = Parser.from_pretrained(model, initial=parses, trust=0, max_steps=steps, device=device)
        predictions = parsed_steps(parser, gold)
        start = time.perf_counter()
        list(parser.stream_trees(gold))
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds, parameters, initial = time.perf_counter() - start, n_parameters(parser.model), parser.initial
        initial_parameters = n_parameters(initial.model) if isinstance(initial, Parser) else 0
    if BIAFFINE in (run.system, system.initial):
        costs = json.loads((plan.model(replace(run, system=BIAFFINE)) / COSTS).read_bytes())
        seconds += costs["seconds"][split]
        if run.system == BIAFFINE:
            parameters = costs["parameters"]
        else:
            initial_parameters = costs["parameters"]
    by_step = [evaluate(gold, treebank_of(predictions, gold, t=t), rule=files.treebank.rule) for t in predictions.steps]
    none = [None] * predictions.first  # without an initial parse, t = 0 has no trees
    uas, las = (none + [round(scores[metric].f1, 6) for scores in by_step] for metric in METRICS)
    results, training = plan.request.output / RESULTS, plan.request.output / run.folder
    last_epoch = json.loads((training / FolderNames.metrics).read_text().splitlines()[-1])
    result = SystemResult(
        treebank=run.treebank,
        system=run.system,
        seed=run.seed,
        split=split,
        encoder=plan.encoder(run).rpartition("/")[2],
        tags=recipe.tags.source,
        gold_file=gold_file,
        release=files.release,
        train_sentences=plan.sizes[run.treebank],
        words=sum(map(len, gold)),
        UAS=uas[-1] or 0.0,
        LAS=las[-1] or 0.0,
        UAS_by_step=uas,
        LAS_by_step=las,
        parameters=parameters,
        initial_parameters=initial_parameters,
        parsing_seconds=round(seconds, 3),
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        training_seconds=round(last_epoch["seconds"], 1),
        updates=last_epoch.get("updates"),
        sha256=save_predictions(predictions, results / f"{run.name}-{split}{TREES_SUFFIX}"),
        changes=plan.changes(run.system),
    )
    with open_output(results / f"{result.name}.json") as file:
        file.write(json.dumps(asdict(result), indent=1).encode() + b"\n")
    return result
