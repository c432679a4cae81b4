"""Turn the logs of a GPU run into rows: treebanks trained alone and together, and learning curves of new languages.

Scores in the logs are shares of dev words, with gold words and predicted tags. Scores in the rows are in percent.
"""

from __future__ import annotations

import argparse
import json
import re
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.accuracy.languages import treebank_facts
from benchmarks.options import ROWS_FILE, command, option
from benchmarks.rows import read_rows, save_row
from treefine import TreefineError

ALONE, TOGETHER, CURVE = "language_alone", "language_together", "language_curve"
PLAIN, MULTI = "plain", "multi"  # what a training of a learning curve starts from
_NAMES = {"las": "LAS", "uas": "UAS", "upos": "UPOS", "feats": "UFeats", "lemma": "Lemmas"}  # of the log and of a row
_COSTS = {"epoch": "epochs", "updates": "updates", "seconds": "seconds"}


class Found(NamedTuple):
    """The benchmark, config and result of a row."""

    benchmark: str
    config: dict[str, Any]
    result: dict[str, Any]


@command(
    option("logs", type=Path, help="folder of the logs, or an archive of it such as logs.tar.xz"),
    option("--device", default="cuda", help="name of the GPU on which the models were trained (default: cuda)"),
    ROWS_FILE,
)
def measure_import_training(options: argparse.Namespace) -> None:
    """Write rows from the logs of trainings on a GPU: one treebank alone, all together, and learning curves.

    It reads mono-CODE/log.jsonl, dev-avg.json, curve-CODE-SENTENCES-plain/log.jsonl (or -multi) and zero-CODE.json.
    Rows that are already there are not written again.

    python -m benchmarks import_training scratch/back/logs.tar.xz
    """
    if not options.logs.exists():
        raise TreefineError("This folder does not exist.", hint="Name the folder of the logs.", path=str(options.logs))
    if options.logs.is_dir():
        found = list(rows_of(options.logs))
    else:
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(options.logs) as archive:
                archive.extractall(folder, filter="data")
            found = list(rows_of(Path(folder)))
    if not found:
        raise TreefineError("There are no logs of trainings.", hint="Name their folder.", path=str(options.logs))
    for benchmark, config, result in found:
        config = config | {"device": options.device}
        if not any(row["result"] == result for row in read_rows(benchmark, path=options.rows, **config)):
            save_row(benchmark, config, result, path=options.rows)


def rows_of(folder: Path) -> Iterator[Found]:
    """Yield the benchmark, config and result of each log in a folder and its subfolders."""
    for path in sorted(folder.rglob("mono-*/log.jsonl")):
        yield Found(ALONE, _config(path.parent.name.removeprefix("mono-")), _result(_last(path)))
    for path in sorted(folder.rglob("dev-avg.json")):
        for code, scores in _read(path).items():
            yield Found(TOGETHER, _config(code), _result({"dev": scores}))
    for path in sorted(folder.rglob("zero-*.json")):
        code = path.stem.removeprefix("zero-")
        scores = _read(path)
        yield Found(CURVE, _config(code) | {"training_sentences": 0, "start": MULTI}, _result(_as_log(scores, code)))
    for path in sorted(folder.rglob("curve-*/log.jsonl")):
        name = re.fullmatch(rf"curve-(\w+)-(\d+)-({PLAIN}|{MULTI})", path.parent.name)
        if name is None:
            hint = "Call it curve-CODE-SENTENCES-plain or curve-CODE-SENTENCES-multi."
            raise TreefineError("The name of this folder is not that of a learning curve.", hint=hint, path=str(path))
        start = {"training_sentences": int(name[2]), "start": name[3]}
        yield Found(CURVE, _config(name[1]) | start, _result(_last(path)))


def _config(code: str) -> dict[str, Any]:
    known = treebank_facts()
    if code not in known:
        raise TreefineError(f"{code} is not a treebank of the model of many languages.")
    return {"treebank": code, "release": known[code].release, "split": "dev", "precision": "float32"}


def _result(log: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scores of a log in percent, and what the training cost.

    >>> _result({"dev": {"las": 0.5, "uas": 0.75, "by_step": [0.4, 0.5], "FEATS": 0.9}, "epoch": 3})
    {'LAS': 50.0, 'UAS': 75.0, 'UFeats': 90.0, 'LAS_by_step': [40.0, 50.0], 'epochs': 3}
    """
    dev = {name.lower(): value for name, value in log["dev"].items()}
    result: dict[str, Any] = {new: _percent(dev[old]) for old, new in _NAMES.items() if old in dev}
    if "by_step" in dev:
        result["LAS_by_step"] = [_percent(each) for each in dev["by_step"]]
    return result | {new: log[old] for old, new in _COSTS.items() if old in log}


def _as_log(scores: Mapping[str, Any], code: str) -> dict[str, Any]:
    """Return scores that stand alone, under "dev" or under the code of the treebank as in a log."""
    return {"dev": scores.get("dev") or scores.get(code) or scores}


def _last(path: Path) -> dict[str, Any]:
    """Return the last line of a log that has scores of the dev set."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    for line in reversed(lines):
        if line.get("dev"):
            return dict(line)
    raise TreefineError("This log has no scores of the dev set.", path=str(path))


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 2)
