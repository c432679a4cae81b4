"""What a folder of outputs was begun with, so that a run goes on with it only if its blocks are the same ones."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import lock_descriptor

from treefine.cli.outputs import Job, OutputOptions
from treefine.cli.parse import Loading
from treefine.errors import TreefineError
from treefine.model.bundled import bundled_models, find_model
from treefine.treebank.files import not_written, open_output
from treefine.version import __version__

RECORD = ".treefine.json"  # in the folder
LOCK = ".treefine.lock"  # another file: the record is replaced, and a lock is of the one that was opened
_NUMBERS = ".treefine.{device}.{precision}"  # a mark of what its trees were computed with
_OTHER_FOLDER = "Name another folder, or clear this one."
_RENAME = "Rename one of the inputs, or name another folder."
_CHUNK = 1 << 20

_Files = dict[str, dict[str, Any]]
"""By the name of each output: the path of its input, how long that is, when it was changed, and what it holds."""


@contextmanager
def open_record(
    folder: Path, blocks: Sequence[Job], wanted: OutputOptions, loading: Loading, *, size: int, trees_alone: bool
) -> Iterator[None]:
    """Keep other runs out of the folder, which must hold nothing, or blocks of the same files with the same options."""
    options, files = _options(wanted, loading, size, trees_alone=trees_alone), _files(blocks)
    try:
        lock = (folder / LOCK).open("w")
    except OSError as error:
        raise not_written(error.strerror or str(error), str(folder)) from error
    with lock:
        with suppress(OSError):  # raised by a file system without locks
            if not lock_descriptor(lock.fileno(), blocking=False):
                hint = "Wait for its end, or stop it; then give the command again."
                raise TreefineError("Another run is writing into this folder.", hint=hint, path=str(folder))
        old = _read(folder / RECORD)
        _compare_options(old.get("options", options), options, folder)
        known: _Files = old.get("files", {})
        _compare_files(known, files, folder)
        new = {"options": options, "files": known | files}
        if new != old:
            with open_output(folder / RECORD, is_synced=True) as stream:
                stream.write(json.dumps(new, ensure_ascii=False, indent=1).encode())
        yield


def _options(wanted: OutputOptions, loading: Loading, size: int, *, trees_alone: bool) -> dict[str, Any]:
    anyhow = ("label_map", "device", "batch_pieces")  # the first is refused; for the second see `agree_on_numbers`
    options = {
        "version": __version__,
        "bytes of a block": size,
        **{name: value for name, value in asdict(loading).items() if name not in anyhow},
        "weights": _checksum(loading),
        "confidence": wanted.confidence,
        "steps shown": wanted.steps,
    }
    if not trees_alone:  # the last digits of a confidence depend on it
        options["batch_pieces"] = loading.batch_pieces
    return options


def _checksum(loading: Loading) -> str:
    """Of all that is learned or set in the model's folder, and in that of its initial parser: a name may be reused."""
    folders = [find_model(loading.model)]
    if isinstance(loading.initial, str) and (loading.initial in bundled_models() or Path(loading.initial).is_dir()):
        folders.append(find_model(loading.initial))
    digest = hashlib.sha256()
    for path in (each for folder in folders for each in sorted(folder.rglob("*"))):
        if path.suffix in (".safetensors", ".json"):
            with path.open("rb") as file:
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
    return digest.hexdigest()[:16]


def _files(blocks: Sequence[Job]) -> _Files:
    sources = {block.inputs[0].name: block.inputs[0] for block in blocks}
    about = {}
    for name, source in sources.items():
        path = Path(name).resolve()
        status = path.stat()
        about[name] = {"input": str(path), "bytes": status.st_size, "changed": status.st_mtime_ns, "kind": source.kind}
    return {Path(block.target).name: about[block.inputs[0].name] for block in blocks}


def _read(path: Path) -> dict[str, Any]:
    """The record; empty where there is none."""
    try:
        old = json.loads(path.read_text(encoding="utf-8"))
        for each in old["files"].values():
            _said(each)
        return {"options": dict(old["options"]), "files": dict(old["files"])}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise TreefineError(f"{error.strerror or error}.", path=str(path)) from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise TreefineError("This record of a run is damaged.", hint=_OTHER_FOLDER, path=str(path)) from error


def _compare_options(old: dict[str, Any], options: dict[str, Any], folder: Path) -> None:
    for name, value in options.items():
        if old.get(name) != value:
            message = f"This folder was begun with {name} {old.get(name)}, and now it is {value}."
            raise TreefineError(message, hint=_OTHER_FOLDER, path=str(folder))


def _compare_files(known: _Files, files: _Files, folder: Path) -> None:
    """Tell of outputs that are not of these inputs as they are now, or of which nobody knows what they are of."""
    there = set(os.listdir(folder))  # noqa: PTH208 - names alone are asked for
    for name, now in files.items():
        if name not in known and name in there:
            path = str(folder / name)
            raise TreefineError("This file is there, and no such run wrote it.", hint=_OTHER_FOLDER, path=path)
        before = known.get(name, now)["input"]
        if before != now["input"]:  # even if it is not there yet: that run may be gone on with
            message = f"This is an output of {before}, and now it would be of {now['input']}."
            raise TreefineError(message, hint=_RENAME, path=str(folder / name))
    as_now = {now["input"]: now for now in files.values()}
    for name, about in known.items():  # also those of a file that is now cut into fewer
        now = as_now.get(about["input"], about)
        if now != about and name in there:
            message = f"This is of {_said(about)}, and now that is {_said(now)}."
            hint = "Remove what was written of it, or name another folder."
            raise TreefineError(message, hint=hint, path=str(folder / name))


def _said(about: dict[str, Any]) -> str:
    time = datetime.fromtimestamp(about["changed"] / 1e9).isoformat(" ", "milliseconds")
    kind = f", {about['kind']}" if about["kind"] else ""
    return f"{Path(about['input']).name} ({about['bytes']:,} bytes of {time}{kind})"


def agree_on_numbers(folder: Path, precision: str, device: str) -> None:
    """Mark what trees in the folder are computed with, or tell that others were computed otherwise.

    Each worker does so before it parses: machines choose by themselves, and with other numbers a few trees differ.
    """
    mark = folder / _NUMBERS.format(device=device, precision=precision)
    is_new = not mark.exists()
    try:
        mark.touch()
    except OSError as error:
        raise not_written(error.strerror or str(error), str(folder)) from error
    for other in folder.glob(_NUMBERS.format(device="*", precision="*")):
        if other != mark:
            if is_new:
                mark.unlink(missing_ok=True)
            theirs = " in ".join(other.name.split(".")[2:])
            message = f"This folder was begun on {theirs}, and here it would be {device} in {precision}."
            hint = f"{_OTHER_FOLDER} --device and --precision choose the same for all workers."
            raise TreefineError(message, hint=hint, path=str(folder))


def remove_leftovers(folder: Path, blocks: Sequence[Job]) -> None:
    """Remove what workers that died left of these blocks: the files they were writing, and what told of attempts."""
    names = {Path(block.target).name for block in blocks}
    with os.scandir(folder) as entries:
        for entry in entries:
            name, _, ending = entry.name.rpartition(".")
            if entry.name.startswith(".") and ending in ("tmp", "attempt") and name[1:].rpartition(".")[0] in names:
                with suppress(OSError):
                    Path(entry).unlink()
