"""Split multiword tokens into words as a treebank does: look up known forms, and split others by their endings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os.path import commonprefix
from typing import TypeAlias

from treefine.treebank.sentence import Sentence

_Words: TypeAlias = "tuple[str, ...]"
_REACH = 2  # a rule's key may include up to this many unchanged characters


@dataclass(frozen=True)
class Multiwords:
    """Rules for splitting multiword tokens.

    A rule of `endings` applies to tokens that end with its key. Its value is a number of characters and some words: the
    words replace this many characters at the end of the token, and the rest of the token is prefixed to the first word.
    A rule of `beginnings` is the mirror image: the rest of the token is appended to the last word.
    """

    forms: Mapping[str, _Words] = field(default_factory=dict)
    endings: Mapping[str, tuple[int, _Words]] = field(default_factory=dict)
    beginnings: Mapping[str, tuple[int, _Words]] = field(default_factory=dict)

    def split(self, form: str) -> _Words:
        """Return the words of a multiword token, or just the form if no rule applies.

        >>> known = Multiwords({"della": ("di", "la")}, endings={"ki": (2, ("", "ki"))})
        >>> known.split("Della"), known.split("evdeki"), known.split("x")
        (('Di', 'la'), ('evde', 'ki'), ('x',))
        """
        found = self.forms.get(form)
        if found is None:
            low = lowered(form)
            found = self.forms.get(low) or self._by_rule(low)
            found = found and _cased(found, form, low)
        return found or (form,)

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
                    return _applied(form, *rule, is_ending=is_ending)
        return None


def lowered(form: str) -> str:
    """Return the form in lower case with its length unchanged: the Turkish İ stays one letter.

    >>> lowered("İçin"), len("İçin".lower())
    ('için', 5)
    """
    return "".join("i" if each == "İ" else low if len(low := each.lower()) == 1 else each for each in form)


def learn_multiwords(sentences: Iterable[Sentence]) -> Multiwords:
    """Learn how a treebank splits its multiword tokens; if a token is split in several ways, use the most frequent."""
    seen: defaultdict[str, Counter[_Words]] = defaultdict(Counter)
    for sentence in sentences:
        words = sentence.forms
        for token in sentence.tokens():
            if len(token.words) > 1:
                seen[token.form][tuple(words[number - 1] for number in token.words)] += 1
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
    """Return the number of characters to replace at the end (or the start) of the form, and the words to put there.

    >>> _rule("della", ("di", "la"), is_ending=True), _rule("della", ("di", "la"), is_ending=False)
    ((4, ('i', 'la')), (3, ('di', '')))
    """
    if not is_ending:
        changed, becomes = _rule(form[::-1], tuple(word[::-1] for word in words[::-1]), is_ending=True)
        return changed, tuple(word[::-1] for word in becomes[::-1])
    kept = len(commonprefix([form, words[0]]))
    return len(form) - kept, (words[0][kept:], *words[1:])


def _applied(form: str, changed: int, becomes: _Words, *, is_ending: bool) -> _Words:
    kept = len(form) - changed
    if is_ending:
        return (form[:kept] + becomes[0], *becomes[1:])
    return (*becomes[:-1], becomes[-1] + form[changed:])


def _cased(words: _Words, form: str, low: str) -> _Words:
    """Give the words the case of the form: all capitals, a capital first letter, or neither."""
    if form == low:
        return words
    if "".join(words) == low:  # the words are parts of the form: each letter keeps its case
        ends = [sum(map(len, words[:number])) for number in range(len(words) + 1)]
        return tuple(form[start:stop] for start, stop in zip(ends, ends[1:], strict=False))
    if len(form) > 1 and form.isupper():
        return tuple(map(str.upper, words))
    return (words[0][:1].upper() + words[0][1:], *words[1:]) if form[:1].isupper() else words
