"""The files that evaluate, compare and analyse read: their options, the names of systems, and folders of treebanks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from treefine.drawing.characters import visible
from treefine.errors import TreebankError, TreefineError
from treefine.treebank.files import COMPRESSED
from treefine.treebank.formats import FORMATS, format_by_name

FORMAT_NAMES = f"One of {', '.join(FORMATS)}."
RuleOption = Annotated[
    str,
    typer.Option(
        "--rule",
        help="How to score: conll18 (UD, words aligned by characters), conllx (punctuation by Unicode class left out), "
        "ptb (punctuation by tag left out) or conll09 (all words).",
    ),
]
FormatOption = Annotated[
    str | None, typer.Option("--format", help=f"Format of the files; else told by their names. {FORMAT_NAMES}")
]


class TreebankFiles(NamedTuple):
    """One treebank: its gold file and that of each system."""

    name: str
    gold: str
    systems: dict[str, str]


def system_names(paths: Sequence[str]) -> dict[str, str]:
    """Return each path by its name without ending, preceded by as many folders as tell it from the others.

    >>> list(system_names(["a/en.conllu", "b/en.conllu.gz"])), list(system_names(["a/en.conllu", "b/de.conllu"]))
    (['a/en', 'b/en'], ['en', 'de'])
    """
    places_named = [Path(path).resolve() for path in paths]
    for number, path in enumerate(paths):
        if places_named[number] in places_named[:number]:
            raise TreefineError("The same file is named twice.", hint="Name each system once.", path=path)
    places = [(*Path(path).absolute().parts[:-1], _stem(path)) for path in paths]
    for depth in range(1, max(map(len, places), default=0) + 1):
        names = [visible("/".join(parts[-depth:])) for parts in places]
        if len(set(names)) == len(names):
            return dict(zip(names, paths, strict=True))
    return {visible(path): path for path in paths}  # such as en.conllu and en.conllu.gz in one folder


def _stem(path: str) -> str:
    """Return the name of a file without its ending, or of a folder, in characters that can be shown."""
    if path == "-":
        return "stdin"
    place = Path(path).absolute()
    if place.is_dir():
        return visible(place.name)
    while place.suffix.lower() in COMPRESSED:
        place = place.with_suffix("")
    return visible(place.stem)


def find_treebanks(gold: str, systems: Mapping[str, str], *, format: str | None = None) -> list[TreebankFiles]:
    """Return the treebank that a gold file and system files are, or the treebanks in folders of them, matched by name.

    In a folder, the files whose names end as treebanks do are used, or all if the format is given. Hidden files and
    subfolders are left out.
    """
    kinds = {path: path != "-" and Path(path).is_dir() for path in (gold, *systems.values())}
    if not any(kinds.values()):
        return [TreebankFiles(_stem(gold), gold, dict(systems))]
    for path, is_folder in kinds.items():
        if not is_folder and (path == "-" or Path(path).exists()):  # the reader reports a path that does not exist
            other = next(each for each in kinds if kinds[each])
            hint = "Name files alone, or folders with files of the same names."
            raise TreefineError(f"This is a file, but {other} is a folder.", hint=hint, path=path)
    files = {path: treebanks_in(path, format=format) for path in kinds}
    faults = []
    for path in systems.values():
        for name in sorted(files[gold].keys() ^ files[path].keys()):
            there, missing = (gold, path) if name in files[gold] else (path, gold)
            message = f"There is no such file, but there is {Path(there, name)}."
            faults.append(TreebankError(message, path=str(Path(missing, name))))
    if faults:
        raise faults[0] if len(faults) == 1 else TreefineError("\n".join(map(str, faults)))
    stems = {name: _stem(path) for name, path in files[gold].items()}
    is_short = len(set(stems.values())) == len(stems)
    return [
        TreebankFiles(
            stems[name] if is_short else visible(name),
            path,
            {system: files[place][name] for system, place in systems.items()},
        )
        for name, path in files[gold].items()
    ]


def treebanks_in(folder: str, *, format: str | None = None) -> dict[str, str]:
    """Return the treebank files of a folder, by name; raise an error if it has none."""
    if not Path(folder).is_dir():
        raise TreebankError("There is no such folder.", path=folder)
    paths = sorted(path for path in Path(folder).iterdir() if path.is_file() and not path.name.startswith("."))
    found = {path.name: str(path) for path in paths if format is not None or format_by_name(path.name) is not None}
    if not found:
        endings = ", ".join(suffix for form in FORMATS.values() for suffix in form.suffixes)
        hint = f"Files of a folder are told by their endings: {endings}; or give --format."
        raise TreebankError("There is no treebank in this folder.", hint=hint, path=folder)
    return found


def total_size(*paths: str) -> int | None:
    """Return the size of the files together, for a progress bar, or None if one is a stream."""
    try:
        found = [Path(path).stat() for path in paths]
    except OSError:  # a stream, or a path that the reader will report
        return None
    return sum(each.st_size for each in found)
