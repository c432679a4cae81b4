"""Plan which inputs go into which output and in which shape; report what is impossible before work starts."""

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
_ENDINGS: dict[Shape, tuple[str, ...]] = {  # the first one is that of the files in a folder
    "tree": (".txt",),
    "json": (".jsonl", ".json"),
    "svg": (".svg",),
    "html": (".html", ".htm"),
    "parquet": (".parquet",),
}
_OTHER_OUTPUT = "Name another output file."


@dataclass(frozen=True, slots=True)
class Job:
    """Inputs that go into one output."""

    inputs: tuple[Input, ...]
    target: str  # a path, or - for standard output
    shape: Shape
    form: Format | None = None  # of a treebank; None if each sentence keeps its own
    is_block: bool = False  # of a corpus: written in one go, and by another worker if that fails

    @property
    def can_be_resumed(self) -> bool:
        """Whether the output is a file in which a complete sentence can be told from a broken one."""
        path = Path(self.target)
        is_file = self.target != "-" and (path.is_file() or not path.exists())
        return is_file and self.shape in ("conllu", "json") and not self.is_block

    @property
    def is_finished(self) -> bool:
        """Whether the output exists, and no part file of it."""
        return Path(self.target).exists() and not part_of(self.target).exists()


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """What to write besides the trees, and how."""

    steps: bool = False
    confidence: bool = False
    review: float | None = None  # list the sentences with a lower confidence
    resume: bool = False
    changes: str | None = None  # a file for what a refinement changed
    k: int = 1  # trees per sentence
    also_read: tuple[str, ...] = ()  # files besides the inputs: initial trees, a label map
    model: str = ""  # the name that the user gave; a table records it


def plan_jobs(inputs: Sequence[Input], output: str, shape: Shape | None, options: OutputOptions) -> list[Job]:
    """Return what is written where; raise an error if an output cannot be written, or not with these options."""
    if options.review is not None and output == "-":
        if shape is not None or options.steps or options.confidence or options.k > 1:
            hint = "Name a file for the trees with -o, or leave out --format, --show-steps, --confidence and --k."
            raise TreefineError("--review prints its list in place of the trees.", hint=hint)
        jobs = [Job(tuple(inputs), "-", "conllu")]
    else:
        jobs = _jobs(inputs, output, shape)
        for job in jobs:
            _check(job, options)
    if options.changes is not None:
        _check_changes(options.changes, jobs, options)
    for path in [*(job.target for job in jobs if job.target != "-"), *filter(None, [options.changes])]:
        if any(_is_same(path, other) for other in options.also_read):
            message = "The output would take the place of a file that is read."
            raise TreefineError(message, hint=_OTHER_OUTPUT, path=path)
    return jobs


def _jobs(inputs: Sequence[Input], output: str, shape: Shape | None) -> list[Job]:
    if output == "-":
        is_terminal = sys.stdout is not None and sys.stdout.isatty()
        form = CONLLU if shape == "conllu" else _common_format(inputs)
        return [Job(tuple(inputs), "-", shape or ("tree" if is_terminal else "conllu"), form)]
    if output.endswith(("/", os.sep)) or Path(output).is_dir():
        return _jobs_of_folder(inputs, Path(output), shape)
    shapes = {ending: each for each, endings in _ENDINGS.items() for ending in endings}
    chosen = shape or shapes.get(suffix_of(output), "conllu")
    if chosen != "conllu":
        return [Job(tuple(inputs), output, chosen)]
    form = format_by_name(output) or (CONLLU if shape == "conllu" else _common_format(inputs))
    return [Job(tuple(inputs), output, chosen, form)]


def _common_format(inputs: Sequence[Input]) -> Format | None:
    """Return CoNLL-U for inputs that may have different formats, else None: they keep their own."""
    kinds = {each.kind for each in inputs}
    return CONLLU if len(inputs) > 1 and (len(kinds) > 1 or None in kinds) else None


