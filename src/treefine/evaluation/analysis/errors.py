"""Error analysis: where systems are right and wrong, over one treebank or several."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from treefine.evaluation.breakdown import PROPERTIES, Value
from treefine.evaluation.pairing import UNALIGNED, AlignedWords
from treefine.evaluation.scores import Marks, Score, all_marks, all_scores, head_confusions, label_confusions, rule_of
from treefine.evaluation.significance import SLICE, Counts, compare_counts, draw_weights, sentence_counts
from treefine.evaluation.words import Treebank, WordColumns, load_words
from treefine.treebank.conllu import read_treebank
from treefine.treebank.files import Source
from treefine.treebank.graph import find_cycles
from treefine.treebank.sentence import BLANK, Sentence

if TYPE_CHECKING:
    from treefine.evaluation.significance import Comparison  # which loads numpy

METRICS = ("UAS", "LAS", "LA", "CLAS", "MLAS", "BLEX", "UEM", "LEM")  # shown first, in this order
METRICS_WITHOUT_LABELS = ("UAS", "UEM")


@dataclass(frozen=True, slots=True)
class Point:
    """The words of one kind (one point of a curve, one row of a table), and how many of them a system got right.

    Gold words are sorted by their value in the gold file and give recall, system words by theirs and give precision.
    A share of nothing is 0; the counts tell.
    """

    value: Value  # a number, a label or tag, or the name of several numbers put together, such as "11-15" or "31+"
    gold: int  # words of this kind in the gold file
    system: int  # in the system's file
    gold_correct: int  # gold words of this kind that are right
    system_correct: int  # system words of this kind that are right
    low: float  # the 95 % bootstrap band of F1
    high: float

    @property
    def precision(self) -> float:
        """The share of the system's words of this kind that is right."""
        return self.system_correct / self.system if self.system else 0.0

    @property
    def recall(self) -> float:
        """The share of the gold words of this kind that is right."""
        return self.gold_correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of the two."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


@dataclass(frozen=True, slots=True)
class SentenceDifference:
    """One gold sentence that two systems parse differently well, with what is needed to draw it.

    Where one system alone is analysed, `first` is None and the sentence is one of those with the most errors.
    """

    sent_id: str  # "" without one
    number: int  # in its file, from 1
    treebank: str  # the name of its treebank
    first: str | None
    other: str  # the system that `first`, or gold, is compared with
    gold: Sentence
    trees: dict[
        str, tuple[Sentence, ...]
    ]  # of each of the two systems: one, or several where it cut the text otherwise
    correct: dict[str, int]  # right words of each of the two systems
    n_words: int  # gold words that count

    @property
    def difference(self) -> int:
        """How many words more the other system has right; below 0 if it has fewer."""
        return self.correct[self.other] - (self.n_words if self.first is None else self.correct[self.first])


@dataclass(frozen=True, slots=True)
class Analysis:
    """Several systems, or one, over one treebank, or over several put together.

    The properties of `curves` are those of `breakdown.PROPERTIES`, without "label" where there are no labels. Points
    stand in the order in which they are shown: numbers rising, words of a cycle last, the most frequent label or tag in
    gold first. A system has no point where neither it nor gold has a word.
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
        """The words of the gold file."""
        return next(iter(self.pairs.values())).gold

    def paths_without_labels(self) -> list[str]:
        """The files, gold or of a system, in which no word has a label."""
        files = [self.gold_words, *[pair.system for pair in self.pairs.values()]]
        return [words.name for words in files if all(label == BLANK for label in words.labels)]

    def count_cycles(self, system: str) -> int:
        """How many sentences of a system have heads that form a cycle, and so words with no way up to ROOT."""
        return sum(bool(find_cycles(sentence.graph.heads)) for sentence in self.systems[system])

    def count_several_roots(self, system: str) -> int:
        """How many sentences of a system have more than one word that hangs on ROOT."""
        return sum(len(sentence.graph.roots) > 1 for sentence in self.systems[system])

    def sentences_at(self, system: str, number: int) -> tuple[Sentence, ...]:
        """What a system has in the place of a gold sentence (from 0): one, or several where it cut the text otherwise.

        If a cut of its own lies elsewhere, its sentences reach beyond the gold one.
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

    Like the official scorer, conll18 refuses a gold file with cycles, no root or several. A system's file may have
    them, since an analysis is there to show what is wrong with it; the layout of a file does not matter either.
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


