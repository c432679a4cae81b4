"""Turn scores of each character into decisions, and these into CoNLL-U sentences, without losing a character.

A line end is a boundary in lists, tables and verse, but not in wrapped text. Lines are wrapped if the first word of
most lines would not have fitted on the line before. In wrapped text the network decides alone. Elsewhere a line end is
a boundary unless the network rules it out. The mark of an item, such as `-` or `1.`, belongs to the item.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp
from typing import NamedTuple, TypeVar

import numpy as np

from treefine.segmenter.network import ENDS, ENDS_MULTIWORD, WITHIN
from treefine.treebank.raw_text import Multiwords, RawText, Span, misc_of
from treefine.treebank.sentence import BLANK, Sentence

MANY_TOKENS = 100  # tokens; a longer sentence also ends where `ends_sentence` is IF_LONG
IF_LONG = 2
MOST_TOKENS = 10_000  # in a sentence, so that it fits into memory; a longer sentence is split
LONGEST_TOKEN = 65_536  # characters, also because of memory
REACH = 8  # lines on either side of a line end that are compared
LONGEST_LINE = 1000  # characters; a longer line is split into pieces, to limit memory
NARROW_LINE = 40  # characters; nobody wraps text into narrower lines
_EASILY = 0.95  # of the width of the longest line, because some text is wrapped unevenly
POSSIBLE = -5.0  # the lowest score of a possible boundary: a probability of 0.7%
POSSIBLE_IF_NARROW = -6.5  # the same where no line is longer than NARROW_LINE: 0.15%
_MOST = 0.8  # the share of line ends nearby that must be possible boundaries
_LONGEST_WORD = 20  # characters; Chinese and Japanese lines have no spaces
_ITEM = re.compile(r"\s*([-*+•‣◦–—]|#{1,6}|(?:\d{1,3}|[A-Za-z])[.)])\s+\S")
_HEADING = re.compile(r"#{1,6}\s+\S")
_CELLS = re.compile(r"\S\s*[\t|]|,[^\s,]+,\S|;.*\S;|\S {3,}\S")
_BLANK_LINE = re.compile(r"(\r\n|\r(?!\n)|\n)[^\S\r\n]*[\r\n]")


class Scored(NamedTuple):
    r"""A stretch of text without \r\n, and what the network says about each of its characters."""

    text: str
    token: np.ndarray  # WITHIN, ENDS or ENDS_MULTIWORD
    sentence: np.ndarray  # score of the end of a sentence; above zero, the sentence ends


class Cuts(NamedTuple):
    """A stretch of text, and a segmenter's decisions about each of its characters."""

    text: str
    token: np.ndarray  # WITHIN, ENDS or ENDS_MULTIWORD
    ends_sentence: np.ndarray  # whether the sentence ends too, if a token ends here: 0, 1 or IF_LONG
    doubt: np.ndarray  # -log of the probability that `ends_sentence` is right; 0 if it is certain or not known


_Stretch = TypeVar("_Stretch", Scored, Cuts)


@dataclass(frozen=True, slots=True)
class Segmented:
    """A sentence found in a text, with the offsets of its words in that text."""

    sentence: Sentence
    spans: tuple[Span, ...]  # of each word; the words of a multiword token share its span
    boundary_confidence: float = (
        1.0  # the probability that it starts and ends here and contains no other boundary; 1 if not known
    )


class _Line(NamedTuple):
    text: str  # with its line end
    scored: Scored
    width: int  # in characters, without white space at its end; a piece of a long line has LONGEST_LINE
    first: int  # length of its first word
    score: float  # of its last visible character
    is_piece: bool  # a long line continues after it


