"""Plan a reproduction: which systems are trained on which treebanks, with which recipes, in which order."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from treefine.errors import ConfigError
from treefine.evaluation.tables import Table, TableCell
from treefine.training.new_recipe import encoder_width, has_encoder
from treefine.training.recipe import EMPTY, FILES, Recipe, recipe_of
from treefine.treebank.files import open_input
from treefine.wording import clock, count
from treefine_paper.collection import in_words
from treefine_paper.systems import MULTI, SYSTEMS, TABLE_1, Settings, System, system_settings
from treefine_paper.treebanks import RELEASE, SPLITS, TREEBANKS, PaperFiles, find_paper_files

Start = Literal["encoder", "multi"]
# Rough costs of one GPU, for the estimate before anything was measured. Starting the kernels of an update takes longer
# than the arithmetic of a small batch.
_SECONDS_PER_UPDATE = {True: 0.03, False: 0.05}  # of a BiLSTM, of a transformer
_SECONDS_PER_EPOCH = 2.0  # scoring dev
_PIECES_PER_WORD = 1.5
_EPOCHS_TO_BEST = 10  # with early stopping, training ends this many epochs after its patience


@dataclass(frozen=True)
class ReproductionRequest:
    """The request of a user: what to reproduce, from which files, with which settings."""

    treebanks: tuple[str, ...]  # folders with treebanks
    output: Path
    encoders: Mapping[str, str]  # by treebank; "" for all others. Without one, the paper's encoder is used
    seeds: tuple[int, ...] = (1,)
    settings: Settings = "paper"
    start: Start = "encoder"
    only: tuple[str, ...] = ()  # names of treebanks and systems; nothing: all
    changes: tuple[str, ...] = ()  # KEY=VALUE for all systems, or SYSTEM:KEY=VALUE for one
    files: str = ""  # folder with another parser's trees


@dataclass(frozen=True)
class TrainingJob:
    """One training: a system on a treebank with a seed."""

    treebank: str  # a code, or MULTI
    system: str
    seed: int

    @property
    def name(self) -> str:
        """The name of the job, as in `tr_imst-syntr-seed1`."""
        return f"{self.treebank}-{self.system}-seed{self.seed}"

    @property
    def folder(self) -> Path:
        """The output folder of the training, in that of the reproduction."""
        return Path("runs", self.treebank, self.system, f"seed{self.seed}")


def job_of(treebank: str, system: str, seed: int) -> TrainingJob:
    """Return the job of a system on a treebank; Multi has one job for all treebanks."""
    return TrainingJob(MULTI if system == MULTI else treebank, system, seed)


@dataclass(frozen=True)
class Size:
    """The size of a treebank file."""

    sentences: int
    words: int


@dataclass(frozen=True)
class ReproductionPlan:
    """All jobs of a reproduction that can be run, and why the others cannot."""

    request: ReproductionRequest
    found: Mapping[str, PaperFiles]
    other_trees: Mapping[str, PaperFiles]  # another parser's, by treebank
    jobs: tuple[TrainingJob, ...]  # each after the jobs that it needs; controls come last
    missing: Mapping[tuple[str, str], str]  # by treebank and system: why it cannot be run

    @cached_property
    def sizes(self) -> dict[str, Size]:
        """The size of each training set."""
        return {code: size_of(each.train) for code, each in self.found.items() if each.train}

    def needs(self, job: TrainingJob) -> list[TrainingJob]:
        """Return the jobs whose models this job starts from or refines."""
        system, found = SYSTEMS[job.system], []
        if system.initial not in ("", EMPTY, FILES):
            found.append(job_of(job.treebank, system.initial, job.seed))
        if self.starts_from_multi(job):
            found.append(job_of(MULTI, MULTI, job.seed))
        return found

    def model(self, job: TrainingJob) -> str:
        """Return the folder of the model that a job trains."""
        return str(self.request.output / job.folder / "model")

    def encoder(self, job: TrainingJob) -> str:
        """Return the pretrained encoder of a job."""
        encoders = self.request.encoders
        if SYSTEMS[job.system].is_bilstm:
            return "bilstm"
        paper = TREEBANKS[job.treebank].encoder if job.treebank in TREEBANKS else TREEBANKS["en_ewt"].encoder
        return encoders.get(job.treebank) or encoders.get("") or paper

    def members(self, job: TrainingJob) -> list[PaperFiles]:
        """Return the treebanks that a job is trained on."""
        if job.treebank != MULTI:
            return [self.found[job.treebank]]
        return [each for each in self.found.values() if each.treebank.is_ud and not each.missing]

    def recipe(self, job: TrainingJob) -> Recipe:
        """Return the recipe of a job. Raises one error with a line for each fault in the changes."""
        recipe = recipe_of(self._values(job), self.changes(job.system))
        other = SYSTEMS[job.system].updates_of
        if other and not any(each.startswith(f"{job.system}:training.epochs") for each in self.request.changes):
            refined = self.recipe(job_of(job.treebank, other, job.seed))
            times, training = refined.refine.max_steps, refined.training
            longer = replace(recipe.training, epochs=times * training.epochs, patience=times * training.patience)
            return replace(recipe, training=longer)
        return recipe

    def _values(self, job: TrainingJob) -> dict[str, Any]:
        system, members, encoder = SYSTEMS[job.system], self.members(job), self.encoder(job)
        first = members[0]
        by_size = self.request.settings == "by-size"
        n_sentences = sum(self.sizes[each.treebank.code].sentences for each in members)
        width = encoder_width(encoder) if by_size and not system.is_bilstm else 0
        values = system_settings(system, self.request.settings, n_sentences=n_sentences, width=width)
        treebank = {"train": [each.train for each in members], "dev": [each.dev for each in members]}
        values["treebank"] = treebank | {"rule": first.treebank.rule, "format": recipe_format(first)}
        values["encoder"] = {"family": "bilstm"}
        if not system.is_bilstm:
            start = self.model(job_of(MULTI, MULTI, job.seed)) if self.starts_from_multi(job) else ""
            values["encoder"] = {"fine_tune_from": start} if start else {"pretrained": encoder}
            values["encoder"]["pieces"] = "cut" if by_size else "all"
        values["tags"] = {"source": "given", "columns": [first.treebank.column]}
        values["initial"] = self._initial(job, system)
        values["training"]["seed"] = job.seed
        values["card"] = {"treebank": ", ".join(each.treebank.title for each in members)}
        title = f"{first.treebank.title if job.treebank != MULTI else 'All treebanks'}: {system.title}"
        return {"title": title, **{section: each for section, each in values.items() if each}}

    def _initial(self, job: TrainingJob, system: System) -> dict[str, Any]:
        if system.initial == FILES:
            trees = self.other_trees.get(job.treebank) or PaperFiles(TREEBANKS[job.treebank])
            return {"parser": FILES, "train": trees.train or "TRAIN", "dev": trees.dev or "DEV"}
        if system.initial in ("", EMPTY):
            return {}
        return {"parser": self.model(job_of(job.treebank, system.initial, job.seed))}

    def changes(self, system: str) -> list[str]:
        """Return the changes of the user that apply to a system."""
        found = []
        for change in self.request.changes:
            name, colon, rest = change.partition(":")
            if "training.seed" in change.partition("=")[0]:
                raise ConfigError(f"--set {change!r}: The seeds are those of --seeds.")
            if not colon or "=" in name:
                found.append(change)
            elif name not in SYSTEMS:
                raise ConfigError(f"--set {change!r}: There is no system {name!r}.", hint=_nearest(name, SYSTEMS))
            elif name == system:
                found.append(rest)
        return found

    def starts_from_multi(self, job: TrainingJob) -> bool:
        """Return whether a job fine-tunes the model of all treebanks, which must have the same encoder."""
        multi = job_of(MULTI, MULTI, job.seed)
        is_able = job.treebank != MULTI and TREEBANKS[job.treebank].is_ud and not SYSTEMS[job.system].is_bilstm
        return self.request.start == "multi" and is_able and self.encoder(job) == self.encoder(multi)

    def seconds(self, job: TrainingJob) -> float:
        """Return a rough estimate of the time that a job takes on one GPU."""
        recipe = self.recipe(job)
        training = recipe.training
        words = sum(self.sizes[each.treebank.code].words for each in self.members(job))
        epochs = min(training.epochs, training.patience + _EPOCHS_TO_BEST)
        updates = _PIECES_PER_WORD * words / training.batch_pieces * epochs * recipe.refine.max_steps
        return updates * _SECONDS_PER_UPDATE[SYSTEMS[job.system].is_bilstm] + epochs * _SECONDS_PER_EPOCH


def make_plan(request: ReproductionRequest) -> ReproductionPlan:
    """Find the treebanks, and list the jobs that can be run."""
    _check_names(request)
    found = find_paper_files(request.treebanks)
    others = find_paper_files([request.files]) if request.files else {}
    plan = ReproductionPlan(request, found, others, (), {})
    missing: dict[tuple[str, str], str] = {}
    wanted: list[tuple[str, str]] = []
    for code, system in _pairs(request):
        why = _why_missing(found[code], SYSTEMS[system], others.get(code))
        if why:
            missing[code, system] = why
        else:
            wanted.append((code, system))
    jobs: dict[TrainingJob, None] = {}

    def add(job: TrainingJob) -> None:
        for needed in plan.needs(job):
            add(needed)
        jobs.setdefault(job)

    for is_control in (False, True):
        for seed in request.seeds:
            for code, system in wanted:
                if SYSTEMS[system].is_control == is_control:
                    add(job_of(code, system, seed))
    return replace(plan, jobs=tuple(jobs), missing=missing)


def why_nothing(plan: ReproductionPlan) -> str:
    """Say why nothing can be trained; "" if something can."""
    if plan.jobs:
        return ""
    if not plan.missing:
        return "The systems that --only names are not run on the treebanks that it names."
    reasons = [*dict.fromkeys(plan.missing.values())]
    more = f" The same holds for {len(reasons) - 1} more." if len(reasons) > 1 else ""
    return f"Nothing can be trained with the files in {in_words(plan.request.treebanks)}: {reasons[0]}.{more}"


def _pairs(request: ReproductionRequest) -> list[tuple[str, str]]:
    """Return the treebanks and systems that the user asks for."""
    codes = [code for code in TREEBANKS if code in request.only] or list(TREEBANKS)
    names = [name for name in SYSTEMS if name in request.only] or list(SYSTEMS)
    return [(code, name) for code in codes for name in names if _is_run(SYSTEMS[name], code)]


def _is_run(system: System, code: str) -> bool:
    return system.applies_to(code) and (TREEBANKS[code].is_ud or MULTI not in (system.name, system.initial))


def _check_names(request: ReproductionRequest) -> None:
    known = [*TREEBANKS, *SYSTEMS]
    for name in request.only:
        if name not in known:
            raise ConfigError(f"There is no treebank or system {name!r}.", hint=_nearest(name, known))
    for code in request.encoders:
        if code and code not in TREEBANKS and code != MULTI:
            raise ConfigError(f"There is no treebank {code!r}.", hint=_nearest(code, TREEBANKS))


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    close = get_close_matches(name, names, n=1)
    return f"Did you mean {close[0]}?" if close else f"Choose from {', '.join(names)}."


def _why_missing(files: PaperFiles, system: System, trees: PaperFiles | None) -> str:
    """Return why a system cannot be run on a treebank, and where to get what is missing; "" if it can."""
    if files.missing:
        return f"{files.treebank.code} has no {in_words(files.missing)} file; get it from {files.treebank.source}"
    if system.initial == FILES:
        lacking = SPLITS if trees is None else trees.missing
        names = in_words([f"{files.treebank.code}-ud-{split}.conllu" for split in lacking]) if lacking else ""
        return f"there are no trees of another parser, such as {names}; name their folder with --files" if names else ""
    return ""


def recipe_format(files: PaperFiles) -> str:
    """Return the format of a treebank's files for a recipe; a file that ends in .conllu is CoNLL-U."""
    return "" if ".conllu" in Path(files.train or files.dev).suffixes else files.treebank.format