BAND = 0.95
# The lowest number of each point; it goes up to the next one, and the last has no end. Long arcs, deep words and long
# sentences are rare, so they are put together.
LOWEST: Mapping[str, tuple[int, ...]] = {
    "dependency length": (*range(1, 12), 16, 21, 31),
    "distance to root": tuple(range(1, 10)),
    "sentence length": (1, 11, 21, 31, 41, 51),
}
KINDS_AT_ONCE = 64  # to bound memory, however many labels a file has

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def point_of(by: str, value: Value) -> Value:
    """The point of a curve to which a word with this value belongs.

    >>> [point_of("dependency length", length) for length in (0, 7, 12, 40)]
    ['ROOT', 7, '11-15', '31+']
    """
    if by not in LOWEST or isinstance(value, str):
        return value
    if value == 0:
        return "ROOT"
    lowest = LOWEST[by]
    low = max(each for each in lowest if each <= value)
    if low == lowest[-1]:
        return f"{low}+"
    high = lowest[lowest.index(low) + 1] - 1
    return low if low == high else f"{low}-{high}"


@dataclass(frozen=True, slots=True)
class Tally:
    """The words of gold and one system by kind and sentence. Each entry is one word in one column of its kind."""

    kinds: tuple[Value, ...]
    n_sentences: int
    sentences: Integers  # of each entry: the gold sentence, from 0
    cells: Integers  # of each entry: 4 * kind + column; these are gold, system, gold correct, system correct

    def totals(self) -> Integers:
        """How many words each column of each kind has. [kind, 4]."""
        return np.bincount(self.cells, minlength=4 * len(self.kinds)).reshape(-1, 4)


def tally(
    by: str, pair: AlignedWords, found: Marks, gold_values: Sequence[Value], system_values: Sequence[Value]
) -> Tally:
    """Sort the words that count by their value, in the file they stand in, and by the gold sentence."""
    kinds: dict[Value, int] = {}
    counted = {*compress(gold_values, found.gold), *compress(system_values, found.system)}
    kind_of = {value: kinds.setdefault(point_of(by, value), len(kinds)) for value in counted}
    ours = np.array([kind_of.get(value, -1) for value in gold_values], dtype=np.int64)
    theirs = np.array([kind_of.get(value, -1) for value in system_values], dtype=np.int64)
    gold_sentences, system_sentences = sentence_of_each_word(pair)
    gold_counts, system_counts = np.array(found.gold, dtype=bool), np.array(found.system, dtype=bool)
    system_of = np.array(pair.system_of, dtype=np.int64)
    right = np.array(found.correct, dtype=bool) & (system_of != UNALIGNED)
    right_system = system_of[right]
    sentences = [
        gold_sentences[gold_counts],
        system_sentences[system_counts],
        gold_sentences[right],
        gold_sentences[right],  # a right word is drawn with its gold sentence
    ]
    columns = [ours[gold_counts], theirs[system_counts], ours[right], theirs[right_system]]
    cells = [4 * kind + column for column, kind in enumerate(columns)]
    return Tally(tuple(kinds), len(pair.gold.sentences), np.concatenate(sentences), np.concatenate(cells))


def sentence_of_each_word(pair: AlignedWords) -> tuple[Integers, Integers]:
    """The gold sentence, from 0, of each gold word and of each system word, which belongs where its text begins."""
    ours = np.repeat(np.arange(len(pair.gold.sentences)), [len(words) for words in pair.gold.sentence_words()])
    if pair.gold.spans == pair.system.spans:
        return ours, ours
    starts = [start for start, _ in pair.gold.sentences]
    return ours, np.searchsorted(starts, [start for start, _ in pair.system.spans], side="right") - 1


def join(tallies: Sequence[Tally]) -> Tally:
    """The tallies of several treebanks as one: their sentences follow one another."""
    kinds: dict[Value, int] = {}
    sentences, cells, n_sentences = [], [], 0
    for each in tallies:
        new = np.array([kinds.setdefault(kind, len(kinds)) for kind in each.kinds], dtype=np.int64)
        kind, column = np.divmod(each.cells, 4)
        cells.append(4 * new[kind] + column)
        sentences.append(each.sentences + n_sentences)
        n_sentences += each.n_sentences
    return Tally(tuple(kinds), n_sentences, np.concatenate(sentences), np.concatenate(cells))


def draw_curves(
    tallies: Mapping[str, Mapping[str, Tally]], *, samples: int, seed: int
) -> dict[str, dict[str, tuple[Point, ...]]]:
    """The points of each property and system, with their bands; all are drawn from the same samples of sentences."""
    flat = {(by, system): each for by, systems in tallies.items() for system, each in systems.items() if each.kinds}
    bands = dict(zip(flat, f1_bands(list(flat.values()), samples=samples, seed=seed), strict=True))
    return {
        by: {system: _points(by, each, *bands[by, system]) if each.kinds else () for system, each in systems.items()}
        for by, systems in tallies.items()
    }


