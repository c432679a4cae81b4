"""A sentence longer than the encoder's positions, cut into overlapping windows of whole words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate


def windows(n_pieces: Sequence[int], room: int) -> list[range]:
    """The words (from 0) of each window: one window where all fit into `room` pieces, else windows half overlapping.

    No word may have more than `room` pieces.

    >>> windows([1, 1, 2, 1, 1, 1], 4)
    [range(0, 3), range(2, 5), range(3, 6)]
    """
    ends = [0, *accumulate(n_pieces)]  # pieces before each word, and all of them
    n_words = len(n_pieces)
    found = []
    start = stop = 0
    while True:
        while stop < n_words and ends[stop + 1] - ends[start] <= room:
            stop += 1
        if stop == n_words:
            break
        found.append(range(start, stop))
        middle = ends[start] + room // 2
        start = next(word for word in range(start + 1, stop + 1) if ends[word] >= middle or word == stop)
    while start and ends[n_words] - ends[start - 1] <= room:  # the last window looks back as far as it can
        start -= 1
    return [*found, range(start, n_words)]


def owners(n_pieces: Sequence[int], cut: Sequence[range]) -> list[int]:
    """The window that speaks for each word: the one in which it stands farthest from an edge that cuts the sentence.

    >>> owners([1, 1, 2, 1, 1, 1], [range(0, 3), range(2, 5), range(3, 6)])
    [0, 0, 0, 1, 2, 2]
    """
    ends = [0, *accumulate(n_pieces)]
    n_words = len(n_pieces)
    best = [(-1, 0)] * n_words
    for number, window in enumerate(cut):
        for word in window:
            left = ends[word] - ends[window.start] if window.start else ends[-1]
            right = ends[window.stop] - ends[word + 1] if window.stop < n_words else ends[-1]
            best[word] = max(best[word], (min(left, right), -number))
    return [-number for _, number in best]
