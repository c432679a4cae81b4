"""Run benchmarks by name, then write the tables anew: `python -m benchmarks reading startup`."""

import sys

from benchmarks.attention import measure_attention
from benchmarks.decoding import measure_decoding
from benchmarks.measures import measure_resampling, measure_scoring, measure_startup
from benchmarks.reading import measure_memory, measure_reading
from benchmarks.rows import TREEBANKS
from benchmarks.tables import write_tables

BENCHMARKS = {
    "reading": measure_reading,
    "memory": measure_memory,
    "scoring": measure_scoring,
    "resampling": measure_resampling,
    "startup": measure_startup,
    "decoding": measure_decoding,
    "attention": measure_attention,
}
WITHOUT_TREEBANKS = {"attention", "decoding", "tables"}

names = sys.argv[1:] or ["--help"]
if not set(names) <= {*BENCHMARKS, "all", "tables"}:
    sys.exit(f"usage: python -m benchmarks {{{','.join(BENCHMARKS)},all,tables}} …")
if not set(names) <= WITHOUT_TREEBANKS and not TREEBANKS.exists():
    sys.exit(f"the treebanks are missing: {TREEBANKS.parent} should stand beside this checkout")
for name in BENCHMARKS if "all" in names else names:
    if name != "tables":
        BENCHMARKS[name]()
write_tables()
