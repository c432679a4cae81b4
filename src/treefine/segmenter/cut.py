"""Turn decisions about each character into CoNLL-U sentences, without changing or losing a character."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from treefine.segmenter.network import ENDS_MULTIWORD, WITHIN
from treefine.treebank.multiword import Multiwords
from treefine.treebank.raw_text import Span, misc_of
from treefine.treebank.sentence import BLANK, Sentence

MANY_TOKENS = 100  # tokens; a longer sentence also ends where `ends_sentence` is IF_LONG
IF_LONG = 2
MOST_TOKENS = 10_000  # in a sentence, so that it fits into memory; a longer sentence is split
LONGEST_TOKEN = 65_536  # characters, also because of memory
_BLANK_LINE = re.compile(r"(\r\n|\r(?!\n)|\n)[^\S\r\n]*[\r\n]")


class Cuts(NamedTuple):
    """A stretch of text, and a segmenter's decisions about each of its characters."""

    text: str
    token: np.ndarray  # WITHIN, ENDS or ENDS_MULTIWORD
    ends_sentence: np.ndarray  # whether the sentence ends too, if a token ends here: 0, 1 or IF_LONG


@dataclass(frozen=True, slots=True)
class Segmented:
    """A sentence found in a text, with the offsets of its words in that text."""

    sentence: Sentence
    spans: tuple[Span, ...]  # of each word; the words of a multiword token share its span


class _Token(NamedTuple):
    start: int  # in the whole text
    form: str
    is_multiword: bool
    ends_sentence: int
    gap: str  # after it


def sentences_of(
    cuts: Iterable[Cuts], multiwords: Multiwords, *, most_spaces: int = 0, blank_lines_end: bool = True
) -> Iterator[Segmented]:
    """Yield the sentences of a text that comes in stretches. A token may contain `most_spaces` spaces.

    A blank line always ends a sentence, unless `blank_lines_end` is False. Text of only white space has no sentence.
    """
    unfinished: list[_Token] = []
    before, number, follows_blank = "", 1, False
    waiting: list[_Token] | None = None  # a complete sentence, until it is known whether it is the last
    for token in _tokens(cuts, most_spaces):
        if not token.form:
            before = token.gap
            continue
        if waiting is not None:
            yield _segmented(waiting, multiwords, number, before=before, follows_blank=follows_blank)
            before, number, follows_blank = "", number + 1, has_blank_line(waiting[-1].gap)
            waiting = None
        unfinished.append(token)
        is_cut = blank_lines_end and has_blank_line(token.gap)
        is_end = token.ends_sentence == 1 or (token.ends_sentence == IF_LONG and len(unfinished) >= MANY_TOKENS)
        if is_end or is_cut or len(unfinished) == MOST_TOKENS:
            waiting, unfinished = unfinished, []
    last = waiting or unfinished
    if last:
        yield _segmented(last, multiwords, number, before=before, follows_blank=follows_blank, is_last=True)


def _tokens(cuts: Iterable[Cuts], most_spaces: int) -> Iterator[_Token]:
    """Yield the tokens of the text. A first token without a form holds the gap before the text.

    The last token of a stretch waits for the next stretch, in which the token or its gap may continue.
    """
    waiting, start, has_begun = list[Cuts](), 0, False  # `start` is their offset in the text
    for cut in cuts:
        waiting.append(cut)
        if is_gap(cut.text).all():
            continue  # do not search a long gap repeatedly
        rest = _joined(waiting)
        found = _spans(rest, most_spaces)
        if not has_begun:
            has_begun = True
            yield _Token(0, "", False, 0, rest.text[: found[0][0]])
        for span, following in zip(found, found[1:], strict=False):
            yield _token(rest, start, span, following[0])
        last, _ = found[-1]
        waiting, start = [Cuts(rest.text[last:], rest.token[last:], rest.ends_sentence[last:])], start + last
    if has_begun:
        rest = _joined(waiting)
        (span,) = _spans(rest, most_spaces)
        yield _token(rest, start, span, len(rest.text))


