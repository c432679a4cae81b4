"""Plan a reproduction: which systems are trained on which treebanks, with which recipes, in which order."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from treefine.errors import ConfigError, TreefineError
from treefine.training.recipe import EMPTY, FILES, Recipe, recipe_of
from treefine.treebank.files import open_input
from treefine_paper.biaffine import trees_file
from treefine_paper.systems import BIAFFINE, SYNTR, SYSTEMS, System
from treefine_paper.treebanks import RELEASE, SPLITS, TREEBANKS, find_paper_files, in_words


@dataclass(frozen=True)
class ReproductionRequest:
    """The request of a user: what to reproduce, from which files, with which changes."""

    treebanks: tuple[str, ...]  # folders with treebanks
    output: Path
    encoders: Mapping[str, str]  # by treebank; "" for all others. Without one, the paper's encoder is used
    seeds: tuple[int, ...] = (1,)
    only: tuple[str, ...] = ()  # names of treebanks and systems; nothing: all
    changes: tuple[str, ...] = ()  # KEY=VALUE for all systems, or SYSTEM:KEY=VALUE for one
    files: str = ""  # folder with another parser's trees


@dataclass(frozen=True)
class TrainingRun:
    """One training: a system on a treebank with a seed."""

    treebank: str
    system: str
    seed: int

    @property
    def name(self) -> str:
        """The name of the run, as in `tr_imst-syntr-seed1`."""
        return f"{self.treebank}-{self.system}-seed{self.seed}"

    @property
    def folder(self) -> Path:
        """The output folder of the training, in that of the reproduction."""
        return Path("runs", self.treebank, self.system, f"seed{self.seed}")


class ReproductionPlan:
    """All runs of a reproduction that are possible, and why others are not."""

    def __init__(self, request: ReproductionRequest) -> None:
        for name in request.only:
            _check_name("treebank or system", name, (*TREEBANKS, *SYSTEMS))
        for code in request.encoders:
            _check_name("treebank", code, ("", *TREEBANKS))
        self.request = request
        self.files = find_paper_files(request.treebanks)
        self.other_trees = find_paper_files([request.files]) if request.files else {}  # another parser's
        self.missing: dict[str, None] = {}  # why other systems cannot be run
        runs: dict[TrainingRun, None] = {}

        def add(run: TrainingRun) -> None:
            for needed in self.needs(run):
                add(needed)
            runs.setdefault(run)

        codes = [code for code in TREEBANKS if code in request.only] or list(TREEBANKS)
        systems = [system for name, system in SYSTEMS.items() if name in request.only] or list(SYSTEMS.values())
        pairs = [(code, system) for code in codes for system in systems if system.only in ("", code)]
        for is_control in (False, True):
            for seed in request.seeds:
                for code, system in pairs:
                    if reason := self._why_missing(code, system):
                        self.missing.setdefault(reason)
                    elif bool(system.updates_of) == is_control:
                        add(TrainingRun(code, system.name, seed))
        self.runs = tuple(runs)  # each after the runs that it needs; controls come last

    def _why_missing(self, code: str, system: System) -> str:
        """Return why a system cannot be run on a treebank, and where to get what is missing; "" if it can."""
        if missing := self.files[code].missing:
            return f"{code} has no {in_words(missing)} file; get it from {TREEBANKS[code].source}"
        trees = self.other_trees.get(code)
        if system.initial == FILES and (missing := SPLITS if trees is None else trees.missing):
            names = in_words([f"{code}-ud-{split}.conllu" for split in missing])
            return f"there are no trees of another parser, such as {names}; name their folder with --files"
        return ""

    def check(self) -> None:
        """Raise an error if nothing can be trained, or if a setting is wrong."""
        reasons = [*self.missing]
        if not self.runs and not reasons:
            raise TreefineError("The systems that --only names are not run on the treebanks that it names.")
        if not self.runs:
            where, more = in_words(self.request.treebanks), f" The same holds for {len(reasons) - 1} more."
            what = f"Nothing can be trained with the files in {where}: {reasons[0]}."
            raise TreefineError(what + more * (len(reasons) > 1))
        for run in self.runs:
            self.recipe(run)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The number of sentences of each training set."""
        return {code: _count_sentences(files.train) for code, files in self.files.items() if files.train}

    def needs(self, run: TrainingRun) -> list[TrainingRun]:
        """Return the run whose model this run refines, if there is one."""
        initial = SYSTEMS[run.system].initial
        return [replace(run, system=initial)] if initial in SYSTEMS else []

    def model(self, run: TrainingRun) -> Path:
        """Return the folder of the model that a run trains."""
        return self.request.output / run.folder / "model"

    def encoder(self, run: TrainingRun) -> str:
        """Return the pretrained encoder of a run."""
        if run.system == BIAFFINE:
            return "bilstm"
        return (
            self.request.encoders.get(run.treebank) or self.request.encoders.get("") or TREEBANKS[run.treebank].encoder
        )

    def initial_file(self, run: TrainingRun, split: str) -> str:
        """Return the file with the trees that a run refines."""
        if SYSTEMS[run.system].initial == FILES:
            return str(getattr(self.other_trees[run.treebank], split))
        return str(trees_file(self.model(replace(run, system=BIAFFINE)), split))

    def changes(self, system: str) -> list[str]:
        """Return the changes of the user that apply to a system."""
        kept = []
        for change in self.request.changes:
            name, colon, rest = change.partition(":")
            if "training.seed" in change.partition("=")[0]:
                raise ConfigError(f"--set {change!r}: The seeds are those of --seeds.")
            is_of_one = colon and "=" not in name
            if is_of_one:
                _check_name("system", name, SYSTEMS)
            if not is_of_one or name == system:
                kept.append(rest if is_of_one else change)
        return kept

    def recipe(self, run: TrainingRun) -> Recipe:
        """Return the recipe of a run. Raises one error with a line for each fault in the changes."""
        recipe = recipe_of(self._values(run), self.changes(run.system))
        other = SYSTEMS[run.system].updates_of
        if other and not any(change.startswith(f"{run.system}:training.epochs") for change in self.request.changes):
            refined = self.recipe(replace(run, system=other))
            times, training = refined.refine.max_steps, refined.training
            longer = replace(recipe.training, epochs=times * training.epochs, patience=times * training.patience)
            return replace(recipe, training=longer)
        return recipe

    def _values(self, run: TrainingRun) -> dict[str, Any]:
        system, files, encoder = SYSTEMS[run.system], self.files[run.treebank], self.encoder(run)
        treebank = files.treebank
        values: dict[str, Any] = {"training": {"seed": run.seed}}  # the defaults of recipes are those of Appendix A
        if run.system == BIAFFINE:  # it says nothing about the biaffine parser
            values["training"]["batch_pieces"] = 5000
            values["optimiser"] = {"betas": [0.9, 0.9], "eps": 1e-12}
        paths = {"train": [files.train], "dev": [files.dev]}
        values["treebank"] = paths | {"rule": treebank.rule, "format": files.format}
        values["encoder"] = {"pretrained": encoder, "pieces": "all"}
        values["tags"] = {"source": "given", "columns": [treebank.column]}
        values["segmenter"] = {"train": "never"}
        values["refine"] = {"max_steps": system.steps} | ({"stop": system.stop} if system.initial else {})
        if not system.initial:
            values["relations"] = {"graph": "none"}
        elif system.reads_files:
            trees = {split: self.initial_file(run, split) for split in ("train", "dev")}
            values["initial"] = {"parser": FILES, **trees}
        elif system.initial != EMPTY:
            values["initial"] = {"parser": str(self.model(replace(run, system=system.initial)))}
        values["card"] = {"treebank": treebank.title}
        return {"title": f"{treebank.title}: {system.title}", **values}

    def inventory(self) -> Iterator[str]:
        """Yield a line for each treebank of the paper with its encoder, and for each system."""
        for code, files in self.files.items():
            facts = [f"{self.sizes[code]:,} training sentences"] if code in self.sizes else []
            if facts and files.treebank.is_ud:
                facts.append(f"UD {files.release or '(unknown release)'}")
            where = files.folder
            if files.missing:
                where = f"missing {in_words(files.missing)}; get it from {files.treebank.source}"
            elif not files.is_comparable:
                where += f" (the paper has UD {RELEASE}, so scores cannot be compared)"
            yield f"{code:<12}  {', '.join([*facts, self.encoder(TrainingRun(code, SYNTR, 1)), where])}"
        yield ""
        yield from (f"{name:<19}  {system.title}: {system.about}" for name, system in SYSTEMS.items())


def _check_name(kind: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f"Did you mean {close[0]}?" if close else f"Choose from {', '.join(filter(None, known))}."
        raise ConfigError(f"There is no {kind} {name!r}.", hint=hint)


def _count_sentences(path: str) -> int:
    with open_input(path) as lines:
        return sum(line.startswith(b"1\t") for line in lines)
