"""A dependency graph over the words of one sentence (Eq. 2), and properties of its shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from treefine.errors import TreefineError, described

ROOT = 0


class Arcs(NamedTuple):
    """Heads and labels, starting with word 1; some may be missing."""

    heads: tuple[int | None, ...]  # None for a word that has no head yet
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """Heads and labels of one sentence, aligned with its words; cycles are allowed, as in an argmax graph.

    >>> Graph.of_words([2, 0, 2], ["nsubj", "root", "punct"])
    Graph(heads=(0, 2, 0, 2), labels=('', 'nsubj', 'root', 'punct'))
    """

    heads: tuple[int, ...]  # heads[0] is unused: ROOT has no head
    labels: tuple[str, ...]  # labels[0] is unused

    def __post_init__(self) -> None:
        if len(self.heads) != len(self.labels):
            raise TreefineError(f"There are {len(self.heads)} heads but {len(self.labels)} labels.")
        if not all(0 <= head < len(self.heads) for head in self.heads):
            raise TreefineError(f"Heads must be from 0 to {len(self.heads) - 1}, not {described(self.heads)}.")

    @classmethod
    def of_words(cls, heads: Sequence[int], labels: Sequence[str]) -> Graph:
        """Return a graph from lists that start with word 1. Raises TreefineError if a head is neither a word nor 0."""
        try:
            return cls((ROOT, *heads), ("", *labels))
        except TypeError as error:
            hint = 'Write Graph.of_words([2, 0], ["nsubj", "root"]).'
            raise TreefineError("A graph needs a list of heads and a list of labels.", hint=hint) from error

    def __len__(self) -> int:
        """Return the number of words; ROOT is not one."""
        return len(self.heads) - 1

    @property
    def arcs(self) -> Arcs:
        """The heads and labels, without the unused entry for ROOT."""
        return Arcs(self.heads[1:], self.labels[1:])

    @property
    def roots(self) -> tuple[int, ...]:
        """The words whose head is ROOT."""
        return tuple(word for word, head in enumerate(self.heads) if word and head == ROOT)

    @property
    def is_tree(self) -> bool:
        """Whether there is one root and no cycle."""
        return len(self.roots) == 1 and not find_cycles(self.heads)

    @property
    def is_projective(self) -> bool:
        """Whether all words between a word and its head descend from that head; in a tree: whether no arcs cross."""
        return not non_projective_words(self.heads)


def find_cycles(heads: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the words of each cycle, each word followed by its head."""
    cycles = []
    seen_from = [0] * len(heads)  # for each word, the start of the upward walk that first reached it
    for start in range(1, len(heads)):
        word = start
        while word != ROOT and not seen_from[word]:
            seen_from[word] = start
            word = heads[word]
        if word != ROOT and seen_from[word] == start:
            cycle = [word]
            while heads[cycle[-1]] != word:
                cycle.append(heads[cycle[-1]])
            cycles.append(tuple(cycle))
    return cycles


def distances_to_root(heads: Sequence[int]) -> list[int]:
    """Return the number of arcs from each word up to ROOT: 1 for a root, -1 for a word in or under a cycle."""
    distances: list[int | None] = [0, *[None] * (len(heads) - 1)]
    for word in range(1, len(heads)):
        path = []
        while distances[word] is None:
            distances[word] = -1  # it stays so if the path comes back to this word
            path.append(word)
            word = heads[word]
        distance = distances[word] or 0
        for below in reversed(path):
            distance = -1 if distance == -1 else distance + 1
            distances[below] = distance
    return [distance or 0 for distance in distances]


def non_projective_words(heads: Sequence[int]) -> set[int]:
    """Return the words whose arc spans a word that does not descend from the arc's head."""
    below, found = [0] * len(heads), set()  # below: the descendants of each word, as a bit set
    distances = distances_to_root(heads)
    for word in sorted(range(1, len(heads)), key=lambda word: -distances[word]):  # dependents before heads
        below[heads[word]] |= below[word] | 1 << word
        above = heads[word]
        while distances[word] < 0 and not below[heads[above]] & (1 << word):  # in or under a cycle
            above = heads[above]
            below[above] |= 1 << word
    for word, head in enumerate(heads):
        low, high = min(word, head), max(word, head)
        between = (1 << high) - (1 << (low + 1)) if high > low else 0
        if word and between & ~below[head]:
            found.add(word)
    return found


def changed_words(before: Graph, after: Graph) -> tuple[int, ...]:
    """Return the words whose head or label differs between two graphs over the same words."""
    old, new = (zip(graph.heads, graph.labels, strict=True) for graph in (before, after))
    return tuple([word for word, (one, two) in enumerate(zip(old, new, strict=True)) if word and one != two])
