"""Parse a corpus into a folder of outputs, block by block, on workers and in runs that may die at any time.

A block is done when its output exists, and an output appears whole or not at all. So the same command resumes a run
that was killed, and it does not matter which worker wrote a block, or how often.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import typer
from filelock import lock_descriptor

from treefine import wording
from treefine.cli.inputs import Input
from treefine.cli.outputs import Job, OutputOptions, Shape, plan_jobs
from treefine.cli.parse import ModelChoice
from treefine.cli.terminal import progress, say, warn
from treefine.drawing.characters import visible
from treefine.errors import TreefineError
from treefine.integrations.corpus.blocks import BLOCK_BYTES, bytes_of, cut_jobs
from treefine.integrations.corpus.ray import (
    Outcome,
    import_ray,
    output_folder,
    parse_on_ray,
    report_path,
    saved_outcome,
)
from treefine.model.bundled import bundled_models, find_model
from treefine.model.weight_files import LAYOUT, read_json
from treefine.treebank.files import not_written, open_output
from treefine.version import __version__

_RECORD = ".treefine.json"  # in the output folder: the options and inputs of its files
_LOCK = ".treefine.lock"  # a separate file, because the record is replaced
_OTHER_FOLDER = "Choose another folder, or empty this one."

ParseBlocks = Callable[[Sequence[Job]], Generator[Outcome, None, None]]
"""Parses blocks, and yields the outcome of each when it ends."""


def parse_corpus(
    inputs: Sequence[Input],
    output: str,
    shape: Shape | None,
    wanted: OutputOptions,
    choice: ModelChoice,
    *,
    actors: int | None = None,
    workers: int | None = None,
    size: int = BLOCK_BYTES,
    parse_blocks: ParseBlocks | None = None,
) -> bool:
    """Parse files into a folder on Ray, and report the outcome; return whether everything succeeded.

    Tests replace Ray with `parse_blocks`.
    """
    _refuse(inputs, output, wanted, choice)
    if parse_blocks is None:
        ray = import_ray()  # before any work: a missing Ray is reported at once
        parse_blocks = partial(parse_on_ray, ray, choice=choice, wanted=wanted, actors=actors, workers=workers)
    jobs = plan_jobs(inputs, output, shape, replace(wanted, force=True))  # the record protects the files of others
    trees_alone = jobs[0].shape == "conllu" and not wanted.confidence and wanted.k == 1
    blocks = cut_jobs(jobs, trees_alone=trees_alone, size=size)
    with _open_record(
        Path(output), blocks, _options(wanted, choice, size, trees_alone=trees_alone, encoding=inputs[0].encoding)
    ):
        there = _files(output)
        to_do = _missing(blocks, there)
        finished = {block.target for block in blocks} - {block.target for block in to_do}
        outcomes = {each: saved_outcome(each) for each in finished if report_path(each) in there}
        if finished:
            say(f"treefine: {len(finished):,} of {wording.count(len(blocks), 'block')} already finished")
        _remove_leftovers(Path(output), blocks)
        if to_do:
            outcomes |= _parse(parse_blocks, sorted(to_do, key=bytes_of, reverse=True))  # largest first
            _remove_leftovers(Path(output), blocks)
    return _report(outcomes, blocks, to_do, _missing(to_do, _files(output)))


def _refuse(inputs: Sequence[Input], output: str, wanted: OutputOptions, choice: ModelChoice) -> None:
    """Raise an error for options that do not work on many machines."""
    if not (output.endswith(("/", os.sep)) or Path(output).is_dir()):
        raise TreefineError("--engine ray writes into a folder.", hint="Give a folder: -o NAME/")
    if not all(each.is_file and Path(each.name).is_file() for each in inputs):
        raise TreefineError("--engine ray cannot read standard input or text arguments.", hint="Give files.")
    if wanted.review is not None:
        raise TreefineError(
            "--review does not work with --engine ray, which parses sentences in any order.",
            hint="Leave out one of them.",
        )
    device = str(choice.options.device)
    if device.startswith("cuda:"):
        message = f"--device {device} is one GPU, but Ray assigns a GPU to each worker."
        raise TreefineError(message, hint="Use --device cuda.")
    if wanted.resume:
        raise TreefineError("--engine ray always resumes.", hint="Leave out --resume.")
    if choice.options.language is None and read_json(find_model(choice.model) / LAYOUT.config).get("main_treebanks"):
        message = "--engine ray cannot identify the language, because its blocks are parsed separately."
        raise TreefineError(message, hint="Name it with --lang.")
    trust = choice.options.trust
    if trust == "auto" or (isinstance(trust, list) and "auto" in trust):
        message = "--engine ray cannot estimate --trust, because its blocks are parsed separately."
        raise TreefineError(message, hint="Give a number, such as --trust 1.")
    if choice.label_map is not None or choice.trust_from is not None or wanted.also_read:
        message = "--engine ray cannot read initial trees from other files."
        raise TreefineError(message, hint="Leave out --initial FILE, --label-map and --trust-from, or --engine ray.")


def _missing(blocks: Sequence[Job], there: set[Path]) -> list[Job]:
    """Return the blocks whose output is not among these files."""
    return [block for block in blocks if Path(block.target) not in there]


def _files(folder: str | Path) -> set[Path]:
    """List a folder. Checking each file separately is slow on a shared disk, and the result may be outdated."""
    return {Path(place, name) for place, _, names in os.walk(folder) for name in names}


def _parse(parse_blocks: ParseBlocks, blocks: Sequence[Job]) -> dict[str, Outcome]:
    """Parse blocks under a progress bar, and return their outcomes by target."""
    sizes = {block.target: bytes_of(block) for block in blocks}
    found = {}
    try:
        with progress("Parsing", sum(sizes.values()), in_bytes=True) as advance, closing(parse_blocks(blocks)) as ended:
            for outcome in ended:
                if outcome.is_worker_unfit:
                    raise TreefineError(outcome.fault)
                found[outcome.target] = outcome
                advance(sizes[outcome.target], sentences=outcome.n_sentences)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt("Run the same command again to resume.") from stop
    return found


def _report(outcomes: dict[str, Outcome], blocks: Sequence[Job], tried: Sequence[Job], missing: Sequence[Job]) -> bool:
    """Report on standard error, and return whether everything succeeded. `missing` are blocks without an output."""
    by_place = sorted(blocks, key=lambda each: (each.inputs[0].name, each.inputs[0].section or ()))
    found = [outcomes[block.target] for block in by_place if block.target in outcomes]
    warnings: dict[str, str] = {}
    for outcome in found:
        for kind, warning in outcome.warnings.items():
            warnings.setdefault(kind, warning)
    for warning in warnings.values():
        warn(warning)
    lost: dict[str, Counter[str]] = {}
    for outcome in found:
        for title, counts in outcome.lost.items():
            lost.setdefault(title, Counter()).update(counts)
    for title, counter in lost.items():
        say(wording.losses_line(counter, title))
    faulty = {block.target for block in missing}
    for block in by_place:
        outcome = outcomes.get(block.target, Outcome(block.target))
        not_heard = f"{block.inputs[0].name}: A block was not written. Run the same command again."
        for message in [*outcome.empty, *[outcome.fault or not_heard] * (block.target in faulty)]:
            typer.echo(f"treefine: {visible(message)}", err=True)
    n_empty = sum(len(outcome.empty) for outcome in found)
    if tried:
        now = {block.target for block in tried} - faulty
        n_sentences = sum(outcome.n_sentences for outcome in found if outcome.target in now)
        words = [f"{wording.count(len(now), 'block')} parsed, {wording.count(n_sentences, 'sentence')}"]
        n_dead = sum(outcome.n_dead_workers for outcome in found)
        words += [f"{wording.count(n_dead, 'dead worker')} replaced"] * bool(n_dead)
        words += [f"{n_empty:,} empty"] * bool(n_empty) + [f"{len(missing):,} failed"] * bool(missing)
        say("; ".join(words))
    return not n_empty and not missing


@dataclass(frozen=True)
class _InputFile:
    """The input file of an output, as it was when the output was written."""

    input: str  # absolute path
    bytes: int
    changed: int  # nanoseconds since 1970
    kind: str | None

    def __str__(self) -> str:
        time = datetime.fromtimestamp(self.changed / 1e9).isoformat(" ", "milliseconds")
        return f"{Path(self.input).name} ({self.bytes:,} bytes, modified {time}{f', {self.kind}' if self.kind else ''})"


@contextmanager
def _open_record(folder: Path, blocks: Sequence[Job], options: dict[str, Any]) -> Iterator[None]:
    """Lock the folder, which must be empty or contain outputs of the same inputs and options."""
    try:
        lock = (folder / _LOCK).open("w")
    except OSError as error:
        raise not_written(error.strerror or str(error), str(folder)) from error
    with lock:
        with suppress(OSError):  # raised by a file system without locks
            if not lock_descriptor(lock.fileno(), blocking=False):
                hint = "Wait until it ends, or stop it. Then run the command again."
                raise TreefineError("Another run is writing into this folder.", hint=hint, path=str(folder))
        old_options, known = _read_record(folder / _RECORD) or (options, {})
        for name, value in options.items():
            if old_options.get(name) != value:
                old = old_options.get(name)
                message = f"The files in this folder were written with {name} {old}, but this run uses {value}."
                raise TreefineError(message, hint=_OTHER_FOLDER, path=str(folder))
        files = _input_files(blocks)
        _check_inputs(known, files, folder)
        with open_output(folder / _RECORD, is_synced=True) as stream:
            record = {"options": options, "files": {name: asdict(each) for name, each in (known | files).items()}}
            stream.write(json.dumps(record, ensure_ascii=False, indent=1).encode())
        yield


_FLAGS = {"max_steps": "steps", "is_projective": "projective"}  # the names of these options on the command line


def _options(
    wanted: OutputOptions, choice: ModelChoice, size: int, *, trees_alone: bool, encoding: str | None
) -> dict[str, Any]:
    """Return the options that all blocks of a folder must share. Workers check the device."""
    options = {
        "version": __version__,
        "block size": size,
        "encoding": encoding,
        "weights": _checksum(choice),
        "confidence": wanted.confidence,
        "steps shown": wanted.steps,
        "model": choice.model,
        **{_FLAGS.get(name, name): value for name, value in asdict(choice.options).items()},
    }
    left_out = ("device", *["batch_pieces"] * trees_alone)  # batches change the digits of confidences
    return {name: value for name, value in options.items() if name not in left_out}


def _checksum(choice: ModelChoice) -> str:
    """Return a checksum of the model and its initial parser, because another model may get the same name."""
    initial = choice.options.initial
    named = [each for each in (initial if isinstance(initial, list) else [initial]) if isinstance(each, str)]
    initials = [find_model(each) for each in named if each in bundled_models() or Path(each).is_dir()]
    folders = [find_model(choice.model), *initials]
    digest = hashlib.sha256()
    for path in (each for folder in folders for each in sorted(folder.rglob("*"))):
        if path.suffix in (".safetensors", ".json"):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _input_files(blocks: Sequence[Job]) -> dict[str, _InputFile]:
    """Return the input of each output, by the output's path in its folder."""
    found = {}
    for source in {block.inputs[0].name: block.inputs[0] for block in blocks}.values():
        path = Path(source.name).resolve()
        found[source.name] = _InputFile(str(path), path.stat().st_size, path.stat().st_mtime_ns, source.kind)
    return {
        Path(block.target).relative_to(output_folder(block)).as_posix(): found[block.inputs[0].name] for block in blocks
    }


