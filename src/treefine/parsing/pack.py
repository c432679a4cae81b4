"""Sentences to the flat arrays that an engine reads, and its trees back into the sentences; without torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from treefine.config import Column
from treefine.network.flat import NO_HEAD, flat_arcs, flat_tags
from treefine.network.packed_arrays import Packed, PackedTrees
from treefine.network.subwords import Subwords
from treefine.network.vocabulary import UNSEEN, Vocabulary
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import BLANK, Sentence


def pack(
    sentences: Sequence[Sentence],
    subwords: Subwords,
    vocabulary: Vocabulary,
    columns: Sequence[Column],
    *,
    reads_tags: bool,
    arcs: Sequence[Arcs] | None = None,
) -> Packed:
    """The sentences as the engine reads them: with the tags that they have if `reads_tags`, and with initial arcs."""
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
        flat_tags(sentences, vocabulary, columns) if reads_tags else None,
    )


def filled(
    sentences: Iterable[Sentence], trees: PackedTrees, vocabulary: Vocabulary, columns: Sequence[Column]
) -> Iterator[Sentence]:
    """The sentences with their trees, and with the tags that were predicted where they had none."""
    heads, labels = trees.heads.tolist(), _named(trees.labels, vocabulary.labels)
    tags = []
    if trees.tags is not None:
        tags = [_named(trees.tags[:, place] - 1, vocabulary.tags(column)) for place, column in enumerate(columns)]
    start = 0
    for sentence in sentences:
        words = slice(start, start + len(sentence))
        arcs = Arcs(tuple(heads[words]), tuple(labels[words]))
        yield with_parse(sentence, arcs, columns, [each[words] for each in tags])
        start = words.stop


def with_parse(sentence: Sentence, arcs: Arcs, columns: Sequence[Column], tags: Sequence[Sequence[str]]) -> Sentence:
    """The sentence with these arcs, and with the tags of these columns, if there are any, where it had none."""
    sentence = sentence.with_arcs(arcs)
    for column, new in zip(columns, tags, strict=False):
        index = sentence.format.upos if column == "upos" else sentence.format.xpos
        if index is not None:
            old = sentence.column(index)
            if BLANK in old:
                found = [best if tag == BLANK else tag for tag, best in zip(old, new, strict=True)]
                sentence = sentence.with_tags(**{column: found})
    return sentence


def _named(ids: np.ndarray, names: Sequence[str]) -> list[str]:
    return [names[each] for each in ids.tolist()]