def cuts_of(stretches: Iterable[Scored], *, are_log_odds: bool = False) -> Iterator[Cuts]:
    """Yield the decisions about a text that comes in stretches, with line ends taken into account.

    With `are_log_odds`, the scores are calibrated, so that they also say how much a decision is in doubt. A decision
    about a line end that overrides a score counts as certain.
    """
    lines, n_done, is_start = list[_Line](), 0, True  # whether a sentence starts with the next line
    for new, is_end in _in_lines(stretches):
        lines += new
        stop = len(lines) if is_end else len(lines) - REACH
        if stop <= n_done:
            continue
        text, token, sentence = joined_stretches([each.scored for each in lines[n_done:stop]])
        ends, start = (sentence > 0).astype(np.int8), 0
        doubt = np.logaddexp(0, -abs(sentence)) if are_log_odds else np.zeros(len(text), np.float32)
        for place in range(n_done, stop):
            line = lines[place]
            if is_start and (item := _ITEM.match(line.text)):
                mark = slice(start + item.start(1), start + item.end(1))
                ends[mark], doubt[mark] = 0, 0  # it is not a sentence
            last = start + len(line.text.rstrip()) - 1
            if last >= start and not ends[last]:
                ends[last] = _decision(lines, place)
                doubt[last] *= ends[last] != 1
            is_start = not line.width or (last >= start and bool(ends[last] == 1))
            start += len(line.text)
        yield Cuts(text, token, ends, doubt)
        n_done = min(stop, REACH)
        del lines[: stop - n_done]


def _in_lines(stretches: Iterable[Scored]) -> Iterator[tuple[list[_Line], bool]]:
    """Yield the complete lines of the text after each stretch, and at last the rest, with True."""
    rest, is_inside = Scored("", np.zeros(0, np.int8), np.zeros(0, np.float32)), False
    for stretch in stretches:
        lines, start = list[_Line](), 0
        rest = joined_stretches([rest, stretch])
        while True:
            stop = rest.text.find("\n", start, start + LONGEST_LINE) + 1
            if not stop and len(rest.text) - start < LONGEST_LINE:
                break
            stop = stop or start + LONGEST_LINE
            lines.append(_line(rest, start, stop, follows_piece=is_inside))
            start, is_inside = stop, lines[-1].is_piece
        rest = part(rest, start, len(rest.text))
        yield lines, False
    yield ([_line(rest, 0, len(rest.text), follows_piece=is_inside)] if rest.text else []), True


def _line(of: Scored, start: int, stop: int, *, follows_piece: bool) -> _Line:
    text = of.text[start:stop]
    width, is_piece = len(text.rstrip()), len(text) == LONGEST_LINE and not text.endswith("\n")
    score = float(of.sentence[start + width - 1]) if width else 0.0
    first = text.split(None, 1)[0] if width else ""
    width = LONGEST_LINE if is_piece or follows_piece else width
    return _Line(text, part(of, start, stop), width, min(len(first), _LONGEST_WORD), score, is_piece)


def _decision(lines: Sequence[_Line], place: int) -> int:
    """Return whether the end of this line is a boundary: 0 if the network decides, 1, or IF_LONG."""
    if lines[place].is_piece or place + 1 == len(lines) or not lines[place + 1].width:
        return 0
    first, stop = place, place + 2
    while first > max(0, place - REACH) and lines[first - 1].width:
        first -= 1
    while stop < min(len(lines), place + 1 + REACH) and lines[stop].width:
        stop += 1
    near = lines[first:stop]
    longest = max((each.width for each in near if " " in each.text.strip()), default=0)  # a long URL is not wrapped
    width = max(NARROW_LINE, _EASILY * longest)
    line, following = lines[place : place + 2]
    if line.width + 1 + following.first <= width and (_ITEM.match(following.text) or _HEADING.match(line.text)):
        return 1
    has_room = [one.width + 1 + other.first <= width for one, other in pairwise(near)]
    if 2 * sum(has_room) <= len(has_room):
        return 0
    if _is_row(line.text.strip()) and _is_row(following.text.strip()):
        return 1
    limit = POSSIBLE_IF_NARROW if longest <= NARROW_LINE else POSSIBLE
    is_list = sum(each.score > limit for each in near[:-1]) >= _MOST * (len(near) - 1)
    return 1 if is_list and line.score > limit else IF_LONG


