"""Let the tested models of a treebank vote: the tree with the most votes for its arcs, from the saved trees."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.accuracy.model_rows import grouped
from benchmarks.accuracy.reproduction import TREES_FOLDER, kept_results
from benchmarks.markdown import NONE, Lines, percent, table
from benchmarks.options import PREDICTIONS_FOLDER, ROWS_FILE, SPLIT, TREEBANKS_FOLDER, command, option
from benchmarks.rows import read_rows, save_row
from treefine import Graph, Sentence, TreefineError, evaluate, read_treebank
from treefine.parsing.trees import maximum_tree
from treefine.reproduction import paper
from treefine.reproduction.collection import ResultCollection
from treefine.reproduction.predictions import load_predictions
from treefine.reproduction.results import TREES_SUFFIX, result_name

_OTHER_HEAD = 0.01  # votes for a label from a model that chose another head; they only break ties


@command(
    option("treebank", help="name of a treebank, such as ko_gsd"),
    SPLIT.but(help="test is allowed only once for the same models (default: dev)"),
    TREEBANKS_FOLDER,
    ROWS_FILE,
    PREDICTIONS_FOLDER,
)
def measure_vote(options: argparse.Namespace) -> None:
    """Measure a vote of all tested models of a treebank, from their saved trees; write one row.

    python -m benchmarks vote ko_gsd
    """
    members = dict(sorted(_members(options.treebank, options.split, options.rows)))
    if len(members) < 2:
        raise TreefineError(f"{options.treebank} has fewer than two tested models.")
    names = list(members)
    config = {"treebank": options.treebank, "split": options.split, "members": names}
    if options.split == "test" and read_rows("vote", path=options.rows, **config):
        raise TreefineError("These models have voted on the test set before.", hint="A model is tested only once.")
    gold = list(read_treebank(options.treebanks / options.treebank / f"{options.split}.conllu.xz"))
    trees = [load_predictions(options.predictions / each).graphs() for each in members.values()]
    voted = map(voted_tree, zip(*trees, strict=True))
    found = evaluate(gold, list(map(Sentence.with_graph, gold, voted)))
    alone = [evaluate(gold, list(map(Sentence.with_graph, gold, each)))["LAS"].f1 for each in trees]
    result = {name: round(found[name].f1, 6) for name in ("UAS", "LAS")}
    save_row("vote", config, result | {"best_member": round(max(alone), 6)}, path=options.rows)


def _members(treebank: str, split: str, rows: Path) -> Iterator[tuple[str, str]]:
    """Yield the name of each tested model with a pretrained encoder, and its file of trees on this split."""
    for group in grouped(read_rows("accuracy", path=rows)):
        config = group.config
        if config["treebank"] == treebank and config["kind"] != "Biaffine" and group.tested is not None:
            row = group.dev[group.chosen] if split == "dev" else group.tested
            yield f"{group.name}, seed {group.chosen}", row["result"]["predictions"]
    found = ResultCollection(tuple(kept_results(rows)))
    for system in dict.fromkeys(each.system for each in found.of_treebank(treebank)):
        tested = found.tested(treebank, system)
        if tested is not None and system not in ("biaffine", "multi"):
            name = result_name(treebank, system, tested.seed, split)
            yield f"reproduce: {system}, seed {tested.seed}", f"{TREES_FOLDER}/{name}{TREES_SUFFIX}"


def voted_tree(trees: Sequence[Graph]) -> Graph:
    """Return the tree with the most votes for its arcs; each word gets the label with the most votes for its arc.

    >>> one, two = Graph.of_words([2, 0], ["nsubj", "root"]), Graph.of_words([0, 1], ["root", "obj"])
    >>> voted_tree([one, two, one]).heads
    (0, 2, 0)
    """
    n_words = len(trees[0])
    votes = np.zeros((n_words + 1, n_words + 1))
    for tree in trees:
        votes[np.arange(1, n_words + 1), tree.heads[1:]] += 1
    heads = maximum_tree(votes).tolist()
    labels = []
    for word in range(1, n_words + 1):
        counts: dict[str, float] = {}
        for tree in trees:
            vote = 1.0 if tree.heads[word] == heads[word] else _OTHER_HEAD
            counts[tree.labels[word]] = counts.get(tree.labels[word], 0.0) + vote
        labels.append(max(counts, key=lambda label: (counts[label], label)))
    return Graph.of_words(heads[1:], labels)


def votes() -> str:
    """Return the votes of the tested models of each treebank, with the best member and the paper's best."""
    lines: Lines = [("treebank", "models", "split", "best model", "UAS", "LAS", "paper's best")]
    newest = {(row["config"]["treebank"], row["config"]["split"]): row for row in read_rows("vote")}
    for (treebank, split), row in sorted(newest.items()):
        result = row["result"]
        best = max(each.score for name, each in paper.LAS[treebank].items() if "RNGTr" in name or name == "SynTr")
        cells = (percent(result["best_member"]), percent(result["UAS"]), percent(result["LAS"]))
        reported = f"{best:.2f}" if split == "test" else NONE
        lines.append((treebank, len(row["config"]["members"]), split, *cells, reported))
    return table(*lines) if newest else NONE
