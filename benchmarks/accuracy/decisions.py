"""Measure how a person's decisions improve the other words, and the rank of the right tree among the k best."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.accuracy.calibration import calibration_error
from benchmarks.accuracy.model_rows import gold_fields, treebank_path, without_tags
from benchmarks.markdown import table
from benchmarks.options import OF_ONE_MODEL, SPLIT, command, dev_only
from benchmarks.rows import model_fields, read_rows, save_row
from treefine import Constraints, Graph, Parser, Sentence, read_treebank

SHARES = (0.1, 0.3, 0.5)
K = 10
SEED = 1


@command(*OF_ONE_MODEL[:2], SPLIT.but(type=dev_only, choices=None, help="only dev is allowed"), *OF_ONE_MODEL[3:])
def measure_decisions(options: argparse.Namespace) -> None:
    """Measure the LAS of words without a decision, and the ranks of the right trees, on dev; write one row.

    python -m benchmarks decisions --model en
    """
    gold = list(read_treebank(treebank_path(options)))
    parser = Parser.from_pretrained(options.model, device=options.device)
    config = model_fields(options.model) | gold_fields(options, gold) | {"seed": SEED, "k": K}
    words = [without_tags(sentence) for sentence in gold]
    free = [each.graph for each in parser.stream_trees(words)]
    result = {"kept": measured_kept(parser, words, gold, free), "ranked": measured_ranked(parser, words, gold)}
    save_row("decisions", config, result, path=options.rows)


def measured_kept(
    parser: Parser,
    words: Sequence[Sentence],
    gold: Sequence[Sentence],
    free: Sequence[Graph],
    shares: Sequence[float] = SHARES,
) -> list[dict[str, Any]]:
    """Return the LAS of the words without a decision, when some words have their gold arcs fixed.

    `free` holds the trees without decisions.
    """
    draw, found = random.Random(SEED), []
    for share in shares:
        decided = [decisions_of(sentence, share, draw) for sentence in gold]
        kept = [each.graph for each in parser.stream_trees(words, constraints=decided)] if share else free
        n_words = sum(len(sentence) - len(each.heads) for sentence, each in zip(gold, decided, strict=True))
        found.append(
            {
                "share": share,
                "words": n_words,
                "LAS_without": round(right_others(free, gold, decided) / n_words, 6),
                "LAS": round(right_others(kept, gold, decided) / n_words, 6),
            }
        )
    return found


def decisions_of(sentence: Sentence, share: float, draw: random.Random) -> Constraints:
    """Return the gold arcs of about this share of the words. A share of 0 leaves `draw` as it is."""
    words = [word for word in range(1, len(sentence) + 1) if share and draw.random() < share]
    heads = {word: sentence.graph.heads[word] for word in words}
    return Constraints(heads, {word: sentence.labels[word - 1] for word in words})


def right_others(trees: Sequence[Graph], gold: Sequence[Sentence], decided: Sequence[Constraints]) -> int:
    """Count the words without a decision that have their gold head and main type."""
    return sum(
        len(sentence) - len(wrong_words(tree, sentence.graph) | each.heads.keys())
        for tree, sentence, each in zip(trees, gold, decided, strict=True)
    )


def wrong_words(tree: Graph, gold: Graph) -> set[int]:
    """Return the words that do not have their gold head and main type."""
    return {
        word
        for word in range(1, len(gold) + 1)
        if (tree.heads[word], _main(tree.labels[word])) != (gold.heads[word], _main(gold.labels[word]))
    }


def _main(label: str) -> str:
    return label.partition(":")[0]


def measured_ranked(parser: Parser, words: Sequence[Sentence], gold: Sequence[Sentence]) -> dict[str, Any]:
    """Return how often the gold heads are among the first k trees, and how well the probabilities are calibrated."""
    start = time.perf_counter()
    for _ in parser.stream(words):
        pass
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    found = [parse.trees for parse in parser.using(k=K).stream(words)]
    seconds_of_k = time.perf_counter() - start
    ranks = np.array(
        [
            next((rank for rank, each in enumerate(trees) if each.tree.heads == sentence.graph.heads), K)
            for trees, sentence in zip(found, gold, strict=True)
        ]
    )
    first = np.array([trees[0].probability for trees in found])
    return {
        "right_within": [round(float((ranks < k).mean()), 6) for k in range(1, K + 1)],
        "probability_within": [
            round(float(np.mean([sum(each.probability for each in trees[:k]) for trees in found])), 6)
            for k in range(1, K + 1)
        ],
        "error": round(calibration_error(first, ranks == 0, n_bins=10, kind="width"), 6),
        "seconds_of_one": round(seconds, 2),
        "seconds": round(seconds_of_k, 2),
        "k/one": round(seconds_of_k / seconds, 3),
    }


def decisions() -> str:
    """Return the newest row as two tables."""
    rows = read_rows("decisions")
    if not rows:
        return "Not measured yet."
    row = rows[-1]
    kept, ranked, config = row["result"]["kept"], row["result"]["ranked"], row["config"]
    lines = [("arcs fixed by a person", "LAS of the other words", "LAS without fixed arcs")]
    lines += [(f"{each['share']:.0%}", f"{100 * each['LAS']:.2f}", f"{100 * each['LAS_without']:.2f}") for each in kept]
    shown = (1, 2, 3, 5, 10)
    right = [f"{100 * ranked['right_within'][k - 1]:.1f}%" for k in shown]
    said = [f"{100 * ranked['probability_within'][k - 1]:.1f}%" for k in shown]
    trees = [("first k trees", *shown), ("contain the right heads", *right), ("sum of their probabilities", *said)]
    return (
        f"{table(*lines)}\n\n{table(*trees)}\n\n{config['sentences']:,} sentences of {config['treebank']} "
        f"{config['split']}, gold words without tags, model `{config['model']}`; the fixed arcs are drawn with seed "
        f"{config['seed']}. Finding {config['k']} trees takes {ranked['k/one']:.2f} times as long as finding one. The "
        f"calibration error of the first tree's probability is {100 * ranked['error']:.2f}%. "
        f"`python -m benchmarks decisions`, commit {row['commit']}."
    )
