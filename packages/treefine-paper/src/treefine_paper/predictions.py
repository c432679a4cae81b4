"""Save the trees of each step in a small file without words; the gold treebank supplies the words."""

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

from treefine import Graph, Sentence, TreefineError

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
    dependents = _dependents(predictions.lengths)
    distances = np.where(predictions.heads == 0, 0, predictions.heads - dependents)  # 0 is ROOT: no word heads itself
    last = len(distances) - 1
    parts = [distances[last], predictions.label_ids[last]]
    for tree in range(last - 1, -1, -1):
        differs = (distances[tree] != distances[tree + 1]) | (
            predictions.label_ids[tree] != predictions.label_ids[tree + 1]
        )
        words = np.flatnonzero(differs)
        parts += [np.diff(words, prepend=0), distances[tree, words], predictions.label_ids[tree, words]]
    header = {
        "format": TREES_FORMAT,
        "gold": predictions.gold,
        "first": predictions.first,
        "labels": predictions.labels,
        "parts": [len(part) for part in parts],
    }
    line = json.dumps(header, ensure_ascii=False) + "\n"
    content = line.encode() + b"".join(map(_packed, [np.array(predictions.lengths), *parts]))
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
        n_lengths = len(content) // 4 - sum(header["parts"])
        numbers = _unpacked(content, [n_lengths, *header["parts"]])
    except (lzma.LZMAError, EOFError, ValueError, KeyError, TypeError) as error:
        raise TreefineError(f"These predictions are damaged: {error}.", path=str(path)) from None
    lengths, distances, label_ids, *changes = numbers
    trees = [(distances, label_ids)]
    for words, new_distances, new_labels in zip(changes[::3], changes[1::3], changes[2::3], strict=True):
        distances, label_ids = distances.copy(), label_ids.copy()
        places = np.cumsum(words)
        distances[places], label_ids[places] = new_distances, new_labels
        trees.insert(0, (distances, label_ids))
    all_distances = np.array([each for each, _ in trees])
    heads = np.where(all_distances == 0, 0, all_distances + _dependents(lengths.tolist()))
    labels = np.array([each for _, each in trees])
    return Predictions(header["gold"], tuple(lengths.tolist()), tuple(header["labels"]), header["first"], heads, labels)


def _dependents(lengths: Sequence[int]) -> WordNumbers:
    return np.concatenate([np.arange(1, length + 1) for length in lengths] or [np.zeros(0, dtype=np.int64)])


def _packed(numbers: WordNumbers) -> bytes:
    """Pack each number in four bytes, all first bytes first: the higher bytes are nearly equal and compress well."""
    planes: NDArray[np.uint8] = numbers.astype("<i4").view(np.uint8).reshape(-1, 4).T
    return planes.tobytes()


def _unpacked(content: bytes, sizes: Sequence[int]) -> list[WordNumbers]:
    found, start = [], 0
    for size in sizes:
        planes = np.frombuffer(content, dtype=np.uint8, count=4 * size, offset=start).reshape(4, size)
        found.append(np.ascontiguousarray(planes.T).view("<i4").reshape(size).astype(np.int64))
        start += 4 * size
    return found
