"""Run the jobs of a reproduction on all devices, and test each system once. A second run continues the first."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Thread
from typing import Literal

import torch

from treefine.errors import TreefineError
from treefine.evaluation.tables import clock
from treefine.parsing.parser import Parser
from treefine.reproduction.plan import ReproductionPlan, TrainingJob, recipe_format, scaled
from treefine.reproduction.results import SystemResult, load_results, measure_system, result_name
from treefine.reproduction.systems import SYSTEMS
from treefine.reproduction.treebanks import PaperFiles
from treefine.training.new_recipe import recipe_toml
from treefine.training.prepare import prepare
from treefine.training.recipe import FILES, Recipe
from treefine.training.train import begin_folder, check_folder, locked, train
from treefine.treebank.files import open_output
from treefine.worker_process import WorkerProcess

KeepModels = Literal["all", "chosen"]
RESULTS, RECIPES = "results", "recipes"  # folders in that of the reproduction
_WAIT_SECONDS = 0.2  # how often the main thread looks for Ctrl-C


@dataclass(frozen=True)
class Task:
    """A training with its measurement on dev, or the test of the chosen seed."""

    job: TrainingJob
    is_test: bool = False

    @property
    def title(self) -> str:
        """The name that messages show."""
        return f"{self.job.treebank} {SYSTEMS[self.job.system].title}, seed {self.job.seed}"


class Trainer:
    """Trains and measures systems in one process, on one device."""

    def __init__(self, plan: ReproductionPlan, device: str | None) -> None:
        self.plan = plan
        self.device = None if device is None else torch.device(device)

    def run(self, task: Task) -> list[SystemResult]:
        """Train and measure a system on dev, or test it."""
        job = task.job
        recipe = self.plan.recipe(job)
        if not task.is_test:
            self._train(job, recipe)
        return [self._measure(job, recipe, each, "test" if task.is_test else "dev") for each in self.plan.members(job)]

    def _train(self, job: TrainingJob, recipe: Recipe) -> None:
        output = self.plan.request.output
        folder, path = output / job.folder, output / RECIPES / f"{job.name}.toml"
        prepared = prepare(recipe)
        check_folder(folder, prepared, is_resumed=True)
        begin_folder(folder, prepared)
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_output(path) as file:
            file.write(recipe_toml(recipe).encode())
        for _ in train(prepared, folder, device=self.device):
            pass

    def _measure(self, job: TrainingJob, recipe: Recipe, files: PaperFiles, split: str) -> SystemResult:
        """Parse a split with the model of a job, and save its trees and scores."""
        plan, code = self.plan, files.treebank.code
        initial = getattr(plan.other_trees[code], split) if SYSTEMS[job.system].initial == FILES else None
        parser = Parser.from_pretrained(
            plan.model(job), initial=initial, trust=0, max_steps=recipe.refine.max_steps, device=self.device
        )
        identity = {
            "treebank": code,
            "system": job.system,
            "seed": job.seed,
            "split": split,
            "encoder": Path(plan.encoder(job)).name,
            "start": "multi" if plan.starts_from_multi(job) else "encoder",
            "rule": files.treebank.rule,
            "tags": recipe.tags.source,
            "release": files.release,
            "train_sentences": sum(plan.sizes[each.treebank.code].sentences for each in plan.members(job)),
        }
        output = plan.request.output
        gold_file, form = getattr(files, split), recipe_format(files)
        return measure_system(parser, output / job.folder, gold_file, identity, output / RESULTS, format=form)


@dataclass
class Run:
    """The state of a reproduction: what is done, what failed, and what is next."""

    plan: ReproductionPlan
    say: Callable[[str], None]
    n_slots: int
    keep: KeepModels = "chosen"
    results: dict[str, SystemResult] = field(default_factory=dict)  # by name
    seconds: dict[TrainingJob, float] = field(default_factory=dict)  # of the jobs of this run
    running: set[Task] = field(default_factory=set)
    failed: dict[TrainingJob, str] = field(default_factory=dict)
    changed: Condition = field(default_factory=Condition)
    is_stopped: bool = False

    def __post_init__(self) -> None:
        plan = self.plan
        self.needs = {job: plan.needs(job) for job in plan.jobs}
        self.needed_by: dict[TrainingJob, list[TrainingJob]] = {job: [] for job in plan.jobs}
        self.seeds: dict[tuple[str, str], list[TrainingJob]] = {}  # the jobs that differ only in their seed
        for job in plan.jobs:
            self.seeds.setdefault((job.treebank, job.system), []).append(job)
            for needed in self.needs[job]:
                self.needed_by[needed].append(job)
        self.names = {
            split: {
                job: [result_name(each.treebank.code, job.system, job.seed, split) for each in plan.members(job)]
                for job in plan.jobs
            }
            for split in ("dev", "test")
        }
        self.guessed = {job: plan.seconds(job) for job in plan.jobs}
        self.results = {each.name: each for each in load_results(self.plan.request.output / RESULTS)}
        self.seconds = measured_seconds(plan)

    def found(self, job: TrainingJob, split: str) -> list[SystemResult]:
        """Return the results of a job, one for each of its treebanks, as far as they exist."""
        return [self.results[name] for name in self.names[split][job] if name in self.results]

    def is_measured(self, job: TrainingJob) -> bool:
        """Return whether the job has been measured on dev."""
        return len(self.found(job, "dev")) == len(self.names["dev"][job])

    def has_model(self, job: TrainingJob) -> bool:
        """Return whether the model of a job exists."""
        return Path(self.plan.model(job)).is_dir()

    def is_done(self, job: TrainingJob) -> bool:
        """Return whether a job needs no training: it is measured, and no unfinished job needs its lost model."""
        is_needed = not all(map(self.is_measured, self.needed_by[job]))
        return self.is_measured(job) and (self.has_model(job) or not is_needed)

    def seeds_of(self, job: TrainingJob) -> list[TrainingJob]:
        """Return the jobs that differ only in their seed."""
        return self.seeds[job.treebank, job.system]

    def chosen(self, job: TrainingJob) -> TrainingJob | None:
        """Return the job with the best seed on dev, or None if a seed is still open. A failed seed does not count."""
        jobs = [each for each in self.seeds_of(job) if each not in self.failed]
        if not jobs or not all(map(self.is_measured, jobs)):
            return None
        means = {each: sum(result.LAS for result in self.found(each, "dev")) for each in jobs}
        return max(jobs, key=lambda each: (means[each], -each.seed))

    def is_tested(self, job: TrainingJob) -> bool:
        """Return whether a seed of this system has been tested: a system is tested once."""
        return any(self.found(each, "test") for each in self.seeds_of(job))

    def next_task(self) -> Task | None:
        """Return a task that can start now: tests first, then jobs in the order of the plan."""
        for job in self.plan.jobs:
            chosen = self.chosen(job)
            if chosen is not None and not self.is_tested(job) and chosen not in self.failed and self.has_model(chosen):
                task = Task(chosen, is_test=True)
                if task not in self.running:
                    return task
        for job in self.plan.jobs:
            is_open = Task(job) not in self.running and job not in self.failed and not self.is_done(job)
            if is_open and all(map(self._is_ready, self.needs[job])):
                return Task(job)
        return None

    def _is_ready(self, job: TrainingJob) -> bool:
        return self.is_measured(job) and self.has_model(job) and Task(job) not in self.running

    def tasks(self) -> Iterator[Task]:
        """Yield tasks for one slot until none is left; wait while others may make more possible."""
        while True:
            with self.changed:
                while not self.is_stopped and (task := self.next_task()) is None and self.running:
                    self.changed.wait()
                if self.is_stopped or task is None:
                    self.changed.notify_all()
                    return
                self.running.add(task)
            yield task

    def finish(self, task: Task, results: Sequence[SystemResult], seconds: float) -> None:
        """Record the results of a task, and report it."""
        with self.changed:
            self.running.discard(task)
            self.results |= {each.name: each for each in results}
            if not task.is_test:
                self.seconds[task.job] = seconds
            las = " ".join(f"{100 * each.LAS:.2f}" for each in results)
            split = "test" if task.is_test else "dev"
            self.say(f"{self._count()} {task.title}: {split} LAS {las}, {clock(seconds)}{self._left()}")
            self._remove_models()
            self.changed.notify_all()

    def fail(self, task: Task, reason: str) -> None:
        """Record that a task failed, and the jobs that need it. All other jobs go on."""
        with self.changed:
            self.running.discard(task)
            if not self.is_stopped:
                self.failed[task.job] = reason
                self.say(f"{task.title} failed: {reason}")
                for job in self.plan.jobs:
                    needed = [each for each in self.needs[job] if each in self.failed]
                    if needed and job not in self.failed and not self.is_measured(job):
                        self.failed[job] = f"it needs {needed[0].name}, which failed"
            self.changed.notify_all()

    def _count(self) -> str:
        n_done = sum(map(self.is_measured, self.plan.jobs))
        return f"[{n_done}/{len(self.plan.jobs)}]"

    def _left(self) -> str:
        """Return the time left, estimated from the jobs that are done."""
        seconds = scaled(self.guessed, self.seconds)
        left = sum(seconds[job] for job in self.plan.jobs if not self.is_measured(job) and job not in self.failed)
        return f", about {clock(left / self.n_slots)} left" if left else ""

    def _remove_models(self) -> None:
        """Remove the models of seeds that were not chosen, when the system is tested and no open job needs them."""
        if self.keep == "all":
            return
        for job in self.plan.jobs:
            is_chosen = bool(self.found(job, "test"))
            if self.is_tested(job) and not is_chosen and self.has_model(job) and self.is_done(job):
                if all(map(self.is_done, self.needed_by[job])) and Task(job) not in self.running:
                    shutil.rmtree(self.plan.model(job), ignore_errors=True)


def measured_seconds(plan: ReproductionPlan) -> dict[TrainingJob, float]:
    """Return the training time of each job that is done."""
    results = {each.name: each for each in load_results(plan.request.output / RESULTS)}
    found = {}
    for job in plan.jobs:
        names = [result_name(each.treebank.code, job.system, job.seed, "dev") for each in plan.members(job)]
        if all(name in results for name in names):
            found[job] = results[names[0]].training_seconds or 0.0
    return found


def run_plan(
    plan: ReproductionPlan, devices: Sequence[str | None], *, keep: KeepModels = "chosen", say: Callable[[str], None]
) -> Run:
    """Run all jobs of a plan that are not done, one at a time on each of the devices; name a device twice for two.

    With one device, jobs run in this process. A job that fails does not stop the others.
    """
    plan.request.output.mkdir(parents=True, exist_ok=True)
    with locked(plan.request.output):
        run = Run(plan, say, len(devices), keep)
        if len(devices) == 1:
            trainer = Trainer(plan, devices[0])
            _work(run, trainer.run)
        else:
            _work_in_processes(run, devices)
    return run


def _work(run: Run, do: Callable[[Task], list[SystemResult]]) -> None:
    """Do tasks until none is left."""
    for task in run.tasks():
        start = time.monotonic()
        try:
            results = do(task)
        except (TreefineError, OSError, RuntimeError) as error:
            run.fail(task, str(error).strip().splitlines()[-1])
        else:
            run.finish(task, results, time.monotonic() - start)


def _work_in_processes(run: Run, devices: Sequence[str | None]) -> None:
    workers: dict[int, WorkerProcess] = {}

    def slot(number: int, device: str | None) -> None:
        def do(task: Task) -> list[SystemResult]:
            if number not in workers:
                workers[number] = WorkerProcess(Trainer, run.plan, device)
            try:
                return workers[number].run(Trainer.run, (task,))
            except TreefineError:
                if workers[number].process.poll() is not None:  # it was killed, for lack of memory, say
                    workers.pop(number).close()
                raise

        _work(run, do)

    threads = [Thread(target=slot, args=each, daemon=True) for each in enumerate(devices)]
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            time.sleep(_WAIT_SECONDS)
    finally:
        run.is_stopped = True
        for worker in list(workers.values()):
            with suppress(OSError):
                worker.close()
