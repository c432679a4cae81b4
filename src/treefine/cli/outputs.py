"""Where a command writes to, and in which shape; what cannot be is told before work."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from treefine.cli.changes import kind_of
from treefine.cli.inputs import Input
from treefine.cli.part_file import part_of
from treefine.cli.write import check_table
from treefine.errors import TreebankError, TreefineError
from treefine.treebank.files import COMPRESSED, not_written
from treefine.treebank.formats import CONLL09, FORMATS, format_by_name, suffix_of
from treefine.treebank.sentence import CONLLU, Format

Shape = Literal["tree", "conllu", "json", "svg", "html", "parquet"]
_BY_ENDING: dict[str, Shape] = {
    ".txt": "tree",
    ".json": "json",
    ".jsonl": "json",
    ".svg": "svg",
    ".html": "html",
    ".htm": "html",
    ".parquet": "parquet",
}
_ENDINGS: dict[Shape, str] = {
    "tree": ".txt",
    "json": ".jsonl",
    "svg": ".svg",
    "html": ".html",
    "parquet": ".parquet",
}


@dataclass(frozen=True, slots=True)
class Job:
    """Inputs that go into one output."""

    inputs: tuple[Input, ...]
    target: str  # a path, or - for standard output
    shape: Shape
    form: Format | None = None  # of a treebank; None where each sentence keeps its own
    is_block: bool = False  # of a corpus: it is written at one go, and by another worker if that fails

    @property
    def can_be_resumed(self) -> bool:
        """Whether the output is a file in which whole sentences can be told from a broken one."""
        path = Path(self.target)
        is_file = self.target != "-" and (path.is_file() or not path.exists())
        return is_file and self.shape in ("conllu", "json") and not self.is_block

    @property
    def is_finished(self) -> bool:
        """Whether the output is there, and no part of it."""
        return Path(self.target).exists() and not part_of(self.target).exists()


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """What is to be said beside the trees, and how."""

    steps: bool = False
    confidence: bool = False
    review: float | None = None  # list the sentences with less confidence
    resume: bool = False
    changes: str | None = None  # a file for what a refinement changed
    k: int = 1  # trees of each sentence
    also_read: tuple[str, ...] = ()  # files beside the inputs: initial trees, a map of labels
    model: str = ""  # by the name it was asked for; a table tells it


def plan_jobs(inputs: Sequence[Input], output: str, shape: Shape | None, wanted: OutputOptions) -> list[Job]:
    """What is written where; an output that cannot be written, or not in this way, is told."""
    jobs = _planned(inputs, output, shape, wanted)
    if wanted.changes is not None:
        _check_changes(wanted.changes, jobs, wanted)
    for path in [*(job.target for job in jobs if job.target != "-"), *filter(None, [wanted.changes])]:
        if any(_is_same(path, other) for other in wanted.also_read):
            hint = "Name another output file."
            raise TreefineError("The output would take the place of a file that is read.", hint=hint, path=path)
    return jobs


def _planned(inputs: Sequence[Input], output: str, shape: Shape | None, wanted: OutputOptions) -> list[Job]:
    if wanted.review is not None and output == "-":
        if shape is not None or wanted.steps or wanted.confidence or wanted.k > 1:
            hint = "Name a file for the trees with -o, or leave out --format, --show-steps, --confidence and --k."
            raise TreefineError("--review prints its list in place of the trees.", hint=hint)
        return [Job(tuple(inputs), "-", "conllu")]
    if output != "-" and (output.endswith(("/", os.sep)) or Path(output).is_dir()):
        jobs = _jobs_of_folder(inputs, Path(output), shape)
    elif output != "-":
        chosen = shape or _BY_ENDING.get(suffix_of(output), "conllu")
        form = format_by_name(output) or (CONLLU if shape == "conllu" else None)
        jobs = [Job(tuple(inputs), output, chosen, (form or _common(inputs)) if chosen == "conllu" else None)]
    else:
        form = CONLLU if shape == "conllu" else _common(inputs)
        is_terminal = sys.stdout is not None and sys.stdout.isatty()
        jobs = [Job(tuple(inputs), "-", shape or ("tree" if is_terminal else "conllu"), form)]
    for job in jobs:
        _check(job, wanted)
    return jobs


def _common(inputs: Sequence[Input]) -> Format | None:
    """The format of one output for several inputs: CoNLL-U, where these may have different ones."""
    kinds = {each.kind for each in inputs}
    return CONLLU if len(inputs) > 1 and (len(kinds) > 1 or None in kinds) else None


def _jobs_of_folder(inputs: Sequence[Input], folder: Path, shape: Shape | None) -> list[Job]:
    """One output a file, by its name and with the output's ending."""
    if not all(each.is_file for each in inputs):
        hint = "Name an output file, or leave out -o."
        raise TreefineError("A folder takes the parses of files alone, not of a text.", hint=hint, path=str(folder))
    jobs = []
    for each in inputs:
        form, ending = None, _ENDINGS.get(shape or "conllu")
        if ending is None:
            by_kind = FORMATS.get(each.kind or "")
            form = CONLLU if shape == "conllu" or by_kind is None else by_kind
            ending = (form.suffixes or CONLL09.suffixes)[0]
        jobs.append(Job((each,), str(folder / (_stem(each.name) + ending)), shape or "conllu", form))
    for target, number in Counter(job.target for job in jobs).items():
        if number > 1:
            names = ", ".join(job.inputs[0].name for job in jobs if job.target == target)
            hint = "Parse them into different folders."
            raise TreefineError(f"This would be the output of {number} files: {names}.", hint=hint, path=target)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_written(error.strerror or str(error), str(folder)) from error
    return jobs


