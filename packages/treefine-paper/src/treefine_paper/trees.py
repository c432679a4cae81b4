"""Read the saved trees for the tables: significance, and counts of each refinement step.

Only one treebank at a time is in memory, and each gold file is read once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from treefine.evaluation.analysis.refinement import Refinement, Steps, refinement_of, step_pair, together
from treefine.evaluation.pairing import load_words
from treefine.evaluation.scores import Score
from treefine.evaluation.significance import compare
from treefine.training.recipe import FILES
from treefine.treebank.conllu import read_treebank
from treefine.treebank.sentence import Sentence
from treefine_paper.predictions import Predictions, checksum, load_predictions
from treefine_paper.results import TREES_SUFFIX, ResultCollection, SystemResult
from treefine_paper.systems import METRICS, PENN_SYSTEMS, REFINING, UD_SYSTEMS
from treefine_paper.treebanks import TREEBANKS


@dataclass(frozen=True)
class TreeFindings:
    """The findings from the trees of all treebanks."""

    best: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)  # by treebank and metric: tied systems
    refinements: dict[tuple[str, str], Refinement] = field(default_factory=dict)  # by treebank and system: mean of dev
    left_out: list[str] = field(default_factory=list)  # files that are missing or do not belong to their results


def analyse_trees(results: ResultCollection, folder: Path) -> TreeFindings:
    """Read all trees that the tables need; files that are missing are reported in `left_out`."""
    findings = TreeFindings()
    for code in TREEBANKS:
        _compare_tested(results, code, folder, findings)
        _analyse_dev(results, code, folder, findings)
    return findings


def _compare_tested(results: ResultCollection, code: str, folder: Path, findings: TreeFindings) -> None:
    """Find the systems that are not significantly different from the best on test."""
    systems, rule = UD_SYSTEMS if TREEBANKS[code].is_ud else PENN_SYSTEMS, TREEBANKS[code].rule
    tested = [result for result in (results.tested(code, system) for system in systems) if result]
    pairs = {}
    for result, gold, predictions in _read_trees(tested if len(tested) > 1 else [], folder, findings):
        graphs, is_ud = predictions.graphs(0 if result.system == FILES else None), TREEBANKS[code].is_ud
        pairs[result.system] = step_pair(load_words(gold, is_ud=is_ud), [graph.arcs for graph in graphs], is_ud=is_ud)
    for metric in METRICS if len(pairs) > 1 else ():
        findings.best[code, metric] = compare(pairs, metric=metric, rule=rule).best_group


def _analyse_dev(results: ResultCollection, code: str, folder: Path, findings: TreeFindings) -> None:
    """Count the steps of all seeds of refining systems."""
    refining = [result for system in REFINING for result in results.of(code, system, "dev")]
    seeds: dict[str, list[Refinement]] = {}
    for result, gold, predictions in _read_trees(refining if TREEBANKS[code].is_ud else [], folder, findings):
        if predictions.first == 0:
            trees = [[graph.arcs for graph in predictions.graphs(t)] for t in predictions.steps]
            counts = refinement_of(gold, trees, first=0, name=code, rule=TREEBANKS[code].rule)
            seeds.setdefault(result.system, []).append(replace(counts, corrected=(), spoiled=()))  # saves memory
    findings.refinements.update({(code, system): _mean(counts, code) for system, counts in seeds.items()})


def _mean(seeds: Sequence[Refinement], name: str) -> Refinement:
    """Average the counts of several models (seeds) on the same treebank."""
    whole = together(seeds, name=name)

    def mean(steps: Steps) -> Steps:
        numbers = [[n / len(seeds) for n in (step.gold, step.system, step.correct)] for step in steps]
        return tuple([Score(*counts) for counts in numbers])  # type: ignore[arg-type]  # means need not be whole

    groups = ("attachment", "labels", "projectivity")
    means = {group: {kind: mean(steps) for kind, steps in getattr(whole, group).items()} for group in groups}
    return replace(whole, **means)  # type: ignore[arg-type]


def _read_trees(
    results: Sequence[SystemResult], folder: Path, findings: TreeFindings
) -> Iterator[tuple[SystemResult, list[Sentence], Predictions]]:
    """Yield results of one treebank and split with their gold file and their trees, if these belong together."""
    if not results:
        return
    paths = [path for path in dict.fromkeys(result.gold_file for result in results) if Path(path).is_file()]
    if not paths:
        result = results[0]
        what = f"{result.gold_file} (gold trees of {result.treebank} {result.split}) is missing"
        findings.left_out.append(what)
        return
    form = None if ".conllu" in Path(paths[0]).name else TREEBANKS[results[0].treebank].format or None
    gold = list(read_treebank(paths[0], format=form))
    digest = checksum(gold)
    for result in results:
        name = result.name.replace(f"-{FILES}-seed", f"-{FILES}-rngtr-seed") if result.system == FILES else result.name
        path = folder / f"{name}{TREES_SUFFIX}"
        if not path.is_file():
            findings.left_out.append(f"{path} is missing")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != result.sha256:
            findings.left_out.append(f"{path} has changed since it was measured")
        elif (predictions := load_predictions(path)).gold != digest:
            findings.left_out.append(f"{path} was made from other gold trees than {result.gold_file} has now")
        else:
            yield result, gold, predictions