def size_of(path: str | os.PathLike[str]) -> Size:
    """Count the sentences and words of a treebank file, without checking it."""
    n_words = n_sentences = 0
    with open_input(path) as lines:
        for line in lines:
            number = line.split(b"\t", 1)[0]
            if number.isdigit():
                n_words += 1
                n_sentences += number == b"1"
    return Size(n_sentences, n_words)


def treebank_table(plan: ReproductionPlan) -> Table:
    """Return a row for each treebank of the paper: what was found, or where to get it."""
    rows: list[tuple[TableCell, ...]] = []
    for code, files in plan.found.items():
        treebank, size = files.treebank, plan.sizes.get(code)
        release = (files.release or "(unknown release)") if treebank.is_ud and files.folder else None
        status = f"missing {in_words(files.missing)}; get it from {treebank.source}" if files.missing else files.folder
        if not files.missing and not files.is_comparable:
            status += f" (the paper has UD {RELEASE}, so scores cannot be compared)"
        rows.append((code, treebank.title, treebank.encoder, release, f"{size.sentences:,}" if size else None, status))
    header = ("treebank", "name", "paper's encoder", "release", "training sentences", "where")
    return Table(header, tuple(rows), n_names=3)


def encoder_table(plan: ReproductionPlan) -> Table:
    """Return a row for each encoder: the treebanks that use it, and where it is."""
    codes: dict[str, list[str]] = {}
    for code in TREEBANKS:
        codes.setdefault(plan.encoder(TrainingJob(code, "syntr", 1)), []).append(code)
    where = {name: "here" if has_encoder(name) else "downloaded from the hub at its first use" for name in codes}
    rows = tuple((name, ", ".join(each), where[name]) for name, each in codes.items())
    return Table(("encoder", "treebanks", "where"), rows)


