"""Lemma scripts: how to make a lemma from a form, so that a tagger can predict lemmas of words it never saw.

A script removes letters from both ends of the form, adds others, and sets the case: `L|0|3y` makes `city` from
`Cities`. Where form and lemma share too little, the script is the lemma itself: `=be`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from difflib import SequenceMatcher
from functools import lru_cache

from treefine.treebank.sentence import BLANK

SCRIPT_OF_FORM = "K|0|0"  # the lemma is the form
_NUMBER = "N|0|0"
_WHOLE = "="  # starts a script that is the lemma itself
_FEWEST_SHARED = 2  # letters that form and lemma must share in a row, unless one of them is shorter
_MOST_GUESSED = 40  # scripts that are tried for a form
_MOST_DIGITS = 9  # of a number of letters; Python refuses to read thousands of digits
_CASES: dict[str, Callable[[str], str]] = {
    "L": str.lower,
    "K": str,  # kept as in the form
    "T": str.title,
    "U": str.upper,
    "N": lambda form: form.replace(",", ""),  # numbers such as 2,000
}


@lru_cache(maxsize=100_000)
def script_of(form: str, lemma: str) -> str:
    """Return the script that makes this lemma from this form.

    >>> script_of("Cities", "city"), script_of("running", "run"), script_of("was", "be"), script_of("Paris", "Paris")
    ('L|0|3y', 'L|0|4', '=be', 'K|0|0')
    """
    if form == lemma and form.lower() != form:
        return SCRIPT_OF_FORM
    if lemma != form and lemma_of(form, _NUMBER) == lemma:
        return _NUMBER
    low_form, low_lemma = form.lower(), lemma.lower()
    match = SequenceMatcher(None, low_form, low_lemma, autojunk=False).find_longest_match()
    if len(low_form) != len(form) or match.size < min(_FEWEST_SHARED, len(form), len(lemma)):
        return _WHOLE + lemma
    before, after = match.b, len(lemma) - match.b - match.size
    ends = (match.a, lemma[:before]), (len(form) - match.a - match.size, lemma[len(lemma) - after :])
    parts = "|".join(f"{n_removed}{added}" for n_removed, added in ends)
    for case in _CASES:
        script = f"{case}|{parts}"
        if lemma_of(form, script) == lemma:
            return script
    return _WHOLE + lemma


@lru_cache(maxsize=100_000)
def lemma_of(form: str, script: str) -> str:
    """Apply a script to a form. The lemma is the form itself if the script does not apply to it.

    >>> lemma_of("Ponies", "L|0|3y"), lemma_of("is", "=be"), lemma_of("ox", "L|0|3y")
    ('pony', 'be', 'ox')
    """
    if script.startswith(_WHOLE):
        return script[1:] or form
    case, _, edits = script.partition("|")
    first, _, last = edits.partition("|")
    (n_first, start), (n_last, end) = _edit(first), _edit(last)
    kept = form[n_first : len(form) - n_last]
    if case not in _CASES or not kept or n_first + n_last >= len(form):
        return form
    lemma = _CASES[case](start + kept + end)
    return form if lemma in ("", BLANK) else lemma


class Lexicon:
    """The words of a treebank with their scripts, which help with words that the encoder cannot spell.

    >>> lexicon = Lexicon({"dogs": "L|0|1", "box": "L|0|0", "foxes": "L|0|2"})
    >>> lexicon.seen("Dogs"), lexicon.seen("boxes"), lexicon.guess("boxes"), lexicon.guess("ox")
    ('L|0|1', None, 'L|0|2', None)
    """

    def __init__(self, scripts: Mapping[str, str]) -> None:
        self.scripts = scripts
        self._lemmas = {lemma_of(form, script).lower() for form, script in scripts.items()}
        counted = Counter(script for script in scripts.values() if not script.startswith(_WHOLE))
        self._frequent = [script for script, _ in counted.most_common(_MOST_GUESSED)]

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Lexicon:
        """Return the most frequent script of each form, from all forms and lemmas of a treebank."""
        counted: dict[str, Counter[str]] = {}
        for form, lemma in pairs:
            counted.setdefault(form, Counter())[script_of(form, lemma)] += 1
        return cls({form: scripts.most_common(1)[0][0] for form, scripts in sorted(counted.items())})

    def seen(self, form: str) -> str | None:
        """Return the script of a form in the treebank, in this case or in lower case; None if it is not there."""
        return self.scripts.get(form) or self.scripts.get(form.lower())

    def guess(self, form: str) -> str | None:
        """Return the most frequent script that makes a lemma of the treebank from a form, or None."""
        low = form.lower()
        return next((script for script in self._frequent if lemma_of(low, script).lower() in self._lemmas), None)


def _edit(edit: str) -> tuple[int, str]:
    """Return how many characters an edit removes, and what it adds."""
    digits = len(edit) - len(edit.lstrip("0123456789"))
    return int(edit[:digits][:_MOST_DIGITS] or 0), edit[digits:]