def _is_row(line: str) -> bool:
    r"""Return whether a line may be the row of a table: cells, one short word, or more digits than letters.

    >>> [_is_row(each) for each in ("a\tb", "| a b |", "a,b,c", "a; b; c", "a    b", "apple", "3.1 4.15 m")]
    [True, True, True, True, True, True, True]
    >>> [_is_row(each) for each in ("a, b, c", "a; b c", "1,000 dogs", "It ends.  It starts.")]
    [False, False, False, False]
    """
    if _CELLS.search(line) or (" " not in line and len(line) <= _LONGEST_WORD):
        return True
    return sum(map(str.isdigit, line)) > sum(map(str.isalpha, line))


class _Token(NamedTuple):
    start: int  # in the whole text
    form: str
    is_multiword: bool
    ends_sentence: int
    doubt: float
    gap: str  # after it


def sentences_of(
    cuts: Iterable[Cuts],
    multiwords: Multiwords,
    most_spaces: int = 0,
    treebank: str = "",
    *,
    blank_lines_end: bool = True,
) -> Iterator[Segmented]:
    """Yield the sentences of a text that comes in stretches. A token may contain `most_spaces` spaces.

    `treebank` is the code that the sentences get. A blank line always ends a sentence, unless `blank_lines_end` is
    False. Text of only white space has no sentence.
    """
    unfinished: list[_Token] = []
    previous = _Token(0, "", False, 0, 0.0, "")  # the last token of the sentence before, or the gap before the text
    number = 1
    waiting: list[_Token] | None = None  # a complete sentence, until it is known whether it is the last
    for token in _tokens(cuts, most_spaces):
        if not token.form:
            previous = token
            continue
        if waiting is not None:
            yield _segmented(waiting, multiwords, number, treebank, previous)
            number, previous, waiting = number + 1, waiting[-1], None
        is_long = token.ends_sentence == IF_LONG and len(unfinished) + 1 >= MANY_TOKENS
        is_cut = blank_lines_end and has_blank_line(token.gap)
        is_forced = is_long or is_cut or len(unfinished) + 1 == MOST_TOKENS
        unfinished.append(token._replace(doubt=0.0) if is_forced else token)
        if is_forced or token.ends_sentence == 1:
            waiting, unfinished = unfinished, []
    last = waiting or unfinished
    if last:
        last[-1] = last[-1]._replace(doubt=0.0)  # the end of the text is certain
        yield _segmented(last, multiwords, number, treebank, previous, is_last=True)


def _tokens(cuts: Iterable[Cuts], most_spaces: int) -> Iterator[_Token]:
    """Yield the tokens of the text. A first token without a form holds the gap before the text."""
    start = 0
    for stretch, spans in whole_tokens(cuts, most_spaces):
        if spans and not start:
            yield _Token(0, "", False, 0, 0.0, stretch.text[: spans[0][0]])
        stops = [*(left for left, _ in spans[1:]), len(stretch.text)]
        for (left, right), stop in zip(spans, stops, strict=False):  # text of only white space has no span
            _, token, ends, doubt = (each[right - 1] for each in stretch)
            form, gap = stretch.text[left:right], stretch.text[right:stop]
            yield _Token(start + left, form, bool(token == ENDS_MULTIWORD), int(ends), float(doubt), gap)
        start += len(stretch.text)


