"""Parses of other parsers, with the errors they make on new text: the training set's come from parsers of the rest."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from benchmarks.others_parsers import Other
from benchmarks.predictions import checksum
from benchmarks.rows import save_row
from treefine import Graph, Sentence, evaluate, read_treebank, write_treebank
from treefine.training.initial_parses import blocks

WHOLE = -1  # the training on all of train, for dev


@dataclass(frozen=True)
class Part:
    """One training and what it parses: a fold of train, with a parser of the other folds; or dev, with one of all."""

    name: str
    other: Other
    folder: Path  # of the treebank
    sentences: int | None  # of each file; all without it
    folds: int
    fold: int

    def parsed(self) -> tuple[list[Graph], float]:
        """Its trees, and how many seconds they took; all of it in this process."""
        start = time.perf_counter()
        train = treebank(self.folder, "train", self.sentences)
        if self.fold == WHOLE:
            graphs = self.other.trees(train, treebank(self.folder, "dev", self.sentences))
        else:
            block = blocks(len(train), self.folds)[self.fold]
            graphs = self.other.trees([*train[: block.start], *train[block.stop :]], train[block.start : block.stop])
        seconds = time.perf_counter() - start
        what = "dev" if self.fold == WHOLE else f"fold {self.fold + 1} of {self.folds}"
        print(f"{self.name}: {what} parsed, {len(graphs)} sentences, {seconds:.0f} s", file=sys.stderr, flush=True)
        return graphs, seconds


def treebank(folder: Path, split: str, sentences: int | None) -> list[Sentence]:
    """The first sentences of a split, or all."""
    return list(islice(read_treebank(folder / f"{split}.conllu.xz"), sentences))


def make_parses(others: Mapping[str, Other], options: argparse.Namespace) -> None:
    """Write NAME-train.conllu and NAME-dev.conllu for each parser; a row tells how good its parses are."""
    folder = options.treebanks / options.treebank
    train, dev = (treebank(folder, split, options.sentences) for split in ("train", "dev"))
    folds = [WHOLE, *range(options.folds)]  # the longest training first
    parts = [
        Part(name, other, folder, options.sentences, options.folds, fold)
        for fold in folds
        for name, other in others.items()
    ]
    found = dict(zip(((part.name, part.fold) for part in parts), _all_parsed(parts, options.jobs), strict=True))
    options.output.mkdir(parents=True, exist_ok=True)
    for name, other in others.items():
        jackknifed = [graph for fold in range(options.folds) for graph in found[name, fold][0]]
        result: dict[str, float] = {}
        for split, gold, graphs in (("train", train, jackknifed), ("dev", dev, found[name, WHOLE][0])):
            parses = [sentence.with_graph(graph) for sentence, graph in zip(gold, graphs, strict=True)]
            write_treebank(parses, options.output / f"{name}-{split}.conllu")
            result[f"not trees, {split}"] = sum(not graph.is_tree for graph in graphs)
            if not result[f"not trees, {split}"]:  # the scorer refuses others
                scores = evaluate(gold, parses)
                result |= {f"{metric}, {split}": round(scores[metric].f1, 6) for metric in ("UAS", "LAS")}
        result |= {"seconds": round(sum(found[name, fold][1] for fold in folds), 1)}
        config = {
            "parser": name,
            "package": f"{other.package} {metadata.version(other.package)}",
            "settings": other.settings,
            "folds": options.folds,
            "treebank": options.treebank,
            "gold": checksum(dev),
            "sentences": len(train),
        }
        save_row("others_made", config, result, path=options.rows)


def _all_parsed(parts: Sequence[Part], jobs: int) -> list[tuple[list[Graph], float]]:
    if jobs == 1:
        return [part.parsed() for part in parts]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        return list(pool.map(Part.parsed, parts))
