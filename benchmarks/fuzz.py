"""Requests that nobody would write, many of them, to `treefine serve`: what it answers, and whether it still does.

python -m benchmarks fuzz
python -m benchmarks fuzz --described 5 --deep 100 --rows scratch/rows.jsonl     to try it

Some are made from the server's own description, right and wrong ones, and some are in order as far as the model. No
answer may be an error of the server (500) or other than described.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.fuzzing import Fuzzed, fuzz_deeply, fuzz_described
from benchmarks.model_rows import weights_checksum
from benchmarks.rows import ROWS, save_row
from benchmarks.serve_process import ServeProcess
from treefine import TreefineError
from treefine.model.bundled import find_model

DESCRIBED, DEEP = "made from its description", "in order as far as the model"


def measure_fuzz(arguments: Sequence[str]) -> None:
    """The command: a row; faults are printed, and the exit code then is 1."""
    options = _options(arguments)
    with ServeProcess(["--model", options.model], threads=options.threads) as server:
        address = f"http://127.0.0.1:{server.port}"
        found = {
            DESCRIBED: fuzz_described(address, max_examples=options.described, random_seed=options.seed),
            DEEP: fuzz_deeply(address, max_examples=options.deep, random_seed=options.seed),
        }
        is_healthy = server.is_healthy()
    config = {
        "model": Path(options.model).name,
        "weights": weights_checksum(find_model(options.model)),
        "examples": {DESCRIBED: options.described, DEEP: options.deep},
        "seed": options.seed,
        "packages": {name: version(name) for name in ("schemathesis", "hypothesis", "fastapi", "uvicorn")},
    }
    result = {name: told(each) for name, each in found.items()} | {"is_healthy_afterwards": is_healthy}
    save_row("fuzz", config, result, path=options.rows)
    faults = [fault for each in found.values() for fault in each.faults]
    for fault in faults[:10]:
        print(fault[:2000], file=sys.stderr)
    if faults or not is_healthy:
        raise TreefineError(f"{len(faults)} answers are not as described.")


def told(found: Fuzzed) -> dict[str, Any]:
    """Operations, requests, answers by status, and what was not as described."""
    return {
        "operations": len(found.statuses),
        "requests": found.n_requests,
        "answers_by_status": {
            route: {str(status): count for status, count in sorted(counted.items())}
            for route, counted in found.statuses.items()
        },
        "errors_of_the_server": found.n_errors,
        "faults": len(found.faults),
    }


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="en", help="a bundled model's name, or a model folder; en")
    parser.add_argument("--described", type=int, default=200, help="examples for each route from its description; 200")
    parser.add_argument("--deep", type=int, default=3000, help="examples that get as far as the model; 3000")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", type=Path, default=ROWS)
    return parser.parse_args(arguments)
