"""Sentences and trees as flat numpy arrays. Worker processes use this module, so it does not import torch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
from jaxtyping import Int

from treefine.config import Column, TagSettings
from treefine.errors import NO_MEMORY, NO_MEMORY_HINT, TreebankError, TreefineError
from treefine.model.subwords import Subwords
from treefine.model.vocabulary import NO_HEAD, UNSEEN, Vocabulary, flat_arcs, inputs_of, tag_names
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence


@dataclass(frozen=True)
class Packed:
    """Sentences as the engine reads them."""

    pieces: Int[np.ndarray, " piece"]  # of words only, without CLS, ROOT and SEP
    counts: Int[np.ndarray, " word"]  # the number of pieces of each word, at least one
    lengths: Int[np.ndarray, " sentence"]  # the number of words of each sentence, at least one
    heads: Int[np.ndarray, " word"]  # in the initial graph, counted in the sentence; 0 is ROOT, NO_HEAD if none
    labels: Int[np.ndarray, " word"]  # UNSEEN for a missing or unknown label
    tags: Int[np.ndarray, "word column"] | None = None  # what is read of each word besides its pieces, see `inputs_of`
    n_tags: int = 0  # the first columns of `tags` are tags

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.lengths)

    @property
    def longest(self) -> int:
        """The number of pieces of the longest sentence, CLS, ROOT and SEP included."""
        if not len(self):
            return 0
        return 3 + int(np.add.reduceat(self.counts, np.cumsum(self.lengths) - self.lengths).max())


@dataclass(frozen=True)
class PackedTrees:
    """The trees of packed sentences, and the tags of their words if the model predicts them."""

    heads: Int[np.ndarray, " word"]  # counted in the sentence; 0 is ROOT
    labels: Int[np.ndarray, " word"]
    tags: Int[np.ndarray, "word column"] | None = None  # the best tag of each word, counted from 1


class NoMemoryError(TreefineError):
    """There is not enough memory for one sentence. The engine does not know its name, only its place in the stream."""

    def __init__(self, place: int) -> None:
        self.place = place  # the number of sentences before it that the engine has not yielded
        super().__init__(NO_MEMORY, hint=NO_MEMORY_HINT)

    def named(self, sentences: Iterable[Sentence]) -> TreebankError:
        """Return the error with the name of the sentence, from all sentences that the engine has not yielded."""
        return next(islice(sentences, self.place, None)).error(self.message, hint=self.hint)


def pack(
    sentences: Sequence[Sentence],
    subwords: Subwords,
    vocabulary: Vocabulary,
    tags: TagSettings,
    *,
    read: Collection[Column],
    arcs: Sequence[Arcs] | None = None,
) -> Packed:
    """Pack sentences for the engine, with their own tags in the columns to `read`, and with initial arcs if given."""
    forms = list(chain.from_iterable(sentence.forms for sentence in sentences))
    pieces = subwords.pieces_of(forms)
    if arcs is None:
        heads, labels = np.full(len(forms), NO_HEAD, np.int32), np.full(len(forms), UNSEEN, np.int32)
    else:
        heads, labels = flat_arcs(arcs, vocabulary)
    return Packed(
        np.fromiter(chain.from_iterable(pieces), np.int32),
        np.fromiter(map(len, pieces), np.int32, len(forms)),
        np.fromiter(map(len, sentences), np.int32, len(sentences)),
        heads,
        labels,
        inputs_of(sentences, vocabulary, tags, read=read),
        len(tags.columns),
    )


def filled(
    sentences: Iterable[Sentence],
    trees: PackedTrees,
    vocabulary: Vocabulary,
    tags: TagSettings,
    *,
    replaces_tags: bool = False,
) -> Iterator[Sentence]:
    """Yield the sentences with their trees and, if the model predicts them, tags (`Sentence.with_parse`)."""
    heads, labels = trees.heads.tolist(), [vocabulary.labels[each] for each in trees.labels.tolist()]
    columns = tags.columns
    tag_ids = [] if trees.tags is None else (trees.tags[:, : len(columns)].T - 1).tolist()
    start = 0
    for sentence in sentences:
        words = slice(start, start + len(sentence))
        arcs = Arcs(tuple(heads[words]), tuple(labels[words]))
        names = tag_names(vocabulary, columns, [ids[words] for ids in tag_ids], sentence) if tag_ids else []
        yield sentence.with_parse(arcs, columns, names, replaces_tags=replaces_tags, kept=tags.given)
        start = words.stop
