"""Error analysis: where systems are right and wrong, over one treebank or several."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from treefine.evaluation.analysis.curves import Point, Tally, draw_curves, join, tally
from treefine.evaluation.breakdown import PROPERTIES
from treefine.evaluation.pairing import AlignedWords
from treefine.evaluation.scores import Score, all_marks, all_scores, head_confusions, label_confusions, rule_of
from treefine.evaluation.significance import Comparison, Counts, compare_counts, sentence_counts
from treefine.evaluation.words import Treebank, WordColumns, load_words
from treefine.treebank.conllu import read_treebank
from treefine.treebank.files import Source
from treefine.treebank.graph import find_cycles
from treefine.treebank.sentence import BLANK, Sentence

TOGETHER = "all together"  # the name of several treebanks
BAND_SAMPLES = 1000
TEST_SAMPLES = 10_000
EXAMPLES = 10  # sentences that are listed each way
_MAIN_METRICS = ("UAS", "LAS", "LA", "CLAS", "MLAS", "BLEX", "UEM", "LEM")  # shown first, in this order
_METRICS_WITHOUT_LABELS = ("UAS", "UEM")


@dataclass(frozen=True, slots=True)
class ParsedTreebank:
    """The gold file of one treebank and what each system made of it."""

    name: str
    rule: str
    gold: tuple[Sentence, ...]
    systems: dict[str, tuple[Sentence, ...]]
    pairs: dict[str, AlignedWords]  # by system; the gold words are the same in all

    @property
    def gold_words(self) -> WordColumns:
        """Return the words of the gold file."""
        return next(iter(self.pairs.values())).gold

    def paths_without_labels(self) -> list[str]:
        """Return the files, gold or of a system, in which no word has a label."""
        files = [self.gold_words, *[pair.system for pair in self.pairs.values()]]
        return [words.name for words in files if all(label == BLANK for label in words.labels)]

    def count_cycles(self, system: str) -> int:
        """Return how many sentences of a system have heads that form a cycle."""
        return sum(bool(find_cycles(sentence.graph.heads)) for sentence in self.systems[system])

    def count_several_roots(self, system: str) -> int:
        """Return how many sentences of a system have more than one root word."""
        return sum(len(sentence.graph.roots) > 1 for sentence in self.systems[system])

    def sentences_at(self, system: str, number: int) -> tuple[Sentence, ...]:
        """Return what a system has in the place of a gold sentence (from 0).

        That is several sentences where the system segmented the text differently; they may reach beyond the gold one.
        """
        spans = self.pairs[system].system.sentences
        if spans == self.gold_words.sentences:
            return self.systems[system][number : number + 1]
        start, end = self.gold_words.sentences[number]
        first = bisect_right(spans, start, key=lambda span: span[0]) - 1
        last = bisect_left(spans, end, key=lambda span: span[0])
        return self.systems[system][first:last]


def read_parsed(
    name: str,
    gold: Treebank,
    systems: Mapping[str, Treebank],
    *,
    rule: str = "conll18",
    format: str | None = None,
    on_bytes: Callable[[int], None] | None = None,
) -> ParsedTreebank:
    """Read a gold file and what several systems made of it, and align their words as the rule says.

    Like the official scorer, conll18 refuses a gold file with cycles, with no root or with several. A system's file may
    have them, since an analysis shows what is wrong with it. The layout of the files does not matter.
    """
    chosen = rule_of(rule)

    def read(treebank: Treebank) -> tuple[Sentence, ...]:
        if isinstance(treebank, str | os.PathLike) or hasattr(treebank, "read"):
            treebank = read_treebank(cast(Source, treebank), format=format, on_bytes=on_bytes)
        return tuple(treebank)

    right = read(gold)
    words = load_words(right, is_ud=chosen.is_ud)
    found, pairs = {}, {}
    for system, treebank in systems.items():
        found[system] = read(treebank)
        pairs[system] = chosen.pair(words, load_words(found[system], is_ud=chosen.is_ud, needs_trees=False))
    return ParsedTreebank(name, rule, right, found, pairs)


@dataclass(frozen=True, slots=True)
class SentenceDifference:
    """A gold sentence that one system parses better than another, with all trees needed to draw it.

    If only one system is analysed, `first` is None and the sentence is one of those with the most errors.
    """

    sent_id: str  # "" without one
    number: int  # in its file, from 1
    treebank: str  # the name of its treebank
    first: str | None
    other: str  # the system that `first`, or gold, is compared with
    gold: Sentence
    trees: dict[str, tuple[Sentence, ...]]  # by system: one, or several where it segmented the text differently
    correct: dict[str, int]  # right words of each of the two systems
    n_words: int  # gold words that count

    @property
    def difference(self) -> int:
        """Return how many more words the other system has right; it is negative if it has fewer."""
        return self.correct[self.other] - (self.n_words if self.first is None else self.correct[self.first])


@dataclass(frozen=True, slots=True)
class Analysis:
    """The errors of one or more systems over one treebank, or over several together.

    The properties of `curves` are those of `breakdown.PROPERTIES`, without "label" where there are no labels. Points
    are in the order in which they are shown: rising numbers, then words of a cycle; the most frequent gold label or tag
    first. A system has no point for a kind of which neither it nor gold has a word.
    """

    name: str  # of the treebank
    systems: tuple[str, ...]  # in the order given
    rule: str
    metric: str  # what curves, comparison and differences count: LAS, or UAS where a file has no labels
    n_sentences: int  # of the gold file
    n_words: int  # of the gold file, all of them
    scores: dict[str, dict[str, Score]]  # by system and metric
    curves: dict[str, dict[str, tuple[Point, ...]]]  # by property and system
    label_confusions: dict[str, Counter[tuple[str, str]]]  # by system: (gold label, system label); {} without labels
    head_confusions: dict[str, Counter[tuple[str, str]]]  # by system: tags of (gold head, system head)
    cycles: dict[str, int]  # by system: sentences whose heads form a cycle
    comparison: Comparison | None  # of each two systems; None if there is one alone
    differences: tuple[SentenceDifference, ...]  # of the first system and each other one, the largest gains first

    @property
    def main_metrics(self) -> list[str]:
        """Return the metrics to show first, in order."""
        shown = _MAIN_METRICS if self.metric == "LAS" else _METRICS_WITHOUT_LABELS
        return [metric for metric in shown if metric in self.scores[self.systems[0]]]


def analyse(
    treebanks: Sequence[ParsedTreebank],
    *,
    examples: int = EXAMPLES,
    seed: int = 1,
    on_progress: Callable[[int], None] | None = None,
) -> list[Analysis]:
    """Return the error analysis of all treebanks together and then of each; one analysis if there is one treebank.

    All treebanks have the same systems and the same rule. `examples` is how many sentences are listed each way: where
    a system gained most, and where it lost most. `on_progress` receives the number of resamplings that were made, which
    add up to `count_resamplings`.

    >>> from treefine.evaluation.analysis.errors import read_parsed
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
    """Return how many resamplings an analysis takes, for a progress bar."""
    n_analyses = n_treebanks + (n_treebanks > 1)
    return n_analyses * TEST_SAMPLES * n_systems * (n_systems - 1) // 2


