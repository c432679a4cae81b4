"""The trees of each step of a parser, saved in a small file without words; the gold treebank supplies the words."""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import nn

from treefine import Graph, Parser, Sentence, TreefineError
from treefine.parsing.initial import input_trees

TREES_FORMAT = 1
WordNumbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Predictions:
    """The trees of all sentences as arrays over all words. The last tree of a sentence is its parse."""

    gold: str  # SHA-256 of the gold treebank's text
    lengths: tuple[int, ...]  # words of each sentence
    labels: tuple[str, ...]
    first: int  # t of the first tree: 0 with an initial parse, 1 without
    heads: WordNumbers  # [tree, word]
    label_ids: WordNumbers  # [tree, word]

    def graphs(self, t: int | None = None) -> list[Graph]:
        """Return the tree of each sentence after step t, or the final one; a stopped sentence keeps its last tree."""
        last = self.first + len(self.heads) - 1
        if t is not None and not self.first <= t <= last:
            raise TreefineError(f"Step {t} has no trees.", hint=f"Choose a step from {self.first} to {last}.")
        tree = -1 if t is None else t - self.first
        ends = np.cumsum([0, *self.lengths]).tolist()
        heads, names = self.heads[tree].tolist(), [self.labels[label] for label in self.label_ids[tree].tolist()]
        return [Graph.of_words(heads[start:end], names[start:end]) for start, end in pairwise(ends)]

    @property
    def steps(self) -> range:
        """The steps that have trees."""
        return range(self.first, self.first + len(self.heads))


def predictions_of(gold: Sequence[Sentence], trees: Sequence[Sequence[Graph]], *, first: int) -> Predictions:
    """Return predictions to save; `trees` has one list per step, from step `first` on, with one tree per sentence."""
    labels = tuple(sorted({label for step in trees for tree in step for label in tree.labels[1:]}))
    ids = {label: number for number, label in enumerate(labels)}
    return Predictions(
        checksum(gold),
        tuple(map(len, gold)),
        labels,
        first,
        np.array([[head for tree in step for head in tree.heads[1:]] for step in trees]),
        np.array([[ids[label] for tree in step for label in tree.labels[1:]] for step in trees]),
    )


def treebank_of(predictions: Predictions, gold: Sequence[Sentence], *, t: int | None = None) -> list[Sentence]:
    """Return the gold sentences with the trees of step t, or with the final trees, instead of the gold trees."""
    if predictions.gold != checksum(gold):
        raise TreefineError("These predictions were made from another treebank.")
    return [sentence.with_graph(tree) for sentence, tree in zip(gold, predictions.graphs(t), strict=True)]


def checksum(sentences: Iterable[Sentence]) -> str:
    """Return the SHA-256 of a treebank's text, independent of the compression of its file."""
    return hashlib.sha256("".join(sentence.to_conllu() for sentence in sentences).encode()).hexdigest()


def save_predictions(predictions: Predictions, path: Path) -> str:
    """Write a line of JSON, then numbers (for trees before the last only the differences); return the SHA-256."""
    heads = predictions.heads
    distances = np.where(heads == 0, 0, heads - _dependents(predictions.lengths))  # 0 is ROOT: no word heads itself
    columns = np.stack((distances, predictions.label_ids))  # [2, tree, word]
    parts = [*columns[:, -1]]
    for tree in reversed(range(len(heads) - 1)):
        words = np.flatnonzero((columns[:, tree] != columns[:, tree + 1]).any(0))
        parts += [np.diff(words, prepend=0), *columns[:, tree, words]]
    header = {
        "format": TREES_FORMAT,
        "gold": predictions.gold,
        "first": predictions.first,
        "labels": predictions.labels,
        "parts": [len(part) for part in parts],
    }
    content = (json.dumps(header, ensure_ascii=False) + "\n").encode()
    for numbers in (np.array(predictions.lengths), *parts):
        # All first bytes of the numbers come first: the higher bytes are nearly equal and compress well.
        content += numbers.astype("<i4").view(np.uint8).reshape(-1, 4).T.tobytes()
    packed = lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(packed)
    return hashlib.sha256(packed).hexdigest()


def load_predictions(path: Path) -> Predictions:
    """Read what `save_predictions` wrote."""
    try:
        line, content = lzma.decompress(path.read_bytes()).split(b"\n", 1)
        header = json.loads(line)
        if header["format"] != TREES_FORMAT:
            raise ValueError(f"it has format {header['format']}, not {TREES_FORMAT}")
        ends = len(content) + 4 * np.cumsum([-sum(header["parts"]), *header["parts"]])
        planes = np.split(np.frombuffer(content, dtype=np.uint8), ends[:-1])
        numbers = [np.ascontiguousarray(part.reshape(4, -1).T).view("<i4").ravel().astype(np.int64) for part in planes]
    except (lzma.LZMAError, EOFError, ValueError, KeyError, TypeError) as error:
        raise TreefineError(f"These predictions are damaged: {error}.", path=str(path)) from None
    lengths, distances, label_ids, *changes = numbers
    trees = [np.stack((distances, label_ids))]
    for words, *new in zip(changes[::3], changes[1::3], changes[2::3], strict=True):
        tree = trees[0].copy()
        tree[:, np.cumsum(words)] = new
        trees.insert(0, tree)
    distances, label_ids = np.stack(trees, axis=1)
    heads = np.where(distances == 0, 0, distances + _dependents(lengths.tolist()))
    labels = tuple(header["labels"])
    return Predictions(header["gold"], tuple(lengths.tolist()), labels, header["first"], heads, label_ids)


def _dependents(lengths: Sequence[int]) -> WordNumbers:
    return np.concatenate([np.arange(1, length + 1) for length in lengths])


def parsed_steps(parser: Parser, gold: Sequence[Sentence]) -> Predictions:
    """Return the tree after each step (a stopped sentence keeps its last), and the initial parses if all are trees."""
    initial: list[Graph] = []
    if isinstance(parser.initial, Parser):
        initial = [sentence.graph for sentence in parser.initial.stream_trees(gold)]
    elif any(head is not None for arcs in parser.initial(gold) for head in arcs.heads):
        initial = [Graph.of_words([head or 0 for head in arcs.heads], arcs.labels) for arcs in parser.initial(gold)]
    if initial:
        parses = [sentence.with_graph(graph) for sentence, graph in zip(gold, initial, strict=True)]
        parser = parser.using(initial=lambda _: input_trees(parses), max_steps=parser.max_steps)
    steps = [[step.tree for step in steps] for _, steps in parser.stream_steps(gold)]
    trees = [[own[min(t, len(own)) - 1] for own in steps] for t in range(1, parser.max_steps + 1)]
    if initial and all(graph.is_tree for graph in initial):  # the scorer rejects other graphs
        return predictions_of(gold, [initial, *trees], first=0)
    return predictions_of(gold, trees, first=1)


def n_parameters(model: nn.Module) -> int:
    """Return the number of parameters, pretrained ones included."""
    return sum(weight.numel() for weight in model.parameters())
