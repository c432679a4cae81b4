"""Match the words of two files over the same text, and transfer the arcs of one to the other."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from treefine.errors import AlignmentError
from treefine.treebank.graph import Arcs
from treefine.treebank.raw_text import Span
from treefine.treebank.sentence import BLANK, Sentence, Token


class Segmentation(Protocol):
    """The words of a text in columns. Spans count characters without spaces."""

    @property
    def forms(self) -> Sequence[str]:
        """The words."""

    @property
    def spans(self) -> Sequence[Span]:
        """The start and end of each word; the words of a multiword token have the span of the token."""

    @property
    def in_multiword(self) -> Sequence[bool]:
        """Whether each word is part of a multiword token."""


def same_words(ours: Segmentation, theirs: Segmentation) -> Iterator[tuple[int, int]]:
    """Yield the pairs of words, numbered from 0, that are the same in both segmentations, from left to right.

    Words outside multiword tokens are the same if their spans are equal. Where either side has a multiword token, words
    are matched by the longest common subsequence of their forms, in lower case.
    """
    n_ours, n_theirs = len(ours.forms), len(theirs.forms)
    a = b = 0
    while a < n_ours and b < n_theirs:
        if ours.in_multiword[a] or theirs.in_multiword[b]:
            left, right = _multiword_stretch(ours, theirs, a, b)
            yield from _same_by_form(ours, theirs, left, right)
            if left or right:
                a, b = left.stop, right.stop
            else:  # a token without characters: `characters_of` drops a backslash
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
    """Return the words on each side from here to the first place that is outside multiword tokens on both sides."""
    if ours.in_multiword[a]:
        end = ours.spans[a][1]
        # A plain word that starts earlier is not part of the stretch. Like the official scorer, we skip only one.
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


# The Penn Treebank's spelling of some characters. Similar quotes are written the same way, and backslashes are dropped.
# Each character is replaced separately, so the result does not depend on word boundaries.
_PENN = str.maketrans(
    {
        **{"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"},
        **dict.fromkeys('"“”', "''"),
        **dict.fromkeys("`‘’", "'"),
        "\\": "",
    }
)


def transferred(sentences: Iterable[Sentence], parses: Iterable[Sentence], path: str = "") -> Iterator[Arcs]:
    """Yield for each sentence the arcs that the parses give to its words; `path` names the file of the parses.

    If a sentence has the same words in both, it gets all arcs. Otherwise `same_words` matches the words by their
    characters (see `characters_of`), across sentence boundaries. A matched word gets the arc of its match if the head
    is ROOT, or if the same sentence here contains the head as a matched word or as part of a larger word. All other
    words get no arc.
    """
    ours, theirs = _Side(sentences), _Side(parses)
    while ours.grow():
        if not theirs.grow():
            raise _ends_early(ours, theirs, path)
        (sentence,), (parse,) = ours.sentences, theirs.sentences
        if sentence.forms == parse.forms:
            yield parse.arcs
        else:
            _make_even(ours, theirs, path)
            yield from _arcs_of_block(ours.sentences, theirs.sentences)
        ours.clear()
        theirs.clear()
    if theirs.grow():
        raise _continues(theirs, path)


def characters_of(form: str) -> str:
    """Return the characters of a word for matching: no spaces or backslashes, and one spelling of brackets and quotes.

    >>> characters_of("1 000"), characters_of("(") == characters_of("-LRB-"), characters_of("“") == characters_of("``")
    ('1000', True, True)
    """
    if form.isalnum():
        return form
    return "".join([each for each in form if unicodedata.category(each) != "Zs"]).translate(_PENN)


class _Side:
    """The sentences of one file since the last place where both files had a sentence boundary."""

    def __init__(self, sentences: Iterable[Sentence]) -> None:
        self.rest = iter(sentences)
        self.sentences: list[Sentence] = []
        self.n_read = 0  # sentences of the whole file
        self._text: str | None = None  # built on demand; sentences with the same words do not need it

    def grow(self) -> bool:
        """Read one more sentence; return False at the end."""
        sentence = next(self.rest, None)
        if sentence is None:
            return False
        self.n_read += 1
        self.sentences.append(sentence)
        if self._text is not None:
            self._text += _text_of(sentence)
        return True

    def clear(self) -> None:
        """Forget the sentences read so far."""
        self.sentences, self._text = [], None

    @property
    def text(self) -> str:
        """The characters of the sentences."""
        if self._text is None:
            self._text = "".join(map(_text_of, self.sentences))
        return self._text

    def token_at(self, place: int) -> tuple[Sentence, Token]:
        """Return the sentence and token with the character at this place, or the last ones."""
        for sentence in self.sentences:
            for token in sentence.tokens():
                place -= len(characters_of(token.form))
                if place < 0:
                    return sentence, token
        return sentence, token


def _text_of(sentence: Sentence) -> str:
    return "".join([characters_of(token.form) for token in sentence.tokens()])


def _make_even(ours: _Side, theirs: _Side, path: str) -> None:
    """Read on until both sides end at the same character; raise an error if the characters differ."""
    n_same = 0
    while True:
        end = min(len(ours.text), len(theirs.text))
        if ours.text[n_same:end] != theirs.text[n_same:end]:
            pairs = zip(ours.text[n_same:], theirs.text[n_same:], strict=False)
            raise _different(ours, theirs, n_same + next(i for i, (a, b) in enumerate(pairs) if a != b), path)
        n_same = end
        if len(ours.text) == len(theirs.text):
            return
        if len(ours.text) > end:
            if not theirs.grow():
                raise _ends_early(ours, theirs, path)
        elif not ours.grow():
            raise _continues(theirs, path, end)


@dataclass
class _Words:
    """The words of several sentences in columns, numbered from 0."""

    forms: list[str] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    in_multiword: list[bool] = field(default_factory=list)
    sentence_of: list[int] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)  # the first word of each sentence

    @classmethod
    def of(cls, sentences: Sequence[Sentence]) -> _Words:
        words, place = cls(), 0
        for number, sentence in enumerate(sentences):
            words.firsts.append(len(words.forms))
            for token in sentence.tokens():
                end = place + len(characters_of(token.form))
                n_words = len(token.words)
                words.spans += [(place, end)] * n_words
                words.in_multiword += [n_words > 1] * n_words
                place = end
            words.forms += map(characters_of, sentence.forms)
            words.sentence_of += [number] * len(sentence)
        return words

    def holder(self, span: Span) -> int | None:
        """Return the word outside multiword tokens whose span contains this one, or None."""
        found = bisect_right(self.spans, span[0], key=lambda each: each[0]) - 1
        is_one = found >= 0 and not self.in_multiword[found] and span[1] <= self.spans[found][1]
        return found if is_one else None


def _arcs_of_block(ours: Sequence[Sentence], theirs: Sequence[Sentence]) -> list[Arcs]:
    mine, other = _Words.of(ours), _Words.of(theirs)
    pairs = list(same_words(mine, other))
    mine_of = {word: own for own, word in pairs}
    given = [pair for sentence in theirs for pair in zip(*sentence.arcs, strict=True)]
    heads: list[list[int | None]] = [[None] * len(sentence) for sentence in ours]
    labels = [[BLANK] * len(sentence) for sentence in ours]
    for own, word in pairs:
        head, label = given[word]
        number = mine.sentence_of[own]
        first = mine.firsts[number]
        if head:
            there = other.firsts[other.sentence_of[word]] + head - 1
            above = mine_of[there] if there in mine_of else mine.holder(other.spans[there])
            is_near = above is not None and above != own and mine.sentence_of[above] == number
            head = above - first + 1 if above is not None and is_near else None
        if head is not None:
            heads[number][own - first], labels[number][own - first] = head, label
    return [Arcs(tuple(each), tuple(names)) for each, names in zip(heads, labels, strict=True)]


def _different(ours: _Side, theirs: _Side, place: int, path: str) -> AlignmentError:
    (sentence, our), (parse, their) = ours.token_at(place), theirs.token_at(place)
    there = "" if our.words == their.words else f"word {_number(our)} is "
    return AlignmentError(
        f"The initial parse does not match the input: word {_number(their)} is {their.form!r} here but "
        f"{there}{our.form!r} in the input{_place(sentence)}.",
        hint="Both must have the same characters; spaces, word boundaries and sentence boundaries may differ.",
        path=path,
        line=parse.line,
        sent_id=parse.sent_id,
        sentence=parse.number,
        word=_number(their),
    )


def _ends_early(ours: _Side, theirs: _Side, path: str) -> AlignmentError:
    sentence, token = ours.token_at(len(theirs.text))
    number = ours.n_read - len(ours.sentences) + 1 + next(i for i, s in enumerate(ours.sentences) if s is sentence)
    word = f"word {_number(token)} of " if token.words[0] > 1 else ""
    return AlignmentError(
        f"The file of initial parses ends before {word}sentence {number}{_place(sentence)}.",
        hint="Parse the whole input with the initial parser.",
        path=path,
    )


def _continues(theirs: _Side, path: str, place: int = 0) -> AlignmentError:
    parse, token = theirs.token_at(place)
    return AlignmentError(
        "The file of initial parses continues after the last sentence of the input.",
        hint="Remove the extra parses, or give the whole input.",
        path=path,
        line=parse.line,
        sentence=parse.number,
        sent_id=parse.sent_id,
        word=_number(token) if token.words[0] > 1 else "",
    )


def _number(token: Token) -> str:
    first, last = token.words[0], token.words[-1]
    return str(first) if first == last else f"{first}-{last}"


def _place(sentence: Sentence) -> str:
    """Return the place of a sentence of the input, if it comes from a file."""
    return f" ({sentence.path}:{sentence.line})" if sentence.path else ""