@dataclass(frozen=True, slots=True)
class _Counted:
    """What is counted in one treebank, and adds up over several."""

    n_words: int
    scores: dict[str, dict[str, Score]]
    tallies: dict[str, dict[str, Tally]]  # by property and system
    label_confusions: dict[str, Counter[tuple[str, str]]]
    head_confusions: dict[str, Counter[tuple[str, str]]]
    cycles: dict[str, int]
    counts: dict[str, Counts]  # by system: the words of each sentence


def _count(treebank: ParsedTreebank, metric: str) -> _Counted:
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
    """Add the counts of several treebanks."""
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
    treebanks: Sequence[ParsedTreebank],
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


def largest_differences(
    treebanks: Sequence[ParsedTreebank], counts: Mapping[str, Counts], *, most: int
) -> tuple[SentenceDifference, ...]:
    """Return, for the first system and each other one, the sentences with the largest gains, then the largest losses.

    A gain or loss is a number of right words, and each list has up to `most` sentences. A single system is compared
    with gold, which lists the sentences with the most errors. `counts` are those of all treebanks, one after another.
    """
    first, *others = counts
    places = [(treebank, number) for treebank in treebanks for number in range(len(treebank.gold))]
    found = []
    for other in others or [first]:
        n_words, right = counts[other][:, 0], counts[other][:, 2]
        gains = right - (counts[first][:, 2] if others else n_words)
        chosen = [*_largest(gains, most), *_largest(-gains, most)]
        for place in chosen:
            treebank, number = places[place]
            systems = (first, other) if others else (first,)
            sentence = treebank.gold[number]
            found.append(
                SentenceDifference(
                    sentence.sent_id,
                    number + 1,
                    treebank.name,
                    first if others else None,
                    other,
                    sentence,
                    {system: treebank.sentences_at(system, number) for system in systems},
                    {system: int(counts[system][place, 2]) for system in systems},
                    int(n_words[place]),
                )
            )
    return tuple(found)


def _largest(gains: Counts, most: int) -> list[int]:
    """Return the places of the largest numbers above 0, the largest first; of equal ones, the earlier."""
    order = np.argsort(-gains, kind="stable")[:most]
    return [place for place in order.tolist() if gains[place] > 0]
