"""Read the saved trees for the tables and figures: significance, curves and counts of each refinement step.

Only one treebank at a time is in memory, and each gold file is read once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from treefine.evaluation.analysis.refinement import Refinement, Steps, refinement_of, step_pair, together
from treefine.evaluation.pairing import AlignedWords, WordColumns, load_words
from treefine.evaluation.properties import PROPERTIES, Tally, tally
from treefine.evaluation.scores import Score, all_marks, rule_of
from treefine.evaluation.significance import ALPHA, SAMPLES, SEED, compare
from treefine.training.recipe import FILES, SYNTR
from treefine.treebank.conllu import read_treebank
from treefine.treebank.sentence import Sentence
from treefine_paper.collection import ResultCollection
from treefine_paper.predictions import Predictions, checksum, load_predictions
from treefine_paper.results import TREES_SUFFIX, SystemResult
from treefine_paper.score_tables import EMPTY_REFINED, PENN_SYSTEMS, REFINED, UD_SYSTEMS
from treefine_paper.systems import MULTI
from treefine_paper.treebanks import TREEBANKS

CURVES = ("dependency length", "distance to root", "sentence length")  # the plots of Figure 3
REFINING = {  # systems of Tables 4 to 6, and the paper's with the same role
    f"{MULTI}-rngtr": "UDify+RNGTr",
    f"{FILES}-rngtr": "UDify+RNGTr",
    REFINED: "SynTr+RNGTr",
}
DRAWN = (MULTI, f"{MULTI}-rngtr", FILES, f"{FILES}-rngtr", SYNTR, REFINED, EMPTY_REFINED)
DRAWN_CTB = (SYNTR, REFINED)


@dataclass(frozen=True)
class TreeFindings:
    """The findings from the trees of all treebanks."""

    best: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)  # by treebank and metric: tied systems
    curves: dict[tuple[str, str], dict[str, Tally]] = field(default_factory=dict)  # by treebank and system: properties
    refinements: dict[tuple[str, str], Refinement] = field(default_factory=dict)  # by treebank and system: mean of dev
    left_out: list[str] = field(default_factory=list)  # files that are missing or do not belong to their results


@dataclass(frozen=True)
class _Gold:
    """A gold file of one treebank."""

    sentences: list[Sentence]
    words: WordColumns
    checksum: str
    rule: str


def analyse_trees(found: ResultCollection, results_folder: Path) -> TreeFindings:
    """Read all trees that the tables and figures need; files that are missing are reported in `left_out`."""
    findings = TreeFindings()
    for code in TREEBANKS:
        _compare_tested(found, code, results_folder, findings)
        _analyse_dev(found, code, results_folder, findings)
    return findings


def _compare_tested(found: ResultCollection, code: str, folder: Path, findings: TreeFindings) -> None:
    """Find the systems that are not significantly different from the best on test."""
    systems = UD_SYSTEMS if TREEBANKS[code].is_ud else PENN_SYSTEMS
    tested = [each for each in (found.tested(code, system) for system in systems) if each]
    if len(tested) < 2:
        return
    gold = _read_gold(tested, findings)
    if gold is None:
        return
    pairs = {}
    for result, predictions in _read_trees(tested, gold, folder, findings):
        pairs[result.system] = _pair(gold, predictions, 0 if result.system == FILES else None)
    if len(pairs) < 2:
        return
    for metric in ("UAS", "LAS"):
        compared = compare(pairs, metric=metric, rule=gold.rule, alpha=ALPHA, samples=SAMPLES, seed=SEED)
        findings.best[code, metric] = compared.best_group


def _analyse_dev(found: ResultCollection, code: str, folder: Path, findings: TreeFindings) -> None:
    """Count the words by property of the chosen seeds, and the steps of all seeds of refining systems."""
    is_ud = TREEBANKS[code].is_ud
    drawn = DRAWN if is_ud else DRAWN_CTB if code == "ctb" else ()
    chosen = {system: found.chosen(code, system) for system in drawn}
    refining = [each for system in REFINING if is_ud for each in found.of(code, system, "dev")]
    wanted = {each.name: each for each in (*chosen.values(), *refining) if each and each.system != FILES}
    gold = _read_gold([*wanted.values()], findings) if wanted else None
    if gold is None:
        return
    seeds: dict[str, list[Refinement]] = {}
    for result, predictions in _read_trees([*wanted.values()], gold, folder, findings):
        if chosen.get(result.system) == result:
            findings.curves[code, result.system] = _tallies(gold, predictions, None)
            if result.system == f"{FILES}-rngtr" and predictions.first == 0:
                findings.curves[code, FILES] = _tallies(gold, predictions, 0)
        if result.system in REFINING and predictions.first == 0:
            trees = [[graph.arcs for graph in predictions.graphs(t)] for t in predictions.steps]
            counted = refinement_of(gold.sentences, trees, first=0, name=code, rule=gold.rule)
            seeds.setdefault(result.system, []).append(replace(counted, corrected=(), spoiled=()))  # saves memory
    for system, each in seeds.items():
        findings.refinements[code, system] = _mean(each, code)


def _mean(seeds: Sequence[Refinement], name: str) -> Refinement:
    """Average the counts of several models (seeds) on the same treebank."""
    whole, n_seeds = together(seeds, name=name), len(seeds)

    def mean(kinds: dict[str, Steps]) -> dict[str, Steps]:
        return {
            kind: tuple([Score(*(n / n_seeds for n in (each.gold, each.system, each.correct))) for each in steps])  # type: ignore[arg-type]
            for kind, steps in kinds.items()
        }

    return replace(
        whole, attachment=mean(whole.attachment), labels=mean(whole.labels), projectivity=mean(whole.projectivity)
    )


def _read_gold(results: Sequence[SystemResult], findings: TreeFindings) -> _Gold | None:
    """Read the gold file of these results, which are of one treebank and split."""
    treebank = TREEBANKS[results[0].treebank]
    for path in dict.fromkeys(each.gold_file for each in results):
        if Path(path).is_file():
            form = None if ".conllu" in Path(path).name else treebank.format or None
            sentences = list(read_treebank(path, format=form))
            words = load_words(sentences, is_ud=rule_of(results[0].rule).is_ud)
            return _Gold(sentences, words, checksum(sentences), results[0].rule)
        findings.left_out.append(f"{path} (gold trees of {results[0].treebank} {results[0].split}) is missing")
    return None


def _read_trees(
    results: Sequence[SystemResult], gold: _Gold, folder: Path, findings: TreeFindings
) -> Iterator[tuple[SystemResult, Predictions]]:
    """Yield the results with their trees, which must be those that were measured, on the same gold trees."""
    for result in results:
        name = result.name.replace(f"-{FILES}-seed", f"-{FILES}-rngtr-seed") if result.system == FILES else result.name
        path = folder / f"{name}{TREES_SUFFIX}"
        if not path.is_file():
            findings.left_out.append(f"{path} is missing")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != result.sha256:
            findings.left_out.append(f"{path} has changed since it was measured")
        elif (predictions := load_predictions(path)).gold != gold.checksum:
            findings.left_out.append(f"{path} was made from other gold trees than {result.gold_file} has now")
        else:
            yield result, predictions


def _pair(gold: _Gold, predictions: Predictions, t: int | None) -> AlignedWords:
    return step_pair(gold.words, [graph.arcs for graph in predictions.graphs(t)])


def _tallies(gold: _Gold, predictions: Predictions, t: int | None) -> dict[str, Tally]:
    """Tally the words by each property of the figures."""
    pair = _pair(gold, predictions, t)
    marks = all_marks(pair, rule=gold.rule, metrics=("LAS",))["LAS"]
    return {
        by: tally(by, pair, marks, PROPERTIES[by](pair.gold, gold.rule), PROPERTIES[by](pair.system, gold.rule))
        for by in CURVES
    }
