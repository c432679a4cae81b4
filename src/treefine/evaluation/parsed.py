"""One treebank as gold and several systems have it: their sentences, to be drawn, and their words, aligned."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from treefine.evaluation.alignment import Pair
from treefine.evaluation.conll18 import rule_of
from treefine.evaluation.words import Treebank, Words, load_words
from treefine.treebank.conllu import read_treebank
from treefine.treebank.files import Source
from treefine.treebank.graph import find_cycles
from treefine.treebank.sentence import BLANK, Sentence


@dataclass(frozen=True, slots=True)
class Parsed:
    """The gold file of one treebank and what each system made of it."""

    name: str
    rule: str
    gold: tuple[Sentence, ...]
    systems: dict[str, tuple[Sentence, ...]]
    pairs: dict[str, Pair]  # by system; the gold words are the same in all

    @property
    def gold_words(self) -> Words:
        """The words of the gold file."""
        return next(iter(self.pairs.values())).gold

    def paths_without_labels(self) -> list[str]:
        """The files, gold or of a system, in which no word has a label."""
        files = [self.gold_words, *[pair.system for pair in self.pairs.values()]]
        return [words.name for words in files if all(label == BLANK for label in words.labels)]

    def count_cycles(self, system: str) -> int:
        """How many sentences of a system have heads that form a cycle, and so words with no way up to ROOT."""
        return sum(bool(find_cycles(sentence.graph.heads)) for sentence in self.systems[system])

    def count_several_roots(self, system: str) -> int:
        """How many sentences of a system have more than one word that hangs on ROOT."""
        return sum(len(sentence.graph.roots) > 1 for sentence in self.systems[system])

    def sentences_at(self, system: str, number: int) -> tuple[Sentence, ...]:
        """What a system has in the place of a gold sentence (from 0): one, or several where it cut the text otherwise.

        If a cut of its own lies elsewhere, its sentences reach beyond the gold one.
        """
        spans = self.pairs[system].system.sentences
        if spans == self.gold_words.sentences:
            return self.systems[system][number : number + 1]
        start, end = self.gold_words.sentences[number]
        first = bisect_right(spans, start, key=lambda span: span[0]) - 1
        last = bisect_left(spans, end, key=lambda span: span[0])
        return self.systems[system][first:last]


def read_parsed(
    name: str,
    gold: Treebank,
    systems: Mapping[str, Treebank],
    *,
    rule: str = "conll18",
    format: str | None = None,
    on_bytes: Callable[[int], None] | None = None,
) -> Parsed:
    """Read a gold file and what several systems made of it, and align their words as the rule says.

    Like the official scorer, conll18 refuses a gold file with cycles, no root or several. A system's file may have
    them, since an analysis is there to show what is wrong with it; the layout of a file does not matter either.
    """
    chosen = rule_of(rule)

    def read(treebank: Treebank) -> tuple[Sentence, ...]:
        if isinstance(treebank, str | os.PathLike) or hasattr(treebank, "read"):
            treebank = read_treebank(cast(Source, treebank), format=format, on_bytes=on_bytes)
        return tuple(treebank)

    right = read(gold)
    words = load_words(right, is_ud=chosen.is_ud)
    found, pairs = {}, {}
    for system, treebank in systems.items():
        found[system] = read(treebank)
        pairs[system] = chosen.pair(words, load_words(found[system], is_ud=chosen.is_ud, needs_trees=False))
    return Parsed(name, rule, right, found, pairs)
