"""Match the words of two files over the same text, and transfer the arcs of one to the other."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise, product, starmap
from typing import TYPE_CHECKING

from treefine.errors import AlignmentError
from treefine.treebank.graph import Arcs
from treefine.treebank.raw_text import Span
from treefine.treebank.sentence import BLANK, Sentence

if TYPE_CHECKING:
    from typing_extensions import Self

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
_SHOWN = 20  # characters of a differing text that an error shows


def without_spaces(text: str) -> str:
    """Return the text without the characters that Unicode calls spaces, as the CoNLL 2018 scorer reads it."""
    if text.isprintable() and " " not in text:  # isprintable() is False for all other kinds of spaces
        return text
    return "".join([each for each in text if unicodedata.category(each) != "Zs"])


def characters_of(form: str) -> str:
    """Return the characters of a word for matching: no spaces or backslashes, and one spelling of brackets and quotes.

    >>> characters_of("1 000"), characters_of("(") == characters_of("-LRB-"), characters_of("“") == characters_of("``")
    ('1000', True, True)
    """
    return without_spaces(form).translate(_PENN)


@dataclass(slots=True)
class WordSpans:
    """The words of several sentences in columns, numbered from 0. Spans count the characters of tokens."""

    sentences: Sequence[Sentence]
    text: str = ""  # all characters
    tokens: list[Span] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)  # of each word; the words of a multiword token share its span
    in_multiword: list[bool] = field(default_factory=list)
    forms: list[str] = field(default_factory=list)
    first_words: list[int] = field(default_factory=list)  # of each sentence

    @classmethod
    def of(cls, sentences: Sequence[Sentence], clean: Callable[[str], str] | None) -> Self:
        """Return the words; `clean` drops or replaces characters, and without it multiword tokens are ignored."""
        words, texts, position = cls(sentences), list[str](), 0
        for sentence in sentences:
            words.first_words.append(len(words))
            forms, text = sentence.forms, _plain_text(sentence, clean)
            if text is not None:  # nearly always, and much faster than the loop below
                plain = list(pairwise(accumulate(map(len, forms), initial=position)))
                texts.append(text)
                position += len(text)
                words.tokens += plain
                words.spans += plain
                words.forms += forms
                words.in_multiword += [False] * len(plain)
                continue
            for token in sentence.tokens():
                characters = clean(token.form) if clean else token.form
                span, is_multiword = (position, position + len(characters)), len(token.words) > 1
                texts.append(characters)
                position = span[1]
                words.tokens.append(span)
                words.forms += [forms[number - 1] for number in token.words] if is_multiword else [characters]
                words.spans += [span] * len(token.words)
                words.in_multiword += [is_multiword] * len(token.words)
        words.text = "".join(texts)
        return words

    def __len__(self) -> int:
        return len(self.forms)

    @property
    def name(self) -> str:
        """The path of the file, if the sentences come from one."""
        return self.sentences[0].path if self.sentences else ""

    def sentence_words(self) -> Iterator[range]:
        """Return the words of each sentence."""
        return starmap(range, pairwise([*self.first_words, len(self)]))

    def place(self, word: int) -> tuple[int, int]:
        """Return the sentence of a word, from 0, and its number there, from 1."""
        sentence = bisect_right(self.first_words, word) - 1
        return sentence, word - self.first_words[sentence] + 1

    def error(self, message: str, word: int | None, *, hint: str = "", path: str = "") -> AlignmentError:
        """Return an error at a word of the file, or at the end of the file if the word is None."""
        if word is None:
            return AlignmentError(message, hint=hint, path=path or self.name)
        sentence, number = self.place(word)
        fields = vars(self.sentences[sentence].error(message, word=number, hint=hint))
        return AlignmentError(**fields | {"path": path or fields["path"]})

    def shown_place(self, word: int, title: str) -> str:
        """Return the line of a word in its file; without a file, the number of its sentence in `title`."""
        sentence, number = self.place(word)
        at = self.sentences[sentence].error("", word=number)
        return f"{at.path}:{at.line}" if at.path else f"{title} (sentence {at.sentence})"


def _plain_text(sentence: Sentence, clean: Callable[[str], str] | None) -> str | None:
    """Return the characters of a sentence if its words are its tokens and all their characters count, else None."""
    text = "".join(sentence.forms)
    is_plain = clean is None or (len(sentence) == len(sentence.columns[0]) and clean(text) == text)
    return text if is_plain else None


def even_blocks(
    ours: Iterable[Sentence],
    theirs: Iterable[Sentence],
    clean: Callable[[str], str],
    *,
    least: int = 1,
    title: str,
    path: str = "",
    is_same: Callable[[Sentence, Sentence], bool] | None = None,
) -> Iterator[tuple[list[Sentence], list[Sentence]]]:
    """Read two files side by side; yield lists of sentences of both that have the same characters.

    The lists are short, but have at least `least` words of ours until the end. Raises AlignmentError where the
    characters differ: `title` names our sentences if they are in no file, and `path` is that of theirs. The last lists
    may be empty. Two sentences for which `is_same` holds are a block whatever their characters.
    """
    sides: tuple[Iterator[Sentence], ...] = (iter(ours), iter(theirs))
    blocks, pending, n_words = (list[Sentence](), list[Sentence]()), ["", ""], 0  # pending: not yet compared
    while True:
        side = int(bool(pending[0]) or len(blocks[0]) > len(blocks[1]) == 0)
        sentence = next(sides[side], None)
        if sentence is None and not any(pending):  # the other file may go on
            side = 1 - side
            sentence = next(sides[side], None)
        if sentence is not None:
            blocks[side].append(sentence)
            n_words += 0 if side else len(sentence)
            text = _plain_text(sentence, clean)
            pending[side] += clean("".join([token.form for token in sentence.tokens()])) if text is None else text
            if is_same and [*map(len, blocks)] == [1, 1] and is_same(blocks[0][0], blocks[1][0]):
                pending = ["", ""]
        length = min(map(len, pending))
        if pending[0][:length] != pending[1][:length] or (sentence is None and any(pending)):
            read, other = (WordSpans.of(block, clean) for block in blocks)
            raise text_error(read, other, title, path)
        pending = [text[length:] for text in pending]
        if not any(pending) and (sentence is None or (all(blocks) and n_words >= least)):
            yield blocks
            blocks, n_words = ([], []), 0
        if sentence is None:
            return


def text_error(ours: WordSpans, theirs: WordSpans, title: str, path: str = "") -> AlignmentError:
    """Return an error that names the first place where the two files differ, or where one of them ends."""
    pairs = enumerate(zip(ours.text, theirs.text, strict=False))
    place = next((index for index, (a, b) in pairs if a != b), min(len(ours.text), len(theirs.text)))
    our, their = (words.text[place : place + _SHOWN] for words in (ours, theirs))
    there, here = (next((w for w, (_, end) in enumerate(words.spans) if place < end), None) for words in (ours, theirs))
    if there is None:
        message = f"The file continues with {their!r} after the end of {ours.name or title}."
    elif here is None:
        message = f"The file ends before {our!r} in {ours.shown_place(there, title)}."
    else:
        message = f"The text differs from {ours.shown_place(there, title)}: it is {their!r} here and {our!r} there."
    hint = "Both files must have the same characters; spaces and segmentation may differ."
    return theirs.error(message, here, hint=hint, path=path)


def same_words(ours: WordSpans, theirs: WordSpans) -> Iterator[tuple[int, int]]:
    """Yield the pairs of words, numbered from 0, that are the same in both segmentations, from left to right.

    Words outside multiword tokens are the same if their spans are equal. Where either side has a multiword token, words
    are matched by the longest common subsequence of their forms, in lower case.
    """
    a = b = 0
    while a < len(ours) and b < len(theirs):
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


def _multiword_stretch(ours: WordSpans, theirs: WordSpans, a: int, b: int) -> tuple[range, range]:
    """Return the words on each side from here to the first place that is outside multiword tokens on both sides."""
    if ours.in_multiword[a]:
        end = ours.spans[a][1]
        # A plain word that starts earlier is not part of the stretch. Like the official scorer, we skip only one.
        b += not theirs.in_multiword[b] and theirs.spans[b][0] < ours.spans[a][0]
    else:
        end = theirs.spans[b][1]
        a += not ours.in_multiword[a] and ours.spans[a][0] < theirs.spans[b][0]

    def is_beyond(words: WordSpans, index: int) -> bool:
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


def _same_by_form(ours: WordSpans, theirs: WordSpans, left: range, right: range) -> Iterator[tuple[int, int]]:
    """Match the words of a stretch along the longest common subsequence of their forms, in lower case."""
    a = [ours.forms[index].lower() for index in left]
    b = [theirs.forms[index].lower() for index in right]
    longest = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]  # longest[i][j]: of a[i:] and b[j:]
    for i, j in product(reversed(range(len(a))), reversed(range(len(b)))):
        is_same = a[i] == b[j]
        longest[i][j] = longest[i + 1][j + 1] + 1 if is_same else max(longest[i + 1][j], longest[i][j + 1])
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            yield left[i], right[j]
            i, j = i + 1, j + 1
        elif longest[i][j] == longest[i + 1][j]:
            i += 1
        else:
            j += 1


def transferred(sentences: Iterable[Sentence], parses: Iterable[Sentence], path: str = "") -> Iterator[Arcs]:
    """Yield for each sentence the arcs that the parses give to its words; `path` names the file of the parses.

    If a sentence has the same words in both, it gets all arcs. Otherwise `same_words` matches the words by their
    characters (see `characters_of`), across sentence boundaries. A matched word gets the arc of its match if the head
    is ROOT, or if the same sentence here contains the head as a matched word or as part of a larger word. All other
    words get no arc.
    """

    def have_same_forms(sentence: Sentence, parse: Sentence) -> bool:
        return sentence.forms == parse.forms

    blocks = even_blocks(sentences, parses, characters_of, title="the input", path=path, is_same=have_same_forms)
    for ours, theirs in blocks:
        if len(ours) == len(theirs) == 1 and have_same_forms(ours[0], theirs[0]):
            yield theirs[0].arcs
        else:
            yield from _arcs_of_block(*(WordSpans.of(block, characters_of) for block in (ours, theirs)))


def _arcs_of_block(ours: WordSpans, theirs: WordSpans) -> list[Arcs]:
    pairs = list(same_words(ours, theirs))
    our_word = {their: our for our, their in pairs}
    arcs = [arc for sentence in theirs.sentences for arc in zip(*sentence.arcs, strict=True)]
    heads: list[list[int | None]] = [[None] * len(sentence) for sentence in ours.sentences]
    labels = [[BLANK] * len(sentence) for sentence in ours.sentences]
    for our, their in pairs:
        (head, label), (number, word) = arcs[their], ours.place(our)
        if head:
            their_head = theirs.first_words[theirs.place(their)[0]] + head - 1
            our_head = our_word.get(their_head, _larger_word(ours, theirs.spans[their_head]))
            sentence, head = (-1, None) if our_head in (None, our) else ours.place(our_head)
            head = head if sentence == number else None
        if head is not None:
            heads[number][word - 1], labels[number][word - 1] = head, label
    return [Arcs(tuple(each), tuple(names)) for each, names in zip(heads, labels, strict=True)]


def _larger_word(words: WordSpans, span: Span) -> int | None:
    """Return the word outside multiword tokens whose span contains this one, or None."""
    word = bisect_right(words.spans, span[0], key=lambda each: each[0]) - 1
    is_inside = word >= 0 and not words.in_multiword[word] and span[1] <= words.spans[word][1]
    return word if is_inside else None
