"""Run benchmarks by name, then write the tables from the rows: `python -m benchmarks reading startup`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module

from benchmarks.rows import TREEBANKS
from treefine import TreefineError

PLAIN = {  # by module, which is imported when it runs: a machine that trains lacks what others compare with
    "reading": "speed.commands",
    "memory": "speed.commands",
    "scoring": "speed.commands",
    "resampling": "speed.commands",
    "startup": "speed.commands",
    "analyse_speed": "speed.commands",
    "decoding": "speed.operations",
    "attention": "speed.operations",
    "newcomer": "speed.commands",
}
WITH_OPTIONS = {
    "accuracy": "accuracy.recipes",
    "significance": "accuracy.significance",
    "segmenter": "accuracy.segmenter",
    "encoder": "speed.encoder",
    "speed": "speed.parsers",
    "speed_curves": "speed.curves",
    "training_speed": "speed.training",
    "pipeline": "accuracy.pipeline",
    "precision": "speed.trade_offs",
    "calibration": "accuracy.calibration",
    "bundle": "pages.bundle",
    "decisions": "accuracy.decisions",
    "stopping": "speed.trade_offs",
    "analysis": "pages.analysis",
    "others": "accuracy.others",
    "around": "speed.files",
    "files": "speed.files",
    "corpora": "speed.corpora",
    "load": "server.load",
    "outages": "server.outages",
    "fuzz": "server.fuzz",
    "page": "pages.serving",
    "structure": "pages.structure",
}
WITHOUT_TREEBANKS = {"attention", "decoding", "newcomer", "tables"}


def measure(name: str, module: str) -> Callable[..., None]:
    """Return the function of a benchmark."""
    function: Callable[..., None] = getattr(import_module(f"benchmarks.{module}"), f"measure_{name}")
    return function


def main(names: list[str]) -> None:
    """Run one benchmark with its options, or several without, and write the tables after the latter."""
    if names[0] in WITH_OPTIONS:  # tables are written where their rows are read
        try:
            return measure(names[0], WITH_OPTIONS[names[0]])(names[1:])
        except TreefineError as error:
            sys.exit(str(error))
    if not set(names) <= {*PLAIN, "all", "tables"}:
        usage = f"usage: python -m benchmarks {{{','.join(PLAIN)},all,tables}} …\n   or: "
        sys.exit(f"{usage}{'|'.join(WITH_OPTIONS)} --help")
    if not set(names) <= WITHOUT_TREEBANKS and not TREEBANKS.exists():
        sys.exit(f"the treebanks are missing: {TREEBANKS.parent} should stand beside this checkout")
    for name in PLAIN if "all" in names else names:
        if name != "tables":
            measure(name, PLAIN[name])()
    from benchmarks.pages.tables import write_tables

    write_tables()


if __name__ == "__main__":
    main(sys.argv[1:] or ["--help"])
