"""Identify the language of a text by its letters, n-grams of letters and frequent words. Needs no torch.

The table `languages.json` has the most frequent n-grams and words of each language, counted in CC0 sentences of the
Common Voice project. `python -m benchmarks language --build` writes it.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

TABLE = "languages.json"
LONGEST_GRAM = 3  # letters; _ marks the start and the end of a word
RAREST = -9.0  # the logarithm of the probability of an n-gram that is not in the table of a language
PER_LEVEL = 0.5  # the table stores logarithms in steps of this size
SAMPLE = 2_000  # characters that are enough to identify a language
_SOFTEN = 5.0  # n-grams overlap, so their scores count less when probabilities are computed
_FEWEST_LETTERS, _FEWEST_OF_OTHER_SCRIPT = 100, 10  # for a warning
_FEW_LANGUAGES = 2  # a script of more languages, such as Cyrillic, has others that are not in the table
_CLEAR_MARGIN = 0.3  # per letter: the difference of scores for a warning
_FREQUENT_SHARE = 0.1  # of the words: how many must be frequent words for a warning; lists of names have fewer


class Identified(NamedTuple):
    """The most probable language of a text."""

    language: str  # the ISO 639 code; empty if the text has no letters, or is in the script of no known language
    sure: float  # the probability that this is right, from 0 to 1, if the language is one of the known languages


class LanguageTable(NamedTuple):
    """The known languages: their names, scripts, words and n-grams, by ISO 639 code."""

    names: dict[str, str]  # in English
    scripts: dict[str, tuple[str, ...]]  # the first words of the Unicode names of their letters
    words: dict[str, frozenset[str]]  # frequent words
    grams: dict[str, dict[str, float]]  # by n-gram: log probability above RAREST


def identify(text: str) -> Identified:
    """Return the most probable language of a text, and how sure that is. Longer texts are identified by their start.

    >>> identify("Der Hund schläft unter dem Tisch.").language, identify("Le chien dort sous la table.").language
    ('de', 'fr')
    >>> identify("12 %")
    Identified(language='', sure=0.0)
    """
    scores = _scores(text)
    if not scores:
        return Identified("", 0.0)
    best = max(scores, key=lambda each: scores[each])
    return Identified(best, 1 / sum(math.exp((score - scores[best]) / _SOFTEN) for score in scores.values()))


def code_of(language: str) -> str | None:
    """Return the code of a language by its English name or code; None if it is not known.

    >>> code_of("English"), code_of("EN"), code_of("Klingon")
    ('en', 'en', None)
    """
    asked = language.strip().lower()
    return next((code for code, name in table().names.items() if asked in (code, name.lower())), None)


def mismatch(text: str, languages: Collection[str]) -> str | None:
    """Describe the language of a text that is clearly in none of these languages, such as "looks German".

    Return None if it may be in one of them, if the text is too short, or if none of these languages is known.
    """
    known, text = table(), text[:SAMPLE]
    wanted = [each for each in languages if each in known.names]
    scripts = Counter(scripts_of(text))
    n_letters = scripts.total()
    if not wanted or n_letters < _FEWEST_OF_OTHER_SCRIPT:
        return None
    of_wanted = {script for each in wanted for script in known.scripts[each]}
    if 2 * sum(scripts[each] for each in of_wanted) < n_letters:
        (script, _), *_ = scripts.most_common(1)
        is_rare = 0 < len(_scores(text)) <= _FEW_LANGUAGES
        return f"looks {known.names[identify(text).language]}" if is_rare else f"is in {script.title()} script"
    scores = _scores(text)
    best = max(scores, key=lambda each: scores[each])
    margin = (scores[best] - max(scores.get(each, 0.0) for each in wanted)) / n_letters
    words = words_of(text)
    n_frequent = sum(word in known.words[best] for word in words)
    is_clear = margin > _CLEAR_MARGIN and n_frequent > _FREQUENT_SHARE * len(words)
    return f"looks {known.names[best]}" if n_letters >= _FEWEST_LETTERS and is_clear else None


@dataclass
class LanguageCheck:
    """Checks the start of some texts once; `languages` are the names or codes of the model's languages."""

    languages: Collection[str]
    _seen: str = field(default="", init=False)
    _next: int = field(default=0, init=False)  # the length at which the text is checked again

    def warning(self, text: str) -> str | None:
        """Return the warning about this text and those before it, if there is one and it was not returned before."""
        if not self.languages or len(self._seen) >= SAMPLE:
            return None
        self._seen += text[:SAMPLE] + "\n"
        if len(self._seen) < self._next:
            return None
        self._next = 2 * len(self._seen)
        codes = [code_of(each) for each in self.languages]
        known = [each for each in codes if each is not None]
        found = mismatch(self._seen, known) if len(known) == len(codes) else None
        if found is None:
            return None
        self.languages = ()
        names = " and ".join(table().names[each] for each in known)
        return f"The text {found}, but the model is for {names}; trees will be poor."


def grams(text: str) -> Counter[str]:
    """Count the n-grams of a text, in lower case. They do not cross word boundaries.

    >>> sorted(grams("To 2"))
    ['_t', '_to', 'o', 'o_', 't', 'to', 'to_']
    """
    found: Counter[str] = Counter()
    for word in words_of(text):
        marked = f"_{word}_"
        for length in range(1, LONGEST_GRAM + 1):
            found.update(marked[start : start + length] for start in range(len(marked) - length + 1))
    del found["_"]
    return found


@cache
def table() -> LanguageTable:
    """Read the table of languages, on first use."""
    read = json.loads(Path(__file__).with_name(TABLE).read_text(encoding="utf-8"))
    found: dict[str, dict[str, float]] = {}
    for code, language in read.items():
        for level, some in language["grams"].items():
            weight = -PER_LEVEL * int(level) - RAREST
            for gram in some.split():
                found.setdefault(gram, {})[code] = weight
    return LanguageTable(
        {code: each["name"] for code, each in read.items()},
        {code: tuple(each["scripts"].split()) for code, each in read.items()},
        {code: frozenset(each["words"].split()) for code, each in read.items()},
        found,
    )


def _scores(text: str) -> dict[str, float]:
    """Return the score of each language that is written in the main script of the text."""
    known, text = table(), text[:SAMPLE]
    scripts = Counter(scripts_of(text)).most_common(1)
    scores = {code: 0.0 for code in known.names if scripts and scripts[0][0] in known.scripts[code]}
    for gram, number in grams(text).items():
        for code, weight in known.grams.get(gram, {}).items():
            if code in scores:
                scores[code] += number * weight
    return scores


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case: letters with their accents and vowel signs."""
    plain = unicodedata.normalize("NFC", text).lower()
    return "".join([each if each.isalpha() or unicodedata.category(each)[0] == "M" else " " for each in plain]).split()


def scripts_of(text: str) -> Iterator[str]:
    """Yield the script of each letter, such as LATIN; HIRAGANA and KATAKANA are KANA."""
    for letter in filter(str.isalpha, text):
        script = _script(letter)
        if script:
            yield script


@cache
def _script(letter: str) -> str:
    first = unicodedata.name(letter, "").split(" ")[0].split("-")[0]
    return "KANA" if first in ("HIRAGANA", "KATAKANA") else first