def _jobs_of_folder(inputs: Sequence[Input], folder: Path, shape: Shape | None) -> list[Job]:
    """Give each input an output in the folder, with the same name and another ending; create the folder."""
    if not all(each.is_file for each in inputs):
        hint = "Name an output file, or leave out -o."
        raise TreefineError("A folder takes the parses of files alone, not of a text.", hint=hint, path=str(folder))
    jobs = []
    for each in inputs:
        form, endings = None, _ENDINGS.get(shape or "conllu")
        if endings is None:
            form = CONLLU if shape == "conllu" else FORMATS.get(each.kind or "", CONLLU)
            endings = form.suffixes or CONLL09.suffixes
        jobs.append(Job((each,), str(folder / (_stem(each.name) + endings[0])), shape or "conllu", form))
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
    """Return the name of a file without its endings.

    >>> _stem("texts/a.b.txt.gz"), _stem(".hidden")
    ('a.b', '.hidden')
    """
    path = Path(Path(name).name)
    while path.suffix.lower() in COMPRESSED:
        path = path.with_suffix("")
    return path.stem


def _check(job: Job, options: OutputOptions) -> None:
    """Raise an error if the output cannot be written, or has no place for what is wanted."""
    lacks_misc = job.form is not None and job.form.misc is None
    title = "" if job.form is None else job.form.title
    is_treebank = job.shape == "conllu"
    if options.steps and job.shape in ("conllu", "parquet"):
        what = "treebank" if is_treebank else "table"
        hint = "Add --format tree, svg, html or json."
        raise TreefineError(f"A {what} has no place for the steps of --show-steps.", hint=hint)
    if options.confidence and lacks_misc:
        raise TreefineError(f"{title} has no column for the confidence.", hint="Write CoNLL-U.")
    if options.k > 1 and options.steps and job.shape != "json":
        hint = "Leave out one of them, or add --format json, which has both."
        raise TreefineError("Of --k and --show-steps only one can be drawn.", hint=hint)
    if options.k > 1 and lacks_misc:
        hint = "Write CoNLL-U, or leave out --k."
        raise TreefineError(f"{title} has no place for several trees of a sentence.", hint=hint)
    if options.k > 1 and options.resume and is_treebank:
        hint = "Write JSON, or leave out one of them."
        raise TreefineError("A treebank with several trees of a sentence cannot be gone on with.", hint=hint)
    if options.resume and not job.can_be_resumed:
        hint = "Name a file of CoNLL-U, CoNLL-X, CoNLL-2009 or JSON with -o, or leave out --resume."
        raise TreefineError("Only a file of sentences can be gone on with.", hint=hint)
    if job.shape == "parquet":
        check_table(job.target)
    if job.target == "-":
        return
    _check_place(job.target)
    same = [each for each in job.inputs if each.is_file and _is_same(job.target, each.name)]
    if same and options.resume:
        message = "The output is the input, so --resume cannot tell if it is whole."
        raise TreefineError(message, hint=_OTHER_OUTPUT)
    if same and not (is_treebank and same[0].kind in FORMATS):  # a treebank may be replaced by its parses
        raise TreefineError("The output would take the place of the input.", hint=_OTHER_OUTPUT, path=job.target)


def _check_changes(path: str, jobs: Sequence[Job], options: OutputOptions) -> None:
    kind_of(path)
    if options.resume:
        hint = "Leave out one of them."
        raise TreefineError("With --resume, --changes would lack the sentences that are done.", hint=hint)
    _check_place(path)
    others = [job.target for job in jobs] + [each.name for job in jobs for each in job.inputs if each.is_file]
    if any(_is_same(path, other) for other in others):
        hint = "Name another file for the changes."
        raise TreefineError("The changes would take the place of the input or the output.", hint=hint, path=path)


def _check_place(path: str) -> None:
    """Raise an error if no file can be written at this path."""
    target = Path(path)
    if target.is_dir():
        raise TreebankError("This is a directory.", hint="Name a file to write.", path=path)
    folder = target.resolve().parent
    if not folder.is_dir():
        raise not_written("No such file or directory", path)
    if not os.access(folder, os.W_OK) and (target.is_file() or not target.exists()):
        raise not_written("Permission denied", path)


def _is_same(path: str, other: str) -> bool:
    """Return whether two paths name the same file, which need not exist yet."""
    if Path(path).exists() and Path(other).exists():
        return Path(path).samefile(other)
    return Path(path).resolve() == Path(other).resolve()
