"""Rebuild the running text of a treebank, find its words in it, and split its multiword tokens into words."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from os.path import commonprefix
from typing import NamedTuple, TypeAlias

from treefine.treebank.sentence import BLANK, Sentence

Span: TypeAlias = tuple[int, int]  # [start, end) in a text
PARAGRAPH = "\n\n"  # between paragraphs and between documents, unless MISC says otherwise
_ESCAPES = {" ": r"\s", "\t": r"\t", "\r": r"\r", "\n": r"\n", "|": r"\p", "\\": r"\\"}
_MEANINGS = {escape: character for character, escape in _ESCAPES.items()}
_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{4}|\\.", re.DOTALL)
_START = re.compile(r"#\s*new(doc|par)\b")
_Words: TypeAlias = "tuple[str, ...]"
_REACH = 2  # a rule's key may include up to this many unchanged characters


class RawToken(NamedTuple):
    """A token as written in the text, and the gap after it."""

    form: str
    words: tuple[str, ...]  # just the form, unless it is a multiword token
    gap: str


class GapToken(NamedTuple):
    """A token of running text, with the white space on both sides of it."""

    form: str
    before: str
    after: str


_GAP_KINDS = 4  # nothing, spaces, a line break, a blank line
N_GAPS = _GAP_KINDS**2  # before and after a token


def gap_kinds(token: GapToken) -> int:
    r"""Return a number from 1 to N_GAPS for the kinds of white space before and after a token.

    >>> gap_kinds(GapToken("a", "", "")), gap_kinds(GapToken("a", " ", "\n")), gap_kinds(GapToken("a", "\n\n", "\n \n"))
    (1, 7, 16)
    """
    before, after = (
        min(gap.count("\n") or gap.count("\r"), 2) + 1 if gap.strip(" \t\xa0") else int(bool(gap))
        for gap in (token.before, token.after)
    )
    return before * _GAP_KINDS + after + 1


@dataclass(frozen=True, slots=True)
class RawText:
    """A text and its segmentation; `spans`, `words` and `ends_sentence` have one entry per token."""

    text: str
    spans: tuple[Span, ...]
    words: tuple[tuple[str, ...], ...]
    ends_sentence: tuple[bool, ...]


def raw_text(sentences: Iterable[Sentence]) -> RawText:
    """Return the text of these sentences and its segmentation."""
    before, cut = raw_sentences(sentences)
    return joined(cut, before=before)


def text_of(sentences: Iterable[Sentence]) -> str:
    """Return the text of these sentences. For the output of a segmenter, this is exactly its input."""
    return raw_text(sentences).text


def raw_sentences(sentences: Iterable[Sentence]) -> tuple[str, list[list[RawToken]]]:
    """Return the gap before the first token, and the tokens of each sentence with the gaps after them."""
    before, cut = "", list[list[RawToken]]()
    is_explicit = True  # whether the gap before the sentence is known, from MISC or because the text starts here
    for sentence in sentences:
        if not is_explicit and any(map(_START.match, sentence.comments)):
            cut[-1][-1] = cut[-1][-1]._replace(gap=PARAGRAPH)
        tokens, forms = list[RawToken](), sentence.forms
        for token in sentence.tokens():
            if not cut and not tokens:
                before = _note(token.misc, "SpacesBefore") or ""
            words = forms[token.words[0] - 1 : token.words[-1]] if len(token.words) > 1 else (token.form,)
            tokens.append(RawToken(token.form, words, gap_of(token.misc)))
        is_explicit = _note(token.misc, "SpacesAfter") is not None
        cut.append(tokens)
    if cut and not is_explicit:
        cut[-1][-1] = cut[-1][-1]._replace(gap="")  # nothing follows the last token unless MISC says so
    return before, cut


def joined(cut: Iterable[Sequence[RawToken]], *, before: str = "") -> RawText:
    """Join the tokens of sentences into a text."""
    parts, position = [before], len(before)
    spans, words, ends = list[Span](), list[tuple[str, ...]](), list[bool]()
    for sentence in cut:
        for token in sentence:
            parts += (token.form, token.gap)
            spans.append((position, position + len(token.form)))
            words.append(token.words)
            position += len(token.form) + len(token.gap)
        ends += [False] * (len(sentence) - 1) + [True]
    return RawText("".join(parts), tuple(spans), tuple(words), tuple(ends))


def gap_of(misc: str) -> str:
    """Return the gap after a token with this MISC: a space, unless MISC says otherwise."""
    if "SpaceAfter=No" in misc.split("|"):
        return ""
    after = _note(misc, "SpacesAfter")
    return " " if after is None else after


def misc_of(gap: str, *, before: str = "", is_last: bool = False) -> str:
    r"""Return the MISC value of a token with these gaps; the last token of a text records even a single space.

    >>> misc_of(" "), misc_of(""), misc_of("\n", before="\t")
    ('_', 'SpaceAfter=No', 'SpacesBefore=\\t|SpacesAfter=\\n')
    """
    notes = [f"SpacesBefore={escaped(before)}"] if before else []
    if not gap:
        notes.append("SpaceAfter=No")
    elif gap != " " or is_last:
        notes.append(f"SpacesAfter={escaped(gap)}")
    return "|".join(notes) or BLANK


def escaped(gap: str) -> str:
    r"""Escape whitespace for a cell: \s \t \r \n \p \\ as UDPipe does, other characters as \uXXXX."""
    return "".join([_ESCAPES.get(each) or f"\\u{ord(each):04x}" for each in gap])


def unescaped(cell: str) -> str:
    """Return the whitespace that `escaped` wrote; leave everything else as it is."""

    def meant(found: re.Match[str]) -> str:
        escape = found[0]
        return chr(int(escape[2:], 16)) if len(escape) > 2 else _MEANINGS.get(escape, escape)

    return _ESCAPE.sub(meant, cell)


def _note(misc: str, key: str) -> str | None:
    """Return the gap that MISC stores under this key, or None."""
    for note in misc.split("|"):
        name, equals, value = note.partition("=")
        if name == key and equals:
            return unescaped(value)
    return None


def documents(sentences: Sequence[Sentence]) -> list[range]:
    """Return the sentences of each paragraph, as a range of their indices in the list."""
    starts = [place for place, each in enumerate(sentences) if any(map(_START.match, each.comments))]
    return [range(first, stop) for first, stop in pairwise(sorted({0, *starts, len(sentences)}))]


def spans_in(text: str, sentence: Sentence) -> tuple[Span, ...]:
    """Return the span of each word in the text of its sentence; the span of a form that is not found is empty.

    >>> spans_in("Don't  go", Sentence.of_words(["Do", "n't", "x", "go"]))
    ((0, 2), (2, 5), (7, 7), (7, 9))
    """
    spans, place = list[Span](), 0
    for token in sentence.tokens():
        while place < len(text) and text[place].isspace():
            place += 1
        end = place + len(token.form) * text.startswith(token.form, place)
        spans += [(place, end)] * len(token.words)
        place = end
    return tuple(spans)


@dataclass(frozen=True)
class Multiwords:
    """Rules for splitting multiword tokens.

    A rule of `endings` applies to tokens that end with its key: its words replace a number of characters at the end of
    the token, and the rest is prefixed to the first word. A rule of `beginnings` is the mirror image.
    """

    forms: Mapping[str, _Words] = field(default_factory=dict)
    endings: Mapping[str, tuple[int, _Words]] = field(default_factory=dict)
    beginnings: Mapping[str, tuple[int, _Words]] = field(default_factory=dict)

    def split(self, form: str) -> _Words:
        """Return the words of a multiword token, or just the form if no rule applies.

        >>> Multiwords({"della": ("di", "la")}, endings={"ki": (2, ("", "ki"))}).split("evdeki")
        ('evde', 'ki')
        """
        if form in self.forms:
            return self.forms[form]
        low = lowered(form)
        words = self.forms.get(low) or self._by_rule(low)
        return _cased(words, form, low) if words else (form,)

    @cached_property
    def _changes_endings(self) -> bool:
        """Whether the language splits off endings, as Turkish does, rather than beginnings, as Hebrew does."""
        sizes = [[size for size, _ in rules.values()] for rules in (self.endings, self.beginnings)]
        of_ending, of_beginning = (sum(each) / max(1, len(each)) for each in sizes)  # characters that change
        return of_ending <= of_beginning

    def _by_rule(self, form: str) -> _Words | None:
        """Apply the longest rule that leaves a character unchanged, so that no word is empty."""
        for is_ending in (self._changes_endings, not self._changes_endings):
            rules = self.endings if is_ending else self.beginnings
            for reach in range(min(len(form) - 1, max(map(len, rules), default=0)), 0, -1):
                rule = rules.get(form[-reach:] if is_ending else form[:reach])
                if rule is not None:
                    (changed, becomes), kept = rule, len(form) - rule[0]
                    if is_ending:
                        return (form[:kept] + becomes[0], *becomes[1:])
                    return (*becomes[:-1], becomes[-1] + form[changed:])
        return None


def lowered(form: str) -> str:
    """Return the form in lower case with its length unchanged: the Turkish İ stays one letter."""
    return "".join("i" if each == "İ" else low if len(low := each.lower()) == 1 else each for each in form)


def learn_multiwords(sentences: Iterable[Sentence]) -> Multiwords:
    """Learn how a treebank splits its multiword tokens; if a token is split in several ways, use the most frequent."""
    seen: defaultdict[str, Counter[_Words]] = defaultdict(Counter)
    for sentence in sentences:
        words = sentence.forms
        for token in sentence.tokens():
            if len(token.words) > 1:
                seen[token.form][words[token.words[0] - 1 : token.words[-1]]] += 1
    forms = {form: splits.most_common(1)[0][0] for form, splits in seen.items()}
    rules: tuple[defaultdict[str, Counter[tuple[int, _Words]]], ...] = (defaultdict(Counter), defaultdict(Counter))
    for form, split in forms.items():
        low, low_words = lowered(form), tuple(map(lowered, split))
        for is_ending, found in zip((True, False), rules, strict=True):
            changed, becomes = _rule(low, low_words, is_ending=is_ending)
            for reach in range(max(changed, 1), min(changed + _REACH, len(low) - 1) + 1):
                found[low[-reach:] if is_ending else low[:reach]][changed, becomes] += 1
    endings, beginnings = ({key: each.most_common(1)[0][0] for key, each in found.items()} for found in rules)
    return Multiwords(forms, endings, beginnings)


def _rule(form: str, words: _Words, *, is_ending: bool) -> tuple[int, _Words]:
    """Return the number of characters to replace at the end (or the start) of the form, and the words to put there."""
    if not is_ending:
        changed, becomes = _rule(form[::-1], tuple(word[::-1] for word in words[::-1]), is_ending=True)
        return changed, tuple(word[::-1] for word in becomes[::-1])
    kept = len(commonprefix([form, words[0]]))
    return len(form) - kept, (words[0][kept:], *words[1:])


def _cased(words: _Words, form: str, low: str) -> _Words:
    """Give the words the case of the form: all capitals, a capital first letter, or neither."""
    if form == low:
        return words
    if "".join(words) == low:  # the words are parts of the form: each letter keeps its case
        ends = [sum(map(len, words[:number])) for number in range(len(words) + 1)]
        return tuple(form[start:stop] for start, stop in pairwise(ends))
    if len(form) > 1 and form.isupper():
        return tuple(map(str.upper, words))
    return (words[0][:1].upper() + words[0][1:], *words[1:]) if form[:1].isupper() else words
