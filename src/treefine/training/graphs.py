"""G⁰ of the training sentences: an initial parser's, none, or a gold tree with errors, drawn anew each epoch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treefine.training.recipe import InitialSettings
from treefine.treebank.graph import Arcs
from treefine.treebank.sentence import BLANK, Sentence


class TrainingGraphs:
    """What refinement starts from in training. `parses` are the initial parser's, or None if it is empty."""

    def __init__(self, sentences: Sequence[Sentence], parses: Sequence[Arcs] | None, settings: InitialSettings) -> None:
        self.settings = settings
        self.gold = [sentence.arcs for sentence in sentences]
        self.blank = [Arcs((None,) * len(each), (BLANK,) * len(each)) for each in sentences]
        self.parses = self.blank if parses is None else list(parses)
        self.labels = np.array([label for each in self.gold for label in each.labels])

    def draw(self, rng: np.random.Generator) -> list[Arcs]:
        """One graph a sentence."""
        settings = self.settings
        drawn = rng.random(len(self.parses))
        graphs = list(self.parses)
        for number, value in enumerate(drawn):
            if value < settings.empty_share:
                graphs[number] = self.blank[number]
            elif value < settings.empty_share + settings.noised_share:
                graphs[number] = noised(self.gold[number], settings.noise, self.labels, rng)
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
