"""Initial parses of the training set from parsers that have not seen them, so that they have the errors of a test."""

from __future__ import annotations


def blocks(n_sentences: int, folds: int) -> list[range]:
    """The training set cut into stretches of nearly the same length; neighbours, of one document often, stay together.

    >>> blocks(7, 3)
    [range(0, 2), range(2, 4), range(4, 7)]
    """
    ends = [n_sentences * fold // folds for fold in range(folds + 1)]
    return [range(start, end) for start, end in zip(ends, ends[1:], strict=False)]
