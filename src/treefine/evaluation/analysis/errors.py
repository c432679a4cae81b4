"""Error analysis: which words and sentences systems get right and wrong, over one treebank or several."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from treefine.errors import count
from treefine.evaluation.pairing import AlignedWords, Read, Treebank, WordColumns, load_pairs
from treefine.evaluation.properties import PROPERTIES, Point, Tally, Value, draw_curves, join, merged, tally
from treefine.evaluation.scores import Score, all_marks, all_scores, head_confusions, label_confusions, rule_of
from treefine.evaluation.significance import SAMPLES, SEED, Comparison, Counts, compare_counts, sentence_counts
from treefine.treebank.conllu import read_treebank
from treefine.treebank.graph import find_cycles
from treefine.treebank.sentence import BLANK, Sentence

TOGETHER = "all together"  # the name of all treebanks together in a report
BAND_SAMPLES = 1000
EXAMPLES = 10  # maximum number of sentences listed with gains, and with losses
_MAIN_METRICS = ("UAS", "LAS", "LA", "CLAS", "MLAS", "BLEX", "UEM", "LEM")  # shown first, in this order


@dataclass(frozen=True, slots=True)
class ParsedTreebank:
    """The gold file of one treebank, aligned with each system's parse of it."""

    name: str
    rule: str
    pairs: dict[str, AlignedWords]  # by system; the gold words are the same in all

    @property
    def gold(self) -> WordColumns:
        """The words of the gold file."""
        return next(iter(self.pairs.values())).gold

    @property
    def files(self) -> list[WordColumns]:
        """The words of the gold file and of each system's file."""
        return [self.gold, *[pair.system for pair in self.pairs.values()]]

    def notes(self) -> Iterator[str]:
        """Yield a line about each file without labels, and about each system file with graphs that are not trees."""
        for words in filter(has_no_labels, self.files):
            yield (
                f"{words.name}: The file has no labels, so only heads are scored (UAS instead of LAS). "
                "Add labels to score them too."
            )
        for pair in self.pairs.values():
            cycles = count_cycles(pair.system)
            roots = sum(sentence.heads.count(0) > 1 for sentence in pair.system.sentences)
            faults = [f"{count(cycles, 'sentence')} with a cycle"] if cycles else []
            faults += [f"{count(roots, 'sentence')} with several roots"] if roots else []
            if faults:
                rule = ' Words in or below a cycle have the distance to root "cycle".' if cycles else ""
                yield f"{pair.system.name}: {' and '.join(faults)}; evaluate may reject this file.{rule}"

    def sentences_at(self, system: str, number: int) -> tuple[Sentence, ...]:
        """Return the sentences of a system that share text with a gold sentence, which is numbered from 0.

        There are several if the system segmented the text differently, and they may extend beyond the gold sentence.
        """
        words = self.pairs[system].system
        start, end = self.gold.sentence_spans[number]
        spans = words.sentence_spans
        first = bisect_right(spans, start, key=lambda span: span[0]) - 1
        last = bisect_left(spans, end, key=lambda span: span[0])
        return tuple(words.sentences[first:last])


def has_no_labels(words: WordColumns) -> bool:
    """Return whether no word of a file has a label."""
    return all(label == BLANK for label in words.labels)


def count_cycles(words: WordColumns) -> int:
    """Count the sentences of a file whose heads form a cycle."""
    return sum(bool(find_cycles(sentence.graph.heads)) for sentence in words.sentences)


def read_parsed(
    name: str, gold: Treebank, systems: Mapping[str, Treebank], *, rule: str = "conll18", read: Read = read_treebank
) -> ParsedTreebank:
    """Read a gold file and several systems' parses of it, and align their words by the rule.

    Like the official scorer, conll18 rejects a gold file with cycles, no root or several roots. A system's file may
    have them, because the analysis shows its errors. The layout of the files does not matter.
    """
    pairs = load_pairs(gold, systems, is_ud=rule_of(rule).is_ud, is_strict=False, read=read)
    return ParsedTreebank(name, rule, pairs)


