"""Find the files that an argument names: those in a folder, or those that match a quoted pattern ('texts/*.txt')."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from treefine.errors import TreefineError
from treefine.treebank.formats import suffix_of

_PATH = re.compile(r"/|\.[A-Za-z0-9]+\Z")
_MAGIC = re.compile(r"[*?]|\[[^/]+\]")


class NamedFile(NamedTuple):
    """A file, and its folder relative to the one that the user named."""

    path: str
    subfolder: str = ""


def files_named(
    argument: str, suffixes: Sequence[str], *, may_be_any: bool = False, output: str = ""
) -> list[NamedFile]:
    """Return the files in a folder, or those that match a pattern; else none. See `files_in` for the parameters."""
    if "\0" in argument:
        return []
    if os.path.isdir(argument):  # noqa: PTH112 - Path.is_dir raises if the name is too long
        return files_in(argument, suffixes, may_be_any=may_be_any, output=output)
    if not is_pattern(argument) or os.path.lexists(argument):  # a file may have such a name
        return []
    start = Path(_MAGIC.split(argument, maxsplit=1)[0] + "x").parent  # the folder before the first * ? or [
    is_recursive = not any(map(str.isspace, argument))  # a text such as /**/ must not search the whole disk
    paths = sorted(map(Path, glob.glob(argument, recursive=is_recursive)))  # noqa: PTH207 - it may be an absolute path
    return [_placed(each, start) for each in paths if _is_input(each, output)]


def is_pattern(argument: str) -> bool:
    """Return whether the argument may be a pattern: it has a *, or it has ? or [ ] and looks like a path.

    >>> [is_pattern(each) for each in ("*.txt", "a/[ab].txt", "day?.txt", "Why?", "[sic]")]
    [True, True, True, False, False]
    """
    return "*" in argument or bool(_MAGIC.search(argument) and _PATH.search(argument))


def files_in(folder: str, suffixes: Sequence[str], *, may_be_any: bool = False, output: str = "") -> list[NamedFile]:
    """Return the files with these suffixes in a folder and its subfolders, sorted. It is an error if no file is found.

    With `may_be_any`, return all files if none has such a suffix. Hidden files, part files and the output are left out.
    """
    if output and _is_same(folder, output):
        raise TreefineError("The output folder is the input folder.", hint="Choose another one.", path=folder)
    found = sorted(_walk(folder, output))
    known = [each for each in found if suffix_of(each.name) in suffixes]
    if not known and not (may_be_any and found):
        hint = f"File names must end in {', '.join(suffixes)}; for other names, choose the format."
        what = "text or treebank" if ".txt" in suffixes else "treebank"
        raise TreefineError(f"There is no {what} in this folder.", hint=hint, path=folder)
    return [_placed(each, Path(folder)) for each in known or found]


def _walk(folder: str, output: str) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise TreefineError(f"{error.strerror}.", path=str(error.filename)) from error

    for place, folders, names in os.walk(folder, onerror=fail):
        folders[:] = [each for each in folders if not each.startswith(".") and not _is_same(Path(place, each), output)]
        yield from (Path(place, name) for name in names if _is_input(Path(place, name), output))


def _is_input(path: Path, output: str) -> bool:
    is_ours = path.suffix == ".part" or _is_same(path, output)
    return path.is_file() and not path.name.startswith(".") and not is_ours


def _is_same(path: str | Path, output: str) -> bool:
    return bool(output) and Path(path).exists() and Path(output).exists() and Path(path).samefile(output)


def _placed(path: Path, start: Path) -> NamedFile:
    return NamedFile(str(path), "" if path.parent == start else str(path.parent.relative_to(start)))