def _joined(stretches: Sequence[Cuts]) -> Cuts:
    texts, token, ends_sentence = zip(*stretches, strict=True)
    return Cuts("".join(texts), np.concatenate(token), np.concatenate(ends_sentence))


def _token(cuts: Cuts, start: int, span: Span, stop: int) -> _Token:
    left, right = span
    is_multiword, ends_sentence = cuts.token[right - 1] == ENDS_MULTIWORD, cuts.ends_sentence[right - 1]
    return _Token(start + left, cuts.text[left:right], bool(is_multiword), int(ends_sentence), cuts.text[right:stop])


def _spans(cuts: Cuts, most_spaces: int) -> list[Span]:
    """Return the spans of the tokens. They end where the segmenter says and before gaps that are not inside a token."""
    text, in_token = cuts.text, ~is_gap(cuts.text)
    ends = in_token & ((cuts.token != WITHIN) | ~np.append(in_token[1:], False))
    starts = in_token & ~np.append(False, (in_token & ~ends)[:-1])
    found: list[Span] = []
    n_spaces = 0  # in the last token found
    for left, right in zip(np.flatnonzero(starts).tolist(), (np.flatnonzero(ends) + 1).tolist(), strict=True):
        if found and n_spaces < most_spaces and cuts.token[found[-1][1] - 1] == WITHIN:
            first, end = found[-1]
            if left == end + 1 and unicodedata.category(text[end]) == "Zs" and right - first <= LONGEST_TOKEN:
                found[-1] = (first, right)
                n_spaces += 1
                continue
        n_spaces = 0
        found += [(each, min(each + LONGEST_TOKEN, right)) for each in range(left, right, LONGEST_TOKEN)]
    return found


def is_gap(text: str) -> np.ndarray:
    """Return the mask of characters that are white space or cannot be in a CoNLL-U cell: NUL, half a surrogate pair."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    different, place = np.unique(codes, return_inverse=True)
    gaps = [chr(code).isspace() or not code or 0xD800 <= code <= 0xDFFF for code in different.tolist()]
    found: np.ndarray = np.array(gaps, dtype=bool)[place.reshape(-1)]
    return found


def has_blank_line(gap: str) -> bool:
    r"""Return whether two line breaks have only white space between them. A form feed is not a line break.

    >>> has_blank_line(" \r\n \n"), has_blank_line("\r\n"), has_blank_line("\n\x00\n"), has_blank_line("\f\n")
    (True, False, False, False)
    """
    return _BLANK_LINE.search(gap) is not None


def _segmented(
    tokens: Sequence[_Token],
    multiwords: Multiwords,
    number: int,
    *,
    before: str,
    follows_blank: bool,
    is_last: bool = False,
) -> Segmented:
    """Return the sentence of these tokens; `before` is the gap before the first token of the text."""
    ids, forms, notes, spans = list[str](), list[str](), list[str](), list[Span]()
    word_lines = list[int]()
    for place, token in enumerate(tokens):
        words = multiwords.split(token.form) if token.is_multiword else (token.form,)
        first = len(word_lines) + 1
        misc = misc_of(token.gap, before="" if place else before, is_last=is_last and place == len(tokens) - 1)
        if len(words) > 1:
            ids.append(f"{first}-{first + len(words) - 1}")
            forms.append(token.form)
            notes.append(misc)
            misc = BLANK
        for word, form in enumerate(words, start=first):
            word_lines.append(len(ids))
            ids.append(str(word))
            forms.append(form)
            notes.append(misc)
            spans.append((token.start, token.start + len(token.form)))
    text = "".join([token.form + " " * bool(token.gap) for token in tokens]).rstrip(" ")
    comments = (*(["# newpar"] if follows_blank else []), f"# sent_id = {number}", f"# text = {text}")
    blank = (BLANK,) * len(ids)
    columns = (tuple(ids), tuple(forms), *[blank] * 7, tuple(notes))
    lines = range(len(ids)) if len(ids) == len(word_lines) else tuple(word_lines)
    return Segmented(Sentence(comments, columns, lines, number=number), tuple(spans))
