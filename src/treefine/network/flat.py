"""Tags and arcs of sentences as ids: laid end to end, or padded; made without torch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from jaxtyping import Int

from treefine.config import Column
from treefine.network.vocabulary import UNSEEN, Vocabulary
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import Sentence

NO_HEAD = -1  # of ROOT, of padding, and of a word whose head is not given


def flat_arcs(
    arcs: Sequence[Arcs], vocabulary: Vocabulary
) -> tuple[Int[np.ndarray, " word"], Int[np.ndarray, " word"]]:
    """The head and the label of each word; NO_HEAD and UNSEEN where there is none.

    >>> flat_arcs([Arcs((2, 0), ("det", "root")), Arcs((None,), ("root",))], Vocabulary(labels=("root",)))
    (array([ 2,  0, -1], dtype=int32), array([-1,  0, -1], dtype=int32))
    """
    given = [NO_HEAD if head is None else head for each in arcs for head in each.heads]
    heads = np.array(given, dtype=np.int32)
    labels = np.array(vocabulary.label_ids(list(chain.from_iterable(each.labels for each in arcs))), dtype=np.int32)
    labels[heads == NO_HEAD] = UNSEEN
    return heads, labels


def flat_tags(
    sentences: Sequence[Sentence], vocabulary: Vocabulary, columns: Sequence[Column]
) -> Int[np.ndarray, "word column"]:
    """The ids of the tags that the words have in these columns; 0 for none."""
    ids = np.zeros((sum(map(len, sentences)), len(columns)), np.int32)
    for place, column in enumerate(columns):
        tags = chain.from_iterable(each.upos if column == "upos" else each.xpos for each in sentences)
        ids[:, place] = vocabulary.tag_ids(column, list(tags))
    return ids


def padded(
    flat: Int[np.ndarray, "word ..."], lengths: Sequence[int], fill: int
) -> Int[np.ndarray, "sentence place ..."]:
    """One row a sentence, ROOT's place first; it, and all after the words, is filled.

    >>> padded(np.array([5, 6, 7]), [1, 2], -1)
    array([[-1,  5, -1],
           [-1,  6,  7]])
    """
    n_words = np.array(lengths, dtype=np.int64)
    place = np.arange(n_words.max(initial=0) + 1)
    rows = np.full((len(n_words), len(place), *flat.shape[1:]), fill, dtype=np.int64)
    rows[(place > 0) & (place <= n_words[:, None])] = flat
    return rows
