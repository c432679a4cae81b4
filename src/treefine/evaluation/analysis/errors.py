"""Error analysis: which words and sentences systems get right and wrong, over one treebank or several."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from treefine.errors import count
from treefine.evaluation.pairing import AlignedWords, Read, Treebank, WordColumns, load_pairs
from treefine.evaluation.properties import PROPERTIES, Point, draw_curves
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

    `curves` has the PROPERTIES, without "label" if there are no labels.
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


def analyse(treebanks: Sequence[ParsedTreebank], *, examples: int = EXAMPLES) -> list[Analysis]:
    """Return the error analysis of all treebanks together, then of each; a single treebank has one analysis.

    All treebanks must have the same systems and the same rule. `examples` is the maximum number of sentences to list
    with the largest gains, and with the largest losses.

    >>> from treefine.evaluation.analysis.errors import read_parsed
    >>> files = {name: f"docs/example/{name}.conllu" for name in ("first", "second")}
    >>> (found,) = analyse([read_parsed("example", "docs/example/gold.conllu", files)])
    >>> [(point.value, point.gold, round(point.f1, 2)) for point in found.curves["distance to root"]["second"]]
    [(1, 4, 1.0), (2, 13, 0.92), (3, 10, 0.89), (4, 1, 1.0)]
    """
    metric = "UAS" if any(has_no_labels(words) for each in treebanks for words in each.files) else "LAS"
    places = [[(each.name, number) for number in range(1, len(each.gold.sentences) + 1)] for each in treebanks]
    analyses = [_analysis(each, own, metric, examples) for each, own in zip(treebanks, places, strict=True)]
    if len(treebanks) > 1:
        analyses.insert(0, _analysis(_joined(treebanks), [*chain.from_iterable(places)], metric, examples))
    return analyses


def _joined(treebanks: Sequence[ParsedTreebank]) -> ParsedTreebank:
    """Return the sentences of all treebanks as one treebank."""
    gold = [sentence for each in treebanks for sentence in each.gold.sentences]
    systems = {
        system: [sentence for each in treebanks for sentence in each.pairs[system].system.sentences]
        for system in treebanks[0].pairs
    }
    return read_parsed(TOGETHER, gold, systems, rule=treebanks[0].rule)


def _analysis(treebank: ParsedTreebank, places: Sequence[tuple[str, int]], metric: str, examples: int) -> Analysis:
    """Analyse a treebank whose sentences have these places: the name of a treebank and a number, from 1."""
    pairs, rule = treebank.pairs, treebank.rule
    marks = {system: all_marks(pair, rule=rule) for system, pair in pairs.items()}
    compared = {system: each[metric] for system, each in marks.items()}
    counts = {system: sentence_counts(pair, compared[system]) for system, pair in pairs.items()}
    has_labels = metric == "LAS"
    return Analysis(
        name=treebank.name,
        systems=tuple(pairs),
        rule=rule,
        metric=metric,
        n_sentences=len(treebank.gold.sentences),
        n_words=len(treebank.gold),
        scores={system: all_scores(pair, marks[system], rule=rule) for system, pair in pairs.items()},
        curves={
            by: draw_curves(by, pairs, compared, samples=BAND_SAMPLES, seed=SEED)
            for by in PROPERTIES
            if by != "label" or has_labels
        },
        label_confusions={
            system: label_confusions(pair, marks[system]["LAS"]) for system, pair in pairs.items() if has_labels
        },
        head_confusions={system: head_confusions(pair, marks[system]["UAS"]) for system, pair in pairs.items()},
        cycles={system: count_cycles(pair.system) for system, pair in pairs.items()},
        comparison=compare_counts(counts, metric=metric, samples=SAMPLES) if len(counts) > 1 else None,
        differences=tuple(_largest_differences(treebank, places, counts, examples)),
    )


def _largest_differences(
    treebank: ParsedTreebank, places: Sequence[tuple[str, int]], counts: Mapping[str, Counts], most: int
) -> Iterator[SentenceDifference]:
    """Yield, for the first system and each other, the sentences with the largest gains, then the largest losses.

    Gains and losses are numbers of right words, and each list has up to `most` sentences. A single system is compared
    with gold, which lists the sentences with the most errors.
    """
    first, *others = counts
    for other in others or [first]:
        systems = (first, other) if others else (first,)
        n_words, right = counts[other][:, 0], counts[other][:, 2]
        gains = right - (counts[first][:, 2] if others else n_words)
        for sign in (1, -1):
            order = np.argsort(-sign * gains, kind="stable")[:most]  # ties: the earlier sentence first
            for place in order[sign * gains[order] > 0].tolist():
                gold, (name, number) = treebank.gold.sentences[place], places[place]
                yield SentenceDifference(
                    gold.sent_id,
                    number,
                    name,
                    first if others else None,
                    other,
                    gold,
                    {system: treebank.sentences_at(system, place) for system in systems},
                    {system: int(counts[system][place, 2]) for system in systems},
                    int(n_words[place]),
                )
