"""The names that a model knows: labels and tags, and for a BiLSTM words and characters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from jaxtyping import Int

from treefine.config import Column
from treefine.errors import TreebankError
from treefine.treebank.graph import Arcs
from treefine.treebank.label_schemes import read_as
from treefine.treebank.sentence import BLANK, Sentence

UNSEEN = -1  # the id of a label that the model has no name for
NO_HEAD = -1  # the head of ROOT, of padding, and of a word whose head is not given


@dataclass(frozen=True)
class Vocabulary:
    """The names a model knows, in the order of their ids.

    >>> vocabulary = Vocabulary(labels=("nsubj", "root"), upos=("NOUN",))
    >>> vocabulary.label_ids(["root", "nsubj:pass", "foo"]), vocabulary.tag_ids("upos", ["NOUN", "X"])
    ([1, 0, -1], [1, 0])
    """

    labels: tuple[str, ...]
    upos: tuple[str, ...] = ()
    xpos: tuple[str, ...] = ()
    words: tuple[str, ...] = ()  # lower-cased
    chars: tuple[str, ...] = ()

    @classmethod
    def of_treebank(cls, sentences: Iterable[Sentence], *, min_words: int = 2) -> Vocabulary:
        """Return all labels, tags and characters of a treebank, and the words that occur `min_words` times or more."""
        counted: dict[str, Counter[str]] = {name: Counter() for name in ("labels", "upos", "xpos", "words", "chars")}
        for sentence in sentences:
            counted["labels"].update(sentence.labels)
            counted["upos"].update(sentence.upos)
            counted["xpos"].update(sentence.xpos)
            for form in sentence.forms:
                counted["words"][form.lower()] += 1
                counted["chars"].update(form)
        counted["words"] = Counter({word: n for word, n in counted["words"].items() if n >= min_words})
        for name in ("labels", "upos", "xpos"):
            counted[name].pop(BLANK, None)
        if not counted["labels"]:
            raise TreebankError(
                "The treebank has no labels to learn.", hint="Use a treebank with a filled DEPREL column."
            )
        return cls(**{name: tuple(sorted(counter)) for name, counter in counted.items()})

    def __post_init__(self) -> None:
        if not self.labels:
            raise ValueError("there is no label")
        for name in ("labels", "upos", "xpos", "words", "chars"):
            names = getattr(self, name)
            if len(set(names)) < len(names):
                raise ValueError(f"a name occurs twice in {name}")

    @cached_property
    def _ids(self) -> dict[str, dict[str, int]]:
        names = ("labels", "upos", "xpos", "words", "chars")
        return {name: {each: number for number, each in enumerate(getattr(self, name))} for name in names}

    def label_ids(self, labels: Sequence[str]) -> list[int]:
        """Return the id of each label: that of the known label that `read_as` finds for it, or UNSEEN."""
        ids = self._ids["labels"]
        unknown = set(labels).difference(ids)  # not cached: a server may receive any number of them
        if unknown:
            ids = ids | {label: ids.get(read_as(label, ids), UNSEEN) for label in unknown}
        return [ids[label] for label in labels]

    def label_id(self, label: str) -> int | None:
        """Return the id of exactly this label, or None if the model has no such label."""
        return self._ids["labels"].get(label)

    def tag_ids(self, column: Column, tags: Sequence[str]) -> list[int]:
        """Return the id of each tag, counted from 1; 0 for a missing or unknown tag."""
        ids = self._ids[column]
        return [ids.get(tag, -1) + 1 for tag in tags]

    def tags(self, column: Column) -> tuple[str, ...]:
        """Return the tags of a column; the first one has id 1."""
        return self.upos if column == "upos" else self.xpos

    def word_ids(self, words: Sequence[str]) -> list[int]:
        """Return the id of each word, counted from 2; 1 for an unknown word. 0 is ROOT."""
        ids = self._ids["words"]
        return [ids.get(word.lower(), -1) + 2 for word in words]

    def char_ids(self, word: str, most: int) -> list[int]:
        """Return the ids of a word's first `most` characters, counted from 2; 1 for an unknown one. 0 is padding."""
        ids = self._ids["chars"]
        return [ids.get(char, -1) + 2 for char in word[:most]]


def flat_arcs(
    arcs: Sequence[Arcs], vocabulary: Vocabulary
) -> tuple[Int[np.ndarray, " word"], Int[np.ndarray, " word"]]:
    """Return the head and the label id of each word, or NO_HEAD and UNSEEN if it has none.

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
    """Return the tag ids of the words, with one column per tag column; 0 for a word without a tag."""
    ids = np.zeros((sum(map(len, sentences)), len(columns)), np.int32)
    for place, column in enumerate(columns):
        tags = chain.from_iterable(each.upos if column == "upos" else each.xpos for each in sentences)
        ids[:, place] = vocabulary.tag_ids(column, list(tags))
    return ids
