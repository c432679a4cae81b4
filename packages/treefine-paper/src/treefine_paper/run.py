"""Run the jobs of a reproduction on all devices, and test each system once. A second run continues the first."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path
from threading import Condition, Thread
from typing import Literal

import torch

from treefine.errors import ConfigError, TreefineError
from treefine.parsing.initial import from_file
from treefine.parsing.parser import Parser
from treefine.training.prepare import prepare
from treefine.training.recipe import FILES, Recipe, recipe_toml
from treefine.training.train import begin_folder, check_folder, locked, train
from treefine.treebank.files import open_output
from treefine.wording import clock
from treefine.worker_process import WorkerDiedError, WorkerProcess
from treefine_paper.plan import ReproductionPlan, TrainingJob, recipe_format, scaled
from treefine_paper.results import SystemResult, chosen_seed, load_results, measure_system, result_name
from treefine_paper.systems import SYSTEMS
from treefine_paper.treebanks import PaperFiles

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
        """Train and measure a system on dev, or test it on the treebanks on which it is not tested yet."""
        job, members = task.job, self.plan.members(task.job)
        recipe = self.plan.recipe(job)
        if not task.is_test:
            self._train(job, recipe)
            return [self._measure(job, recipe, each, "dev") for each in members]
        results = self.plan.request.output / RESULTS
        names = {each: result_name(each.treebank.code, job.system, job.seed, "test") for each in members}
        open_members = [each for each in members if not (results / f"{names[each]}.json").exists()]
        return [self._measure(job, recipe, each, "test") for each in open_members]

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
        initial, form = None, recipe_format(files)
        if SYSTEMS[job.system].initial == FILES:
            initial = from_file(getattr(plan.other_trees[code], split), format=form or None)
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
            "settings": plan.request.settings,
            "changes": tuple(plan.changes(job.system)),
            "train_sentences": sum(plan.sizes[each.treebank.code].sentences for each in plan.members(job)),
        }
        output = plan.request.output
        gold_file = getattr(files, split)
        return measure_system(parser, output / job.folder, gold_file, identity, output / RESULTS, format=form)


@dataclass
class Run:
    """The state of a reproduction: what is done, what failed, and what is next."""

    plan: ReproductionPlan
    say: Callable[[str], None]
    n_slots: int
    keep: KeepModels = "chosen"
    running: set[Task] = field(default_factory=set)
    failed: dict[TrainingJob, str] = field(default_factory=dict)  # trainings, and those that need them: why
    failed_tests: dict[TrainingJob, str] = field(default_factory=dict)
    changed: Condition = field(default_factory=Condition)
    is_stopped: bool = False
    crash: BaseException | None = None  # an error outside the tasks, which ends the run

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
        self.results = {each.name: each for each in load_results(plan.request.output / RESULTS)}
        done = [job for job in plan.jobs if self.is_measured(job)]
        self.seconds = {job: self.found(job, "dev")[0].training_seconds or 0.0 for job in done}

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
        """Return whether a job needs no training: it is measured, and its model is there or no longer needed."""
        if not self.is_measured(job) or self.has_model(job):
            return self.is_measured(job)
        return all(map(self.is_measured, self.needed_by[job])) and self.to_test(job) != job

    def seeds_of(self, job: TrainingJob) -> list[TrainingJob]:
        """Return the jobs that differ only in their seed."""
        return self.seeds[job.treebank, job.system]

    def to_test(self, job: TrainingJob) -> TrainingJob | None:
        """Return the job of this system to test, the best seed on dev.

        Return None if the system is tested already, or if a seed is not measured on dev yet. Multi has one choice for
        all its treebanks. A test that was interrupted continues with the same seed.
        """
        jobs, codes = self.seeds_of(job), {each.treebank.code for each in self.plan.members(job)}
        tested: dict[int, set[str]] = {}
        for each in self.results.values():
            if each.split == "test" and each.system == job.system and each.treebank in codes:
                tested.setdefault(each.seed, set()).add(each.treebank)
        if codes in tested.values() or not all(map(self.is_measured, jobs)):
            return None
        best = chosen_seed(result for each in jobs for result in self.found(each, "dev"))
        return max(jobs, key=lambda each: (len(tested.get(each.seed, ())), each.seed == best))

    def next_task(self) -> Task | None:
        """Return a task that can start now: tests first, then jobs in the order of the plan."""
        for job in self.plan.jobs:
            test = Task(job, is_test=True)
            is_open = test not in self.running and job not in self.failed_tests and self.has_model(job)
            if is_open and self.to_test(job) == job:
                return test
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
        """Record that a task failed, and the jobs that need its model. All other jobs continue."""
        with self.changed:
            self.running.discard(task)
            if not self.is_stopped:
                (self.failed_tests if task.is_test else self.failed)[task.job] = reason
                self.say(f"{task.title}{', test' if task.is_test else ''} failed: {reason}")
                for job in self.plan.jobs:
                    needed = [each for each in self.needs[job] if each in self.failed]
                    if needed and job not in self.failed and not self.is_measured(job):
                        self.failed[job] = f"it needs {needed[0].name}, which failed"
            self.changed.notify_all()

    def stop(self, crash: BaseException | None = None) -> None:
        """Start no more tasks."""
        with self.changed:
            self.is_stopped, self.crash = True, self.crash or crash
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
        for job in self.plan.jobs if self.keep == "chosen" else ():
            is_needed = self.to_test(job) is not None or not all(map(self.is_done, self.needed_by[job]))
            is_open = not all(map(self.is_measured, self.seeds_of(job))) or Task(job) in self.running
            if not is_needed and not is_open and not self.found(job, "test") and self.has_model(job):
                model = Path(self.plan.model(job))
                removed = model.with_name(".removed")  # half a model must not look like one
                shutil.rmtree(removed, ignore_errors=True)  # of a run that was killed here
                model.rename(removed)
                shutil.rmtree(removed, ignore_errors=True)


def run_plan(
    plan: ReproductionPlan,
    devices: Sequence[str | None],
    *,
    keep: KeepModels = "chosen",
    threads: int = 1,
    say: Callable[[str], None],
) -> Run:
    """Run all jobs of a plan that are not done, one at a time on each of the devices; name a device twice for two.

    With one device, jobs run in this process. A job that fails does not stop the others.
    """
    plan.request.output.mkdir(parents=True, exist_ok=True)
    with locked(plan.request.output, hint="Wait until it ends, or stop it; then use the same command again."):
        run = Run(plan, say, len(devices), keep)
        check_settings(run)
        if len(devices) == 1:
            _work(run, Trainer(plan, devices[0]).run)
        else:
            _work_in_processes(run, devices, threads)
    return run


def check_settings(run: Run) -> None:
    """Raise an error if results in the folder were made with other settings: one table must not mix them."""
    for job in run.plan.jobs:
        path = run.plan.request.output / RECIPES / f"{job.name}.toml"
        if run.is_measured(job) and path.exists():
            old = path.read_text(encoding="utf-8").splitlines()
            new = recipe_toml(run.plan.recipe(job)).splitlines()
            changed = [line for line in unified_diff(old, new, n=0, lineterm="") if line[:1] in "+-"][2:]
            if changed:
                was = "; ".join(line[1:] for line in changed if line.startswith("-")) or "missing"
                now = "; ".join(line[1:] for line in changed if line.startswith("+")) or "missing"
                raise ConfigError(
                    f"{job.name} was trained with other settings: {was}. Now: {now}.",
                    hint="Use the same command as before, or another folder.",
                    path=str(run.plan.request.output),
                )


def _work(run: Run, do: Callable[[Task], list[SystemResult]]) -> None:
    """Do tasks until none is left."""
    for task in run.tasks():
        start = time.monotonic()
        try:
            results = do(task)
        except Exception as error:  # of any kind: it must not stop the other tasks
            run.fail(task, _reason(error))
        else:
            run.finish(task, results, time.monotonic() - start)


def _reason(error: Exception) -> str:
    """Return an error on one line: all lines of ours, the last line of a worker's traceback, the first of others."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if isinstance(error, TreefineError):
        return " ".join(lines)
    return lines[-1 if lines[0].startswith("Traceback") else 0]


def _work_in_processes(run: Run, devices: Sequence[str | None], threads: int) -> None:
    workers: dict[int, WorkerProcess] = {}

    def slot(number: int, device: str | None) -> None:
        def do(task: Task) -> list[SystemResult]:
            if number not in workers:
                workers[number] = WorkerProcess(Trainer, run.plan, device, threads=threads)
            try:
                return workers[number].run(Trainer.run, (task,))
            except WorkerDiedError:  # for lack of memory, say
                workers.pop(number).close()
                raise

        try:
            _work(run, do)
        except BaseException as error:
            run.stop(error)

    slots = [Thread(target=slot, args=each, daemon=True) for each in enumerate(devices)]
    try:
        for each in slots:
            each.start()
        while any(each.is_alive() for each in slots):
            time.sleep(_WAIT_SECONDS)
    finally:
        run.stop()
        for worker in list(workers.values()):
            with suppress(OSError):
                worker.close()
    if run.crash is not None:
        raise run.crash
