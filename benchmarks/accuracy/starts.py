"""Refine each sentence from several initial graphs, and choose among the final trees."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.accuracy.model_rows import gold_fields, treebank_path, without_tags
from benchmarks.options import OF_ONE_MODEL, SPLIT, command, count, dev_only
from benchmarks.rows import model_fields, save_row
from treefine import Graph, Parser, Sentence, evaluate, read_treebank
from treefine.evaluation.scores import load_pairs
from treefine.evaluation.significance import ALPHA, SAMPLES, SEED, compare, difference_fields
from treefine.parsing.initial import InitialParser, given
from treefine.parsing.results import Step

MOST_STEPS = 10  # by then nearly all sentences have converged
PLAIN = "one start"


@dataclass(frozen=True)
class Final:
    """The tree at the end of one refinement of one sentence."""

    tree: Graph
    log_probability: float  # of its arcs and labels, under the scores of its own last step
    n_steps: int


Choose = Callable[[Sequence[Final]], Final]


@command(
    *OF_ONE_MODEL[:2],
    SPLIT.but(type=dev_only, choices=None, help="only dev is allowed"),
    *OF_ONE_MODEL[3:],
    count("--k", 3, "number of the best trees of the first step to start from"),
    count("--sentences", None, "only the first sentences (default: all)"),
)
def measure_starts(options: argparse.Namespace) -> None:
    """Start from an empty graph and from the k best trees of the first step, and choose among the final trees.

    python -m benchmarks starts --model en
    """
    gold = list(read_treebank(treebank_path(options)))[: options.sentences]
    parser = Parser.from_pretrained(options.model, device=options.device, keep="nothing")
    config = model_fields(options.model) | gold_fields(options, gold)
    config |= {"T": parser.max_steps, "most_steps": MOST_STEPS, "k": options.k, "device": parser.device.type}
    result = measured_starts(parser, gold, k=options.k)
    save_row("starts", config, result, path=options.rows)


def measured_starts(parser: Parser, gold: Sequence[Sentence], *, k: int) -> dict[str, Any]:
    """Return the LAS, passes and time of plain parsing, and of each way to choose among several starts."""
    words = [without_tags(sentence) for sentence in gold]
    began = time.perf_counter()
    plain = finals(parser, words)
    plain_seconds = time.perf_counter() - began
    began = time.perf_counter()
    starts = several(parser, words, k=k)
    seconds = time.perf_counter() - began
    oracle = [max(each, key=lambda one: n_right(one.tree, truth)) for each, truth in zip(starts, gold, strict=True)]
    chosen = {PLAIN: plain, "fixed point from an empty graph": [each[0] for each in starts]}
    chosen |= {name: [choose(each) for each in starts] for name, choose in CHOICES.items()}
    chosen |= {"best by gold": oracle}
    trees = {
        name: [sentence.with_graph(each.tree) for sentence, each in zip(gold, found, strict=True)]
        for name, found in chosen.items()
    }
    compared = compare(load_pairs(gold, trees), alpha=ALPHA, samples=SAMPLES, seed=SEED)
    result: dict[str, Any] = {}
    for name in chosen:
        result[name] = {"LAS": round(evaluate(gold, trees[name])["LAS"].f1, 6)}
        if name != PLAIN:
            result[name] |= difference_fields(compared.between(PLAIN, name))
    result["sentences_with_several_trees"] = round(
        float(np.mean([len({one.tree for one in each}) > 1 for each in starts])), 6
    )
    n_plain = sum(each.n_steps for each in plain)
    # The first step from an empty graph, which also gives the k best trees, is needed only once.
    n_several = sum(one.n_steps for each in starts for one in each)
    return result | {
        "passes_per_sentence": round(n_plain / len(gold), 3),
        "passes_per_sentence_of_several": round(n_several / len(gold), 3),
        "seconds": round(plain_seconds, 1),
        "seconds_of_several": round(seconds, 1),
    }


def several(parser: Parser, words: Sequence[Sentence], *, k: int) -> list[list[Final]]:
    """Return the final trees of each sentence: from an empty graph, then from the k best trees of the first step.

    A sentence with fewer trees starts from its last one again.
    """
    first = [parse.trees for parse in parser.using(max_steps=1, k=k).stream(words)]
    found = [finals(parser.using(max_steps=MOST_STEPS), words)]
    for rank in range(k):
        trees = [
            sentence.with_graph(each[min(rank, len(each) - 1)].tree)
            for sentence, each in zip(words, first, strict=True)
        ]
        found.append(finals(parser.using(initial=starting_from(trees), max_steps=MOST_STEPS), words))
    return [list(each) for each in zip(*found, strict=True)]


def starting_from(trees: Sequence[Sentence]) -> InitialParser:
    """Return an initial parser that yields these trees, whatever the sentences are."""
    return lambda _: given(trees)


def finals(parser: Parser, words: Sequence[Sentence]) -> list[Final]:
    """Refine each sentence until it converges or reaches the maximum number of steps."""
    found = (steps for _, steps in parser.stream_steps(words))
    return [Final(steps[-1].tree, log_probability(steps[-1]), len(steps)) for steps in found]


def log_probability(step: Step) -> float:
    """Return the sum of the log-probabilities of the tree's heads, and of its labels where graph and tree agree."""
    words = np.arange(1, len(step.tree.heads))
    heads = np.array(step.tree.heads[1:])
    arcs = np.log(step.arc_probabilities[words, heads] + 1e-30).sum()
    alike = words[heads == np.array(step.graph.heads[1:])]
    ids = {label: number for number, label in enumerate(step.labels)}
    labels = np.array([ids[step.tree.labels[word]] for word in alike], dtype=int)
    return float(arcs + np.log(step.label_probabilities[alike, labels] + 1e-30).sum())


def most_probable(found: Sequence[Final]) -> Final:
    """Choose the tree with the highest probability; the first of equal ones."""
    return max(found, key=lambda each: each.log_probability)


def most_agreed(found: Sequence[Final]) -> Final:
    """Choose the tree that shares the most arcs with the others; the first of equal ones."""
    return max(found, key=lambda each: sum(n_right(each.tree, other.tree) for other in found))


CHOICES: dict[str, Choose] = {"most probable": most_probable, "most agreed": most_agreed}


def n_right(tree: Graph, other: Graph | Sentence) -> int:
    """Count the words with the same head and label, subtypes ignored."""
    right = other.graph if isinstance(other, Sentence) else other
    pairs = zip(tree.heads, tree.labels, right.heads, right.labels, strict=True)
    return sum(a == b and _main(x) == _main(y) for a, x, b, y in pairs) - 1  # ROOT


def _main(label: str) -> str:
    return label.partition(":")[0]
