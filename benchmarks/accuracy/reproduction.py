"""Keep the results of `treefine reproduce` as rows and trees, and tabulate all treebanks of the paper."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.markdown import NONE, Lines, listed, percent, table
from benchmarks.options import PREDICTIONS_FOLDER, ROWS_FILE, command, option
from benchmarks.rows import ROWS, TREEBANKS, read_rows, save_row
from treefine_paper import paper
from treefine_paper.collection import UD, ResultCollection
from treefine_paper.results import TREES_SUFFIX, SystemResult, load_results, result_of
from treefine_paper.score_tables import equal_cost_table
from treefine_paper.systems import SYSTEMS
from treefine_paper.treebanks import RELEASE
from treefine_paper.treebanks import TREEBANKS as PAPER_TREEBANKS

IDENTITY = ("treebank", "system", "seed", "split", "encoder", "start", "rule", "tags", "release", "gold_file")
TREES_FOLDER = "reproduction"  # folder of the trees, in that of all predictions
_FOLDERS = TREEBANKS.parent  # of ud-2.3, ud-later and permissive
COLUMNS = ("syntr", "syntr-long", "empty-rngtr", "syntr-rngtr", "biaffine-rngtr")
# Training files that are close to UD 2.3 but not it, as the README of the shared treebanks says.
NEARLY = {"eu_bdt": "99.3%", "sv_talbanken": "99.7%", "zh_gsd": "99.6%"}


@command(
    option("output", type=Path, help="folder of a run of `treefine reproduce`"),
    option("--command", required=True, help="the command that made it, for the page"),
    ROWS_FILE,
    PREDICTIONS_FOLDER,
)
def measure_reproduction(options: argparse.Namespace) -> None:
    """Keep the results and trees of a reproduction: one row per system, seed and split. Earlier ones are not repeated.

    python -m benchmarks reproduction runs/paper --command "treefine reproduce ud-2.3 --seeds 1,2,3"
    """
    known = {(each.name, each.sha256) for each in kept_results(options.rows)}
    folder = options.output / "results"
    for result in load_results(folder):
        if (result.name, result.sha256) in known:
            continue
        values = asdict(result) | {"gold_file": _short(result.gold_file)}
        config = {name: values.pop(name) for name in IDENTITY} | {"command": options.command}
        target = options.predictions / TREES_FOLDER / f"{result.name}{TREES_SUFFIX}"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / target.name, target)
        save_row("reproduction", config, values, path=options.rows, when=result.when)


def _short(path: str) -> str:
    """Return the path of a treebank file below the folder of all treebanks.

    >>> _short("/somewhere/data/ud-2.3/tr_imst/dev.conllu.xz")
    'ud-2.3/tr_imst/dev.conllu.xz'
    """
    return "/".join(Path(path).parts[-3:])


def kept_results(path: Path = ROWS) -> list[SystemResult]:
    """Return the results in the rows; gold files are those next to this checkout."""
    return [_result(row["config"], row["result"]) for row in read_rows("reproduction", path=path)]


def _result(config: dict[str, Any], result: dict[str, Any]) -> SystemResult:
    found = result_of({name: config[name] for name in IDENTITY} | result)
    return replace(found, gold_file=str(_FOLDERS / found.gold_file))


def commands_of(codes: Iterable[str], path: Path = ROWS) -> dict[str, str]:
    """Return the command that made the rows of each of these treebanks."""
    rows = read_rows("reproduction", path=path)
    found = {row["config"]["treebank"]: row["config"]["command"] for row in rows}
    return {code: found[code] for code in codes if code in found}


def all_treebanks() -> str:
    """Return a row for each UD treebank of the paper: test LAS of the systems, and the best of the paper."""
    found = ResultCollection(tuple(kept_results()))
    titles = [SYSTEMS[name].title for name in COLUMNS]
    lines: Lines = [("treebank", "release", "dev seeds", *titles, "best on dev", "paper's best", "difference")]
    for code in UD:
        tested = {name: found.tested(code, name) for name in COLUMNS}
        dev = {name: found.mean(code, name, "LAS") or 0.0 for name in COLUMNS}
        chosen = max(COLUMNS, key=lambda name: dev[name])
        best = paper.best_las(code)
        ours = tested[chosen]
        if ours is None:
            lines.append((code, *[NONE] * (len(COLUMNS) + 3), f"{best:.2f}", NONE))
            continue
        is_same = found.is_comparable(code)
        difference = f"{100 * ours.LAS - best:+.2f}" if is_same else "not comparable"
        cells = [percent(each.LAS) if each else NONE for each in tested.values()]
        release = (ours.release or "not 2.3") + (f", train {NEARLY[code]} equal" if code in NEARLY else "")
        seeds = " ".join(str(len(found.of(code, name, "dev"))) for name in COLUMNS)
        lines.append((code, release, seeds, *cells, SYSTEMS[chosen].title, f"{best:.2f}", difference))
    made = sorted(set(commands_of(UD).values()))
    lost = [f"{code} ({PAPER_TREEBANKS[code].language})" for code in UD if not found.of_treebank(code)]
    notes = [
        "Test LAS with the treebank's UPOS tags. “Dev seeds” is the number of trainings of each of the five systems; "
        "the one with the best dev LAS is tested once. The last three columns compare the system with the best mean "
        "dev LAS with the paper's best. "
        "“Train 99.3% equal”: the training file comes from another source, and this share of its heads and labels is "
        f"that of UD {RELEASE}. {_early(found)}Rows of another release cannot be compared with the paper. "
        f"The training files of {listed(lost)} are not available here.",
        "All rows: " + " ".join(f"`{each}`" for each in made),
    ]
    return "\n\n".join([table(*lines), *notes]) if made else NONE


def _early(found: ResultCollection) -> str:
    named = found.tested_early(UD, COLUMNS)
    return f"Later seeds, better on dev, came after the test of {listed(named)}. " if named else ""


def equal_cost() -> str:
    """Return SynTr, SynTr with as many updates as RNGTr, and RNGTr, on dev."""
    found = equal_cost_table(ResultCollection(tuple(kept_results())))
    return f"{found.to_markdown()}\n\n{found.note}"


REPRODUCTION: dict[str, Callable[[], str]] = {"all_treebanks": all_treebanks, "equal_cost": equal_cost}
