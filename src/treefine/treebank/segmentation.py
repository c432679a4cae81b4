"""Which words of two segmentations of one text are the same, as the CoNLL 2018 scorer has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias

Span: TypeAlias = tuple[int, int]


class Segmentation(Protocol):
    """The words of a text in columns. Spans count characters without spaces."""

    @property
    def forms(self) -> Sequence[str]:
        """The words."""

    @property
    def spans(self) -> Sequence[Span]:
        """Where each stands; the words of a multiword token have that of the token."""

    @property
    def in_multiword(self) -> Sequence[bool]:
        """Whether each is one of several words of a token."""


def same_words(ours: Segmentation, theirs: Segmentation) -> Iterator[tuple[int, int]]:
    """The pairs of words, numbered from 0, that are the same in both, from left to right.

    Words outside multiword tokens are the same if their characters are. A stretch of text that a multiword token of
    either side covers is aligned by the longest common subsequence of its words' forms, in lower case.
    """
    n_ours, n_theirs = len(ours.forms), len(theirs.forms)
    a = b = 0
    while a < n_ours and b < n_theirs:
        if ours.in_multiword[a] or theirs.in_multiword[b]:
            left, right = _multiword_stretch(ours, theirs, a, b)
            yield from _same_by_form(ours, theirs, left, right)
            if left or right:
                a, b = left.stop, right.stop
            else:  # a token without characters, such as a backslash where that does not count
                a, b = (a + 1, b) if ours.in_multiword[a] else (a, b + 1)
            continue
        if ours.spans[a] == theirs.spans[b]:
            yield a, b
            a, b = a + 1, b + 1
        elif ours.spans[a][0] <= theirs.spans[b][0]:
            a += 1
        else:
            b += 1


def _multiword_stretch(ours: Segmentation, theirs: Segmentation, a: int, b: int) -> tuple[range, range]:
    """The words of both sides from here to the first place where no multiword token of either is under way."""
    if ours.in_multiword[a]:
        end = ours.spans[a][1]
        # A plain word that began earlier is no part of it. Like the official scorer we leave out one such word only.
        b += not theirs.in_multiword[b] and theirs.spans[b][0] < ours.spans[a][0]
    else:
        end = theirs.spans[b][1]
        a += not ours.in_multiword[a] and ours.spans[a][0] < theirs.spans[b][0]

    def is_beyond(words: Segmentation, index: int) -> bool:
        if index >= len(words.forms):
            return True
        start, stop = words.spans[index]
        return start >= end if words.in_multiword[index] else stop > end

    first_a, first_b = a, b
    while not (is_beyond(ours, a) and is_beyond(theirs, b)):
        is_ours_next = a < len(ours.forms) and (b >= len(theirs.forms) or ours.spans[a][0] <= theirs.spans[b][0])
        words, index = (ours, a) if is_ours_next else (theirs, b)
        if words.in_multiword[index]:
            end = max(end, words.spans[index][1])
        a, b = (a + 1, b) if is_ours_next else (a, b + 1)
    return range(first_a, a), range(first_b, b)


def _same_by_form(ours: Segmentation, theirs: Segmentation, left: range, right: range) -> Iterator[tuple[int, int]]:
    """Match the words of a stretch along the longest common subsequence of their forms, in lower case."""
    a = [ours.forms[index].lower() for index in left]
    b = [theirs.forms[index].lower() for index in right]
    longest = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]  # longest[i][j]: of a[i:] and b[j:]
    for i in reversed(range(len(a))):
        for j in reversed(range(len(b))):
            if a[i] == b[j]:
                longest[i][j] = longest[i + 1][j + 1] + 1
            else:
                longest[i][j] = max(longest[i + 1][j], longest[i][j + 1])
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            yield left[i], right[j]
            i, j = i + 1, j + 1
        elif longest[i][j] == longest[i + 1][j]:
            i += 1
        else:
            j += 1
