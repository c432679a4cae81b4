"""Identify the language of a text by its script, n-grams of letters and words. Needs no torch.

The table `languages.json` has the most frequent n-grams and words of each language. They were counted in CC0 sentences
of the Common Voice project and in the train files of UD treebanks with a CC BY-SA, CC BY or LGPL-LR licence; some
languages have only one of the two. `python -m benchmarks language` writes the table.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

TABLE = "languages.json"
LONGEST_GRAM = 4  # letters; _ marks the start and the end of a word
LONGEST_WORD = 12  # letters; a word up to this length is counted as a whole too
PER_LEVEL, N_LEVELS = 0.5, 26  # the table stores negative log probabilities in steps of this size, if they are lower
_LANE = 24  # bits for the score of a text in one language
SAMPLE = 2_000  # characters that are enough to identify a language
_SOFTEN, _SOFTEN_PER_CHAR = 6.0, 0.05  # n-grams overlap, so their scores count less, above all in long texts
_FEWEST_LETTERS, _FEWEST_OF_OTHER_SCRIPT = 60, 10  # for a warning
_FEW_LANGUAGES = 2  # a script of more languages, such as Cyrillic, has others that are not in the table
_CLEAR_MARGIN = 0.8  # per letter: the difference of scores for a warning
_FREQUENT_SHARE = 0.1  # of the words: how many must be frequent words for a warning; lists of names have fewer
_MOST_REPEATED = 20  # times that a word occurs on average in real text, and not in one that repeats itself
USUAL_LETTERS = 200  # of the texts from which `usual` was computed
_STRANGE = 4.0  # standard deviations: how strange a text of an unknown language is
_USUAL = 1.0  # the same: a text that is less strange is not searched for a second language
_REMEMBERED = 64  # texts whose scores are kept, because a text is identified and checked
_LONGEST_WORDS = 10  # letters per word: lists of medicines or species have longer words
_UNKNOWN = "is in an unknown language"
_MIXED_SHARE = 0.2  # of a text: how much must be in a second language
_SENTENCE_END = re.compile(r"(?<=[.!?…؟։।。！？])\s*|\n+")
_ADDRESS = re.compile(r"\S*[/@#\\]\S*")
SURE = 0.95  # probability below which a language is in doubt
_MANY_LANGUAGES = 5  # a warning names the languages of a model only if it has fewer


class Identified(NamedTuple):
    """The most probable language of a text."""

    language: str  # the ISO 639 code; empty if the text has no letters, or is in the script of no possible language
    sure: float  # the probability that this is right, from 0 to 1, if the language is one of the possible languages


class LanguageTable(NamedTuple):
    """The known languages: their names, scripts, words and n-grams, by ISO 639 code."""

    names: dict[str, str]  # in English
    scripts: dict[str, tuple[str, ...]]  # the first words of the Unicode names of their letters
    words: dict[str, frozenset[str]]  # frequent words
    usual: dict[str, tuple[float, float]]  # mean and standard deviation of `familiarity` in texts of this language
    grams: dict[str, dict[str, str]]  # n-grams with spaces between them, by level


def identify(text: str, among: Collection[str] | None = None) -> Identified:
    """Return the most probable language of a text, and how sure that is. Longer texts are identified by their start.

    `among` are the codes of the possible languages: all that are known, by default.

    >>> identify("Der Hund schläft unter dem Tisch.").language, identify("Le chien dort sous la table.").language
    ('de', 'fr')
    >>> identify("Hunden sover under bordet.", among=["en", "da"]).language
    'da'
    >>> identify("12 %")
    Identified(language='', sure=0.0)
    """
    scores = _scores(text, among)
    if not scores:
        return Identified("", 0.0)
    best = max(scores, key=lambda each: scores[each])
    soften = _SOFTEN + _SOFTEN_PER_CHAR * len(text[:SAMPLE])
    return Identified(best, 1 / sum(math.exp((score - scores[best]) / soften) for score in scores.values()))


def code_of(language: str) -> str | None:
    """Return the code of a language by its English name or code; None if it is not known.

    >>> code_of("English"), code_of("EN"), code_of("Klingon")
    ('en', 'en', None)
    """
    asked = language.strip().lower()
    return next((code for code, name in table().names.items() if asked in (code, name.lower())), None)


def mismatch(text: str, languages: Collection[str]) -> str | None:
    """Describe the language of texts that are clearly in none of these languages, such as "looks German".

    Return None if they may be in one of them, if they are too short, or if none of these languages is known. Languages
    that are not in the table and romanised text are noticed too, because few of their n-grams are known.
    """
    known, text = table(), text[:SAMPLE]
    wanted = [each for each in languages if each in known.names]
    scripts = scripts_of(text)
    n_letters = scripts.total()
    if not wanted or n_letters < _FEWEST_OF_OTHER_SCRIPT:
        return None
    of_wanted = {script for each in wanted for script in known.scripts[each]}
    if 2 * sum(scripts[each] for each in of_wanted) < n_letters:
        (script, _), *_ = scripts.most_common(1)
        is_rare = 0 < len(_scores(text)) <= _FEW_LANGUAGES
        return f"looks {known.names[identify(text).language]}" if is_rare else f"is in {script.title()} script"
    if n_letters < _FEWEST_LETTERS:
        return None
    words, scores = words_of(text), _scores(text)
    if not scores or len(words) > _MOST_REPEATED * len(set(words)):
        return None
    best = max(scores, key=lambda each: scores[each])
    margin = (scores[best] - max(scores.get(each, 0.0) for each in wanted)) / n_letters
    n_frequent = sum(word in known.words[best] for word in words)
    if margin > _CLEAR_MARGIN and n_frequent > _FREQUENT_SHARE * len(words):
        return f"looks {known.names[best]}"
    if strangeness(text) > _STRANGE:
        return f"{_UNKNOWN} or romanised" if "LATIN" in known.scripts[best] else _UNKNOWN
    return None


def strangeness(text: str) -> float:
    """Return by how many standard deviations a text has fewer known n-grams than is usual.

    The n-grams of a sentence are compared with those of its most probable language, so a text may have several. Return
    0 if the text has too few plain words, or is a list of long words.
    """
    n_letters, n_words, total = 0, 0, 0.0
    for language, part in _parts(text[:SAMPLE]).items():
        words = plain_words(part)
        n_own = sum(map(len, words))
        total += n_own * _distance(part, language)
        n_letters, n_words = n_letters + n_own, n_words + len(words)
    if n_letters < _FEWEST_LETTERS or n_letters > _LONGEST_WORDS * n_words:
        return 0.0
    return total / n_letters * min(1.0, math.sqrt(n_letters / USUAL_LETTERS))


def familiarity(words: Iterable[str], known: Collection[str]) -> float:
    """Return the share of the n-grams of three letters and more that are known."""
    counts = {gram: number for gram, number in grams(" ".join(words)).items() if len(gram) > 2}
    return sum(number for gram, number in counts.items() if gram in known) / max(1, sum(counts.values()))


def plain_words(text: str) -> list[str]:
    """Return the words without capitals, digits and inner punctuation: no names, addresses or code.

    >>> plain_words("See Anna, or (better) read_me.txt!")
    ['or', 'better']
    """
    words = [(token, words_of(token)) for token in text.split() if token == token.lower()]
    return [parts[0] for token, parts in words if len(parts) == 1 and not any(map(str.isdigit, token))]


def _mixture(text: str) -> str | None:
    """Name two languages if each is clearly the language of some sentences of a text, as in "mixes Thai and Hindi"."""
    parts = _parts(text[:SAMPLE])
    if len(parts) < 2:
        return None
    first, second = sorted(parts, key=lambda each: -len(parts[each]))[:2]
    is_large = len(parts[second]) >= _MIXED_SHARE * len(text[:SAMPLE])
    descriptions = [mismatch(parts[first], [second]), mismatch(parts[second], [first])] if is_large else [None]
    are_clear = all(each is not None and not each.startswith(_UNKNOWN) for each in descriptions)
    return f"mixes {table().names[first]} and {table().names[second]}" if are_clear else None


@lru_cache(maxsize=_REMEMBERED)
def _parts(text: str) -> dict[str, str]:
    """Return the sentences in each language, without addresses. A text of usual words is in one language."""
    parts, text = defaultdict[str, list[str]](list), _ADDRESS.sub(" ", text)
    language, scripts = identify(text).language, scripts_of(text)
    if language and max(scripts.values()) > (1 - _MIXED_SHARE) * scripts.total() and _distance(text, language) < _USUAL:
        return {language: text}
    for sentence in _SENTENCE_END.split(text):
        parts[identify(sentence).language].append(sentence)
    return {language: " ".join(sentences) for language, sentences in parts.items() if language}


@lru_cache(maxsize=_REMEMBERED)
def _distance(text: str, language: str) -> float:
    """Return by how many standard deviations a text has fewer known n-grams than usual in this language."""
    mean, spread = table().usual[language]
    return (mean - familiarity(plain_words(text), _packed_weights((language,)))) / spread


@dataclass
class LanguageCheck:
    """Checks the start of some texts once; `languages` are the names or codes of the model's languages.

    If it `guesses`, the language is identified, and it also warns about a text that mixes languages or is hard to tell.
    """

    languages: Collection[str]
    guesses: bool = False
    _seen: str = field(default="", init=False)
    _next: int = field(default=0, init=False)  # the length at which the text is checked again

    def warning(self, text: str) -> str | None:
        """Return the warning about this text and those before it, if there is one and it was not returned before.

        If the language is guessed, each text is checked on its own.
        """
        codes = [code_of(each) for each in self.languages]
        known = [each for each in codes if each is not None]
        if not known or len(known) < len(codes) or len(self._seen) >= SAMPLE:
            return None
        if self.guesses:
            return _warning_about_guess(text, known)
        self._seen += text[:SAMPLE] + "\n"
        if len(self._seen) < self._next:
            return None
        self._next = 2 * len(self._seen)
        if description := mismatch(self._seen, known):
            self.languages = ()
            return _warning(description, known)
        return None


def _warning(description: str, known: Collection[str]) -> str:
    names = " and ".join(table().names[each] for each in known)
    is_for = names if len(known) < _MANY_LANGUAGES else f"{len(known)} other languages"
    return f"The text {description}, but the model is for {is_for}; trees will be poor."


def _warning_about_guess(text: str, known: Collection[str]) -> str | None:
    """Return a warning about a text that is in none of the known languages, mixes two, or is hard to identify."""
    if description := mismatch(text, known):
        return _warning(description, known)
    guess, description = identify(text, known), _mixture(text)
    if description is None and guess.sure < SURE:
        second = identify(text, [each for each in known if each != guess.language]).language
        description = "may be " + " or ".join(sorted(table().names[each] for each in (guess.language, second) if each))
    if description is None or not guess.language:
        return None
    return (
        f"The text {description}; it is parsed as {table().names[guess.language]}. If that is wrong, name its language."
    )


def grams(text: str) -> Counter[str]:
    """Count the n-grams of a text and its words, in lower case. N-grams do not cross word boundaries.

    >>> sorted(grams("To 2"))
    ['_t', '_to', '_to_', 'o', 'o_', 't', 'to', 'to_']
    >>> "_words_" in grams("some words")
    True
    """
    counts: Counter[str] = Counter()
    for word in words_of(text):
        marked = f"_{word}_"
        for length in range(1, LONGEST_GRAM + 1):
            counts.update([marked[start : start + length] for start in range(len(marked) - length + 1)])
        if LONGEST_GRAM < len(marked) <= LONGEST_WORD + 2:
            counts[marked] += 1
    del counts["_"]
    return counts


@cache
def table() -> LanguageTable:
    """Read the table of languages, on first use."""
    read = json.loads(Path(__file__).with_name(TABLE).read_text(encoding="utf-8"))
    return LanguageTable(
        {code: each["name"] for code, each in read.items()},
        {code: tuple(each["scripts"].split()) for code, each in read.items()},
        {code: frozenset(each["words"].split()) for code, each in read.items()},
        {code: tuple(each["usual"]) for code, each in read.items()},
        {code: each["grams"] for code, each in read.items()},
    )


def _scores(text: str, among: Collection[str] | None = None) -> dict[str, float]:
    """Return the score of each language that is written in the main script of the text.

    A score is the logarithm of the probability of the n-grams, above that of n-grams which are not in the table.
    """
    scores = _all_scores(text[:SAMPLE])
    return scores if among is None else {code: score for code, score in scores.items() if code in among}


@lru_cache(maxsize=_REMEMBERED)
def _all_scores(text: str) -> dict[str, float]:
    known, scripts = table(), scripts_of(text).most_common(1)
    codes = [code for code in known.scripts if scripts and scripts[0][0] in known.scripts[code]]
    weights = _packed_weights(tuple(codes))
    packed = sum([number * weights.get(gram, 0) for gram, number in grams(text).items()])
    return {code: PER_LEVEL * (packed >> _LANE * place & (1 << _LANE) - 1) for place, code in enumerate(codes)}


@cache
def _packed_weights(languages: tuple[str, ...]) -> dict[str, int]:
    """Return the weights of each n-gram, in levels: one integer that has `_LANE` bits per language.

    One multiplication and one addition per n-gram then change the scores of all these languages.
    """
    packed: dict[str, int] = defaultdict(int)
    for place, code in enumerate(languages):
        for level, some in table().grams[code].items():
            weight = N_LEVELS - int(level) << _LANE * place
            for gram in some.split():
                packed[gram] += weight
    return dict(packed)


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case: letters with their accents and vowel signs."""
    plain = unicodedata.normalize("NFC", text).lower()
    return "".join([each if each.isalpha() or unicodedata.category(each)[0] == "M" else " " for each in plain]).split()


def scripts_of(text: str) -> Counter[str]:
    """Count the letters of each script, such as LATIN; HIRAGANA and KATAKANA are KANA."""
    scripts: Counter[str] = Counter()
    for letter, number in Counter(filter(str.isalpha, text)).items():
        first = unicodedata.name(letter, "").split(" ")[0].split("-")[0]
        scripts["KANA" if first in ("HIRAGANA", "KATAKANA") else first] += number
    del scripts[""]  # letters without a name
    return scripts