def _stem(name: str) -> str:
    """The name of a file without its ending.

    >>> _stem("texts/a.b.txt.gz"), _stem(".hidden")
    ('a.b', '.hidden')
    """
    path = Path(Path(name).name)
    while path.suffix.lower() in COMPRESSED:
        path = path.with_suffix("")
    return path.stem


def _check(job: Job, wanted: OutputOptions) -> None:
    if wanted.steps and job.shape in ("conllu", "parquet"):
        hint = "Add --format tree, svg, html or json."
        what = "treebank" if job.shape == "conllu" else "table"
        raise TreefineError(f"A {what} has no place for the steps of --show-steps.", hint=hint)
    if wanted.confidence and job.form is not None and job.form.misc is None:
        raise TreefineError(f"{job.form.title} has no column for the confidence.", hint="Write CoNLL-U.")
    if wanted.k > 1:
        _check_k(job, wanted)
    if wanted.resume and not job.can_be_resumed:
        hint = "Name a file of CoNLL-U, CoNLL-X, CoNLL-2009 or JSON with -o, or leave out --resume."
        raise TreefineError("Only a file of sentences can be gone on with.", hint=hint)
    if job.shape == "parquet":
        check_table(job.target)
    if job.target == "-":
        return
    _check_place(job.target)
    same = [each for each in job.inputs if each.is_file and _is_same(job.target, each.name)]
    hint = "Name another output file."
    if same and wanted.resume:
        raise TreefineError("The output is the input, so --resume cannot tell if it is whole.", hint=hint)
    if same and (job.shape != "conllu" or same[0].kind not in FORMATS):  # a treebank may get its trees in place
        raise TreefineError("The output would take the place of the input.", hint=hint, path=job.target)


def _check_k(job: Job, wanted: OutputOptions) -> None:
    if wanted.steps and job.shape != "json":
        hint = "Leave out one of them, or add --format json, which has both."
        raise TreefineError("Of --k and --show-steps only one can be drawn.", hint=hint)
    if job.form is not None and job.form.misc is None:
        hint = "Write CoNLL-U, or leave out --k."
        raise TreefineError(f"{job.form.title} has no place for several trees of a sentence.", hint=hint)
    if wanted.resume and job.shape == "conllu":
        hint = "Write JSON, or leave out one of them."
        raise TreefineError("A treebank with several trees of a sentence cannot be gone on with.", hint=hint)


def _check_changes(path: str, jobs: Sequence[Job], wanted: OutputOptions) -> None:
    kind_of(path)
    if wanted.resume:
        hint = "Leave out one of them."
        raise TreefineError("With --resume, --changes would lack the sentences that are done.", hint=hint)
    _check_place(path)
    others = [job.target for job in jobs] + [each.name for job in jobs for each in job.inputs if each.is_file]
    for other in others:
        if _is_same(path, other):
            hint = "Name another file for the changes."
            raise TreefineError("The changes would take the place of the input or the output.", hint=hint, path=path)


def _check_place(path: str) -> None:
    """Tell where no file can be written."""
    target = Path(path)
    if target.is_dir():
        raise TreebankError("This is a directory.", hint="Name a file to write.", path=path)
    folder = target.resolve().parent
    if not folder.is_dir():
        raise not_written("No such file or directory", path)
    if not os.access(folder, os.W_OK) and (target.is_file() or not target.exists()):
        raise not_written("Permission denied", path)


def _is_same(path: str, other: str) -> bool:
    """Whether two names are of one file, which may not be there yet."""
    if Path(path).exists() and Path(other).exists():
        return Path(path).samefile(other)
    return Path(path).resolve() == Path(other).resolve()