def _read_record(path: Path) -> tuple[dict[str, Any], dict[str, _InputFile]] | None:
    try:
        old = json.loads(path.read_text(encoding="utf-8"))
        files = {name: _InputFile(**values) for name, values in old["files"].items()}
        list(map(str, files.values()))  # raises if a value has the wrong type
        return dict(old["options"]), files
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TreefineError(f"{error.strerror or error}.", path=str(path)) from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise TreefineError("This record of a run is damaged.", hint=_OTHER_FOLDER, path=str(path)) from error


def _check_inputs(known: dict[str, _InputFile], files: dict[str, _InputFile], folder: Path) -> None:
    """Raise an error for outputs of other inputs, of inputs that have changed, and of unknown origin."""
    there = _files(folder)
    for name, now in files.items():
        if name not in known and folder / name in there:
            path = str(folder / name)
            raise TreefineError("This file exists, but no earlier run wrote it.", hint=_OTHER_FOLDER, path=path)
        before = known.get(name, now)
        if before.input != now.input:  # even if the output is missing: that run may be resumed
            message = f"This is the output of {before.input}; {now.input} would overwrite it."
            hint = "Rename one of the inputs, or choose another folder."
            raise TreefineError(message, hint=hint, path=str(folder / name))
    current = {now.input: now for now in files.values()}
    for name, before in known.items():  # also outputs of a file that is now cut into fewer blocks
        now = current.get(before.input, before)
        if now != before and folder / name in there:
            message = f"This is the output of {before}, which has changed to {now}."
            hint = "Delete its outputs, or choose another folder."
            raise TreefineError(message, hint=hint, path=str(folder / name))


def _remove_leftovers(folder: Path, blocks: Sequence[Job]) -> None:
    """Remove the temporary files of dead workers: unfinished outputs and attempt files."""
    targets = {Path(block.target) for block in blocks}
    for path in _files(folder):
        name, _, ending = path.name.removeprefix(".").rpartition(".")
        stem = name.rpartition(".")[0] if ending == "tmp" else name  # .out.conllu.0123abcd.tmp, .out.conllu.attempt
        if path.name.startswith(".") and ending in ("tmp", "attempt") and path.parent / stem in targets:
            with suppress(OSError):
                path.unlink()