@dataclass(frozen=True, slots=True)
class SentenceDifference:
    """A gold sentence that one system parses better than another, with the trees to draw.

    If only one system is analysed, `first` is None and the sentence is one with many errors.
    """

    sent_id: str  # "" if it has no sent_id
    number: int  # in its file, from 1
    treebank: str  # the name of its treebank
    first: str | None
    other: str  # the system that `first`, or gold, is compared with
    gold: Sentence
    trees: dict[str, tuple[Sentence, ...]]  # by system: one, or several if it segmented the text differently
    correct: dict[str, int]  # the number of right words of each of the two systems
    n_words: int  # gold words that count

    @property
    def difference(self) -> int:
        """The number of right words that `other` has more than `first` (or than gold); negative if it has fewer."""
        return self.correct[self.other] - (self.n_words if self.first is None else self.correct[self.first])


@dataclass(frozen=True, slots=True)
class Analysis:
    """The errors of one or more systems over one treebank, or over several together.

    `curves` has the PROPERTIES, without "label" if there are no labels. Points are in display order: numbers in
    ascending order, then words in cycles; for labels and tags, the most frequent in gold first. A system has no point
    for a value that neither its file nor gold has.
    """

    name: str  # of the treebank
    systems: tuple[str, ...]  # in the order of the input
    rule: str
    metric: str  # of curves, comparison and differences: LAS, or UAS if a file has no labels
    n_sentences: int  # of the gold file
    n_words: int  # of the gold file, all of them
    scores: dict[str, dict[str, Score]]  # by system and metric
    curves: dict[str, dict[str, tuple[Point, ...]]]  # by property and system
    label_confusions: dict[str, Counter[tuple[str, str]]]  # by system: (gold label, system label); {} without labels
    head_confusions: dict[str, Counter[tuple[str, str]]]  # by system: tags of (gold head, system head)
    cycles: dict[str, int]  # by system: sentences whose heads form a cycle
    comparison: Comparison | None  # of all pairs of systems; None if there is only one system
    differences: tuple[SentenceDifference, ...]  # between the first system and each other, largest gains first

    @property
    def main_metrics(self) -> list[str]:
        """The metrics to show first, in order."""
        shown = _MAIN_METRICS if self.metric == "LAS" else ("UAS", "UEM")
        return [metric for metric in shown if metric in self.scores[self.systems[0]]]

    def points_by_value(self, by: str) -> dict[Value, list[Point | None]]:
        """Return the points of each value, one per system; None if a system has no point."""
        curves = [{point.value: point for point in points} for points in self.curves[by].values()]
        return {value: [curve.get(value) for curve in curves] for value in merged([*curve] for curve in curves)}


def analyse(
    treebanks: Sequence[ParsedTreebank], *, examples: int = EXAMPLES, on_progress: Callable[[int], None] | None = None
) -> list[Analysis]:
    """Return the error analysis of all treebanks together, then of each; a single treebank has one analysis.

    All treebanks must have the same systems and the same rule. `examples` is the maximum number of sentences to list
    with the largest gains, and with the largest losses. `on_progress` receives the number of resamples made since the
    last call; they add up to `count_resamplings`.

    >>> from treefine.evaluation.analysis.errors import read_parsed
    >>> files = {name: f"docs/example/{name}.conllu" for name in ("first", "second")}
    >>> (found,) = analyse([read_parsed("example", "docs/example/gold.conllu", files)])
    >>> [(point.value, point.gold, round(point.f1, 2)) for point in found.curves["distance to root"]["second"]]
    [(1, 4, 1.0), (2, 13, 0.92), (3, 10, 0.89), (4, 1, 1.0)]
    """
    metric = "UAS" if any(has_no_labels(words) for each in treebanks for words in each.files) else "LAS"
    counted = [_count(each, metric) for each in treebanks]
    parts = [([treebank], [each]) for treebank, each in zip(treebanks, counted, strict=True)]
    if len(parts) > 1:
        parts.insert(0, ([*treebanks], counted))
    return [_analysis(of, each, metric, examples, on_progress) for of, each in parts]


def count_resamplings(n_treebanks: int, n_systems: int) -> int:
    """Return the number of resamples that an analysis needs, for a progress bar."""
    n_analyses = n_treebanks + (n_treebanks > 1)
    return n_analyses * SAMPLES * n_systems * (n_systems - 1) // 2


