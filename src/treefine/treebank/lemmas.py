"""Lemma scripts: how to make a lemma from a form, so that a tagger can predict lemmas of words it never saw.

A script removes letters from both ends of the form, adds others, and sets the case: `L|0|3y` makes `city` from
`Cities`. Where form and lemma share too little, the script is the lemma itself: `=be`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from difflib import SequenceMatcher
from functools import lru_cache

from treefine.treebank.sentence import BLANK

SCRIPT_OF_FORM = "K|0|0"  # the lemma is the form
_NUMBER = "N|0|0"
_LOWER = "L|"  # starts a script whose lemma is in lower case
_WHOLE = "="  # starts a script that is the lemma itself
_FEWEST_SHARED = 2  # letters that form and lemma must share in a row, unless one of them is shorter
_LONGEST_FORM = 200  # characters; longer forms have no script of their own
_SHORTEST_ENDING, _LONGEST_ENDING = 3, 6  # letters
_SCRIPT = re.compile(r"([LKTUN])\|([0-9]{0,9})[0-9]*([^|]*)\|([0-9]{0,9})[0-9]*(.*)", re.DOTALL)
_CASES: dict[str, Callable[[str], str]] = {
    "L": str.lower,
    "K": str,  # kept as in the form
    "T": str.title,
    "U": str.upper,
    "N": lambda form: form.replace(",", ""),  # numbers such as 2,000
}


@lru_cache(maxsize=20_000)
def script_of(form: str, lemma: str) -> str:
    """Return the script that makes this lemma from this form.

    >>> script_of("Cities", "city"), script_of("running", "run"), script_of("was", "be"), script_of("Paris", "Paris")
    ('L|0|3y', 'L|0|4', '=be', 'K|0|0')
    """
    if form == lemma:
        return SCRIPT_OF_FORM if form.lower() != form else "L|0|0"
    if len(form) > _LONGEST_FORM:  # a search for what they share would take long
        return _WHOLE + lemma
    if lemma_of(form, _NUMBER) == lemma:
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


@lru_cache(maxsize=20_000)
def lemma_of(form: str, script: str) -> str:
    """Apply a script to a form. The lemma is the form itself if the script does not apply to it."""
    if script.startswith(_WHOLE):
        return script[1:] or form
    match = _SCRIPT.fullmatch(script)
    if match is None:
        return form
    case, n_first, start, n_last, end = match.groups()
    first, stop = int(n_first or 0), len(form) - int(n_last or 0)
    lemma = _CASES[case](start + form[first:stop] + end) if first < stop else ""
    return form if lemma in ("", BLANK) else lemma


@lru_cache(maxsize=20_000)
def case_of(form: str) -> int:
    """Return the case of a form: 1 if it has no letters with case, 2 lower, 3 title, 4 upper, 5 mixed.

    >>> [case_of(form) for form in ("24/7", "dog", "Dog's", "I", "USA", "iPhone")]
    [1, 2, 3, 3, 4, 5]
    """
    letters = [each for each in form if each.isupper() or each.islower()]
    n_upper = sum(map(str.isupper, letters))
    if not letters or not n_upper:
        return 2 if letters else 1
    if n_upper == 1 and letters[0].isupper():
        return 3
    return 4 if n_upper == len(letters) else 5


def learned_rules(counted: Mapping[tuple[str, str, str], int], *, fewest: int = 1) -> tuple[str, ...]:
    """Return the rules for the scripts of words by their tag and ending, or their whole form, one per line.

    `counted` has the number of words with this form, tag and script. A line has a tag, a case and an ending (or ^ and a
    form), and a script, with tabs between them. Rare endings and forms, and those that others imply, have no rules.
    """
    scripts: dict[str, Counter[str]] = {}
    for (form, tag, script), number in counted.items():
        for key in _keys(form, tag):
            scripts.setdefault(key, Counter())[script] += number
    scripts = {key: each for key, each in scripts.items() if each.total() >= fewest}
    best = {key: max(each, key=lambda script: (each[script], script)) for key, each in scripts.items()}
    rules: dict[str, str] = {}
    for form, tag, _ in sorted(counted, key=lambda each: (each[1], each[0])):
        shorter = None
        for key in reversed(list(_keys(form, tag))):  # from the shortest ending to the whole form
            if key in best and shorter != best[key]:
                rules[key] = best[key]
            shorter = rules.get(key, shorter)
    for form, tag, _ in counted:
        whole = next(_keys(form, tag))
        if whole in best and script_by_rule(rules, form, tag) != best[whole]:
            rules[whole] = best[whole]
    return tuple(f"{key}\t{script}" for key, script in sorted(rules.items()))


def script_by_rule(rules: Mapping[str, str], form: str, tag: str) -> str | None:
    """Return the script for a form with this tag by its longest known ending, or None if no rule fits."""
    place, script = _longest(rules, form, tag)
    if script is None or not script.startswith(_LOWER) or form == form.lower():
        return script
    in_lower_case, other = _longest(rules, form.lower(), tag)
    return other if other is not None and other.startswith(_LOWER) and in_lower_case < place else script


def _longest(rules: Mapping[str, str], form: str, tag: str) -> tuple[int, str | None]:
    """Return the script of the first rule that fits, and its place among the keys of the form."""
    return next(((place, rules[key]) for place, key in enumerate(_keys(form, tag)) if key in rules), (0, None))


def _keys(form: str, tag: str) -> Iterator[str]:
    """Yield the keys of the rules that fit a form: its whole form, then its endings, the longest first."""
    yield f"{tag}\t^{form}"
    low, case = form.lower(), case_of(form)
    for length in range(min(_LONGEST_ENDING, len(low)), _SHORTEST_ENDING - 1, -1):
        yield f"{tag}\t{case}{low[-length:]}"
