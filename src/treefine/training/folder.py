"""The folder of a training: its lock, its recipe, and whether a run may start or resume there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from treefine.errors import TreefineError
from treefine.training.epochs import LAYOUT
from treefine.training.prepare import Prepared, settings_of
from treefine.treebank.files import open_output

RECIPE = "recipe.json"
_TRACES = {
    RECIPE,
    LAYOUT.model,
    LAYOUT.checkpoints,
    LAYOUT.start,
    LAYOUT.initial,
    LAYOUT.mix,
    LAYOUT.members,
    LAYOUT.folds,
    LAYOUT.segmenter,
    "metrics.jsonl",
}
_SHOWN = 5  # settings that differ


def check_folder(folder: Path, prepared: Prepared, *, is_resumed: bool) -> None:
    """Refuse a folder in which this training cannot begin or, if it is resumed, go on."""
    try:
        found = sorted(each.name for each in folder.iterdir() if not each.name.startswith("."))
    except FileNotFoundError:
        return
    except OSError as error:
        raise TreefineError(f"{error.strerror}.", path=str(folder)) from None
    if _TRACES & set(found):
        if not is_resumed:
            hint = "Go on with it by --resume, or name another folder."
            raise TreefineError("There is a training in this folder.", hint=hint, path=str(folder))
        _check_same(folder / RECIPE, _values(prepared))
    elif found:
        message = f"There is something else in this folder: {', '.join(found[:3])}{' …' if len(found) > 3 else ''}."
        raise TreefineError(message, hint="Name a new folder, or an empty one.", path=str(folder))


def begin_folder(folder: Path, prepared: Prepared) -> None:
    """Make the folder, and keep the recipe in it, unless that was done before."""
    if (folder / RECIPE).exists():
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TreefineError(f"{error.strerror}.", path=str(folder)) from None
    with open_output(folder / RECIPE) as file:
        file.write(json.dumps(_values(prepared), indent=1, ensure_ascii=False).encode() + b"\n")


def _values(prepared: Prepared) -> dict[str, Any]:
    """All that the result depends on: the settings, defaults included, and the files by their checksums."""
    settings = settings_of(prepared)
    for recipe in filter(None, settings.values()):
        del recipe["training"]["checkpoint_minutes"]  # which changes no result
    checksums = {
        path: each for one in (prepared, *prepared.starts.values()) for path, each in one.data.checksums.items()
    }
    return {**settings, "checksums": checksums}


def _check_same(path: Path, values: dict[str, Any]) -> None:
    try:
        before = dict(_flat(json.loads(path.read_text(encoding="utf-8"))))
    except FileNotFoundError:
        message = f"There is no {RECIPE}, so what was trained here is not known."
        raise TreefineError(message, hint="Name another folder.", path=str(path.parent)) from None
    except (OSError, ValueError, AttributeError) as error:
        raise TreefineError(f"The file is damaged ({error}).", hint="Name another folder.", path=str(path)) from None
    now = dict(_flat(json.loads(json.dumps(values))))
    differing = [key for key in (*now, *(key for key in before if key not in now)) if before.get(key) != now.get(key)]
    if differing:
        shown = [_change(key, before.get(key), now.get(key)) for key in differing[:_SHOWN]]
        more = f" and {len(differing) - _SHOWN} more" if len(differing) > _SHOWN else ""
        message = f"The training here was begun with another recipe, which differs in {', '.join(shown)}{more}."
        raise TreefineError(message, hint="Take that one, or name another folder.", path=str(path.parent))


def _change(key: str, before: object, now: object) -> str:
    if key.startswith("checksums."):
        return f"the content of {key.removeprefix('checksums.')}"
    old, new = (json.dumps(value, ensure_ascii=False) for value in (before, now))
    return f"{key.removeprefix('recipe.')} ({old}, now {new})"


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each value with its key, sections included."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
