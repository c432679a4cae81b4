"""Run benchmarks by name, then write the tables from the rows: `python -m benchmarks reading startup`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from benchmarks.rows import TREEBANKS
from treefine import TreefineError

PLAIN = {  # by module, imported on demand: a training machine lacks the packages that others need
    "reading": "speed.commands",
    "memory": "speed.commands",
    "scoring": "speed.commands",
    "resampling": "speed.commands",
    "startup": "speed.commands",
    "analyse_speed": "speed.commands",
    "newcomer": "speed.commands",
}
WITH_OPTIONS = {
    "pipeline": "accuracy.pipeline",
    "languages": "accuracy.languages",
    "language": "accuracy.language",
    "calibration": "accuracy.calibration",
    "clicks": "accuracy.clicks",
    "significance": "accuracy.significance",
    "bundle": "bundle",
    "running_text": "speed.running_text",
    "files": "speed.files",
    "training_speed": "speed.training",
    "load": "server.load",
    "kills": "kills",
    "annotation": "annotation.run",
    "fuzz_inputs": "fuzz.run",
}
WITHOUT_TREEBANKS = {"newcomer", "tables"}


EXAMPLES = """\
examples:
  python -m benchmarks reading startup       run two benchmarks and write the tables
  python -m benchmarks running_text --help   show the options of a benchmark
  python -m benchmarks tables                only write the tables and figures of README and docs"""


def measure(name: str, module: str) -> Callable[..., None]:
    """Return the function of a benchmark."""
    function: Callable[..., None] = getattr(import_module(f"benchmarks.{module}"), f"measure_{name}")
    return function


def usage() -> str:
    """Return the help: each benchmark with the first line of its docstring, read without importing its module."""
    width = max(map(len, (*PLAIN, *WITH_OPTIONS)))

    def lines(modules: Mapping[str, str]) -> str:
        return "\n".join(f"  {name:<{width}}  {_summary(name, module)}" for name, module in modules.items())

    return (
        "usage: python -m benchmarks NAME [NAME …]\n   or: python -m benchmarks NAME [OPTIONS]\n\n"
        "Run benchmarks, append their rows to benchmarks/rows.jsonl, and write the tables of README and docs.\n\n"
        f"without options (`all` runs each of them, `tables` only writes the tables):\n{lines(PLAIN)}\n\n"
        f"with options, one at a time:\n{lines(WITH_OPTIONS)}\n\n{EXAMPLES}"
    )


def _summary(name: str, module: str) -> str:
    path = Path(__file__).parent.joinpath(*module.split(".")).with_suffix(".py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == f"measure_{name}":
            return (ast.get_docstring(node) or "").partition("\n")[0]
    return ""


def main(names: list[str]) -> None:
    """Run one benchmark with its options, or several without; then write the tables."""
    if names[0] in ("-h", "--help"):
        print(usage())
        return
    if names[0] in WITH_OPTIONS:
        try:
            return measure(names[0], WITH_OPTIONS[names[0]])(names[1:])
        except TreefineError as error:
            sys.exit(str(error))
    unknown = [name for name in names if name not in {*PLAIN, "all", "tables"}]
    if unknown:
        sys.exit(f"{', '.join(unknown)}: not the name of a benchmark without options\n\n{usage()}")
    if not set(names) <= WITHOUT_TREEBANKS and not TREEBANKS.exists():
        sys.exit(f"the treebanks are missing: {TREEBANKS.parent} must be next to this checkout")
    for name in PLAIN if "all" in names else names:
        if name != "tables":
            measure(name, PLAIN[name])()
    from benchmarks.pages.tables import write_tables

    write_tables()


if __name__ == "__main__":
    main(sys.argv[1:] or ["--help"])
