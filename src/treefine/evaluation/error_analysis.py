"""Where systems are right and wrong, over several treebanks put together and over each: from files to numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from treefine.evaluation.analysis import Analysis
from treefine.evaluation.breakdown import PROPERTIES
from treefine.evaluation.conll18 import Score, all_marks, all_scores
from treefine.evaluation.curves import Tally, draw_curves, join, tally
from treefine.evaluation.differences import largest_differences
from treefine.evaluation.labels import head_confusions, label_confusions
from treefine.evaluation.parsed import Parsed
from treefine.evaluation.significance import Counts, compare_counts, sentence_counts

TOGETHER = "all together"
BAND_SAMPLES = 1000
TEST_SAMPLES = 10_000
EXAMPLES = 10


def analyse(
    treebanks: Sequence[Parsed],
    *,
    examples: int = EXAMPLES,
    seed: int = 1,
    on_progress: Callable[[int], None] | None = None,
) -> list[Analysis]:
    """The error analysis of all treebanks together and then of each; one alone if there is one.

    All treebanks have the same systems and the same rule. `examples` is how many sentences are listed each way: where
    a system gained most, and where it lost most. `on_progress` hears of the resamplings that `count_resamplings` tells.

    >>> from treefine.evaluation.parsed import read_parsed
    >>> files = {name: f"docs/example/{name}.conllu" for name in ("first", "second")}
    >>> (found,) = analyse([read_parsed("example", "docs/example/gold.conllu", files)])
    >>> [(point.value, point.gold, round(point.f1, 2)) for point in found.curves["distance to root"]["second"]]
    [(1, 4, 1.0), (2, 13, 0.92), (3, 10, 0.89), (4, 1, 1.0)]
    """
    metric = "UAS" if any(each.paths_without_labels() for each in treebanks) else "LAS"
    counted = [_count(each, metric) for each in treebanks]
    wholes = [([*treebanks], _sum(counted))] if len(counted) > 1 else []
    return [
        _analysis(parts, each, metric, examples, seed, on_progress)
        for parts, each in [*wholes, *(([part], each) for part, each in zip(treebanks, counted, strict=True))]
    ]


def count_resamplings(n_treebanks: int, n_systems: int) -> int:
    """How many resamplings an analysis takes, for a progress bar."""
    n_analyses = n_treebanks + (n_treebanks > 1)
    return n_analyses * TEST_SAMPLES * n_systems * (n_systems - 1) // 2


@dataclass(frozen=True, slots=True)
class _Counted:
    """Everything that is counted in one treebank, and that adds up over several."""

    n_words: int
    scores: dict[str, dict[str, Score]]
    tallies: dict[str, dict[str, Tally]]  # by property and system
    label_confusions: dict[str, Counter[tuple[str, str]]]
    head_confusions: dict[str, Counter[tuple[str, str]]]
    cycles: dict[str, int]
    counts: dict[str, Counts]  # by system: the words of each sentence


def _count(treebank: Parsed, metric: str) -> _Counted:
    rule, gold = treebank.rule, treebank.gold_words
    properties = [by for by in PROPERTIES if by != "label" or metric == "LAS"]
    gold_values = {by: PROPERTIES[by](gold, rule) for by in properties}
    counted = _Counted(len(gold), {}, {by: {} for by in properties}, {}, {}, {}, {})
    for system, pair in treebank.pairs.items():
        found = all_marks(pair, rule=rule)
        counted.scores[system] = all_scores(pair, found, rule=rule)
        counted.counts[system] = sentence_counts(pair, found[metric])
        counted.cycles[system] = treebank.count_cycles(system)
        counted.head_confusions[system] = head_confusions(pair, found["UAS"])
        if metric == "LAS":
            counted.label_confusions[system] = label_confusions(pair, found["LAS"], rule=rule)
        for by in properties:
            values = PROPERTIES[by](pair.system, rule)
            counted.tallies[by][system] = tally(by, pair, found[metric], gold_values[by], values)
    return counted


def _sum(counted: Sequence[_Counted]) -> _Counted:
    """What several treebanks have together."""
    one = counted[0]

    def added(confusions: Sequence[Mapping[str, Counter[tuple[str, str]]]]) -> dict[str, Counter[tuple[str, str]]]:
        return {system: sum((each[system] for each in confusions), Counter()) for system in confusions[0]}

    return _Counted(
        sum(each.n_words for each in counted),
        {
            system: {metric: _sum_scores([each.scores[system][metric] for each in counted]) for metric in scores}
            for system, scores in one.scores.items()
        },
        {
            by: {system: join([each.tallies[by][system] for each in counted]) for system in systems}
            for by, systems in one.tallies.items()
        },
        added([each.label_confusions for each in counted]),
        added([each.head_confusions for each in counted]),
        {system: sum(each.cycles[system] for each in counted) for system in one.cycles},
        {system: np.concatenate([each.counts[system] for each in counted]) for system in one.counts},
    )


def _sum_scores(scores: Sequence[Score]) -> Score:
    gold, system, correct = (
        sum(column) for column in zip(*[(s.gold, s.system, s.correct) for s in scores], strict=True)
    )
    aligned = [each.aligned for each in scores if each.aligned is not None]
    return Score(gold, system, correct, sum(aligned) if aligned else None)


def _analysis(
    treebanks: Sequence[Parsed],
    counted: _Counted,
    metric: str,
    examples: int,
    seed: int,
    on_progress: Callable[[int], None] | None,
) -> Analysis:
    comparison = None
    if len(counted.counts) > 1:
        comparison = compare_counts(
            counted.counts, metric=metric, samples=TEST_SAMPLES, seed=seed, on_progress=on_progress
        )
    return Analysis(
        name=treebanks[0].name if len(treebanks) == 1 else TOGETHER,
        systems=tuple(counted.counts),
        rule=treebanks[0].rule,
        metric=metric,
        n_sentences=sum(len(each.gold) for each in treebanks),
        n_words=counted.n_words,
        scores=counted.scores,
        curves=draw_curves(counted.tallies, samples=BAND_SAMPLES, seed=seed),
        label_confusions=counted.label_confusions,
        head_confusions=counted.head_confusions,
        cycles=counted.cycles,
        comparison=comparison,
        differences=largest_differences(treebanks, counted.counts, most=examples),
    )
