"""Run the trainings of a reproduction on all devices, and test each system once. A second run continues the first."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from difflib import unified_diff
from itertools import chain
from typing import Any, Literal

import torch

from treefine.errors import ConfigError, TreefineError
from treefine.parsing.initial import from_file
from treefine.parsing.parser import Parser
from treefine.training.folder import begin_folder, check_folder, locked
from treefine.training.prepare import prepare
from treefine.training.recipe import Recipe, recipe_toml
from treefine.training.train import train
from treefine.treebank.conllu import read_treebank
from treefine.treebank.files import open_output
from treefine.worker_process import WorkerDiedError, WorkerProcess
from treefine_paper.biaffine import train_biaffine
from treefine_paper.plan import ReproductionPlan, TrainingRun, run_of, scaled
from treefine_paper.results import (
    SystemResult,
    biaffine_costs,
    chosen_seed,
    device_name,
    load_results,
    measure_biaffine,
    measure_model,
    result_name,
    write_result,
)
from treefine_paper.systems import BIAFFINE, MULTI, SYSTEMS
from treefine_paper.treebanks import PaperFiles, clock

KeepModels = Literal["all", "chosen"]
RESULTS, RECIPES = "results", "recipes"  # folders in that of the reproduction


@dataclass(frozen=True)
class Task:
    """A training with its measurement on dev, or the test of the chosen seed."""

    run: TrainingRun
    is_test: bool = False

    @property
    def title(self) -> str:
        """The name that messages show."""
        return f"{self.run.treebank} {SYSTEMS[self.run.system].title}, seed {self.run.seed}"


class Trainer:
    """Trains and measures systems in one process, on one device."""

    def __init__(self, plan: ReproductionPlan, device: str) -> None:
        self.plan, self.device = plan, torch.device(device)

    def run(self, task: Task) -> list[SystemResult]:
        """Train and measure a system on dev, or test it on the treebanks on which it is not tested yet."""
        run, members = task.run, self.plan.members(task.run)
        if not task.is_test:
            self._train(run, self.plan.recipe(run))
            return [self._measure(run, files, "dev") for files in members]
        results = self.plan.request.output / RESULTS
        names = [result_name(files.treebank.code, run.system, run.seed, "test") for files in members]
        pairs = zip(members, names, strict=True)
        return [self._measure(run, files, "test") for files, name in pairs if not (results / f"{name}.json").exists()]

    def _train(self, run: TrainingRun, recipe: Recipe) -> None:
        output = self.plan.request.output
        folder, path = output / run.folder, output / RECIPES / f"{run.name}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_output(path) as file:
            file.write(recipe_toml(recipe).encode())
        if run.system == BIAFFINE:
            train_biaffine(recipe, self.plan.bilstm(), self.plan.files[run.treebank].test, folder, self.device)
            return
        prepared = prepare(recipe)
        check_folder(folder, prepared, is_resumed=True)
        begin_folder(folder, prepared)
        for _ in train(prepared, folder, device=self.device):
            pass

    def _measure(self, run: TrainingRun, files: PaperFiles, split: str) -> SystemResult:
        """Parse a split with the model of a run, and save its trees and scores."""
        plan, code, system = self.plan, files.treebank.code, SYSTEMS[run.system]
        recipe, gold_file, form = plan.recipe(run), getattr(files, split), files.format or None
        gold = list(read_treebank(gold_file, format=form))
        if run.system == BIAFFINE:
            predictions, costs = measure_biaffine(plan.model(run), gold, split, form)
        else:
            initial = from_file(plan.initial_file(run, split), format=form) if system.reads_files else None
            parser = Parser.from_pretrained(
                plan.model(run), initial=initial, trust=0, max_steps=recipe.refine.max_steps, device=self.device
            )
            predictions, costs = measure_model(parser, gold)
        if system.initial == BIAFFINE:  # its trees were parsed before
            before = biaffine_costs(plan.model(run_of(run.treebank, BIAFFINE, run.seed)))
            costs["initial_parameters"] = before["parameters"]
            costs["parsing_seconds"] = round(costs["parsing_seconds"] + before["seconds"][split], 3)
        identity = {
            "treebank": code,
            "system": run.system,
            "seed": run.seed,
            "split": split,
            "encoder": plan.encoder(run).rpartition("/")[2],
            "start": MULTI if plan.starts_from_multi(run) else "encoder",
            "rule": files.treebank.rule,
            "tags": recipe.tags.source,
            "gold_file": gold_file,
            "release": files.release,
            "settings": plan.request.settings,
            "changes": tuple(plan.changes(run.system)),
            "train_sentences": plan.n_sentences(run),
            "device": device_name(self.device),
        }
        output = plan.request.output
        return write_result(identity | costs, gold, predictions, output / run.folder, output / RESULTS)


@dataclass
class Schedule:
    """The state of a reproduction: what is done, what failed, and what is next."""

    plan: ReproductionPlan
    say: Callable[[str], None]
    n_slots: int
    keep: KeepModels = "chosen"
    running: set[Task] = field(default_factory=set)
    failed: dict[TrainingRun, str] = field(default_factory=dict)  # trainings, and those that need them: why
    failed_tests: dict[TrainingRun, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plan = self.plan
        self.needed_by: dict[TrainingRun, list[TrainingRun]] = {run: [] for run in plan.runs}
        self.seeds: dict[tuple[str, str], list[TrainingRun]] = {}  # the runs that differ only in their seed
        for run in plan.runs:
            self.seeds.setdefault((run.treebank, run.system), []).append(run)
            for needed in plan.needs(run):
                self.needed_by[needed].append(run)
        self.guessed = {run: plan.seconds(run) for run in plan.runs}
        self.results = {result.name: result for result in load_results(plan.request.output / RESULTS)}
        done = [run for run in plan.runs if self.is_measured(run)]
        self.seconds = {run: self.results_of(run, "dev")[0].training_seconds or 0.0 for run in done}

    def results_of(self, run: TrainingRun, split: str) -> list[SystemResult]:
        """Return the results of a run, one for each of its treebanks, as far as they exist."""
        codes = [files.treebank.code for files in self.plan.members(run)]
        names = [result_name(code, run.system, run.seed, split) for code in codes]
        return [self.results[name] for name in names if name in self.results]

    def is_measured(self, run: TrainingRun) -> bool:
        """Return whether the run has been measured on dev."""
        return len(self.results_of(run, "dev")) == len(self.plan.members(run))

    def has_model(self, run: TrainingRun) -> bool:
        """Return whether the model of a run exists."""
        return self.plan.model(run).is_dir()

    def is_done(self, run: TrainingRun) -> bool:
        """Return whether a run needs no training: it is measured, and its model is there or no longer needed."""
        if not self.is_measured(run) or self.has_model(run):
            return self.is_measured(run)
        return all(map(self.is_measured, self.needed_by[run])) and self.to_test(run) != run

    def to_test(self, run: TrainingRun) -> TrainingRun | None:
        """Return the run of this system to test, the best seed on dev.

        Return None if the system is tested already, or if a seed is not measured on dev yet. Multi has one choice for
        all its treebanks. A test that was interrupted continues with the same seed.
        """
        runs = self.seeds[run.treebank, run.system]
        codes = {files.treebank.code for files in self.plan.members(run)}
        tested: dict[int, set[str]] = {}
        for result in self.results.values():
            if result.split == "test" and result.system == run.system and result.treebank in codes:
                tested.setdefault(result.seed, set()).add(result.treebank)
        if codes in tested.values() or not all(map(self.is_measured, runs)):
            return None
        best = chosen_seed(result for other in runs for result in self.results_of(other, "dev"))
        return max(runs, key=lambda other: (len(tested.get(other.seed, ())), other.seed == best))

    def start(self) -> Task | None:
        """Return a task that can start now: tests first, then runs in the order of the plan. It is then running."""
        tests = (Task(run, is_test=True) for run in self.plan.runs if self._is_testable(run))
        trainings = (Task(run) for run in self.plan.runs if self._is_trainable(run))
        task = next((task for task in chain(tests, trainings) if task not in self.running), None)
        if task is not None:
            self.running.add(task)
        return task

    def _is_testable(self, run: TrainingRun) -> bool:
        return run not in self.failed_tests and self.has_model(run) and self.to_test(run) == run

    def _is_trainable(self, run: TrainingRun) -> bool:
        return run not in self.failed and not self.is_done(run) and all(map(self._is_ready, self.plan.needs(run)))

    def _is_ready(self, run: TrainingRun) -> bool:
        return self.is_measured(run) and self.has_model(run) and Task(run) not in self.running

    def finish(self, task: Task, results: Sequence[SystemResult], seconds: float) -> None:
        """Record the results of a task, and report it."""
        self.running.discard(task)
        self.results |= {result.name: result for result in results}
        if not task.is_test:
            self.seconds[task.run] = seconds
        las = " ".join(f"{100 * result.LAS:.2f}" for result in results)
        expected = scaled(self.guessed, self.seconds)
        open_runs = [run for run in self.plan.runs if not self.is_measured(run)]
        left = sum(expected[run] for run in open_runs if run not in self.failed)
        count = f"[{len(self.plan.runs) - len(open_runs)}/{len(self.plan.runs)}]"
        rest = f", about {clock(left / self.n_slots)} left" if left else ""
        self.say(f"{count} {task.title}: {'test' if task.is_test else 'dev'} LAS {las}, {clock(seconds)}{rest}")
        self._remove_models()

    def fail(self, task: Task, error: BaseException) -> None:
        """Record that a task failed, and the runs that need its model. All others continue."""
        self.running.discard(task)
        (self.failed_tests if task.is_test else self.failed)[task.run] = reason = _reason(error)
        self.say(f"{task.title}{', test' if task.is_test else ''} failed: {reason}")
        for run in self.plan.runs:
            needed = [other for other in self.plan.needs(run) if other in self.failed]
            if needed and run not in self.failed and not self.is_measured(run):
                self.failed[run] = f"it needs {needed[0].name}, which failed"

    def _remove_models(self) -> None:
        """Remove the models of seeds that were not chosen, when the system is tested and no open run needs them."""
        for run in self.plan.runs if self.keep == "chosen" else ():
            is_needed = self.to_test(run) is not None or not all(map(self.is_done, self.needed_by[run]))
            is_open = not all(map(self.is_measured, self.seeds[run.treebank, run.system])) or Task(run) in self.running
            if not is_needed and not is_open and not self.results_of(run, "test") and self.has_model(run):
                model = self.plan.model(run)
                removed = model.with_name(".removed")  # half a model must not look like one
                shutil.rmtree(removed, ignore_errors=True)  # of a run that was killed here
                model.rename(removed)
                shutil.rmtree(removed, ignore_errors=True)


def _reason(error: BaseException) -> str:
    """Return an error on one line: all lines of ours, the last line of a worker's traceback, the first of others."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if isinstance(error, TreefineError):
        return " ".join(lines)
    return lines[-1 if lines[0].startswith("Traceback") else 0]


