"""Dev scores after each epoch, step by step, without writing the trees and reading them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from treefine.errors import TreefineError
from treefine.evaluation.scores import compared_labels, rule_of
from treefine.evaluation.words import load_words
from treefine.parsing.batches import batches, halving
from treefine.training.learner import Learner
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Accuracy:
    """Shares of correct words. `las_by_step` scores the graphs Gᵗ as they are, `uas` and `las` the final trees."""

    las_by_step: tuple[float, ...]
    uas: float
    las: float
    las_from: dict[str, float] = field(default_factory=dict)  # LAS from each source of G⁰, if there are several


def mean_accuracy(by_source: Mapping[str, Accuracy]) -> Accuracy:
    """Return the mean over the sources of G⁰, each of which counts the same."""
    found = list(by_source.values())
    if len(found) == 1:
        return found[0]
    by_step = (float(np.mean(each)) for each in zip(*(one.las_by_step for one in found), strict=True))
    uas, las = (float(np.mean([getattr(each, name) for each in found])) for name in ("uas", "las"))
    return Accuracy(tuple(by_step), uas, las, {name: each.las for name, each in by_source.items()})


class DevScorer:
    """Scores parses of the dev sentences by the rule of their corpus."""

    def __init__(self, sentences: Sequence[Sentence], labels: Sequence[str], *, rule: str) -> None:
        chosen = rule_of(rule)
        words = load_words(sentences, is_ud=chosen.is_ud)
        compared = compared_labels(words, is_ud=chosen.is_ud)
        ours = [label.partition(":")[0] if chosen.is_ud else label for label in labels]
        ids = {label: number for number, label in enumerate(dict.fromkeys([*ours, *compared]))}
        self.sentences = sentences
        self.of_label = np.array([ids[label] for label in ours])  # the compared label of each label of the model
        counts = np.ones(len(words), dtype=bool)
        if chosen.is_left_out is not None:
            counts = np.array([not chosen.is_left_out(words, word) for word in range(len(words))], dtype=bool)
        ends = np.cumsum([len(sentence) for sentence in sentences])[:-1]
        self.heads = [np.array(each.heads) for each in sentences]
        self.labels = np.split(np.array([ids[label] for label in compared]), ends)
        self.counts = np.split(counts, ends)
        self.total = max(1, int(counts.sum()))

    def right(self, sentence: int, heads: np.ndarray, labels: np.ndarray) -> tuple[int, int]:
        """Count the words of a sentence with the right head, and those that have the right label as well."""
        has_head = (heads == self.heads[sentence]) & self.counts[sentence]
        has_both = has_head & (self.of_label[labels] == self.labels[sentence])
        return int(has_head.sum()), int(has_both.sum())

    @torch.no_grad()
    def accuracy(self, learner: Learner, arcs: Sequence[Arcs]) -> Accuracy:
        """Refine these initial graphs with the averaged weights, if there are any, and score each step."""
        model, max_steps = learner.model.eval(), learner.recipe.refine.max_steps

        def right_words(numbers: Sequence[int]) -> list[np.ndarray]:
            found = np.zeros((len(numbers), max_steps + 2), dtype=np.int64)  # LAS by step, then the tree's UAS and LAS
            chosen = [self.sentences[each] for each in numbers]
            for step in learner.steps(chosen, [arcs[each] for each in numbers], learner.tags_of(chosen)):
                is_last = step.t == max_steps
                ending = {row for row, done in enumerate(step.converged.tolist()) if done or is_last}
                trees = learner.decoder.trees(step.scores, step.graphs, step.batch.is_word, rows=ending)
                graphs, trees = step.graphs.to(_CPU), trees.to(_CPU)
                for row, (place, length) in enumerate(zip(step.sentences, step.batch.lengths, strict=True)):
                    number = numbers[place]
                    found[place, step.t - 1 : max_steps] = self.right(number, *graphs.words(row, length))[1]
                    if row in ending:
                        found[place, max_steps:] = self.right(number, *trees.words(row, length))
            return list(found)

        def too_long(number: int) -> TreefineError:
            return self.sentences[number].error("Memory does not suffice for this sentence.", hint="Leave it out.")

        sizes = [model.n_pieces(sentence) for sentence in self.sentences]
        total = np.zeros(max_steps + 2, dtype=np.int64)
        with learner.optimiser.averaged():
            for numbers in batches(sizes, 4 * learner.recipe.training.batch_pieces, learner.longest):
                total += np.sum(halving(numbers, right_words, too_long), axis=0)
        *by_step, uas, las = (total / self.total).tolist()
        return Accuracy(tuple(by_step), uas, las)