def _points(by: str, counted: Tally, low: Floats, high: Floats) -> tuple[Point, ...]:
    rows = zip(counted.kinds, counted.totals().tolist(), low.tolist(), high.tolist(), strict=True)
    points = [
        Point(kind, gold, system, gold_correct, system_correct, low, high)
        for kind, (gold, system, gold_correct, system_correct), low, high in rows
        if gold or system
    ]
    if by in LOWEST:
        order = {point_of(by, number): number for number in reversed((0, *LOWEST[by]))}
        return tuple(sorted(points, key=lambda point: order.get(point.value, np.inf)))  # words of a cycle last
    return tuple(sorted(points, key=lambda point: (-point.gold, str(point.value))))


def f1_bands(tallies: Sequence[Tally], *, samples: int, seed: int) -> list[tuple[Floats, Floats]]:
    """The lower and upper end of the bootstrap band of F1, of each kind of each tally.

    As many sentences as there are, are drawn with replacement, `samples` times; the band holds the middle 95 % of F1.
    Samples that leave F1 open say nothing about a kind; if all do, its band is 0, as its F1 is.
    """
    rng = np.random.default_rng(seed)
    n_sentences = tallies[0].n_sentences if tallies else 1
    drawn: list[list[Floats]] = [[] for _ in tallies]
    for start in range(0, samples, SLICE):
        weights = draw_weights(rng, min(SLICE, samples - start), n_sentences)
        for each, found in zip(tallies, drawn, strict=True):
            blocks = [f1_of_kinds((weights @ block).reshape(len(weights), -1, 4)) for block in _blocks(each)]
            found.append(np.concatenate(blocks, axis=1))  # [sample, kind]
    outside = (1 - BAND) / 2
    bands = []
    for found in drawn:
        f1 = np.concatenate(found)
        f1[:, np.isnan(f1).all(axis=0)] = 0
        low, high = np.nanquantile(f1, [outside, 1 - outside], axis=0)
        bands.append((low, high))
    return bands


def _blocks(counted: Tally) -> Iterator[Floats]:
    """The words of each sentence, some kinds at a time. [sentence, 4 * kind]."""
    for first in range(0, 4 * len(counted.kinds), 4 * KINDS_AT_ONCE):
        width = min(4 * KINDS_AT_ONCE, 4 * len(counted.kinds) - first)
        is_here = (counted.cells >= first) & (counted.cells < first + width)
        places = counted.sentences[is_here] * width + counted.cells[is_here] - first
        words = np.bincount(places, minlength=counted.n_sentences * width)
        yield words.reshape(counted.n_sentences, width).astype(np.float64)


def f1_of_kinds(totals: Floats) -> Floats:
    """F1 from totals whose last axis has the columns of a kind; nan where it needs the share of no words.

    It does not where the other share is 0, for then it is 0 too.
    """
    gold, system, gold_correct, system_correct = np.moveaxis(totals, -1, 0)
    recall = gold_correct / np.maximum(gold, 1)
    precision = system_correct / np.maximum(system, 1)
    both = precision + recall
    f1 = 2 * precision * recall / np.where(both > 0, both, 1)
    is_known = ((gold > 0) | (precision == 0)) & ((system > 0) | (recall == 0)) & (gold + system > 0)
    return np.where(is_known, f1, np.nan)


def largest_differences(
    treebanks: Sequence[ParsedTreebank], counts: Mapping[str, Counts], *, most: int
) -> tuple[SentenceDifference, ...]:
    """For the first system and each other one, the sentences with the largest gains, then those with the worst losses.

    A gain or loss is a number of right words, and each list has up to `most`. One system alone is compared with gold:
    listed are the sentences with the most errors. `counts` are those of all treebanks, one after another.
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


def _largest(gains: NDArray[np.float64], most: int) -> list[int]:
    """The places of the largest numbers above 0, the largest first; of equal ones, the earlier."""
    order = np.argsort(-gains, kind="stable")[:most]
    return [place for place in order.tolist() if gains[place] > 0]


TOGETHER = "all together"
BAND_SAMPLES = 1000
TEST_SAMPLES = 10_000
EXAMPLES = 10


def analyse(
    treebanks: Sequence[ParsedTreebank],
    *,
    examples: int = EXAMPLES,
    seed: int = 1,
    on_progress: Callable[[int], None] | None = None,
) -> list[Analysis]:
    """The error analysis of all treebanks together and then of each; one alone if there is one.

    All treebanks have the same systems and the same rule. `examples` is how many sentences are listed each way: where
    a system gained most, and where it lost most. `on_progress` hears of the resamplings that `count_resamplings` tells.

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
