"""The sentences in which two systems differ most, ready to be drawn side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from treefine.evaluation.analysis import SentenceDifference
from treefine.evaluation.parsed import Parsed
from treefine.evaluation.significance import Counts


def largest_differences(
    treebanks: Sequence[Parsed], counts: Mapping[str, Counts], *, most: int
) -> tuple[SentenceDifference, ...]:
    """For the first system and each other one, the sentences with the largest gains, then those with the worst losses.

    A gain or loss is a number of right words, and each list has up to `most`. One system alone is compared with gold:
    listed are the sentences with the most errors. `counts` are those of all treebanks, one after another.
    """
    first, *others = counts
    places = [(treebank, number) for treebank in treebanks for number in range(len(treebank.gold))]
    found = []
    for other in others or [first]:
        n_words, right = counts[other][:, 0], counts[other][:, 2]
        gains = right - (counts[first][:, 2] if others else n_words)
        chosen = [*_largest(gains, most), *_largest(-gains, most)]
        for place in chosen:
            treebank, number = places[place]
            systems = (first, other) if others else (first,)
            sentence = treebank.gold[number]
            found.append(
                SentenceDifference(
                    sentence.sent_id,
                    number + 1,
                    treebank.name,
                    first if others else None,
                    other,
                    sentence,
                    {system: treebank.sentences_at(system, number) for system in systems},
                    {system: int(counts[system][place, 2]) for system in systems},
                    int(n_words[place]),
                )
            )
    return tuple(found)


def _largest(gains: NDArray[np.float64], most: int) -> list[int]:
    """The places of the largest numbers above 0, the largest first; of equal ones, the earlier."""
    order = np.argsort(-gains, kind="stable")[:most]
    return [place for place in order.tolist() if gains[place] > 0]
