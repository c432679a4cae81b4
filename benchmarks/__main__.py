"""Run benchmarks by name, then write the tables anew: `python -m benchmarks reading startup`."""

import sys
from collections.abc import Callable
from importlib import import_module

from benchmarks.rows import TREEBANKS
from benchmarks.tables import write_tables
from treefine import TreefineError

BENCHMARKS = {  # by module, each imported when it is run: a machine that trains lacks what others compare with
    "reading": "reading",
    "memory": "reading",
    "scoring": "measures",
    "resampling": "measures",
    "startup": "measures",
    "analyse_speed": "analyse_speed",
    "decoding": "decoding",
    "attention": "attention",
    "newcomer": "newcomer",
}
WITH_OPTIONS = (
    "accuracy",
    "significance",
    "segmenter",
    "encoder",
    "speed",
    "speed_curves",
    "training_speed",
    "pipeline",
    "precision",
    "calibration",
    "bundle",
    "decisions",
    "stopping",
    "analysis",
    "others",
    "around",
    "files",
    "corpora",
    "load",
    "outages",
    "fuzz",
    "page",
)
WITHOUT_TREEBANKS = {"attention", "decoding", "newcomer", "tables"}


def measured(name: str, module: str) -> Callable[..., None]:
    function: Callable[..., None] = getattr(import_module(f"benchmarks.{module}"), f"measure_{name}")
    return function


names = sys.argv[1:] or ["--help"]
if names[0] in WITH_OPTIONS:  # tables are written where their rows are read
    try:
        measured(names[0], names[0])(names[1:])
    except TreefineError as error:
        sys.exit(str(error))
    sys.exit()
if not set(names) <= {*BENCHMARKS, "all", "tables"}:
    sys.exit(
        f"usage: python -m benchmarks {{{','.join(BENCHMARKS)},all,tables}} …\n   or: {'|'.join(WITH_OPTIONS)} --help"
    )
if not set(names) <= WITHOUT_TREEBANKS and not TREEBANKS.exists():
    sys.exit(f"the treebanks are missing: {TREEBANKS.parent} should stand beside this checkout")
for name in BENCHMARKS if "all" in names else names:
    if name != "tables":
        measured(name, BENCHMARKS[name])()
write_tables()
