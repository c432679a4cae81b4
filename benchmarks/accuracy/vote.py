"""Let the tested models of a treebank vote: the tree with the most votes for its arcs, from the saved trees."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.accuracy.model_rows import grouped
from benchmarks.accuracy.reproduction import TREES_FOLDER, kept_results
from benchmarks.markdown import NONE, Lines, percent, table
from benchmarks.options import PREDICTIONS_FOLDER, ROWS_FILE, SPLIT, TREEBANKS_FOLDER, command, option
from benchmarks.rows import read_rows, save_row
from treefine import Graph, Sentence, TreefineError, evaluate, read_treebank
from treefine.parsing.trees import maximum_tree
from treefine_paper import paper
from treefine_paper.collection import ResultCollection
from treefine_paper.predictions import load_predictions, treebank_of
from treefine_paper.results import TREES_SUFFIX, result_name

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
    members = sorted(_members(options.treebank, options.rows))
    if len(members) < 2:
        raise TreefineError(f"{options.treebank} has fewer than two tested models.")
    config = {"treebank": options.treebank, "split": options.split, "members": [each.name for each in members]}
    if options.split == "test" and read_rows("vote", path=options.rows, **config):
        raise TreefineError("These models have voted on the test set before.", hint="A model is tested only once.")
    gold = list(read_treebank(options.treebanks / options.treebank / f"{options.split}.conllu.xz"))
    files = [each.dev_trees if options.split == "dev" else each.test_trees for each in members]
    trees = [treebank_of(load_predictions(options.predictions / each), gold) for each in files]
    voted = [voted_tree([each.graph for each in several]) for several in zip(*trees, strict=True)]
    found = evaluate(gold, list(map(Sentence.with_graph, gold, voted)))
    best = max(range(len(members)), key=lambda number: members[number].dev_las)
    result = {name: round(found[name].f1, 6) for name in ("UAS", "LAS")}
    alone = {"best_on_dev": members[best].name, "its_LAS": round(evaluate(gold, trees[best])["LAS"].f1, 6)}
    save_row("vote", config, result | alone, path=options.rows)


class Member(NamedTuple):
    """A model that votes, and the files of its trees."""

    name: str
    dev_las: float
    dev_trees: str
    test_trees: str


def _members(treebank: str, rows: Path) -> Iterator[Member]:
    """Yield the tested models of a treebank that have a pretrained encoder."""
    for group in grouped(read_rows("accuracy", path=rows)):
        config = group.config
        if config["treebank"] == treebank and config["kind"] != "Biaffine" and group.tested is not None:
            dev, test = group.dev[group.chosen]["result"], group.tested["result"]
            name = f"{group.name}, seed {group.chosen}"
            yield Member(name, dev["LAS"], dev["predictions"], test["predictions"])
    found = ResultCollection(tuple(kept_results(rows)))
    for system in dict.fromkeys(each.system for each in found.of_treebank(treebank)):
        tested = found.tested(treebank, system)
        if tested is not None and system not in ("biaffine", "multi"):
            (dev_las,) = [each.LAS for each in found.of(treebank, system, "dev") if each.seed == tested.seed]
            names = [result_name(treebank, system, tested.seed, split) for split in ("dev", "test")]
            files = [f"{TREES_FOLDER}/{name}{TREES_SUFFIX}" for name in names]
            yield Member(f"reproduce: {system}, seed {tested.seed}", dev_las, *files)


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
    lines: Lines = [("treebank", "models", "split", "LAS of the best on dev", "UAS", "LAS", "paper's best")]
    newest = {(row["config"]["treebank"], row["config"]["split"]): row for row in read_rows("vote")}
    for (treebank, split), row in sorted(newest.items()):
        result = row["result"]
        best = paper.best_las(treebank)
        cells = (percent(result["its_LAS"]), percent(result["UAS"]), percent(result["LAS"]))
        reported = f"{best:.2f}" if split == "test" else NONE
        lines.append((treebank, len(row["config"]["members"]), split, *cells, reported))
    return table(*lines) if newest else NONE
