"""Packed sentences through the general parser: what stands in for an engine where there is no GPU."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from itertools import islice

import numpy as np

from treefine.config import Column
from treefine.network.packed_arrays import Packed, PackedTrees
from treefine.network.subwords import Subwords
from treefine.network.vocabulary import UNSEEN, Vocabulary
from treefine.parsing.file_to_file import Engine
from treefine.parsing.initial import given
from treefine.parsing.run import Plan, run
from treefine.parsing.work import Parsed, trees
from treefine.treebank.constraints import unconstrained
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import BLANK, Sentence


def engine_of_plan(plan: Plan) -> Engine:
    """The engine that parses packed sentences as `run` does others: words are spelled by the ids of their pieces."""
    model = copy(plan.model)
    assert model.subwords is not None
    model.subwords = _Spelled(model.subwords)
    vocabulary, columns = model.vocabulary, model.settings.tags.columns
    spelled = replace(plan, model=model, initial=given, constrain=unconstrained)

    def engine(blocks: Iterable[Packed]) -> Iterator[PackedTrees]:
        sizes: deque[int] = deque()

        def sentences() -> Iterator[Sentence]:
            for packed in blocks:
                sizes.append(len(packed))
                yield from spelled_sentences(packed, vocabulary, columns)

        parsed = (result for _, result in run(spelled, sentences(), trees))
        for first in parsed:
            yield _packed_trees([first, *islice(parsed, sizes.popleft() - 1)], vocabulary, columns)

    return engine


class _Spelled(Subwords):
    """A tokenizer that reads pieces from words that are spelled so: "101-7" has 101 and 7."""

    def __init__(self, subwords: Subwords) -> None:
        vars(self).update(vars(subwords))

    def pieces_of(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        return [tuple(map(int, word.split("-"))) for word in words]


def spelled_sentences(packed: Packed, vocabulary: Vocabulary, columns: Sequence[Column]) -> Iterator[Sentence]:
    """The sentences, with all that the arrays tell of them."""
    stop = np.cumsum(packed.counts)
    pieces = list(map(str, packed.pieces.tolist()))
    words = [
        "-".join(pieces[end - count : end]) for end, count in zip(stop.tolist(), packed.counts.tolist(), strict=True)
    ]
    heads = [None if head < 0 else head for head in packed.heads.tolist()]
    labels = [BLANK if label == UNSEEN else vocabulary.labels[label] for label in packed.labels.tolist()]
    tags = {}
    if packed.tags is not None:
        for place, column in enumerate(columns):
            names = (BLANK, *vocabulary.tags(column))
            tags[column] = [names[tag] for tag in packed.tags[:, place].tolist()]
    start = 0
    for length in packed.lengths.tolist():
        part = slice(start, start + length)
        sentence = Sentence.of_words(words[part], **{column: given[part] for column, given in tags.items()})
        yield sentence.with_arcs(Arcs(tuple(heads[part]), tuple(labels[part])))
        start += length


def _packed_trees(parsed: Sequence[Parsed], vocabulary: Vocabulary, columns: Sequence[Column]) -> PackedTrees:
    arcs = [each.tree.arcs for each in parsed]
    heads = np.array([head for each in arcs for head in each.heads], np.int32)
    labels = np.array(vocabulary.label_ids([label for each in arcs for label in each.labels]), np.int32)
    if not parsed[0].tags:
        return PackedTrees(heads, labels)
    tags = [
        vocabulary.tag_ids(column, [tag for each in parsed for tag in each.tags[place]])
        for place, column in enumerate(columns)
    ]
    return PackedTrees(heads, labels, np.array(tags, np.int32).T)