def whole_tokens(stretches: Iterable[_Stretch], most_spaces: int) -> Iterator[tuple[_Stretch, list[Span]]]:
    """Yield the text in stretches of whole tokens with their gaps, and the spans of the tokens in their stretch.

    The last token of a stretch waits for the next stretch, in which the token or its gap may continue.
    """
    waiting = list[_Stretch]()
    for stretch in stretches:
        waiting.append(stretch)
        if is_gap(stretch.text).all():
            continue  # do not search a long gap repeatedly
        rest = joined_stretches(waiting)
        *spans, (last, _) = token_spans(rest.text, rest.token, most_spaces)
        if spans:
            yield part(rest, 0, last), spans
        waiting = [part(rest, last, len(rest.text)) if spans else rest]
    if waiting:
        rest = joined_stretches(waiting)
        yield rest, token_spans(rest.text, rest.token, most_spaces)


def joined_stretches(stretches: Sequence[_Stretch]) -> _Stretch:
    """Return several stretches as one."""
    texts, *decisions = zip(*stretches, strict=True)
    return type(stretches[0])._make(["".join(texts), *map(np.concatenate, decisions)])


def part(stretch: _Stretch, start: int, stop: int) -> _Stretch:
    """Return a part of a stretch."""
    return type(stretch)._make([each[start:stop] for each in stretch])


def token_spans(text: str, token: np.ndarray, most_spaces: int) -> list[Span]:
    """Return the spans of the tokens. They end where the segmenter says and before gaps that are not inside a token."""
    in_token = ~is_gap(text)
    ends = in_token & ((token != WITHIN) | ~np.append(in_token[1:], False))
    starts = in_token & ~np.append(False, (in_token & ~ends)[:-1])
    spans: list[Span] = []
    n_spaces = 0  # in the last token
    for left, right in zip(np.flatnonzero(starts).tolist(), (np.flatnonzero(ends) + 1).tolist(), strict=True):
        if spans and n_spaces < most_spaces and token[spans[-1][1] - 1] == WITHIN:
            first, end = spans[-1]
            if left == end + 1 and unicodedata.category(text[end]) == "Zs" and right - first <= LONGEST_TOKEN:
                spans[-1] = (first, right)
                n_spaces += 1
                continue
        n_spaces = 0
        spans += [(each, min(each + LONGEST_TOKEN, right)) for each in range(left, right, LONGEST_TOKEN)]
    return spans


