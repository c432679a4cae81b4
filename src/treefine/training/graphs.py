"""G⁰ of the training sentences: a parse of one source or another, none, or a gold tree with errors; drawn by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np

from treefine.training.recipe import InitialSettings
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import BLANK, Sentence


class TrainingGraphs:
    """What refinement starts from in training.

    `parses` are the initial parser's, or None if it is empty, and `mixed` those of the sources that are mixed in.
    """

    def __init__(
        self,
        sentences: Sequence[Sentence],
        parses: Sequence[Arcs] | None,
        settings: InitialSettings,
        mixed: Mapping[str, Sequence[Arcs]] | None = None,
    ) -> None:
        self.settings = settings
        self.gold = [sentence.arcs for sentence in sentences]
        self.blank = [Arcs((None,) * len(each), (BLANK,) * len(each)) for each in sentences]
        self.parses = self.blank if parses is None else list(parses)
        self.mixed = [list((mixed or {})[name]) for name in settings.mix]
        self.labels = np.array([label for each in self.gold for label in each.labels])

    def draw(self, rng: np.random.Generator) -> list[Arcs]:
        """One graph a sentence."""
        settings = self.settings
        shares = (settings.empty_share, settings.noised_share, *(each.share for each in settings.mix.values()))
        kinds = np.searchsorted(list(accumulate(shares)), rng.random(len(self.parses)), side="right").tolist()
        sources = [self.blank, self.gold, *self.mixed, self.parses]
        graphs = [sources[kind][number] for number, kind in enumerate(kinds)]
        for number, kind in enumerate(kinds):
            if sources[kind] is self.gold:
                graphs[number] = noised(graphs[number], settings.noise, self.labels, rng)
        return graphs


def noised(gold: Arcs, rate: float, labels: np.ndarray, rng: np.random.Generator) -> Arcs:
    """The arcs with a wrong head, or a label drawn from `labels`, or both, for about this share of the words."""
    heads, names = list(gold.heads), list(gold.labels)
    for word in np.flatnonzero(rng.random(len(heads)) < rate).tolist():
        kind = rng.integers(3)  # head, label, both
        if kind != 1:
            others = [head for head in range(len(heads) + 1) if head not in (word + 1, gold.heads[word])]
            if others:
                heads[word] = int(rng.choice(others))
        if kind != 0:
            names[word] = str(rng.choice(labels))
    return Arcs(tuple(heads), tuple(names))