def system_table() -> Table:
    """Return a row for each system: its name, its title and what it is."""
    rows = tuple((name, system.title, system.about) for name, system in SYSTEMS.items())
    return Table(("system", "title", "what it is"), rows)


def time_table(plan: ReproductionPlan, measured: Mapping[TrainingJob, float], *, n_slots: int) -> Table:
    """Return the time of each system on each treebank, with all seeds.

    The time of a variant in Table 1 is added to that of its system. A star marks a system that needs files of another
    parser.
    """
    open_pairs = [(code, system) for code, system in plan.missing if not plan.found[code].missing]
    lacking = [TrainingJob(*each, seed) for each in open_pairs for seed in plan.request.seeds]
    seconds = scaled({job: plan.seconds(job) for job in (*plan.jobs, *lacking)}, measured)
    times: dict[tuple[str, str], float] = {}
    for job, each in seconds.items():
        place = job.treebank, SYSTEMS[job.system].base
        times[place] = times.get(place, 0.0) + each
    starred = {(job.treebank, SYSTEMS[job.system].base) for job in lacking}

    def cell(code: str, name: str) -> str:
        if (code, name) not in times:
            return "–"
        return clock(times[code, name]) + ("*" if (code, name) in starred else "")

    names = [name for name in SYSTEMS if any(name == each for _, each in times)]
    codes = [code for code in (*TREEBANKS, MULTI) if any(code == each for each, _ in times)]
    planned = {job: seconds[job] for job in plan.jobs}
    left = sum(each for job, each in planned.items() if job not in measured)
    note = (
        f"{count(len(planned), 'training')}, about {clock(sum(planned.values()))} on one GPU one after another; "
        f"{clock(left / n_slots)} left with {n_slots} at a time. Times are h:mm:ss"
        f"{', scaled to those measured so far' if measured else ', a rough guess'}. Those of {TABLE_1} include the "
        "variants of Table 1."
    )
    if starred:
        note += " * needs the files of another parser (--files) and is not counted."
    rows = tuple((code, *(cell(code, name) for name in names)) for code in codes)
    return Table(("treebank", *(SYSTEMS[name].title for name in names)), rows, note=note)


def scaled(guessed: Mapping[TrainingJob, float], measured: Mapping[TrainingJob, float]) -> dict[TrainingJob, float]:
    """Return the seconds of each job: as measured, or as guessed and scaled by how well the others were guessed."""
    known = [job for job in guessed if job in measured]
    total = sum(guessed[job] for job in known)
    factor = sum(measured[job] for job in known) / total if total else 1.0
    return {job: measured.get(job, factor * each) for job, each in guessed.items()}