def is_gap(text: str) -> np.ndarray:
    """Return the mask of characters that are white space or cannot be in a CoNLL-U cell: NUL, half a surrogate pair."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    different, place = np.unique(codes, return_inverse=True)
    gaps = [chr(code).isspace() or not code or 0xD800 <= code <= 0xDFFF for code in different.tolist()]
    mask: np.ndarray = np.array(gaps, dtype=bool)[place.reshape(-1)]
    return mask


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
    treebank: str,
    previous: _Token,
    *,
    is_last: bool = False,
) -> Segmented:
    """Return the sentence of these tokens; `previous` is the token before it, or has the gap before the text."""
    ids, forms, notes, spans, word_lines = list[str](), list[str](), list[str](), list[Span](), list[int]()
    before = "" if previous.form else previous.gap
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
    starts_paragraph = bool(previous.form) and has_blank_line(previous.gap)
    comments = ("# newpar",) * starts_paragraph + (f"# sent_id = {number}", f"# text = {text}")
    blank = (BLANK,) * len(ids)
    columns = (tuple(ids), tuple(forms), *[blank] * 7, tuple(notes))
    lines = range(len(ids)) if len(ids) == len(word_lines) else tuple(word_lines)
    confidence = exp(-previous.doubt - sum([token.doubt for token in tokens]))
    sentence = Sentence(comments, columns, lines, number=number, treebank=treebank)
    return Segmented(sentence, tuple(spans), confidence)


# E-mail addresses, URLs, emoji and the like are too rare in treebanks for a network to learn. A treebank may split them
# in its own way, so training chooses the rules that agree with the treebank.

# Thai, Lao, Tibetan, Burmese, Khmer, kana and Han, which put no spaces between words, and their punctuation.
_UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u3000-\u301f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef"
_PART = re.compile(f"[^{_UNSPACED}]+")
_EMOJI = "[\u2190-\u2bff\u3030\u303d\U0001f000-\U0001faff]"
TITLES = "Mr Mrs Ms Dr Prof Sen Rep Gov Gen Capt Lt Col Sgt Rev approx vs".split()
_SHORTENED = "Inc Corp Co Ltd Jr Sr St Ave Blvd Dept Univ Bros Mt Ft No Vol Fig etc est Jan Feb Aug Sept Oct Nov Dec"
_PATTERNS = {
    "emoji": rf"{_EMOJI}(?:[\ufe0e\ufe0f\u20e3\u200d]|{_EMOJI})+",  # a row of them too, as in "!!!"
    "e-mail": r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "url": rf"(?<![^\W{_UNSPACED}])(?:https?://|www\.)[^\s<>\"]*[^\s<>\".,;:!?()\[\]{{}}'’”…*]/?",
    "mention": r"(?<![\w@])@[^\W\d]\w+",
    "heart": r"(?<!\S)</?3+(?!\S)",
    "date": r"(?<![\w-])\d{4}-\d{2}-\d{2}(?![\w-])",
    "C++": r"(?<!\w)(?:C\+\+|[CF]#)(?!\w)",
    "Q&A": r"(?<!\w)(?:Q&A|R&D)(?!\w)",
    "phone": r"(?<![\w-])(?:\d{3}-)?\d{3}-\d{4}(?![\w-])",
    "w/o": r"(?<![\w/])[wW]/[oO](?:ut)?(?![\w/])",
    "O'Brien": r"(?<!\w)[ODL]['’][A-Z]\w+",
    "title": rf"(?<!\w)(?:{'|'.join(TITLES)})\.(?=[ \u00a0]\w)",
    "heading": r"(?<!\S)#{2,6}(?!\S)",
    "word.": rf"(?<![\w.'’])(?!(?:{'|'.join(_SHORTENED.split() + TITLES)})\.)[A-Z]?[a-z]{{2,}}(?=\.(?:\s+[\"“]|\s*\Z))",
}
_BEFORE_PERIOD = "word."  # the spans of this rule are tokens: a name before `. "` is seldom an abbreviation
WHOLE_SPANS = {name: re.compile(pattern) for name, pattern in _PATTERNS.items()}
FEWEST_AGREE = 0.98  # of the spans that a rule finds in a treebank: the share that must be within one token


def with_whole_spans(token: np.ndarray, text: str, rules: Iterable[str]) -> np.ndarray:
    """Return the token decisions about a text, with no end within a span that stays whole by one of the rules.

    >>> with_whole_spans(np.full(4, 1), "I <3", ["heart"]).tolist()
    [1, 1, 0, 1]
    """
    token = token.copy()
    for name in rules:
        for start, stop in _kept_spans(name, text):
            token[start : stop - 1] = WITHIN
            if name == _BEFORE_PERIOD:
                token[stop - 1] = max(token[stop - 1], ENDS)  # it may end a multiword token
    return token


def _kept_spans(name: str, text: str) -> Iterator[Span]:
    """Yield the spans that a rule keeps whole. A letter of a script without spaces is not part of a span."""
    for match in WHOLE_SPANS[name].finditer(text):
        for part in _PART.finditer(text, match.start(), match.end()):
            yield part.span()


def agreeing_rules(text: RawText) -> tuple[str, ...]:
    """Return the names of the rules that agree with the tokens of a treebank; also those that find nothing in it."""
    ends = np.zeros(len(text.text), dtype=bool)
    ends[[stop - 1 for _, stop in text.spans]] = True
    cuts = {
        name: [
            ends[start : stop - 1].any() or (name == _BEFORE_PERIOD and not ends[stop - 1])
            for start, stop in _kept_spans(name, text.text)
        ]
        for name in WHOLE_SPANS
    }
    return tuple(name for name, each in cuts.items() if len(each) - sum(each) >= FEWEST_AGREE * len(each))
