"""Paired significance tests over sentences, which show whether two systems differ by more than chance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from treefine.errors import AlignmentError
from treefine.evaluation.pairing import AlignedWords
from treefine.evaluation.scores import Marks, all_marks

Counts = NDArray[np.float64]  # [sentence, 3]: gold, system and correct words; floats hold these small integers exactly
ALPHA, SAMPLES, SEED = 0.01, 10_000, 1  # of all tests by default; the paper has the same α
SLICE = 250  # resamples drawn at a time, to bound memory
TIE = 1e-12  # smaller differences of F1 are rounding errors


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between two systems, and the probability of a difference this large by chance (two-sided)."""

    first: str
    second: str
    difference: float  # second minus first, in F1
    randomisation: float  # p of the approximate randomisation test
    bootstrap: float  # p of the paired bootstrap test
    interval: tuple[float, float]  # of the difference, from the bootstrap, at 1 - alpha


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of several systems by one metric."""

    metric: str
    alpha: float
    samples: int
    seed: int
    scores: dict[str, float]  # F1 of each system, in the order given
    differences: dict[tuple[str, str], Difference]  # for each pair of systems

    @property
    def best(self) -> str:
        """The system with the highest score."""
        return max(self.scores, key=lambda name: self.scores[name])

    @property
    def best_group(self) -> frozenset[str]:
        """The best system, and all systems that are not significantly different from it (randomisation test)."""
        best = self.best
        alike = [name for name in self.scores if name != best and self.between(best, name).randomisation >= self.alpha]
        return frozenset([best, *alike])

    def between(self, one: str, other: str) -> Difference:
        """Return the difference between two systems, given in either order."""
        return self.differences[(one, other) if (one, other) in self.differences else (other, one)]


def compare(
    pairs: Mapping[str, AlignedWords],
    *,
    metric: str = "LAS",
    rule: str = "conll18",
    alpha: float = ALPHA,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> Comparison:
    """Compare systems over the same gold file, as `compare_counts` does."""
    counts = count_files([pairs], metric=metric, rule=rule)
    return compare_counts(counts, metric=metric, alpha=alpha, samples=samples, seed=seed)


def compare_counts(
    counts: Mapping[str, Counts],
    *,
    metric: str = "LAS",
    alpha: float = ALPHA,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> Comparison:
    """Compare systems by their word counts per sentence under `metric`.

    Drawing costs most, so each sample is drawn once, for all pairs of systems, and summed once per system.
    """
    if len({len(each) for each in counts.values()}) > 1:
        raise AlignmentError("The systems must be compared with the same gold sentences.")
    rng, names = np.random.default_rng(seed), list(counts)
    pairs = list(combinations(range(len(names)), 2))
    columns = np.concatenate(list(counts.values()), axis=1)  # [sentence, 3 * system]
    whole = columns.sum(axis=0).reshape(len(names), 3)
    scores = f1(whole)  # [system]
    as_far_by_swapping = dict.fromkeys(pairs, 0)
    slices: list[NDArray[np.float64]] = []
    for start in range(0, samples, SLICE):
        size = min(SLICE, samples - start)
        swapped = (draw_swaps(rng, size, len(columns)) @ columns).reshape(size, len(names), 3)
        for a, b in pairs:
            moved = swapped[:, b] - swapped[:, a]  # words that b loses and a gains
            differences = f1(whole[b] - moved) - f1(whole[a] + moved)
            as_far_by_swapping[a, b] += _as_far(differences, scores[b] - scores[a])
        slices.append(f1((draw_weights(rng, size, len(columns)) @ columns).reshape(size, len(names), 3)))
    drawn = np.concatenate(slices)  # [sample, system]
    compared = {}
    for a, b in pairs:
        difference, sampled = float(scores[b] - scores[a]), drawn[:, b] - drawn[:, a]
        low, high = np.quantile(sampled, [alpha / 2, 1 - alpha / 2]).tolist()
        compared[names[a], names[b]] = Difference(
            names[a],
            names[b],
            difference,
            randomisation=(as_far_by_swapping[a, b] + 1) / (samples + 1),
            bootstrap=(_as_far(sampled - difference, difference) + 1) / (samples + 1),
            interval=(low, high),
        )
    return Comparison(metric, alpha, samples, seed, dict(zip(names, scores.tolist(), strict=True)), compared)


def count_files(
    files: Iterable[Mapping[str, AlignedWords]], *, metric: str = "LAS", rule: str = "conll18"
) -> dict[str, Counts]:
    """Count the words of each sentence of each system under `metric`; all files have the same systems."""
    counts: dict[str, list[Counts]] = {}
    for pairs in files:
        for name, pair in pairs.items():
            marks = all_marks(pair, rule=rule, metrics=[metric])[metric]
            counts.setdefault(name, []).append(sentence_counts(pair, marks))
    return {name: np.concatenate(each) for name, each in counts.items()}


def sentence_counts(pair: AlignedWords, marks: Marks) -> Counts:
    """Count the gold, system and correct words of each gold sentence; a system word counts where its text starts."""
    ours, theirs = sentence_of_each_word(pair)
    columns = ((ours, marks.gold), (theirs, marks.system), (ours, marks.correct))
    n_sentences = len(pair.gold.sentences)
    return np.stack([np.bincount(of, weights=marks, minlength=n_sentences) for of, marks in columns], axis=1)


def sentence_of_each_word(pair: AlignedWords) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the gold sentence, from 0, of each gold word and of each system word."""
    lengths = np.array([len(words) for words in pair.gold.sentence_words()], dtype=np.int64)
    ours = np.repeat(np.arange(len(lengths)), lengths)
    if pair.gold.spans == pair.system.spans:
        return ours, ours
    starts = [start for start, _ in pair.gold.sentence_spans]
    return ours, np.searchsorted(starts, [start for start, _ in pair.system.spans], side="right") - 1


def f1(totals: Counts) -> NDArray[np.float64]:
    """Return F1 from totals of (gold, system, correct) words in the last axis."""
    return 2 * totals[..., 2] / np.maximum(totals[..., 0] + totals[..., 1], 1)


def _as_far(distances: NDArray[np.float64], observed: float) -> int:
    """Count the samples that are at least as far from 0 as the observed difference."""
    return int(np.sum(np.abs(distances) >= abs(observed) - TIE))


def draw_swaps(rng: np.random.Generator, samples: int, sentences: int) -> NDArray[np.float64]:
    """Draw whether the two systems swap their outputs (1 or 0), for each sample and sentence. [sample, sentence]."""
    packed = rng.integers(0, 256, size=(samples, (sentences + 7) // 8), dtype=np.uint8)
    return np.unpackbits(packed, axis=1, count=sentences).astype(np.float64)


def draw_weights(rng: np.random.Generator, samples: int, sentences: int) -> NDArray[np.float64]:
    """Resample the sentences with replacement; return how often each was drawn. [sample, sentence]."""
    drawn = rng.integers(0, sentences, size=(samples, sentences))
    drawn += np.arange(samples)[:, None] * sentences
    weights = np.bincount(drawn.ravel(), minlength=samples * sentences)
    return weights.reshape(samples, sentences).astype(np.float64)
