"""Compute and time the trees of every refinement step on a treebank, for the analysis of refinement."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from treefine.parsing.batches import run
from treefine.parsing.long_sentences import SentenceParts, in_parts, steps_together
from treefine.parsing.parser import Parser
from treefine.parsing.plan import Item, Plan, refine_items
from treefine.parsing.results import graph_of
from treefine.treebank.graph import ROOT, Arcs, Graph
from treefine.treebank.sentence import Sentence


class TimedTree(NamedTuple):
    """The tree of one sentence after one step, and whether a further step would repeat that step."""

    tree: Arcs
    converged: bool


@dataclass(frozen=True)
class TimedSteps:
    """The steps of all sentences and their times. A sentence that has converged has no further steps."""

    initial: list[Arcs] | None  # G⁰; None if no word of any sentence had a head
    steps: list[list[TimedTree]]  # of each sentence, for t = 1 …
    initial_seconds: float
    seconds: tuple[float, ...]  # for t = 1 … T: scores, graphs and trees; t = 1 includes the split into pieces
    sentences: tuple[int, ...]  # how many sentences were refined in t = 1 … T
    predicts_tags: bool  # if so, a sentence that lacks tags cannot converge in t = 1

    @property
    def first(self) -> int:
        """The t of the first trees: 0 with initial parses, else 1."""
        return 1 if self.initial is None else 0

    @property
    def trees(self) -> list[list[Arcs]]:
        """The trees of each t from `first` on; a sentence that has converged keeps its last tree."""
        by_step = [[found[min(t, len(found) - 1)].tree for found in self.steps] for t in range(len(self.seconds))]
        return by_step if self.initial is None else [self.initial, *by_step]

    @property
    def converged(self) -> list[int]:
        """The number of sentences that had converged by each t after `first`."""
        stopped = [len(found) for found in self.steps if found[-1].converged]
        return [sum(each <= t for each in stopped) for t in range(self.first + 1, len(self.seconds) + 1)]


def timed_steps(
    parser: Parser, sentences: Sequence[Sentence], *, on_sentences: Callable[[int], None] = lambda _: None
) -> TimedSteps:
    """Refine the sentences with a tree at every step, as the paper's analyses do, and measure the time of each t.

    `on_sentences` is called with the number of sentences that have just been finished.
    """
    start = _now(parser.device)
    if isinstance(parser.initial, Parser):
        arcs = [sentence.arcs for sentence in parser.initial.using(keep="nothing").stream_trees(sentences)]
    else:
        arcs = list(parser.initial(sentences))
    initial_seconds = _now(parser.device) - start
    seconds, refined = [0.0] * parser.max_steps, [0] * parser.max_steps

    @in_parts(_joined)
    @torch.no_grad()
    def timed(plan: Plan, items: Sequence[Item]) -> list[list[TimedTree]]:
        found: list[list[TimedTree]] = [[] for _ in items]
        ends = [_now(plan.device)]
        for step in refine_items(plan, items, wants_trees=True):
            trees = plan.decoder.trees(step.scores, step.graphs, step.batch.is_word).listed()
            for row, (length, converged) in enumerate(zip(step.batch.lengths, step.converged.tolist(), strict=True)):
                tree = graph_of(trees, row, length, plan.model.vocabulary)
                found[step.sentences[row]].append(TimedTree(tree.arcs, converged))
            ends.append(_now(plan.device))
        for t in range(len(ends) - 1):  # only now: a batch that runs out of memory is repeated in halves
            seconds[t] += ends[t + 1] - ends[t]
        return found

    def work(plan: Plan, items: Sequence[Item]) -> list[list[TimedTree]]:
        found = timed(plan, items)
        for t in range(parser.max_steps):
            refined[t] += sum(len(each) > t for each in found)
        on_sentences(len(items))
        return found

    plan = replace(parser.using(keep="nothing").plan(), initial=lambda _: iter(arcs), trust=())
    steps = [found for _, found in run(plan, sentences, work, one_by_one=True)]
    has_initial = any(head is not None for each in arcs for head in each.heads)
    initial = arcs if has_initial else None
    return TimedSteps(initial, steps, initial_seconds, tuple(seconds), tuple(refined), plan.predicts_tags)


def _joined(plan: Plan, parts: SentenceParts, found: Sequence[list[TimedTree]]) -> list[TimedTree]:
    """Join the trees of the parts of a long sentence at each step."""
    joined = []
    for steps in steps_together(found):
        trees = [Graph.of_words([head or ROOT for head in each.tree.heads], each.tree.labels) for each in steps]
        joined.append(TimedTree(parts.tree(trees).tree.arcs, all(each.converged for each in steps)))
    return joined


def _now(device: torch.device) -> float:
    """Return the time in seconds, after the device has finished its queued work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
