"""Read the saved trees for the tables and figures: significance, curves and counts of each refinement step.

Only one treebank at a time is in memory, and each gold file is read once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from treefine.evaluation.analysis.refinement import Refinement, Steps, refinement_of, step_pair, together
from treefine.evaluation.pairing import AlignedWords, load_words
from treefine.evaluation.properties import Tally, tally
from treefine.evaluation.scores import Score, all_marks, rule_of
from treefine.evaluation.significance import compare
from treefine.training.recipe import FILES
from treefine.treebank.conllu import read_treebank
from treefine.treebank.sentence import Sentence
from treefine_paper.predictions import Predictions, checksum, load_predictions
from treefine_paper.results import TREES_SUFFIX, ResultCollection, SystemResult
from treefine_paper.systems import DRAWN, DRAWN_CTB, METRICS, PENN_SYSTEMS, REFINING, UD_SYSTEMS
from treefine_paper.treebanks import TREEBANKS

CURVES = ("dependency length", "distance to root", "sentence length")  # the plots of Figure 3


@dataclass(frozen=True)
class TreeFindings:
    """The findings from the trees of all treebanks."""

    best: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)  # by treebank and metric: tied systems
    curves: dict[tuple[str, str], dict[str, Tally]] = field(default_factory=dict)  # by treebank and system: properties
    refinements: dict[tuple[str, str], Refinement] = field(default_factory=dict)  # by treebank and system: mean of dev
    left_out: list[str] = field(default_factory=list)  # files that are missing or do not belong to their results


def analyse_trees(results: ResultCollection, folder: Path) -> TreeFindings:
    """Read all trees that the tables and figures need; files that are missing are reported in `left_out`."""
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
        pairs[result.system] = _pair(gold, predictions, rule, 0 if result.system == FILES else None)
    for metric in METRICS if len(pairs) > 1 else ():
        findings.best[code, metric] = compare(pairs, metric=metric, rule=rule).best_group


def _analyse_dev(results: ResultCollection, code: str, folder: Path, findings: TreeFindings) -> None:
    """Count the words by property of the chosen seeds, and the steps of all seeds of refining systems."""
    is_ud, rule = TREEBANKS[code].is_ud, TREEBANKS[code].rule
    drawn = DRAWN if is_ud else DRAWN_CTB if code == "ctb" else ()
    chosen = {system: results.chosen(code, system) for system in drawn}
    refining = [result for system in REFINING if is_ud for result in results.of(code, system, "dev")]
    wanted = {result.name: result for result in (*chosen.values(), *refining) if result and result.system != FILES}
    seeds: dict[str, list[Refinement]] = {}
    for result, gold, predictions in _read_trees([*wanted.values()], folder, findings):
        if chosen.get(result.system) == result:
            findings.curves[code, result.system] = _tallies(_pair(gold, predictions, rule), rule)
            if result.system == f"{FILES}-rngtr" and predictions.first == 0:
                findings.curves[code, FILES] = _tallies(_pair(gold, predictions, rule, 0), rule)
        if result.system in REFINING and predictions.first == 0:
            trees = [[graph.arcs for graph in predictions.graphs(t)] for t in predictions.steps]
            counts = refinement_of(gold, trees, first=0, name=code, rule=rule)
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


def _pair(gold: Sequence[Sentence], predictions: Predictions, rule: str, t: int | None = None) -> AlignedWords:
    is_ud = rule_of(rule).is_ud
    return step_pair(load_words(gold, is_ud=is_ud), [graph.arcs for graph in predictions.graphs(t)], is_ud=is_ud)


def _tallies(pair: AlignedWords, rule: str) -> dict[str, Tally]:
    """Tally the words by each property of the figures."""
    marks = all_marks(pair, rule=rule, metrics=("LAS",))["LAS"]
    return {by: tally(by, pair, marks) for by in CURVES}
