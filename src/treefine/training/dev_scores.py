"""Dev scores after each epoch, step by step, quicker than writing trees out and reading them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from treefine.evaluation.scores import compared_labels, rule_of
from treefine.evaluation.words import load_words
from treefine.treebank.sentence import Sentence


@dataclass(frozen=True)
class Accuracy:
    """Shares of right words. Those by step are of the graphs Gᵗ as they are, the last two of the final trees."""

    las_by_step: tuple[float, ...]
    uas: float
    las: float
    las_from: dict[str, float] = field(default_factory=dict)  # where there are several sources of G⁰: from each of them


def mean_accuracy(by_source: Mapping[str, Accuracy]) -> Accuracy:
    """The mean over the sources of G⁰, each of which counts the same; of a single one it is its own."""
    found = list(by_source.values())
    if len(found) == 1:
        return found[0]
    by_step = (float(np.mean(each)) for each in zip(*(one.las_by_step for one in found), strict=True))
    uas, las = (float(np.mean([getattr(each, name) for each in found])) for name in ("uas", "las"))
    return Accuracy(tuple(by_step), uas, las, {name: each.las for name, each in by_source.items()})


class Measure:
    """Counts right words of one treebank, whose words parser and gold share, by the rule of its corpus."""

    def __init__(self, sentences: Sequence[Sentence], labels: Sequence[str], *, rule: str) -> None:
        chosen = rule_of(rule)
        words = load_words(sentences, is_ud=chosen.is_ud)
        compared = compared_labels(words, is_ud=chosen.is_ud)
        ours = [label.partition(":")[0] if chosen.is_ud else label for label in labels]
        ids = {label: number for number, label in enumerate(dict.fromkeys([*ours, *compared]))}
        self.of_label = np.array([ids[label] for label in ours])  # what each of the model's labels counts as
        counts = np.ones(len(words), dtype=bool)
        if chosen.is_left_out is not None:
            counts = np.array([not chosen.is_left_out(words, word) for word in range(len(words))], dtype=bool)
        starts = np.cumsum([0, *map(len, sentences)])
        self.heads = [np.array(each.heads) for each in sentences]
        flat = np.array([ids[label] for label in compared])
        self.labels = [flat[start:end] for start, end in zip(starts, starts[1:], strict=False)]
        self.counts = [counts[start:end] for start, end in zip(starts, starts[1:], strict=False)]
        self.total = max(1, int(counts.sum()))

    def right(self, sentence: int, heads: np.ndarray, labels: np.ndarray) -> tuple[int, int]:
        """How many counted words of a sentence have the right head, and how many the right label as well."""
        has_head = (heads == self.heads[sentence]) & self.counts[sentence]
        has_both = has_head & (self.of_label[labels] == self.labels[sentence])
        return int(has_head.sum()), int(has_both.sum())