@dataclass(frozen=True, slots=True)
class _Counted:
    """The counts of one system in one treebank; they add up over several treebanks."""

    scores: dict[str, Score]  # by metric
    tallies: dict[str, Tally]  # by property
    labels: Counter[tuple[str, str]]  # confused
    heads: Counter[tuple[str, str]]
    cycles: int
    counts: Counts  # the words of each sentence


def _count(treebank: ParsedTreebank, metric: str) -> dict[str, _Counted]:
    """Return the counts of each system."""
    counted = {}
    for system, pair in treebank.pairs.items():
        marks = all_marks(pair, rule=treebank.rule)
        counted[system] = _Counted(
            all_scores(pair, marks, rule=treebank.rule),
            {by: tally(by, pair, marks[metric]) for by in PROPERTIES if by != "label" or metric == "LAS"},
            label_confusions(pair, marks["LAS"]),
            head_confusions(pair, marks["UAS"]),
            count_cycles(pair.system),
            sentence_counts(pair, marks[metric]),
        )
    return counted


def _analysis(
    treebanks: Sequence[ParsedTreebank],
    counted: Sequence[Mapping[str, _Counted]],
    metric: str,
    examples: int,
    on_progress: Callable[[int], None] | None,
) -> Analysis:
    parts = {system: [each[system] for each in counted] for system in counted[0]}  # one part per treebank
    counts = {system: np.concatenate([each.counts for each in several]) for system, several in parts.items()}
    metrics, properties = (getattr(next(iter(counted[0].values())), name) for name in ("scores", "tallies"))
    tallies = {
        by: {system: join([each.tallies[by] for each in several]) for system, several in parts.items()}
        for by in properties
    }
    comparison = None
    if len(counts) > 1:
        comparison = compare_counts(counts, metric=metric, samples=SAMPLES, on_progress=on_progress)
    return Analysis(
        name=treebanks[0].name if len(treebanks) == 1 else TOGETHER,
        systems=tuple(parts),
        rule=treebanks[0].rule,
        metric=metric,
        n_sentences=sum(len(each.gold.sentences) for each in treebanks),
        n_words=sum(len(each.gold) for each in treebanks),
        scores={
            system: {name: reduce(add, [each.scores[name] for each in several]) for name in metrics}
            for system, several in parts.items()
        },
        curves=draw_curves(tallies, samples=BAND_SAMPLES, seed=SEED),
        label_confusions={
            system: reduce(add, [each.labels for each in several])
            for system, several in parts.items()
            if metric == "LAS"
        },
        head_confusions={system: reduce(add, [each.heads for each in several]) for system, several in parts.items()},
        cycles={system: sum(each.cycles for each in several) for system, several in parts.items()},
        comparison=comparison,
        differences=tuple(_largest_differences(treebanks, counts, examples)),
    )


def _largest_differences(
    treebanks: Sequence[ParsedTreebank], counts: Mapping[str, Counts], most: int
) -> Iterator[SentenceDifference]:
    """Yield, for the first system and each other, the sentences with the largest gains, then the largest losses.

    Gains and losses are numbers of right words, and each list has up to `most` sentences. A single system is compared
    with gold, which lists the sentences with the most errors. `counts` has the sentences of all treebanks in order.
    """
    first, *others = counts
    places = [(treebank, number) for treebank in treebanks for number in range(len(treebank.gold.sentences))]
    for other in others or [first]:
        systems = (first, other) if others else (first,)
        n_words, right = counts[other][:, 0], counts[other][:, 2]
        gains = right - (counts[first][:, 2] if others else n_words)
        for sign in (1, -1):
            order = np.argsort(-sign * gains, kind="stable")[:most]  # ties: the earlier sentence first
            for place in order[sign * gains[order] > 0].tolist():
                treebank, number = places[place]
                gold = treebank.gold.sentences[number]
                yield SentenceDifference(
                    gold.sent_id,
                    number + 1,
                    treebank.name,
                    first if others else None,
                    other,
                    gold,
                    {system: treebank.sentences_at(system, number) for system in systems},
                    {system: int(counts[system][place, 2]) for system in systems},
                    int(n_words[place]),
                )
