"""Decide which line ends are sentence boundaries: those of lists, tables and verse, but not those of wrapped text.

Lines are wrapped if the first word of most lines would not have fitted on the line before. In wrapped text the network
decides alone. Elsewhere a line end is a boundary unless the network rules it out. The mark of an item, such as `-` or
`1.`, belongs to the item.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from treefine.segmenter.cut import IF_LONG, Cuts, Scored, joined_stretches, part

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


class _Line(NamedTuple):
    scored: Scored  # with its line end
    width: int  # in characters, without white space at its end; a piece of a long line has LONGEST_LINE
    first: int  # length of its first word
    score: float  # of its last visible character
    is_piece: bool  # a long line continues after it

    @property
    def text(self) -> str:
        return self.scored.text


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


def are_clear(scored: Scored, margin: float) -> bool:
    """Return whether no decision about a line end is closer than `margin`."""
    scores = [each.score for lines, _ in _in_lines([scored]) for each in lines]
    return not any(abs(score - limit) < margin for score in scores for limit in (POSSIBLE, POSSIBLE_IF_NARROW))


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
    return _Line(part(of, start, stop), width, min(len(first), _LONGEST_WORD), score, is_piece)


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