def run_plan(
    plan: ReproductionPlan,
    devices: Sequence[str],
    *,
    keep: KeepModels = "chosen",
    threads: int = 1,
    say: Callable[[str], None],
) -> Schedule:
    """Run everything in a plan that is not done, one task at a time on each of the devices; name one twice for two.

    With one device, tasks run in this process. A task that fails does not stop the others.
    """
    plan.request.output.mkdir(parents=True, exist_ok=True)
    with locked(plan.request.output, hint="Wait until it ends, or stop it; then use the same command again."):
        schedule = Schedule(plan, say, len(devices), keep)
        check_settings(schedule)
        if len(devices) > 1:
            _run_in_processes(schedule, devices, threads)
            return schedule
        trainer = Trainer(plan, devices[0])
        while (task := schedule.start()) is not None:
            start = time.monotonic()
            try:
                results = trainer.run(task)
            except Exception as error:  # of any kind: it must not stop the other tasks
                schedule.fail(task, error)
            else:
                schedule.finish(task, results, time.monotonic() - start)
        return schedule


def _run_in_processes(schedule: Schedule, devices: Sequence[str], threads: int) -> None:
    """Run the tasks in one worker process per device."""
    workers: dict[int, WorkerProcess] = {}

    def work(slot: int, task: Task) -> tuple[list[SystemResult], float]:
        start = time.monotonic()
        if slot not in workers:
            workers[slot] = WorkerProcess(Trainer, schedule.plan, devices[slot], threads=threads)
        try:
            return workers[slot].run(Trainer.run, (task,)), time.monotonic() - start
        except WorkerDiedError:  # for lack of memory, say
            workers.pop(slot).close()
            raise

    pool = ThreadPoolExecutor(len(devices))
    running: dict[Future[Any], tuple[int, Task]] = {}
    free = list(range(len(devices)))
    try:
        while True:
            while free and (task := schedule.start()) is not None:
                slot = free.pop()
                running[pool.submit(work, slot, task)] = slot, task
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                slot, task = running.pop(future)
                free.append(slot)
                if error := future.exception():
                    schedule.fail(task, error)
                else:
                    schedule.finish(task, *future.result())
    finally:
        for worker in list(workers.values()):
            worker.close()  # after Ctrl-C, its thread then ends
        pool.shutdown()


def check_settings(schedule: Schedule) -> None:
    """Raise an error if results in the folder were made with other settings: one table must not mix them."""
    for run in schedule.plan.runs:
        path = schedule.plan.request.output / RECIPES / f"{run.name}.toml"
        if schedule.is_measured(run) and path.exists():
            old = path.read_text(encoding="utf-8").splitlines()
            new = recipe_toml(schedule.plan.recipe(run)).splitlines()
            changed = [line for line in unified_diff(old, new, n=0, lineterm="") if line[:1] in "+-"][2:]
            if changed:
                was = "; ".join(line[1:] for line in changed if line.startswith("-")) or "missing"
                now = "; ".join(line[1:] for line in changed if line.startswith("+")) or "missing"
                raise ConfigError(
                    f"{run.name} was trained with other settings: {was}. Now: {now}.",
                    hint="Use the same command as before, or another folder.",
                    path=str(schedule.plan.request.output),
                )
